// SPDX-License-Identifier: GPL-2.0-only
/*
 * Collapse: what permission changes split in the linear map becomes wide again
 * once the permissions of a whole leaf are uniform.
 *
 * A change marks where it was. A second later a worker walks what was marked,
 * from the pages up, and writes the widest leaf that boot would have written.
 * It runs only where leaves may change their size live: on CPUs that promise
 * never to raise a TLB conflict abort for entries of different size
 * (FEAT_BBM, Arm ARM, "Support levels for changing block size").
 *
 * Changes of permissions hold pgtable_split_lock from before the split to after
 * the last entry. The worker holds it while it looks at one table and
 * rewrites it. So an entry never changes under the worker, and no change writes to
 * a table that the worker is about to free.
 *
 * A collapse invalidates the whole range of the leaf, cached table entries
 * included, before it lets go of the lock. So no TLB walks a table that is freed,
 * and no narrower entry is left that invalidating one address of the wide one
 * would miss.
 *
 * Readers of the tables that change nothing, as ptdump and kexec, hold the
 * mmap_lock of init_mm, which the worker has for writing. perf samples the size
 * of a page with interrupts off and no lock, so tables are freed after a grace
 * period, and hibernation, before it freezes the worker, looks in an RCU reader
 * which pages are mapped. Memory hotplug is excluded by get_online_mems().
 */
#include <linux/debugfs.h>
#include <linux/kfence.h>
#include <linux/ktime.h>
#include <linux/memory.h>
#include <linux/memory_hotplug.h>
#include <linux/mm.h>
#include <linux/mmzone.h>
#include <linux/pgtable.h>
#include <linux/rcupdate.h>
#include <linux/workqueue.h>

#include <asm/kfence.h>
#include <asm/linear_map.h>
#include <asm/sections.h>
#include <asm/tlbflush.h>

/* How long after the first change the worker looks: many come in bursts */
#define COLLAPSE_DELAY		HZ

/* The same where leaves are split again and again as soon as they are whole */
#define COLLAPSE_DELAY_MAX	(16 * HZ)

/**
 * struct leaf_range - where leaves may grow, in whole widest leaves
 * @start: first address
 * @end: address after the last
 * @due: when the worker is to look, or did, if nothing changed since
 * @delay: how long after the change that is
 * @changed: since the worker looked; false if the range is only remembered
 */
struct leaf_range {
	unsigned long start;
	unsigned long end;
	unsigned long due;
	unsigned long delay;
	bool changed;
};

/*
 * If there are too many ranges, one that is only remembered is forgotten, or two
 * become one with all between them. Under pgtable_split_lock.
 */
static struct leaf_range ranges[16];
static unsigned int nr_ranges;

static unsigned long longest_hold_ns;

static void collapse_work(struct work_struct *work);
static DECLARE_DELAYED_WORK(collapse, collapse_work);

/* The widest leaf that this granule has, and that entries of one table form */
static unsigned long widest_leaf(void)
{
	return pud_sect_supported() ? PUD_SIZE : min(CONT_PMD_SIZE, PUD_SIZE);
}

/* Bytes between two ranges; 0 if they meet */
static unsigned long gap(const struct leaf_range *a, const struct leaf_range *b)
{
	if (a->end < b->start)
		return b->start - a->end;
	return b->end < a->start ? a->start - b->end : 0;
}

/*
 * A range for what was changed: one that has it, a free or forgotten one, or the
 * nearest, which grows.
 */
static struct leaf_range *range_for(const struct leaf_range *new)
{
	struct leaf_range *range, *near = ranges, *forget = NULL;

	for (range = ranges; range < ranges + nr_ranges; range++) {
		if (range->start <= new->start && range->end >= new->end)
			return range;
		if (!range->changed)
			forget = range;
		if (gap(range, new) < gap(near, new))
			near = range;
	}

	if (nr_ranges < ARRAY_SIZE(ranges))
		forget = &ranges[nr_ranges++];
	if (forget) {
		*forget = *new;
		return forget;
	}
	near->start = min(near->start, new->start);
	near->end = max(near->end, new->end);
	return near;
}

/**
 * linear_map_mark - look whether leaves of a range can grow, in a while
 * @start: first address
 * @end: address after the last
 *
 * A leaf that changes again soon after it was looked at will do so once more:
 * it is left alone for longer. Nothing is looked at for what changes while the
 * image of hibernation is copied: the image would have half of the timer.
 *
 * Context: pgtable_split_lock is held.
 */
void linear_map_mark(unsigned long start, unsigned long end)
{
	const struct leaf_range new = {
		.start = ALIGN_DOWN(start, widest_leaf()),
		.end = ALIGN(end, widest_leaf()),
		.due = jiffies - COLLAPSE_DELAY_MAX,
	};
	struct leaf_range *range;

	lockdep_assert_held(&pgtable_split_lock);
	if (!linear_map_may_change_size() || system_state == SYSTEM_SUSPEND)
		return;

	range = range_for(&new);
	if (range->changed)
		return;

	range->changed = true;
	if (time_before(jiffies, range->due + COLLAPSE_DELAY))
		range->delay = min(2 * range->delay, COLLAPSE_DELAY_MAX);
	else
		range->delay = COLLAPSE_DELAY;
	range->due = jiffies + range->delay;
	queue_delayed_work(system_freezable_wq, &collapse, COLLAPSE_DELAY);
}

/**
 * linear_map_wide_entry - find the entry that can stand for many
 * @entries: of the leaves that the wide one begins and ends with
 * @nr: how many, a power of two
 * @size: how much each maps
 *
 * Return: the first entry, if all are valid, map consecutive memory from an
 *	   address that the wide leaf may begin at, and differ in nothing but
 *	   the contiguous bit, which it does not have. Otherwise 0.
 */
u64 linear_map_wide_entry(const u64 *entries, unsigned int nr, unsigned long size)
{
	u64 first = READ_ONCE(entries[0]) & ~PTE_CONT;
	unsigned int i;

	if (!(first & PTE_VALID) || first & (nr * size - size))
		return 0;

	for (i = 1; i < nr; i++)
		if ((READ_ONCE(entries[i]) & ~PTE_CONT) != (first | i * size))
			return 0;
	return first;
}

/*
 * kfence changes single pages of its pool in atomic context, where nothing can
 * be split.
 */
static bool must_stay(unsigned long start, unsigned long end)
{
#ifdef CONFIG_KFENCE
	unsigned long pool = (unsigned long)READ_ONCE(__kfence_pool);

	return pool && start < pool + KFENCE_POOL_SIZE && end > pool;
#else
	return false;
#endif
}

/*
 * A leaf must not reach beyond what is unplugged in one piece, or it would have
 * to be split then. That is a memory block. Of a section that is not online, or
 * shared with a device, no more than a subsection is sure to be of one device.
 * Boot memory is never unplugged.
 */
static unsigned long unplugged_with(struct mem_section *ms)
{
	if (!ms || !online_section(ms) || online_device_section(ms))
		return SUBSECTION_SIZE;
	return early_section(ms) ? ULONG_MAX : MIN_MEMORY_BLOCK_SIZE;
}

static bool may_be_leaf(unsigned long start, unsigned long size)
{
	unsigned long pfn = PHYS_PFN(__pa(start));
	unsigned long end = pfn + (size >> PAGE_SHIFT);

	if (must_stay(start, start + size))
		return false;
	if (size <= SUBSECTION_SIZE)
		return true;

	for (; pfn < end; pfn += PAGES_PER_SECTION)
		if (size > unplugged_with(__pfn_to_section(pfn)))
			return false;
	return true;
}

/**
 * linear_map_may_lose_table - may one leaf replace a table?
 * @start: first address
 * @size: bytes that the leaf would map
 * @entry: an entry of the table, as it is for a page
 *
 * A page whose protection is not what all memory begins with gets that back
 * before it is freed. Some callers cannot cope with failure, such as
 * vm_reset_perms() and a realm that takes back what it shared. So the way back
 * must not need memory for a table: it stays. Pages that a realm shares differ in
 * the address alone. The kernel's text and constants are read-only for good; but
 * the alias of its data is valid while the machine hibernates, and not afterwards.
 *
 * Return: true if the table can go.
 */
bool linear_map_may_lose_table(unsigned long start, unsigned long size, pte_t entry)
{
	unsigned long image = (unsigned long)lm_alias(_text);
	unsigned long init = (unsigned long)lm_alias(__init_begin);
	unsigned long data = (unsigned long)lm_alias(__init_end);
	unsigned long end = (unsigned long)lm_alias(_end);
	unsigned long pfn = PHYS_PFN(__pa(start));
	u64 val = pte_val(entry) & ~PTE_CONT;

	if (start < end && start + size > data)
		return false;
	if (val != pte_val(pfn_pte(pfn, PAGE_KERNEL)) &&
	    val != pte_val(pfn_pte(pfn, pgprot_tagged(PAGE_KERNEL))) &&
	    (start < image || start + size > init))
		return false;
	return may_be_leaf(start, size);
}

/*
 * No other thread writes to the entries. The hardware does not either: they
 * are not old, and no clean entry is writable. The barriers are those of the
 * invalidation, once for all groups of the table.
 */
static void fold_ptes(pte_t *ptep, unsigned long start)
{
	unsigned long end = start + PMD_SIZE;
	unsigned long addr, from = end, to = start;
	u64 entry;
	int i;

	for (addr = start; addr < end; addr += CONT_PTE_SIZE, ptep += CONT_PTES) {
		if (pte_cont(__ptep_get(ptep)) || !may_be_leaf(addr, CONT_PTE_SIZE))
			continue;
		entry = linear_map_wide_entry(&pte_val(*ptep), CONT_PTES, PAGE_SIZE);
		if (!entry)
			continue;
		linear_map_count_collapse(&pte_val(*ptep), CONT_PTES, PAGE_SIZE,
					  LINEAR_MAP_PTE, LINEAR_MAP_CONT_PTE);
		for (i = 0; i < CONT_PTES; i++)
			__set_pte_nosync(ptep + i, __pte(entry | i * PAGE_SIZE |
							 PTE_CONT));
		from = min(from, addr);
		to = addr + CONT_PTE_SIZE;
	}
	if (from < to)
		linear_map_invalidate(from, to);
}

/* Returns the table, if a block replaced it */
static void *collapse_pte_table(pmd_t *pmdp, unsigned long start)
{
	pte_t *table = pte_offset_kernel(pmdp, start);
	u64 page = linear_map_wide_entry(&pte_val(*table), PTRS_PER_PTE, PAGE_SIZE);

	if (!page || !linear_map_may_lose_table(start, PMD_SIZE, __pte(page))) {
		fold_ptes(table, start);
		return NULL;
	}
	set_pmd(pmdp, __pmd((page & ~PTE_TYPE_MASK) | PMD_TYPE_SECT));
	linear_map_invalidate(start, start + PMD_SIZE);
	linear_map_count_collapse(&pte_val(*table), PTRS_PER_PTE, PAGE_SIZE,
				  LINEAR_MAP_PTE, LINEAR_MAP_PMD);
	return table;
}

static void fold_pmds(pmd_t *pmdp, unsigned long start, unsigned long end)
{
	unsigned long addr, from = end, to = start;
	u64 entry;
	int i;

	for (addr = start; addr < end; addr += CONT_PMD_SIZE, pmdp += CONT_PMDS) {
		if (!pmd_leaf(READ_ONCE(*pmdp)) || pmd_cont(READ_ONCE(*pmdp)) ||
		    !may_be_leaf(addr, CONT_PMD_SIZE))
			continue;
		entry = linear_map_wide_entry(&pmd_val(*pmdp), CONT_PMDS, PMD_SIZE);
		if (!entry)
			continue;
		linear_map_count_collapse(&pmd_val(*pmdp), CONT_PMDS, PMD_SIZE,
					  LINEAR_MAP_PMD, LINEAR_MAP_CONT_PMD);
		for (i = 0; i < CONT_PMDS; i++)
			set_pmd(pmdp + i, __pmd(entry | i * PMD_SIZE | PTE_CONT));
		from = min(from, addr);
		to = addr + CONT_PMD_SIZE;
	}
	if (from < to)
		linear_map_invalidate(from, to);
}

/* The same for the entries that one widest leaf can stand for */
static void *collapse_pmd_table(pud_t *pudp, unsigned long start)
{
	unsigned long end = start + widest_leaf();
	pmd_t *table = pmd_offset(pudp, start);
	u64 block = 0;

	if (pud_sect_supported() && pmd_leaf(READ_ONCE(*table)))
		block = linear_map_wide_entry(&pmd_val(*table), PTRS_PER_PMD,
					      PMD_SIZE);
	if (!block || !linear_map_may_lose_table(start, PUD_SIZE,
						 __pte(block | PTE_TYPE_PAGE))) {
		/* Of two levels, the entries of a group are not one table's. */
		if (widest_leaf() >= CONT_PMD_SIZE)
			fold_pmds(table, start, end);
		return NULL;
	}
	set_pud(pudp, __pud(block));
	linear_map_invalidate(start, end);
	linear_map_count_collapse(&pmd_val(*table), PTRS_PER_PMD, PMD_SIZE,
				  LINEAR_MAP_PMD, LINEAR_MAP_PUD);
	return table;
}

/* Free tables that are no longer part of the map. Those of boot are memblock's. */
static void free_tables(struct list_head *tables)
{
	struct ptdesc *table, *next;

	if (list_empty(tables))
		return;

	synchronize_rcu();
	list_for_each_entry_safe(table, next, tables, pt_list) {
		if (pagetable_is_reserved(table))
			free_reserved_page(ptdesc_page(table));
		else
			linear_map_free_table(ptdesc_address(table));
	}
}

/* The entry of the PMD table that maps @addr, or NULL if none does */
static pud_t *pmd_table_of(unsigned long addr)
{
	pgd_t *pgdp = pgd_offset_k(addr);
	p4d_t *p4dp;
	pud_t *pudp;

	if (pgd_none(READ_ONCE(*pgdp)))
		return NULL;
	p4dp = p4d_offset(pgdp, addr);
	if (p4d_none(READ_ONCE(*p4dp)))
		return NULL;
	pudp = pud_offset(p4dp, addr);
	if (pud_none(READ_ONCE(*pudp)) || !pud_table(READ_ONCE(*pudp)))
		return NULL;
	return pudp;
}

/* Look at one table, of pages if @pmdp is not NULL, with all changes kept out */
static void collapse_table(pud_t *pudp, pmd_t *pmdp, unsigned long start,
			   struct list_head *tables)
{
	void *table;
	u64 began;

	mutex_lock(&pgtable_split_lock);
	began = ktime_get_ns();
	table = pmdp ? collapse_pte_table(pmdp, start) :
		       collapse_pmd_table(pudp, start);
	longest_hold_ns = max(longest_hold_ns, ktime_get_ns() - began);
	mutex_unlock(&pgtable_split_lock);

	if (table)
		list_add(&virt_to_ptdesc(table)->pt_list, tables);
}

/* From the pages up. Others may split leaves meanwhile, and mark them. */
static void collapse_below(unsigned long start, struct list_head *tables)
{
	unsigned long addr, end = start + widest_leaf();
	pud_t *pudp = pmd_table_of(start);
	pmd_t *pmdp;

	if (!pudp)
		return;

	for (addr = start; addr < end; addr += PMD_SIZE) {
		pmdp = pmd_offset(pudp, addr);
		if (pmd_table(READ_ONCE(*pmdp)))
			collapse_table(pudp, pmdp, addr, tables);
	}
	collapse_table(pudp, NULL, start, tables);
}

/* Let others have the tables, and memory come and go, after each widest leaf */
static void collapse_range(const struct leaf_range *range)
{
	unsigned long addr;

	for (addr = range->start; addr < range->end; addr += widest_leaf()) {
		LIST_HEAD(tables);

		get_online_mems();
		mmap_write_lock(&init_mm);
		collapse_below(addr, &tables);
		mmap_write_unlock(&init_mm);
		put_online_mems();
		free_tables(&tables);
		cond_resched();
	}
}

/*
 * Is it time to look at a range? Then it counts as not changed from now on, and
 * is remembered if it is one leaf: of more, others would have to be looked at.
 */
static bool take_due(struct leaf_range *range, bool *wait)
{
	if (!range->changed)
		return false;
	if (time_before(jiffies, range->due)) {
		*wait = true;
		return false;
	}
	range->changed = false;
	range->due = jiffies;
	if (range->end - range->start > widest_leaf())
		range->end = range->start;
	return true;
}

static void collapse_work(struct work_struct *work)
{
	struct leaf_range todo;
	bool take, wait = false;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(ranges); i++) {
		mutex_lock(&pgtable_split_lock);
		todo = ranges[i];
		take = take_due(&ranges[i], &wait);
		mutex_unlock(&pgtable_split_lock);
		if (take)
			collapse_range(&todo);
	}
	if (wait)
		queue_delayed_work(system_freezable_wq, &collapse, COLLAPSE_DELAY);
}

static int __init collapse_debugfs(void)
{
	struct dentry *dir = debugfs_create_dir("linear_map", NULL);

	debugfs_create_ulong("longest_hold_ns", 0600, dir, &longest_hold_ns);
	return 0;
}
late_initcall(collapse_debugfs);
