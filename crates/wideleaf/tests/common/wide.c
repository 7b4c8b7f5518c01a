/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A program with 6M of code: touches all of it, and says what its text is called and what PMDs map
 * of it.
 *   PROGRAM line             says so again after a line, or the end, of its input
 *   PROGRAM ever             does not end
 *   PROGRAM disabled FLAGS   huge pages are disabled for it, by these flags of prctl(2)
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define SIZE "6291456"
#ifdef __x86_64__
__asm__(".text\n.globl code\ncode: .skip " SIZE ", 0xc3\n");
#else
__asm__(".text\n.globl code\ncode: .skip " SIZE "\n");
#endif
extern volatile const char code[];

static void say(void)
{
	char line[4096], name[4096] = "";
	unsigned long start, end, at = (unsigned long)code;
	long pmd = 0, more = 0, size = atol(SIZE);
	int text = 0;

	for (long page = 0; page < size; page += 4096)
		more += code[page];
	FILE *maps = fopen("/proc/self/smaps", "r");
	while (fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%lx-%lx", &start, &end) == 2) {
			text = start <= at && at < end;
			if (text)
				strcpy(name, strrchr(line, '/'));
		}
		if (text && strstr(line, "PmdMapped:")) {
			sscanf(strchr(line, ':') + 1, "%ld", &more);
			pmd += more;
		}
	}
	fclose(maps);
	printf("text %s pmd %ld kB\n", strtok(name, "\n"), pmd);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";

#ifdef VERSION
	puts("version " VERSION);
#endif
	if (!strcmp(how, "disabled")) {
		if (prctl(PR_SET_THP_DISABLE, 1, atol(argv[2]), 0, 0))
			puts("no such mode");
		fflush(stdout);
		return execl(argv[0], argv[0], NULL);
	}
	say();
	if (!strcmp(how, "line")) {
		getchar();
		say();
	}
	return strcmp(how, "ever") ? 0 : pause();
}
