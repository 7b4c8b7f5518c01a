// SPDX-License-Identifier: GPL-2.0-only
/* KUnit tests of the exec policy's core: the cases that the host runs, too. */
#include <kunit/test.h>

#include "leaf_policy_cases.h"

KUNIT_ARRAY_PARAM_DESC(leaf_read, leaf_read_cases, name);
KUNIT_ARRAY_PARAM_DESC(leaf_align, leaf_align_cases, name);
KUNIT_ARRAY_PARAM_DESC(leaf_elf, leaf_elf_cases, name);

static void leaf_read_test(struct kunit *test)
{
	const struct leaf_read_case *param = test->param_value;
	struct leaf_read_answer answer;

	leaf_case_read(param, &answer);
	KUNIT_EXPECT_STREQ(test, leaf_rule_name(answer.rule),
			   leaf_rule_name(param->rule));
	KUNIT_EXPECT_EQ(test, answer.size, param->size);
	KUNIT_EXPECT_EQ(test, answer.order, param->order);
	KUNIT_EXPECT_EQ(test, answer.collapse, param->collapse);
	if (param->size)
		KUNIT_EXPECT_EQ(test, answer.offset,
				param->offset + param->read_at);
}

static void leaf_align_test(struct kunit *test)
{
	const struct leaf_align_case *param = test->param_value;
	struct leaf_align_answer answer;

	leaf_case_align(param, &answer);
	KUNIT_EXPECT_EQ(test, answer.shift, param->shift);
}

static void leaf_elf_test(struct kunit *test)
{
	const struct leaf_elf_case *param = test->param_value;
	struct leaf_align_answer answer;

	leaf_case_elf(param, &answer);
	KUNIT_EXPECT_EQ(test, answer.shift, param->shift);
	KUNIT_EXPECT_EQ(test, answer.segment, param->segment);
}

static struct kunit_case leaf_policy_cases[] = {
	KUNIT_CASE_PARAM(leaf_read_test, leaf_read_gen_params),
	KUNIT_CASE_PARAM(leaf_align_test, leaf_align_gen_params),
	KUNIT_CASE_PARAM(leaf_elf_test, leaf_elf_gen_params),
	{}
};

static struct kunit_suite leaf_policy_suite = {
	.name = "leaf_policy",
	.test_cases = leaf_policy_cases,
};

kunit_test_suite(leaf_policy_suite);

MODULE_DESCRIPTION("KUnit tests of the exec policy's core");
MODULE_LICENSE("GPL");
