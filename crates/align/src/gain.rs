// SPDX-License-Identifier: GPL-2.0-only
//! Whether it is worth trying.

use wideleaf_elf::{Cause, Elf, Kind, LEAF_2M, join, judge};

/// Whether 2M leaves could map more of a file's text if its offsets or `p_align` were others: what
/// linking anew alone can mend does not count.
pub fn could_gain(elf: &Elf) -> bool {
    let loaded = !matches!(elf.kind, Kind::Relocatable | Kind::Core | Kind::Other);
    if !loaded || elf.sections.debug_only {
        return false;
    }
    let verdict = judge(elf);
    verdict.segments.iter().any(|v| {
        let mended = matches!(
            v.cause,
            Cause::MaxPageSize | Cause::PageShift | Cause::Base | Cause::NotCongruent
        );
        mended && elf.segments[v.position].is_text() && v.possible > v.usable
    })
}

/// The same if code and the constants beside it may become one segment.
pub fn could_gain_merged(elf: &Elf) -> bool {
    could_gain(elf) || join(elf, LEAF_2M).is_some()
}
