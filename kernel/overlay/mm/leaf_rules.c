// SPDX-License-Identifier: GPL-2.0-only
/* The exec policy's rules in words. */
#include <linux/leaf_policy.h>

static const char * const leaf_rule_texts[] = {
	[LEAF_RULE_OFF] = "the runtime switch is off",
	[LEAF_RULE_THP_NEVER] = "transparent huge pages are set to never",
	[LEAF_RULE_NO_RANGE] = "no page of the file lies in that range",
	[LEAF_RULE_TOO_WIDE] = "wider than 2M costs randomisation and memory",
	[LEAF_RULE_FILE_ORDER] =
		"wider than the largest folio the page cache takes for the file",
	[LEAF_RULE_NOT_CONGRUENT] =
		"address and file offset are not congruent at this size",
	[LEAF_RULE_NOT_HELD] = "there is no room for a whole leaf of this size",
	[LEAF_RULE_NO_SPACE] = "no address space left for the alignment",
	[LEAF_RULE_WRITABLE] = "a writable segment is copied page by page",
	[LEAF_RULE_MEMORY] = "there is memory pressure, or too little to spare",
	[LEAF_RULE_DEVICE] = "the readahead window tells of a slow device",
	[LEAF_RULE_RESIDENT] = "part of the leaf is in the page cache already",
	[LEAF_RULE_NO_EVIDENCE] =
		"wider than the readahead window, and no stream has reached it",
	[LEAF_RULE_BUDGET] =
		"earlier reads ahead of demand in this file are not yet proven useful",
	[LEAF_RULE_PAGE] = "every wider leaf was refused",
	[LEAF_RULE_NARROW] = "the widest leaf that the readahead window pays for",
	[LEAF_RULE_WINDOW] = "the readahead window covers the leaf",
	[LEAF_RULE_STREAM] = "faults read this file as a stream and pay for the leaf",
	[LEAF_RULE_LONELY] = "most faults in this file have no neighbours",
	[LEAF_RULE_EVICTED] = "it was evicted, so memory is too short for more",
	[LEAF_RULE_ALIGN] = "the widest leaf that the mapping can hold",
};

/**
 * leaf_rule_text - a rule in words
 * @rule: an enum leaf_rule
 *
 * Return: a clause that can follow "because", or "?" for a number that is no
 * rule.
 */
const char *leaf_rule_text(u32 rule)
{
	return rule < LEAF_RULE_NR ? leaf_rule_texts[rule] : "?";
}

static const char * const leaf_rule_names[] = {
	[LEAF_RULE_OFF] = "off",
	[LEAF_RULE_THP_NEVER] = "thp-never",
	[LEAF_RULE_NO_RANGE] = "no-range",
	[LEAF_RULE_TOO_WIDE] = "too-wide",
	[LEAF_RULE_FILE_ORDER] = "file-order",
	[LEAF_RULE_NOT_CONGRUENT] = "not-congruent",
	[LEAF_RULE_NOT_HELD] = "not-held",
	[LEAF_RULE_NO_SPACE] = "no-space",
	[LEAF_RULE_WRITABLE] = "writable",
	[LEAF_RULE_MEMORY] = "memory",
	[LEAF_RULE_DEVICE] = "device",
	[LEAF_RULE_RESIDENT] = "resident",
	[LEAF_RULE_NO_EVIDENCE] = "no-evidence",
	[LEAF_RULE_BUDGET] = "budget",
	[LEAF_RULE_PAGE] = "page",
	[LEAF_RULE_NARROW] = "narrow",
	[LEAF_RULE_WINDOW] = "window",
	[LEAF_RULE_STREAM] = "stream",
	[LEAF_RULE_LONELY] = "lonely",
	[LEAF_RULE_EVICTED] = "evicted",
	[LEAF_RULE_ALIGN] = "align",
};

/**
 * leaf_rule_name - short name of a rule, for tables and scripts
 * @rule: an enum leaf_rule
 *
 * Return: the name, or "?" for a number that is no rule.
 */
const char *leaf_rule_name(u32 rule)
{
	return rule < LEAF_RULE_NR ? leaf_rule_names[rule] : "?";
}
