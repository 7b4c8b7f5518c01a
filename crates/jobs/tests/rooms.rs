// SPDX-License-Identifier: GPL-2.0-only
//! A job is one room: its files use the kits, but no other job's files. What rooms share uses no
//! job's files.

use std::fs;
use std::path::{Path, PathBuf};
use wideleaf_circles::uses;

/// What knows a job by name: the one that runs unless told.
const DOORS: [&str; 2] = ["lib.rs", "registry.rs"];

/// What is in folders, but no room.
const SHARED: [&str; 2] = ["bin", "kit"];

/// `A uses B` for each file below `src` that uses a file of another room.
fn trespassers(src: &Path) -> Vec<String> {
    let name = |path: &PathBuf| path.strip_prefix(src).unwrap().display().to_string();
    let uses = uses(&src.join("lib.rs")).unwrap();
    let pairs = uses
        .iter()
        .flat_map(|(file, used)| used.iter().map(move |used| (name(file), name(used))));
    pairs
        .filter(|(file, used)| {
            let entered = room(used);
            entered.is_some() && entered != room(file) && !DOORS.contains(&file.as_str())
        })
        .map(|(file, used)| format!("{file} uses {used}"))
        .collect()
}

/// The job of a file.
fn room(file: &str) -> Option<&str> {
    let (folder, _) = file.split_once('/')?;
    (!SHARED.contains(&folder)).then_some(folder)
}

#[test]
fn no_job_uses_another_and_the_kit_uses_none() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let trespassers = trespassers(&src);
    assert!(trespassers.is_empty(), "{trespassers:#?}");
    let rooms = fs::read_dir(&src).unwrap().flatten();
    let rooms = rooms
        .filter(|entry| entry.path().join("host.rs").exists())
        .count();
    assert!(rooms >= 16, "{rooms} jobs");
}

#[test]
fn each_way_into_another_room_is_noticed() {
    let files = [
        ("lib.rs", "pub mod a; pub mod b; pub mod kit; mod works;"),
        ("works.rs", ""),
        ("kit/mod.rs", "pub mod part;"),
        ("kit/part.rs", ""),
        ("a/mod.rs", "mod own; use own::X; use crate::kit::part;"),
        ("a/own.rs", "pub struct X; use super::super::a::own;"),
        ("b/mod.rs", "pub mod own; pub struct Y;"),
        ("b/own.rs", ""),
    ];
    let dir = tempfile::tempdir().unwrap();
    let found = |file: &str, text: &str| {
        for (name, usual) in files {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, if name == file { text } else { usual }).unwrap();
        }
        trespassers(dir.path())
    };
    assert_eq!(found("", ""), [""; 0]);
    for (text, used) in [
        ("use crate::b::Y;", "b/mod.rs"),
        ("use super::super::b::own;", "b/own.rs"),
        ("use crate::{a, b, kit};", "b/mod.rs"),
        ("fn f() { println!(\"{}\", crate::b::own::Z) }", "b/own.rs"),
    ] {
        let expected = format!("a/own.rs uses {used}");
        assert_eq!(found("a/own.rs", text), [expected], "{text}");
    }
    let of_kit = found("kit/part.rs", "use crate::a;");
    assert_eq!(of_kit, ["kit/part.rs uses a/mod.rs"]);
}
