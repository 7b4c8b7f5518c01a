// SPDX-License-Identifier: GPL-2.0-only
/*
 * Permission changes of the linear map where it is mapped by wide leaves: keep
 * leaves from growing, split them at the edges of the change, change what lies
 * between, and mark where leaves may be able to grow again later.
 */
#include <linux/init.h>
#include <linux/kfence.h>
#include <linux/memblock.h>
#include <linux/mm.h>

#include <asm/linear_change.h>
#include <asm/linear_map.h>
#include <asm/memory.h>

/* From a split to the last entry of the change, and while leaves are made wider */
DEFINE_MUTEX(pgtable_split_lock);

/* Where kfence and debug_pagealloc change pages in atomic context, none is wide */
static bool may_be_wide(unsigned long start)
{
	return linear_map_may_change_size() && __is_lm_address(start) &&
	       !is_kfence_address((void *)start);
}

static int split_and_change(unsigned long start, unsigned long end,
			    pgprot_t set_mask, pgprot_t clear_mask)
{
	int ret = linear_map_split_edges(start, end);

	if (!ret)
		ret = linear_map_change_leaves(start, end, set_mask, clear_mask);
	/* One edge may be split where the other found no memory */
	linear_map_mark(start, end);
	return ret;
}

/**
 * linear_map_change - change permissions in the linear map
 * @start: first address, aligned to PAGE_SIZE
 * @size: bytes, a multiple of PAGE_SIZE
 * @set_mask: bits to set
 * @clear_mask: bits to clear, before others are set
 *
 * Does not invalidate TLBs. May sleep, unless the range is mapped by pages for
 * good: those of kfence are changed in atomic context, and none is wide under
 * debug_pagealloc.
 *
 * Return: 0, -ENOMEM if a leaf has to be split and there is no memory for a
 *	   table (then nothing is changed), -EINVAL if something is not mapped.
 */
int linear_map_change(unsigned long start, unsigned long size,
		      pgprot_t set_mask, pgprot_t clear_mask)
{
	unsigned long end;
	int ret;

	/* page_address() has the tag of the page */
	start = __tag_reset(start);
	end = start + size;
	if (!may_be_wide(start))
		return linear_map_change_leaves(start, end, set_mask, clear_mask);

	mutex_lock(&pgtable_split_lock);
	ret = split_and_change(start, end, set_mask, clear_mask);
	mutex_unlock(&pgtable_split_lock);
	return ret;
}

/**
 * linear_map_split_to_pages - map a range by pages for good
 * @start: first address
 * @end: address after the last
 *
 * The caller has made sure that the range is not collapsed again.
 *
 * Return: 0, or -ENOMEM.
 */
int linear_map_split_to_pages(unsigned long start, unsigned long end)
{
	unsigned long addr;
	int ret = 0;

	if (!linear_map_may_change_size())
		return 0;

	mutex_lock(&pgtable_split_lock);
	for (addr = start; addr < end && !ret; addr += PAGE_SIZE)
		ret = linear_map_split_edges(addr, addr + PAGE_SIZE);
	mutex_unlock(&pgtable_split_lock);
	return ret;
}

/**
 * linear_map_widen - have leaves of a range grow that are mapped by pages
 * @start: first physical address
 * @end: address after the last
 */
void linear_map_widen(phys_addr_t start, phys_addr_t end)
{
	mutex_lock(&pgtable_split_lock);
	linear_map_mark((unsigned long)__phys_to_virt(start),
			(unsigned long)__phys_to_virt(end));
	mutex_unlock(&pgtable_split_lock);
}

/*
 * Boot maps by pages, for it does not know yet what the other CPUs can do. Now
 * that all are there, or come late and are refused without the feature, what
 * is uniform becomes wide.
 */
static int __init widen_boot_map(void)
{
	linear_map_widen(memblock_start_of_DRAM(), memblock_end_of_DRAM());
	return 0;
}
late_initcall(widen_boot_map);
