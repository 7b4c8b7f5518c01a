// SPDX-License-Identifier: GPL-2.0-only
//! Lists the rooms: a module of `src/lib.rs` whose folder has a `host.rs` is one. So a job is named
//! in one place, and that place is a `mod` item, which rustfmt and the check for circles can follow.
//! And lists the programs that the job `program` knows, by the files that describe them.

use std::path::{Path, PathBuf};
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
    let programs = Path::new(&out).join("programs.rs");
    fs::write(programs, descriptions("programs")).expect("OUT_DIR is a folder");
}

/// Name and text of each TOML file in `folder`, as an expression.
fn descriptions(folder: &str) -> String {
    println!("cargo:rerun-if-changed={folder}");
    let here = env::current_dir().expect("cargo starts it in the crate's folder");
    let files = fs::read_dir(folder).expect("programs").flatten();
    let mut paths: Vec<_> = files.map(|file| here.join(file.path())).collect();
    paths.retain(|path| path.extension().is_some_and(|end| end == "toml"));
    paths.sort();
    let item = |path: &PathBuf| {
        let name = path.file_stem().unwrap_or_default();
        format!("({name:?}, include_str!({path:?})),")
    };
    format!("[{}]", paths.iter().map(item).collect::<String>())
}
