/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Executable text, read and mapped in units of a TLB's leaves.
 *
 * A leaf is the page-table entry, or the aligned group of entries, that a TLB
 * caches as one. mm/exec_leaf.c decides; fault and readahead code asks.
 */
#ifndef _LINUX_EXEC_LEAF_H
#define _LINUX_EXEC_LEAF_H

#include <linux/math.h>
#include <linux/minmax.h>
#include <linux/mm.h>

struct address_space;
struct file_ra_state;
struct readahead_control;
struct vm_fault;

/**
 * struct exec_leaf_span - pages of a file to read in one go
 * @start: index of the first page
 * @nr: number of pages
 * @order: folio order to use where alignment and file allow it
 */
struct exec_leaf_span {
	pgoff_t start;
	unsigned long nr;
	unsigned int order;
};

/**
 * struct exec_leaf_block - a leaf-sized block of a file, seen through a VMA
 * @vma_start: index of the first page that the VMA maps
 * @vma_end: index after the last one
 * @order: order of the leaf
 * @pgoff: page that faulted
 */
struct exec_leaf_block {
	pgoff_t vma_start;
	pgoff_t vma_end;
	unsigned int order;
	pgoff_t pgoff;
};

/* Index of the first page of the block */
static inline pgoff_t exec_leaf_block_start(const struct exec_leaf_block *block)
{
	return round_down(block->pgoff, 1UL << block->order);
}

/* Index after its last page. No file is so large as to wrap. */
static inline pgoff_t exec_leaf_block_end(const struct exec_leaf_block *block)
{
	return exec_leaf_block_start(block) + (1UL << block->order);
}

#ifdef CONFIG_LEAF_POLICY
bool leaf_policy_enabled(void);
#else
static inline bool leaf_policy_enabled(void)
{
	return true;
}
#endif

void page_cache_ra_leaf(struct readahead_control *ractl,
			struct file_ra_state *ra, unsigned int order);
bool leaf_thp_disabled(const struct vm_area_struct *vma);
void retract_page_tables(struct address_space *mapping, pgoff_t pgoff);

#ifdef CONFIG_EXEC_LEAF

unsigned int leaf_policy_order(void);
unsigned int exec_leaf_arch_order(void);

/* Order of the leaf that text is mapped by, at least; 0 where there is none */
static inline unsigned int exec_leaf_machine_order(void)
{
#ifdef CONFIG_LEAF_READ
	return leaf_policy_order();
#else
	return exec_leaf_arch_order();
#endif
}

unsigned int exec_leaf_order(const struct vm_area_struct *vma);
bool exec_leaf_read(const struct vm_fault *vmf, unsigned int narrow,
		    struct exec_leaf_span *span);
void exec_leaf_map_range(const struct vm_fault *vmf, pgoff_t *from_pte,
			 pgoff_t *to_pte);
struct exec_leaf_block exec_leaf_block(const struct vm_fault *vmf,
				       unsigned int order);
pgoff_t exec_leaf_read_end(const struct vm_fault *vmf);
pgoff_t exec_leaf_around(const struct vm_fault *vmf, unsigned long before);

/* The arithmetic behind them, for the tests */
struct exec_leaf_span exec_leaf_span(const struct exec_leaf_block *block,
				     unsigned long ra_pages);
void exec_leaf_trim(const struct exec_leaf_block *block, pgoff_t cached,
		    unsigned int narrow, unsigned long ra_pages,
		    struct exec_leaf_span *span);
void exec_leaf_ptes(const struct exec_leaf_block *block, pgoff_t pte_off,
		    pgoff_t read_end, pgoff_t *from_pte, pgoff_t *to_pte);

#else

static inline unsigned int exec_leaf_machine_order(void)
{
	return 0;
}

static inline unsigned int exec_leaf_order(const struct vm_area_struct *vma)
{
	return 0;
}

static inline bool exec_leaf_read(const struct vm_fault *vmf,
				  unsigned int narrow,
				  struct exec_leaf_span *span)
{
	return false;
}

static inline void exec_leaf_map_range(const struct vm_fault *vmf,
				       pgoff_t *from_pte, pgoff_t *to_pte)
{
}

static inline pgoff_t exec_leaf_around(const struct vm_fault *vmf,
				       unsigned long before)
{
	return vmf->pgoff - min(vmf->pgoff, before);
}

#endif /* CONFIG_EXEC_LEAF */

#ifdef CONFIG_LEAF_READ

bool leaf_policy_helps(const struct vm_area_struct *vma);
void leaf_map_neighbours(const struct vm_fault *vmf);
unsigned int leaf_neighbours(const struct exec_leaf_block *block,
			     unsigned int pmd_off, pgoff_t read_end);
void leaf_map_block(struct vm_area_struct *vma, unsigned long addr,
		    unsigned int order);

#else

static inline bool leaf_policy_helps(const struct vm_area_struct *vma)
{
	return true;
}

static inline void leaf_map_neighbours(const struct vm_fault *vmf)
{
}

#endif /* CONFIG_LEAF_READ */

#ifdef CONFIG_LEAF_COLLAPSE

void leaf_collapse_later(const struct vm_fault *vmf);
int leaf_replace(struct address_space *mapping, pgoff_t start,
		 unsigned int order);

#else

static inline void leaf_collapse_later(const struct vm_fault *vmf)
{
}

#endif /* CONFIG_LEAF_COLLAPSE */

/**
 * exec_leaf_vma - is this mapping's text read and mapped by leaves?
 * @vma: mapping to look at
 *
 * Such a mapping is read where it is executed and nowhere else, so it takes no
 * part in the mmap_miss heuristic, neither up nor down.
 *
 * Return: true if exec_leaf_read() and exec_leaf_map_range() apply to @vma.
 */
static inline bool exec_leaf_vma(const struct vm_area_struct *vma)
{
	return exec_leaf_order(vma) > 0;
}

#endif /* _LINUX_EXEC_LEAF_H */
