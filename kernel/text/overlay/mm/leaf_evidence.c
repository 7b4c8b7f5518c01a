// SPDX-License-Identifier: GPL-2.0-only
/*
 * What speaks for reading more text than was asked for, and what against: the
 * account of a file, streams of faults, advice, device and memory. Rules and
 * reasons in Documentation/mm/leaf_policy.rst.
 */
#include "leaf_internal.h"

/*
 * Bytes a file may be read ahead on trust, before faults have proven any of it
 * useful: one wide leaf.
 */
#define LEAF_LOAN		BIT_ULL(LEAF_WIDEST_SHIFT)

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

#define LEAF_DEBT_SHIFT		12

/*
 * Misses without neighbours are a sign of a program that needs little here and
 * little there. Neighbours count in either direction and as far as a window
 * reaches, whether or not this process brought them in.
 */
static void leaf_count_lonely(const struct leaf_read *read,
			      struct leaf_account *account)
{
	const u64 near = leaf_min(leaf_window(read), LEAF_SCAN);

	if (read->hole < near || read->gap < leaf_min(2 * near, LEAF_SCAN)) {
		if (account->lonely)
			account->lonely--;
	} else if (account->lonely < LEAF_LONELY_MAX) {
		account->lonely++;
	}
}

/*
 * What demand justifies without trust: the readahead window, as without the
 * policy. Where misses are lonely, or the program says that it executes at
 * random, one leaf, and no more than doubling what a stream has read. The same
 * for what was evicted: all that is read beside it evicts something else. But
 * not less than a unit then, as it may be that the program comes back after
 * others had the memory, and wants all of it.
 */
static u64 leaf_demand(const struct leaf_read *read,
		       const struct leaf_plan *plan,
		       const struct leaf_account *account)
{
	const u64 window = leaf_window(read);
	u64 least = LEAF_UNIT;

	if (!read->evicted) {
		least = leaf_smallest(&read->ground);
		if (read->advice == LEAF_ADVICE_RANDOM)
			return leaf_min(window, least);
		if (account->lonely < LEAF_LONELY_MISSES)
			return window;
		if (!plan->stream && read->hole < leaf_min(window, LEAF_SCAN))
			return window;
	}
	return leaf_min(window, leaf_max(least, plan->stream));
}

/*
 * Demand repays trust slowly. A stream that arrives at the end of the previous
 * read has used all of it, so that its speculative part is repaid in full and
 * counts as demand.
 */
static void leaf_repay(const struct leaf_read *read, const struct leaf_plan *plan,
		       struct leaf_account *account)
{
	const u64 window = leaf_window(read);
	u64 repaid = plan->demand >> LEAF_REPAY_SHIFT;
	u64 proven = 0;

	if (plan->stream && read->last_size > window)
		proven = leaf_min(read->last_size, LEAF_FAR) - window;
	repaid += proven + (proven >> LEAF_REPAY_SHIFT);
	repaid >>= LEAF_DEBT_SHIFT;
	account->debt -= (u16)leaf_min(repaid, account->debt);
}

/**
 * leaf_weigh - weigh the evidence for a read
 * @read: the fault
 * @plan: gets what demand, a stream and trust justify
 * @account: the file's, brought up to date
 */
void leaf_weigh(const struct leaf_read *read, struct leaf_plan *plan,
		struct leaf_account *account)
{
	u64 debt;

	plan->stream = read->hole <= LEAF_STREAM_SLACK ?
		       leaf_min(read->run, LEAF_SCAN) : 0;
	plan->demand = leaf_demand(read, plan, account);
	leaf_count_lonely(read, account);
	leaf_repay(read, plan, account);
	debt = (u64)account->debt << LEAF_DEBT_SHIFT;
	plan->trust = debt < LEAF_LOAN ? LEAF_LOAN - debt : 0;

	/* Whoever announces a stream need not show one. He owes all the same. */
	if (read->advice == LEAF_ADVICE_SEQUENTIAL)
		plan->stream = LEAF_SCAN;
	if (read->advice == LEAF_ADVICE_RANDOM)
		plan->stream = 0;
}

/**
 * leaf_owe - enter speculation as debt
 * @account: the file's
 * @plan: the read, whose trust it takes
 * @bytes: read beyond demand
 */
void leaf_owe(struct leaf_account *account, struct leaf_plan *plan, u64 bytes)
{
	bytes = leaf_min(bytes, plan->trust);
	plan->trust -= bytes;
	account->debt += (u16)(bytes >> LEAF_DEBT_SHIFT);
}

/**
 * leaf_refuse_cost - do device and memory speak against a leaf?
 * @read: the fault
 * @shift: log2 of the leaf
 *
 * Return: the rule, or LEAF_RULE_NR for nothing.
 */
u32 leaf_refuse_cost(const struct leaf_read *read, u32 shift)
{
	const u64 size = leaf_bytes(shift);

	if (size >> LEAF_DEVICE_SHIFT > read->window)
		return LEAF_RULE_DEVICE;
	if (shift > LEAF_UNIT_SHIFT && size > read->spare)
		return LEAF_RULE_MEMORY;
	return LEAF_RULE_NR;
}

/**
 * leaf_refuse_read - does anything speak against a leaf, wherever it lies?
 * @read: the fault
 * @plan: the read
 * @shift: log2 of the leaf
 *
 * Return: the rule of mapping, device or memory, or LEAF_RULE_NR for nothing.
 */
u32 leaf_refuse_read(const struct leaf_read *read,
		     const struct leaf_plan *plan, u32 shift)
{
	u32 rule = leaf_refuse_mapping(&read->ground, &plan->range,
				       read->start - read->offset, shift);

	return rule == LEAF_RULE_NR ? leaf_refuse_cost(read, shift) : rule;
}

/**
 * leaf_streams - has a stream read enough to pay for a leaf?
 * @plan: the read
 * @size: the leaf's, in bytes
 *
 * Return: not 0 if so.
 */
int leaf_streams(const struct leaf_plan *plan, u64 size)
{
	return plan->stream << LEAF_GROWTH_SHIFT >= size;
}

/*
 * Whether the mapping holds a single block of this size. Nothing could prove
 * that reading it pays before most of it is read, in narrow folios. So it is
 * read on trust, unless something speaks for reading less than the window.
 */
static int leaf_single(const struct leaf_read *read,
		       const struct leaf_plan *plan, u32 shift)
{
	const u64 size = leaf_bytes(shift);
	const u64 first = (plan->range.first + size - 1) & ~(size - 1);

	return plan->demand == leaf_window(read) &&
	       !leaf_holds(&plan->range, first + size, shift);
}

/**
 * leaf_refuse_unproven - is there no evidence for a leaf?
 * @read: the fault
 * @plan: the read
 * @shift: log2 of the leaf, of which the mapping holds the fault's block
 *
 * Return: the rule, or LEAF_RULE_NR if demand, a stream or trust pays for it.
 */
u32 leaf_refuse_unproven(const struct leaf_read *read,
			 const struct leaf_plan *plan, u32 shift)
{
	const u64 size = leaf_bytes(shift);

	if (size <= plan->demand)
		return LEAF_RULE_NR;
	if (!leaf_streams(plan, size) && !leaf_single(read, plan, shift))
		return LEAF_RULE_NO_EVIDENCE;
	if (size - plan->demand > plan->trust)
		return LEAF_RULE_BUDGET;
	return LEAF_RULE_NR;
}

/**
 * leaf_grow - how much a stream may read where no wide leaf can be
 * @read: the fault
 * @plan: the read
 *
 * So that it meets the next block, which can be wide, with one read and few
 * faults. It is worth it only if there is such a block.
 *
 * Return: bytes; 0 to read what demand justifies.
 */
u64 leaf_grow(const struct leaf_read *read, const struct leaf_plan *plan)
{
	const struct leaf_table *table = read->ground.table;
	u64 want, next;
	u32 i, shift = 0;

	for (i = table->nr - 1; i; i--) {
		shift = table->shift[i];
		if (leaf_refuse_read(read, plan, shift) == LEAF_RULE_NR)
			break;
	}
	if (!i || plan->stream < LEAF_STREAM_READS * leaf_window(read))
		return 0;
	next = leaf_round_down(plan->first, shift) + leaf_bytes(shift);
	if (next < plan->first || !leaf_holds(&plan->range, next, shift))
		return 0;

	want = plan->stream << LEAF_GROWTH_SHIFT;
	want = leaf_min(want, plan->demand + plan->trust);
	want = leaf_round_down(want, LEAF_UNIT_SHIFT);
	return leaf_min(want, next - plan->first);
}
