// SPDX-License-Identifier: GPL-2.0-only
/*
 * Executable text, read and mapped in units of a TLB's leaves.
 *
 * Text is executed at random, so it is not worth reading ahead of. What it is
 * worth is reading so that the TLB can hold it in few entries: a whole leaf
 * around the page that is wanted, in one folio, at its natural alignment, and
 * all its page-table entries set in one go, for some CPUs make them a leaf
 * only if they are set together.
 *
 * exec_leaf_order() and exec_leaf_read() are the two places that decide, both
 * by the leaf policy. Everything else is arithmetic or asks them.
 */
#include <linux/exec_leaf.h>
#include <linux/fs.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/pagemap.h>

/* Can a wide leaf of this machine map a part of the VMA? */
static bool exec_leaf_helps(const struct vm_area_struct *vma)
{
	struct leaf_ground ground = leaf_ground(vma->vm_file);

	return leaf_helps(&ground, vma->vm_start, vma->vm_end - vma->vm_start,
			  (u64)vma->vm_pgoff << PAGE_SHIFT);
}

/**
 * exec_leaf_order - order of the leaf to map a VMA's text by, at least
 * @vma: mapping to look at
 *
 * Return: order of the leaf, or 0 if @vma is none of our business: not text,
 * not of a file, of a file whose folios cannot be as large as a leaf, or too
 * small or ill placed to hold one; or if the policy is switched off, or huge
 * pages are, for the mapping or process.
 */
unsigned int exec_leaf_order(const struct vm_area_struct *vma)
{
	if (!(vma->vm_flags & VM_EXEC) || !vma->vm_file || vma_is_dax(vma) ||
	    !leaf_policy_enabled())
		return 0;
	/* MADV_NOHUGEPAGE, PR_SET_THP_DISABLE */
	if (leaf_thp_disabled(vma))
		return 0;
	return exec_leaf_helps(vma) ? leaf_policy_order() : 0;
}

/**
 * exec_leaf_block - the block that a fault is in
 * @vmf: the fault
 * @order: order of the leaf
 *
 * Return: the block, as the fault's VMA sees it.
 */
struct exec_leaf_block exec_leaf_block(const struct vm_fault *vmf,
				       unsigned int order)
{
	struct vm_area_struct *vma = vmf->vma;
	pgoff_t before = (vmf->address - vma->vm_start) >> PAGE_SHIFT;

	return (struct exec_leaf_block) {
		.vma_start = vmf->pgoff - before,
		.vma_end = vmf->pgoff - before + vma_pages(vma),
		.order = order,
		.pgoff = vmf->pgoff,
	};
}

/**
 * exec_leaf_ptes - which entries of a page table to set for a fault
 * @block: block in which the fault happened
 * @pte_off: index of the faulting page's entry in its page table
 * @read_end: index after the last page that was read for this fault, or 0
 * @from_pte: index of the first entry to set
 * @to_pte: index of the last one
 *
 * The block, and those after it that came with the same read, as far as VMA
 * and page table reach. Blocks are taken whole wherever VMA and page table
 * contain them whole: an entry set before its neighbours would keep them from
 * becoming a leaf.
 */
void exec_leaf_ptes(const struct exec_leaf_block *block, pgoff_t pte_off,
		    pgoff_t read_end, pgoff_t *from_pte, pgoff_t *to_pte)
{
	unsigned long leaf = 1UL << block->order;
	/* Entries that VMA and page table have before and after the fault's */
	pgoff_t before = min(block->pgoff - block->vma_start, pte_off);
	pgoff_t after = min(block->vma_end - block->pgoff,
			    PTRS_PER_PTE - pte_off);
	pgoff_t end = round_up(max(read_end, exec_leaf_block_end(block)), leaf);

	before = min(before, block->pgoff - exec_leaf_block_start(block));
	after = min(after, end - block->pgoff);
	*from_pte = pte_off - before;
	*to_pte = pte_off + after - 1;
}

/**
 * exec_leaf_read_end - where the read for a fault ended
 * @vmf: the fault
 *
 * A fault that comes back after it slept has most likely slept for a read. The
 * readahead state is not locked, but all that can go wrong is to map fewer or
 * more of the pages that are cached.
 *
 * Return: index after the last page that was read for this fault, or 0.
 */
pgoff_t exec_leaf_read_end(const struct vm_fault *vmf)
{
	const struct file_ra_state *ra = &vmf->vma->vm_file->f_ra;

	if (!(vmf->flags & FAULT_FLAG_TRIED) ||
	    vmf->pgoff - READ_ONCE(ra->start) >= READ_ONCE(ra->size))
		return 0;
	return READ_ONCE(ra->start) + READ_ONCE(ra->size);
}

/**
 * exec_leaf_map_range - widen fault-around to leaves
 * @vmf: the fault, a read fault
 * @from_pte: index of the first page-table entry to map
 * @to_pte: index of the last one
 *
 * To what the read for this fault brought, and to whole leaves where a leaf is
 * entries that are set together. A PMD is none: ->map_pages() sets it if there
 * is a folio for it, and else looking through all its pages at each fault
 * would find those mapped that earlier faults have mapped. For the same reason
 * what lies before the fault is left out if no folio can make it a leaf.
 *
 * Leaves both alone if the mapping is not one of ours.
 */
void exec_leaf_map_range(const struct vm_fault *vmf, pgoff_t *from_pte,
			 pgoff_t *to_pte)
{
	unsigned int order = exec_leaf_order(vmf->vma);
	struct exec_leaf_block block;
	pgoff_t from, to;

	if (!order)
		return;

	block = exec_leaf_block(vmf, order < PMD_ORDER ? order : 0);
	exec_leaf_ptes(&block, pte_index(vmf->address), exec_leaf_read_end(vmf),
		       &from, &to);
	if (xa_get_order(&vmf->vma->vm_file->f_mapping->i_pages,
			 vmf->pgoff) >= block.order)
		*from_pte = min(*from_pte, from);
	*to_pte = max(*to_pte, to);
}

/**
 * exec_leaf_around - where read-around begins for a mapping that is not text
 * @vmf: the fault
 * @before: pages to read before the fault's
 *
 * Not before the VMA, if that is a private mapping of a file that may have text
 * in wide folios. What lies there in a program or library is text, and one page
 * of it that is cached early keeps the block from ever being one folio: ld.so
 * relocates data before it executes anything.
 *
 * Return: index of the first page to read.
 */
pgoff_t exec_leaf_around(const struct vm_fault *vmf, unsigned long before)
{
	const struct vm_area_struct *vma = vmf->vma;
	pgoff_t start = vmf->pgoff - min(vmf->pgoff, before);

	if ((vma->vm_flags & VM_SHARED) || !leaf_policy_enabled() ||
	    mapping_max_folio_order(vma->vm_file->f_mapping) <
	    leaf_policy_order())
		return start;
	return max(start, vma->vm_pgoff);
}
