// SPDX-License-Identifier: GPL-2.0-only
//! `wideleaf align` as a user runs it: what it replaces, what it keeps, what it
//! refuses, and that being killed never leaves half a file.

#![allow(missing_docs)]

#[path = "common/dir.rs"]
mod dir;
#[path = "../../elf/tests/common/image.rs"]
#[allow(dead_code)]
mod image;
#[path = "common/kill.rs"]
mod kill;
#[path = "common/library.rs"]
mod library;
#[path = "common/text.rs"]
mod text;
#[path = "common/unshared.rs"]
mod unshared;

mod common;

use common::Reachable;
use dir::Dir;
use image::Image;
use kill::killed_after;
use serde_json::Value;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};
use text::text;
use unshared::{both, unshared};

const M: u64 = 1 << 20;

fn wideleaf() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wideleaf"));
    command.arg("align");
    command
}

fn run(args: &[&str], files: &[&Path]) -> Output {
    wideleaf().args(args).args(files).output().unwrap()
}

fn done(args: &[&str], files: &[&Path]) -> String {
    let output = run(args, files);
    assert!(
        output.status.success(),
        "{args:?}: {}",
        text(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

fn refused(args: &[&str], files: &[&Path], why: &str) {
    fails(args, files, 1, why);
}

/// It says why, and ends with this status.
fn fails(args: &[&str], files: &[&Path], status: i32, why: &str) {
    let output = run(args, files);
    assert_eq!(output.status.code(), Some(status), "{args:?} {files:?}");
    assert!(
        text(&output.stderr).contains(why),
        "{}",
        text(&output.stderr)
    );
}

/// Some leaves fit its text once it is aligned.
fn library() -> Vec<u8> {
    library::library(5 * M)
}

/// Its members, in order.
fn names(dir: &Dir) -> Vec<String> {
    let entries = fs::read_dir(dir.0.path()).unwrap();
    let names = entries.map(|e| e.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn in_place_keeps_what_belongs_to_the_file_and_restore_gives_it_back() {
    let dir = Dir::new();
    let path = dir.file("libx.so", library());
    fs::set_permissions(&path, Permissions::from_mode(0o751)).unwrap();
    let is_root = nix::unistd::geteuid().is_root();
    if is_root {
        std::os::unix::fs::chown(&path, Some(12), Some(34)).unwrap();
        // cap_net_raw=ep, revision 2
        let capability = [
            1u8, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        ];
        set_xattr(&path, "security.capability", &capability);
        // user::rwx user:7:r-x group::r-x mask::r-x other::--x
        let acl = [
            2u8, 0, 0, 0, 1, 0, 7, 0, 255, 255, 255, 255, 2, 0, 5, 0, 7, 0, 0, 0, 4, 0, 5, 0, 255,
            255, 255, 255, 16, 0, 5, 0, 255, 255, 255, 255, 32, 0, 1, 0, 255, 255, 255, 255,
        ];
        set_xattr(&path, "system.posix_acl_access", &acl);
    }
    set_xattr(&path, "user.wideleaf.test", b"kept");
    let before = path.metadata().unwrap();
    let said = json(&done(&["--in-place", "--json", "--backup"], &[&path]));
    let file = &said["files"][0];
    assert_eq!(file["status"], "aligned");
    assert_eq!(
        (&file["usable_before"], &file["usable_after"]),
        (&0.into(), &(2 * M).into())
    );
    let after = path.metadata().unwrap();
    let kept = |m: &fs::Metadata| {
        (
            m.mode(),
            m.uid(),
            m.gid(),
            m.mtime(),
            m.mtime_nsec(),
            m.nlink(),
        )
    };
    assert_ne!(before.ino(), after.ino());
    assert_eq!(kept(&before), kept(&after));
    assert_eq!(get_xattr(&path, "user.wideleaf.test").unwrap(), b"kept");
    if is_root {
        assert_eq!(get_xattr(&path, "security.capability").unwrap().len(), 20);
        assert_eq!(
            get_xattr(&path, "system.posix_acl_access").unwrap().len(),
            44
        );
    }
    assert_eq!(names(&dir), ["libx.so", "libx.so.orig"]);
    assert!(fs::read(dir.0.path().join("libx.so.orig")).unwrap() == library());
    // Sparse: what was added to its size takes no disk but for a few blocks.
    assert!(file["size_after"].as_u64().unwrap() > file["size_before"].as_u64().unwrap());
    assert!(after.blocks() * 512 <= before.blocks() * 512 + 6 * 4096);
    assert_eq!(file["disk_after"].as_u64().unwrap(), after.blocks() * 512);

    assert_eq!(
        json(&done(&["-i", "-J"], &[&path]))["files"][0]["status"],
        "good"
    );
    assert_eq!(
        path.metadata().unwrap().ino(),
        after.ino(),
        "good files are left as they are"
    );
    done(&["--restore", "-i"], &[&path]);
    assert!(fs::read(&path).unwrap() == library());
    assert_eq!(kept(&before), kept(&path.metadata().unwrap()));
    refused(&["--restore", "-i"], &[&path], "holds no note");
}

#[test]
fn the_link_to_a_file_stays_a_link() {
    let dir = Dir::new();
    let path = dir.file("libx.so.1", library());
    let link = dir.0.path().join("libx.so");
    std::os::unix::fs::symlink("libx.so.1", &link).unwrap();
    done(&["-i"], &[&link]);
    assert!(link.symlink_metadata().unwrap().is_symlink());
    assert!(fs::read(&path).unwrap() != library());
}

#[test]
fn hard_links_are_refused_or_all_replaced() {
    let dir = Dir::new();
    let path = dir.file("a", library());
    let other = dir.0.path().join("b");
    fs::hard_link(&path, &other).unwrap();
    refused(&["-i"], &[&path], "has 2 names");
    assert!(fs::read(&path).unwrap() == library());
    let elsewhere = Dir::new();
    let third = elsewhere.0.path().join("c");
    fs::hard_link(&path, &third).unwrap();
    refused(
        &["-i", "--hard-links", "all"],
        &[&path],
        "of which 2 were found",
    );
    done(&["-i", "--hard-links", "all"], &[&path, &third]);
    let inode = |path: &Path| path.metadata().unwrap().ino();
    assert_eq!((inode(&path), inode(&path)), (inode(&other), inode(&third)));
    assert_eq!(path.metadata().unwrap().nlink(), 3);
    assert!(fs::read(&third).unwrap() != library());
}

#[test]
fn setuid_files_need_force_and_stay_setuid() {
    let dir = Dir::new();
    let path = dir.file("su", library());
    for mode in [0o4755, 0o2755] {
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        refused(&["-i"], &[&path], "--force");
        refused(&["-o", "/nowhere/x"], &[&path], "--force");
        assert!(fs::read(&path).unwrap() == library());
    }
    done(&["-i", "--force"], &[&path]);
    assert_eq!(path.metadata().unwrap().mode() & 0o7777, 0o2755);
    // A copy elsewhere is not to have the right.
    let copy = dir.0.path().join("copy");
    done(&["--force", "-o", copy.to_str().unwrap()], &[&path]);
    assert_eq!(copy.metadata().unwrap().mode() & 0o7777, 0o755);
}

#[test]
fn signatures_that_would_break_are_told_or_need_force() {
    let dir = Dir::new();
    let path = dir.file("libx.so", library());
    let hmac = dir.file(".libx.so.hmac", "00");
    let output = run(&["-i", "--json"], &[&path]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains(".libx.so.hmac fits the old bytes only"));
    let said = json(&String::from_utf8(output.stdout).unwrap());
    assert_eq!(
        said["files"][0]["signatures_broken"][0],
        hmac.to_str().unwrap()
    );

    let path = dir.file("signed", library());
    let flags = rustix::fs::XattrFlags::empty();
    if let Err(why) = rustix::fs::setxattr(&path, "security.ima", b"\x04\x04", flags) {
        eprintln!("SKIPPED: cannot set security.ima: {why}");
        return;
    }
    refused(
        &["-i"],
        &[&path],
        "signed by its extended attribute security.ima",
    );
    assert!(fs::read(&path).unwrap() == library());
    done(&["-i", "--force"], &[&path]);
    assert_eq!(get_xattr(&path, "security.ima"), None);
}

#[test]
fn what_it_would_do_is_told_without_doing_it() {
    let dir = Dir::new();
    let path = dir.file("libx.so", library());
    let before = path.metadata().unwrap();
    let said = json(&done(&["--dry-run", "--json"], &[&path]));
    let planned = &said["files"][0];
    assert_eq!(planned["segments"][1]["align_after"], 2 * M);
    assert_eq!(
        planned["segments"][1]["offset_after"].as_u64().unwrap() % (2 * M),
        0x2800
    );
    assert_eq!(path.metadata().unwrap().ino(), before.ino());
    let disk = planned["disk_after"].as_u64().unwrap();
    let real = json(&done(&["-i", "--json", "--no-note"], &[&path]));
    assert_eq!(real["files"][0]["disk_after"], disk);
}

/// A wider p_align costs bits of address randomisation.
#[test]
fn a_file_that_gains_nothing_is_rewritten_only_on_request() {
    let dir = Dir::new();
    let small = library::library(0x5000);
    let path = dir.file("libc.so", &small);
    for args in [&["-i", "--json"][..], &["-i", "--json", "--only-gaining"]] {
        let said = json(&done(args, &[&path]));
        assert_eq!(said["files"][0]["status"], "no-gain", "{args:?}");
        assert!(fs::read(&path).unwrap() == small, "{args:?}");
    }
    let said = json(&done(&["-i", "--json", "--leaf", "64K"], &[&path]));
    assert_eq!(said["files"][0]["status"], "aligned");
    done(&["--restore", "-i"], &[&path]);
    let said = json(&done(&["-i", "--json", "--all"], &[&path]));
    assert_eq!(said["files"][0]["status"], "aligned");
}

#[test]
fn several_files_some_of_them_bad() {
    let dir = Dir::new();
    let good = dir.file("good", library());
    let script = dir.file("script", "#!/usr/bin/env python3\n");
    let cut = dir.file("cut", &library()[..5000]);
    let object = dir.file("x.o", Image::new(true, false, 1, vec![]).bytes());
    let missing = dir.0.path().join("missing");
    let output = run(
        &["-i"],
        &[&script, &cut, &object, &missing, dir.0.path(), &good],
    );
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    for words in [
        "script: is a script",
        "/usr/bin/env",
        "cut: truncated",
        "relocatable object",
        "missing: cannot open",
        "is a directory",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert!(
        fs::read(&good).unwrap() != library(),
        "the good one is aligned all the same"
    );
    assert!(fs::read(&cut).unwrap() == library()[..5000]);
    assert_eq!(names(&dir), ["cut", "good", "script", "x.o"]);
}

#[test]
fn wrong_usage_ends_with_2() {
    let dir = Dir::new();
    let path = dir.file("x", library());
    for args in [
        &["--leaf", "3M", "-i"][..],
        &["--leaf", "2K", "-i"],
        &["-i", "-o", "y"],
        &[],
        &["--backup", "-o", "y"],
        &["--backup=a/b", "-i"],
    ] {
        assert_eq!(run(args, &[&path]).status.code(), Some(2), "{args:?}");
    }
    for platform in ["foo", "linux/", "linux/arm/v7/x", "linux/arm64,foo"] {
        let args = ["--oci", "-n", "--platform", platform];
        fails(&args, &[&path], 2, "must be OS/ARCH, as linux/arm64");
    }
    refused(&["-o", path.to_str().unwrap()], &[&path], "use --in-place");
    refused(&["-o", "/dev/null"], &[&path], "no regular file");
    refused(&["-o", "/no/such/folder/x"], &[&path], "/no/such/folder");
}

#[test]
fn without_a_place_for_the_result_all_ways_to_name_one_are_said() {
    let dir = Dir::new();
    let path = dir.file("x", library());
    let missing = dir.0.path().join("missing");
    let places = "x: nothing says where the result goes: add --dry-run to see what would change, \
                  -o FILE for a copy, or --in-place to replace it";
    fails(&[], &[&path], 2, places);
    fails(&["--restore"], &[&path, &path], 2, places);
    refused(
        &[],
        &[&path, &missing],
        "missing: cannot open: No such file",
    );
    fails(&[], &[dir.0.path()], 2, "is a directory: add -r");
}

/// Small file systems and mounts, in a namespace of the test's own.
#[test]
fn full_and_read_only_file_systems_lose_nothing() {
    let dir = Dir::new();
    dir.file("lib", library());
    let script = r#"
set -e
cd "$1"
mkdir m
mount -t tmpfs -o size=8m none m
cp lib m/lib
"$2" align --in-place m/lib 2>&1 && exit 1
cmp lib m/lib
[ "$(ls -A m)" = lib ]
mkdir full
mount -t tmpfs -o size=1m none full
"$2" align lib -o full/lib 2>&1 && exit 1
mount -o remount,bind,ro m
"$2" align --in-place m/lib 2>&1 && exit 1
umount m
mount -t tmpfs -o noexec,size=64m none m
cp lib m/lib
"$2" align --in-place m/lib
mount --bind m/lib m/lib
"$2" align --restore --in-place m/lib 2>&1 && exit 1
[ "$(ls -A m)" = lib ]
echo end
"#;
    let arguments = |command: &mut Command| {
        command.arg("sh").arg(dir.0.path());
        command.arg(env!("CARGO_BIN_EXE_wideleaf"));
    };
    let Some(output) = unshared(script, arguments) else {
        return;
    };
    let said = both(&output);
    assert!(said.ends_with("end\n"), "{said}");
    for words in [
        "No space left on device",
        "disk are needed",
        "cannot write full/lib",
        "Read-only file system",
        "is covered by another file that is mounted over it",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
}

#[test]
fn without_the_right_to_keep_the_owner_nothing_changes() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("SKIPPED: needs root to make a file of another owner");
        return;
    }
    let dir = Dir::new();
    let path = dir.file("lib", library());
    fs::set_permissions(dir.0.path(), Permissions::from_mode(0o777)).unwrap();
    let program = Reachable::new();
    let output = program
        .command()
        .args(["align", "-i"])
        .arg(&path)
        .uid(65534)
        .gid(65534)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains("cannot keep the owner 0:0"), "{said}");
    assert!(fs::read(&path).unwrap() == library());
    assert_eq!(names(&dir), ["lib"]);
}

/// Between any two system calls of a run in place.
#[test]
fn killed_at_any_system_call_it_leaves_the_old_or_the_new_file_whole() {
    let dir = Dir(kill::folder());
    let small = &library::library(0x5000)[..];
    let path = dir.file("lib", small);
    fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    done(&["-i", "--all"], &[&path]);
    let new = fs::read(&path).unwrap();
    let (mut seen_old, mut seen_new) = (0, 0);
    let start = kill::start();
    for stop in (start..).step_by(kill::stride()) {
        let backup = dir.0.path().join("lib.orig");
        let _ = fs::remove_file(&backup);
        let _ = fs::remove_file(&path);
        dir.file("lib", small);
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        let mut command = wideleaf();
        command.args(["-i", "--all", "--backup"]).arg(&path);
        command.stdout(std::process::Stdio::null());
        let ended = killed_after(stop, &mut command, &[0]);
        let bytes = fs::read(&path).unwrap();
        match bytes == new {
            true => seen_new += 1,
            false => {
                assert!(
                    bytes == small,
                    "stop {stop}: neither the old nor the new file"
                );
                seen_old += 1;
            }
        }
        assert_eq!(
            path.metadata().unwrap().mode() & 0o7777,
            0o755,
            "stop {stop}"
        );
        if let Ok(bytes) = fs::read(&backup) {
            assert!(bytes == small, "stop {stop}: the backup is the old file");
        }
        // The next run ends what this one began, and clears up after it.
        done(&["-i", "--all", "--backup"], &[&path]);
        assert!(fs::read(&path).unwrap() == new, "stop {stop}");
        let names = names(&dir);
        let expected = names.iter().all(|name| name == "lib" || name == "lib.orig");
        assert!(expected, "stop {stop}: {names:?}");
        if ended {
            assert!(
                stop > start + 20,
                "there were calls to be killed at: {stop}"
            );
            break;
        }
    }
    assert!(seen_old > 5 && seen_new > 0, "{seen_old} {seen_new}");
    eprintln!("killed at {} places", seen_old + seen_new - 1);
}

/// The other ways to write: each file is one of the two that it may be, whatever the point,
/// and nothing else is left.
#[test]
fn killed_at_any_system_call_every_way_of_writing_leaves_whole_files() {
    let old = &library::library(0x5000)[..];
    let first = Dir::new();
    let path = first.file("a", old);
    done(&["-i", "--all"], &[&path]);
    let new = &fs::read(&path).unwrap()[..];
    /// The files before, the command, and what each may be afterwards.
    type Way<'a> = (&'a [u8], &'a [&'a str], &'a [&'a [u8]]);
    let ways: [Way; 3] = [
        (old, &["--all", "-o", "b", "a"], &[old]),
        (new, &["--restore", "-i", "a"], &[old, new]),
        (
            old,
            &["-i", "--all", "--hard-links", "all", "a", "b"],
            &[old, new],
        ),
    ];
    for (before, args, may) in ways {
        for stop in (kill::start()..).step_by(kill::stride()) {
            let dir = Dir(kill::folder());
            let a = dir.file("a", before);
            let b = dir.0.path().join("b");
            let linked = args.contains(&"--hard-links");
            if linked {
                fs::hard_link(&a, &b).unwrap();
            }
            let mut command = wideleaf();
            command.args(args).current_dir(dir.0.path());
            command.stdout(std::process::Stdio::null());
            let ended = killed_after(stop, &mut command, &[0]);
            let restored = args[0] == "--restore";
            let when = format!("{args:?} killed after {stop} calls");
            assert!(may.contains(&&fs::read(&a).unwrap()[..]), "{when}");
            match fs::read(&b) {
                Ok(bytes) if linked => assert!(may.contains(&&bytes[..]), "{when}"),
                Ok(bytes) => assert!(bytes == new, "{when}"),
                Err(_) => assert!(restored || !linked && !ended, "{when}"),
            }
            // Once more, and all is as if it had not been killed.
            let undone = restored && fs::read(&a).unwrap() == old;
            if !ended && !undone {
                let again = wideleaf().args(args).current_dir(dir.0.path()).output();
                assert!(again.unwrap().status.success(), "{when}");
                let (path, expected) = if restored { (&a, old) } else { (&b, new) };
                assert!(fs::read(path).unwrap() == expected, "{when}");
            }
            let others: Vec<String> = names(&dir);
            assert!(
                others.iter().all(|n| n == "a" || n == "b"),
                "{when}: {others:?}"
            );
            if ended {
                assert!(stop > 30, "{when}");
                break;
            }
        }
    }
}

#[test]
fn a_program_in_use_is_replaced_and_goes_on() {
    let dir = Dir::new();
    let path = dir.0.path().join("sleep");
    // By cp, as a file that was just written here may still be open for writing in a child of
    // another test.
    let copied = Command::new("cp").arg("/bin/sleep").arg(&path).status();
    assert!(copied.unwrap().success());
    let before = fs::read(&path).unwrap();
    let mut running = Command::new(&path).arg("60").spawn().unwrap();
    done(&["-i", "--always"], &[&path]);
    assert!(fs::read(&path).unwrap() != before);
    let exe = format!("/proc/{}/exe", running.id());
    assert!(fs::read(&exe).unwrap() == before, "it has the old file");
    assert!(running.try_wait().unwrap().is_none());
    running.kill().unwrap();
    running.wait().unwrap();
    let output = Command::new(&path).arg("0").status().unwrap();
    assert!(output.success(), "the new one runs");
}

fn set_xattr(path: &Path, name: &str, value: &[u8]) {
    rustix::fs::setxattr(path, name, value, rustix::fs::XattrFlags::empty()).unwrap();
}

fn get_xattr(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut buffer = vec![0; 256];
    let size = rustix::fs::getxattr(path, name, &mut buffer[..]).ok()?;
    buffer.truncate(size);
    Some(buffer)
}

/// Perl is on each Debian system, and its code alone has no whole block on x86-64.
#[test]
fn a_program_whose_code_and_constants_are_one_segment_runs_and_comes_back() {
    let Ok(perl) = fs::read("/usr/bin/perl") else {
        eprintln!("SKIPPED: no perl");
        return;
    };
    let dir = Dir::new();
    let path = dir.file("perl", &perl);
    fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    let plain = json(&done(&["--dry-run", "--json"], &[&path]));
    assert_eq!(
        plain["files"][0]["merged"],
        Value::Null,
        "only where asked for"
    );
    let output = run(&["--merge", "--in-place", "--json"], &[&path]);
    let said = json(&text(&output.stdout));
    let file = &said["files"][0];
    if file["merged"].is_null() {
        eprintln!("SKIPPED: nothing of this perl can be joined: {file}");
        return;
    }
    assert_eq!(file["status"], "aligned");
    let gained = |key: &str| file[key].as_u64().unwrap();
    assert!(
        gained("usable_after") >= gained("usable_before") + 2 * M,
        "{file}"
    );
    let warned = text(&output.stderr);
    assert!(warned.contains("of constants can be executed"), "{warned}");
    let script =
        r#"$_ = "a" x 9; s/a/b/g; printf "%s %d\n", $_, 6 * 7; eval { die "x\n" }; print $@"#;
    let ran = Command::new(&path).args(["-e", script]).output().unwrap();
    assert_eq!(
        text(&ran.stdout),
        "bbbbbbbbb 42\nx\n",
        "{}",
        text(&ran.stderr)
    );
    done(&["--restore", "--in-place"], &[&path]);
    assert!(fs::read(&path).unwrap() == perl);
}

#[test]
fn joining_goes_neither_with_restoring_nor_with_images() {
    let dir = Dir::new();
    let path = dir.file("libx.so", library());
    for other in ["--restore", "--oci"] {
        let output = run(&["--merge", "--in-place", other], &[&path]);
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    }
}
