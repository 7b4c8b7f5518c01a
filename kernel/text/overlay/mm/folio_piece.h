/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The part of a large folio that one fault maps.
 */
#ifndef _MM_FOLIO_PIECE_H
#define _MM_FOLIO_PIECE_H

#include <linux/minmax.h>
#include <linux/pgtable.h>

/**
 * struct folio_place - where a fault found a folio; all in pages
 * @idx: index in the folio of the page that faulted
 * @nr: pages of the folio
 * @vma_off: index of that page in the VMA
 * @vma_nr: pages of the VMA
 * @pte_off: index of its entry in the page table
 */
struct folio_place {
	unsigned long idx;
	unsigned long nr;
	unsigned long vma_off;
	unsigned long vma_nr;
	unsigned long pte_off;
};

/**
 * struct folio_piece - what to map of a folio; in pages
 * @before: pages before the one that faulted
 * @nr: pages in all
 */
struct folio_piece {
	unsigned long before;
	unsigned long nr;
};

/**
 * folio_piece - what to map of a folio for a fault
 * @place: where the fault found it
 * @window: entries to set at most, naturally aligned: a power of two up to
 *	    PTRS_PER_PTE
 *
 * A folio may begin before its VMA or its page table does, and end after them.
 * What they hold of it can be mapped all the same.
 *
 * Return: the pages that folio, VMA, page table and window have in common.
 */
static inline struct folio_piece folio_piece(const struct folio_place *place,
					     unsigned long window)
{
	/* Entries of the window before the fault's */
	unsigned long off = place->pte_off & (window - 1);
	unsigned long before = min3(place->idx, place->vma_off, off);
	unsigned long after = min3(place->nr - place->idx,
				   place->vma_nr - place->vma_off,
				   window - off);

	return (struct folio_piece) {
		.before = before,
		.nr = before + after,
	};
}

/**
 * folio_piece_narrower - the next window to try where entries are in use
 * @window: the one that had such entries
 *
 * Return: the entries that make the next narrower leaf.
 */
static inline unsigned long folio_piece_narrower(unsigned long window)
{
#ifdef CONFIG_ARM64_CONTPTE
	if (window > CONT_PTES)
		return CONT_PTES;
#endif
	return 1;
}

#endif /* _MM_FOLIO_PIECE_H */
