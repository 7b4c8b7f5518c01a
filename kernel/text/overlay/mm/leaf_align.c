// SPDX-License-Identifier: GPL-2.0-only
/*
 * The leaf policy's first question: which alignment to give a mapping. Rules
 * and reasons in Documentation/mm/leaf_policy.rst.
 */
#include "leaf_internal.h"

/* The widest leaf for a mapping of @range, @displacement as above. */
static void leaf_search(const struct leaf_align *align,
			const struct leaf_range *range, u64 displacement,
			struct leaf_align_answer *answer)
{
	const struct leaf_table *table = align->ground.table;
	u32 i, rule, shift;

	for (i = table->nr - 1; i; i--) {
		shift = table->shift[i];
		rule = leaf_refuse_mapping(&align->ground, range, displacement,
					   shift);
		/* The slack that an aligned search needs must exist as well. */
		if (rule == LEAF_RULE_NR &&
		    (align->length > align->space ||
		     align->space - align->length < leaf_bytes(shift)))
			rule = LEAF_RULE_NO_SPACE;
		if (rule == LEAF_RULE_NR)
			break;
		leaf_try(&answer->trace, shift, rule);
	}
	answer->shift = table->shift[i];
	answer->rule = i ? LEAF_RULE_WIDEST : LEAF_RULE_PAGE;
	leaf_try(&answer->trace, answer->shift, answer->rule);
}

static void leaf_align_none(const struct leaf_align *align, u32 rule,
			    struct leaf_align_answer *answer)
{
	answer->shift = leaf_page_shift(&align->ground);
	answer->rule = (u8)rule;
	answer->segment = 0;
	answer->trace.nr = 0;
	if (rule != LEAF_RULE_NR)
		leaf_try(&answer->trace, answer->shift, rule);
}

/**
 * leaf_align_decide - which alignment to give a file mapping
 * @align: the mapping
 * @answer: the decision
 *
 * The address to choose is congruent to the offset modulo the alignment, which
 * is what thp_get_unmapped_area() does for PMD_SIZE.
 */
void leaf_align_decide(const struct leaf_align *align,
		       struct leaf_align_answer *answer)
{
	struct leaf_range range;
	u32 rule = leaf_switched_off(&align->ground);

	if (rule == LEAF_RULE_NR &&
	    !leaf_clamp(&align->ground, align->offset, align->length, &range))
		rule = LEAF_RULE_NO_RANGE;
	leaf_align_none(align, rule, answer);
	if (rule == LEAF_RULE_NR)
		leaf_search(align, &range, 0, answer);
}

/**
 * leaf_align_elf - which alignment to give the load bias of an ELF image
 * @align: offset is not used; length is the span of all segments
 * @segments: its PT_LOAD segments
 * @nr: number of @segments
 * @answer: the decision
 *
 * The linker fixed each segment's address modulo the bias. A read-only segment
 * asks for the widest leaf it can use at that place; the widest such request
 * wins. Written segments are copied page by page and ask for nothing.
 */
void leaf_align_elf(const struct leaf_align *align,
		    const struct leaf_segment *segments, u32 nr,
		    struct leaf_align_answer *answer)
{
	struct leaf_align_answer each;
	struct leaf_range range;
	u32 i, rule = leaf_switched_off(&align->ground);

	leaf_align_none(align, rule, answer);
	if (rule != LEAF_RULE_NR)
		return;

	leaf_align_none(align, LEAF_RULE_NO_RANGE, answer);
	for (i = 0; i < nr; i++) {
		const struct leaf_segment *segment = &segments[i];

		rule = LEAF_RULE_NR;
		if (segment->flags & LEAF_SEGMENT_WRITE)
			rule = LEAF_RULE_WRITABLE;
		else if (!leaf_clamp(&align->ground, segment->offset,
				     segment->filesz, &range))
			rule = LEAF_RULE_NO_RANGE;
		leaf_align_none(align, rule, &each);
		if (rule == LEAF_RULE_NR)
			leaf_search(align, &range,
				    segment->vaddr - segment->offset, &each);
		each.segment = i;
		if (!i || each.shift > answer->shift)
			*answer = each;
	}
}
