// SPDX-License-Identifier: GPL-2.0-only
/*
 * Text that was read in narrow folios, before anything spoke for wide ones, is
 * copied into a wide one once its block is full or nearly so.
 *
 * The fault that finds this out holds locks and folios, so the work is done
 * when its task returns to user mode: before the next instruction there, and
 * on the account of the task that profits. A fault from user mode returns
 * there before the next one, so a task never has two requests.
 *
 * The folio is of the widest leaf, whether a PMD maps it or a run of entries.
 */
#include <linux/exec_leaf.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/leaf_ground.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/task_work.h>

#include "internal.h"

/* A block of text to collapse: where it is mapped, and what it is of its file */
struct leaf_request {
	struct callback_head work;
	struct file *file;
	unsigned long addr;
	pgoff_t start;
};

/* Read what is missing and wait for it: collapsing gives up at a locked folio. */
static void leaf_fill(const struct leaf_request *request)
{
	struct address_space *mapping = request->file->f_mapping;
	struct file_ra_state *ra = &request->file->f_ra;
	pgoff_t end = request->start + LEAF_BLOCK_PAGES;
	unsigned long window = max(ra->ra_pages, 1U);
	struct folio *folio;
	pgoff_t index;

	for (index = request->start; index < end; index += window) {
		DEFINE_READAHEAD(ractl, request->file, ra, mapping, index);

		force_page_cache_ra(&ractl, min(window, end - index));
	}
	for (index = request->start; index < end;) {
		folio = filemap_get_folio(mapping, index);
		if (IS_ERR(folio))
			return;
		folio_wait_locked(folio);
		index = folio_next_index(folio);
		folio_put(folio);
	}
}

/* Is the block still mapped as it was when the fault asked? */
static bool leaf_still_mapped(const struct leaf_request *request,
			      struct vm_area_struct *vma)
{
	return vma && vma->vm_file == request->file && exec_leaf_vma(vma) &&
	       vma->vm_end - request->addr >= LEAF_BLOCK &&
	       linear_page_index(vma, request->addr) == request->start;
}

/*
 * The task that asked is about to execute the block, so it need not fault
 * again. Others will, as they come to it, and so will this one if somebody
 * changes its mappings right now.
 */
static void leaf_map_again(const struct leaf_request *request,
			   struct mm_struct *mm)
{
	struct vm_area_struct *vma;

	if (!mmap_read_trylock(mm))
		return;
	vma = vma_lookup(mm, request->addr);
	if (leaf_still_mapped(request, vma))
		leaf_map_block(vma, request->addr, LEAF_BLOCK_ORDER);
	mmap_read_unlock(mm);
}

static void leaf_collapse_work(struct callback_head *work)
{
	struct leaf_request *request =
		container_of(work, struct leaf_request, work);
	struct mm_struct *mm = current->mm;

	/* A task that exits has none left. */
	if (mm) {
		leaf_fill(request);
		if (leaf_collapse_block(request->file, request->addr,
					request->start, LEAF_BLOCK_ORDER))
			leaf_map_again(request, mm);
	}
	fput(request->file);
	kfree(request);
}

/**
 * leaf_collapse_later - collapse the block of a fault when the task returns
 * @vmf: the fault, from user mode, on a VMA that holds the block
 *
 * Nothing happens if memory for the request is short: it is an optimisation.
 */
void leaf_collapse_later(const struct vm_fault *vmf)
{
	struct leaf_request *request = kmalloc(sizeof(*request), GFP_NOWAIT);

	if (!request)
		return;
	request->file = get_file(vmf->vma->vm_file);
	request->addr = round_down(vmf->address, LEAF_BLOCK);
	request->start = round_down(vmf->pgoff, LEAF_BLOCK_PAGES);
	init_task_work(&request->work, leaf_collapse_work);
	if (!task_work_add(current, &request->work, TWA_RESUME))
		return;
	fput(request->file);
	kfree(request);
}
