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
#include <linux/memremap.h>
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

/* The wide entry is that of the first page, without the contiguous bit */
static void expect_ptes(struct kunit *test, pte_t *ptes, bool wide)
{
	u64 entry = linear_map_wide_entry(&pte_val(ptes[0]), CONT_PTES, PAGE_SIZE);

	KUNIT_EXPECT_EQ(test, entry, wide ? pte_val(ptes[0]) & ~PTE_CONT : 0);
}

static void expect_pmds(struct kunit *test, pmd_t *pmds, bool wide)
{
	u64 entry = linear_map_wide_entry(&pmd_val(pmds[0]), CONT_PMDS, PMD_SIZE);

	KUNIT_EXPECT_EQ(test, entry, wide ? pmd_val(pmds[0]) & ~PTE_CONT : 0);
}

static void consecutive_pages_are_one_leaf(struct kunit *test)
{
	pte_t *ptes = some_ptes(test);

	expect_ptes(test, ptes, true);

	/* ... whether or not some already have the contiguous bit */
	ptes[1] = pte_mkcont(ptes[1]);
	expect_ptes(test, ptes, true);
}

static void one_page_spoils_a_leaf(struct kunit *test)
{
	pte_t *ptes = some_ptes(test);

	ptes[CONT_PTES - 1] = pte_wrprotect(ptes[CONT_PTES - 1]);
	expect_ptes(test, ptes, false);

	set_pages(ptes, CONT_PTES);
	ptes[2] = __pte(0);
	expect_ptes(test, ptes, false);

	set_pages(ptes, CONT_PTES);
	ptes[0] = __pte(pte_val(ptes[0]) & ~PTE_VALID);
	expect_ptes(test, ptes, false);

	set_pages(ptes, CONT_PTES);
	ptes[1] = pfn_pte(PFN + 2, PAGE_KERNEL);
	expect_ptes(test, ptes, false);
}

static void a_leaf_begins_at_an_aligned_page(struct kunit *test)
{
	pte_t *ptes = some_ptes(test);
	unsigned int i;

	for (i = 0; i < CONT_PTES; i++)
		ptes[i] = pfn_pte(PFN + 1 + i, PAGE_KERNEL);
	expect_ptes(test, ptes, false);
}

static void blocks_form_a_leaf_as_pages_do(struct kunit *test)
{
	pmd_t *pmds = kunit_kcalloc(test, CONT_PMDS, sizeof(*pmds), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, pmds);
	set_blocks(pmds, CONT_PMDS);
	expect_pmds(test, pmds, true);

	pmds[1] = __pmd(pmd_val(pmds[1]) | PTE_RDONLY);
	expect_pmds(test, pmds, false);

	/* One that is not valid keeps all from being one */
	set_blocks(pmds, CONT_PMDS);
	pmds[1] = __pmd(pmd_val(pmds[1]) & ~PTE_VALID);
	expect_pmds(test, pmds, false);

	/* A table among blocks is none */
	set_blocks(pmds, CONT_PMDS);
	pmds[1] = __pmd((pmd_val(pmds[1]) & ~PMD_TYPE_MASK) | PMD_TYPE_TABLE);
	expect_pmds(test, pmds, false);
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

/* Where a block cannot be invalid, all of it stays valid */
static void a_whole_block_becomes_invalid_or_stays(struct kunit *test)
{
	const unsigned int order = PMD_SHIFT - PAGE_SHIFT;
	unsigned long addr;
	struct page *page;
	int err;

	if (!linear_map_may_change_size())
		kunit_skip(test, "this machine maps the linear map by pages");

	page = alloc_pages(GFP_KERNEL | __GFP_NOWARN, order);
	if (!page)
		kunit_skip(test, "no memory for a block");
	addr = (unsigned long)kasan_reset_tag(page_address(page));
	KUNIT_EXPECT_GE(test, wait_for_leaf(addr, PMD_SIZE), PMD_SIZE);

	err = set_memory_valid(addr, 1 << order, 0);
	KUNIT_EXPECT_EQ(test, kernel_page_present(page), err != 0);
	KUNIT_EXPECT_EQ(test, set_memory_valid(addr, 1 << order, 1), 0);
	KUNIT_EXPECT_TRUE(test, kernel_page_present(page));
	KUNIT_EXPECT_GE(test, leaf_size(addr), PMD_SIZE);
	WRITE_ONCE(*(char *)page_address(page), 1);
	__free_pages(page, order);
}

static bool may_lose_table(unsigned long start, pgprot_t prot)
{
	return linear_map_may_lose_table(start, PMD_SIZE,
					 pfn_pte(PHYS_PFN(__pa(start)), prot));
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
	pte_t shared;

	KUNIT_EXPECT_TRUE(test, may_lose_table(start, PAGE_KERNEL));
	for (i = 0; i < ARRAY_SIZE(unusual); i++)
		KUNIT_EXPECT_FALSE(test, may_lose_table(start, unusual[i]));

	/* A realm sets the highest bit of the address of what it shares */
	shared = pfn_pte(PHYS_PFN(__pa(start) | BIT_ULL(PHYS_MASK_SHIFT - 1)),
			 PAGE_KERNEL);
	KUNIT_EXPECT_FALSE(test, linear_map_may_lose_table(start, PMD_SIZE, shared));

	/* Hibernation makes the alias of the kernel's data valid for a while */
	KUNIT_EXPECT_FALSE(test, may_lose_table(image, PAGE_KERNEL));
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

/* How often does a leaf become whole that is split each millisecond? */
static void what_is_split_again_is_left_narrow(struct kunit *test)
{
	unsigned long begin, before, addr;
	int whole = 0, err = 0;
	struct page *page;

	if (!linear_map_may_change_size())
		kunit_skip(test, "this machine maps the linear map by pages");

	page = alloc_page(GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, page);
	addr = (unsigned long)kasan_reset_tag(page_address(page));
	before = wait_for_leaf(addr, CONT_PTE_SIZE);

	for (begin = jiffies; !err && time_before(jiffies, begin + 5 * HZ);) {
		whole += leaf_size(addr) > PAGE_SIZE;
		err = change_and_back(page);
		usleep_range(1000, 2000);
	}
	kunit_info(test, "whole %d times in 5 s\n", whole);
	KUNIT_EXPECT_EQ(test, err, 0);
	/* At first, after a second, and after two more */
	KUNIT_EXPECT_LE(test, whole, 3);

	/* Left alone it comes back */
	KUNIT_EXPECT_GE(test, wait_for_leaf(addr, before), before);
	__free_page(page);
}

/* With 64K pages a device this small shares a page of struct pages with others */
#if defined(CONFIG_ZONE_DEVICE) && !defined(CONFIG_ARM64_64K_PAGES)
/* Smaller than a memory block, and than contiguous blocks of 32M */
#define DEVICE_SIZE	SZ_16M

static struct dev_pagemap *map_device(struct kunit *test, phys_addr_t start)
{
	struct dev_pagemap *map = kunit_kzalloc(test, sizeof(*map), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, map);
	map->type = MEMORY_DEVICE_GENERIC;
	map->range.start = start;
	map->range.end = start + DEVICE_SIZE - 1;
	map->nr_range = 1;
	KUNIT_ASSERT_FALSE(test, IS_ERR(memremap_pages(map, NUMA_NO_NODE)));
	return map;
}

/*
 * Two devices in one section. There is no memory at these addresses, and nobody
 * reads it.
 */
static void no_leaf_is_of_two_devices(struct kunit *test)
{
	phys_addr_t start = ALIGN(memblock_end_of_DRAM(), SZ_1G) + SZ_1G;
	unsigned long addr = (unsigned long)__va(start);
	struct dev_pagemap *first, *second;

	if (!linear_map_may_change_size())
		kunit_skip(test, "this machine maps the linear map by pages");

	first = map_device(test, start);
	second = map_device(test, start + DEVICE_SIZE);
	mutex_lock(&pgtable_split_lock);
	linear_map_mark(addr, addr + 2 * DEVICE_SIZE);
	mutex_unlock(&pgtable_split_lock);
	msleep(4000);
	kunit_info(test, "leaves of %lu and %lu bytes\n", leaf_size(addr),
		   leaf_size(addr + DEVICE_SIZE));
	KUNIT_EXPECT_GT(test, leaf_size(addr), PAGE_SIZE);
	KUNIT_EXPECT_LE(test, leaf_size(addr), DEVICE_SIZE);
	KUNIT_EXPECT_LE(test, leaf_size(addr + DEVICE_SIZE), DEVICE_SIZE);

	memunmap_pages(first);
	KUNIT_EXPECT_TRUE(test, kernel_page_present(pfn_to_page(PHYS_PFN(start +
							DEVICE_SIZE))));
	memunmap_pages(second);
}
#endif

static struct kunit_case linear_map_cases[] = {
	/* The first, for it looks at what the worker does after boot */
	KUNIT_CASE_SLOW(changes_do_not_hold_up_the_worker),
	KUNIT_CASE(consecutive_pages_are_one_leaf),
	KUNIT_CASE(one_page_spoils_a_leaf),
	KUNIT_CASE(a_leaf_begins_at_an_aligned_page),
	KUNIT_CASE(blocks_form_a_leaf_as_pages_do),
	KUNIT_CASE(tables_stay_where_a_protection_is_not_the_usual),
	KUNIT_CASE_SLOW(a_split_leaf_comes_back),
	KUNIT_CASE_SLOW(a_whole_block_becomes_invalid_or_stays),
#if defined(CONFIG_ZONE_DEVICE) && !defined(CONFIG_ARM64_64K_PAGES)
	KUNIT_CASE_SLOW(no_leaf_is_of_two_devices),
#endif
	KUNIT_CASE_SLOW(what_is_split_again_is_left_narrow),
	{}
};

static struct kunit_suite linear_map_suite = {
	.name = "linear_map",
	.test_cases = linear_map_cases,
};

kunit_test_suites(&linear_map_suite);
