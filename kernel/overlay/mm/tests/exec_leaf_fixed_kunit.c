// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of mm/exec_leaf_fixed.c: what is read for a fault by leaves of
 * one size.
 *
 * Sizes are in pages and the leaf is 32 pages wide, as on arm64 with 64K pages.
 */
#include <kunit/test.h>
#include <linux/bits.h>
#include <linux/exec_leaf.h>

#define ORDER	5
#define LEAF	BIT(ORDER)
#define NOTHING	ULONG_MAX

static struct exec_leaf_block block(pgoff_t start, pgoff_t end, pgoff_t pgoff)
{
	return (struct exec_leaf_block) {
		.vma_start = start,
		.vma_end = end,
		.order = ORDER,
		.pgoff = pgoff,
	};
}

static void expect_span(struct kunit *test, struct exec_leaf_span span,
			pgoff_t start, pgoff_t end, unsigned int order)
{
	KUNIT_EXPECT_EQ(test, span.start, start);
	KUNIT_EXPECT_EQ(test, span.start + span.nr, end);
	KUNIT_EXPECT_EQ(test, span.order, order);
}

/* A window of 128K is two pages of 64K: the leaf is read all the same. */
static void narrow_window_reads_a_leaf(struct kunit *test)
{
	struct exec_leaf_block b = block(0, 8192, 100);
	struct exec_leaf_span span = exec_leaf_span(&b, 2);

	expect_span(test, span, 96, 128, ORDER);
	exec_leaf_trim(&b, NOTHING, 0, 2, &span);
	expect_span(test, span, 96, 128, ORDER);
}

/* A wide window reads many leaves, and not more than it has room for. */
static void wide_window_reads_many_leaves(struct kunit *test)
{
	struct exec_leaf_block b = block(0, 8192, 100);
	struct exec_leaf_span span = exec_leaf_span(&b, 128);

	expect_span(test, span, 96, 96 + 128, ORDER);
	span = exec_leaf_span(&b, 33);
	expect_span(test, span, 96, 96 + 64, ORDER);
}

/* Nothing outside the VMA is read, be it in the same leaf or beyond it. */
static void vma_bounds_the_read(struct kunit *test)
{
	struct exec_leaf_block b = block(37, 200, 40);
	struct exec_leaf_span span = exec_leaf_span(&b, 2);

	expect_span(test, span, 37, 64, ORDER);
	b.pgoff = 199;
	span = exec_leaf_span(&b, 128);
	expect_span(test, span, 192, 200, ORDER);
	b.pgoff = 64;
	span = exec_leaf_span(&b, 1024);
	expect_span(test, span, 64, 200, ORDER);
}

/* A block that the VMA holds in part is read by the window, within itself. */
static void partial_block_is_read_narrowly(struct kunit *test)
{
	struct exec_leaf_block b = block(37, 200, 50);
	struct exec_leaf_span span = exec_leaf_span(&b, 8);

	exec_leaf_trim(&b, NOTHING, 2, 8, &span);
	expect_span(test, span, 48, 56, 2);

	/* Not before the VMA, though the folio's alignment would ask for it */
	b.pgoff = 38;
	span = exec_leaf_span(&b, 8);
	exec_leaf_trim(&b, NOTHING, 2, 8, &span);
	expect_span(test, span, 37, 45, 2);

	/* Not into the next block, where a leaf can be */
	b.pgoff = 62;
	span = exec_leaf_span(&b, 8);
	exec_leaf_trim(&b, NOTHING, 2, 8, &span);
	expect_span(test, span, 60, 64, 2);

	/* Not beyond the VMA */
	b.pgoff = 199;
	span = exec_leaf_span(&b, 128);
	exec_leaf_trim(&b, NOTHING, 2, 128, &span);
	expect_span(test, span, 196, 200, 2);
}

/* A mapping smaller than a leaf never asks for one. */
static void small_mapping_is_read_narrowly(struct kunit *test)
{
	struct exec_leaf_block b = block(0, LEAF - 1, 3);
	struct exec_leaf_span span = exec_leaf_span(&b, 2);

	exec_leaf_trim(&b, NOTHING, 0, 2, &span);
	expect_span(test, span, 3, 5, 0);
}

/* Leaves up to the first cached page, none from there on. */
static void cached_page_ends_the_read(struct kunit *test)
{
	struct exec_leaf_block b = block(0, 8192, 100);
	struct exec_leaf_span span = exec_leaf_span(&b, 128);

	exec_leaf_trim(&b, 170, 2, 128, &span);
	expect_span(test, span, 96, 160, ORDER);

	span = exec_leaf_span(&b, 128);
	exec_leaf_trim(&b, 128, 2, 128, &span);
	expect_span(test, span, 96, 128, ORDER);
}

/* A block with a cached page cannot become a leaf: a window, and inside it. */
static void cached_block_is_read_narrowly(struct kunit *test)
{
	struct exec_leaf_block b = block(0, 8192, 101);
	struct exec_leaf_span span = exec_leaf_span(&b, 2);

	exec_leaf_trim(&b, 96, 0, 2, &span);
	expect_span(test, span, 101, 103, 0);

	span = exec_leaf_span(&b, 128);
	exec_leaf_trim(&b, 127, 2, 128, &span);
	expect_span(test, span, 100, 128, 2);
}

static void check_read(struct kunit *test, const struct exec_leaf_block *b,
		       unsigned long ra_pages, pgoff_t cached,
		       unsigned int narrow)
{
	struct exec_leaf_span s = exec_leaf_span(b, ra_pages);

	/* The faulting page is not cached, and none before it is looked for. */
	if (cached < s.start || cached >= s.start + s.nr || cached == b->pgoff)
		cached = NOTHING;
	exec_leaf_trim(b, cached, narrow, ra_pages, &s);

	KUNIT_ASSERT_GE(test, s.start, b->vma_start);
	KUNIT_ASSERT_LE(test, s.start + s.nr, b->vma_end);
	KUNIT_ASSERT_LE(test, s.start, b->pgoff);
	KUNIT_ASSERT_GT(test, s.start + s.nr, b->pgoff);
	if (s.order == ORDER) {
		KUNIT_ASSERT_EQ(test, s.start % LEAF, 0UL);
		KUNIT_ASSERT_GE(test, s.nr, LEAF);
	} else {
		KUNIT_ASSERT_EQ(test, s.order, narrow);
		KUNIT_ASSERT_EQ(test, s.start / LEAF, (s.start + s.nr - 1) / LEAF);
	}
}

/*
 * Whatever is asked: the faulting page is read, the VMA is not left, and it is
 * whole leaves or a part of one.
 */
static void every_read_has_the_fault(struct kunit *test)
{
	static const unsigned long windows[] = { 1, 2, 8, 31, 32, 33, 128 };
	static const pgoff_t cached[] = { 40, 64, 77, 96, 150, NOTHING };
	pgoff_t start, end, pgoff;
	unsigned int i, j;

	for (start = 30; start < 70; start += 7) {
		for (end = start + 1; end < start + 140; end += 9) {
			pgoff = start + (end * 7) % (end - start);
			for (i = 0; i < ARRAY_SIZE(windows); i++) {
				struct exec_leaf_block b = block(start, end, pgoff);

				for (j = 0; j < ARRAY_SIZE(cached); j++) {
					check_read(test, &b, windows[i], cached[j], 0);
					check_read(test, &b, windows[i], cached[j], 2);
				}
			}
		}
	}
}

static struct kunit_case exec_leaf_fixed_cases[] = {
	KUNIT_CASE(narrow_window_reads_a_leaf),
	KUNIT_CASE(wide_window_reads_many_leaves),
	KUNIT_CASE(vma_bounds_the_read),
	KUNIT_CASE(partial_block_is_read_narrowly),
	KUNIT_CASE(small_mapping_is_read_narrowly),
	KUNIT_CASE(cached_page_ends_the_read),
	KUNIT_CASE(cached_block_is_read_narrowly),
	KUNIT_CASE(every_read_has_the_fault),
	{}
};

static struct kunit_suite exec_leaf_fixed_suite = {
	.name = "exec_leaf_fixed",
	.test_cases = exec_leaf_fixed_cases,
};

kunit_test_suite(exec_leaf_fixed_suite);
