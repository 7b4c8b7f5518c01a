// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which leaves map the linear map, as /proc/meminfo and /proc/vmstat show it.
 *
 * Entries are counted where they are made, removed, split and collapsed. To
 * walk the map at each read of /proc/meminfo would cost most where the
 * map is narrowest.
 */
#include <linux/atomic.h>
#include <linux/mm.h>
#include <linux/pgtable.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <linux/sizes.h>
#include <linux/vmstat.h>

#include <asm/linear_map.h>
#include <asm/memory.h>

static atomic_long_t leaf_bytes[NR_LINEAR_MAP_LEAVES];
static atomic_long_t table_pages;

/**
 * linear_map_count - count entries that were made or removed
 * @addr: address of the first; nothing happens if it is not of the linear map
 * @leaf: which leaf the entries form
 * @bytes: how much they map; negative if they were removed
 */
void linear_map_count(unsigned long addr, enum linear_map_leaf leaf, long bytes)
{
	if (bytes && __is_lm_address(addr))
		atomic_long_add(bytes, &leaf_bytes[leaf]);
}

/**
 * linear_map_count_table - count page-table pages that were made or freed
 * @addr: address that the table maps; nothing happens if it is not of the
 *	  linear map
 * @tables: how many; negative if they were freed
 */
void linear_map_count_table(unsigned long addr, long tables)
{
	if (__is_lm_address(addr))
		atomic_long_add(tables, &table_pages);
}

/* A block has a table in its place when it is split, but no contiguous leaf */
static bool is_block(enum linear_map_leaf leaf)
{
	return leaf == LINEAR_MAP_PMD || leaf == LINEAR_MAP_PUD;
}

static void move_bytes(enum linear_map_leaf from, enum linear_map_leaf to,
		       long bytes)
{
	atomic_long_sub(bytes, &leaf_bytes[from]);
	atomic_long_add(bytes, &leaf_bytes[to]);
}

/**
 * linear_map_count_split - count one leaf that became narrower ones
 * @from: what it was
 * @to: what it is now
 * @bytes: how much it maps
 */
void linear_map_count_split(enum linear_map_leaf from, enum linear_map_leaf to,
			    long bytes)
{
	move_bytes(from, to, bytes);
	if (is_block(from))
		atomic_long_inc(&table_pages);
	count_vm_event(DIRECT_MAP_SPLIT);
}

/** linear_map_count_split_failure - count one split that found no memory */
void linear_map_count_split_failure(void)
{
	count_vm_event(DIRECT_MAP_SPLIT_FAILURE);
}

/**
 * linear_map_count_collapse - count leaves that became a wider one
 * @entries: of the leaves; some may have the contiguous bit
 * @nr: how many
 * @size: how much each maps
 * @from: what those without the bit are
 * @to: what they are together now
 */
void linear_map_count_collapse(const u64 *entries, unsigned int nr,
			       unsigned long size, enum linear_map_leaf from,
			       enum linear_map_leaf to)
{
	long cont = 0;
	unsigned int i;

	for (i = 0; i < nr; i++)
		if (entries[i] & PTE_CONT)
			cont += size;
	move_bytes(from + 1, to, cont);
	move_bytes(from, to, nr * size - cont);
	if (is_block(to))
		atomic_long_dec(&table_pages);
	count_vm_event(DIRECT_MAP_COLLAPSE);
}

#ifdef CONFIG_PROC_FS
static void show_leaf(struct seq_file *m, unsigned long size, long bytes)
{
	char unit = size >= SZ_1G ? 'G' : size >= SZ_1M ? 'M' : 'k';
	unsigned int shift = unit == 'G' ? 30 : unit == 'M' ? 20 : 10;
	char name[24];

	snprintf(name, sizeof(name), "DirectMap%lu%c:", size >> shift, unit);
	seq_printf(m, "%-15s%9ld kB\n", name, bytes >> 10);
}

void arch_report_meminfo(struct seq_file *m)
{
	static const unsigned long size[NR_LINEAR_MAP_LEAVES] = {
		[LINEAR_MAP_PTE]	= PAGE_SIZE,
		[LINEAR_MAP_CONT_PTE]	= CONT_PTE_SIZE,
		[LINEAR_MAP_PMD]	= PMD_SIZE,
		[LINEAR_MAP_CONT_PMD]	= CONT_PMD_SIZE,
		[LINEAR_MAP_PUD]	= PUD_SIZE,
	};
	int leaf;

	for (leaf = 0; leaf < NR_LINEAR_MAP_LEAVES; leaf++) {
		if (leaf == LINEAR_MAP_PUD && !pud_sect_supported())
			continue;
		show_leaf(m, size[leaf], atomic_long_read(&leaf_bytes[leaf]));
	}
	seq_printf(m, "%-15s%9ld kB\n", "DirectMapTable:",
		   atomic_long_read(&table_pages) << (PAGE_SHIFT - 10));
}
#endif
