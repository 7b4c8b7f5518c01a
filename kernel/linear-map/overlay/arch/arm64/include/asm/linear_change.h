/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Permission changes of the linear map, which split its leaves.
 */
#ifndef __ASM_LINEAR_CHANGE_H
#define __ASM_LINEAR_CHANGE_H

#include <linux/types.h>

#include <asm/pgtable-types.h>

int linear_map_split_edges(unsigned long start, unsigned long end);
int linear_map_change_leaves(unsigned long start, unsigned long end,
			     pgprot_t set_mask, pgprot_t clear_mask);
int linear_map_change(unsigned long start, unsigned long size,
		      pgprot_t set_mask, pgprot_t clear_mask);
int linear_map_split_to_pages(unsigned long start, unsigned long end);
void linear_map_widen(phys_addr_t start, phys_addr_t end);

#endif /* __ASM_LINEAR_CHANGE_H */
