// SPDX-License-Identifier: GPL-2.0-only
/* What the headers hold as data, reachable by symbol from Rust. */
#include "leaf_read_cases.h"

/* Where a member lies; the whole struct is a member without a name. */
struct leaf_export_member {
	const char *name;
	u32 offset;
	u32 size;
};

const char *leaf_export_read_case(u32 nr, struct leaf_read_answer *want,
				  struct leaf_read_answer *answer);
const char *leaf_export_align_case(u32 nr, u8 *shift,
				   struct leaf_align_answer *answer);
const char *leaf_export_elf_case(u32 nr, u8 *shift, u32 *segment,
				 struct leaf_align_answer *answer);

const struct leaf_export_member *leaf_export_layout(u32 *nr);

/*
 * The shared cases, one at a time: each returns the case's name, or null after
 * the last one, and fills in what it expects and what the core answers.
 */

const char *leaf_export_read_case(u32 nr, struct leaf_read_answer *want,
				  struct leaf_read_answer *answer)
{
	const struct leaf_read_case *test = &leaf_read_cases[nr];

	if (nr >= ARRAY_SIZE(leaf_read_cases))
		return NULL;
	want->rule = test->rule;
	want->offset = test->size ? test->offset + test->read_at : 0;
	want->size = test->size;
	want->order = test->order;
	want->collapse = test->collapse;
	leaf_case_read(test, answer);
	return test->name;
}

const char *leaf_export_align_case(u32 nr, u8 *shift,
				   struct leaf_align_answer *answer)
{
	if (nr >= ARRAY_SIZE(leaf_align_cases))
		return NULL;
	*shift = leaf_align_cases[nr].shift;
	leaf_case_align(&leaf_align_cases[nr], answer);
	return leaf_align_cases[nr].name;
}

const char *leaf_export_elf_case(u32 nr, u8 *shift, u32 *segment,
				 struct leaf_align_answer *answer)
{
	if (nr >= ARRAY_SIZE(leaf_elf_cases))
		return NULL;
	*shift = leaf_elf_cases[nr].shift;
	*segment = leaf_elf_cases[nr].segment;
	leaf_case_elf(&leaf_elf_cases[nr], answer);
	return leaf_elf_cases[nr].name;
}

/* The layout of what crosses the border, for src/ffi.rs to be held against. */

#define WHOLE(type) { #type, 0, sizeof(struct type) }
#define MEMBER(type, member)						\
	{ #type "." #member, offsetof(struct type, member),		\
	  sizeof(((struct type *)NULL)->member) }

static const struct leaf_export_member leaf_export_members[] = {
	WHOLE(leaf_table),
	MEMBER(leaf_table, shift),
	MEMBER(leaf_table, nr),
	WHOLE(leaf_ground),
	MEMBER(leaf_ground, table),
	MEMBER(leaf_ground, file_size),
	MEMBER(leaf_ground, min_order),
	MEMBER(leaf_ground, max_order),
	MEMBER(leaf_ground, thp),
	MEMBER(leaf_ground, enabled),
	WHOLE(leaf_tried),
	MEMBER(leaf_tried, shift),
	MEMBER(leaf_tried, rule),
	WHOLE(leaf_trace),
	MEMBER(leaf_trace, nr),
	MEMBER(leaf_trace, tried),
	WHOLE(leaf_account),
	MEMBER(leaf_account, debt),
	MEMBER(leaf_account, lonely),
	WHOLE(leaf_read),
	MEMBER(leaf_read, ground),
	MEMBER(leaf_read, start),
	MEMBER(leaf_read, end),
	MEMBER(leaf_read, offset),
	MEMBER(leaf_read, fault),
	MEMBER(leaf_read, window),
	MEMBER(leaf_read, hole),
	MEMBER(leaf_read, gap),
	MEMBER(leaf_read, spare),
	MEMBER(leaf_read, run),
	MEMBER(leaf_read, last_size),
	MEMBER(leaf_read, filled),
	MEMBER(leaf_read, collapse),
	MEMBER(leaf_read, evicted),
	MEMBER(leaf_read, advice),
	MEMBER(leaf_read, account),
	WHOLE(leaf_read_answer),
	MEMBER(leaf_read_answer, offset),
	MEMBER(leaf_read_answer, size),
	MEMBER(leaf_read_answer, order),
	MEMBER(leaf_read_answer, leaf),
	MEMBER(leaf_read_answer, rule),
	MEMBER(leaf_read_answer, collapse),
	MEMBER(leaf_read_answer, account),
	MEMBER(leaf_read_answer, trace),
	WHOLE(leaf_align),
	MEMBER(leaf_align, ground),
	MEMBER(leaf_align, offset),
	MEMBER(leaf_align, length),
	MEMBER(leaf_align, space),
	WHOLE(leaf_align_answer),
	MEMBER(leaf_align_answer, shift),
	MEMBER(leaf_align_answer, rule),
	MEMBER(leaf_align_answer, segment),
	MEMBER(leaf_align_answer, trace),
	WHOLE(leaf_segment),
	MEMBER(leaf_segment, vaddr),
	MEMBER(leaf_segment, offset),
	MEMBER(leaf_segment, filesz),
	MEMBER(leaf_segment, flags),
};

const struct leaf_export_member *leaf_export_layout(u32 *nr)
{
	*nr = ARRAY_SIZE(leaf_export_members);
	return leaf_export_members;
}
