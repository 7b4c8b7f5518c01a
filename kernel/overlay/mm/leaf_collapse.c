// SPDX-License-Identifier: GPL-2.0-only
/*
 * Text that was read in narrow folios, before anything spoke for wide ones, is
 * copied into a wide one once its block is full or nearly so.
 *
 * The fault that finds this out holds locks and folios, so the work is done
 * when its task returns to user mode: before the next instruction there, and
 * on the account of the task that profits. A fault from user mode returns
 * there before the next one, so a task never has two requests.
 */
#include <linux/exec_leaf.h>
#include <linux/file.h>
#include <linux/fs.h>
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
	pgoff_t end = request->start + HPAGE_PMD_NR;
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
	       vma->vm_end - request->addr >= HPAGE_PMD_SIZE &&
	       linear_page_index(vma, request->addr) == request->start;
}

static void leaf_collapse_work(struct callback_head *work)
{
	struct leaf_request *request =
		container_of(work, struct leaf_request, work);
	struct mm_struct *mm = current->mm;
	struct vm_area_struct *vma;

	/* A task that exits has none left. */
	if (mm) {
		leaf_fill(request);
		mmap_read_lock(mm);
		vma = vma_lookup(mm, request->addr);
		if (leaf_still_mapped(request, vma))
			leaf_collapse_block(vma, request->addr);
		mmap_read_unlock(mm);
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
	request->addr = vmf->address & HPAGE_PMD_MASK;
	request->start = round_down(vmf->pgoff, HPAGE_PMD_NR);
	init_task_work(&request->work, leaf_collapse_work);
	if (!task_work_add(current, &request->work, TWA_RESUME))
		return;
	fput(request->file);
	kfree(request);
}
