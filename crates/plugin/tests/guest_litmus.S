// SPDX-License-Identifier: GPL-2.0-only
/*
 * Four CPUs that play litmus tests, see litmus.rs. 4K granule, 39-bit addresses,
 * EL1, all in the lower half. The image is loaded at 0x40200000 with the MMU off.
 *
 *   0x40000000  1G block, identity: code, tables, flags
 *   0x80000000  what the tests map: x and y of one table, u and v of another
 *
 * What each CPU does comes from litmus.rs (steps.inc) as calls of these macros.
 * CPUs take turns by a number in memory. They wait for it with plain loads: no
 * barrier, no context synchronisation. YIELD lets QEMU go on with the next CPU.
 */
	.equ	L1, 0x42000000
	.equ	L2, 0x42001000
	.equ	L3, 0x42002000
	.equ	U3, 0x42003000
	.equ	TURN, 0x42008000
	.equ	FLAG, 0x42009000
	.equ	STARTED, 0x4200a000

	.equ	va_x, 0x80010000
	.equ	va_y, 0x80011000
	.equ	va_u, 0x80210000
	.equ	va_v, 0x80211000
	.equ	pte_x, L3 + 16 * 8
	.equ	pte_y, L3 + 17 * 8
	.equ	pte_u, U3 + 16 * 8
	.equ	link_u, L2 + 8

	/* Page, AF, nG, Inner Shareable, EL1 reads and writes; read-only. */
	.equ	PAGE, (1 << 54) | (1 << 53) | (1 << 11) | (1 << 10) | (3 << 8) | 3
	.equ	RO, 1 << 7
	.equ	page_a, 0x43000000
	.equ	page_a1, 0x43001000
	.equ	page_b, 0x43010000

	.macro	number reg, value
	movz	\reg, #((\value) & 0xffff)
	movk	\reg, #(((\value) >> 16) & 0xffff), lsl #16
	movk	\reg, #(((\value) >> 32) & 0xffff), lsl #32
	movk	\reg, #(((\value) >> 48) & 0xffff), lsl #48
	.endm

	/* Waits for this CPU's turn \n. Ends it: the next is \n. */
	.macro	await n
	mov	w10, #\n
8:	ldr	w9, [x20]
	cmp	w9, w10
	b.eq	9f
	yield
	b	8b
9:
	.endm
	.macro	pass n
	mov	w10, #\n
	str	w10, [x20]
	.endm

	.macro	entry va, value
	number	x0, pte_\va
	number	x1, (\value)
	str	x1, [x0]
	.endm
	.macro	step_set va, page, more=0
	entry	\va, page_\page + PAGE + \more
	.endm
	.macro	step_inv va
	entry	\va, 0
	.endm
	/* The entry of \va, and a block of the other half of its table. */
	.macro	step_zero va
	number	x0, pte_\va
	dc	zva, x0
	add	x0, x0, #2048
	dc	zva, x0
	.endm
	.macro	step_link va
	number	x0, link_\va
	number	x1, U3 + 3
	str	x1, [x0]
	.endm
	.macro	step_unlink va
	number	x0, link_\va
	str	xzr, [x0]
	.endm
	.macro	step_load va
	number	x0, pte_\va
	ldr	x1, [x0]
	.endm
	.macro	step_read va, label
	number	x0, va_\va
\label:	ldr	x1, [x0]
	.endm
	.macro	step_write va, label
	number	x0, va_\va
\label:	str	x1, [x0]
	.endm
	.macro	step_fail va
	number	x0, va_\va
	ldr	x1, [x0]
	.endm
	.macro	step_flag
	str	w10, [x21]
	.endm
	.macro	step_seen
	ldr	w9, [x21]
	.endm
	.macro	step_dmb
	dmb	sy
	.endm
	.macro	step_dsb
	dsb	sy
	.endm
	.macro	step_isb
	isb
	.endm
	.macro	step_svc
	svc	#0
	.endm
	.macro	step_eret
	adr	x9, 9f
	msr	elr_el1, x9
	mov	x9, #0x3c5		/* EL1h, all masked */
	msr	spsr_el1, x9
	eret
9:
	.endm
	.macro	operand va
	number	x0, (1 << 48) | (va_\va >> 12)
	.endm
	.macro	step_tlbi va
	operand	\va
	tlbi	vae1, x0
	.endm
	.macro	step_tlbiis va
	operand	\va
	tlbi	vae1is, x0
	.endm
	.macro	step_asidis asid
	number	x0, \asid << 48
	tlbi	aside1is, x0
	.endm

	.macro	step_allis
	tlbi	vmalle1is
	.endm

	/* As at first: nothing is mapped, and no TLB holds anything. */
	.macro	clean
	step_inv x
	step_inv y
	step_inv u
	step_link u
	dsb	sy
	tlbi	vmalle1is
	dsb	sy
	isb
	.endm
	.macro	settle
	dsb	sy
	tlbi	vmalle1is
	dsb	sy
	isb
	.endm

	.text
	.global	_start
_start:
	number	x20, TURN
	/* The tables; memory is zero otherwise. */
	number	x0, L1
	number	x1, 0x40000000 | (3 << 8) | (1 << 10) | 1
	str	x1, [x0, #8]
	number	x1, L2 + 3
	str	x1, [x0, #16]
	number	x0, L2
	number	x1, L3 + 3
	str	x1, [x0]
	number	x1, U3 + 3
	str	x1, [x0, #8]
	bl	translate
	.irp	cpu, 1, 2, 3
	number	x0, 0xc4000003		/* PSCI CPU_ON */
	mov	x1, #\cpu
	adr	x2, secondary
	adr	x3, cpu\cpu
	hvc	#0
	/* One after the other: the plugin numbers them as they first run. */
	number	x0, STARTED
8:	ldr	w9, [x0]
	cmp	w9, #\cpu
	b.eq	9f
	yield
	b	8b
9:
	.endr
	b	cpu0

	/* x0: where this CPU goes on. */
secondary:
	mov	x19, x0
	bl	translate
	number	x0, STARTED
	ldr	w9, [x0]
	add	w9, w9, #1
	str	w9, [x0]
	br	x19

translate:
	number	x20, TURN
	number	x21, FLAG
	mov	x0, #0xff		/* MAIR: normal memory */
	msr	mair_el1, x0
	/* T0SZ 25, cacheable, no walks by TTBR1, 40-bit PA, 16-bit ASID */
	number	x0, 0x0000001200993519
	msr	tcr_el1, x0
	number	x0, (1 << 48) | L1	/* ASID 1 */
	msr	ttbr0_el1, x0
	adr	x0, vectors
	msr	vbar_el1, x0
	isb
	mrs	x0, sctlr_el1
	orr	x0, x0, #1
	msr	sctlr_el1, x0
	isb
	ret

	/* A fault is the outcome of an access: on after it. SVC only returns. */
handler:
	mrs	x9, esr_el1
	lsr	x9, x9, #26
	cmp	x9, #0x15
	b.eq	1f
	mrs	x9, far_el1
	mrs	x9, elr_el1
	add	x9, x9, #4
	msr	elr_el1, x9
1:	eret

finish:	number	x0, 0x84000008		/* PSCI SYSTEM_OFF */
	hvc	#0
	b	.

	.balign	2048
vectors:
	.rept	16
	.balign	128
	b	handler
	.endr

	.include "steps.inc"
