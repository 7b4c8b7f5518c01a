// SPDX-License-Identifier: GPL-2.0-only
//! A job is one room: its files use the kit and the guest's own parts, but no other job's files. The
//! kit and these parts use no job's files, apart from those that start jobs.

use std::fs;
use std::path::{Path, PathBuf};
use wideleaf_circles::uses;

/// What starts jobs.
const DOORS: [&str; 3] = ["jobs/mod.rs", "lib.rs", "task.rs"];

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
    Some(file.strip_prefix("jobs/")?.split_once('/')?.0)
}

#[test]
fn no_job_uses_another_and_the_kit_uses_none() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let trespassers = trespassers(&src);
    assert!(trespassers.is_empty(), "{trespassers:#?}");
    let rooms = fs::read_dir(src.join("jobs")).unwrap().flatten();
    let rooms = rooms.filter(|entry| entry.path().is_dir()).count();
    assert!(rooms >= 16, "{rooms} jobs");
}

#[test]
fn each_way_into_another_room_is_noticed() {
    let files = [
        ("lib.rs", "mod jobs; mod kit; mod task; pub use jobs::b;"),
        ("task.rs", "use crate::jobs::{a, b};"),
        ("kit/mod.rs", "pub mod part;"),
        ("kit/part.rs", ""),
        ("jobs/mod.rs", "pub mod a; pub mod b; fn f() { a::g() }"),
        (
            "jobs/a/mod.rs",
            "mod own; use own::X; use crate::kit::part;",
        ),
        ("jobs/a/own.rs", "pub struct X; use super::super::a::own;"),
        ("jobs/b/mod.rs", "pub mod own; pub struct Y;"),
        ("jobs/b/own.rs", ""),
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
        ("use crate::jobs::b::Y;", "jobs/b/mod.rs"),
        ("use crate::b::Y;", "jobs/b/mod.rs"),
        ("use super::super::b::own;", "jobs/b/own.rs"),
        ("use crate::{jobs::{a, b}, kit};", "jobs/b/mod.rs"),
        (
            "fn f() { println!(\"{}\", crate::jobs::b::own::Z) }",
            "jobs/b/own.rs",
        ),
    ] {
        let expected = format!("jobs/a/own.rs uses {used}");
        assert_eq!(found("jobs/a/own.rs", text), [expected], "{text}");
    }
    let of_kit = found("kit/part.rs", "use crate::jobs::a;");
    assert_eq!(of_kit, ["kit/part.rs uses jobs/a/mod.rs"]);
}
