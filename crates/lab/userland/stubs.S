// SPDX-License-Identifier: GPL-2.0-only
// Text of PAGES times 4K: a return instruction at the start of each, traps
// elsewhere. The interpreter's name makes a program of what is a library too:
// the kernel places it as one if it is executed, ld.so as one if it is needed.

#ifdef INTERP
	.section .interp, "a"
	.asciz	INTERP
#endif

	.text
	.balign	4096
	.globl	wideleaf_text
	.type	wideleaf_text, %function
wideleaf_text:
	.rept	PAGES
	ret
#if defined(__x86_64__) || defined(__i386__)
	.balign	4096, 0xcc
#else
	.balign	4096
#endif
	.endr

	.section .note.GNU-stack, "", %progbits
