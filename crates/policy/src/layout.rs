// SPDX-License-Identifier: GPL-2.0-only
//! Holds the Rust mirror in `ffi.rs` against the C compiler's layout.

use crate::ffi::*;
use std::collections::BTreeMap;
use std::ffi::{CStr, c_char};
use std::mem::{offset_of, size_of};

#[repr(C)]
struct Member {
    name: *const c_char,
    offset: u32,
    size: u32,
}

unsafe extern "C" {
    fn leaf_export_layout(nr: *mut u32) -> *const Member;
}

/// Offset and size in bytes by name, as C sees them.
fn of_c() -> BTreeMap<String, (usize, usize)> {
    let mut nr = 0;
    // SAFETY: the returned pointer leads to `nr` constant members with NUL-terminated names.
    let members = unsafe { std::slice::from_raw_parts(leaf_export_layout(&mut nr), nr as usize) };
    let named = members.iter().map(|member| {
        // SAFETY: see above.
        let name = unsafe { CStr::from_ptr(member.name) }.to_str().unwrap();
        (
            name.to_string(),
            (member.offset as usize, member.size as usize),
        )
    });
    named.collect()
}

fn size_of_member<S, M>(_: fn(&S) -> &M) -> usize {
    size_of::<M>()
}

/// The same of the mirror.
macro_rules! mirror {
    ($($rust:ident = $c:literal { $($member:ident),* })*) => {
        [$(
            ($c.to_string(), (0, size_of::<$rust>())),
            $((
                concat!($c, ".", stringify!($member)).to_string(),
                (
                    offset_of!($rust, $member),
                    size_of_member(|whole: &$rust| &whole.$member),
                ),
            ),)*
        )*]
    };
}

#[test]
fn the_mirror_has_the_layout_that_c_has() {
    let of_rust = BTreeMap::from(mirror! {
        LeafTable = "leaf_table" { shift, nr }
        Ground = "leaf_ground" { table, file_size, min_order, max_order, thp, enabled }
        Tried = "leaf_tried" { shift, rule }
        Trace = "leaf_trace" { nr, tried }
        Account = "leaf_account" { debt, lonely }
        Read = "leaf_read" { ground, start, end, offset, fault, window, hole, gap, spare, run, last_size, filled, collapse, evicted, advice, account }
        ReadAnswer = "leaf_read_answer" { offset, size, order, leaf, rule, collapse, account, trace }
        Align = "leaf_align" { ground, offset, length, space }
        AlignAnswer = "leaf_align_answer" { shift, rule, segment, trace }
        Segment = "leaf_segment" { vaddr, offset, filesz, flags }
    });
    assert_eq!(of_rust, of_c());
}

/// A member that C alone has could lie in what is padding here, so the names are compared with
/// the header's as well.
#[test]
fn every_member_of_the_header_is_mirrored() {
    let header = include_str!("../../../kernel/text/overlay/include/linux/leaf_policy.h");
    let mut declared = Vec::new();
    let mut within = None;
    for line in header.lines() {
        if let Some(name) = line
            .strip_prefix("struct ")
            .and_then(|l| l.strip_suffix(" {"))
        {
            within = Some(name);
            declared.push(name.to_string());
        } else if line.starts_with('}') {
            within = None;
        } else if let (Some(whole), Some(member)) = (within, line.trim().strip_suffix(';')) {
            let name = member.rsplit([' ', '*']).next().unwrap_or(member);
            let name = name.split('[').next().unwrap_or(name);
            declared.push(format!("{whole}.{name}"));
        }
    }
    declared.sort();
    assert!(declared.len() > 50, "{declared:?}");
    assert_eq!(declared, of_c().into_keys().collect::<Vec<_>>());
}
