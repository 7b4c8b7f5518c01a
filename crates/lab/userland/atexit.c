// SPDX-License-Identifier: GPL-2.0-only
// glibc has atexit() in a static part that only libc6-dev brings. As the C++
// ABI defines it, for a library that is never unloaded.

int __cxa_atexit(void (*function)(void *), void *argument, void *library);

__attribute__((visibility("hidden")))
int atexit(void (*function)(void))
{
	return __cxa_atexit((void (*)(void *))function, 0, 0);
}
