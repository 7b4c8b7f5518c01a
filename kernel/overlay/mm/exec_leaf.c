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
 * exec_leaf_order() and exec_leaf_read() are the two places that decide.
 * Everything else is arithmetic or asks them.
 */
#include <linux/exec_leaf.h>
#include <linux/fs.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/sizes.h>
#include <linux/xarray.h>

/**
 * exec_leaf_arch_order - order of the leaf that this architecture prefers
 *
 * Architectures whose TLBs hold a group of pages in one entry override this.
 *
 * Return: order of the leaf, or 0 to leave text to the generic code.
 */
unsigned int __weak exec_leaf_arch_order(void)
{
	return 0;
}

/**
 * exec_leaf_order - order of the leaf to map a VMA's text by
 * @vma: mapping to look at
 *
 * Never more than 2M: beyond that, what is read in vain and what address
 * space randomisation loses outweigh the entries saved.
 *
 * Return: order of the leaf, or 0 if @vma is none of our business: not text,
 * text that is to be read sequentially, not of a file, or of a file whose
 * folios cannot be as large as a leaf; or if the policy is switched off.
 */
unsigned int exec_leaf_order(const struct vm_area_struct *vma)
{
	unsigned int order;

	if ((vma->vm_flags & (VM_EXEC | VM_SEQ_READ)) != VM_EXEC)
		return 0;
	if (!vma->vm_file || vma_is_dax(vma) || !leaf_policy_enabled())
		return 0;

	order = exec_leaf_machine_order();
	if ((PAGE_SIZE << order) > SZ_2M)
		return 0;
	if (order > mapping_max_folio_order(vma->vm_file->f_mapping))
		return 0;
	return order;
}

static struct exec_leaf_block vmf_block(const struct vm_fault *vmf,
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

static pgoff_t block_start(const struct exec_leaf_block *block)
{
	return round_down(block->pgoff, 1UL << block->order);
}

/* Index after the last page of the block. No file is so large as to wrap. */
static pgoff_t block_end(const struct exec_leaf_block *block)
{
	return block_start(block) + (1UL << block->order);
}

/**
 * exec_leaf_span - what to read for a fault, the page cache being empty
 * @block: block in which the fault happened
 * @ra_pages: readahead window of the file in pages
 *
 * A window narrower than a leaf reads the leaf. A wider one reads as many
 * leaves, from that of the fault on. Nothing outside the VMA is read: what
 * lies between a file's segments is often padding.
 *
 * Return: the pages to read.
 */
struct exec_leaf_span exec_leaf_span(const struct exec_leaf_block *block,
				     unsigned long ra_pages)
{
	unsigned long leaf = 1UL << block->order;
	pgoff_t start = block_start(block);
	pgoff_t end = start + round_up(max(ra_pages, 1UL), leaf);

	start = max(start, block->vma_start);
	end = min(end, block->vma_end);
	return (struct exec_leaf_span) {
		.start = start,
		.nr = end - start,
		.order = block->order,
	};
}

/**
 * exec_leaf_trim - take into account what is cached already
 * @block: block in which the fault happened
 * @cached: index of the first cached page in @span
 * @narrow: folio order to use where no leaf can be had
 * @ra_pages: readahead window of the file in pages
 * @span: span from exec_leaf_span(), changed in place
 *
 * The leaves before @cached are read, those after it are left to faults of
 * their own: readahead that meets a cached page goes on in single pages, and
 * would spoil them.
 *
 * If the block of the fault has cached pages itself, or is not wholly inside
 * the VMA, it cannot become a leaf any more and does not deserve a leaf's worth
 * of reading. Then read a window from the fault on, but not out of the block.
 */
void exec_leaf_trim(const struct exec_leaf_block *block, pgoff_t cached,
		    unsigned int narrow, unsigned long ra_pages,
		    struct exec_leaf_span *span)
{
	unsigned long leaf = 1UL << block->order;
	pgoff_t end;

	if (cached >= block_end(block) &&
	    block_start(block) >= block->vma_start &&
	    block_end(block) <= block->vma_end) {
		end = min(round_down(cached, leaf), span->start + span->nr);
		span->nr = end - span->start;
		return;
	}

	span->order = min(narrow, block->order);
	span->start = max(round_down(block->pgoff, 1UL << span->order),
			  block->vma_start);
	end = span->start + round_up(max(ra_pages, 1UL), 1UL << span->order);
	end = min3(end, block_end(block), block->vma_end);
	span->nr = end - span->start;
}

/* First page in [start, end) that the page cache holds, or ULONG_MAX */
static pgoff_t first_cached(struct address_space *mapping, pgoff_t start,
			    pgoff_t end)
{
	XA_STATE(xas, &mapping->i_pages, start);
	pgoff_t index = ULONG_MAX;
	void *entry;

	rcu_read_lock();
	xas_for_each(&xas, entry, end - 1) {
		if (xas_retry(&xas, entry) || xa_is_value(entry))
			continue;
		index = max(xas.xa_index, start);
		break;
	}
	rcu_read_unlock();
	return index;
}

/**
 * exec_leaf_read - what to read for a fault on text that is not cached
 * @vmf: the fault
 * @narrow: folio order that the caller would use where no leaf can be had
 * @span: the answer
 *
 * Return: true if @span says what to read; false if the caller is to do as it
 * does for any mapping.
 */
bool exec_leaf_read(const struct vm_fault *vmf, unsigned int narrow,
		    struct exec_leaf_span *span)
{
	const struct vm_area_struct *vma = vmf->vma;
	unsigned long ra_pages;
	unsigned int order = exec_leaf_order(vma);
	struct exec_leaf_block block;
	pgoff_t cached;

	if (!order)
		return false;
#ifdef CONFIG_LEAF_READ
	return leaf_read_fault(vmf, span);
#endif
	ra_pages = vma->vm_file->f_ra.ra_pages;
	if (!ra_pages)
		return false;

	block = vmf_block(vmf, order);
	*span = exec_leaf_span(&block, ra_pages);
	cached = first_cached(vma->vm_file->f_mapping, span->start,
			      span->start + span->nr);
	exec_leaf_trim(&block, cached, narrow, ra_pages, span);
	return true;
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
	pgoff_t end = round_up(max(read_end, block_end(block)), leaf);

	before = min(before, block->pgoff - block_start(block));
	after = min(after, end - block->pgoff);
	*from_pte = pte_off - before;
	*to_pte = pte_off + after - 1;
}

/**
 * exec_leaf_map_range - widen fault-around to leaves
 * @vmf: the fault, a read fault
 * @from_pte: index of the first page-table entry to map
 * @to_pte: index of the last one
 *
 * Leaves both alone if the mapping is not one of ours.
 */
void exec_leaf_map_range(const struct vm_fault *vmf, pgoff_t *from_pte,
			 pgoff_t *to_pte)
{
	unsigned int order = exec_leaf_order(vmf->vma);
	const struct file_ra_state *ra;
	struct exec_leaf_block block;
	pgoff_t read_end = 0;

	if (!order)
		return;

	/*
	 * A fault that comes back after it slept has most likely slept for a
	 * read. The readahead state is not locked, but all that can go wrong
	 * is to map fewer or more of the pages that are cached.
	 */
	ra = &vmf->vma->vm_file->f_ra;
	if ((vmf->flags & FAULT_FLAG_TRIED) &&
	    vmf->pgoff - READ_ONCE(ra->start) < READ_ONCE(ra->size))
		read_end = READ_ONCE(ra->start) + READ_ONCE(ra->size);

	block = vmf_block(vmf, order);
	exec_leaf_ptes(&block, pte_index(vmf->address), read_end, from_pte,
		       to_pte);
}
