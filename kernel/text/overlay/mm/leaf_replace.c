// SPDX-License-Identifier: GPL-2.0-only
/*
 * Many folios of a file's page cache replaced by one that holds the same.
 *
 * Others are not to notice unless it works: whatever may go wrong is found out
 * while their mappings are as they were. Only then is the block unmapped, once,
 * with all its folios locked, so that no fault maps any of them again.
 *
 * Nobody who finds the old folios in the page cache may go on with them. So
 * their references are frozen while they are replaced: who holds one keeps us
 * from it, and who comes then finds the new folio. Invalidation after a direct
 * write is such a user: with a reference to an old folio, and waiting for its
 * lock, it would leave the new one, with the text from before the write, alone.
 */
#include <linux/dax.h>
#include <linux/exec_leaf.h>
#include <linux/fs.h>
#include <linux/highmem.h>
#include <linux/huge_mm.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/page_ref.h>
#include <linux/pagemap.h>
#include <linux/sched.h>
#include <linux/shmem_fs.h>
#include <linux/slab.h>
#include <linux/swap.h>
#include <linux/vmstat.h>

#include "internal.h"

/*
 * A block's folios, each with @pins references of ours. In the end they are
 * locked, and off the LRU, whose batches take references.
 */
struct leaf_old {
	struct address_space *mapping;
	pgoff_t start;
	unsigned int order;
	int pins;
	unsigned int nr;
	struct folio *folio[];
};

/* References that a folio has if nobody but mappings and we use it */
static int leaf_refs(const struct leaf_old *old, struct folio *folio)
{
	return folio_nr_pages(folio) + folio_test_private(folio) +
	       folio_mapcount(folio) + old->pins;
}

/*
 * Clean, as on the disk, and used by nobody but as text. What somebody has
 * locked in memory is not to be unmapped.
 */
static int leaf_check(const struct leaf_old *old, struct folio *folio)
{
	if (folio->mapping != old->mapping || folio_order(folio) >= old->order ||
	    !folio_test_uptodate(folio) || folio_test_dirty(folio) ||
	    folio_test_writeback(folio) || folio_test_mlocked(folio) ||
	    folio_test_private_2(folio) || folio_test_hwpoison(folio) ||
	    (folio_test_large(folio) && folio_test_has_hwpoisoned(folio)))
		return -EBUSY;
	/* A reference more may be that of another CPU's batch for the LRU. */
	return folio_ref_count(folio) == leaf_refs(old, folio) ? 0 : -EAGAIN;
}

static int leaf_check_all(const struct leaf_old *old)
{
	unsigned int i;
	int err = 0;

	if (inode_is_open_for_write(old->mapping->host))
		return -EBUSY;
	for (i = 0; i < old->nr && !err; i++)
		err = leaf_check(old, old->folio[i]);
	return err;
}

/* Take a reference to all folios; -ENODATA if one is missing. */
static int leaf_get_all(struct leaf_old *old)
{
	pgoff_t index = old->start, end = index + (1UL << old->order);
	struct folio *folio;

	while (index < end) {
		folio = filemap_get_folio(old->mapping, index);
		if (IS_ERR(folio))
			return -ENODATA;
		old->folio[old->nr++] = folio;
		index = folio_next_index(folio);
	}
	return 0;
}

static void leaf_put_all(struct leaf_old *old)
{
	while (old->nr)
		folio_put(old->folio[--old->nr]);
}

static void leaf_unlock(struct leaf_old *old, unsigned int nr)
{
	while (nr)
		folio_unlock(old->folio[--nr]);
}

/* Lock all folios without waiting, and see that they are still the block. */
static int leaf_lock_all(struct leaf_old *old)
{
	pgoff_t index = old->start;
	struct folio *folio;
	unsigned int i;

	for (i = 0; i < old->nr; i++) {
		folio = old->folio[i];
		if (!folio_trylock(folio))
			break;
		if (folio->mapping != old->mapping || folio->index != index) {
			folio_unlock(folio);
			break;
		}
		index = folio_next_index(folio);
	}
	if (i == old->nr && index == old->start + (1UL << old->order))
		return 0;
	leaf_unlock(old, i);
	return -EBUSY;
}

static void leaf_putback(struct leaf_old *old, unsigned int nr)
{
	while (nr)
		folio_putback_lru(old->folio[--nr]);
	old->pins = 1;
}

static int leaf_isolate_all(struct leaf_old *old)
{
	unsigned int i;

	for (i = 0; i < old->nr; i++) {
		if (!folio_isolate_lru(old->folio[i])) {
			leaf_putback(old, i);
			return -EAGAIN;
		}
	}
	old->pins = 2;
	return 0;
}

/* Only if it is there, from where the task's memory policy says */
static struct folio *leaf_alloc(const struct leaf_old *old)
{
	struct folio *folio = folio_alloc(GFP_TRANSHUGE_LIGHT, old->order);

	if (!folio)
		return NULL;
	if (mem_cgroup_charge(folio, current->mm, GFP_TRANSHUGE_LIGHT)) {
		folio_put(folio);
		return NULL;
	}
	__folio_set_locked(folio);
	folio->mapping = old->mapping;
	folio->index = old->start;
	return folio;
}

static void leaf_free(struct folio *new)
{
	new->mapping = NULL;
	folio_unlock(new);
	folio_put(new);
}

static int leaf_copy_all(const struct leaf_old *old, struct folio *new)
{
	unsigned long page = 0, i;
	struct folio *folio;
	unsigned int nr;

	for (nr = 0; nr < old->nr; nr++) {
		folio = old->folio[nr];
		for (i = 0; i < folio_nr_pages(folio); i++, page++)
			if (copy_mc_highpage(folio_page(new, page),
					     folio_page(folio, i)))
				return -EIO;
		cond_resched();
	}
	folio_mark_uptodate(new);
	return 0;
}

static int leaf_release_all(const struct leaf_old *old)
{
	unsigned int i;

	for (i = 0; i < old->nr; i++)
		if (!filemap_release_folio(old->folio[i], GFP_NOWAIT))
			return -EBUSY;
	return 0;
}

static void leaf_thaw(const struct leaf_old *old, unsigned int nr)
{
	while (nr--)
		folio_ref_unfreeze(old->folio[nr],
				   folio_nr_pages(old->folio[nr]) + old->pins);
}

/*
 * Unmapping has moved the dirty bits of page tables to the folios. If there
 * were none, nobody can write to them until they are unlocked.
 */
static int leaf_freeze_all(const struct leaf_old *old)
{
	struct folio *folio;
	unsigned int i;

	for (i = 0; i < old->nr; i++) {
		folio = old->folio[i];
		if (!folio_ref_freeze(folio, folio_nr_pages(folio) + old->pins))
			break;
		if (folio_test_dirty(folio)) {
			leaf_thaw(old, i + 1);
			return -EBUSY;
		}
	}
	if (i == old->nr)
		return 0;
	leaf_thaw(old, i);
	return -EAGAIN;
}

/* Each folio counts for the node and the memory cgroup that it is of. */
static void leaf_count(struct folio *folio, long nr)
{
	lruvec_stat_mod_folio(folio, NR_FILE_PAGES, nr);
	if (folio_test_pmd_mappable(folio))
		lruvec_stat_mod_folio(folio, NR_FILE_THPS, nr);
}

/* What reclaim has learned about the one holds for the other. */
static void leaf_inherit(struct folio *new, const struct folio *folio)
{
	if (folio_test_active(folio))
		folio_set_active(new);
	if (folio_test_workingset(folio))
		folio_set_workingset(new);
	if (folio_test_referenced(folio))
		folio_set_referenced(new);
}

/* Out of the page cache and off the LRU; one reference of ours is left. */
static void leaf_forget(struct folio *folio)
{
	folio->mapping = NULL;
	folio_clear_active(folio);
	folio_clear_unevictable(folio);
	folio_ref_unfreeze(folio, 1);
}

/* The moment in which the page cache changes; the folios are unmapped. */
static int leaf_switch(const struct leaf_old *old, struct folio *new)
{
	XA_STATE_ORDER(xas, &old->mapping->i_pages, old->start, old->order);
	unsigned int i;
	int err;

	mapping_set_update(&xas, old->mapping);
	folio_ref_add(new, folio_nr_pages(new));
	xas_lock_irq(&xas);
	err = leaf_freeze_all(old);
	if (err)
		goto out;
	xas_store(&xas, new);
	err = xas_error(&xas);
	if (err) {
		leaf_thaw(old, old->nr);
		goto out;
	}
	for (i = 0; i < old->nr; i++) {
		leaf_inherit(new, old->folio[i]);
		leaf_count(old->folio[i], -folio_nr_pages(old->folio[i]));
		leaf_forget(old->folio[i]);
	}
	leaf_count(new, folio_nr_pages(new));
out:
	xas_unlock_irq(&xas);
	if (err)
		folio_ref_sub(new, folio_nr_pages(new));
	return err;
}

/* All folios are locked and off the LRU. */
static int leaf_replace_isolated(const struct leaf_old *old, struct folio *new)
{
	int err = leaf_copy_all(old, new);

	/* Copying took its time. */
	if (!err)
		err = leaf_check_all(old);
	if (!err)
		err = leaf_release_all(old);
	if (err)
		return err;

	/* From here on only somebody who comes right now makes it fail. */
	unmap_mapping_pages(old->mapping, old->start, 1UL << old->order, false);
	return leaf_switch(old, new);
}

/* All folios are locked. */
static int leaf_replace_locked(struct leaf_old *old, struct folio *new)
{
	int err = leaf_check_all(old);

	if (!err)
		err = leaf_isolate_all(old);
	if (err)
		return err;
	err = leaf_replace_isolated(old, new);
	if (err) {
		leaf_putback(old, old->nr);
		return err;
	}
	folio_add_lru(new);
	/* A PMD can only be set where there is no page table. */
	if (old->order == HPAGE_PMD_ORDER)
		retract_page_tables(old->mapping, old->start);
	return 0;
}

static int leaf_replace_all(struct leaf_old *old)
{
	struct folio *new;
	int err;

	err = leaf_get_all(old);
	if (!err)
		err = leaf_check_all(old);
	if (err)
		return err;
	new = leaf_alloc(old);
	if (!new)
		return -ENOMEM;
	err = leaf_lock_all(old);
	if (!err) {
		err = leaf_replace_locked(old, new);
		leaf_unlock(old, old->nr);
	}
	if (err) {
		leaf_free(new);
		return err;
	}
	folio_unlock(new);
	folio_put(new);
	return 0;
}

/**
 * leaf_replace - replace the folios of a block of a file by one
 * @mapping: the file's, which takes folios of @order
 * @start: index of the block's first page, aligned to its size
 * @order: order of the block
 *
 * Takes memory only if it is there. No folio is waited for, and nothing is
 * waited for with folios locked but the file's mappings, as reclaim does.
 *
 * Return: 0; -EAGAIN if somebody uses one of the folios, which may be another
 * CPU's batch for the LRU; -EBUSY if one is not clean, not uptodate, locked, in
 * memory or by somebody, or the file is open for writing; -ENODATA if one is
 * missing; -EIO if one cannot be read by the CPU; -ENOMEM.
 */
int leaf_replace(struct address_space *mapping, pgoff_t start,
		 unsigned int order)
{
	struct leaf_old *old;
	int err;

	old = kmalloc(struct_size(old, folio, 1UL << order), GFP_KERNEL);
	if (!old)
		return -ENOMEM;
	old->mapping = mapping;
	old->start = start;
	old->order = order;
	old->pins = 1;
	old->nr = 0;
	/* Freshly read folios are in this CPU's batch. */
	lru_add_drain();
	err = leaf_replace_all(old);
	leaf_put_all(old);
	kfree(old);
	return err;
}
