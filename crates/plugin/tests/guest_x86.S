// SPDX-License-Identifier: GPL-2.0-only
/*
 * Bare-metal guest with known answers, see bare_metal.rs. Started through PVH
 * at 0x200000 in 32-bit mode, goes on in 64-bit mode with 4-level tables:
 *
 *   0x00000000          1G, supervisor, where the guest starts
 *   0x40000000          two pages of user code
 *   0x40010000          64 pages of 4K, all one physical page
 *   0x40100000          16 global pages of 4K
 *   0x40200000          2M page
 *   0x80000000          1G page, user
 *   0xffffffff80000000  1G, supervisor, global, where the kernel part runs
 */
	.equ	HIGH, 0xffffffff80000000

	/* Phase marker: a NOP on hardware. */
	.macro	phase n
	.byte	0x0f, 0x1f, 0x80
	.long	0x574c0000 + \n
	.endm

	.macro	call_kernel n
	mov	$\n, %eax
	syscall
	.endm

	.section .note.pvh, "a", @note
	.long	4, 8, 18			/* XEN_ELFNOTE_PHYS32_ENTRY */
	.asciz	"Xen"
	.quad	_start

	.text
	.code32
	.global	_start
_start:
	mov	$0xa0, %eax			/* PAE, PGE */
	mov	%eax, %cr4
	mov	$pml4, %eax
	mov	%eax, %cr3
	mov	$0xc0000080, %ecx		/* EFER: LME, SCE */
	mov	$0x101, %eax
	xor	%edx, %edx
	wrmsr
	mov	$0x80000011, %eax
	mov	%eax, %cr0
	lgdt	gdt_pointer
	ljmp	$8, $long_mode
	.code64
long_mode:
	mov	$0xc0000081, %ecx		/* STAR: kernel 0x08, user 0x10 */
	xor	%eax, %eax
	mov	$0x00100008, %edx
	wrmsr
	mov	$0xc0000082, %ecx		/* LSTAR */
	mov	$entry + HIGH, %rax
	mov	%rax, %rdx
	shr	$32, %rdx
	wrmsr
	mov	$0xc0000084, %ecx		/* SFMASK: nothing */
	xor	%eax, %eax
	xor	%edx, %edx
	wrmsr
	mov	$at_alias + HIGH, %rax
	jmp	*%rax

	.balign	4096
at_alias:
	mov	$0x40000000, %ecx
	mov	$2, %r11d
	sysretq

	/* eax: what to do, rdi: operand. */
	.balign	64
entry:
	cmp	$1, %eax
	je	do_invlpg
	cmp	$2, %eax
	je	do_cr3
	cmp	$3, %eax
	je	do_cr4
	cmp	$4, %eax
	je	do_off
	sysretq
do_invlpg:
	invlpg	(%rdi)
	sysretq
do_cr3:
	mov	%cr3, %rdx
	mov	%rdx, %cr3
	sysretq
do_cr4:
	mov	%cr4, %rdx
	xor	$0x80, %dl
	mov	%rdx, %cr4
	xor	$0x80, %dl
	mov	%rdx, %cr4
	sysretq
do_off:	lidt	no_idt(%rip)
	int3					/* triple fault: QEMU ends */

	/* Runs at 0x40000000, CPL 3. */
	.balign	4096
user:
	.macro	touch start, pages, step=4096
	mov	$\start, %esi
	mov	$\pages, %ecx
9:	movb	(%rsi), %al
	add	$\step, %rsi
	dec	%ecx
	jnz	9b
	.endm

	/* 1: eight pages, ten times. 2: 64 pages, twice. */
	phase	1
	mov	$10, %ebx
1:	touch	0x40010000, 8
	dec	%ebx
	jnz	1b
	phase	2
	touch	0x40010000, 64
	touch	0x40010000, 64

	/* 3: a 2M page. 4: a 1G page. */
	phase	3
	touch	0x40200000, 4, 0x40000
	phase	4
	touch	0x80000000, 4, 0x400000
	phase	0

	/* 5: after INVLPG of page 3. */
	mov	$0x40013008, %edi
	call_kernel 1
	phase	5
	touch	0x40010000, 8
	phase	0

	/* After a CR3 load: 6: what is not global. 7: what is. */
	touch	0x40100000, 16
	call_kernel 2
	phase	6
	touch	0x40010000, 8
	phase	7
	touch	0x40100000, 16
	phase	0

	/* 8: what is global, after a change of CR4.PGE. */
	call_kernel 3
	phase	8
	touch	0x40100000, 16
	phase	0

	/* 9: a load over a page edge. */
	touch	0x40010000, 2
	phase	9
	mov	0x40010ffc, %rax
	phase	0

	/* 10: an instruction over a page edge, and a record of pages executed from. */
	mov	$1, %edi
	phase	202
	phase	10
	jmp	straddler
back:	phase	0
	xor	%edi, %edi
	phase	202
	mov	$0x40000000, %edi
	mov	$0x3000, %esi
	mov	$78, %edx
	phase	203

	/* 11: a system call that does nothing. */
	phase	11
	call_kernel 0
	phase	0

	/* 12: string instructions, each of which is one: repeated, of no length, again. */
	phase	12
	mov	$0x40010000, %esi
	mov	$0x40010800, %edi
	mov	$1000, %ecx
	rep movsb
	rep movsb
	mov	$10, %ecx
	repe scasb
	phase	0

	mov	$0x40010000, %edi
	mov	$0x003f0000, %esi
	mov	$77, %edx
	phase	200
	call_kernel 4

	.org	user + 4096 - 2
straddler:
	mov	$1, %eax			/* five bytes */
	jmp	back
	.balign	4096

	.data
	.balign	4096
pml4:	.quad	pdpt_low + 7
	.fill	510, 8, 0
	.quad	pdpt_high + 3
pdpt_low:
	.quad	0x83
	.quad	pd_user + 7
	.quad	0x87
	.balign	4096
pdpt_high:
	.fill	510, 8, 0
	.quad	0x183
	.balign	4096
pd_user:
	.quad	pt_user + 7
	.quad	0x02000087
	.balign	4096
pt_user:
	.quad	user + 5
	.quad	user + 4096 + 5
	.fill	14, 8, 0
	.rept	64
	.quad	data_page + 7
	.endr
	.fill	0x100 - 16 - 64, 8, 0
	.rept	16
	.quad	data_page + 0x107
	.endr
	.balign	4096
data_page:
	.fill	4096, 1, 0
gdt:	.quad	0
	.quad	0x00af9a000000ffff		/* 64-bit code */
gdt_pointer:
	.word	. - gdt - 1
	.long	gdt
	.balign	8
no_idt:	.word	0
	.quad	0
