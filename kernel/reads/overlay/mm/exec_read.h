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

/**
 * struct exec_read - a fault on text that is not cached
 * @block: pages of the block around the fault; 0 if there is none
 * @at: the faulting page in @block
 * @before: cached pages of @block before the fault; if that is at the first
 *	    page, of the block before
 * @cached: pages of @block that are cached
 * @window: pages that readahead takes
 * @short_of_memory: reclaim took pages of @block, and they were not read again
 */
struct exec_read {
	unsigned int block;
	unsigned int at;
	unsigned int before;
	unsigned int cached;
	unsigned int window;
	bool short_of_memory;
};

/**
 * struct exec_read_answer - what to do about it
 * @nr: pages to read from the fault on, unless @whole
 * @whole: read the block in one folio, and more of them if the window is wider
 * @rest: begin to read the rest of the block too: it is worth being one folio
 */
struct exec_read_answer {
	unsigned int nr;
	bool whole;
	bool rest;
};

/* Is a block of which so many pages are cached worth being one folio? */
static inline bool exec_read_dense(unsigned long cached, unsigned long block)
{
	return cached * 2 >= block;
}

/**
 * exec_read - how much to read for a fault on text
 * @read: the fault
 *
 * A block is read by the window, and is worth being one folio once half of it
 * is cached. A program that goes straight through it has more read each time,
 * and the next block whole.
 *
 * Return: what to read.
 */
static inline struct exec_read_answer exec_read(const struct exec_read *read)
{
	struct exec_read_answer answer = { .nr = read->window };

	if (!read->block || read->short_of_memory)
		return answer;

	answer.whole = !read->cached &&
		       (read->block <= read->window ||
			(!read->at && read->before == read->block));
	if (answer.whole)
		return answer;

	if (read->before == read->at && read->at >= 2 * read->window)
		answer.nr = 2 * read->at;
	if (answer.nr > read->block - read->at)
		answer.nr = read->block - read->at;
	answer.rest = exec_read_dense(read->cached + answer.nr, read->block);
	return answer;
}

#endif /* _MM_EXEC_READ_H */
