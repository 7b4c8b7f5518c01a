/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How much of the text around a fault to read. Text is executed at random, so
 * it is not read ahead; what pays is a whole block of the size that a TLB holds
 * in one entry, where the program uses much of it. Numbers of pages only: KUnit
 * and programs outside the kernel can ask this anything.
 */
#ifndef _MM_EXEC_READ_H
#define _MM_EXEC_READ_H

#include <linux/types.h>

/* By how much a block changes the score of its file */
#define EXEC_READ_OPENED	(-2)
#define EXEC_READ_HALF		4
#define EXEC_READ_WHOLE		(-1)

/**
 * struct exec_read - a fault on text that is not cached
 * @block: pages of the block around the fault; 0 if there is none
 * @at: the faulting page in @block
 * @cached: pages of @block that are cached
 * @window: pages that readahead takes
 * @last: pages of the file's last read if that ended before the fault, else 0
 * @short_of_memory: reclaim took the page from where it was
 * @score: how blocks of the file fared so far, see exec_read()
 */
struct exec_read {
	unsigned int block;
	unsigned int at;
	unsigned int cached;
	unsigned int window;
	unsigned int last;
	bool short_of_memory;
	signed char score;
};

/**
 * struct exec_read_answer - what to do about it
 * @nr: pages to read from the fault on, unless @whole
 * @whole: read the block in one folio, and more of them if the window is wider
 * @collapse: the block is worth being one folio, but parts of it are cached
 * @score: to keep for the file
 */
struct exec_read_answer {
	unsigned int nr;
	bool whole;
	bool collapse;
	signed char score;
};

static inline signed char exec_read_score(signed char score, int more)
{
	const int sum = score + more;

	return (signed char)(sum < -128 ? -128 : sum > 127 ? 127 : sum);
}

/* Is a block of which so many pages are cached worth being one folio? */
static inline bool exec_read_dense(unsigned long cached, unsigned long block)
{
	return 2 * cached >= block;
}

/**
 * exec_read - how much to read for a fault on text
 * @read: the fault
 *
 * A block of which nothing is cached is read by the window, and is worth being
 * one folio once half of it is cached: it is collapsed then. How many of the
 * blocks that were opened so got that far is the file's score. While at least
 * half of them do, the next one is read whole at once. That proves nothing of
 * its use, unless the program goes straight through it; so now and then one is
 * opened by the window.
 *
 * Return: what to read.
 */
static inline struct exec_read_answer exec_read(const struct exec_read *read)
{
	struct exec_read_answer answer = {
		.nr = read->window,
		.score = read->score,
	};

	if (!read->block || read->short_of_memory)
		return answer;

	if (read->block <= read->window) {
		answer.whole = !read->cached;
		return answer;
	}

	/* Straight through a block that was read whole: that proves its use */
	if (read->last >= read->block)
		answer.score = exec_read_score(answer.score, -EXEC_READ_WHOLE);

	if (!read->cached && answer.score >= 0) {
		answer.whole = true;
		answer.score = exec_read_score(answer.score, EXEC_READ_WHOLE);
		return answer;
	}

	/* Straight on: more than last time */
	if (answer.nr < 2 * read->last)
		answer.nr = 2 * read->last;
	if (answer.nr > read->block - read->at)
		answer.nr = read->block - read->at;

	answer.collapse = exec_read_dense(read->cached + answer.nr, read->block);
	if (!read->cached)
		answer.score = exec_read_score(answer.score, EXEC_READ_OPENED);
	if (answer.collapse && !exec_read_dense(read->cached, read->block))
		answer.score = exec_read_score(answer.score, EXEC_READ_HALF);
	return answer;
}

#endif /* _MM_EXEC_READ_H */
