/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Decisions that somebody relies on, as cases for KUnit and for the host's
 * tests. Each names what would be wrong if it failed.
 */
#ifndef _LEAF_POLICY_CASES_H
#define _LEAF_POLICY_CASES_H

#include <linux/leaf_tables.h>

#define CASE_K		1024ULL
#define CASE_M		(1024 * CASE_K)
#define CASE_AT		0x7f0000000000ULL

enum leaf_case_table { ARM64_4K, ARM64_16K, ARM64_64K, X86_64 };

/**
 * struct leaf_read_case - a fault and what must come of it
 * @name: what holds
 * @table: whose leaves
 * @max_order: of the file; 0 stands for 2M, 0xff for none
 * @shift: address minus CASE_AT of the mapping
 * @length: of the mapping and, unless @file_size, of the file from @offset on
 * @offset: file offset of the mapping
 * @file_size: if not as above
 * @at: fault, from the mapping's start
 * @window: readahead window; 0 stands for 128K
 * @spare: memory to be had; 0 stands for 1G, 1 for none
 * @hole: missing before the fault
 * @run: resident before @hole
 * @gap: missing from the fault on; 0 stands for all of the mapping
 * @last: size of the previous read, ended at @hole
 * @filled: resident in the 2M block; asks for collapse if not 0
 * @debt: so far
 * @lonely: so far
 * @evicted: the faulting page was in memory before
 * @thp: 0 stands for always, 1 for never
 * @off: runtime switch
 * @rule: expected
 * @read_at: expected, from the mapping's start
 * @size: expected
 * @order: expected
 * @collapse: expected
 */
struct leaf_read_case {
	const char *name;
	enum leaf_case_table table;
	u8 max_order;
	u64 shift;
	u64 length;
	u64 offset;
	u64 file_size;
	u64 at;
	u64 window;
	u64 spare;
	u64 hole;
	u64 run;
	u64 gap;
	u64 last;
	u64 filled;
	u16 debt;
	u16 lonely;
	u8 evicted;
	u8 thp;
	u8 off;
	u8 rule;
	u64 read_at;
	u64 size;
	u8 order;
	u8 collapse;
};

static const struct leaf_read_case leaf_read_cases[] = {
	{
		.name = "first fault in text reads the window in 64K folios",
		.table = ARM64_4K, .length = 128 * CASE_M, .at = 5 * CASE_M,
		.hole = 2 * CASE_M,
		.rule = LEAF_RULE_NARROW, .read_at = 5 * CASE_M,
		.size = 128 * CASE_K, .order = 4,
	}, {
		.name = "a stream that fills a block may read the next one whole",
		.table = ARM64_4K, .length = 128 * CASE_M, .at = 2 * CASE_M,
		.run = 2 * CASE_M, .last = 896 * CASE_K,
		.rule = LEAF_RULE_STREAM, .read_at = 2 * CASE_M,
		.size = 2 * CASE_M, .order = 9,
	}, {
		.name = "64K pages reach contpte 2M the same way",
		.table = ARM64_64K, .length = 128 * CASE_M, .at = 4 * CASE_M,
		.run = 2 * CASE_M, .last = 2 * CASE_M,
		.rule = LEAF_RULE_STREAM, .read_at = 4 * CASE_M,
		.size = 2 * CASE_M, .order = 5,
	}, {
		.name = "16K pages reach contpte 2M the same way",
		.table = ARM64_16K, .length = 128 * CASE_M, .at = 4 * CASE_M,
		.run = 2 * CASE_M, .last = 2 * CASE_M,
		.rule = LEAF_RULE_STREAM, .read_at = 4 * CASE_M,
		.size = 2 * CASE_M, .order = 7,
	}, {
		.name = "x86 reaches PMD leaves the same way",
		.table = X86_64, .length = 128 * CASE_M, .at = 4 * CASE_M,
		.run = 2 * CASE_M, .last = 2 * CASE_M,
		.rule = LEAF_RULE_STREAM, .read_at = 4 * CASE_M,
		.size = 2 * CASE_M, .order = 9,
	}, {
		.name = "a young stream reads the window",
		.table = ARM64_4K, .length = 128 * CASE_M, .at = 256 * CASE_K,
		.run = 256 * CASE_K, .last = 128 * CASE_K,
		.rule = LEAF_RULE_NARROW, .read_at = 256 * CASE_K,
		.size = 128 * CASE_K, .order = 4,
	}, {
		.name = "a stream of three windows doubles what it has read",
		.table = ARM64_4K, .length = 128 * CASE_M, .at = 384 * CASE_K,
		.run = 384 * CASE_K, .last = 128 * CASE_K,
		.rule = LEAF_RULE_STREAM, .read_at = 384 * CASE_K,
		.size = 768 * CASE_K, .order = 4,
	}, {
		.name = "growth stops where the next wide block begins",
		.table = ARM64_4K, .length = 128 * CASE_M, .at = 1152 * CASE_K,
		.run = 1152 * CASE_K, .last = 768 * CASE_K,
		.rule = LEAF_RULE_STREAM, .read_at = 1152 * CASE_K,
		.size = 896 * CASE_K, .order = 4,
	}, {
		.name = "a stream with no wide block ahead does not grow",
		.table = ARM64_4K, .length = 3 * CASE_M, .at = 1 * CASE_M,
		.run = 1 * CASE_M, .last = 128 * CASE_K,
		.rule = LEAF_RULE_NARROW, .read_at = 1 * CASE_M,
		.size = 128 * CASE_K, .order = 4,
	}, {
		.name = "speculation that never paid is not repeated",
		.table = ARM64_4K, .length = 128 * CASE_M, .at = 4 * CASE_M,
		.run = 2 * CASE_M, .debt = 512,
		.rule = LEAF_RULE_NARROW, .read_at = 4 * CASE_M,
		.size = 128 * CASE_K, .order = 4,
	}, {
		.name = "lonely misses read one leaf",
		.table = ARM64_4K, .length = 128 * CASE_M,
		.at = 64 * CASE_M + 20 * CASE_K, .hole = 2 * CASE_M,
		.lonely = 16,
		.rule = LEAF_RULE_LONELY, .read_at = 64 * CASE_M,
		.size = 64 * CASE_K, .order = 4,
	}, {
		.name = "lonely misses read one page where no leaf is near its size",
		.table = X86_64, .length = 128 * CASE_M,
		.at = 64 * CASE_M + 20 * CASE_K, .hole = 2 * CASE_M,
		.lonely = 16,
		.rule = LEAF_RULE_LONELY, .read_at = 64 * CASE_M + 20 * CASE_K,
		.size = 4 * CASE_K, .order = 0,
	}, {
		.name = "what was evicted is read alone",
		.table = ARM64_16K, .length = 128 * CASE_M,
		.at = 64 * CASE_M + 32 * CASE_K, .hole = 2 * CASE_M,
		.evicted = 1,
		.rule = LEAF_RULE_EVICTED, .read_at = 64 * CASE_M + 32 * CASE_K,
		.size = 64 * CASE_K, .order = 2,
	}, {
		.name = "neighbours of what was evicted change nothing",
		.table = ARM64_64K, .length = 128 * CASE_M, .at = 64 * CASE_M,
		.hole = 64 * CASE_K, .run = 64 * CASE_K, .gap = 64 * CASE_K,
		.evicted = 1,
		.rule = LEAF_RULE_EVICTED, .read_at = 64 * CASE_M,
		.size = 64 * CASE_K, .order = 0,
	}, {
		.name = "an evicted stream doubles",
		.table = ARM64_4K, .length = 128 * CASE_M,
		.at = 64 * CASE_M + 128 * CASE_K, .run = 96 * CASE_K,
		.evicted = 1,
		.rule = LEAF_RULE_EVICTED, .read_at = 64 * CASE_M + 128 * CASE_K,
		.size = 128 * CASE_K, .order = 4,
	}, {
		.name = "an 8M window pays for wide leaves at once",
		.table = ARM64_64K, .length = 512 * CASE_M, .at = 3 * CASE_M,
		.hole = 2 * CASE_M, .window = 8 * CASE_M,
		.rule = LEAF_RULE_WINDOW, .read_at = 2 * CASE_M,
		.size = 8 * CASE_M, .order = 5,
	}, {
		.name = "a device with a small window stays narrow",
		.table = ARM64_4K, .length = 128 * CASE_M, .at = 4 * CASE_M,
		.run = 2 * CASE_M, .window = 64 * CASE_K,
		.rule = LEAF_RULE_NARROW, .read_at = 4 * CASE_M,
		.size = 64 * CASE_K, .order = 4,
	}, {
		.name = "memory that holds one more leaf is enough",
		.table = ARM64_4K, .length = 128 * CASE_M, .at = 4 * CASE_M,
		.run = 2 * CASE_M, .spare = 2 * CASE_M,
		.rule = LEAF_RULE_STREAM, .read_at = 4 * CASE_M,
		.size = 2 * CASE_M, .order = 9,
	}, {
		.name = "under memory pressure 2M steps down to 64K",
		.table = ARM64_4K, .length = 128 * CASE_M, .at = 4 * CASE_M,
		.run = 2 * CASE_M, .spare = 2 * CASE_M - 1,
		.rule = LEAF_RULE_NARROW, .read_at = 4 * CASE_M,
		.size = 128 * CASE_K, .order = 4,
	}, {
		.name = "and no further: 64K are read as without the policy",
		.table = ARM64_4K, .length = 128 * CASE_M, .at = 4 * CASE_M,
		.run = 2 * CASE_M, .spare = 1,
		.rule = LEAF_RULE_NARROW, .read_at = 4 * CASE_M,
		.size = 128 * CASE_K, .order = 4,
	}, {
		.name = "nor is anything collapsed then",
		.table = X86_64, .length = 128 * CASE_M, .at = 5 * CASE_M,
		.hole = 128 * CASE_K, .gap = 128 * CASE_K,
		.filled = 1600 * CASE_K, .spare = 1,
		.rule = LEAF_RULE_PAGE, .read_at = 5 * CASE_M,
		.size = 128 * CASE_K, .order = 4,
	}, {
		.name = "not congruent at 2M but at 64K: contpte",
		.table = ARM64_4K, .shift = 64 * CASE_K, .length = 128 * CASE_M,
		.at = 4 * CASE_M, .run = 2 * CASE_M,
		.rule = LEAF_RULE_NARROW, .read_at = 4 * CASE_M,
		.size = 128 * CASE_K, .order = 4,
	}, {
		.name = "not congruent at any leaf: left alone",
		.table = ARM64_4K, .shift = 4 * CASE_K, .length = 128 * CASE_M,
		.at = 4 * CASE_M, .run = 2 * CASE_M,
		.rule = LEAF_RULE_PAGE,
	}, {
		.name = "text below the smallest wide leaf: left alone",
		.table = X86_64, .length = 1 * CASE_M, .at = 64 * CASE_K,
		.hole = 64 * CASE_K,
		.rule = LEAF_RULE_PAGE,
	}, {
		.name = "a file that takes no large folios: left alone",
		.table = ARM64_4K, .max_order = 0xff, .length = 128 * CASE_M,
		.at = 4 * CASE_M, .run = 2 * CASE_M,
		.rule = LEAF_RULE_PAGE,
	}, {
		.name = "the file's largest folio bounds the leaf",
		.table = ARM64_4K, .max_order = 4, .length = 128 * CASE_M,
		.at = 4 * CASE_M, .run = 2 * CASE_M,
		.rule = LEAF_RULE_NARROW, .read_at = 4 * CASE_M,
		.size = 128 * CASE_K, .order = 4,
	}, {
		.name = "no folio reaches past the end of the file",
		.table = ARM64_4K, .length = 4 * CASE_M,
		.file_size = 3 * CASE_M + 5, .at = 2 * CASE_M,
		.run = 2 * CASE_M, .gap = CASE_M + 4 * CASE_K,
		.rule = LEAF_RULE_NARROW, .read_at = 2 * CASE_M,
		.size = 128 * CASE_K, .order = 4,
	}, {
		.name = "nothing is read twice",
		.table = ARM64_4K, .length = 128 * CASE_M, .at = 5 * CASE_M,
		.hole = CASE_M, .gap = 64 * CASE_K,
		.rule = LEAF_RULE_NARROW, .read_at = 5 * CASE_M,
		.size = 64 * CASE_K, .order = 4,
	}, {
		.name = "a block that filled up is collapsed",
		.table = X86_64, .length = 128 * CASE_M, .at = 5 * CASE_M,
		.hole = 128 * CASE_K, .gap = 128 * CASE_K,
		.filled = 1600 * CASE_K,
		.rule = LEAF_RULE_PAGE, .read_at = 5 * CASE_M,
		.size = 128 * CASE_K, .order = 4, .collapse = 21,
	}, {
		.name = "a block half full is not",
		.table = X86_64, .length = 128 * CASE_M, .at = 5 * CASE_M,
		.hole = 128 * CASE_K, .gap = 128 * CASE_K,
		.filled = 1024 * CASE_K,
		.rule = LEAF_RULE_PAGE, .read_at = 5 * CASE_M,
		.size = 128 * CASE_K, .order = 4,
	}, {
		.name = "THP set to never switches the policy off",
		.table = ARM64_4K, .length = 128 * CASE_M, .thp = 1,
		.rule = LEAF_RULE_THP_NEVER,
	}, {
		.name = "the runtime switch does too",
		.table = ARM64_4K, .length = 128 * CASE_M, .off = 1,
		.rule = LEAF_RULE_OFF,
	},
};

/**
 * struct leaf_align_case - a mapping and its alignment
 * @name: what holds
 * @table: whose leaves
 * @max_order: as in struct leaf_read_case
 * @offset: file offset
 * @length: bytes to map
 * @space: address space; 0 stands for 2^47
 * @thp: as in struct leaf_read_case
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
	ground->table = &leaf_tables[table];
	ground->file_size = 0;
	ground->min_order = 0;
	ground->max_order = max_order ? max_order :
			    (u8)(LEAF_WIDEST_SHIFT -
				 leaf_tables[table].sizes[0].shift);
	if (max_order == 0xff)
		ground->max_order = 0;
	ground->thp = thp ? LEAF_THP_NEVER : LEAF_THP_ALWAYS;
	ground->enabled = 1;
}

static inline void leaf_case_read(const struct leaf_read_case *test,
				  struct leaf_read_answer *answer)
{
	struct leaf_read read = {
		.start = CASE_AT + test->shift,
		.end = CASE_AT + test->shift + test->length,
		.offset = test->offset,
		.fault = CASE_AT + test->shift + test->at,
		.window = test->window ? test->window : 128 * CASE_K,
		.spare = test->spare ? test->spare : 1024 * CASE_M,
		.hole = test->hole,
		.run = test->run,
		.gap = test->gap ? test->gap : test->length - test->at,
		.last_size = test->last,
		.filled = test->filled,
		.evicted = test->evicted,
		.collapse = test->filled ? LEAF_WIDEST_SHIFT : 0,
		.history = { .debt = test->debt, .lonely = test->lonely },
	};

	leaf_case_ground(&read.ground, test->table, test->max_order, test->thp);
	read.ground.file_size = test->file_size ? test->file_size :
				test->offset + test->length;
	read.ground.enabled = !test->off;
	leaf_read_decide(&read, answer);
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

#endif /* _LEAF_POLICY_CASES_H */
