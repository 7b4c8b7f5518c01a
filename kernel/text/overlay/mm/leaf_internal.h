/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the questions of the leaf policy share. Positions are file offsets in
 * bytes. Shifts, masks, additions and comparisons only: no 64-bit division, so
 * that 32-bit builds need no help.
 */
#ifndef _MM_LEAF_INTERNAL_H
#define _MM_LEAF_INTERNAL_H

#include <linux/bits.h>
#include <linux/leaf_policy.h>

/* The part of a file that a mapping covers; @last is inclusive. */
struct leaf_range {
	u64 first;
	u64 last;
};

/* More than any file has; sums of a few such sizes do not overflow. */
#define LEAF_FAR		BIT_ULL(60)

#define LEAF_UNIT		BIT_ULL(LEAF_UNIT_SHIFT)

/* Demand repays a quarter of its size: speculation stays below 25 %. */
#define LEAF_REPAY_SHIFT	2

/* A read under construction. */
struct leaf_plan {
	struct leaf_range range;
	/* Faulting page. */
	u64 pos;
	/* First byte to read if the fault's unit is all that is wanted. */
	u64 first;
	/* Bytes that demand alone justifies. */
	u64 demand;
	/* Bytes resident right before @first: a stream if not 0. */
	u64 stream;
	/* Bytes beyond @demand that the file may be read on trust. */
	u64 trust;
};

static inline u64 leaf_min(u64 a, u64 b)
{
	return a < b ? a : b;
}

static inline u64 leaf_max(u64 a, u64 b)
{
	return a > b ? a : b;
}

static inline u64 leaf_bytes(u32 shift)
{
	return BIT_ULL(shift);
}

static inline u64 leaf_round_down(u64 pos, u32 shift)
{
	return pos & ~(leaf_bytes(shift) - 1);
}

static inline u8 leaf_page_shift(const struct leaf_ground *ground)
{
	return ground->table->shift[0];
}

static inline void leaf_try(struct leaf_trace *trace, u32 shift, u32 rule)
{
	if (trace->nr == LEAF_TABLE_MAX)
		return;
	trace->tried[trace->nr].shift = (u8)shift;
	trace->tried[trace->nr].rule = (u8)rule;
	trace->nr++;
}

/*
 * The pages that [@offset, @offset + @length) touches, as far as the file has
 * them. False if nothing is left or the range leaves 64 bits.
 */
static inline int leaf_clamp(const struct leaf_ground *ground, u64 offset,
			     u64 length, struct leaf_range *range)
{
	const u64 mask = leaf_bytes(leaf_page_shift(ground)) - 1;

	if (!length || offset + (length - 1) < offset)
		return 0;
	range->first = offset & ~mask;
	range->last = (offset + (length - 1)) | mask;
	/* A folio may end with the page that holds the last byte, not later. */
	if (ground->file_size)
		range->last = leaf_min(range->last,
				       (ground->file_size - 1) | mask);
	return range->first <= range->last;
}

/* Switches that end the search before it starts; LEAF_RULE_NR for none. */
static inline u32 leaf_switched_off(const struct leaf_ground *ground)
{
	if (!ground->enabled)
		return LEAF_RULE_OFF;
	if (ground->thp == LEAF_THP_NEVER)
		return LEAF_RULE_THP_NEVER;
	return LEAF_RULE_NR;
}

/* What speaks against a leaf wherever it would lie; LEAF_RULE_NR for nothing. */
static inline u32 leaf_refuse_size(const struct leaf_ground *ground, u32 shift)
{
	if (shift > LEAF_WIDEST_SHIFT)
		return LEAF_RULE_TOO_WIDE;
	if (shift > (u32)leaf_page_shift(ground) + ground->max_order)
		return LEAF_RULE_FILE_ORDER;
	return LEAF_RULE_NR;
}

/* Whether @range holds a whole leaf, its address permitting. */
static inline int leaf_held(const struct leaf_range *range, u32 shift)
{
	const u64 mask = leaf_bytes(shift) - 1;
	const u64 block = (range->first + mask) & ~mask;

	return block >= range->first && (block | mask) <= range->last;
}

/* Whether @range holds all of the naturally aligned block at @pos. */
static inline int leaf_holds(const struct leaf_range *range, u64 pos, u32 shift)
{
	const u64 block = leaf_round_down(pos, shift);

	return block >= range->first &&
	       (block | (leaf_bytes(shift) - 1)) <= range->last;
}

/*
 * What speaks against a leaf anywhere in a mapping of @range whose addresses
 * are @displacement away from its file offsets.
 */
static inline u32 leaf_refuse_mapping(const struct leaf_ground *ground,
				      const struct leaf_range *range,
				      u64 displacement, u32 shift)
{
	u32 rule = leaf_refuse_size(ground, shift);

	if (rule != LEAF_RULE_NR)
		return rule;
	if (!leaf_held(range, shift))
		return LEAF_RULE_NOT_HELD;
	if (displacement & (leaf_bytes(shift) - 1))
		return LEAF_RULE_NOT_CONGRUENT;
	return LEAF_RULE_NR;
}

/* The readahead window in whole units. */
static inline u64 leaf_window(const struct leaf_read *read)
{
	u64 window = leaf_min(read->window, LEAF_FAR);

	return leaf_round_down(window + LEAF_UNIT - 1, LEAF_UNIT_SHIFT);
}

/* The least that is worth reading: the leaf that a unit holds, or a page. */
static inline u64 leaf_smallest(const struct leaf_ground *ground)
{
	const struct leaf_table *table = ground->table;

	if (table->nr > 1 && table->shift[1] <= LEAF_UNIT_SHIFT)
		return leaf_bytes(table->shift[1]);
	return leaf_bytes(table->shift[0]);
}

void leaf_weigh(const struct leaf_read *read, struct leaf_plan *plan,
		struct leaf_account *account);
u32 leaf_refuse_cost(const struct leaf_read *read, u32 shift);
u32 leaf_refuse_read(const struct leaf_read *read,
		     const struct leaf_plan *plan, u32 shift);
u32 leaf_refuse_unproven(const struct leaf_read *read,
			 const struct leaf_plan *plan, u32 shift);
int leaf_streams(const struct leaf_plan *plan, u64 size);
u64 leaf_grow(const struct leaf_read *read, const struct leaf_plan *plan);
void leaf_owe(struct leaf_account *account, struct leaf_plan *plan, u64 bytes);

#endif /* _MM_LEAF_INTERNAL_H */
