// SPDX-License-Identifier: GPL-2.0-only
/*
 * Text mapped by more than one page table's worth in one fault.
 */
#include <linux/exec_leaf.h>
#include <linux/fs.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/pgtable.h>
#include <linux/rcupdate.h>
#include <linux/userfaultfd_k.h>

#include "internal.h"

/**
 * leaf_neighbours - how many PMDs behind a fault's own to map with it
 * @block: the fault's block, of the order of a PMD
 * @pmd_off: index of the fault's entry in its table of PMDs
 * @read_end: index after the last page that was read for this fault, or 0
 *
 * Return: those that the read brought whole and that VMA and table hold.
 */
unsigned int leaf_neighbours(const struct exec_leaf_block *block,
			     unsigned int pmd_off, pgoff_t read_end)
{
	pgoff_t next = exec_leaf_block_end(block);
	pgoff_t end = min(read_end, block->vma_end);

	if (end <= next)
		return 0;
	return min((end - next) >> block->order,
		   (pgoff_t)PTRS_PER_PMD - 1 - pmd_off);
}

/* As for a fault at @addr, in an RCU read-side critical section */
static void leaf_map_at(struct vm_area_struct *vma, pmd_t *pmd,
			unsigned long addr, unsigned int order)
{
	pgoff_t start = linear_page_index(vma, addr);
	struct vm_fault vmf = {
		.vma = vma,
		.address = addr,
		.real_address = addr,
		.pgoff = start,
		.flags = FAULT_FLAG_USER | FAULT_FLAG_INSTRUCTION,
		.pmd = pmd,
	};

	vma->vm_ops->map_pages(&vmf, start, start + (1UL << order) - 1);
}

/* What lies @nr PMDs behind the fault */
static void leaf_map_neighbour(const struct vm_fault *vmf, unsigned int nr)
{
	unsigned long addr = (vmf->address & HPAGE_PMD_MASK) +
			     nr * HPAGE_PMD_SIZE;
	pmd_t *pmd = vmf->pmd + nr;

	/* A page table that is there maps some of it already. */
	if (pmd_none(pmdp_get_lockless(pmd)))
		leaf_map_at(vmf->vma, pmd, addr, HPAGE_PMD_ORDER);
}

/**
 * leaf_map_neighbours - map what else the read for a fault on text brought
 * @vmf: the fault, just mapped by ->map_pages()
 *
 * Called, as ->map_pages() is, in an RCU read-side critical section: folios
 * that are locked are left to faults of their own. Tables of the VMA stay
 * while the fault holds its lock.
 */
void leaf_map_neighbours(const struct vm_fault *vmf)
{
	struct exec_leaf_block block;
	unsigned int i, nr;

	if (!pmd_trans_huge(pmdp_get_lockless(vmf->pmd)) ||
	    !exec_leaf_vma(vmf->vma))
		return;

	block = exec_leaf_block(vmf, HPAGE_PMD_ORDER);
	nr = leaf_neighbours(&block, pmd_index(vmf->address),
			     exec_leaf_read_end(vmf));
	for (i = 1; i <= nr; i++)
		leaf_map_neighbour(vmf, i);
}

/**
 * leaf_map_block - map what the page cache holds of a block of text
 * @vma: a mapping that contains the block, its mm's mmap_lock held
 * @addr: start of the block, aligned to its size
 * @order: order of the block, at most that of a PMD
 *
 * By a PMD if a folio of that size is there, else the entries that are not set
 * in a page table that exists.
 */
void leaf_map_block(struct vm_area_struct *vma, unsigned long addr,
		    unsigned int order)
{
	pmd_t *pmd = mm_find_pmd(vma->vm_mm, addr);

	if (!pmd || uffd_disable_fault_around(vma) || !vma->vm_ops->map_pages)
		return;
	rcu_read_lock();
	leaf_map_at(vma, pmd, addr, order);
	rcu_read_unlock();
}
