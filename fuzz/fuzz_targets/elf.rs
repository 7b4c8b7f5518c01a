// SPDX-License-Identifier: GPL-2.0-only
//! Reads, judges and explains arbitrary bytes.
#![no_main]

#[path = "../../crates/elf/tests/common/invariants.rs"]
mod invariants;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| invariants::check(bytes));
