// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of the linear map: which entries one leaf can stand for, and that
 * a leaf that was split comes back.
 */
#include <kunit/test.h>
#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/kasan.h>
#include <linux/memblock.h>
#include <linux/mm.h>
#include <linux/pgtable.h>
#include <linux/set_memory.h>
#include <linux/sizes.h>

#include <asm/linear_map.h>
#include <asm/sections.h>
#include <asm/tlbflush.h>

/* Any that is aligned to every leaf */
#define PFN	(PUD_SIZE >> PAGE_SHIFT)

static void set_pages(pte_t *ptes, unsigned int nr)
{
	unsigned int i;

	for (i = 0; i < nr; i++)
		ptes[i] = pfn_pte(PFN + i, PAGE_KERNEL);
}

static void set_blocks(pmd_t *pmds, unsigned int nr)
{
	const unsigned long step = PMD_SIZE >> PAGE_SHIFT;
	unsigned int i;

	for (i = 0; i < nr; i++)
		pmds[i] = pfn_pmd(PFN + i * step, mk_pmd_sect_prot(PAGE_KERNEL));
}

static pte_t *some_ptes(struct kunit *test)
{
	pte_t *ptes = kunit_kcalloc(test, CONT_PTES, sizeof(*ptes), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, ptes);
	set_pages(ptes, CONT_PTES);
	return ptes;
}

static void consecutive_pages_are_one_leaf(struct kunit *test)
{
	pte_t *ptes = some_ptes(test);

	KUNIT_EXPECT_TRUE(test, linear_map_uniform_ptes(ptes, CONT_PTES));

	/* ... whether or not some already have the contiguous bit */
	ptes[1] = pte_mkcont(ptes[1]);
	KUNIT_EXPECT_TRUE(test, linear_map_uniform_ptes(ptes, CONT_PTES));
}

static void one_page_spoils_a_leaf(struct kunit *test)
{
	pte_t *ptes = some_ptes(test);

	ptes[CONT_PTES - 1] = pte_wrprotect(ptes[CONT_PTES - 1]);
	KUNIT_EXPECT_FALSE(test, linear_map_uniform_ptes(ptes, CONT_PTES));

	set_pages(ptes, CONT_PTES);
	ptes[2] = __pte(0);
	KUNIT_EXPECT_FALSE(test, linear_map_uniform_ptes(ptes, CONT_PTES));

	set_pages(ptes, CONT_PTES);
	ptes[0] = __pte(pte_val(ptes[0]) & ~PTE_VALID);
	KUNIT_EXPECT_FALSE(test, linear_map_uniform_ptes(ptes, CONT_PTES));

	set_pages(ptes, CONT_PTES);
	ptes[1] = pfn_pte(PFN + 2, PAGE_KERNEL);
	KUNIT_EXPECT_FALSE(test, linear_map_uniform_ptes(ptes, CONT_PTES));
}

static void a_leaf_begins_at_an_aligned_page(struct kunit *test)
{
	pte_t *ptes = some_ptes(test);
	unsigned int i;

	for (i = 0; i < CONT_PTES; i++)
		ptes[i] = pfn_pte(PFN + 1 + i, PAGE_KERNEL);
	KUNIT_EXPECT_FALSE(test, linear_map_uniform_ptes(ptes, CONT_PTES));
}

static void blocks_form_a_leaf_as_pages_do(struct kunit *test)
{
	pmd_t *pmds = kunit_kcalloc(test, CONT_PMDS, sizeof(*pmds), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, pmds);
	set_blocks(pmds, CONT_PMDS);
	KUNIT_EXPECT_TRUE(test, linear_map_uniform_pmds(pmds, CONT_PMDS));

	pmds[1] = __pmd(pmd_val(pmds[1]) | PTE_RDONLY);
	KUNIT_EXPECT_FALSE(test, linear_map_uniform_pmds(pmds, CONT_PMDS));

	/* A table is no block, whatever it leads to */
	set_blocks(pmds, CONT_PMDS);
	pmds[1] = __pmd((pmd_val(pmds[1]) & ~PMD_TYPE_MASK) | PMD_TYPE_TABLE);
	KUNIT_EXPECT_FALSE(test, linear_map_uniform_pmds(pmds, CONT_PMDS));
}

/* How many bytes the entry maps that a TLB may hold for @addr */
static unsigned long leaf_size(unsigned long addr)
{
	pud_t *pudp = pud_offset(p4d_offset(pgd_offset_k(addr), addr), addr);
	pmd_t *pmdp;
	pte_t pte;

	if (pud_leaf(READ_ONCE(*pudp)))
		return PUD_SIZE;
	pmdp = pmd_offset(pudp, addr);
	if (pmd_leaf(READ_ONCE(*pmdp)))
		return pmd_leaf_size(READ_ONCE(*pmdp));
	pte = __ptep_get(pte_offset_kernel(pmdp, addr));
	return pte_leaf_size(pte);
}

static unsigned long wait_for_leaf(unsigned long addr, unsigned long size)
{
	int i;

	for (i = 0; i < 100 && leaf_size(addr) < size; i++)
		msleep(100);
	return leaf_size(addr);
}

static void a_split_leaf_comes_back(struct kunit *test)
{
	unsigned long before, addr;
	struct page *page;

	if (!linear_map_may_change_size())
		kunit_skip(test, "this machine maps the linear map by pages");

	page = alloc_page(GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, page);
	addr = (unsigned long)kasan_reset_tag(page_address(page));
	before = wait_for_leaf(addr, CONT_PTE_SIZE);
	KUNIT_EXPECT_GE(test, before, CONT_PTE_SIZE);

	KUNIT_EXPECT_EQ(test, set_direct_map_invalid_noflush(page), 0);
	flush_tlb_kernel_range(addr, addr + PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, leaf_size(addr), PAGE_SIZE);
	KUNIT_EXPECT_FALSE(test, kernel_page_present(page));

	KUNIT_EXPECT_EQ(test, set_direct_map_default_noflush(page), 0);
	KUNIT_EXPECT_TRUE(test, kernel_page_present(page));
	KUNIT_EXPECT_GE(test, wait_for_leaf(addr, before), before);

	WRITE_ONCE(*(char *)page_address(page), 1);
	__free_page(page);
}

/* Of the way back: only where all is as it was at boot can it be done without */
static void tables_stay_where_a_protection_is_not_the_usual(struct kunit *test)
{
	unsigned long image = ALIGN_DOWN((unsigned long)lm_alias(_end), PMD_SIZE);
	unsigned long start = ALIGN((unsigned long)lm_alias(_end), PMD_SIZE);
	const pgprot_t unusual[] = {
		PAGE_KERNEL_RO,
		__pgprot(pgprot_val(PAGE_KERNEL) & ~PTE_PXN),
		pgprot_writecombine(PAGE_KERNEL),
	};
	unsigned int i;

	KUNIT_EXPECT_TRUE(test, linear_map_may_lose_table(start, PMD_SIZE,
							  PAGE_KERNEL));
	for (i = 0; i < ARRAY_SIZE(unusual); i++)
		KUNIT_EXPECT_FALSE(test,
				   linear_map_may_lose_table(start, PMD_SIZE,
							     unusual[i]));

	/* Hibernation makes the alias of the kernel's data valid for a while */
	KUNIT_EXPECT_FALSE(test, linear_map_may_lose_table(image, PMD_SIZE,
							   PAGE_KERNEL));
}

static int change_and_back(struct page *page)
{
	unsigned long addr = (unsigned long)page_address(page);
	int err = set_direct_map_invalid_noflush(page);

	flush_tlb_kernel_range(addr, addr + PAGE_SIZE);
	return err ?: set_direct_map_default_noflush(page);
}

/* Passes follow each other in 10 ms, also while permissions change */
static void changes_do_not_hold_up_the_worker(struct kunit *test)
{
	unsigned long last = (unsigned long)__va(memblock_end_of_DRAM()) - PMD_SIZE;
	unsigned long begin = jiffies;
	struct page *page;
	int err = 0;

	if (!linear_map_may_change_size())
		kunit_skip(test, "this machine maps the linear map by pages");
	if (memblock_phys_mem_size() < SZ_1G || PAGE_SIZE != SZ_4K ||
	    leaf_size(last) != PAGE_SIZE)
		kunit_skip(test, "the worker has not several passes to do");

	page = alloc_page(GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, page);
	while (!err && leaf_size(last) < PMD_SIZE &&
	       time_before(jiffies, begin + 10 * HZ)) {
		err = change_and_back(page);
		usleep_range(1000, 2000);
	}
	kunit_info(test, "wide after %u ms\n", jiffies_to_msecs(jiffies - begin));
	KUNIT_EXPECT_EQ(test, err, 0);
	KUNIT_EXPECT_TRUE(test, time_before(jiffies, begin + 5 * HZ / 2));
	__free_page(page);
}

static struct kunit_case linear_map_cases[] = {
	/* The first, for it looks at what the worker does after boot */
	KUNIT_CASE_SLOW(changes_do_not_hold_up_the_worker),
	KUNIT_CASE(consecutive_pages_are_one_leaf),
	KUNIT_CASE(one_page_spoils_a_leaf),
	KUNIT_CASE(a_leaf_begins_at_an_aligned_page),
	KUNIT_CASE(blocks_form_a_leaf_as_pages_do),
	KUNIT_CASE(tables_stay_where_a_protection_is_not_the_usual),
	KUNIT_CASE_SLOW(a_split_leaf_comes_back),
	{}
};

static struct kunit_suite linear_map_suite = {
	.name = "linear_map",
	.test_cases = linear_map_cases,
};

kunit_test_suites(&linear_map_suite);
