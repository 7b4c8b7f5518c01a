// SPDX-License-Identifier: GPL-2.0-only
//! A library as lld links it, for tests that never load it.

use crate::image::{ET_DYN, Image, R, W, X, load};

/// With this many bytes of code, shifted by a page against the file.
pub fn library(code: u64) -> Vec<u8> {
    let programs = vec![
        load(R, 0, 0, 0x1800, 0x1000),
        load(R | X, 0x1800, 0x2800, code, 0x1000),
        load(R | W, code + 0x1800, code + 0x3800, 0x900, 0x1000),
    ];
    filled(programs)
}

/// As GNU ld links it: at no shift, so on ext4 mmap aligns it, and on overlay nothing does.
#[allow(dead_code)]
pub fn by_gnu_ld(code: u64) -> Vec<u8> {
    filled(vec![
        load(R, 0, 0, 0x1000, 0x1000),
        load(R | X, 0x1000, 0x1000, code, 0x1000),
        load(R | W, code + 0x1000, code + 0x1000, 0x900, 0x1000),
    ])
}

fn filled(programs: Vec<crate::image::Program>) -> Vec<u8> {
    let mut bytes = Image::new(true, false, ET_DYN, programs).bytes();
    for (at, byte) in bytes.iter_mut().enumerate().skip(0x200) {
        *byte = at as u8 | 1;
    }
    bytes
}
