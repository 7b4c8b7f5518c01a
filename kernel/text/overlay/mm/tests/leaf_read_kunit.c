// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of what is read: by the leaf policy for a fault on text, and
 * around faults on what is not; and of the account.
 */
#include <kunit/test.h>
#include <linux/exec_leaf.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/sizes.h>

#include "leaf_read_cases.h"

KUNIT_ARRAY_PARAM_DESC(leaf_read, leaf_read_cases, name);

static void leaf_read_test(struct kunit *test)
{
	const struct leaf_read_case *param = test->param_value;
	struct leaf_read_answer answer;

	leaf_case_read(param, &answer);
	KUNIT_EXPECT_EQ(test, answer.rule, param->rule);
	KUNIT_EXPECT_EQ(test, answer.size, param->size);
	KUNIT_EXPECT_EQ(test, answer.order, param->order);
	KUNIT_EXPECT_EQ(test, answer.collapse, param->collapse);
	if (param->size)
		KUNIT_EXPECT_EQ(test, answer.offset,
				param->offset + param->read_at);
}

struct data {
	struct address_space mapping;
	struct super_block sb;
	struct inode inode;
	struct file file;
	struct vm_area_struct vma;
};

/* A private mapping of data from page 64 of its file on */
static struct data *make_data(struct kunit *test)
{
	struct data *d = kunit_kzalloc(test, sizeof(*d), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, d);
	if (!leaf_policy_enabled())
		kunit_skip(test, "huge pages or the policy are switched off");
	d->mapping.host = &d->inode;
	d->inode.i_mapping = &d->mapping;
	d->inode.i_sb = &d->sb;
	d->file.f_mapping = &d->mapping;
	d->vma.vm_file = &d->file;
	d->vma.vm_pgoff = 64;
	vm_flags_init(&d->vma, VM_READ | VM_WRITE);
	mapping_set_large_folios(&d->mapping);
	return d;
}

static pgoff_t around(struct data *d, pgoff_t pgoff, unsigned long before)
{
	struct vm_fault vmf = {
		.vma = &d->vma,
		.pgoff = pgoff,
	};

	return exec_leaf_around(&vmf, before);
}

/* One page of text cached early would keep its block from being a leaf. */
static void read_around_stays_in_its_mapping(struct kunit *test)
{
	struct data *d = make_data(test);

	KUNIT_EXPECT_EQ(test, around(d, 65, 16), 64UL);
	KUNIT_EXPECT_EQ(test, around(d, 65, 1), 64UL);
	KUNIT_EXPECT_EQ(test, around(d, 65, 0), 65UL);
	KUNIT_EXPECT_EQ(test, around(d, 100, 16), 84UL);
	d->vma.vm_pgoff = 0;
	KUNIT_EXPECT_EQ(test, around(d, 65, 100), 0UL);
}

/* Data bases share their files, and others' files have no wide text. */
static void read_around_of_others_is_as_ever(struct kunit *test)
{
	struct data *d = make_data(test);

	mapping_set_folio_order_range(&d->mapping, 0, leaf_policy_order() - 1);
	KUNIT_EXPECT_EQ(test, around(d, 65, 16), 49UL);
	mapping_set_large_folios(&d->mapping);
	vm_flags_init(&d->vma, VM_READ | VM_WRITE | VM_SHARED);
	KUNIT_EXPECT_EQ(test, around(d, 65, 16), 49UL);
}

/* One account for a file, and none of another's. */
static void account_is_the_files(struct kunit *test)
{
	const struct leaf_account account = { .debt = 3, .lonely = 5 };
	struct data *d = make_data(test);
	struct leaf_account found;

	d->inode.i_ino = ~0UL - 7;
	d->mapping.nrpages = SZ_2M >> PAGE_SHIFT;
	leaf_account_keep(&d->inode, account);
	found = leaf_account_of(&d->inode);
	KUNIT_EXPECT_EQ(test, found.debt, account.debt);
	KUNIT_EXPECT_EQ(test, found.lonely, account.lonely);

	/* What it was for has left memory. */
	d->mapping.nrpages = 1;
	found = leaf_account_of(&d->inode);
	KUNIT_EXPECT_EQ(test, found.debt, 0);
	d->mapping.nrpages = SZ_2M >> PAGE_SHIFT;

	/* In the same place of the table, for only the sum is hashed */
	d->inode.i_ino -= 1;
	d->sb.s_dev += 1;
	found = leaf_account_of(&d->inode);
	KUNIT_EXPECT_EQ(test, found.debt, 0);
	KUNIT_EXPECT_EQ(test, found.lonely, 0);
}

static struct kunit_case leaf_read_kunit_cases[] = {
	KUNIT_CASE_PARAM(leaf_read_test, leaf_read_gen_params),
	KUNIT_CASE(read_around_stays_in_its_mapping),
	KUNIT_CASE(read_around_of_others_is_as_ever),
	KUNIT_CASE(account_is_the_files),
	{}
};

static struct kunit_suite leaf_read_suite = {
	.name = "leaf_read",
	.test_cases = leaf_read_kunit_cases,
};

kunit_test_suite(leaf_read_suite);

MODULE_DESCRIPTION("KUnit tests of what is read by the leaf policy");
MODULE_LICENSE("GPL");
