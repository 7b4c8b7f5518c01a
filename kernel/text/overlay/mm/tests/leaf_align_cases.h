/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Alignments that somebody relies on, as cases for KUnit and for tests outside
 * the kernel. Each names what would be wrong if it failed.
 */
#ifndef _LEAF_ALIGN_CASES_H
#define _LEAF_ALIGN_CASES_H

#include <linux/array_size.h>
#include <linux/leaf_policy.h>

#define CASE_K		1024ULL
#define CASE_M		(1024 * CASE_K)

enum leaf_case_table { ARM64_4K, ARM64_16K, ARM64_64K, X86_64 };

/* Arm ARM D8.7.1 for what the contiguous bit covers, Intel SDM 3A 5.5.4 */
static const u8 leaf_case_shifts[][LEAF_TABLE_MAX] = {
	[ARM64_4K] = { 12, 16, 21, 25, 30 },
	[ARM64_16K] = { 14, 21, 25, 30 },
	[ARM64_64K] = { 16, 21, 29, 34 },
	[X86_64] = { 12, 21, 30 },
};

static const struct leaf_table leaf_case_tables[] = {
	[ARM64_4K] = { leaf_case_shifts[ARM64_4K], 5 },
	[ARM64_16K] = { leaf_case_shifts[ARM64_16K], 4 },
	[ARM64_64K] = { leaf_case_shifts[ARM64_64K], 4 },
	[X86_64] = { leaf_case_shifts[X86_64], 3 },
};

/**
 * struct leaf_align_case - a mapping and its alignment
 * @name: what holds
 * @table: whose leaves
 * @max_order: of the file; 0 stands for 2M, 0xff for none
 * @offset: file offset
 * @length: bytes to map
 * @space: address space; 0 stands for 2^47
 * @thp: 0 stands for always, 1 for never
 * @shift: expected log2 of the alignment
 */
struct leaf_align_case {
	const char *name;
	enum leaf_case_table table;
	u8 max_order;
	u64 offset;
	u64 length;
	u64 space;
	u8 thp;
	u8 shift;
};

static const struct leaf_align_case leaf_align_cases[] = {
	{ "a page is not aligned", ARM64_4K, .length = 4 * CASE_K, .shift = 12 },
	{ "60K is not aligned", ARM64_4K, .length = 60 * CASE_K, .shift = 12 },
	{ "64K gets contpte", ARM64_4K, .length = 64 * CASE_K, .shift = 16 },
	{ "1M is not aligned to 2M", ARM64_4K, .length = CASE_M, .shift = 16 },
	{ "2M gets PMD", ARM64_4K, .length = 2 * CASE_M, .shift = 21 },
	{ "1G gets no more", ARM64_4K, .length = 1024 * CASE_M, .shift = 21 },
	{ "2M that holds no block", ARM64_4K, .offset = 64 * CASE_K,
	  .length = 2 * CASE_M, .shift = 16 },
	{ "x86 has nothing below 2M", X86_64, .length = CASE_M, .shift = 12 },
	{ "x86 gets PMD", X86_64, .length = 3 * CASE_M, .shift = 21 },
	{ "16K pages have nothing below 2M", ARM64_16K, .length = CASE_M,
	  .shift = 14 },
	{ "16K pages never get 32M", ARM64_16K, .length = 128 * CASE_M,
	  .shift = 21 },
	{ "64K pages get contpte", ARM64_64K, .length = 37 * CASE_M,
	  .shift = 21 },
	{ "64K pages never get 512M", ARM64_64K, .length = 1024 * CASE_M,
	  .shift = 21 },
	{ "the file's largest folio bounds it", ARM64_4K, .max_order = 4,
	  .length = 128 * CASE_M, .shift = 16 },
	{ "no large folios, no alignment", ARM64_4K, .max_order = 0xff,
	  .length = 128 * CASE_M, .shift = 12 },
	{ "no space, no alignment", ARM64_64K, .length = 3 * CASE_M,
	  .space = 4 * CASE_M, .shift = 16 },
	{ "never", ARM64_4K, .length = 128 * CASE_M, .thp = 1, .shift = 12 },
};

#define LEAF_CASE_SEGMENTS	3

/**
 * struct leaf_elf_case - an ELF image and its alignment
 * @name: what holds
 * @table: whose leaves
 * @segments: PT_LOAD, up to the first with @filesz 0
 * @shift: expected log2 of the alignment
 * @segment: the one that asks for it
 */
struct leaf_elf_case {
	const char *name;
	enum leaf_case_table table;
	struct leaf_segment segments[LEAF_CASE_SEGMENTS];
	u8 shift;
	u32 segment;
};

static const struct leaf_elf_case leaf_elf_cases[] = {
	{
		"text first, as GNU ld does on arm64", ARM64_4K,
		{ { 0, 0, 8 * CASE_M, 0 },
		  { 8 * CASE_M + 0xfb0, 8 * CASE_M + 0xfb0, CASE_M,
		    LEAF_SEGMENT_WRITE } },
		21, 0,
	}, {
		"separate code, congruent, as GNU ld does on x86", X86_64,
		{ { 0, 0, 64 * CASE_K, 0 },
		  { 64 * CASE_K, 64 * CASE_K, 8 * CASE_M, 0 } },
		21, 1,
	}, {
		"each segment shifted by a page, as lld does", X86_64,
		{ { 0, 0, 64 * CASE_K, 0 },
		  { 68 * CASE_K, 64 * CASE_K, 8 * CASE_M, 0 } },
		12, 0,
	}, {
		"shifted by 64K: contpte remains", ARM64_4K,
		{ { 0, 0, 32 * CASE_K, 0 },
		  { 96 * CASE_K, 32 * CASE_K, 8 * CASE_M, 0 } },
		16, 1,
	}, {
		"read-only data counts", ARM64_64K,
		{ { 0, 0, 4 * CASE_M, 0 },
		  { 5 * CASE_M, 4 * CASE_M, CASE_M, 0 } },
		21, 0,
	}, {
		"written data does not", X86_64,
		{ { 0, 0, 64 * CASE_K, 0 },
		  { 2 * CASE_M, 2 * CASE_M, 8 * CASE_M, LEAF_SEGMENT_WRITE } },
		12, 0,
	}, {
		"too small for anything", ARM64_4K, { { 0, 0, 60 * CASE_K, 0 } },
		12, 0,
	}, {
		"a segment that leaves 64 bits", ARM64_4K,
		{ { 0, ~0ULL - CASE_M, 8 * CASE_M, 0 } },
		12, 0,
	},
};

static inline void leaf_case_ground(struct leaf_ground *ground, u32 table,
				    u8 max_order, u8 thp)
{
	ground->table = &leaf_case_tables[table];
	ground->file_size = 0;
	ground->min_order = 0;
	ground->max_order = max_order ? max_order :
			    (u8)(LEAF_WIDEST_SHIFT -
				 leaf_case_tables[table].shift[0]);
	if (max_order == 0xff)
		ground->max_order = 0;
	ground->thp = thp ? LEAF_THP_NEVER : LEAF_THP_ALWAYS;
	ground->enabled = 1;
}

static inline void leaf_case_align(const struct leaf_align_case *test,
				   struct leaf_align_answer *answer)
{
	struct leaf_align align = {
		.offset = test->offset,
		.length = test->length,
		.space = test->space ? test->space : 1ULL << 47,
	};

	leaf_case_ground(&align.ground, test->table, test->max_order, test->thp);
	leaf_align_decide(&align, answer);
}

static inline void leaf_case_elf(const struct leaf_elf_case *test,
				 struct leaf_align_answer *answer)
{
	struct leaf_align align = { .length = 16 * CASE_M, .space = 1ULL << 47 };
	u32 nr = 0;

	while (nr < LEAF_CASE_SEGMENTS && test->segments[nr].filesz)
		nr++;
	leaf_case_ground(&align.ground, test->table, 0, 0);
	leaf_align_elf(&align, test->segments, nr, answer);
}

#endif /* _LEAF_ALIGN_CASES_H */
