/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What is read for a fault on text, as cases for KUnit and for tests outside
 * the kernel. Each names what would be wrong if it failed.
 */
#ifndef _LEAF_READ_CASES_H
#define _LEAF_READ_CASES_H

#include "leaf_align_cases.h"

#define CASE_AT		0x7f0000000000ULL

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
 * @advice: enum leaf_advice
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
	u8 advice;
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
		.name = "the only block of a mapping is read on trust",
		.table = ARM64_64K, .length = 3 * CASE_M, .at = 1 * CASE_M,
		.hole = 1 * CASE_M,
		.rule = LEAF_RULE_SINGLE, .read_at = 0,
		.size = 2 * CASE_M, .order = 5,
	}, {
		.name = "but once: another time it owes that",
		.table = ARM64_64K, .length = 3 * CASE_M, .at = 1 * CASE_M,
		.hole = 1 * CASE_M, .debt = 480,
		.rule = LEAF_RULE_PAGE, .read_at = 1 * CASE_M,
		.size = 128 * CASE_K, .order = 0,
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
		.name = "text that is executed at random gets one leaf",
		.table = ARM64_4K, .length = 128 * CASE_M,
		.at = 64 * CASE_M + 20 * CASE_K, .hole = 20 * CASE_K,
		.run = 2 * CASE_M - 20 * CASE_K, .advice = LEAF_ADVICE_RANDOM,
		.rule = LEAF_RULE_ADVICE, .read_at = 64 * CASE_M,
		.size = 64 * CASE_K, .order = 4,
	}, {
		.name = "and is never read as a stream",
		.table = X86_64, .length = 128 * CASE_M, .at = 4 * CASE_M,
		.run = 2 * CASE_M, .last = 2 * CASE_M,
		.advice = LEAF_ADVICE_RANDOM,
		.rule = LEAF_RULE_ADVICE, .read_at = 4 * CASE_M,
		.size = 4 * CASE_K, .order = 0,
	}, {
		.name = "text that is executed in order is a stream at once",
		.table = ARM64_64K, .length = 128 * CASE_M,
		.at = 4 * CASE_M, .hole = 2 * CASE_M,
		.advice = LEAF_ADVICE_SEQUENTIAL,
		.rule = LEAF_RULE_ADVICE, .read_at = 4 * CASE_M,
		.size = 2 * CASE_M, .order = 5,
	}, {
		.name = "but owes as any other",
		.table = ARM64_64K, .length = 128 * CASE_M,
		.at = 4 * CASE_M, .hole = 2 * CASE_M, .debt = 512,
		.advice = LEAF_ADVICE_SEQUENTIAL,
		.rule = LEAF_RULE_PAGE, .read_at = 4 * CASE_M,
		.size = 128 * CASE_K, .order = 0,
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
		.advice = test->advice,
		.collapse = test->filled ? LEAF_WIDEST_SHIFT : 0,
		.account = { .debt = test->debt, .lonely = test->lonely },
	};

	leaf_case_ground(&read.ground, test->table, test->max_order, test->thp);
	read.ground.file_size = test->file_size ? test->file_size :
				test->offset + test->length;
	read.ground.enabled = !test->off;
	leaf_read_decide(&read, answer);
}

#endif /* _LEAF_READ_CASES_H */
