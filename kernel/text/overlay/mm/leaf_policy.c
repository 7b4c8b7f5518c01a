// SPDX-License-Identifier: GPL-2.0-only
/*
 * The leaf policy's second question: which folios to read for a fault in text.
 * Rules and reasons in Documentation/mm/leaf_policy.rst.
 */
#include "leaf_internal.h"

/* Where the fault is, what the mapping has, where a narrow read begins. */
static int leaf_plan_read(const struct leaf_read *read, struct leaf_plan *plan)
{
	const u32 page_shift = leaf_page_shift(&read->ground);
	const u64 hole = leaf_round_down(read->hole, page_shift);
	const u64 unit = leaf_smallest(&read->ground);

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
	plan->demand = leaf_window(read);
	return 1;
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
	if (!leaf_holds(&plan->range, plan->pos, shift))
		return LEAF_RULE_NOT_HELD;
	if (read->hole < plan->pos - block ||
	    read->gap < block + size - plan->pos)
		return LEAF_RULE_RESIDENT;
	return leaf_refuse_unproven(read, plan, shift);
}

/* Fill in offset, size and order once the leaf is known. */
static void leaf_size_read(const struct leaf_read *read,
			   const struct leaf_plan *plan,
			   struct leaf_read_answer *answer)
{
	const u32 page_shift = leaf_page_shift(&read->ground);
	const u64 unit = leaf_smallest(&read->ground);
	const u64 grown = leaf_grow(read, plan);
	u64 size = plan->demand, end;
	u32 widest;

	answer->offset = plan->first;
	if (answer->leaf <= LEAF_UNIT_SHIFT && grown > size) {
		size = grown;
		answer->rule = LEAF_RULE_STREAM;
	}
	if (answer->leaf > LEAF_UNIT_SHIFT) {
		answer->offset = leaf_round_down(plan->pos, answer->leaf);
		size = leaf_max(leaf_round_down(size, answer->leaf),
				leaf_bytes(answer->leaf));
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
static void leaf_complete(const struct leaf_read *read, struct leaf_plan *plan,
			  struct leaf_read_answer *answer)
{
	const u32 shift = read->collapse;
	const u64 end = answer->offset + answer->size;
	u64 size, block, resident, missing;

	if (!shift || answer->leaf >= shift ||
	    leaf_refuse_read(read, plan, shift) != LEAF_RULE_NR ||
	    !leaf_holds(&plan->range, plan->pos, shift))
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
	leaf_owe(&answer->account, plan, missing);
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
	answer->account = read->account;
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
					   table->shift[i]);
		if (rule == LEAF_RULE_NR)
			return 1;
		leaf_try(trace, table->shift[i], rule);
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
				   table->shift[1]) == LEAF_RULE_NR;
}

/* Why demand is less than the window */
static u8 leaf_why_less(const struct leaf_read *read)
{
	if (read->evicted)
		return LEAF_RULE_EVICTED;
	return read->advice == LEAF_ADVICE_RANDOM ? LEAF_RULE_ADVICE :
						    LEAF_RULE_LONELY;
}

/* The widest leaf for this fault, narrower ones tried in turn. */
static void leaf_pick(const struct leaf_read *read, const struct leaf_plan *plan,
		      struct leaf_read_answer *answer)
{
	const struct leaf_table *table = read->ground.table;
	u32 i, rule;

	for (i = table->nr - 1; i; i--) {
		rule = leaf_refuse_here(read, plan, table->shift[i]);
		if (rule == LEAF_RULE_NR)
			break;
		leaf_try(&answer->trace, table->shift[i], rule);
	}
	answer->leaf = table->shift[i];
	if (leaf_bytes(answer->leaf) > leaf_max(plan->demand, LEAF_UNIT))
		answer->rule = leaf_streams(plan, leaf_bytes(answer->leaf)) ?
			       LEAF_RULE_STREAM : LEAF_RULE_SINGLE;
	else if (plan->demand < leaf_window(read))
		answer->rule = leaf_why_less(read);
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

	if (rule == LEAF_RULE_NR && !read->window)
		rule = LEAF_RULE_DEVICE;
	leaf_read_none(read, rule, answer);
	if (rule != LEAF_RULE_NR)
		return;
	if (!leaf_plan_read(read, &plan)) {
		leaf_read_none(read, LEAF_RULE_NO_RANGE, answer);
		return;
	}
	if (!leaf_usable(read, &plan, &answer->trace)) {
		answer->rule = LEAF_RULE_PAGE;
		leaf_try(&answer->trace, answer->leaf, answer->rule);
		return;
	}
	answer->trace.nr = 0;
	leaf_weigh(read, &plan, &answer->account);

	leaf_pick(read, &plan, answer);
	leaf_size_read(read, &plan, answer);
	if ((answer->rule == LEAF_RULE_STREAM ||
	     answer->rule == LEAF_RULE_SINGLE) && answer->size > plan.demand)
		leaf_owe(&answer->account, &plan, answer->size - plan.demand);
	if (answer->rule == LEAF_RULE_STREAM &&
	    read->advice == LEAF_ADVICE_SEQUENTIAL)
		answer->rule = LEAF_RULE_ADVICE;
	leaf_try(&answer->trace, answer->leaf, answer->rule);
	leaf_complete(read, &plan, answer);
}
