// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of the leaf policy: which alignment a mapping or an ELF image
 * needs, and who may be given one by mmap().
 */
#include <kunit/test.h>
#include <linux/fs.h>
#include <linux/leaf_ground.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/pagemap.h>
#include <linux/sizes.h>

#include "leaf_align_cases.h"

KUNIT_ARRAY_PARAM_DESC(leaf_align, leaf_align_cases, name);
KUNIT_ARRAY_PARAM_DESC(leaf_elf, leaf_elf_cases, name);

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

	if (!hugepage_global_enabled())
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

static struct kunit_case leaf_align_kunit_cases[] = {
	KUNIT_CASE_PARAM(leaf_align_test, leaf_align_gen_params),
	KUNIT_CASE_PARAM(leaf_elf_test, leaf_elf_gen_params),
	KUNIT_CASE(leaf_mmap_test),
	{}
};

static struct kunit_suite leaf_align_suite = {
	.name = "leaf_align",
	.test_cases = leaf_align_kunit_cases,
};

kunit_test_suite(leaf_align_suite);

MODULE_DESCRIPTION("KUnit tests of alignment by the leaf policy");
MODULE_LICENSE("GPL");
