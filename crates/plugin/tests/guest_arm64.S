// SPDX-License-Identifier: GPL-2.0-only
/*
 * Bare-metal guest with known answers, see bare_metal.rs. 4K granule, 39-bit
 * addresses. Loaded at 0x40200000 with the MMU off, EL1.
 *
 *   TTBR0  0x40000000  1G block, EL1 only: where the guest starts
 *          0x80000000  this file's user page, EL0 may execute, ASID-tagged
 *          0x80001000  three more of these, and the second of them again
 *          0x80010000  64 pages of 4K, all one physical page
 *          0x80100000  16 pages, contiguous bit set
 *          0x80200000  2M block
 *   TTBR1  0xffffff8040000000  the same 1G block, where the kernel runs
 *
 * The kernel part of this file runs at the TTBR1 alias of the code that runs
 * in the identity map before, as Linux' does.
 */
	.equ	MARK, 0x5700
	.equ	HIGH, 0xffffff8000000000
	.equ	PAGE_FLAGS, (1 << 53) | (1 << 11) | (1 << 10) | (3 << 8) | 3

	/* Phase marker: a NOP on hardware. */
	.macro	phase n
	movz	xzr, #(MARK + \n), lsl #48
	.endm

	/* Asks the kernel part for \n. No memory is touched on the way. */
	.macro	call n
	mov	x8, #\n
	svc	#0
	.endm

	.text
	.global	_start
_start:
	ldr	x0, =0xff			/* MAIR: normal memory */
	msr	mair_el1, x0
	/* T0SZ = T1SZ = 25, cacheable, TG1 = 4K, 40-bit PA, 16-bit ASID */
	ldr	x0, =0x00000012b5193519
	msr	tcr_el1, x0
	adrp	x0, l1_low
	mov	x1, #1
	bfi	x0, x1, #48, #16		/* ASID 1 */
	msr	ttbr0_el1, x0
	adrp	x0, l1_high
	msr	ttbr1_el1, x0
	adr	x0, vectors
	ldr	x1, =HIGH
	orr	x0, x0, x1
	msr	vbar_el1, x0
	isb
	mrs	x0, sctlr_el1
	ldr	x4, =(1 << 33) | (1 << 14)	/* EL0: MOPS, DC ZVA */
	orr	x0, x0, x4
	orr	x0, x0, #1
	bl	spin				/* translated here ... */
	msr	sctlr_el1, x0
	isb
	adr	x2, at_alias
	orr	x2, x2, x1
	br	x2

	/* 100 blocks. */
spin:	mov	x3, #100
2:	subs	x3, x3, #1
	b.ne	2b
	ret

	/*
	 * In a page of its own: the plugin does not see a jump from one address
	 * of a page to another address of the same physical page.
	 */
	.balign	4096
at_alias:
	bl	spin				/* ... and run at the alias */
	ldr	x0, =0x80000000
	msr	elr_el1, x0
	msr	spsr_el1, xzr			/* EL0t */
	eret

	/* x8: what to do, x0: operand. */
	.balign	128
handler:
	cmp	x8, #1
	b.eq	do_vae1
	cmp	x8, #2
	b.eq	do_aside1
	cmp	x8, #3
	b.eq	do_vmalle1
	cmp	x8, #4
	b.eq	do_rvae1
	cmp	x8, #5
	b.eq	do_asid
	cmp	x8, #6
	b.eq	do_off
	cmp	x8, #7
	b.eq	do_function
	eret
do_vae1:
	tlbi	vae1, x0
	b	done
do_aside1:
	tlbi	aside1, x0
	b	done
do_vmalle1:
	tlbi	vmalle1
	b	done
do_rvae1:
	.inst	0xd5088620			/* tlbi rvae1, x0 */
	b	done
do_asid:
	mrs	x1, ttbr0_el1
	bfi	x1, x0, #48, #16
	msr	ttbr0_el1, x1
done:	dsb	ish
	isb
	eret
do_off:	ldr	x0, =0x84000008			/* PSCI SYSTEM_OFF */
	hvc	#0
	b	.

do_function:
	bl	counted
	b	done

	/* Eight instructions on the caller's stack, the others on another one. */
counted:
	mov	x9, x30
	mov	x10, sp
	bl	3f
	add	x11, x10, #0x10, lsl #12
	mov	sp, x11
	bl	3f
	mov	sp, x10
	mov	x30, x9
	ret
3:	nop
	ret

	.balign	2048
vectors:
	.rept	16
	.balign	128
	b	handler
	.endr

	/* Runs at 0x80000000, EL0, and fits one page. */
	.balign	4096
user:
	.macro	touch pages
	movz	x0, #0x8001, lsl #16
	mov	x1, #\pages
9:	ldrb	w3, [x0]
	add	x0, x0, #4096
	subs	x1, x1, #1
	b.ne	9b
	.endm

	/* 1: eight pages, ten times. */
	phase	1
	mov	x2, #10
1:	touch	8
	subs	x2, x2, #1
	b.ne	1b

	/* 2: 64 pages, twice: more than L1 holds. */
	phase	2
	touch	64
	touch	64

	/* 3: a contiguous group. 4: a block. */
	phase	3
	movz	x0, #0x8010, lsl #16
	mov	x1, #16
2:	ldrb	w3, [x0]
	add	x0, x0, #4096
	subs	x1, x1, #1
	b.ne	2b
	phase	4
	movz	x0, #0x8020, lsl #16
	mov	x1, #4
3:	strb	w3, [x0]
	add	x0, x0, #0x40000
	subs	x1, x1, #1
	b.ne	3b
	phase	0

	/* 5: after TLBI VAE1 of page 3 in ASID 1. */
	touch	8
	ldr	x0, =(1 << 48) | (0x80013000 >> 12)
	call	1
	phase	5
	touch	8
	phase	0

	/* 6: after ASIDE1 of ASID 2. 7: of ASID 1. */
	mov	x0, #2 << 48
	call	2
	phase	6
	touch	8
	phase	0
	mov	x0, #1 << 48
	call	2
	phase	7
	touch	8
	phase	0

	/* 8: after VMALLE1. */
	call	3
	phase	8
	touch	8
	phase	0

	/* 9: after RVAE1 of pages 2 to 5: TG 4K, SCALE 0, NUM 1. */
	ldr	x0, =(1 << 48) | (1 << 46) | (1 << 39) | (0x80012000 >> 12)
	call	4
	phase	9
	touch	8
	phase	0

	/* 10: in ASID 2. 11: back in ASID 1. */
	mov	x0, #2
	call	5
	phase	10
	touch	8
	phase	0
	mov	x0, #1
	call	5
	phase	11
	touch	8
	phase	0

	/* 12: the group again, after VAE1 of one page in its middle. */
	ldr	x0, =(1 << 48) | (0x80105000 >> 12)
	call	1
	phase	12
	movz	x0, #0x8010, lsl #16
	mov	x1, #16
4:	ldrb	w3, [x0]
	add	x0, x0, #4096
	subs	x1, x1, #1
	b.ne	4b
	phase	0

	/* 13: a load over a page edge. */
	touch	2
	phase	13
	movz	x0, #0x8001, lsl #16
	add	x0, x0, #0xffc
	ldr	x3, [x0]
	phase	0

	/* 14: an exception that does nothing. */
	phase	14
	call	0
	phase	0

	/* 15: DC ZVA of two pages. 16: SETP and CPYFP over four pages each. */
	movz	x0, #0x8001, lsl #16
	add	x1, x0, #0x1000
	phase	15
	dc	zva, x0
	dc	zva, x1
	phase	16
	mov	x1, #0x4000
	mov	x2, #0
	.inst	0x19c20420			/* setp [x0]!, x1!, x2 */
	.inst	0x19c24420			/* setm */
	.inst	0x19c28420			/* sete */
	movz	x0, #0x8001, lsl #16
	add	x3, x0, #0x8, lsl #12
	mov	x1, #0x4000
	.inst	0x19030420			/* cpyfp [x0]!, [x3]!, x1! */
	.inst	0x19430420			/* cpyfm */
	.inst	0x19830420			/* cpyfe */
	phase	0

	/* 17: a function that nobody has named. 18: now somebody has. */
	phase	17
	call	7
	phase	0
	ldr	x0, =counted + HIGH
	movz	xzr, #(MARK + 201), lsl #48
	phase	18
	call	7
	call	7
	phase	0

	/* 19: a record of pages executed from: the third, the first, the second by its other address. */
	phase	19
	mov	x0, #1
	movz	xzr, #(MARK + 202), lsl #48
	ldr	x9, =0x80003000
	blr	x9
	ldr	x9, =0x80001000
	blr	x9
	blr	x9
	ldr	x9, =0x80004000
	blr	x9
	mov	x0, #0
	movz	xzr, #(MARK + 202), lsl #48
	ldr	x9, =0x80005000			/* after the record */
	blr	x9
	movz	x0, #0x8000, lsl #16
	mov	x1, #0x8000
	mov	x2, #7
	movz	xzr, #(MARK + 203), lsl #48
	phase	0

	/* Which leaves map 0x80010000 to the end of the block? */
	movz	x0, #0x8001, lsl #16
	movz	x1, #0x003f, lsl #16
	mov	x2, #77
	movz	xzr, #(MARK + 200), lsl #48
	call	6
	.ltorg
	.balign	4096
user_end:

	/* Functions of user mode, a page each. */
functions:
	.rept	4
	ret
	.balign	4096
	.endr

	.data
	.balign	4096
l1_low:	.quad	0
	.quad	0x40000000 | (3 << 8) | (1 << 10) | 1
	.quad	l2_user + 3
	.balign	4096
l1_high:
	.quad	0
	.quad	0x40000000 | (3 << 8) | (1 << 10) | 1
	.balign	4096
l2_user:
	.quad	l3_user + 3
	/* Block at 0x80200000: EL0 may write, not global. */
	.quad	0x42000000 | (1 << 54) | (1 << 53) | (1 << 11) | (1 << 10) | (3 << 8) | (1 << 6) | 1
	.balign	4096
l3_user:
	.quad	user + PAGE_FLAGS + (3 << 6)	/* read-only, EL0 may execute */
	.quad	functions + PAGE_FLAGS + (3 << 6)
	.quad	functions + 0x1000 + PAGE_FLAGS + (3 << 6)
	.quad	functions + 0x2000 + PAGE_FLAGS + (3 << 6)
	.quad	functions + 0x1000 + PAGE_FLAGS + (3 << 6)
	.quad	functions + 0x3000 + PAGE_FLAGS + (3 << 6)
	.fill	10, 8, 0
	.rept	64
	.quad	data_page + PAGE_FLAGS + (1 << 54) + (1 << 6)
	.endr
	.fill	0x100 - 16 - 64, 8, 0
	.set	i, 0
	.rept	16
	.quad	0x43000000 + i * 4096 + PAGE_FLAGS + (1 << 54) + (1 << 52) + (1 << 6)
	.set	i, i + 1
	.endr
	.balign	4096
data_page:
	.fill	4096, 1, 0
