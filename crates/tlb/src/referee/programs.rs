// SPDX-License-Identifier: GPL-2.0-only
//! Programs in files, `tests/programs/good_*` and `bad_*`, each with the log
//! that it must give.
//!
//! A line is one of `tests.rs`, several parted by `;`. Before them may stand
//! `bbm LEVEL`, what the CPUs promise. `#` begins a comment, `!` a line of the
//! log: `KIND at VA: OLD | NEW`.

use super::tests::{World, va};
use super::{Referee, Regime};
use std::path::Path;

/// What the referee says of a program.
fn log(text: &str) -> Vec<String> {
    let bbm = text.lines().find_map(|line| line.strip_prefix("bbm "));
    let bbm = bbm.map_or(0, |level| level.trim().parse().unwrap());
    let mut world = World::new(Referee::new(4, Regime::arm64(bbm)));
    let steps = text
        .lines()
        .filter(|line| line.starts_with(char::is_numeric));
    for line in steps {
        world.run(line);
    }
    let names = ["x", "y", "z", "w", "u", "v", "k", "l", "m"];
    let found = world.findings().list.into_iter();
    found
        .map(|f| {
            let name = names.iter().find(|name| va(name) == f.va);
            let name = name.map_or_else(|| format!("{:#x}", f.va), |name| name.to_string());
            format!("{} at {name}: {} | {}", f.kind.name(), f.old, f.new)
        })
        .collect()
}

#[test]
fn each_program_gives_the_log_that_stands_beside_it() {
    let mut wrong = Vec::new();
    let mut names: Vec<_> = std::fs::read_dir(Path::new("tests/programs"))
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    names.sort();
    assert!(names.len() > 20, "{names:?}");
    for path in names {
        let text = std::fs::read_to_string(&path).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let want = text.lines().filter_map(|line| line.strip_prefix("! "));
        let want: Vec<String> = want.map(String::from).collect();
        let found = log(&text);
        if found != want || found.is_empty() != name.starts_with("good_") {
            wrong.push(format!("{name}: {found:#?}, not {want:#?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
