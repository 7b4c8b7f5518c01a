// SPDX-License-Identifier: GPL-2.0-only
//! Lists the rooms: a module of `src/lib.rs` whose folder has a `host.rs` is one.
//!
//! So that a job is named in one place, and that place is a `mod` item, which rustfmt and the check
//! for circles can follow.

use std::path::Path;
use std::{env, fs};

fn main() {
    println!("cargo:rerun-if-changed=src/lib.rs");
    let text = fs::read_to_string("src/lib.rs").expect("src/lib.rs");
    let modules = text.lines().filter_map(|line| {
        let name = line.strip_prefix("pub mod ")?;
        name.strip_suffix(';')
    });
    let rooms: Vec<_> = modules
        .filter(|name| Path::new("src").join(name).join("host.rs").exists())
        .collect();
    let list = |side: &str| {
        let all = rooms.iter().map(|room| format!("&crate::{room}::{side},"));
        format!("[{}]", all.collect::<String>())
    };
    let out = env::var_os("OUT_DIR").expect("cargo gives OUT_DIR");
    for (file, side) in [("host.rs", "host::JOB"), ("guest.rs", "guest::WORK")] {
        fs::write(Path::new(&out).join(file), list(side)).expect("OUT_DIR is a folder");
    }
}
