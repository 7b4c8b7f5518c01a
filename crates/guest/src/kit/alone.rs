// SPDX-License-Identifier: GPL-2.0-only
//! Tests that fork, or leave holes in their address space, run in a process of their own.
//!
//! Other tests are threads of the same process. A lock that one of them holds stays held in a
//! forked process, which then waits for ever. A hole is where the next thread's stack goes.

use std::process::Command;

/// In the environment of such a process.
const ALONE: &str = "WIDELEAF_ALONE";

/// Does all that a test does, in a process of its own. The test must call it first.
pub fn alone(work: impl FnOnce()) {
    if is_alone() {
        return work();
    }
    let test = std::thread::current();
    let name = test.name().expect("the harness names threads by tests");
    let this = std::env::current_exe().expect("/proc is mounted");
    let mut this = Command::new(this);
    this.args(["--exact", name, "--test-threads=1"]);
    let output = this.env(ALONE, "1").output().expect("it runs already");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(said.contains("1 passed; 0 failed"), "{said}");
}

/// # Panics
///
/// If the threads of other tests may be there.
pub(super) fn must_be() {
    assert!(is_alone(), "a test that forks does so in alone()");
}

/// With one thread for all tests, the harness may use its own, which it names `main`.
fn is_alone() -> bool {
    std::env::var_os(ALONE).is_some() || std::thread::current().name() == Some("main")
}
