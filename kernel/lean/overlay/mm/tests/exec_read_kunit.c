// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of exec_read(): blocks of 512 pages, a window of 32.
 */
#include <kunit/test.h>

#include "../exec_read.h"

#define BLOCK	512
#define WINDOW	32

static struct exec_read fault(unsigned int cached, signed char score)
{
	return (struct exec_read) {
		.block = BLOCK,
		.cached = cached,
		.window = WINDOW,
		.score = score,
	};
}

static void the_first_block_is_read_whole(struct kunit *test)
{
	struct exec_read read = fault(0, 0);
	struct exec_read_answer answer = exec_read(&read);

	KUNIT_EXPECT_TRUE(test, answer.whole);
	KUNIT_EXPECT_FALSE(test, answer.collapse);
	KUNIT_EXPECT_LT(test, answer.score, 0);
}

static void a_block_is_opened_by_the_window(struct kunit *test)
{
	struct exec_read read = fault(0, -1);
	struct exec_read_answer answer = exec_read(&read);

	KUNIT_EXPECT_FALSE(test, answer.whole);
	KUNIT_EXPECT_FALSE(test, answer.collapse);
	KUNIT_EXPECT_EQ(test, answer.nr, WINDOW);
	KUNIT_EXPECT_LT(test, answer.score, -1);
}

static void a_block_is_collapsed_when_half_of_it_is_cached(struct kunit *test)
{
	struct exec_read below = fault(BLOCK / 2 - WINDOW - 1, 0);
	struct exec_read at = fault(BLOCK / 2 - WINDOW, 0);
	struct exec_read after = fault(BLOCK / 2, 0);

	KUNIT_EXPECT_FALSE(test, exec_read(&below).collapse);
	KUNIT_EXPECT_TRUE(test, exec_read(&at).collapse);
	KUNIT_EXPECT_TRUE(test, exec_read(&after).collapse);
	/* It is counted once. */
	KUNIT_EXPECT_EQ(test, exec_read(&below).score, 0);
	KUNIT_EXPECT_GT(test, exec_read(&at).score, 0);
	KUNIT_EXPECT_EQ(test, exec_read(&after).score, 0);
}

static void whole_reads_go_on_while_the_program_goes_straight_on(struct kunit *test)
{
	struct exec_read first = fault(0, 0);
	struct exec_read next = fault(0, exec_read(&first).score);

	KUNIT_EXPECT_FALSE(test, exec_read(&next).whole);
	next.last = BLOCK;
	KUNIT_EXPECT_TRUE(test, exec_read(&next).whole);
	KUNIT_EXPECT_EQ(test, exec_read(&next).score, next.score);
}

static void reads_within_a_block_grow_and_end_with_it(struct kunit *test)
{
	struct exec_read read = fault(WINDOW, -1);

	read.at = WINDOW;
	read.last = WINDOW;
	KUNIT_EXPECT_EQ(test, exec_read(&read).nr, 2 * WINDOW);
	read.at = BLOCK - 1;
	KUNIT_EXPECT_EQ(test, exec_read(&read).nr, 1);
}

static void what_reclaim_took_is_read_by_the_window(struct kunit *test)
{
	struct exec_read read = fault(0, 127);

	read.short_of_memory = true;
	KUNIT_EXPECT_FALSE(test, exec_read(&read).whole);
	KUNIT_EXPECT_EQ(test, exec_read(&read).nr, WINDOW);
	KUNIT_EXPECT_EQ(test, exec_read(&read).score, 127);
}

static void text_without_a_block_is_read_by_the_window(struct kunit *test)
{
	struct exec_read read = fault(0, 127);

	read.block = 0;
	KUNIT_EXPECT_FALSE(test, exec_read(&read).whole);
	KUNIT_EXPECT_EQ(test, exec_read(&read).nr, WINDOW);
}

static void a_window_as_wide_as_a_block_is_read_in_blocks(struct kunit *test)
{
	struct exec_read read = fault(0, -128);

	read.window = BLOCK;
	KUNIT_EXPECT_TRUE(test, exec_read(&read).whole);
	read.cached = 1;
	KUNIT_EXPECT_FALSE(test, exec_read(&read).whole);
}

static void the_score_does_not_wrap(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, exec_read_score(-128, EXEC_READ_OPENED), -128);
	KUNIT_EXPECT_EQ(test, exec_read_score(127, EXEC_READ_HALF), 127);
}

static struct kunit_case exec_read_cases[] = {
	KUNIT_CASE(the_first_block_is_read_whole),
	KUNIT_CASE(a_block_is_opened_by_the_window),
	KUNIT_CASE(a_block_is_collapsed_when_half_of_it_is_cached),
	KUNIT_CASE(whole_reads_go_on_while_the_program_goes_straight_on),
	KUNIT_CASE(reads_within_a_block_grow_and_end_with_it),
	KUNIT_CASE(what_reclaim_took_is_read_by_the_window),
	KUNIT_CASE(text_without_a_block_is_read_by_the_window),
	KUNIT_CASE(a_window_as_wide_as_a_block_is_read_in_blocks),
	KUNIT_CASE(the_score_does_not_wrap),
	{}
};

static struct kunit_suite exec_read_suite = {
	.name = "exec_read",
	.test_cases = exec_read_cases,
};

kunit_test_suite(exec_read_suite);

MODULE_DESCRIPTION("KUnit tests of exec_read()");
MODULE_LICENSE("GPL");
