/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Executable text, read and mapped in units of a TLB's leaves.
 *
 * A leaf is the page-table entry, or the aligned group of entries, that a TLB
 * caches as one. mm/exec_leaf.c decides; fault and readahead code asks.
 */
#ifndef _LINUX_EXEC_LEAF_H
#define _LINUX_EXEC_LEAF_H

#include <linux/bits.h>
#include <linux/leaf_ground.h>
#include <linux/math.h>
#include <linux/minmax.h>
#include <linux/mm.h>

/* What the widest leaf maps: bytes, pages, order */
#define LEAF_BLOCK		BIT_ULL(LEAF_WIDEST_SHIFT)
#define LEAF_BLOCK_PAGES	(LEAF_BLOCK >> PAGE_SHIFT)
#define LEAF_BLOCK_ORDER	(LEAF_WIDEST_SHIFT - PAGE_SHIFT)

struct address_space;
struct file_ra_state;
struct inode;
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

unsigned int exec_leaf_order(const struct vm_area_struct *vma);
bool exec_leaf_read(const struct vm_fault *vmf, struct exec_leaf_span *span);
void exec_leaf_map_range(const struct vm_fault *vmf, pgoff_t *from_pte,
			 pgoff_t *to_pte);
struct exec_leaf_block exec_leaf_block(const struct vm_fault *vmf,
				       unsigned int order);
pgoff_t exec_leaf_read_end(const struct vm_fault *vmf);
void exec_leaf_ptes(const struct exec_leaf_block *block, pgoff_t pte_off,
		    pgoff_t read_end, pgoff_t *from_pte, pgoff_t *to_pte);
pgoff_t exec_leaf_around(const struct vm_fault *vmf, unsigned long before);

bool leaf_thp_disabled(const struct vm_area_struct *vma);
void page_cache_ra_leaf(struct readahead_control *ractl,
			struct file_ra_state *ra, unsigned int order);
void leaf_map_neighbours(const struct vm_fault *vmf);
unsigned int leaf_neighbours(const struct exec_leaf_block *block,
			     unsigned int pmd_off, pgoff_t read_end);

struct leaf_account leaf_account_of(const struct inode *inode);
void leaf_account_keep(const struct inode *inode, struct leaf_account account);

void leaf_collapse_later(const struct vm_fault *vmf);
int leaf_replace(struct address_space *mapping, pgoff_t start,
		 unsigned int order);
void leaf_map_block(struct vm_area_struct *vma, unsigned long addr,
		    unsigned int order);
void retract_page_tables(struct address_space *mapping, pgoff_t pgoff);

#else

static inline unsigned int exec_leaf_order(const struct vm_area_struct *vma)
{
	return 0;
}

static inline bool exec_leaf_read(const struct vm_fault *vmf,
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

static inline void page_cache_ra_leaf(struct readahead_control *ractl,
				      struct file_ra_state *ra,
				      unsigned int order)
{
}

static inline void leaf_map_neighbours(const struct vm_fault *vmf)
{
}

#endif /* CONFIG_LEAF_POLICY */

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
