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
#include <linux/hash.h>
#include <linux/jiffies.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/swap.h>
#include <linux/task_work.h>
#include <linux/workqueue.h>

#include <trace/events/leaf_policy.h>

#include "internal.h"

/* A block of text to collapse: where it is mapped, and what it is of its file */
struct leaf_request {
	struct callback_head work;
	struct file *file;
	unsigned long addr;
	pgoff_t start;
	struct work_struct retry;
	struct mem_cgroup *memcg;
};

/*
 * A block that could not be collapsed is left alone for a while: whoever can
 * read a file can have it fail, by a reference to one of its pages.
 */
#define LEAF_PAUSE_BITS	6

struct leaf_pause {
	const struct address_space *mapping;
	pgoff_t start;
	unsigned long until;
};

static struct leaf_pause leaf_pauses[1 << LEAF_PAUSE_BITS];
static DEFINE_SPINLOCK(leaf_pause_lock);

static struct leaf_pause *leaf_pause_of(const struct address_space *mapping,
					pgoff_t start)
{
	return &leaf_pauses[hash_long((unsigned long)mapping + start,
				      LEAF_PAUSE_BITS)];
}

static void leaf_pause(const struct leaf_request *request)
{
	const struct address_space *mapping = request->file->f_mapping;

	spin_lock(&leaf_pause_lock);
	*leaf_pause_of(mapping, request->start) = (struct leaf_pause) {
		.mapping = mapping,
		.start = request->start,
		.until = jiffies + HZ,
	};
	spin_unlock(&leaf_pause_lock);
}

static bool leaf_pauses_now(const struct address_space *mapping, pgoff_t start)
{
	struct leaf_pause pause;

	spin_lock(&leaf_pause_lock);
	pause = *leaf_pause_of(mapping, start);
	spin_unlock(&leaf_pause_lock);
	return pause.mapping == mapping && pause.start == start &&
	       time_before(jiffies, pause.until);
}

/* Have what is missing of the block read; whether the disk is slow or not. */
static void leaf_read_missing(const struct leaf_request *request)
{
	struct address_space *mapping = request->file->f_mapping;
	struct file_ra_state *ra = &request->file->f_ra;
	pgoff_t end = request->start + LEAF_BLOCK_PAGES;
	unsigned long window = max(ra->ra_pages, 1U);
	pgoff_t index;

	for (index = request->start; index < end; index += window) {
		DEFINE_READAHEAD(ractl, request->file, ra, mapping, index);

		force_page_cache_ra(&ractl, min(window, end - index));
	}
}

/* Wait until the block is read: 0, -ENODATA, or -EINTR if the task is killed. */
static int leaf_wait(const struct leaf_request *request)
{
	struct address_space *mapping = request->file->f_mapping;
	pgoff_t end = request->start + LEAF_BLOCK_PAGES;
	pgoff_t index = request->start;
	struct folio *folio;
	int err = 0;

	while (index < end && !err) {
		folio = filemap_get_folio(mapping, index);
		if (IS_ERR(folio))
			return -ENODATA;
		if (!folio_test_uptodate(folio))
			err = folio_wait_locked_killable(folio);
		index = folio_next_index(folio);
		folio_put(folio);
	}
	return err;
}

static int leaf_fill(const struct leaf_request *request)
{
	int err = leaf_wait(request);

	if (err != -ENODATA)
		return err;
	leaf_read_missing(request);
	return leaf_wait(request);
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

static void leaf_request_free(struct leaf_request *request)
{
	fput(request->file);
	kfree(request);
}

/* There is one at a time, and who comes meanwhile goes without. */
static atomic_t leaf_retrying = ATOMIC_INIT(0);

static void leaf_retry_work(struct work_struct *work)
{
	struct leaf_request *request =
		container_of(work, struct leaf_request, retry);
	struct mem_cgroup *memcg = set_active_memcg(request->memcg);
	int err;

	lru_add_drain_all();
	err = leaf_replace(request->file->f_mapping, request->start,
			   LEAF_BLOCK_ORDER);
	trace_leaf_collapse(request->file->f_mapping->host, request->start, err);
	if (err)
		leaf_pause(request);
	set_active_memcg(memcg);
	mem_cgroup_put(request->memcg);
	leaf_request_free(request);
	atomic_set(&leaf_retrying, 0);
}

/*
 * Other CPUs' batches may hold some of the pages. To wait until they are
 * drained may take as long as a task of high priority keeps a CPU to itself,
 * so somebody else does.
 */
static bool leaf_retry(struct leaf_request *request)
{
	if (num_online_cpus() == 1 || atomic_cmpxchg(&leaf_retrying, 0, 1))
		return false;
	request->memcg = get_mem_cgroup_from_mm(current->mm);
	INIT_WORK(&request->retry, leaf_retry_work);
	queue_work(system_dfl_wq, &request->retry);
	return true;
}

/* Collapse the block for a task that goes on afterwards. */
static int leaf_collapse(const struct leaf_request *request)
{
	int err = leaf_fill(request);

	if (err)
		return err;
	err = leaf_replace(request->file->f_mapping, request->start,
			   LEAF_BLOCK_ORDER);
	if (!err)
		leaf_map_again(request, current->mm);
	return err;
}

static void leaf_collapse_work(struct callback_head *work)
{
	struct leaf_request *request =
		container_of(work, struct leaf_request, work);
	int err = 0;

	/* A task that exits has no mm left, and one that is killed soon none. */
	if (current->mm && !fatal_signal_pending(current)) {
		err = leaf_collapse(request);
		trace_leaf_collapse(request->file->f_mapping->host,
				    request->start, err);
	}
	if (err)
		leaf_pause(request);
	if (err != -EAGAIN || !leaf_retry(request))
		leaf_request_free(request);
}

static struct leaf_request *leaf_request_new(const struct vm_fault *vmf)
{
	struct leaf_request *request = kmalloc(sizeof(*request), GFP_NOWAIT);

	if (!request)
		return NULL;
	request->file = get_file(vmf->vma->vm_file);
	request->addr = round_down(vmf->address, LEAF_BLOCK);
	request->start = round_down(vmf->pgoff, LEAF_BLOCK_PAGES);
	init_task_work(&request->work, leaf_collapse_work);
	return request;
}

/**
 * leaf_collapse_later - collapse the block of a fault when the task returns
 * @vmf: the fault, from user mode, on a VMA that holds the block
 *
 * Nothing happens if memory for the request is short: it is an optimisation.
 */
void leaf_collapse_later(const struct vm_fault *vmf)
{
	pgoff_t start = round_down(vmf->pgoff, LEAF_BLOCK_PAGES);
	struct leaf_request *request;

	if (leaf_pauses_now(vmf->vma->vm_file->f_mapping, start))
		return;
	request = leaf_request_new(vmf);
	if (request && task_work_add(current, &request->work, TWA_RESUME))
		leaf_request_free(request);
}
