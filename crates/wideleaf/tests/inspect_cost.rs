// SPDX-License-Identifier: GPL-2.0-only
//! Costs of `wideleaf inspect -r` on a tree like a distribution's /usr. CPU time is asserted,
//! which other work on the machine does not change; a file of its own, because only all children
//! together are counted.

#![allow(missing_docs)]

use nix::sys::resource::{Usage, UsageWho, getrusage};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

const PROGRAMS: usize = 2000;
const OTHERS: usize = 5000;
const FOLDERS: usize = 200;

/// The part of a program that is copied at either end; the rest is a hole.
const END: usize = 64 << 10;

/// Programs whose headers are real, with text that nobody has to read, among other files.
fn fill(root: &Path) {
    let program = fs::read(std::env::current_exe().unwrap()).unwrap();
    let tail = program.len() - END;
    for n in 0..FOLDERS {
        fs::create_dir(root.join(n.to_string())).unwrap();
    }
    for n in 0..PROGRAMS + OTHERS {
        let path = root
            .join((n % FOLDERS).to_string())
            .join(format!("file{n}"));
        if n >= PROGRAMS {
            fs::write(path, "no program\n").unwrap();
            continue;
        }
        let file = File::create(path).unwrap();
        file.write_all_at(&program[..END], 0).unwrap();
        file.write_all_at(&program[tail..], tail as u64).unwrap();
    }
}

fn inspect(root: &Path, out: File) {
    let status = Command::new(env!("CARGO_BIN_EXE_wideleaf"))
        .args(["inspect", "-r", "--json"])
        .arg(root)
        .stdout(out)
        .status()
        .unwrap();
    assert!(status.success(), "{status}");
}

fn cpu_seconds(usage: &Usage) -> f64 {
    let [user, system] = [usage.user_time(), usage.system_time()];
    let seconds = |t: nix::sys::time::TimeVal| t.tv_sec() as f64 + t.tv_usec() as f64 / 1e6;
    seconds(user) + seconds(system)
}

#[test]
fn seven_thousand_files_cost_less_than_4_s_of_cpu_time_and_64_mib() {
    let dir = tempfile::tempdir().unwrap();
    let (root, json) = (dir.path().join("usr"), dir.path().join("json"));
    fs::create_dir(&root).unwrap();
    fill(&root);
    let children = || getrusage(UsageWho::RUSAGE_CHILDREN).unwrap();
    // A virtual machine's cycles are worth less at times: the best of three counts.
    let cost = || {
        let before = cpu_seconds(&children());
        inspect(&root, File::create(&json).unwrap());
        cpu_seconds(&children()) - before
    };
    let spent = (0..3).map(|_| cost()).fold(f64::INFINITY, f64::min);
    let peak = children().max_rss();
    println!("{spent} s, {peak} KiB");
    assert!(spent < 4.0, "{spent} s of CPU time");
    assert!(peak < 64 << 10, "{peak} KiB at the peak");
    // Read only now: what a parent takes counts for the child that it starts.
    let found: serde_json::Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    assert_eq!(found["summary"]["files"], PROGRAMS, "{}", found["summary"]);
}
