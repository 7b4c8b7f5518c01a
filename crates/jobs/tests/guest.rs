// SPDX-License-Identifier: GPL-2.0-only
//! What the guest's program is made of: an edit of the command or of the lab leaves it as it is, and
//! with it every row of a matrix that was measured.

use std::process::Command;

/// Crates that `cargo tree` has for the guest's program as it is built for guests.
fn crates(features: &str) -> Vec<String> {
    let run = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--edges", "normal", "--prefix", "none"])
        .args(["--no-default-features", "--features", features])
        .args(["--format", "{lib}", "--package", "wideleaf-jobs"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{run:?}");
    text.lines().map(String::from).collect()
}

/// What is on the host only: its edits must not reach the guest.
const OF_HOST: [&str; 6] = [
    "clap",
    "wideleaf",
    "wideleaf_kbuild",
    "wideleaf_lab",
    "wideleaf_matrix",
    "wideleaf_tlb",
];

#[test]
fn the_guests_program_has_nothing_of_the_host() {
    let guest = crates("guest");
    assert!(
        guest.iter().any(|name| name == "wideleaf_guest"),
        "{guest:?}"
    );
    for name in OF_HOST {
        assert!(!guest.iter().any(|known| known == name), "{name}");
    }
    // The test would notice.
    let both = crates("guest,host");
    assert!(both.iter().any(|name| name == "wideleaf_lab"), "{both:?}");
}
