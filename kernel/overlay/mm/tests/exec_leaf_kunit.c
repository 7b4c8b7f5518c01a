// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of mm/exec_leaf.c: which mappings are text to be read by leaves,
 * what is read for a fault, and which page-table entries are set.
 *
 * Sizes are in pages and the leaf is 32 pages wide, as on arm64 with 64K pages,
 * unless a test says otherwise.
 */
#include <kunit/test.h>
#include <linux/bits.h>
#include <linux/exec_leaf.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/sizes.h>

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

static void expect_ptes(struct kunit *test, const struct exec_leaf_block *b,
			pgoff_t pte_off, pgoff_t read_end, pgoff_t first,
			pgoff_t last)
{
	pgoff_t from = 0, to = 0;

	exec_leaf_ptes(b, pte_off, read_end, &from, &to);
	KUNIT_EXPECT_EQ(test, from, first);
	KUNIT_EXPECT_EQ(test, to, last);
}

/* All of the leaf at once, wherever in it the fault is. */
static void fault_maps_the_leaf(struct kunit *test)
{
	struct exec_leaf_block b = block(0, 8192, 100);

	expect_ptes(test, &b, 100, 0, 96, 127);
	b.pgoff = 96;
	expect_ptes(test, &b, 96, 0, 96, 127);
	b.pgoff = 127;
	expect_ptes(test, &b, 127, 0, 96, 127);
}

/* All that was read for the fault, in whole leaves. */
static void fault_maps_what_it_read(struct kunit *test)
{
	struct exec_leaf_block b = block(0, 8192, 100);

	expect_ptes(test, &b, 100, 224, 96, 223);
	expect_ptes(test, &b, 100, 130, 96, 159);
	/* A read that ended before the block is not ours. */
	expect_ptes(test, &b, 100, 64, 96, 127);
}

/*
 * Part of a leaf is mapped only where there is no more of it. In particular
 * a block cut off at its start does not make up for it in the next one.
 */
static void vma_and_table_bound_the_mapping(struct kunit *test)
{
	struct exec_leaf_block b = block(37, 200, 40);

	expect_ptes(test, &b, 40, 0, 37, 63);
	b.pgoff = 195;
	expect_ptes(test, &b, 195, 8192, 192, 199);
	/* The VMA starts in the middle of a page table */
	b = block(64, 200, 64);
	expect_ptes(test, &b, 7, 0, 7, 38);
	/* A page table begins, or ends, within a block that is not congruent */
	b = block(0, 8192, 100);
	expect_ptes(test, &b, 1, 0, 0, 28);
	expect_ptes(test, &b, PTRS_PER_PTE - 2, 8192, PTRS_PER_PTE - 6,
		    PTRS_PER_PTE - 1);
}

struct text {
	struct address_space mapping;
	struct inode inode;
	struct file file;
	struct vm_area_struct vma;
};

static struct text *make_text(struct kunit *test)
{
	struct text *t = kunit_kzalloc(test, sizeof(*t), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, t);
	t->mapping.host = &t->inode;
	t->inode.i_mapping = &t->mapping;
	t->file.f_mapping = &t->mapping;
	t->file.f_inode = &t->inode;
	t->vma.vm_file = &t->file;
	mapping_set_large_folios(&t->mapping);
	vm_flags_init(&t->vma, VM_READ | VM_EXEC);
	return t;
}

/* The leaf is what the architecture says, and never above 2M. */
static void text_gets_the_leaf(struct kunit *test)
{
	struct text *t = make_text(test);
	unsigned int order = exec_leaf_order(&t->vma);

	KUNIT_EXPECT_EQ(test, order, exec_leaf_machine_order());
	KUNIT_EXPECT_LE(test, PAGE_SIZE << order, (unsigned long)SZ_2M);
#ifdef CONFIG_ARM64_CONTPTE
	KUNIT_EXPECT_EQ(test, PAGE_SIZE << order,
			IS_ENABLED(CONFIG_ARM64_4K_PAGES) ?
			(unsigned long)SZ_64K : (unsigned long)SZ_2M);
#endif
	KUNIT_EXPECT_EQ(test, exec_leaf_vma(&t->vma), order > 0);
}

static void others_get_none(struct kunit *test)
{
	struct text *t = make_text(test);

	vm_flags_init(&t->vma, VM_READ);
	KUNIT_EXPECT_EQ(test, exec_leaf_order(&t->vma), 0U);

	vm_flags_init(&t->vma, VM_READ | VM_EXEC | VM_SEQ_READ);
	KUNIT_EXPECT_EQ(test, exec_leaf_order(&t->vma), 0U);

	t = make_text(test);
	t->vma.vm_file = NULL;
	KUNIT_EXPECT_EQ(test, exec_leaf_order(&t->vma), 0U);
	KUNIT_EXPECT_FALSE(test, exec_leaf_vma(&t->vma));
}

/* A file whose folios are too small for the leaf is left to the base. */
static void file_order_is_respected(struct kunit *test)
{
	struct text *t = make_text(test);
	unsigned int order = exec_leaf_machine_order();

	if (!order)
		kunit_skip(test, "no leaf on this architecture");
	mapping_set_folio_order_range(&t->mapping, 0, order - 1);
	KUNIT_EXPECT_EQ(test, exec_leaf_order(&t->vma), 0U);
	mapping_set_folio_order_range(&t->mapping, 0, order);
	KUNIT_EXPECT_EQ(test, exec_leaf_order(&t->vma), order);
}

static struct kunit_case exec_leaf_cases[] = {
	KUNIT_CASE(narrow_window_reads_a_leaf),
	KUNIT_CASE(wide_window_reads_many_leaves),
	KUNIT_CASE(vma_bounds_the_read),
	KUNIT_CASE(partial_block_is_read_narrowly),
	KUNIT_CASE(small_mapping_is_read_narrowly),
	KUNIT_CASE(cached_page_ends_the_read),
	KUNIT_CASE(cached_block_is_read_narrowly),
	KUNIT_CASE(every_read_has_the_fault),
	KUNIT_CASE(fault_maps_the_leaf),
	KUNIT_CASE(fault_maps_what_it_read),
	KUNIT_CASE(vma_and_table_bound_the_mapping),
	KUNIT_CASE(text_gets_the_leaf),
	KUNIT_CASE(others_get_none),
	KUNIT_CASE(file_order_is_respected),
	{}
};

static struct kunit_suite exec_leaf_suite = {
	.name = "exec_leaf",
	.test_cases = exec_leaf_cases,
};

kunit_test_suite(exec_leaf_suite);

MODULE_DESCRIPTION("KUnit tests of exec leaves");
MODULE_LICENSE("GPL");
