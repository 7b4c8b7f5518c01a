// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of mm/leaf_map.c: which PMDs a fault maps besides its own. A PMD
 * is 512 pages wide, as with 4K pages.
 */
#include <kunit/test.h>
#include <linux/exec_leaf.h>
#include <linux/mm.h>

#define PMD	512UL

static unsigned int neighbours(pgoff_t end, pgoff_t pgoff, unsigned int pmd_off,
			       pgoff_t read_end)
{
	struct exec_leaf_block block = {
		.vma_end = end,
		.order = 9,
		.pgoff = pgoff,
	};

	return leaf_neighbours(&block, pmd_off, read_end);
}

/* Those behind the fault's that the read brought whole. */
static void read_brings_neighbours(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, neighbours(100 * PMD, 5, 0, 4 * PMD), 3U);
	KUNIT_EXPECT_EQ(test, neighbours(100 * PMD, PMD - 1, 0, 4 * PMD), 3U);
	KUNIT_EXPECT_EQ(test, neighbours(100 * PMD, 3 * PMD, 3, 4 * PMD), 0U);
	KUNIT_EXPECT_EQ(test, neighbours(100 * PMD, 5, 0, 4 * PMD - 1), 2U);
}

/* Without a read, or with one that ended before, there are none. */
static void no_read_no_neighbours(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, neighbours(100 * PMD, 7 * PMD, 7, 0), 0U);
	KUNIT_EXPECT_EQ(test, neighbours(100 * PMD, 7 * PMD, 7, 2 * PMD), 0U);
}

static void vma_bounds_neighbours(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, neighbours(2 * PMD, 5, 0, 4 * PMD), 1U);
	KUNIT_EXPECT_EQ(test, neighbours(2 * PMD - 1, 5, 0, 4 * PMD), 0U);
	KUNIT_EXPECT_EQ(test, neighbours(10, 5, 0, 4 * PMD), 0U);
}

/* The next table of PMDs is not the fault's to look into. */
static void table_bounds_neighbours(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, neighbours(100 * PMD, 5, PTRS_PER_PMD - 2, 4 * PMD),
			1U);
	KUNIT_EXPECT_EQ(test, neighbours(100 * PMD, 5, PTRS_PER_PMD - 1, 4 * PMD),
			0U);
}

static struct kunit_case leaf_map_cases[] = {
	KUNIT_CASE(read_brings_neighbours),
	KUNIT_CASE(no_read_no_neighbours),
	KUNIT_CASE(vma_bounds_neighbours),
	KUNIT_CASE(table_bounds_neighbours),
	{}
};

static struct kunit_suite leaf_map_suite = {
	.name = "leaf_map",
	.test_cases = leaf_map_cases,
};

kunit_test_suite(leaf_map_suite);
