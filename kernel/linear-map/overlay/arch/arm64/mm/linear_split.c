// SPDX-License-Identifier: GPL-2.0-only
/*
 * Wide leaves of the linear map are split at the edges of a change, no narrower
 * than that needs, so that what lies between can be changed.
 *
 * A split writes the narrower entries first and then lets the wider one point
 * to them, or takes the contiguous bit away; the entry is valid all the time.
 * Only CPUs that allow this ever have wide leaves here, see
 * linear_map_may_change_size(). The wide entry may stay in TLBs: it translates
 * as the narrow ones do, and a change of one of those invalidates its address,
 * which removes every entry that covers it.
 */
#include <linux/cpufeature.h>
#include <linux/mm.h>
#include <linux/pgalloc.h>
#include <linux/pgtable.h>
#include <linux/set_memory.h>
#include <linux/vmstat.h>

#include <asm/linear_change.h>
#include <asm/linear_map.h>
#include <asm/tlbflush.h>

/**
 * linear_map_may_change_size - may a leaf of the linear map become another size?
 *
 * Return: true if permissions of single pages may be changed, every CPU
 *	   allows entries to change their size live, and no page is changed in
 *	   atomic context, as debug_pagealloc does. Never before the features of
 *	   all CPUs are known.
 */
bool linear_map_may_change_size(void)
{
	return system_supports_bbml2_noabort() &&
	       can_set_direct_map() && !debug_pagealloc_enabled();
}

/* As those of hot-added memory: without constructor, whose pages are freed so */
static void *alloc_table(void)
{
	void *table = (void *)__get_free_page(GFP_PGTABLE_KERNEL & ~__GFP_ZERO);

	if (!table)
		linear_map_count_split_failure();
	return table;
}

void linear_map_free_table(void *table)
{
	free_page((unsigned long)table);
}

/**
 * linear_map_invalidate - forget all that TLBs hold of a range
 * @start: first address
 * @end: address after the last
 *
 * Table entries that lead there are forgotten as well, which
 * flush_tlb_kernel_range() does not do. Nor does that use range operations: it
 * would give up on a block of many pages and empty every TLB.
 */
void linear_map_invalidate(unsigned long start, unsigned long end)
{
	unsigned long pages = (end - start) >> PAGE_SHIFT;

	if (pages > (system_supports_tlb_range() ? MAX_TLBI_RANGE_PAGES :
						   MAX_DVM_OPS)) {
		flush_tlb_all();
		return;
	}

	dsb(ishst);
	__flush_tlb_range_op(vaae1is, start, pages, PAGE_SIZE, 0,
			     TLBI_TTL_UNKNOWN, false, lpa2_is_enabled());
	__tlbi_sync_s1ish();
	isb();
}

/* A block at PUD level becomes contiguous blocks at PMD level */
static int split_pud(pud_t *pudp, pud_t pud)
{
	pgprot_t prot = __pgprot(pgprot_val(pud_pgprot(pud)) | PTE_CONT);
	unsigned long pfn = pud_pfn(pud);
	pmd_t *table = alloc_table();
	int i;

	if (!table)
		return -ENOMEM;

	for (i = 0; i < PTRS_PER_PMD; i++, pfn += PMD_SIZE >> PAGE_SHIFT)
		WRITE_ONCE(table[i], pfn_pmd(pfn, prot));

	/* The walker sees the entries before what leads to them */
	dsb(ishst);
	__pud_populate(pudp, __pa(table), PUD_TYPE_TABLE | PUD_TABLE_UXN |
					  PUD_TABLE_PXN);
	linear_map_count_split(LINEAR_MAP_PUD, LINEAR_MAP_CONT_PMD, PUD_SIZE);
	return 0;
}

/* A block at PMD level becomes contiguous pages */
static int split_pmd(pmd_t *pmdp, pmd_t pmd)
{
	pgprot_t prot = pmd_pgprot(pmd);
	unsigned long pfn = pmd_pfn(pmd);
	pte_t *table = alloc_table();
	int i;

	if (!table)
		return -ENOMEM;

	prot = __pgprot((pgprot_val(prot) & ~PMD_TYPE_MASK) | PTE_TYPE_PAGE |
			PTE_CONT);
	for (i = 0; i < PTRS_PER_PTE; i++, pfn++)
		__set_pte_nosync(table + i, pfn_pte(pfn, prot));

	dsb(ishst);
	__pmd_populate(pmdp, __pa(table), PMD_TYPE_TABLE | PMD_TABLE_UXN |
					  PMD_TABLE_PXN);
	linear_map_count_split(LINEAR_MAP_PMD, LINEAR_MAP_CONT_PTE, PMD_SIZE);
	return 0;
}

static void unfold_pmds(pmd_t *pmdp)
{
	int i;

	pmdp = PTR_ALIGN_DOWN(pmdp, sizeof(*pmdp) * CONT_PMDS);
	for (i = 0; i < CONT_PMDS; i++)
		set_pmd(pmdp + i, __pmd(pmd_val(READ_ONCE(pmdp[i])) & ~PTE_CONT));
	linear_map_count_split(LINEAR_MAP_CONT_PMD, LINEAR_MAP_PMD,
			       CONT_PMD_SIZE);
}

static void unfold_ptes(pte_t *ptep)
{
	int i;

	ptep = PTR_ALIGN_DOWN(ptep, sizeof(*ptep) * CONT_PTES);
	for (i = 0; i < CONT_PTES; i++)
		__set_pte_nosync(ptep + i, pte_mknoncont(__ptep_get(ptep + i)));
	/* The walker sees them before a neighbour that is changed */
	dsb(ishst);
	isb();
	linear_map_count_split(LINEAR_MAP_CONT_PTE, LINEAR_MAP_PTE,
			       CONT_PTE_SIZE);
}

/* The PUD entry of @addr, or NULL if nothing is mapped there */
static pud_t *linear_pud(unsigned long addr)
{
	pgd_t *pgdp = pgd_offset_k(addr);
	p4d_t *p4dp;
	pud_t *pudp;

	if (pgd_none(READ_ONCE(*pgdp)))
		return NULL;
	p4dp = p4d_offset(pgdp, addr);
	if (p4d_none(READ_ONCE(*p4dp)))
		return NULL;
	pudp = pud_offset(p4dp, addr);
	return pud_none(READ_ONCE(*pudp)) ? NULL : pudp;
}

static int split_below_pmd(pmd_t *pmdp, pmd_t pmd, unsigned long addr)
{
	pte_t *ptep;
	int ret;

	if (IS_ALIGNED(addr, PMD_SIZE) || pmd_none(pmd))
		return 0;
	if (pmd_leaf(pmd)) {
		ret = split_pmd(pmdp, pmd);
		if (ret)
			return ret;
	}

	ptep = pte_offset_kernel(pmdp, addr);
	if (!IS_ALIGNED(addr, CONT_PTE_SIZE) && pte_cont(__ptep_get(ptep)))
		unfold_ptes(ptep);
	return 0;
}

/* Make @addr the edge of a leaf, if it is mapped at all */
static int split_at(unsigned long addr)
{
	pud_t *pudp = linear_pud(addr);
	pmd_t *pmdp, pmd;
	pud_t pud;
	int ret;

	if (!pudp || IS_ALIGNED(addr, PUD_SIZE))
		return 0;
	pud = READ_ONCE(*pudp);
	if (pud_leaf(pud)) {
		ret = split_pud(pudp, pud);
		if (ret)
			return ret;
	}

	pmdp = pmd_offset(pudp, addr);
	pmd = READ_ONCE(*pmdp);
	if (!IS_ALIGNED(addr, CONT_PMD_SIZE) && pmd_leaf(pmd) && pmd_cont(pmd)) {
		unfold_pmds(pmdp);
		pmd = __pmd(pmd_val(pmd) & ~PTE_CONT);
	}
	return split_below_pmd(pmdp, pmd, addr);
}

/**
 * linear_map_split_edges - split what reaches beyond the edges of a change
 * @start: first address, aligned to PAGE_SIZE
 * @end: address after the last
 *
 * Context: may sleep. pgtable_split_lock is held.
 * Return: 0, or -ENOMEM, and all leaves that are there map what they did.
 */
int linear_map_split_edges(unsigned long start, unsigned long end)
{
	int ret;

	lockdep_assert_held(&pgtable_split_lock);
	ret = split_at(start);
	return ret ?: split_at(end);
}

static u64 changed(u64 val, pgprot_t set_mask, pgprot_t clear_mask)
{
	return (val & ~pgprot_val(clear_mask)) | pgprot_val(set_mask);
}

/*
 * A leaf that reaches beyond the range was split, or more would change than asked.
 * Walkers of the tables would take a block that is not valid for a table. No
 * caller asks for one: pages become invalid one by one.
 */
static bool may_change_block(unsigned long addr, unsigned long end,
			     unsigned long size, pgprot_t clear_mask)
{
	if (pgprot_val(clear_mask) & PTE_VALID)
		return false;
	return !WARN_ON_ONCE(!IS_ALIGNED(addr, size) || end - addr < size);
}

/*
 * Change the leaf at @addr, of which all lies before @end. The entries of one
 * contiguous leaf must not differ, so they cease to be one first.
 *
 * Return: how much was changed, or 0 if nothing is mapped there, too much, or a
 *	   block that would not be valid.
 */
static unsigned long change_leaf(unsigned long addr, unsigned long end,
				 pgprot_t set_mask, pgprot_t clear_mask)
{
	pud_t *pudp = linear_pud(addr);
	pmd_t *pmdp, pmd;
	pte_t *ptep;
	pud_t pud;

	if (!pudp)
		return 0;
	pud = READ_ONCE(*pudp);
	if (pud_leaf(pud)) {
		if (!may_change_block(addr, end, PUD_SIZE, clear_mask))
			return 0;
		set_pud(pudp, __pud(changed(pud_val(pud), set_mask, clear_mask)));
		return PUD_SIZE;
	}

	pmdp = pmd_offset(pudp, addr);
	pmd = READ_ONCE(*pmdp);
	if (pmd_none(pmd))
		return 0;
	if (!pmd_table(pmd)) {
		if (!may_change_block(addr, end, PMD_SIZE, clear_mask))
			return 0;
		if (pmd_cont(pmd))
			unfold_pmds(pmdp);
		set_pmd(pmdp, __pmd(changed(pmd_val(pmd) & ~PTE_CONT, set_mask,
					    clear_mask)));
		return PMD_SIZE;
	}

	ptep = pte_offset_kernel(pmdp, addr);
	if (pte_cont(__ptep_get(ptep)))
		unfold_ptes(ptep);
	__set_pte(ptep, __pte(changed(pte_val(__ptep_get(ptep)), set_mask,
				      clear_mask)));
	return PAGE_SIZE;
}

/**
 * linear_map_change_leaves - change all leaves of a range
 * @start: first address, the edge of a leaf
 * @end: address after the last, the edge of a leaf
 * @set_mask: bits to set
 * @clear_mask: bits to clear, before others are set
 *
 * Return: 0, or -EINVAL if something is not mapped, or by a leaf that reaches
 *	   beyond the range, or by a block that would not be valid.
 */
int linear_map_change_leaves(unsigned long start, unsigned long end,
			     pgprot_t set_mask, pgprot_t clear_mask)
{
	unsigned long addr = start;

	while (addr < end) {
		unsigned long size = change_leaf(addr, end, set_mask, clear_mask);

		if (!size)
			return -EINVAL;
		addr += size;
	}
	return 0;
}
