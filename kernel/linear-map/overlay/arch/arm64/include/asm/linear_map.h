/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The linear map under rodata=full: how wide its leaves are, who may change
 * them, and how what was split becomes wide again.
 */
#ifndef __ASM_LINEAR_MAP_H
#define __ASM_LINEAR_MAP_H

#include <linux/mutex.h>
#include <linux/types.h>

#include <asm/pgtable-types.h>

/**
 * enum linear_map_leaf - what a TLB may hold as one entry, narrowest first
 * @LINEAR_MAP_PTE: a page
 * @LINEAR_MAP_CONT_PTE: CONT_PTES pages with the contiguous bit
 * @LINEAR_MAP_PMD: a block at PMD level
 * @LINEAR_MAP_CONT_PMD: CONT_PMDS such blocks with the contiguous bit
 * @LINEAR_MAP_PUD: a block at PUD level (4K pages only)
 * @NR_LINEAR_MAP_LEAVES: how many there are
 */
enum linear_map_leaf {
	LINEAR_MAP_PTE,
	LINEAR_MAP_CONT_PTE,
	LINEAR_MAP_PMD,
	LINEAR_MAP_CONT_PMD,
	LINEAR_MAP_PUD,
	NR_LINEAR_MAP_LEAVES
};

void linear_map_count(unsigned long addr, enum linear_map_leaf leaf, long bytes);
void linear_map_count_table(unsigned long addr, long tables);
void linear_map_count_split(enum linear_map_leaf from, enum linear_map_leaf to,
			    long bytes);
void linear_map_count_split_failure(void);
void linear_map_count_collapse(const u64 *entries, unsigned int nr,
			       unsigned long size, enum linear_map_leaf from,
			       enum linear_map_leaf to);

/* Held from a split to the end of the change, and by who makes leaves wider */
extern struct mutex pgtable_split_lock;

/* Next to what splits leaves, and makes tables */
bool linear_map_may_change_size(void);
void linear_map_free_table(void *table);
void linear_map_invalidate(unsigned long start, unsigned long end);

void linear_map_mark(unsigned long start, unsigned long end);

u64 linear_map_wide_entry(const u64 *entries, unsigned int nr, unsigned long size);
bool linear_map_may_lose_table(unsigned long start, unsigned long size, pte_t entry);

#endif /* __ASM_LINEAR_MAP_H */
