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
 * Who changes permissions holds linear_map_sem for reading, from before the
 * split to after the last entry. The worker holds it for writing while it
 * looks at one table and rewrites it. So an entry never changes under the
 * worker, and nobody writes to a table that the worker is about to free.
 *
 * A collapse invalidates the whole range of the leaf, cached table entries
 * included, before it lets go of the lock. So no CPU walks a table that is freed,
 * and no narrower entry is left that invalidating one address of the wide one
 * would miss.
 *
 * Others read the tables without that lock. kexec and kfence stop the worker
 * meanwhile, see linear_map_hold(). The worker excludes ptdump by init_mm's
 * mmap_lock, and memory hotplug by get_online_mems(). Hibernation freezes it.
 */
#define pr_fmt(fmt) "linear map: " fmt

#include <linux/debugfs.h>
#include <linux/kfence.h>
#include <linux/ktime.h>
#include <linux/memory.h>
#include <linux/memory_hotplug.h>
#include <linux/mm.h>
#include <linux/mmzone.h>
#include <linux/pgtable.h>
#include <linux/rwsem.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>

#include <asm/kfence.h>
#include <asm/linear_map.h>
#include <asm/sections.h>
#include <asm/tlbflush.h>

/* How long after the first change the worker looks: many come in bursts */
#define COLLAPSE_DELAY		HZ

/* How many tables one pass looks at, and when the next one goes on */
#define TABLES_PER_PASS		256
#define PASS_DELAY		msecs_to_jiffies(10)

static DECLARE_RWSEM(linear_map_sem);

/* How many want the worker to leave all tables alone */
static atomic_t holders = ATOMIC_INIT(0);

#define NR_RANGES	16

struct leaf_range {
	unsigned long start;
	unsigned long end;
};

/*
 * Ranges of whole widest leaves: a change may let that leaf come back. Where
 * there are too many, two become one with all between them.
 */
struct leaf_ranges {
	unsigned int nr;
	struct leaf_range range[NR_RANGES];
};

/* What was changed since the worker last began, and what it is at */
static DEFINE_SPINLOCK(marked_lock);
static struct leaf_ranges marked;
static struct leaf_ranges todo;

static unsigned long longest_hold_ns;

static void collapse_work(struct work_struct *work);
static DECLARE_DELAYED_WORK(collapse, collapse_work);

/**
 * linear_map_hold - keep leaves from growing and tables from being freed
 *
 * Permissions may change and leaves be split meanwhile. The holder may sleep, and
 * allocate memory: no lock is held, the worker tries again later.
 */
void linear_map_hold(void)
{
	atomic_inc(&holders);
	/* The worker may have looked at it before, and be at a table */
	down_read(&linear_map_sem);
	up_read(&linear_map_sem);
}

/** linear_map_release - undo linear_map_hold() */
void linear_map_release(void)
{
	atomic_dec(&holders);
}

/* The widest leaf that this granule has */
static unsigned long widest_leaf(void)
{
	return pud_sect_supported() ? PUD_SIZE : CONT_PMD_SIZE;
}

/* Bytes between two ranges; 0 if they meet */
static unsigned long gap(const struct leaf_range *a, const struct leaf_range *b)
{
	if (a->end < b->start)
		return b->start - a->end;
	return b->end < a->start ? a->start - b->end : 0;
}

static void note_range(struct leaf_ranges *ranges, const struct leaf_range *new)
{
	struct leaf_range *end = ranges->range + ranges->nr;
	struct leaf_range *range, *near = ranges->range;

	for (range = near; range < end; range++)
		if (gap(range, new) < gap(near, new))
			near = range;

	if (!ranges->nr || (gap(near, new) && ranges->nr < NR_RANGES)) {
		ranges->range[ranges->nr++] = *new;
		return;
	}
	near->start = min(near->start, new->start);
	near->end = max(near->end, new->end);
}

/**
 * linear_map_mark - look whether leaves of a range can grow, in a while
 * @start: first address
 * @end: address after the last
 */
void linear_map_mark(unsigned long start, unsigned long end)
{
	struct leaf_range range = {
		.start = ALIGN_DOWN(start, widest_leaf()),
		.end = ALIGN(end, widest_leaf()),
	};

	spin_lock(&marked_lock);
	note_range(&marked, &range);
	spin_unlock(&marked_lock);

	queue_delayed_work(system_freezable_wq, &collapse, COLLAPSE_DELAY);
}

/**
 * linear_map_change_begin - keep leaves from growing while they are changed
 * @start: first address of the change
 *
 * May sleep, unless @start is mapped by pages for good: those of kfence are
 * changed in atomic context, and nothing is collapsed under debug_pagealloc.
 *
 * Return: true if linear_map_change_end() is to be called.
 */
bool linear_map_change_begin(unsigned long start)
{
	if (!linear_map_may_change_size() || !__is_lm_address(start) ||
	    is_kfence_address((void *)start))
		return false;

	down_read(&linear_map_sem);
	return true;
}

/**
 * linear_map_change_end - the entries are changed; what is uniform may grow
 * @start: first address of the change
 * @end: address after the last
 */
void linear_map_change_end(unsigned long start, unsigned long end)
{
	up_read(&linear_map_sem);
	linear_map_mark(start, end);
}

/**
 * linear_map_uniform_ptes - could one leaf stand for these pages?
 * @ptep: the first entry, of the first page of that leaf
 * @nr: how many pages the leaf has, a power of two
 *
 * It could if all are valid, map consecutive pages from one that the leaf may
 * begin with, and differ in nothing else. The contiguous bit may be set.
 *
 * Return: true if so.
 */
bool linear_map_uniform_ptes(pte_t *ptep, unsigned int nr)
{
	pte_t first = __ptep_get(ptep);
	unsigned long pfn = pte_pfn(first);
	unsigned int i;

	if (!pte_valid(first) || !IS_ALIGNED(pfn, nr))
		return false;

	for (i = 1; i < nr; i++) {
		pte_t pte = __ptep_get(ptep + i);

		if (!pte_valid(pte) || pte_pfn(pte) != pfn + i ||
		    (pgprot_val(pte_pgprot(pte)) ^
		     pgprot_val(pte_pgprot(first))) & ~PTE_CONT)
			return false;
	}
	return true;
}

/**
 * linear_map_uniform_pmds - could one leaf stand for these blocks?
 * @pmdp: the first entry, of the first block of that leaf
 * @nr: how many blocks the leaf has, a power of two
 *
 * Return: true if all are valid blocks, consecutive from one that the leaf may
 *	   begin with, and differ in nothing else.
 */
bool linear_map_uniform_pmds(pmd_t *pmdp, unsigned int nr)
{
	const unsigned long step = PMD_SIZE >> PAGE_SHIFT;
	pmd_t first = READ_ONCE(*pmdp);
	unsigned long pfn = pmd_pfn(first);
	unsigned int i;

	if (!pmd_leaf(first) || !pmd_valid(first) || !IS_ALIGNED(pfn, nr * step))
		return false;

	for (i = 1; i < nr; i++) {
		pmd_t pmd = READ_ONCE(pmdp[i]);

		if (!pmd_leaf(pmd) || !pmd_valid(pmd) ||
		    pmd_pfn(pmd) != pfn + i * step ||
		    (pgprot_val(pmd_pgprot(pmd)) ^
		     pgprot_val(pmd_pgprot(first))) & ~PTE_CONT)
			return false;
	}
	return true;
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

static bool hotplug_allows(unsigned long start, unsigned long size)
{
	unsigned long pfn = PHYS_PFN(__pa(start));
	unsigned long end = pfn + (size >> PAGE_SHIFT);

	if (size <= SUBSECTION_SIZE)
		return true;

	for (; pfn < end; pfn += PAGES_PER_SECTION)
		if (size > unplugged_with(__pfn_to_section(pfn)))
			return false;
	return true;
}

static bool may_be_leaf(unsigned long start, unsigned long size)
{
	return !must_stay(start, start + size) && hotplug_allows(start, size);
}

/* Does a range have a part of [@first, @last), which is of the kernel's image? */
static bool has_image(unsigned long start, unsigned long size, void *first,
		      void *last)
{
	return start < (unsigned long)lm_alias(last) &&
	       start + size > (unsigned long)lm_alias(first);
}

static bool of_image(unsigned long start, unsigned long size)
{
	return start >= (unsigned long)lm_alias(_text) &&
	       start + size <= (unsigned long)lm_alias(_end);
}

/**
 * linear_map_may_lose_table - may one leaf replace a table?
 * @start: first address
 * @size: bytes that the leaf would map
 * @prot: of the entries in the table
 *
 * A page whose protection is not what all memory begins with gets that back
 * before it is freed. Some who do so cannot cope with failure, such as
 * vm_reset_perms() and a realm that takes back what it shared. So the way back
 * must not need memory for a table: it stays. The kernel's image is read-only
 * for good; but the alias of its data is valid while the machine hibernates,
 * and not afterwards.
 *
 * Return: true if the table can go.
 */
bool linear_map_may_lose_table(unsigned long start, unsigned long size,
			       pgprot_t prot)
{
	u64 val = pgprot_val(prot) & ~PTE_CONT;

	if (has_image(start, size, __init_end, _end))
		return false;
	if (val != pgprot_val(PAGE_KERNEL) &&
	    val != pgprot_val(pgprot_tagged(PAGE_KERNEL)) &&
	    !of_image(start, size))
		return false;
	return may_be_leaf(start, size);
}

/*
 * Nobody else writes to the entries. The hardware does not either: they are
 * not old, and no clean entry is writable. The barriers are those of the
 * invalidation that follows, once for all groups of a table.
 */
static void fold_ptes(pte_t *ptep)
{
	int i;

	for (i = 0; i < CONT_PTES; i++)
		__set_pte_nosync(ptep + i, pte_mkcont(__ptep_get(ptep + i)));
}

static void fold_pmds(pmd_t *pmdp)
{
	int i;

	for (i = 0; i < CONT_PMDS; i++)
		set_pmd(pmdp + i, __pmd(pmd_val(READ_ONCE(pmdp[i])) | PTE_CONT));
}

static void collapse_to_cont_ptes(pmd_t *pmdp, unsigned long start)
{
	pte_t *ptep = pte_offset_kernel(pmdp, start);
	unsigned long addr = start;
	bool folded = false;
	int i;

	for (i = 0; i < PTRS_PER_PTE; i += CONT_PTES, addr += CONT_PTE_SIZE) {
		if (pte_cont(__ptep_get(ptep + i)) ||
		    !linear_map_uniform_ptes(ptep + i, CONT_PTES) ||
		    !may_be_leaf(addr, CONT_PTE_SIZE))
			continue;

		fold_ptes(ptep + i);
		linear_map_count_collapse(LINEAR_MAP_PTE, LINEAR_MAP_CONT_PTE,
					  CONT_PTE_SIZE);
		folded = true;
	}

	if (folded)
		linear_map_invalidate(start, start + PMD_SIZE);
}

static long cont_pte_bytes(pte_t *ptep)
{
	long bytes = 0;
	int i;

	for (i = 0; i < PTRS_PER_PTE; i += CONT_PTES)
		if (pte_cont(__ptep_get(ptep + i)))
			bytes += CONT_PTE_SIZE;
	return bytes;
}

static pte_t *collapse_to_pmd(pmd_t *pmdp, pte_t *table, pte_t first,
			      unsigned long start)
{
	long cont = cont_pte_bytes(table);
	pgprot_t prot;

	prot = __pgprot((pgprot_val(pte_pgprot(first)) &
			 ~(PTE_TYPE_MASK | PTE_CONT)) | PMD_TYPE_SECT);
	set_pmd(pmdp, pfn_pmd(pte_pfn(first), prot));
	linear_map_invalidate(start, start + PMD_SIZE);

	linear_map_count(start, LINEAR_MAP_CONT_PTE, -cont);
	linear_map_count(start, LINEAR_MAP_PTE, cont);
	linear_map_count_collapse(LINEAR_MAP_PTE, LINEAR_MAP_PMD, PMD_SIZE);
	return table;
}

static pte_t *collapse_pte_table(pmd_t *pmdp, unsigned long start)
{
	pte_t *table = pte_offset_kernel(pmdp, start);
	pte_t first = __ptep_get(table);

	if (linear_map_uniform_ptes(table, PTRS_PER_PTE) &&
	    linear_map_may_lose_table(start, PMD_SIZE, pte_pgprot(first)))
		return collapse_to_pmd(pmdp, table, first, start);

	collapse_to_cont_ptes(pmdp, start);
	return NULL;
}

static void collapse_to_cont_pmds(pmd_t *pmdp, unsigned long start)
{
	if (pmd_cont(READ_ONCE(*pmdp)) ||
	    !linear_map_uniform_pmds(pmdp, CONT_PMDS) ||
	    !may_be_leaf(start, CONT_PMD_SIZE))
		return;

	fold_pmds(pmdp);
	linear_map_invalidate(start, start + CONT_PMD_SIZE);
	linear_map_count_collapse(LINEAR_MAP_PMD, LINEAR_MAP_CONT_PMD,
				  CONT_PMD_SIZE);
}

static long cont_pmd_bytes(pmd_t *pmdp)
{
	long bytes = 0;
	int i;

	for (i = 0; i < PTRS_PER_PMD; i += CONT_PMDS)
		if (pmd_cont(READ_ONCE(pmdp[i])))
			bytes += CONT_PMD_SIZE;
	return bytes;
}

/* As pages of the block have it */
static pgprot_t block_pgprot(pmd_t pmd)
{
	return __pgprot((pgprot_val(pmd_pgprot(pmd)) & ~PMD_TYPE_MASK) |
			PTE_TYPE_PAGE);
}

static pmd_t *collapse_pmd_table(pud_t *pudp, unsigned long start)
{
	pmd_t *table = pmd_offset(pudp, start);
	pmd_t first = READ_ONCE(*table);
	pgprot_t prot;
	long cont;

	if (!pud_sect_supported() ||
	    !linear_map_uniform_pmds(table, PTRS_PER_PMD) ||
	    !linear_map_may_lose_table(start, PUD_SIZE, block_pgprot(first)))
		return NULL;

	cont = cont_pmd_bytes(table);
	prot = __pgprot(pgprot_val(pmd_pgprot(first)) & ~PTE_CONT);
	set_pud(pudp, pfn_pud(pmd_pfn(first), prot));
	linear_map_invalidate(start, start + PUD_SIZE);

	linear_map_count(start, LINEAR_MAP_CONT_PMD, -cont);
	linear_map_count(start, LINEAR_MAP_PMD, cont);
	linear_map_count_collapse(LINEAR_MAP_PMD, LINEAR_MAP_PUD, PUD_SIZE);
	return table;
}

/*
 * Look at the PMD entries from @addr to the end of their contiguous group. Stops
 * after the first that is a table: that is work enough under one lock.
 */
static void *collapse_group(pud_t *pudp, unsigned long addr, unsigned long *next)
{
	unsigned long end = ALIGN_DOWN(addr, CONT_PMD_SIZE) + CONT_PMD_SIZE;
	pmd_t *pmdp = pmd_offset(pudp, addr);
	void *table;

	for (; addr < end; addr += PMD_SIZE, pmdp++) {
		if (!pmd_table(READ_ONCE(*pmdp)))
			continue;

		table = collapse_pte_table(pmdp, addr);
		*next = addr + PMD_SIZE;
		/* A block now: with the others it may form a group */
		if (table && *next == end)
			*next = addr;
		if (table || *next < end)
			return table;
	}

	*next = end;
	collapse_to_cont_pmds(pmd_offset(pudp, end - CONT_PMD_SIZE),
			      end - CONT_PMD_SIZE);
	if (!IS_ALIGNED(end, PUD_SIZE))
		return NULL;
	return collapse_pmd_table(pudp, end - PUD_SIZE);
}

/*
 * Look at what is mapped at @addr, which is aligned to PMD_SIZE. Returns the
 * table that a wider leaf replaced, which nobody can find any more; one at most.
 * *next is where to go on.
 */
static void *collapse_step(unsigned long addr, unsigned long *next)
{
	pgd_t *pgdp = pgd_offset_k(addr);
	p4d_t *p4dp;
	pud_t *pudp;

	*next = ALIGN_DOWN(addr, PGDIR_SIZE) + PGDIR_SIZE;
	if (pgd_none(READ_ONCE(*pgdp)))
		return NULL;

	p4dp = p4d_offset(pgdp, addr);
	*next = ALIGN_DOWN(addr, P4D_SIZE) + P4D_SIZE;
	if (p4d_none(READ_ONCE(*p4dp)))
		return NULL;

	pudp = pud_offset(p4dp, addr);
	*next = ALIGN_DOWN(addr, PUD_SIZE) + PUD_SIZE;
	if (pud_none(READ_ONCE(*pudp)) || !pud_table(READ_ONCE(*pudp)))
		return NULL;

	return collapse_group(pudp, addr, next);
}

/* Tables that boot made come from memblock */
static void free_table(void *table)
{
	if (PageReserved(virt_to_page(table)))
		free_reserved_page(virt_to_page(table));
	else
		linear_map_free_table(table);
}

/* Look at the table at *addr and go on to the next; false if it is held */
static bool collapse_one(unsigned long *addr)
{
	void *table = NULL;
	u64 began, held;
	bool may;

	down_write(&linear_map_sem);
	began = ktime_get_ns();
	may = !atomic_read(&holders);
	if (may)
		table = collapse_step(*addr, addr);
	held = ktime_get_ns() - began;
	up_write(&linear_map_sem);

	if (held > longest_hold_ns)
		WRITE_ONCE(longest_hold_ns, held);
	if (table)
		free_table(table);
	return may;
}

static void take_marked(void)
{
	spin_lock(&marked_lock);
	todo = marked;
	marked.nr = 0;
	spin_unlock(&marked_lock);
}

/* One pass; false if the next one is to go on, also if somebody holds the tables */
static bool collapse_pass(void)
{
	int tables = TABLES_PER_PASS;

	while (todo.nr) {
		struct leaf_range *range = &todo.range[todo.nr - 1];

		if (range->start >= range->end) {
			todo.nr--;
			continue;
		}
		if (!tables-- || !collapse_one(&range->start))
			return false;
		cond_resched();
	}
	return true;
}

static void collapse_work(struct work_struct *work)
{
	bool done;

	if (!todo.nr)
		take_marked();

	get_online_mems();
	mmap_read_lock(&init_mm);
	done = collapse_pass();
	mmap_read_unlock(&init_mm);
	put_online_mems();

	/* A change that came meanwhile may have queued it, for later than this */
	if (!done)
		mod_delayed_work(system_freezable_wq, &collapse, PASS_DELAY);
	else if (READ_ONCE(marked.nr))
		queue_delayed_work(system_freezable_wq, &collapse,
				   COLLAPSE_DELAY);
}

static int __init collapse_debugfs(void)
{
	struct dentry *dir = debugfs_create_dir("linear_map", NULL);

	debugfs_create_ulong("longest_hold_ns", 0600, dir, &longest_hold_ns);
	return 0;
}
late_initcall(collapse_debugfs);
