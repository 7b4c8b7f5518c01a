// SPDX-License-Identifier: GPL-2.0-only
// A program of 32 bits for a kernel of 64. It is linked twice: to be placed by
// the kernel alone, and to name the first as its interpreter. The interpreter
// never starts the program that asked for it, but tells where both came to lie,
// in words of 64 bits as load.c does. With an argument it maps 4M of that file.

enum { SYS_WRITE = 4, SYS_OPEN = 5, SYS_OLD_MMAP = 90, SYS_EXIT_GROUP = 252 };
enum { READABLE = 1, PRIVATE = 2 };
enum { AUX_END = 0, AUX_BASE = 7, AUX_ENTRY = 9 };

typedef unsigned long word;

static word call(word number, word a, word b, word c)
{
	word result;

	asm volatile("int $0x80"
		     : "=a"(result)
		     : "a"(number), "b"(a), "c"(b), "d"(c)
		     : "memory");
	return result;
}

static _Noreturn void leave(int status)
{
	for (;;)
		call(SYS_EXIT_GROUP, status, 0, 0);
}

static word map(const char *file)
{
	word fd = call(SYS_OPEN, (word)file, 0, 0);
	/* The call of six arguments would want %ebp; this one takes a pointer. */
	word arguments[6] = { 0, 4 << 20, READABLE, PRIVATE, fd, 0 };
	word found = call(SYS_OLD_MMAP, (word)arguments, 0, 0);

	if (found > -4096UL)
		leave(4);
	return found;
}

__attribute__((used, visibility("hidden")))
void wideleaf_main(word *stack)
{
	word argc = stack[0], *aux = stack + argc + 2;
	const char **argv = (const char **)stack + 1;
	unsigned long long found[3] = { (word)wideleaf_main };

	while (*aux++)
		;
	for (; aux[0] != AUX_END; aux += 2) {
		if (aux[0] == AUX_BASE)
			found[1] = aux[1];
		if (aux[0] == AUX_ENTRY)
			found[2] = aux[1];
	}
	if (argc == 2)
		found[2] = map(argv[1]);
	if (call(SYS_WRITE, 1, (word)found, sizeof(found)) != sizeof(found))
		leave(3);
	leave(0);
}

asm(".globl _start\n"
    ".hidden _start\n"
    "_start:\n"
    "	mov %esp, %eax\n"
    "	and $-16, %esp\n"
    "	sub $12, %esp\n"
    "	push %eax\n"
    "	call wideleaf_main\n");
