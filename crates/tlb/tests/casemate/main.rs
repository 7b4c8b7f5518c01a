// SPDX-License-Identifier: GPL-2.0-only
//! The referee beside Casemate (`rems-project/casemate`), a checker of page
//! tables for code that calls its hooks: it has to tell good traces from bad
//! ones as Casemate does.
//!
//! The traces in this folder are our own, in Casemate's format. Their names say
//! `good_` or `bad_`, their heads which of Casemate's examples they stand for;
//! a bad one ends with `!` and what the referee calls it. Casemate's own are
//! read by the ignored test:
//!
//! ```sh
//! CASEMATE=.../casemate cargo test -p wideleaf-tlb --test casemate -- --ignored --nocapture
//! ```

mod trace;

use std::path::{Path, PathBuf};
use trace::judge;

/// Examples that ask for something else than the referee does.
const NOT_JUDGED: [(&str, &str); 11] = [
    ("bad_EL2_ASID", "EL2's own regime, which has no ASIDs"),
    ("bad_bbm_by_wrong_VMID", "stage 2"),
    ("good_bbm_by_VMID", "stage 2"),
    (
        "bad_no_assoc_lock",
        "locks: who may write is not the TLB's matter",
    ),
    ("bad_race", "locks"),
    ("bad_unlocked_write", "locks"),
    ("good_trylock", "locks"),
    (
        "bad_overlap_ASID",
        "the two roots are empty, so that nothing is cached; with an entry in each: \
         bad_two_roots_one_asid.trace",
    ),
    (
        "bad_reuse_page",
        "no CPU is in the old address space any more, so that none walks it; Linux frees the \
         tables of a process that ends so; with a CPU in it: bad_table_moved_unflushed.trace",
    ),
    ("bad_overlap_VMID", "the same at stage 2"),
    (
        "bad_switch_wrong_vmid",
        "one root under two identifiers: Casemate's rule, the architecture allows it",
    ),
];

fn files(dir: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    let mut found: Vec<PathBuf> = entries
        .map(|e| e.unwrap().path())
        .filter(|p| p.extension().is_some_and(|e| e == extension))
        .collect();
    found.sort();
    assert!(!found.is_empty(), "{}: no *.{extension}", dir.display());
    found
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn name(path: &Path) -> &str {
    path.file_stem().unwrap().to_str().unwrap()
}

/// What a trace says that is wrong with it: the line that begins with `!`.
fn complaint(text: &str) -> Option<&str> {
    let line = text.lines().find_map(|line| line.strip_prefix('!'));
    line.map(str::trim)
}

#[test]
fn our_traces_are_judged_as_they_say() {
    let dir = Path::new("tests/casemate");
    for path in files(dir, "trace") {
        let (name, text) = (name(&path), text(&path));
        let found = judge(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let want: Vec<&str> = complaint(&text).into_iter().collect();
        assert_eq!(found, want, "{name}");
        assert_eq!(found.is_empty(), name.starts_with("good_"), "{name}");
    }
}

/// Casemate's examples with the logs that it expects of them.
#[test]
#[ignore = "reads a checkout of Casemate, which CASEMATE names"]
fn casemate_s_examples_are_judged_as_casemate_does() {
    let dir =
        std::env::var("CASEMATE").expect("CASEMATE names a checkout of rems-project/casemate");
    let mut wrong = Vec::new();
    for path in files(&Path::new(&dir).join("examples/expected"), "log") {
        let (name, text) = (name(&path), text(&path));
        let verdict = match judge(&text) {
            Ok(found) if found.is_empty() => "silent".to_owned(),
            Ok(found) => found.join(", "),
            Err(e) => e,
        };
        let reason = NOT_JUDGED.iter().find(|(n, _)| *n == name);
        let theirs = complaint(&text).unwrap_or("good");
        let note = reason.map_or(String::new(), |(_, why)| format!(" (not judged: {why})"));
        println!("{name}: {theirs}; referee: {verdict}{note}");
        if reason.is_none() && (verdict == "silent") != (theirs == "good") {
            wrong.push(name.to_owned());
        }
    }
    assert_eq!(wrong, [""; 0]);
}
