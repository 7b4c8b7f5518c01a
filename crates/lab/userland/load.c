// SPDX-License-Identifier: GPL-2.0-only
// A program without a libc, to be loaded by any loader. Alone it writes where
// it, its loader, its library, its heap and its stack came to lie. With an argument it does that
// work instead: see main().

/* Cross compilers come without the kernel's headers. */
#ifdef __x86_64__
enum { SYS_WRITE = 1, SYS_MMAP = 9, SYS_BRK = 12, SYS_EXIT_GROUP = 231, SYS_OPENAT = 257 };
#else
enum { SYS_OPENAT = 56, SYS_WRITE = 64, SYS_EXIT_GROUP = 94, SYS_BRK = 214, SYS_MMAP = 222 };
#endif
enum { CWD = -100, READABLE = 1, SHARED = 1, PRIVATE = 2, FIXED = 0x10, ANONYMOUS = 0x20 };
enum { LOW_2G = 0x40, DENY_WRITE = 0x800 };
enum { AUX_END = 0, AUX_BASE = 7 };

extern char wideleaf_text[];

static long call(long number, long a, long b, long c, long d, long e, long f)
{
#ifdef __x86_64__
	register long r10 asm("r10") = d, r8 asm("r8") = e, r9 asm("r9") = f;
	long result;

	asm volatile("syscall"
		     : "=a"(result)
		     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
		     : "rcx", "r11", "memory");
	return result;
#else
	register long x8 asm("x8") = number, x0 asm("x0") = a, x1 asm("x1") = b;
	register long x2 asm("x2") = c, x3 asm("x3") = d, x4 asm("x4") = e, x5 asm("x5") = f;

	asm volatile("svc 0"
		     : "+r"(x0)
		     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
		     : "memory");
	return x0;
#endif
}

static _Noreturn void leave(int status)
{
	for (;;)
		call(SYS_EXIT_GROUP, status, 0, 0, 0, 0, 0);
}

static void say(const void *data, long size)
{
	if (call(SYS_WRITE, 1, (long)data, size, 0, 0, 0) != size)
		leave(3);
}

/* Calls every stub of the library, a hundred times over. */
static void sweep(long pages)
{
	for (int round = 0; round < 100; round++)
		for (long page = 0; page < pages; page++)
			((void (*)(void))(wideleaf_text + page * 4096))();
	say("swept\n", 6);
}

/* Maps 4M of a file in the way that the letter tells. */
static long map(char how, const char *file)
{
	long hint = how == 'h' || how == 'f' ? 0x123450000 : 0;
	long flags = how == 's' ? SHARED : PRIVATE;
	long fd = call(SYS_OPENAT, CWD, (long)file, 0, 0, 0, 0);

	if (how == 'f')
		flags |= FIXED;
	/* MAP_32BIT, which x86 alone has. */
	if (how == 'l')
		flags |= LOW_2G;
	return call(SYS_MMAP, hint, 4 << 20, READABLE, flags, fd, 0);
}

/*
 * Reserves memory for a library of 4M that asks for an alignment of 64K, as
 * glibc's ld.so does; or without the flag that tells ld.so from a heap.
 */
static long reserve(long flag)
{
	return call(SYS_MMAP, 0, (4 << 20) + (64 << 10), 0, PRIVATE | ANONYMOUS | flag, -1, 0);
}

static long decimal(const char *text)
{
	long value = 0;

	while (*text)
		value = 10 * value + (*text++ - '0');
	return value;
}

__attribute__((used, visibility("hidden")))
void wideleaf_main(unsigned long *stack)
{
	unsigned long argc = stack[0], *aux = stack + argc + 2;
	const char **argv = (const char **)stack + 1;
	unsigned long found[5] = { (unsigned long)wideleaf_main, 0, (unsigned long)wideleaf_text };

	if (argc == 3 && argv[1][0] == 'w') {
		sweep(decimal(argv[2]));
		leave(0);
	}
	if (argc == 3)
		found[2] = map(argv[1][0], argv[2]);
	if (argc == 2)
		found[2] = reserve(argv[1][0] == 'r' ? DENY_WRITE : 0);
	found[3] = call(SYS_BRK, 0, 0, 0, 0, 0, 0);
	found[4] = (unsigned long)stack;
	while (*aux++)
		;
	for (; aux[0] != AUX_END; aux += 2)
		if (aux[0] == AUX_BASE)
			found[1] = aux[1];
	say(found, sizeof(found));
	leave(0);
}

asm(".globl _start\n"
    ".hidden _start\n"
    "_start:\n"
#ifdef __x86_64__
    "	mov %rsp, %rdi\n"
    "	and $-16, %rsp\n"
    "	call wideleaf_main\n");
#else
    "	mov x0, sp\n"
    "	bl wideleaf_main\n");
#endif
