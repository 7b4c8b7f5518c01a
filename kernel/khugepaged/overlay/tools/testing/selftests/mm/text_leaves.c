// SPDX-License-Identifier: GPL-2.0-only
/*
 * Text that is run through in order ends up in folios of 2M at addresses that
 * a TLB can map by one leaf. So does, soon, text that was cached before it was
 * run. Where huge pages are off it does not.
 *
 * The file is made in the current directory, on whatever file system that is.
 * Needs root, for /proc/kpageflags.
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "../kselftest.h"

#define LEAF	(2UL << 20)
#define SIZE	(4 * LEAF)

#define ENABLED	"/sys/kernel/mm/transparent_hugepage/enabled"

/* Tenths of a second that text in use may take to become wide */
#define SOON	200

#define COMPOUND_HEAD	15
#define COMPOUND_TAIL	16

/* Instructions that return */
#if defined(__aarch64__)
#define CAN_RETURN true
static const uint32_t ret[] = { 0xd65f03c0 };
#elif defined(__x86_64__)
#define CAN_RETURN true
static const uint8_t ret[] = { 0xc3 };
#else
#define CAN_RETURN false
static const uint8_t ret[] = { 0 };
#endif

static char *name;
static size_t page;
static int fd = -1, pagemap, kpageflags;

static void cleanup(void)
{
	if (fd >= 0)
		unlink(name);
}

static bool make_file(void)
{
	char *text = malloc(SIZE);
	size_t done = 0, at;
	ssize_t some;

	name = strdup("text_leaves.XXXXXX");
	if (!name || !text)
		return false;
	fd = mkstemp(name);
	if (fd < 0)
		return false;
	for (at = 0; at < SIZE; at += page)
		memcpy(text + at, ret, sizeof(ret));
	/* By single pages, for which file systems take small folios */
	while (done < SIZE) {
		some = write(fd, text + done, page - done % page);
		if (some <= 0)
			return false;
		done += some;
	}
	free(text);
	if (fsync(fd))
		return false;
	/* A file that is open for writing is not collapsed. */
	close(fd);
	fd = open(name, O_RDONLY);
	return fd >= 0;
}

static uint64_t word(int of, uint64_t nr)
{
	uint64_t value = 0;

	if (pread(of, &value, sizeof(value), nr * sizeof(value)) !=
	    sizeof(value))
		ksft_exit_fail_perror("pread");
	return value;
}

/* Is all of the block at @addr one folio that lies as a leaf has to? */
static bool one_folio(char *addr)
{
	uint64_t first = 0, entry, pfn, flags;
	size_t i;

	for (i = 0; i < LEAF / page; i++) {
		entry = word(pagemap, (uintptr_t)addr / page + i);
		if (!(entry >> 63))
			return false;
		pfn = entry & ((1ULL << 55) - 1);
		flags = word(kpageflags, pfn);
		if (!i)
			first = pfn;
		if (pfn != first + i ||
		    !(flags & (1ULL << (i ? COMPOUND_TAIL : COMPOUND_HEAD))))
			return false;
	}
	return first % (LEAF / page) == 0;
}

static void execute(char *text)
{
	char *at;

	for (at = text; at < text + SIZE; at += page)
		((void (*)(void))at)();
}

/* Execute a new mapping of the file from its start to its end. */
static char *run(int advice)
{
	char *text = mmap(NULL, SIZE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);

	if (text == MAP_FAILED)
		ksft_exit_fail_perror("mmap");
	if (advice)
		madvise(text, SIZE, advice);
	execute(text);
	return text;
}

/* The same with nothing of it cached */
static char *run_cold(int advice)
{
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	return run(advice);
}

static unsigned int wide_blocks(char *text)
{
	unsigned int blocks = 0;
	char *at;

	for (at = text; at < text + SIZE; at += LEAF)
		blocks += one_folio(at);
	return blocks;
}

static void dense_text_is_wide(void)
{
	char *text = run_cold(0);
	unsigned int blocks = wide_blocks(text);

	ksft_test_result((uintptr_t)text % LEAF == 0,
			 "mmap() aligns text to the leaf\n");
	ksft_print_msg("%u of %lu blocks are in folios of 2M\n", blocks, SIZE / LEAF);
	if (blocks) {
		/* A window of less than a block begins the first one by pages. */
		ksft_test_result(blocks >= SIZE / LEAF - 1, "dense text is wide\n");
	} else {
		ksft_print_msg("none: file system or memory\n");
		ksft_test_result_skip("dense text is wide\n");
	}
	munmap(text, SIZE);
}

/* The file was just written, so this has to come first. */
static void cached_text_becomes_wide(void)
{
	char *text = run(0);
	unsigned int blocks = wide_blocks(text), tenths;

	for (tenths = 0; tenths < SOON && blocks < SIZE / LEAF; tenths++) {
		usleep(100000);
		execute(text);
		blocks = wide_blocks(text);
	}
	ksft_print_msg("%u of %lu blocks are wide after %u tenths of a second\n",
		       blocks, SIZE / LEAF, tenths);
	ksft_test_result(blocks == SIZE / LEAF, "cached text becomes wide\n");
	munmap(text, SIZE);
}

static void unwanted_leaves_are_not_made(void)
{
	char *text = run_cold(MADV_NOHUGEPAGE);

	ksft_test_result(!wide_blocks(text), "MADV_NOHUGEPAGE is honoured\n");
	munmap(text, SIZE);

	if (prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0))
		ksft_exit_fail_perror("prctl");
	text = run_cold(0);
	ksft_test_result(!wide_blocks(text), "PR_SET_THP_DISABLE is honoured\n");
	munmap(text, SIZE);
}

int main(void)
{
	char state[64] = "";
	int enabled;

	ksft_print_header();
	if (!CAN_RETURN)
		ksft_exit_skip("written for arm64 and x86-64\n");
	page = getpagesize();
	enabled = open(ENABLED, O_RDONLY);
	if (enabled < 0 || read(enabled, state, sizeof(state) - 1) <= 0 ||
	    !strstr(state, "[always]"))
		ksft_exit_skip("transparent huge pages are not always enabled\n");
	pagemap = open("/proc/self/pagemap", O_RDONLY);
	kpageflags = open("/proc/kpageflags", O_RDONLY);
	if (pagemap < 0 || kpageflags < 0)
		ksft_exit_skip("needs root and CONFIG_PROC_PAGE_MONITOR\n");
	atexit(cleanup);
	if (!make_file())
		ksft_exit_fail_perror("a file of text");

	ksft_set_plan(5);
	cached_text_becomes_wide();
	dense_text_is_wide();
	unwanted_leaves_are_not_made();
	ksft_finished();
}
