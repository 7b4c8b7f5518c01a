// SPDX-License-Identifier: GPL-2.0-only
#include <linux/exec_leaf.h>
#include <linux/pgtable.h>

/*
 * CONT_PTES entries that are aligned, map contiguous memory and have the
 * contiguous bit set may be held by a TLB as one (Arm ARM, "The Contiguous
 * bit"): 64K with 4K pages, 2M with 16K and with 64K pages.
 */
unsigned int exec_leaf_arch_order(void)
{
	return CONT_PTE_SHIFT - PAGE_SHIFT;
}
