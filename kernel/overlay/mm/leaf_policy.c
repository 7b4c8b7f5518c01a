// SPDX-License-Identifier: GPL-2.0-only
/*
 * The exec policy's first question: which folios to read for a fault in text.
 * Rules and reasons in docs/policy.md.
 */
#include "leaf_internal.h"

/*
 * Bytes a file may be read ahead on trust, before faults have proven any of it
 * useful: one wide leaf.
 */
#define LEAF_LOAN		BIT_ULL(LEAF_WIDEST_SHIFT)

/* Demand repays a quarter of its size: speculation stays below 25 %. */
#define LEAF_REPAY_SHIFT	2

/* A stream may read this many times (as a shift) what it has read so far. */
#define LEAF_GROWTH_SHIFT	1

/*
 * But only once it has outlived that many reads of the window. Most pieces of
 * text that are run through in order are small.
 */
#define LEAF_STREAM_READS	3

/* After this many more lonely misses than others, read one leaf at a time. */
#define LEAF_LONELY_MISSES	16
#define LEAF_LONELY_MAX		(2 * LEAF_LONELY_MISSES)

/* A stream may skip this much, such as the tail of a function not called. */
#define LEAF_STREAM_SLACK	BIT_ULL(14)

/*
 * The widest read a device gets is this many times (as a shift) its readahead
 * window: 2M at the kernel's default of 128K, less where a driver or the
 * administrator set less.
 */
#define LEAF_DEVICE_SHIFT	4

/* More than any file has; sums of a few such sizes do not overflow. */
#define LEAF_FAR		BIT_ULL(60)

#define LEAF_DEBT_SHIFT		12
#define LEAF_UNIT		BIT_ULL(LEAF_UNIT_SHIFT)

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

/* The window in whole units; what lies beyond any file's size is cut off. */
static u64 leaf_window(const struct leaf_read *read)
{
	u64 window = leaf_min(read->window, LEAF_FAR);

	return leaf_round_down(window + LEAF_UNIT - 1, LEAF_UNIT_SHIFT);
}

/* The leaf to read where misses are lonely: the smallest that saves a walk. */
static u64 leaf_smallest(const struct leaf_ground *ground)
{
	const struct leaf_table *table = ground->table;

	if (table->nr > 1 && table->sizes[1].shift <= LEAF_UNIT_SHIFT)
		return leaf_bytes(table->sizes[1].shift);
	return leaf_bytes(table->sizes[0].shift);
}

/*
 * Misses without neighbours tell of a program that needs little here and
 * little there. Neighbours count in either direction and as far as a window
 * reaches, whether or not this process brought them in.
 */
static void leaf_count_lonely(const struct leaf_read *read,
			      struct leaf_history *history)
{
	const u64 near = leaf_min(leaf_window(read), LEAF_SCAN);

	if (read->hole < near || read->gap < leaf_min(2 * near, LEAF_SCAN)) {
		if (history->lonely)
			history->lonely--;
	} else if (history->lonely < LEAF_LONELY_MAX) {
		history->lonely++;
	}
}

/*
 * What demand justifies without trust: the readahead window, as without the
 * policy. Where misses are lonely, one leaf, and no more than doubling what a
 * stream has read. The same for what was evicted: all that is read beside it
 * evicts something else. But not less than a unit then, as it may be that the
 * program comes back after others had the memory, and wants all of it.
 */
static u64 leaf_demand(const struct leaf_read *read, const struct leaf_plan *plan,
		       const struct leaf_history *history)
{
	const u64 window = leaf_window(read);
	u64 least = LEAF_UNIT;

	if (!read->evicted) {
		if (history->lonely < LEAF_LONELY_MISSES)
			return window;
		if (!plan->stream && read->hole < leaf_min(window, LEAF_SCAN))
			return window;
		least = leaf_smallest(&read->ground);
	}
	return leaf_min(window, leaf_max(least, plan->stream));
}

/*
 * Demand repays trust slowly. A stream that arrives at the end of the previous
 * read has used all of it, so that its speculative part is repaid in full and
 * counts as demand.
 */
static void leaf_repay(const struct leaf_read *read, const struct leaf_plan *plan,
		       struct leaf_history *history)
{
	const u64 window = leaf_window(read);
	u64 repaid = plan->demand >> LEAF_REPAY_SHIFT;
	u64 proven = 0;

	if (plan->stream && read->last_size > window)
		proven = leaf_min(read->last_size, LEAF_FAR) - window;
	repaid += proven + (proven >> LEAF_REPAY_SHIFT);
	repaid >>= LEAF_DEBT_SHIFT;
	history->debt -= (u16)leaf_min(repaid, history->debt);
}

static int leaf_plan_read(const struct leaf_read *read, struct leaf_plan *plan,
			  struct leaf_history *history)
{
	const u32 page_shift = leaf_page_shift(&read->ground);
	const u64 unit = leaf_smallest(&read->ground);
	const u64 hole = leaf_round_down(read->hole, page_shift);
	u64 debt;

	if (read->end - 1 < read->start || read->fault < read->start ||
	    read->fault > read->end - 1)
		return 0;
	if (!leaf_clamp(&read->ground, read->offset, read->end - read->start,
			&plan->range))
		return 0;
	plan->pos = leaf_round_down(read->offset + (read->fault - read->start),
				    page_shift);
	if (plan->pos > plan->range.last)
		return 0;

	plan->first = leaf_max(plan->pos & ~(unit - 1), plan->range.first);
	plan->first = leaf_max(plan->first,
			       plan->pos - leaf_min(hole, plan->pos));
	plan->stream = read->hole <= LEAF_STREAM_SLACK ?
		       leaf_min(read->run, LEAF_SCAN) : 0;

	plan->demand = leaf_demand(read, plan, history);
	leaf_count_lonely(read, history);
	leaf_repay(read, plan, history);
	debt = (u64)history->debt << LEAF_DEBT_SHIFT;
	plan->trust = debt < LEAF_LOAN ? LEAF_LOAN - debt : 0;
	return 1;
}

/* As leaf_refuse_mapping(), and what device and memory say to a read. */
static u32 leaf_refuse_read(const struct leaf_read *read,
			    const struct leaf_plan *plan, u32 shift)
{
	const u64 size = leaf_bytes(shift);
	u32 rule = leaf_refuse_mapping(&read->ground, &plan->range,
				       read->start - read->offset, shift);

	if (rule != LEAF_RULE_NR)
		return rule;
	if (size >> LEAF_DEVICE_SHIFT > read->window)
		return LEAF_RULE_DEVICE;
	if (shift > LEAF_UNIT_SHIFT && size > read->spare)
		return LEAF_RULE_MEMORY;
	return LEAF_RULE_NR;
}

/* Whether the mapping holds all of the naturally aligned block at @pos. */
static int leaf_holds(const struct leaf_plan *plan, u64 pos, u32 shift)
{
	const u64 block = leaf_round_down(pos, shift);

	return block >= plan->range.first &&
	       (block | (leaf_bytes(shift) - 1)) <= plan->range.last;
}

/* What speaks against reading the leaf that covers the fault. */
static u32 leaf_refuse_here(const struct leaf_read *read,
			    const struct leaf_plan *plan, u32 shift)
{
	const u64 size = leaf_bytes(shift);
	const u64 block = leaf_round_down(plan->pos, shift);
	u32 rule = leaf_refuse_read(read, plan, shift);

	if (rule != LEAF_RULE_NR)
		return rule;
	if (!leaf_holds(plan, plan->pos, shift))
		return LEAF_RULE_NOT_HELD;
	if (read->hole < plan->pos - block ||
	    read->gap < block + size - plan->pos)
		return LEAF_RULE_RESIDENT;
	if (size <= plan->demand)
		return LEAF_RULE_NR;
	if (plan->stream << LEAF_GROWTH_SHIFT < size)
		return LEAF_RULE_NO_EVIDENCE;
	if (size - plan->demand > plan->trust)
		return LEAF_RULE_BUDGET;
	return LEAF_RULE_NR;
}

/*
 * A stream in a block that cannot be wide any more may grow its reads, so that
 * it meets the next block with one read and few faults. That is worth it only
 * if the next block can be wide.
 */
static u64 leaf_grow(const struct leaf_read *read, const struct leaf_plan *plan)
{
	const struct leaf_table *table = read->ground.table;
	u64 want, next;
	u32 i, shift = 0;

	for (i = table->nr - 1; i; i--) {
		shift = table->sizes[i].shift;
		if (leaf_refuse_read(read, plan, shift) == LEAF_RULE_NR)
			break;
	}
	if (!i || plan->stream < LEAF_STREAM_READS * leaf_window(read))
		return 0;
	next = leaf_round_down(plan->first, shift) + leaf_bytes(shift);
	if (next < plan->first || !leaf_holds(plan, next, shift))
		return 0;

	want = plan->stream << LEAF_GROWTH_SHIFT;
	want = leaf_min(want, plan->demand + plan->trust);
	want = leaf_round_down(want, LEAF_UNIT_SHIFT);
	return leaf_min(want, next - plan->first);
}

/* Fill in offset, size and order once the leaf is known. */
static void leaf_size_read(const struct leaf_read *read,
			   const struct leaf_plan *plan,
			   struct leaf_read_answer *answer)
{
	const u32 page_shift = leaf_page_shift(&read->ground);
	const u64 unit = leaf_smallest(&read->ground);
	u64 size = plan->demand, end;
	u32 widest;

	answer->offset = plan->first;
	if (answer->leaf > LEAF_UNIT_SHIFT) {
		answer->offset = leaf_round_down(plan->pos, answer->leaf);
		size = leaf_max(leaf_round_down(size, answer->leaf),
				leaf_bytes(answer->leaf));
	} else {
		u64 grown = leaf_grow(read, plan);

		if (grown > size) {
			size = grown;
			answer->rule = LEAF_RULE_STREAM;
		}
	}

	/* Whole leaves, the faulting page in any case, nothing twice. */
	end = (answer->offset + size + unit - 1) & ~(unit - 1);
	if (end < answer->offset || end - 1 > plan->range.last)
		end = leaf_round_down(plan->range.last, page_shift) +
		      leaf_bytes(page_shift);
	size = end - answer->offset;
	size = leaf_min(size, plan->pos - answer->offset +
			leaf_max(leaf_min(read->gap, LEAF_FAR),
				 leaf_bytes(page_shift)));
	answer->size = leaf_round_down(size, page_shift);

	widest = (u32)leaf_max(answer->leaf, LEAF_UNIT_SHIFT);
	widest = (u32)leaf_min(widest, page_shift + read->ground.max_order);
	while (widest > page_shift && leaf_bytes(widest) > answer->size)
		widest--;
	answer->order = (u8)leaf_max(widest - page_shift, read->ground.min_order);
}

/*
 * A block that was read narrow and has filled up since can still be wide if
 * its folios are copied into one. It must be so full that the rest costs no
 * more than other speculation may.
 */
static void leaf_collapse(const struct leaf_read *read,
			  const struct leaf_plan *plan,
			  struct leaf_read_answer *answer)
{
	const u32 shift = read->collapse;
	const u64 end = answer->offset + answer->size;
	u64 size, block, resident, missing;

	if (!shift || answer->leaf >= shift ||
	    leaf_refuse_read(read, plan, shift) != LEAF_RULE_NR ||
	    !leaf_holds(plan, plan->pos, shift))
		return;
	size = leaf_bytes(shift);
	block = leaf_round_down(plan->pos, shift);
	resident = leaf_min(read->filled, size) +
		   leaf_min(end - block, size) -
		   leaf_min(leaf_max(answer->offset, block) - block, size);
	missing = size - leaf_min(resident, size);
	if (missing > resident >> LEAF_REPAY_SHIFT || missing > plan->trust)
		return;
	answer->collapse = (u8)shift;
	answer->history.debt += (u16)(missing >> LEAF_DEBT_SHIFT);
}

static void leaf_read_none(const struct leaf_read *read, u32 rule,
			   struct leaf_read_answer *answer)
{
	answer->offset = 0;
	answer->size = 0;
	answer->order = 0;
	answer->collapse = 0;
	answer->leaf = leaf_page_shift(&read->ground);
	answer->rule = (u8)rule;
	answer->history = read->history;
	answer->trace.nr = 0;
	if (rule != LEAF_RULE_NR)
		leaf_try(&answer->trace, answer->leaf, rule);
}

/* Whether any wide leaf can ever map a part of the mapping; traces why not. */
static int leaf_usable(const struct leaf_read *read,
		       const struct leaf_plan *plan, struct leaf_trace *trace)
{
	const struct leaf_table *table = read->ground.table;
	u32 i, rule;

	for (i = table->nr - 1; i; i--) {
		rule = leaf_refuse_mapping(&read->ground, &plan->range,
					   read->start - read->offset,
					   table->sizes[i].shift);
		if (rule == LEAF_RULE_NR)
			return 1;
		leaf_try(trace, table->sizes[i].shift, rule);
	}
	return 0;
}

/**
 * leaf_helps - can a wide leaf ever map a part of a mapping?
 * @ground: what the policy rests on
 * @start: address of the mapping
 * @length: bytes mapped
 * @offset: file offset of @start
 *
 * Asked several times for each fault, so it looks at the narrowest wide leaf
 * only: a mapping that holds a wider one holds that too.
 *
 * Return: 0 if not: whatever is read for such a mapping, its text stays in
 * pages, and the caller does best what it would do without the policy.
 */
int leaf_helps(const struct leaf_ground *ground, u64 start, u64 length,
	       u64 offset)
{
	const struct leaf_table *table = ground->table;
	struct leaf_range range;

	return table->nr > 1 && leaf_clamp(ground, offset, length, &range) &&
	       leaf_refuse_mapping(ground, &range, start - offset,
				   table->sizes[1].shift) == LEAF_RULE_NR;
}

/* The widest leaf for this fault, narrower ones tried in turn. */
static void leaf_pick(const struct leaf_read *read, const struct leaf_plan *plan,
		      struct leaf_read_answer *answer)
{
	const struct leaf_table *table = read->ground.table;
	u32 i, rule;

	for (i = table->nr - 1; i; i--) {
		rule = leaf_refuse_here(read, plan, table->sizes[i].shift);
		if (rule == LEAF_RULE_NR)
			break;
		leaf_try(&answer->trace, table->sizes[i].shift, rule);
	}
	answer->leaf = table->sizes[i].shift;
	if (leaf_bytes(answer->leaf) > leaf_max(plan->demand, LEAF_UNIT))
		answer->rule = LEAF_RULE_STREAM;
	else if (plan->demand < leaf_window(read))
		answer->rule = read->evicted ? LEAF_RULE_EVICTED : LEAF_RULE_LONELY;
	else if (!i)
		answer->rule = LEAF_RULE_PAGE;
	else if (answer->leaf > LEAF_UNIT_SHIFT)
		answer->rule = LEAF_RULE_WINDOW;
	else
		answer->rule = LEAF_RULE_NARROW;
}

/**
 * leaf_read_decide - which folio order to read for a fault in a mapping
 * @read: the fault
 * @answer: the decision; a @size of 0 in it means that no wide leaf will ever
 *	    map the text, or that the policy is off: the caller does what it
 *	    would do without the policy
 */
void leaf_read_decide(const struct leaf_read *read,
		      struct leaf_read_answer *answer)
{
	u32 rule = leaf_switched_off(&read->ground);
	struct leaf_plan plan;
	u64 ahead;

	if (rule == LEAF_RULE_NR && !read->window)
		rule = LEAF_RULE_DEVICE;
	leaf_read_none(read, rule, answer);
	if (rule != LEAF_RULE_NR)
		return;
	if (!leaf_plan_read(read, &plan, &answer->history)) {
		leaf_read_none(read, LEAF_RULE_NO_RANGE, answer);
		return;
	}
	if (!leaf_usable(read, &plan, &answer->trace)) {
		answer->rule = LEAF_RULE_PAGE;
		answer->history = read->history;
		leaf_try(&answer->trace, answer->leaf, answer->rule);
		return;
	}
	answer->trace.nr = 0;

	leaf_pick(read, &plan, answer);
	leaf_size_read(read, &plan, answer);
	leaf_try(&answer->trace, answer->leaf, answer->rule);

	if (answer->size > plan.demand && answer->rule == LEAF_RULE_STREAM) {
		ahead = leaf_min(answer->size - plan.demand, plan.trust);
		plan.trust -= ahead;
		answer->history.debt += (u16)(ahead >> LEAF_DEBT_SHIFT);
	}
	leaf_collapse(read, &plan, answer);
}
