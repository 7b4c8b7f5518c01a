// SPDX-License-Identifier: GPL-2.0
/*
 * Collapse a file's pages while another process truncates the file.
 *
 * collapse_file() locks a block's folios one after the other. It must not wait
 * meanwhile for a lock of the file: ftruncate() holds mapping->invalidate_lock
 * while it waits for folios. Where they wait for each other, both hang for
 * good, and so does each task that touches the file.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../kselftest.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

/* Seconds to try, and seconds without progress that are taken for a hang */
#define RUN	20
#define HANG	15

#define LARGEST	(32UL << 20)

static const char *path;
static unsigned long pmd_size, page_size;

/* Rounds that each child has done, and how long the last collapse took, in us */
static atomic_ulong *rounds;
enum { COLLAPSER, TRUNCATER, CHILDREN, TOOK = CHILDREN, COUNTERS };

static unsigned long read_pmd_size(void)
{
	FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size", "r");
	unsigned long size = 0;

	if (!file)
		return 0;
	if (fscanf(file, "%lu", &size) != 1)
		size = 0;
	fclose(file);
	return size;
}

static int open_or_die(int flags)
{
	int fd = open(path, flags, 0600);

	if (fd < 0)
		ksft_exit_fail_perror(path);
	return fd;
}

static void make_file(void)
{
	char *buf = malloc(pmd_size);
	int fd = open_or_die(O_RDWR | O_CREAT | O_TRUNC);

	if (!buf)
		ksft_exit_fail_perror("malloc");
	memset(buf, 1, pmd_size);
	if (write(fd, buf, pmd_size) != (ssize_t)pmd_size || fsync(fd))
		ksft_exit_fail_perror("write");
	free(buf);
	close(fd);
}

static unsigned long now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000UL + now.tv_nsec / 1000;
}

static void wait_until(int counter, unsigned long round)
{
	while (rounds[counter] < round)
		sched_yield();
}

/* Have all of the block cached in single pages but the last, and collapse it */
static void collapse(void)
{
	char *hint = (char *)(16 * LARGEST), byte;
	int fd = open_or_die(O_RDONLY);
	char *map = mmap(hint, pmd_size, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	unsigned long pos, last = pmd_size - page_size, begin, round;

	if (map == MAP_FAILED || (unsigned long)map % pmd_size)
		ksft_exit_fail_msg("no aligned mapping\n");
	posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
	for (round = 0; ; round++) {
		wait_until(TRUNCATER, round);
		for (pos = 0; pos < last; pos += page_size)
			if (pread(fd, &byte, 1, pos) < 0)
				ksft_exit_fail_perror("pread");
		posix_fadvise(fd, last, page_size, POSIX_FADV_DONTNEED);
		begin = now_us();
		rounds[COLLAPSER]++;
		/* It may fail, as long as it returns. */
		madvise(map, pmd_size, MADV_COLLAPSE);
		rounds[TOOK] = now_us() - begin;
	}
}

/* Cut the file after the first page of the block, and extend it again */
static void cut(void)
{
	unsigned long round, until;
	int fd;

	for (round = 1; ; round++) {
		wait_until(COLLAPSER, round);
		until = now_us() + rand() % (rounds[TOOK] + 1);
		while (now_us() < until)
			;
		/* Some kernels do not collapse files open for writing. */
		fd = open_or_die(O_RDWR);
		if (ftruncate(fd, page_size) || ftruncate(fd, pmd_size))
			ksft_exit_fail_perror("ftruncate");
		close(fd);
		rounds[TRUNCATER]++;
	}
}

static pid_t start(void (*child)(void))
{
	pid_t pid = fork();

	if (pid < 0)
		ksft_exit_fail_perror("fork");
	if (!pid)
		child();
	return pid;
}

/* Whether both went on to the end */
static bool progress(void)
{
	unsigned long before[CHILDREN] = { 0, 0 };
	int still[CHILDREN] = { 0, 0 };
	int second, i;

	for (second = 0; second < RUN || still[0] || still[1]; second++) {
		sleep(1);
		for (i = 0; i < CHILDREN; i++) {
			still[i] = rounds[i] == before[i] ? still[i] + 1 : 0;
			before[i] = rounds[i];
			if (still[i] == HANG)
				return false;
		}
	}
	return true;
}

int main(int argc, char **argv)
{
	struct statfs fs;
	pid_t pids[CHILDREN];
	bool ok;

	ksft_print_header();
	path = argc > 1 ? argv[1] : "collapse_truncate.tmp";
	page_size = getpagesize();
	pmd_size = read_pmd_size();
	if (!pmd_size || pmd_size > LARGEST)
		ksft_exit_skip("no PMDs of at most 32M\n");
	rounds = mmap(NULL, COUNTERS * sizeof(*rounds), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (rounds == MAP_FAILED)
		ksft_exit_fail_perror("mmap");
	make_file();
	if (!statfs(path, &fs) && fs.f_type == TMPFS_MAGIC) {
		unlink(path);
		ksft_exit_skip("tmpfs reads nothing: name a file on a disk\n");
	}

	ksft_set_plan(1);
	pids[COLLAPSER] = start(collapse);
	pids[TRUNCATER] = start(cut);
	ok = progress();
	ksft_print_msg("%lu collapses, %lu truncations\n",
		       atomic_load(&rounds[COLLAPSER]),
		       atomic_load(&rounds[TRUNCATER]));
	ksft_test_result(ok, "collapse and truncation do not wait for each other\n");
	kill(pids[COLLAPSER], SIGKILL);
	kill(pids[TRUNCATER], SIGKILL);
	/* Children that hang never end, nor does unlink(). */
	if (ok) {
		while (wait(NULL) > 0)
			;
		unlink(path);
	}
	ksft_finished();
}
