// SPDX-License-Identifier: GPL-2.0-only
/*
 * What to read for a fault on text: what the page cache holds around it, how
 * much memory there is, and what earlier reads of the file proved.
 */
#include <linux/cpuset.h>
#include <linux/exec_leaf.h>
#include <linux/fs.h>
#include <linux/leaf_ground.h>
#include <linux/memcontrol.h>
#include <linux/mempolicy.h>
#include <linux/mm.h>
#include <linux/mmzone.h>
#include <linux/nodemask.h>
#include <linux/pagemap.h>
#include <linux/vmstat.h>
#include <linux/xarray.h>

#include <trace/events/leaf_policy.h>

#include "leaf_internal.h"

/*
 * Fill in @hole, @run, and what of @filled lies before the fault; returns the
 * index at which the hole begins.
 */
static pgoff_t leaf_look_back(struct address_space *mapping, pgoff_t pgoff,
			      u64 scan, struct leaf_read *read)
{
	pgoff_t first = pgoff - min_t(pgoff_t, pgoff, scan >> PAGE_SHIFT);
	pgoff_t block = round_down(pgoff, LEAF_BLOCK_PAGES);
	XA_STATE(xas, &mapping->i_pages, first);
	pgoff_t run = first, end = first, index;
	unsigned long nr;
	void *entry;

	if (!pgoff)
		return 0;
	rcu_read_lock();
	xas_for_each(&xas, entry, pgoff - 1) {
		if (xas_retry(&xas, entry) || xa_is_value(entry))
			continue;
		nr = 1UL << xas_get_order(&xas);
		index = round_down(xas.xa_index, nr);
		if (index > end)
			run = index;
		end = min(index + nr, pgoff);
		if (end > block)
			read->filled += (end - max(index, block)) * PAGE_SIZE;
	}
	rcu_read_unlock();

	read->hole = (u64)(pgoff - end) << PAGE_SHIFT;
	read->run = (u64)(end - run) << PAGE_SHIFT;
	return end;
}

/* Fill in @gap, and what of @filled lies behind the fault. */
static void leaf_look_ahead(struct address_space *mapping, pgoff_t pgoff,
			    u64 scan, struct leaf_read *read)
{
	u64 limit = max(scan, read->window);
	pgoff_t last = pgoff + (limit >> PAGE_SHIFT) - 1;
	pgoff_t block = round_down(pgoff, LEAF_BLOCK_PAGES) + LEAF_BLOCK_PAGES;
	XA_STATE(xas, &mapping->i_pages, pgoff);
	pgoff_t gap = last + 1, index;
	unsigned long nr;
	void *entry;

	rcu_read_lock();
	xas_for_each(&xas, entry, last) {
		if (xas_retry(&xas, entry) || xa_is_value(entry))
			continue;
		nr = 1UL << xas_get_order(&xas);
		index = round_down(xas.xa_index, nr);
		gap = min(gap, max(index, pgoff));
		if (index >= block)
			break;
		read->filled += (min(index + nr, block) - max(index, pgoff)) *
				PAGE_SIZE;
	}
	rcu_read_unlock();

	read->gap = (u64)(gap - pgoff) << PAGE_SHIFT;
}

/* Reclaim leaves a shadow where it takes a page from. */
static bool leaf_evicted(struct address_space *mapping, pgoff_t pgoff)
{
	return xa_is_value(xa_load(&mapping->i_pages, pgoff));
}

static enum leaf_advice leaf_advice(const struct vm_area_struct *vma)
{
	if (vma->vm_flags & VM_RAND_READ)
		return LEAF_ADVICE_RANDOM;
	return vma->vm_flags & VM_SEQ_READ ? LEAF_ADVICE_SEQUENTIAL :
					     LEAF_ADVICE_NONE;
}

/*
 * A block can be collapsed if the task that faults returns to user mode next,
 * and if nobody may be about to write to it.
 */
static u8 leaf_collapsible(const struct vm_fault *vmf)
{
	if (inode_is_open_for_write(vmf->vma->vm_file->f_mapping->host))
		return 0;
	return vmf->flags & FAULT_FLAG_USER ? LEAF_WIDEST_SHIFT : 0;
}

#ifdef CONFIG_MEMCG
static u64 leaf_memcg_spare(void)
{
	struct mem_cgroup *memcg;
	unsigned long limit, usage;
	u64 spare = U64_MAX;

	rcu_read_lock();
	memcg = mem_cgroup_from_task(current);
	for (; memcg && !mem_cgroup_is_root(memcg);
	     memcg = parent_mem_cgroup(memcg)) {
		limit = min(READ_ONCE(memcg->memory.max),
			    READ_ONCE(memcg->memory.high));
		usage = page_counter_read(&memcg->memory);
		limit -= min(limit, usage);
		spare = min(spare, (u64)limit << PAGE_SHIFT);
	}
	rcu_read_unlock();
	return spare;
}
#else
static u64 leaf_memcg_spare(void)
{
	return U64_MAX;
}
#endif

/*
 * Bytes that one folio may take from a zone before somebody has to reclaim for
 * himself. A machine whose page cache has filled memory lives between its low
 * and high watermark and is well; below the low one, kswapd does not keep up.
 */
static u64 leaf_zone_spare(struct zone *zone)
{
	unsigned long reserve = zone->lowmem_reserve[ZONE_MOVABLE];
	unsigned long nr_free = zone_page_state(zone, NR_FREE_PAGES);

	if (!managed_zone(zone) || nr_free < low_wmark_pages(zone) + reserve)
		return 0;
	return (u64)(nr_free - min_wmark_pages(zone) - reserve) << PAGE_SHIFT;
}

/* Does the task's cpuset and memory policy let it take memory of a node? */
static bool leaf_node_allowed(int nid)
{
#ifdef CONFIG_NUMA
	const struct mempolicy *policy = get_task_policy(current);

	if (policy->mode == MPOL_BIND && !node_isset(nid, policy->nodes))
		return false;
#endif
	return node_isset(nid, cpuset_current_mems_allowed);
}

/* Bytes that one folio may take, and the memory cgroup may hold. */
static u64 leaf_spare(void)
{
	u64 spare = 0;
	int nid, i;

	for_each_node_state(nid, N_MEMORY) {
		if (!leaf_node_allowed(nid))
			continue;
		for (i = 0; i < MAX_NR_ZONES; i++)
			spare = max(spare, leaf_zone_spare(&NODE_DATA(nid)->node_zones[i]));
	}
	return min(spare, leaf_memcg_spare());
}

/*
 * How far to look around a fault. Where device or memory forbid a wide leaf,
 * nothing can speak for one, and a window on either side is all that counts.
 */
static u64 leaf_scan(const struct leaf_read *read)
{
	if (leaf_refuse_cost(read, LEAF_WIDEST_SHIFT) == LEAF_RULE_NR)
		return LEAF_SCAN;
	return min(LEAF_SCAN, 2 * leaf_window(read));
}

/* All that the policy wants to know of a fault */
static void leaf_look(const struct vm_fault *vmf, struct leaf_read *read)
{
	const struct vm_area_struct *vma = vmf->vma;
	const struct file_ra_state *ra = &vma->vm_file->f_ra;
	struct address_space *mapping = vma->vm_file->f_mapping;
	pgoff_t end;
	u64 scan;

	*read = (struct leaf_read) {
		.ground = leaf_ground(vma->vm_file),
		.start = vma->vm_start,
		.end = vma->vm_end,
		.offset = (u64)vma->vm_pgoff << PAGE_SHIFT,
		.fault = vmf->address,
		.window = (u64)ra->ra_pages << PAGE_SHIFT,
		.spare = leaf_spare(),
		.collapse = leaf_collapsible(vmf),
		.evicted = leaf_evicted(mapping, vmf->pgoff),
		.advice = leaf_advice(vma),
		.account = leaf_account_of(mapping->host),
	};
	scan = leaf_scan(read);
	end = leaf_look_back(mapping, vmf->pgoff, scan, read);
	leaf_look_ahead(mapping, vmf->pgoff, scan, read);
	if (READ_ONCE(ra->start) + READ_ONCE(ra->size) == end)
		read->last_size = (u64)READ_ONCE(ra->size) << PAGE_SHIFT;
}

/**
 * exec_leaf_read - what to read for a fault on text that is not cached
 * @vmf: the fault
 * @span: the answer
 *
 * Return: true if @span says what to read; false if the policy has no say and
 * the caller is to do as it does for any mapping.
 */
bool exec_leaf_read(const struct vm_fault *vmf, struct exec_leaf_span *span)
{
	struct leaf_read_answer answer;
	struct leaf_read read;

	if (!exec_leaf_order(vmf->vma) || !vmf->vma->vm_file->f_ra.ra_pages)
		return false;

	leaf_look(vmf, &read);
	leaf_read_decide(&read, &answer);
	trace_leaf_read(vmf, &answer);
	if (!answer.size)
		return false;
	leaf_account_keep(vmf->vma->vm_file->f_mapping->host, answer.account);
	if (answer.collapse)
		leaf_collapse_later(vmf);
	span->start = answer.offset >> PAGE_SHIFT;
	span->nr = answer.size >> PAGE_SHIFT;
	span->order = answer.order;
	return true;
}
