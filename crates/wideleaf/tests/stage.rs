// SPDX-License-Identifier: GPL-2.0-only
//! `wideleaf stage` and `unstage`, each test in a user and mount namespace of
//! its own: what processes then map, what is left after failures and kills.

#![allow(missing_docs)]

#[path = "../../elf/tests/common/image.rs"]
#[allow(dead_code)]
mod image;
#[path = "common/kill.rs"]
mod kill;
#[path = "common/library.rs"]
mod library;
#[path = "common/room.rs"]
mod room;
#[path = "common/text.rs"]
mod text;
#[path = "common/unshared.rs"]
mod unshared;
#[path = "common/wide.rs"]
mod wide;

mod common;

use common::Reachable;
use image::{ET_DYN, Image, R, X, load};
use kill::killed_after;
use library::library;
use std::fs;
use std::path::Path;
use std::process::Command;
use unshared::{both, unshared};

const M: u64 = 1 << 20;

/// Runs a script in new namespaces, as root of these: `$W` is the command,
/// `$R` its folder, the current folder is empty and goes away. None if the
/// host has no such namespaces.
fn in_namespace(folder: &Path, script: &str) -> Option<String> {
    room::make();
    let script = format!(
        "stage() {{ \"$W\" stage --run-dir \"$R\" \"$@\" 2>&1; }}\nunstage() {{ \"$W\" unstage --run-dir \"$R\" \"$@\" 2>&1; }}\nset -e\n{script}"
    );
    let output = unshared(&script, |command| {
        command
            .current_dir(folder)
            .env("W", env!("CARGO_BIN_EXE_wideleaf"))
            .env("R", folder.join("run"));
    })?;
    let said = both(&output);
    assert!(output.status.success(), "{said}");
    Some(said)
}

/// Linked as lld links: no page of its text is congruent at 2M.
fn compile(folder: &Path, name: &str, extra: &[&str]) {
    wide::compile(folder, name, &[&["-fuse-ld=lld"], extra].concat());
}

#[test]
fn a_staged_program_maps_its_text_by_2m_leaves_under_its_own_name() {
    let dir = tempfile::tempdir().unwrap();
    compile(dir.path(), "prog", &[]);
    let script = r#"
cp prog kept
./prog
stage ./prog --size 16M
stage --list
./prog
echo x 2>/dev/null >prog && echo "written to"
mv kept prog 2>/dev/null && echo "replaced"
stage ./prog
unstage ./prog
./prog
cmp kept prog
grep -c ' - tmpfs wideleaf ' /proc/self/mountinfo || true
ls "$R" "$R/files"
"#;
    let Some(said) = in_namespace(dir.path(), script) else {
        return;
    };
    let mapped: Vec<&str> = said.lines().filter(|l| l.starts_with("text")).collect();
    assert_eq!(mapped.len(), 3, "{said}");
    assert_eq!(
        (mapped[0], mapped[2]),
        ("text /prog pmd 0 kB", "text /prog pmd 0 kB")
    );
    // 6M of text contain two whole blocks, or three.
    let wide = mapped[1] == "text /prog pmd 4096 kB" || mapped[1] == "text /prog pmd 6144 kB";
    if mapped[1].ends_with(" 0 kB") {
        eprintln!(
            "NOTE: this host maps no file of a tmpfs by 2M: {}",
            mapped[1]
        );
    } else {
        assert!(wide, "{said}");
        eprintln!("{}", mapped[1]);
    }
    assert!(said.contains("is staged already"), "{said}");
    assert!(
        !said.contains("written to") && !said.contains("replaced"),
        "{said}"
    );
    assert!(
        said.ends_with("\n0\n") || said.contains("\n0\n"),
        "nothing is mounted: {said}"
    );
    assert!(!said.contains("journal.json"), "{said}");
}

#[test]
fn an_upgrade_of_the_original_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["a", "b"] {
        fs::write(dir.path().join(name), library(5 * M)).unwrap();
    }
    // Another namespace, made before, sees the originals.
    let script = r#"
unshare -m sleep 60 >/dev/null 2>&1 &
other=$!
sleep 0.3
stage ./a ./b
cp a new
printf x >>new
nsenter -t $other -m cp "$PWD/new" "$PWD/a"
stage --list && echo "all well"
nsenter -t $other -m mv "$PWD/new" "$PWD/b"
stage --list && echo "all well"
stage ./a
stage --list && echo "well again"
unstage --all
kill $other
cat "$R/journal.json" 2>/dev/null || echo "no journal"
"#;
    let Some(said) = in_namespace(dir.path(), script) else {
        return;
    };
    assert!(said.contains("original changed"), "{said}");
    assert!(
        said.contains("a: the original is another file now"),
        "{said}"
    );
    assert!(said.contains("not mounted"), "{said}");
    assert!(
        !said.contains("all well") && said.contains("well again"),
        "{said}"
    );
    assert!(said.contains("no journal"), "{said}");
}

#[test]
fn what_cannot_be_staged_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| fs::write(dir.path().join(name), bytes).unwrap();
    file("good", &library(5 * M));
    file("small", &library(0x3000));
    file("script", b"#!/bin/sh\nexit 0\n");
    let script = r#"
fails() { "$@" && echo "NOT REFUSED: $*"; true; }
chmod +x script
cp good su; chmod u+s su
fails stage ./good --size 4M
fails stage ./good --memory 4M
fails stage ./good ./missing
fails stage ./good ./script
fails stage ./good ./su
fails stage ./small
fails unstage ./good
./script
mkdir ro; mount -t tmpfs none ro; mount -o remount,bind,ro ro
fails "$W" stage --run-dir ro/run ./good 2>&1
ls -A "$R"
grep -c ' - tmpfs wideleaf ' /proc/self/mountinfo || true
"#;
    let Some(said) = in_namespace(dir.path(), script) else {
        return;
    };
    assert!(!said.contains("NOT REFUSED"), "{said}");
    for words in [
        "of huge pages, --size is 4M",
        "of memory, --memory is 4M",
        "missing: No such file",
        "script: is a script, not an ELF file",
        "su: is setuid",
        "nothing to stage",
        "good: is not staged",
        "Read-only file system",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert!(said.ends_with("files\nlock\n0\n"), "{said}");
}

#[test]
fn static_and_32_bit_programs_and_missing_interpreters() {
    let dir = tempfile::tempdir().unwrap();
    compile(dir.path(), "prog", &["-static"]);
    let mut small = Image::new(false, false, ET_DYN, vec![load(R | X, 0, 0, 5 * M, 0x1000)]);
    small.machine = 3;
    fs::write(dir.path().join("narrow"), small.bytes()).unwrap();
    let script = r#"
stage --libs ./prog
./prog
stage ./narrow
unstage --all
printf '#include <stdio.h>\nint main(void) { return 0; }' >x.c
gcc -Wl,--dynamic-linker=/no/such/ld.so -o x x.c
stage --libs --always ./x && exit 1
ls "$R"
"#;
    let Some(said) = in_namespace(dir.path(), script) else {
        return;
    };
    assert!(
        said.contains("its interpreter /no/such/ld.so: No such file"),
        "{said}"
    );
    assert!(said.ends_with("files\nlock\n"), "{said}");
}

#[test]
fn without_rights_it_says_so_and_does_nothing() {
    use std::os::unix::process::CommandExt;
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("lib"), library(5 * M)).unwrap();
    let program = Reachable::new();
    let mut command = program.command();
    command
        .args(["stage", "--run-dir", "/run/wideleaf-test"])
        .arg(dir.path().join("lib"));
    if nix::unistd::geteuid().is_root() {
        command.uid(65534).gid(65534);
    }
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = both(&output);
    assert!(
        said.contains("run as root") || said.contains("Permission denied"),
        "{said}"
    );
    assert!(!Path::new("/run/wideleaf-test").exists());
}

#[test]
fn units_name_the_programs_in_full() {
    let print = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wideleaf"));
        let output = command.arg("stage").args(args).output().unwrap();
        assert!(output.status.success(), "{}", both(&output));
        both(&output)
    };
    let unit = print(&[
        "--print",
        "unit",
        "--libs",
        "--size",
        "64M",
        "/bin/100% a\"b",
    ]);
    let words = "stage \"--libs\" \"--size=67108864\" \"/bin/100%% a\\\"b\"";
    assert!(unit.contains(words), "{unit}");
    let drop_in = print(&["--print", "drop-in", "--service", "x.service", "/bin/sh"]);
    assert!(drop_in.contains("/x.service.d/") && drop_in.contains("After=wideleaf-stage.service"));
    assert!(print(&["--print", "apt", "/bin/sh"]).contains("unstage --force --dpkg"));
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("wideleaf-stage.service");
    fs::write(&path, print(&["--print", "unit", "/bin/sh"])).unwrap();
    if let Ok(output) = Command::new("systemd-analyze")
        .arg("verify")
        .arg(&path)
        .output()
    {
        let said = both(&output);
        // The manual page is there only if it was installed.
        let wrong =
            |line: &&str| line.contains("wideleaf-stage.service:") && !line.contains("'man ");
        assert_eq!(said.lines().find(wrong), None);
    }
}

#[test]
fn killed_after_any_system_call_nothing_stays_half_staged() {
    let exe = std::env::current_exe().unwrap();
    let output = Command::new("unshare")
        // With no other processes: unstage looks at each, by several system calls.
        .args(["-rmpf", "--mount-proc"])
        .arg(exe)
        .args(["--exact", "--ignored", "--nocapture", "kill_in_namespace"])
        .output()
        .unwrap();
    let said = both(&output);
    if ["unshare failed", "mount /proc failed"]
        .iter()
        .any(|why| said.contains(why))
    {
        eprintln!("SKIPPED: no user namespaces here: {said}");
        return;
    }
    assert!(output.status.success(), "{said}");
    assert!(said.contains("1 passed"), "{said}");
}

#[test]
#[ignore = "mounts; run by the test above in a namespace"]
fn kill_in_namespace() {
    let dir = tempfile::tempdir().unwrap();
    let small = library(0x3000);
    let paths = ["a", "b"].map(|name| dir.path().join(name));
    for path in &paths {
        fs::write(path, &small).unwrap();
    }
    let run = dir.path().join("run");
    let command = |args: &[&str], files: bool| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wideleaf"));
        command.args(args).arg("--run-dir").arg(&run);
        command.args(if files { &paths[..] } else { &[] });
        command.stdout(std::process::Stdio::null());
        command
    };
    let done =
        |args: &[&str], files: bool| assert!(command(args, files).status().unwrap().success());
    done(&["stage", "--always"], true);
    let aligned = fs::read(&paths[0]).unwrap();
    assert!(aligned != small);
    done(&["unstage", "--all"], false);
    let whole = |when: &str| {
        for path in &paths {
            let bytes = fs::read(path).unwrap();
            assert!(
                bytes == small || bytes == aligned,
                "{when}: {path:?} is neither"
            );
        }
    };
    let clean = |when: &str| {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        assert!(!mounts.contains(" wideleaf "), "{when}: {mounts}");
        assert!(!run.join("journal.json").exists(), "{when}");
        for path in &paths {
            assert!(fs::read(path).unwrap() == small, "{when}");
        }
    };
    let start = kill::start();
    for calls in (start..).step_by(kill::stride()) {
        let ended = killed_after(calls, &mut command(&["stage", "--always"], true), &[0]);
        let when = format!("stage killed after {calls} calls");
        whole(&when);
        done(&["unstage", "--all"], false);
        clean(&when);
        if ended {
            assert!(calls > start + 50, "{calls}");
            break;
        }
    }
    for calls in (start..).step_by(kill::stride()) {
        done(&["stage", "--always"], true);
        let ended = killed_after(calls, &mut command(&["unstage", "--all"], false), &[0]);
        let when = format!("unstage killed after {calls} calls");
        whole(&when);
        done(&["unstage", "--all"], false);
        clean(&when);
        if ended {
            assert!(calls > start + 20, "{calls}");
            break;
        }
    }
}

/// The kernel charges what the command itself allocates to the group of the copies.
#[test]
fn a_copy_needs_no_more_memory_than_its_checked_limit() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("lib"), library(60 * M)).unwrap();
    let script = r#"
stage ./lib --memory 66M
stage --list
unstage --all
"#;
    let script = format!(
        "stage() {{ \"$W\" stage --run-dir \"$R\" \"$@\" 2>&1; }}\nunstage() {{ \"$W\" unstage --run-dir \"$R\" \"$@\" 2>&1; }}\nset -e\n{script}"
    );
    let output = Command::new("unshare")
        .args(["-m", "sh", "-c", &script])
        .current_dir(dir.path())
        .env("W", env!("CARGO_BIN_EXE_wideleaf"))
        .env("R", dir.path().join("run"))
        .output()
        .unwrap();
    let said = both(&output);
    if ["unshare failed", "--memory cannot be kept"]
        .iter()
        .any(|why| said.contains(why))
    {
        eprintln!("SKIPPED: no root, or no memory groups: {said}");
        return;
    }
    assert!(output.status.success(), "{said}");
    assert!(said.contains("memory limit 66M"), "{said}");
}

#[test]
fn what_processes_use_keeps_a_name_and_is_counted_until_they_end() {
    let dir = tempfile::tempdir().unwrap();
    compile(dir.path(), "waits", &[]);
    let script = r#"
stage ./waits
mkfifo in
./waits line <in >/dev/null & pid=$!
exec 3>in
sleep 0.5
mount --make-shared / && mount --make-shared "$PWD" 2>/dev/null || true
unstage ./waits && echo "NOT REFUSED"
mount --make-private / && mount --make-private "$PWD" 2>/dev/null || true
unstage ./waits
echo "name $(readlink /proc/$pid/exe)"
cmp "$(readlink /proc/$pid/exe)" /proc/$pid/exe && echo "same file"
stage --list
stage ./waits
exec 3>&-
wait $pid
unstage --all
ls "$R"
grep -c ' - tmpfs wideleaf ' /proc/self/mountinfo || true
"#;
    let Some(said) = in_namespace(dir.path(), script) else {
        return;
    };
    assert!(!said.contains("NOT REFUSED"), "{said}");
    assert!(said.contains("waits: is used by process"), "{said}");
    assert!(said.contains("/in-use/"), "{said}");
    assert!(said.contains("same file"), "{said}");
    assert!(said.contains("still: 1\n"), "{said}");
    assert!(said.ends_with("files\nlock\n0\n"), "{said}");
}

#[test]
fn names_that_are_no_text_are_staged_and_told() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let dir = tempfile::tempdir().unwrap();
    let name = OsStr::from_bytes(b"a\xff\nb");
    fs::write(dir.path().join(name), library(5 * M)).unwrap();
    let script = r#"
stage --json ./a*
stage --list
unstage --all
unstage ./a* || true
"#;
    let Some(said) = in_namespace(dir.path(), script) else {
        return;
    };
    assert!(said.contains("\"path_bytes\""), "{said}");
    assert!(said.contains("\"phase\":\"staged\""), "{said}");
    assert!(said.contains("a\u{fffd}\\x0ab: is not staged"), "{said}");
}

#[test]
fn what_is_left_after_a_kill_or_a_lazy_unmount_is_told_and_removed() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a"), library(5 * M)).unwrap();
    let script = r#"
mkdir -p "$R"
echo x >"$R/.wideleaf-AbCdEf"
stage ./a
ls -A "$R"
umount -l "$R/files"
stage --list
unstage --all
"#;
    let Some(said) = in_namespace(dir.path(), script) else {
        return;
    };
    assert!(!said.contains(".wideleaf-"), "{said}");
    assert!(
        said.contains("6M of 6M used") || said.contains("8M of 8M used"),
        "{said}"
    );
}

#[test]
fn a_layer_of_an_overlay_is_staged_with_a_warning() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("lower")).unwrap();
    fs::write(dir.path().join("lower/a"), library(5 * M)).unwrap();
    let script = r#"
mkdir upper
mount -t tmpfs none upper
mkdir upper/u upper/w merged
mount -t overlay -o lowerdir="$PWD/lower",upperdir=upper/u,workdir=upper/w none merged || { echo "no overlay here"; exit 0; }
stage ./lower/a
unstage --all
"$W" align -n merged/a
"#;
    let Some(said) = in_namespace(dir.path(), script) else {
        return;
    };
    if said.contains("no overlay here") {
        eprintln!("SKIPPED: {said}");
        return;
    }
    assert!(said.contains("is in a layer of the overlay at"), "{said}");
}

#[test]
fn align_does_not_take_a_copy_for_the_original() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a"), library(5 * M)).unwrap();
    let script = r#"
stage ./a
"$W" align -i ./a 2>&1 && echo "NOT REFUSED"
unstage --all
cp ./a su; chmod u+s su
stage ./su && echo "NOT REFUSED"
true
"#;
    let Some(said) = in_namespace(dir.path(), script) else {
        return;
    };
    assert!(!said.contains("NOT REFUSED"), "{said}");
    assert!(said.contains("is covered by another file"), "{said}");
    assert!(
        said.contains("is setuid\n") && !said.contains("--force"),
        "{said}"
    );
}
