/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Leaves that TLBs may hold, by architecture and base page. Hardware that
 * learns to coalesce another size adds a line here and nothing anywhere else.
 *
 * arm64: Arm ARM D8.7.1, the contiguous bit covers 16 entries of a 4K granule;
 * 128 (level 3) or 32 (level 2) of a 16K granule; 32 of a 64K granule.
 */
#ifndef _LINUX_LEAF_TABLES_H
#define _LINUX_LEAF_TABLES_H

#include <linux/array_size.h>
#include <linux/leaf_policy.h>

static const struct leaf_size leaf_sizes_arm64_4k[] = {
	{ 12, "page" }, { 16, "contpte" }, { 21, "pmd" }, { 25, "contpmd" },
	{ 30, "pud" },
};

static const struct leaf_size leaf_sizes_arm64_16k[] = {
	{ 14, "page" }, { 21, "contpte" }, { 25, "pmd" }, { 30, "contpmd" },
};

static const struct leaf_size leaf_sizes_arm64_64k[] = {
	{ 16, "page" }, { 21, "contpte" }, { 29, "pmd" }, { 34, "contpmd" },
};

static const struct leaf_size leaf_sizes_x86_64[] = {
	{ 12, "page" }, { 21, "pmd" }, { 30, "pud" },
};

static const struct leaf_table leaf_tables[] = {
	{ "arm64", leaf_sizes_arm64_4k, ARRAY_SIZE(leaf_sizes_arm64_4k) },
	{ "arm64", leaf_sizes_arm64_16k, ARRAY_SIZE(leaf_sizes_arm64_16k) },
	{ "arm64", leaf_sizes_arm64_64k, ARRAY_SIZE(leaf_sizes_arm64_64k) },
	{ "x86_64", leaf_sizes_x86_64, ARRAY_SIZE(leaf_sizes_x86_64) },
};

#endif /* _LINUX_LEAF_TABLES_H */
