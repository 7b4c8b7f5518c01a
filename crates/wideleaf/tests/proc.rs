// SPDX-License-Identifier: GPL-2.0-only
//! `ps`, `top`, `metrics` and `gen` as commands, on a tree that looks like
//! /proc: what they print and with which status they end.

mod common;

use common::Reachable;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::TempDir;

const PAGE: u64 = 4096;
const MAPS: &str = "00400000-00500000 r-xp 00000000 fd:01 7 /opt/my app/bin (deleted)\n\
                    00500000-00501000 rw-p 00100000 fd:01 7 /opt/my app/bin (deleted)\n";

fn process(root: &Path, pid: u32, name: &str, maps: &str) {
    let dir = root.join(pid.to_string());
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("comm"), format!("{name}\n")).unwrap();
    fs::write(
        dir.join("cgroup"),
        format!("0::/system.slice/{name}.service\n"),
    )
    .unwrap();
    fs::write(dir.join("maps"), maps).unwrap();
    File::create(dir.join("pagemap"))
        .unwrap()
        .set_len((1 << 32) / PAGE * 8)
        .unwrap();
}

fn map(root: &Path, pid: u32, frames: impl Iterator<Item = u64>) {
    let pagemap = fs::OpenOptions::new()
        .write(true)
        .open(root.join(format!("{pid}/pagemap")))
        .unwrap();
    for (i, frame) in (0..).zip(frames) {
        pagemap
            .write_all_at(
                &(1u64 << 63 | frame).to_ne_bytes(),
                (0x40_0000 / PAGE + i) * 8,
            )
            .unwrap();
    }
}

/// 10: a 64K folio and two pages; 11: frames hidden; 12: ended while it was
/// read; 13: a kernel thread; 14: a map that no kernel writes.
fn tree() -> TempDir {
    let root = tempfile::tempdir().unwrap();
    let flags = File::create(root.path().join("kpageflags")).unwrap();
    for i in 0..16u64 {
        let word = 1u64 << 22 | 1 << if i == 0 { 15 } else { 16 };
        flags
            .write_all_at(&word.to_ne_bytes(), (0x1000 + i) * 8)
            .unwrap();
    }
    process(root.path(), 10, "wide", MAPS);
    map(root.path(), 10, (0x1000..0x1010).chain([0x5000, 0x6000]));
    process(root.path(), 11, "hid\x1bden", MAPS);
    map(root.path(), 11, [0, 0, 0].into_iter());
    process(root.path(), 12, "gone", MAPS);
    fs::remove_file(root.path().join("12/maps")).unwrap();
    process(root.path(), 13, "kthread", "");
    root
}

struct Outcome {
    out: String,
    err: String,
    status: i32,
}

fn wideleaf(arguments: &[&str]) -> Outcome {
    let output = Command::new(env!("CARGO_BIN_EXE_wideleaf"))
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    Outcome {
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
        status: output.status.code().expect("ended by a signal"),
    }
}

/// `ps` on `root`, counted for 64K groups; `None` where pages are not 4K.
fn ps(root: &TempDir, arguments: &[&str]) -> Option<Outcome> {
    if wideleaf_procmap::sizes(Path::new("/sys")).0 != PAGE {
        eprintln!("SKIPPED: the pages of this machine are not 4K");
        return None;
    }
    let proc = root.path().to_str().unwrap();
    Some(wideleaf(
        &[&["ps", "--proc", proc, "--cpu", "64K"], arguments].concat(),
    ))
}

#[test]
fn a_table_of_what_can_be_seen_and_a_note_of_what_cannot() {
    let root = tree();
    let Some(ps) = ps(
        &root,
        &["--sort", "pid", "-o", "pid,name,text,leaves,absent,need"],
    ) else {
        return;
    };
    let lines: Vec<Vec<&str>> = ps
        .out
        .lines()
        .map(|l| l.split_whitespace().collect())
        .collect();
    assert_eq!(
        lines[0],
        ["PID", "NAME", "TEXT", "2M", "64K", "4K", "ABSENT", "NEED"]
    );
    assert_eq!(
        lines[1],
        ["10", "wide", "1M", "0", "64K", "8K", "952K", "3"]
    );
    assert_eq!(
        lines[2],
        ["11", "hid\\x1bden", "1M", "0", "?", "?", "1012K", "<=3"]
    );
    assert_eq!(
        lines.len(),
        3,
        "no kernel thread, nothing that has ended: {}",
        ps.out
    );
    assert!(
        ps.err.contains("unknown (?) for 1 of 3 processes"),
        "{}",
        ps.err
    );
    assert_eq!(ps.status, 0);
}

#[test]
fn a_cpu_that_coalesces_nothing_leaves_nothing_unknown() {
    let root = tree();
    let shown = ["-n", "-o", "2m,4k,need,load,wide,sight", "11"];
    if ps(&root, &[]).is_none() {
        return;
    }
    let proc = root.path().to_str().unwrap();
    let none = wideleaf(&[&["ps", "--proc", proc, "--cpu", "none"], &shown[..]].concat());
    let cells: Vec<&str> = none.out.split_whitespace().collect();
    assert_eq!(cells[..3], ["0", "12K", "3"], "{}", none.out);
    assert!(!none.out.contains(['?', '=']), "{}", none.out);
    assert!(!none.err.contains("unknown"), "{}", none.err);
    let metrics = wideleaf(&["metrics", "--cpu", "none", "--proc", proc]).out;
    assert!(!metrics.contains("leaf=\"unknown\""), "{metrics}");
    assert!(metrics.contains("reason=\"partly\"} 0\n"), "{metrics}");
}

#[test]
fn names_of_processes_and_files_are_kept_in_json_and_harmless_in_tables() {
    let root = tree();
    let dir = root.path().join("11");
    fs::write(dir.join("comm"), b"a\xffb\xe2\x80\xae\n").unwrap();
    let maps = b"00400000-00500000 r-xp 00000000 fd:01 7 /opt/\xff\xe2\x80\xae\x1b\n";
    fs::write(dir.join("maps"), maps).unwrap();
    let Some(json) = ps(&root, &["-m", "--json", "11"]) else {
        return;
    };
    assert!(
        json.out.is_ascii() || !json.out.contains('\u{202e}'),
        "{}",
        json.out
    );
    let document: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    let process = &document["processes"][0];
    assert_eq!(process["name"], "a\u{fffd}b\u{202e}");
    assert_eq!(process["name_bytes"], "61ff62e280ae");
    assert_eq!(process["cgroup_bytes"], serde_json::Value::Null);
    assert_eq!(process["mappings"][0]["name_bytes"], "2f6f70742fffe280ae1b");
    let table = ps(&root, &["-m", "-o", "name,file", "11"]).unwrap().out;
    assert!(
        table.contains("b\\u{202e} /opt/\u{fffd}\\u{202e}\\x1b"),
        "{table}"
    );
}

#[test]
fn mappings_columns_and_bytes() {
    let root = tree();
    let Some(ps) = ps(&root, &["-m", "-b", "-n", "-o", "pid,64k,perms,file", "10"]) else {
        return;
    };
    assert_eq!(ps.out, "10 65536 r-xp /opt/my app/bin (deleted)\n");
    assert_eq!((ps.status, ps.err.as_str()), (0, ""));
}

#[test]
fn json_counts_what_came_and_went() {
    let root = tree();
    let Some(ps) = ps(&root, &["--json", "-m", "--data", "--sort", "pid"]) else {
        return;
    };
    let document: serde_json::Value = serde_json::from_str(&ps.out).unwrap();
    assert_eq!(document["schema"], "wideleaf-ps-1");
    assert_eq!(document["summary"]["vanished"], serde_json::json!([12]));
    assert_eq!(document["processes"][0]["leaves"]["65536"], 65536);
    assert_eq!(
        document["processes"][0]["folios"]["file"]["aligned"]["65536"],
        65536
    );
    assert_eq!(
        document["processes"][0]["mappings"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    assert_eq!(document["processes"][1]["sight"], "pmd");
    assert_eq!(document["processes"][1]["name"], "hid\u{1b}den");
}

#[test]
fn the_status_tells() {
    let root = tree();
    let Some(gone) = ps(&root, &["10", "12"]) else {
        return;
    };
    assert_eq!(gone.status, 1);
    assert!(
        gone.err.contains("12: no such process") && gone.out.contains("wide"),
        "{}{}",
        gone.err,
        gone.out
    );
    for (options, said) in [
        (
            &["--name", "nobody"][..],
            "ps: no process matched --name nobody: `wideleaf ps` lists all",
        ),
        (
            &["--json", "--name", "nobody", "10"],
            "ps: no process matched --name nobody: ",
        ),
        // By number it is said of each.
        (&["12"], "ps: 12: no such process"),
    ] {
        let none = ps(&root, options).unwrap();
        assert_eq!(none.status, 1, "{options:?}");
        assert!(none.err.contains(said), "{options:?}: {}", none.err);
        assert_eq!(none.err.lines().count(), 1, "{}", none.err);
    }
    assert_eq!(
        ps(&root, &["--cgroup", "/system.slice/wide.service"])
            .unwrap()
            .status,
        0
    );
    let wrong = ps(&root, &["-o", "colour"]).unwrap();
    assert!(
        wrong.status == 2 && wrong.err.contains("there are pid, name"),
        "{}",
        wrong.err
    );
    assert_eq!(ps(&root, &["--no-such-option"]).unwrap().status, 2);
    process(root.path(), 14, "evil", "zz-yy r-xp \x1b[2J\n");
    let evil = ps(&root, &[]).unwrap();
    assert!(
        evil.status == 1 && evil.out.contains("wide"),
        "the others are still shown"
    );
    assert!(
        evil.err.contains("14/maps:1: ") && !evil.err.contains('\x1b'),
        "{}",
        evil.err
    );
}

/// The error for a control group that no machine has.
const NO_GROUP: &str = "--cgroup /no/such: there is no such control group below /sys/fs/cgroup";

#[test]
fn a_control_group_that_is_not_there_is_said_to_be_that() {
    if fs::read_dir("/sys/fs/cgroup").is_ok_and(|groups| groups.count() == 0) {
        eprintln!("SKIPPED: no control groups are mounted here");
        return;
    }
    for command in ["ps", "collapse", "fill"] {
        let none = wideleaf(&[command, "--cgroup", "/no/such"]);
        assert_eq!(none.status, 1, "{command}");
        assert!(none.err.contains(NO_GROUP), "{command}: {}", none.err);
    }
}

#[test]
fn a_proc_that_is_no_folder_is_wrong_usage() {
    for arguments in [&["ps"][..], &["metrics"], &["collapse", "1"]] {
        let none = wideleaf(&[arguments, &["--proc", "/no/such"]].concat());
        assert_eq!(none.status, 2, "{arguments:?}");
        assert_eq!(
            none.err,
            "wideleaf: --proc /no/such: no such folder: name a mounted proc\n"
        );
    }
}

#[test]
fn metrics_sum_up_services() {
    let root = tree();
    let proc = root.path().to_str().unwrap();
    let metrics = wideleaf(&["metrics", "--proc", proc, "--cpu", "64K", "--depth", "1"]);
    assert!(
        metrics
            .out
            .contains("wideleaf_processes{cgroup=\"/system.slice\"} 2\n"),
        "{}",
        metrics.out
    );
    assert!(metrics.out.ends_with("# EOF\n"));
    let remote = wideleaf(&["metrics", "--listen", "192.0.2.1:9"]);
    assert!(
        remote.status == 2 && remote.err.contains("--allow-remote"),
        "{}",
        remote.err
    );
    let name = wideleaf(&["metrics", "--output", "/tmp/x.txt"]);
    assert!(
        name.status == 2 && name.err.contains(".prom"),
        "{}",
        name.err
    );
}

#[test]
fn top_without_a_terminal_says_so() {
    let top = wideleaf(&["top"]);
    assert!(
        top.status == 1 && top.err.contains("needs a terminal"),
        "{}",
        top.err
    );
}

#[test]
fn a_manual_page_for_every_command_and_completions_for_every_shell() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("man1");
    assert_eq!(wideleaf(&["gen", "man", to.to_str().unwrap()]).status, 0);
    let help = wideleaf(&["--help"]).out;
    let commands = help
        .lines()
        .skip_while(|l| *l != "See:")
        .take_while(|l| !l.is_empty());
    let names: Vec<&str> = commands
        .filter_map(|l| l.strip_prefix("  ")?.split(' ').next())
        .filter(|n| !n.is_empty() && *n != "help")
        .collect();
    assert!(names.len() > 20, "{help}");
    for name in names {
        let page = fs::read_to_string(to.join(format!("wideleaf-{name}.1"))).expect(name);
        assert!(page.contains(".SH SYNOPSIS"), "{name}");
    }
    for shell in ["bash", "zsh", "fish"] {
        assert!(
            wideleaf(&["gen", "completions", shell])
                .out
                .contains("metrics"),
            "{shell}"
        );
    }
}

#[test]
fn doctor_prints_json_with_a_remedy_for_all_that_can_be_improved() {
    let doctor = wideleaf(&["doctor", "--json"]);
    let document: serde_json::Value = serde_json::from_str(&doctor.out).unwrap();
    let checks = document["checks"].as_array().unwrap();
    let improve: Vec<_> = checks.iter().filter(|c| c["status"] == "improve").collect();
    assert!(
        improve
            .iter()
            .all(|c| c["change"] != "" && c["persist"] != ""),
        "{improve:?}"
    );
    assert_eq!(doctor.status, if improve.is_empty() { 0 } else { 3 });
}

#[test]
fn a_process_that_may_not_be_read_is_named_with_the_reason() {
    let program = Reachable::new();
    let mut command = program.command();
    // Root's own process, for another user; else the first of all, which is root's.
    let pid = match nix::unistd::geteuid().is_root() {
        true => {
            command.uid(65_534).gid(65_534);
            std::process::id()
        }
        false => 1,
    };
    let output = command.args(["ps", &pid.to_string()]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    let line = format!("ps: {pid}: may not be read: ");
    assert!(said.contains(&line), "{said}");
    assert!(said.contains("permission denied"), "{said}");
    assert!(!said.contains("1 more"), "{said}");
}
