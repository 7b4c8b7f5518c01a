// SPDX-License-Identifier: GPL-2.0-only
//! The cases that KUnit runs in the kernel
//! (`kernel/text/overlay/mm/tests/leaf_policy_cases.h`), on the host.

use crate::ffi;
use crate::{Rule, text, trace};

#[test]
fn reads() {
    let mut failed = Vec::new();
    let mut count = 0;
    for nr in 0.. {
        let (mut want, mut answer) = Default::default();
        // SAFETY: the pointers are valid; any number is allowed.
        let name = unsafe { ffi::leaf_export_read_case(nr, &mut want, &mut answer) };
        if name.is_null() {
            break;
        }
        count += 1;
        let facts = |a: &ffi::ReadAnswer| (Rule(a.rule), a.offset, a.size, a.order, a.collapse);
        if facts(&want) != facts(&answer) {
            failed.push(format!(
                "{}: want {:x?}, got {:x?}, tried {:?}",
                text(name),
                facts(&want),
                facts(&answer),
                trace(&answer.trace)
            ));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert!(count >= 20, "only {count} cases were found");
}

#[test]
fn alignments() {
    let mut count = 0;
    for nr in 0.. {
        let (mut shift, mut answer) = Default::default();
        // SAFETY: as above.
        let name = unsafe { ffi::leaf_export_align_case(nr, &mut shift, &mut answer) };
        if name.is_null() {
            break;
        }
        count += 1;
        assert_eq!(
            answer.shift,
            shift,
            "{}: {:?}",
            text(name),
            trace(&answer.trace)
        );
    }
    assert!(count >= 15, "only {count} cases were found");
}

#[test]
fn elf_images() {
    let mut count = 0;
    for nr in 0.. {
        let (mut shift, mut segment, mut answer) = Default::default();
        // SAFETY: as above.
        let name = unsafe { ffi::leaf_export_elf_case(nr, &mut shift, &mut segment, &mut answer) };
        if name.is_null() {
            break;
        }
        count += 1;
        assert_eq!(
            (answer.shift, answer.segment),
            (shift, segment),
            "{}",
            text(name)
        );
    }
    assert!(count >= 8, "only {count} cases were found");
}
