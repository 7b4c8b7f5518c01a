// SPDX-License-Identifier: GPL-2.0-only
/* What the headers hold as data, reachable by symbol from Rust. */
#include "leaf_policy_cases.h"

const struct leaf_table *leaf_export_tables(u32 *nr);
const char *leaf_export_read_case(u32 nr, struct leaf_read_answer *want,
				  struct leaf_read_answer *answer);
const char *leaf_export_align_case(u32 nr, u8 *shift,
				   struct leaf_align_answer *answer);
const char *leaf_export_elf_case(u32 nr, u8 *shift, u32 *segment,
				 struct leaf_align_answer *answer);

const struct leaf_table *leaf_export_tables(u32 *nr)
{
	*nr = ARRAY_SIZE(leaf_tables);
	return leaf_tables;
}

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
