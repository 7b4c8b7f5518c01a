// SPDX-License-Identifier: GPL-2.0-only
//! The C core's declarations: `kernel/text/overlay/include/linux/leaf_policy.h`.

#[cfg(test)]
use std::ffi::c_char;
use std::ffi::c_int;

pub const TABLE_MAX: usize = 8;

#[repr(C)]
pub struct LeafTable {
    pub shift: *const u8,
    pub nr: u32,
}

// SAFETY: only made of constants (`machines.rs`), and C never writes to it.
unsafe impl Sync for LeafTable {}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Ground {
    pub table: *const LeafTable,
    pub file_size: u64,
    pub min_order: u8,
    pub max_order: u8,
    pub thp: u8,
    pub enabled: u8,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Tried {
    pub shift: u8,
    pub rule: u8,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Trace {
    pub nr: u32,
    pub tried: [Tried; TABLE_MAX],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Account {
    pub debt: u16,
    pub lonely: u16,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Read {
    pub ground: Ground,
    pub start: u64,
    pub end: u64,
    pub offset: u64,
    pub fault: u64,
    pub window: u64,
    pub hole: u64,
    pub gap: u64,
    pub spare: u64,
    pub run: u64,
    pub last_size: u64,
    pub filled: u64,
    pub collapse: u8,
    pub evicted: u8,
    pub advice: u8,
    pub account: Account,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ReadAnswer {
    pub offset: u64,
    pub size: u64,
    pub order: u8,
    pub leaf: u8,
    pub rule: u8,
    pub collapse: u8,
    pub account: Account,
    pub trace: Trace,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Align {
    pub ground: Ground,
    pub offset: u64,
    pub length: u64,
    pub space: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct AlignAnswer {
    pub shift: u8,
    pub rule: u8,
    pub segment: u32,
    pub trace: Trace,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Segment {
    pub vaddr: u64,
    pub offset: u64,
    pub filesz: u64,
    pub flags: u32,
}

unsafe extern "C" {
    #[cfg(test)]
    pub fn leaf_export_read_case(
        nr: u32,
        want: *mut ReadAnswer,
        answer: *mut ReadAnswer,
    ) -> *const c_char;
    #[cfg(test)]
    pub fn leaf_export_align_case(
        nr: u32,
        shift: *mut u8,
        answer: *mut AlignAnswer,
    ) -> *const c_char;
    #[cfg(test)]
    pub fn leaf_export_elf_case(
        nr: u32,
        shift: *mut u8,
        segment: *mut u32,
        answer: *mut AlignAnswer,
    ) -> *const c_char;
    pub fn leaf_helps(ground: *const Ground, start: u64, length: u64, offset: u64) -> c_int;
    pub fn leaf_read_decide(read: *const Read, answer: *mut ReadAnswer);
    pub fn leaf_align_decide(align: *const Align, answer: *mut AlignAnswer);
    pub fn leaf_align_elf(
        align: *const Align,
        segments: *const Segment,
        nr: u32,
        answer: *mut AlignAnswer,
    );
}
