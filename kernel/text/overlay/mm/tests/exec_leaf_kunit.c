// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of mm/exec_leaf.c: which mappings are text to be read by leaves,
 * and which page-table entries a fault sets.
 *
 * Sizes are in pages and the leaf is 32 pages wide, as on arm64 with 64K pages,
 * unless a test says otherwise.
 */
#include <kunit/test.h>
#include <linux/exec_leaf.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/sizes.h>
#include <linux/xarray.h>

#define ORDER	5

static struct exec_leaf_block block(pgoff_t start, pgoff_t end, pgoff_t pgoff)
{
	return (struct exec_leaf_block) {
		.vma_start = start,
		.vma_end = end,
		.order = ORDER,
		.pgoff = pgoff,
	};
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
	if (!leaf_policy_enabled())
		kunit_skip(test, "huge pages or the policy are switched off");
	xa_init(&t->mapping.i_pages);
	t->mapping.host = &t->inode;
	t->inode.i_mapping = &t->mapping;
	t->file.f_mapping = &t->mapping;
	t->file.f_inode = &t->inode;
	t->vma.vm_file = &t->file;
	t->vma.vm_mm = &init_mm;
	mapping_set_large_folios(&t->mapping);
	vm_flags_init(&t->vma, VM_READ | VM_EXEC);
	t->vma.vm_start = SZ_4M;
	t->vma.vm_end = SZ_8M;
	return t;
}

/* The leaf is what the architecture says, and never above 2M. */
static void text_gets_the_leaf(struct kunit *test)
{
	struct text *t = make_text(test);
	unsigned int order = exec_leaf_order(&t->vma);

	KUNIT_EXPECT_EQ(test, order, leaf_policy_order());
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

	vm_flags_init(&t->vma, VM_READ | VM_EXEC | VM_NOHUGEPAGE);
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
	unsigned int order = leaf_policy_order();

	mapping_set_folio_order_range(&t->mapping, 0, order - 1);
	KUNIT_EXPECT_EQ(test, exec_leaf_order(&t->vma), 0U);
	mapping_set_folio_order_range(&t->mapping, 0, order);
	KUNIT_EXPECT_EQ(test, exec_leaf_order(&t->vma), order);
}

/* A mapping that holds no whole leaf gains nothing from us. */
static void mapping_must_hold_a_leaf(struct kunit *test)
{
	struct text *t = make_text(test);
	unsigned int order = leaf_policy_order();

	t->vma.vm_end = t->vma.vm_start + (PAGE_SIZE << order);
	KUNIT_EXPECT_EQ(test, exec_leaf_order(&t->vma), order);
	t->vma.vm_end -= PAGE_SIZE;
	KUNIT_EXPECT_EQ(test, exec_leaf_order(&t->vma), 0U);

	/* Long enough, but not congruent */
	t->vma.vm_end = SZ_8M;
	t->vma.vm_pgoff = 1;
	KUNIT_EXPECT_EQ(test, exec_leaf_order(&t->vma), 0U);
}

/* Have the page cache hold something of this order around @index. */
static void cache_entry(struct kunit *test, struct text *t, pgoff_t index,
			unsigned int order)
{
	pgoff_t first = round_down(index, 1UL << order);
	pgoff_t last = first + (1UL << order) - 1;

	KUNIT_ASSERT_FALSE(test, xa_is_err(xa_store_range(&t->mapping.i_pages,
							  first, last,
							  xa_mk_value(1),
							  GFP_KERNEL)));
}

/*
 * Entries that make a leaf are set together; a PMD has none to set. Where no
 * folio can be a leaf, those before the fault are left as they are.
 */
static void fault_around_takes_whole_leaves(struct kunit *test)
{
	struct text *t = make_text(test);
	unsigned int order = exec_leaf_order(&t->vma);
	struct vm_fault vmf = {
		.vma = &t->vma,
		.address = t->vma.vm_start + 40 * PAGE_SIZE,
		.pgoff = 40,
	};
	pgoff_t own = pte_index(vmf.address), from = own, to = own;

	if (order == PMD_ORDER)
		order = 0;
	cache_entry(test, t, 40, order ? order - 1 : 0);
	exec_leaf_map_range(&vmf, &from, &to);
	KUNIT_EXPECT_EQ(test, from, own);
	KUNIT_EXPECT_EQ(test, to, round_down(own, 1UL << order) +
				  (1UL << order) - 1);

	cache_entry(test, t, 40, order);
	from = own;
	exec_leaf_map_range(&vmf, &from, &to);
	KUNIT_EXPECT_EQ(test, from, round_down(own, 1UL << order));
	KUNIT_EXPECT_EQ(test, to, from + (1UL << order) - 1);

	/* What fault-around would map anyway it still maps. */
	from = own - 8;
	to = own + 7;
	exec_leaf_map_range(&vmf, &from, &to);
	KUNIT_EXPECT_LE(test, from, own - 8);
	KUNIT_EXPECT_GE(test, to, own + 7);
	xa_destroy(&t->mapping.i_pages);
}

static struct kunit_case exec_leaf_cases[] = {
	KUNIT_CASE(fault_maps_the_leaf),
	KUNIT_CASE(fault_maps_what_it_read),
	KUNIT_CASE(vma_and_table_bound_the_mapping),
	KUNIT_CASE(text_gets_the_leaf),
	KUNIT_CASE(others_get_none),
	KUNIT_CASE(file_order_is_respected),
	KUNIT_CASE(mapping_must_hold_a_leaf),
	KUNIT_CASE(fault_around_takes_whole_leaves),
	{}
};

static struct kunit_suite exec_leaf_suite = {
	.name = "exec_leaf",
	.test_cases = exec_leaf_cases,
};

kunit_test_suite(exec_leaf_suite);

MODULE_DESCRIPTION("KUnit tests of exec leaves");
MODULE_LICENSE("GPL");
