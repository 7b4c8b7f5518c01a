// SPDX-License-Identifier: GPL-2.0-only
//! What must hold whatever bytes are read: used by the tests and, on far more
//! bytes, by fuzz/.

use wideleaf_elf::{Elf, LEAF_2M, LEAVES, explain, fix, judge};

/// Reads, judges and explains; an error is fine, a panic is not.
pub fn check(bytes: &[u8]) {
    let elf = match Elf::read(&bytes) {
        Ok(elf) => elf,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    let verdict = judge(&elf);
    assert_eq!(verdict.segments.len(), elf.segments.len());
    for (judged, segment) in verdict.segments.iter().zip(&elf.segments) {
        assert!(segment.file_size <= bytes.len() as u64);
        assert!(segment.file_size <= segment.memory_size);
        assert!(judged.usable <= judged.possible);
        assert!(judged.usable.is_multiple_of(LEAF_2M));
        for (blocks, leaf) in judged.blocks.iter().zip(LEAVES) {
            // The loader maps whole pages: up to one more at either end.
            assert!(blocks * leaf <= segment.file_size + 2 * 4096);
        }
        let words = explain(&elf, judged);
        let fix = fix(&elf, judged);
        assert!(!words.is_empty());
        assert!(judged.possible == judged.usable || fix.is_some(), "{words}");
    }
    match elf.packer {
        Some(_) => assert_eq!(verdict.text, 0),
        None => assert_eq!(verdict.main.is_some(), verdict.text > 0),
    }
    for page in [4096, 16384, 65536] {
        elf.placement(page, page * page / 8);
    }
}
