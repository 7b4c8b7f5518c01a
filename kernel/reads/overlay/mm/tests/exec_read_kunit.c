// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of exec_read(): blocks of 512 pages, a window of 32.
 */
#include <kunit/test.h>

#include "../exec_read.h"

#define BLOCK	512
#define WINDOW	32

static struct exec_read fault(unsigned int at, unsigned int before,
			      unsigned int cached)
{
	return (struct exec_read) {
		.block = BLOCK,
		.at = at,
		.before = before,
		.cached = cached,
		.window = WINDOW,
	};
}

static void a_block_is_opened_by_the_window(struct kunit *test)
{
	struct exec_read read = fault(0, 0, 0);
	struct exec_read_answer answer = exec_read(&read);

	KUNIT_EXPECT_FALSE(test, answer.whole);
	KUNIT_EXPECT_FALSE(test, answer.rest);
	KUNIT_EXPECT_EQ(test, answer.nr, WINDOW);
}

static void the_rest_is_read_when_half_of_a_block_is_cached(struct kunit *test)
{
	struct exec_read below = fault(9, 8, BLOCK / 2 - WINDOW - 1);
	struct exec_read at = fault(9, 8, BLOCK / 2 - WINDOW);

	KUNIT_EXPECT_FALSE(test, exec_read(&below).rest);
	KUNIT_EXPECT_TRUE(test, exec_read(&at).rest);
}

static void a_block_is_read_whole_straight_after_a_full_one(struct kunit *test)
{
	struct exec_read after = fault(0, BLOCK, 0);
	struct exec_read not_full = fault(0, BLOCK - 1, 0);
	struct exec_read begun = fault(0, BLOCK, 1);
	struct exec_read within = fault(1, BLOCK, 0);

	KUNIT_EXPECT_TRUE(test, exec_read(&after).whole);
	KUNIT_EXPECT_FALSE(test, exec_read(&not_full).whole);
	KUNIT_EXPECT_FALSE(test, exec_read(&begun).whole);
	KUNIT_EXPECT_FALSE(test, exec_read(&within).whole);
}

static void reads_within_a_block_grow_and_end_with_it(struct kunit *test)
{
	struct exec_read second = fault(WINDOW, WINDOW, WINDOW);
	struct exec_read third = fault(2 * WINDOW, 2 * WINDOW, 2 * WINDOW);
	struct exec_read hole = fault(2 * WINDOW, 2 * WINDOW - 1, 2 * WINDOW);
	struct exec_read last = fault(BLOCK - 1, BLOCK - 1, BLOCK - 1);

	KUNIT_EXPECT_EQ(test, exec_read(&second).nr, WINDOW);
	KUNIT_EXPECT_EQ(test, exec_read(&third).nr, 4 * WINDOW);
	KUNIT_EXPECT_EQ(test, exec_read(&hole).nr, WINDOW);
	KUNIT_EXPECT_EQ(test, exec_read(&last).nr, 1);
}

static void what_reclaim_took_is_read_by_the_window(struct kunit *test)
{
	struct exec_read read = fault(0, BLOCK, 0);
	struct exec_read dense = fault(9, 8, BLOCK / 2);

	read.short_of_memory = true;
	KUNIT_EXPECT_FALSE(test, exec_read(&read).whole);
	KUNIT_EXPECT_EQ(test, exec_read(&read).nr, WINDOW);
	dense.short_of_memory = true;
	KUNIT_EXPECT_FALSE(test, exec_read(&dense).rest);
	KUNIT_EXPECT_EQ(test, exec_read(&dense).nr, WINDOW);
}

static void text_without_a_block_is_read_by_the_window(struct kunit *test)
{
	struct exec_read read = fault(0, BLOCK, 0);

	read.block = 0;
	KUNIT_EXPECT_FALSE(test, exec_read(&read).whole);
	KUNIT_EXPECT_EQ(test, exec_read(&read).nr, WINDOW);
}

static void a_window_as_wide_as_a_block_is_read_in_blocks(struct kunit *test)
{
	struct exec_read read = fault(0, 0, 0);

	read.window = BLOCK;
	KUNIT_EXPECT_TRUE(test, exec_read(&read).whole);
	read.cached = 1;
	KUNIT_EXPECT_FALSE(test, exec_read(&read).whole);
}

static struct kunit_case exec_read_cases[] = {
	KUNIT_CASE(a_block_is_opened_by_the_window),
	KUNIT_CASE(the_rest_is_read_when_half_of_a_block_is_cached),
	KUNIT_CASE(a_block_is_read_whole_straight_after_a_full_one),
	KUNIT_CASE(reads_within_a_block_grow_and_end_with_it),
	KUNIT_CASE(what_reclaim_took_is_read_by_the_window),
	KUNIT_CASE(text_without_a_block_is_read_by_the_window),
	KUNIT_CASE(a_window_as_wide_as_a_block_is_read_in_blocks),
	{}
};

static struct kunit_suite exec_read_suite = {
	.name = "exec_read",
	.test_cases = exec_read_cases,
};

kunit_test_suite(exec_read_suite);

MODULE_DESCRIPTION("KUnit tests of exec_read()");
MODULE_LICENSE("GPL");
