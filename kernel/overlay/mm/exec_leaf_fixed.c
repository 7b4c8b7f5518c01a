// SPDX-License-Identifier: GPL-2.0-only
/*
 * What to read for a fault on text where one size of leaf is all that is known
 * of the machine: that leaf, for every mapping that holds it.
 */
#include <linux/exec_leaf.h>
#include <linux/fs.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/xarray.h>

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
	pgoff_t start = exec_leaf_block_start(block);
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

	if (cached >= exec_leaf_block_end(block) &&
	    exec_leaf_block_start(block) >= block->vma_start &&
	    exec_leaf_block_end(block) <= block->vma_end) {
		end = min(round_down(cached, leaf), span->start + span->nr);
		span->nr = end - span->start;
		return;
	}

	span->order = min(narrow, block->order);
	span->start = max(round_down(block->pgoff, 1UL << span->order),
			  block->vma_start);
	end = span->start + round_up(max(ra_pages, 1UL), 1UL << span->order);
	end = min3(end, exec_leaf_block_end(block), block->vma_end);
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
	ra_pages = vma->vm_file->f_ra.ra_pages;
	if (!ra_pages)
		return false;

	block = exec_leaf_block(vmf, order);
	*span = exec_leaf_span(&block, ra_pages);
	cached = first_cached(vma->vm_file->f_mapping, span->start,
			      span->start + span->nr);
	exec_leaf_trim(&block, cached, narrow, ra_pages, span);
	return true;
}
