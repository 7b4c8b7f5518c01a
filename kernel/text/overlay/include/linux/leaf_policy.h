/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The leaf policy: which folios to read for text, and where to put mappings so
 * that wide leaves can map them.
 *
 * A pure function over sizes that knows no kernel types; callers translate
 * (mm/leaf_ground.c). So KUnit and programs outside the kernel can ask it
 * anything. Rules and reasons: Documentation/mm/leaf_policy.rst.
 */
#ifndef _LINUX_LEAF_POLICY_H
#define _LINUX_LEAF_POLICY_H

#include <linux/types.h>

/* 2M: beyond it, randomisation and memory cost more than a leaf gains. */
#define LEAF_WIDEST_SHIFT	21

/*
 * 64K: the unit in which text is read when nothing speaks for more. All reads
 * start on such a boundary, so that narrow leaves can form wherever the
 * hardware has them.
 */
#define LEAF_UNIT_SHIFT		16

/* How far around a fault a caller has to look for resident pages, in bytes. */
#define LEAF_SCAN		0x200000ULL

/**
 * enum leaf_rule - why a leaf was taken or passed over
 *
 * Each candidate is refused by exactly one of the first group, or taken by one
 * of the second. Documentation/mm/leaf_policy.rst says each in a sentence.
 */
enum leaf_rule {
	/* Refusals. */
	LEAF_RULE_OFF,
	LEAF_RULE_THP_NEVER,
	LEAF_RULE_NO_RANGE,
	LEAF_RULE_TOO_WIDE,
	LEAF_RULE_FILE_ORDER,
	LEAF_RULE_NOT_CONGRUENT,
	LEAF_RULE_NOT_HELD,
	LEAF_RULE_NO_SPACE,
	LEAF_RULE_WRITABLE,
	LEAF_RULE_DEVICE,
	LEAF_RULE_RESIDENT,
	LEAF_RULE_MEMORY,
	LEAF_RULE_NO_EVIDENCE,
	LEAF_RULE_BUDGET,
	/* Choices. */
	LEAF_RULE_PAGE,
	LEAF_RULE_WIDEST,
	LEAF_RULE_NARROW,
	LEAF_RULE_WINDOW,
	LEAF_RULE_STREAM,
	LEAF_RULE_SINGLE,
	LEAF_RULE_LONELY,
	LEAF_RULE_EVICTED,
	LEAF_RULE_ADVICE,
	LEAF_RULE_NR,
};

/**
 * enum leaf_thp - the administrator's word on transparent huge pages
 *
 * Only LEAF_THP_NEVER matters: it switches the policy off. Text needs no
 * madvise() to be worth a wide leaf.
 */
enum leaf_thp {
	LEAF_THP_NEVER,
	LEAF_THP_MADVISE,
	LEAF_THP_ALWAYS,
};

/**
 * enum leaf_advice - what the program says of how it will execute the text
 */
enum leaf_advice {
	LEAF_ADVICE_NONE,
	LEAF_ADVICE_RANDOM,
	LEAF_ADVICE_SEQUENTIAL,
};

#define LEAF_TABLE_MAX		8

/**
 * struct leaf_table - the leaves that a machine's TLBs may hold
 * @shift: log2 of their sizes in bytes, ascending, the base page first
 * @nr: number of @shift, at most LEAF_TABLE_MAX
 */
struct leaf_table {
	const u8 *shift;
	u32 nr;
};

/**
 * struct leaf_ground - what all questions rest on
 * @table: the leaves of the running kernel
 * @file_size: i_size in bytes, or 0 where the caller does not know it
 * @min_order: page cache's smallest folio order for the file
 * @max_order: page cache's largest folio order for the file
 * @thp: enum leaf_thp
 * @enabled: the runtime switch
 */
struct leaf_ground {
	const struct leaf_table *table;
	u64 file_size;
	u8 min_order;
	u8 max_order;
	u8 thp;
	u8 enabled;
};

/**
 * struct leaf_tried - a leaf that was considered
 * @shift: its size
 * @rule: the enum leaf_rule that refused or took it
 */
struct leaf_tried {
	u8 shift;
	u8 rule;
};

/**
 * struct leaf_trace - leaves considered, in order
 * @nr: entries used
 * @tried: the entries; the last one is the leaf taken
 */
struct leaf_trace {
	u32 nr;
	struct leaf_tried tried[LEAF_TABLE_MAX];
};

/**
 * struct leaf_account - what earlier reads of a file's text proved
 * @debt: speculative bytes not yet proven useful, in 4K units
 * @lonely: misses with nothing resident near them, less those with
 *
 * All zeroes is a file that was never read. It is a hint: a lost update costs
 * precision, nothing else, so no lock protects it.
 */
struct leaf_account {
	u16 debt;
	u16 lonely;
};

/**
 * struct leaf_read - "which folio order to read for this fault?"
 * @ground: table, file, switches
 * @start: first address of the mapping
 * @end: address after the mapping's last byte; 0 where that is 2^64
 * @offset: file offset mapped at @start
 * @fault: faulting address
 * @window: readahead window of the file in bytes; 0 where readahead is off
 * @hole: bytes missing from the page cache directly before the faulting page,
 *	  counted up to LEAF_SCAN
 * @gap: bytes missing from the faulting page on, counted up to LEAF_SCAN or
 *	 @window, whichever is more
 * @spare: bytes that may be taken before anybody has to reclaim for himself, or
 *	   left in the memory cgroup, whichever is less; 0 under memory pressure
 * @run: bytes resident directly before @hole, no farther than LEAF_SCAN from
 *	 the faulting page
 * @last_size: bytes of the file's previous read if that ended where @hole
 *	       begins, else 0
 * @filled: bytes resident in the naturally aligned block of the leaf that
 *	    @collapse names around the fault
 * @collapse: log2 of the leaf that the caller can form by copying narrow folios
 *	      into one; 0 where it cannot
 * @evicted: not 0 if the faulting page has been in memory and had to go
 * @advice: enum leaf_advice
 * @account: evidence gathered so far
 */
struct leaf_read {
	struct leaf_ground ground;
	u64 start;
	u64 end;
	u64 offset;
	u64 fault;
	u64 window;
	u64 hole;
	u64 gap;
	u64 spare;
	u64 run;
	u64 last_size;
	u64 filled;
	u8 collapse;
	u8 evicted;
	u8 advice;
	struct leaf_account account;
};

/**
 * struct leaf_read_answer - what to read
 * @offset: file offset to read from, a multiple of the page size
 * @size: bytes to read; 0 says to do as without the policy
 * @order: widest folio order to allocate; folios before the first aligned
 *	   place are naturally narrower
 * @leaf: log2 of the leaf that is to map the fault
 * @rule: enum leaf_rule that decided
 * @collapse: log2 of the leaf to form by copying once the read is done, at the
 *	      naturally aligned block around the fault; 0 for none
 * @account: evidence to keep for the next fault
 * @trace: leaves considered
 */
struct leaf_read_answer {
	u64 offset;
	u64 size;
	u8 order;
	u8 leaf;
	u8 rule;
	u8 collapse;
	struct leaf_account account;
	struct leaf_trace trace;
};

/**
 * struct leaf_align - "which alignment to give this mapping?"
 * @ground: table, file, switches
 * @offset: file offset of the mapping's first byte
 * @length: bytes to map
 * @space: bytes of address space there are to place it in
 */
struct leaf_align {
	struct leaf_ground ground;
	u64 offset;
	u64 length;
	u64 space;
};

/**
 * struct leaf_align_answer - where the mapping should start
 * @shift: log2 of the alignment; the page size where none helps. The address
 *	   to choose is congruent to the file offset modulo it
 * @rule: enum leaf_rule that decided
 * @segment: for leaf_align_elf(), the segment that asked for @shift
 * @trace: leaves considered (for that segment)
 */
struct leaf_align_answer {
	u8 shift;
	u8 rule;
	u32 segment;
	struct leaf_trace trace;
};

#define LEAF_SEGMENT_WRITE	1

/**
 * struct leaf_segment - a PT_LOAD program header
 * @vaddr: p_vaddr
 * @offset: p_offset
 * @filesz: p_filesz
 * @flags: LEAF_SEGMENT_WRITE or 0
 */
struct leaf_segment {
	u64 vaddr;
	u64 offset;
	u64 filesz;
	u32 flags;
};

void leaf_read_decide(const struct leaf_read *read,
		      struct leaf_read_answer *answer);
int leaf_helps(const struct leaf_ground *ground, u64 start, u64 length,
	       u64 offset);
void leaf_align_decide(const struct leaf_align *align,
		       struct leaf_align_answer *answer);
void leaf_align_elf(const struct leaf_align *align,
		    const struct leaf_segment *segments, u32 nr,
		    struct leaf_align_answer *answer);

#endif /* _LINUX_LEAF_POLICY_H */
