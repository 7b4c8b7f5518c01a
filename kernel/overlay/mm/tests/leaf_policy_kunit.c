// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of the exec policy: the cases of its core, which the host runs,
 * too, and who may be given an alignment by mmap().
 */
#include <kunit/test.h>
#include <linux/exec_leaf.h>
#include <linux/fs.h>
#include <linux/leaf_ground.h>
#include <linux/mman.h>
#include <linux/pagemap.h>
#include <linux/sizes.h>

#include "leaf_policy_cases.h"

KUNIT_ARRAY_PARAM_DESC(leaf_read, leaf_read_cases, name);
KUNIT_ARRAY_PARAM_DESC(leaf_align, leaf_align_cases, name);
KUNIT_ARRAY_PARAM_DESC(leaf_elf, leaf_elf_cases, name);

static void leaf_read_test(struct kunit *test)
{
	const struct leaf_read_case *param = test->param_value;
	struct leaf_read_answer answer;

	leaf_case_read(param, &answer);
	KUNIT_EXPECT_STREQ(test, leaf_rule_name(answer.rule),
			   leaf_rule_name(param->rule));
	KUNIT_EXPECT_EQ(test, answer.size, param->size);
	KUNIT_EXPECT_EQ(test, answer.order, param->order);
	KUNIT_EXPECT_EQ(test, answer.collapse, param->collapse);
	if (param->size)
		KUNIT_EXPECT_EQ(test, answer.offset,
				param->offset + param->read_at);
}

static void leaf_align_test(struct kunit *test)
{
	const struct leaf_align_case *param = test->param_value;
	struct leaf_align_answer answer;

	leaf_case_align(param, &answer);
	KUNIT_EXPECT_EQ(test, answer.shift, param->shift);
}

static void leaf_elf_test(struct kunit *test)
{
	const struct leaf_elf_case *param = test->param_value;
	struct leaf_align_answer answer;

	leaf_case_elf(param, &answer);
	KUNIT_EXPECT_EQ(test, answer.shift, param->shift);
	KUNIT_EXPECT_EQ(test, answer.segment, param->segment);
}

/* A file of 8M with large folios */
static struct file *make_file(struct kunit *test)
{
	struct file *file = kunit_kzalloc(test, sizeof(*file), GFP_KERNEL);
	struct inode *inode = kunit_kzalloc(test, sizeof(*inode), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, file);
	KUNIT_ASSERT_NOT_NULL(test, inode);
	file->f_mapping = &inode->i_data;
	inode->i_data.host = inode;
	inode->i_size = SZ_8M;
	mapping_set_large_folios(file->f_mapping);
	return file;
}

/*
 * Whoever names a place gets it as without the policy: MAP_FIXED, a hint, the
 * lowest 2G. So do shared mappings, and those that hold no leaf.
 */
static void leaf_mmap_test(struct kunit *test)
{
	struct file *file = make_file(test);
	const unsigned long hint = SZ_1G;

	if (!leaf_policy_enabled())
		kunit_skip(test, "transparent huge pages are off");

	KUNIT_EXPECT_EQ(test, (unsigned long)SZ_2M,
			leaf_mmap_align(file, 0, SZ_8M, 0, MAP_PRIVATE));
	KUNIT_EXPECT_EQ(test, 0UL,
			leaf_mmap_align(file, hint, SZ_8M, 0, MAP_PRIVATE));
	KUNIT_EXPECT_EQ(test, 0UL,
			leaf_mmap_align(file, 0, SZ_8M, 0,
					MAP_PRIVATE | MAP_FIXED));
	if (MAP_32BIT)
		KUNIT_EXPECT_EQ(test, 0UL,
				leaf_mmap_align(file, 0, SZ_8M, 0,
						MAP_PRIVATE | MAP_32BIT));
	KUNIT_EXPECT_EQ(test, 0UL,
			leaf_mmap_align(file, 0, SZ_8M, 0, MAP_SHARED));
	KUNIT_EXPECT_EQ(test, 0UL,
			leaf_mmap_align(file, 0, SZ_4K, 0, MAP_PRIVATE));
	KUNIT_EXPECT_EQ(test, 0UL,
			leaf_mmap_align(NULL, 0, SZ_8M, 0, MAP_PRIVATE));
}

static struct kunit_case leaf_policy_cases[] = {
	KUNIT_CASE_PARAM(leaf_read_test, leaf_read_gen_params),
	KUNIT_CASE_PARAM(leaf_align_test, leaf_align_gen_params),
	KUNIT_CASE_PARAM(leaf_elf_test, leaf_elf_gen_params),
	KUNIT_CASE(leaf_mmap_test),
	{}
};

static struct kunit_suite leaf_policy_suite = {
	.name = "leaf_policy",
	.test_cases = leaf_policy_cases,
};

kunit_test_suite(leaf_policy_suite);

MODULE_DESCRIPTION("KUnit tests of the exec policy");
MODULE_LICENSE("GPL");
