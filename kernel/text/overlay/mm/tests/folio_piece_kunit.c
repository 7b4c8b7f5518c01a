// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of mm/folio_piece.h: which pages of a folio a fault maps. The
 * folio has 32 pages, the page that faulted is its tenth, and VMA and page table
 * have room for all of it unless a test says otherwise.
 */
#include <kunit/test.h>
#include <linux/pgtable.h>

#include "../folio_piece.h"

#define NR	32UL
#define IDX	10UL
#define WHOLE	((unsigned long)PTRS_PER_PTE)

static const struct folio_place roomy = {
	.idx = IDX,
	.nr = NR,
	.vma_off = 1000,
	.vma_nr = 2000,
	.pte_off = 64 + IDX,
};

static void expect_piece(struct kunit *test, const struct folio_place *place,
			 unsigned long window, unsigned long before,
			 unsigned long after)
{
	struct folio_piece piece = folio_piece(place, window);

	KUNIT_EXPECT_EQ(test, piece.before, before);
	KUNIT_EXPECT_EQ(test, piece.nr, before + after);
}

static void what_fits_is_mapped_whole(struct kunit *test)
{
	expect_piece(test, &roomy, WHOLE, IDX, NR - IDX);
}

/* The VMA begins with the page before the fault's, ends with the one after. */
static void vma_cuts_folio(struct kunit *test)
{
	struct folio_place place = roomy;

	place.vma_off = 1;
	expect_piece(test, &place, WHOLE, 1, NR - IDX);
	place.vma_nr = 3;
	expect_piece(test, &place, WHOLE, 1, 2);
	place.vma_off = 0;
	place.vma_nr = 1;
	expect_piece(test, &place, WHOLE, 0, 1);
}

static void table_cuts_folio(struct kunit *test)
{
	struct folio_place place = roomy;

	place.pte_off = 3;
	expect_piece(test, &place, WHOLE, 3, NR - IDX);
	place.pte_off = PTRS_PER_PTE - 1;
	expect_piece(test, &place, WHOLE, IDX, 1);
}

/* A window is aligned in the page table, wherever the folio lies. */
static void window_cuts_folio(struct kunit *test)
{
	struct folio_place place = roomy;

	expect_piece(test, &roomy, 16, IDX, 16 - IDX);
	expect_piece(test, &roomy, 4, 2, 2);
	expect_piece(test, &roomy, 1, 0, 1);
	place.pte_off = 70;
	expect_piece(test, &place, 16, 6, 10);
}

/* The last page of a folio is in its piece, as is the first. */
static void ends_of_folio(struct kunit *test)
{
	struct folio_place place = roomy;

	place.idx = 0;
	expect_piece(test, &place, WHOLE, 0, NR);
	place.idx = NR - 1;
	place.pte_off = 64 + NR - 1;
	expect_piece(test, &place, WHOLE, NR - 1, 1);
}

/* Each window is narrower than the one before, and the last is a page. */
static void windows_end_with_a_page(struct kunit *test)
{
	unsigned long window = WHOLE;
	int tries;

	for (tries = 0; window > 1 && tries < 4; tries++) {
		unsigned long narrower = folio_piece_narrower(window);

		KUNIT_EXPECT_LT(test, narrower, window);
		window = narrower;
	}
	KUNIT_EXPECT_EQ(test, window, 1UL);
}

static struct kunit_case folio_piece_cases[] = {
	KUNIT_CASE(what_fits_is_mapped_whole),
	KUNIT_CASE(vma_cuts_folio),
	KUNIT_CASE(table_cuts_folio),
	KUNIT_CASE(window_cuts_folio),
	KUNIT_CASE(ends_of_folio),
	KUNIT_CASE(windows_end_with_a_page),
	{}
};

static struct kunit_suite folio_piece_suite = {
	.name = "folio_piece",
	.test_cases = folio_piece_cases,
};

kunit_test_suite(folio_piece_suite);
