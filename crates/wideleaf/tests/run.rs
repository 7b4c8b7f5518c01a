// SPDX-License-Identifier: GPL-2.0-only
//! `wideleaf run`: the program is what it would be without, and its text is
//! mapped wide where this machine allows it.

#[path = "../../elf/tests/common/image.rs"]
#[allow(dead_code)]
mod image;
#[path = "common/room.rs"]
mod room;
#[path = "common/text.rs"]
mod text;
#[path = "common/unshared.rs"]
mod unshared;

mod common;

use common::Reachable;
use image::{ET_EXEC, Image, R, X, load};
use std::fs::{self, File, Permissions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use text::text;
use unshared::{both, unshared};
use wideleaf_kit::script::script;

const M: u64 = 1 << 20;
const WIDELEAF: &str = env!("CARGO_BIN_EXE_wideleaf");

/// `wideleaf run OPTIONS -- COMMAND`.
fn under(options: &[&str], command: &[&str]) -> Command {
    let mut run = Command::new(WIDELEAF);
    run.args(["run", "--reclaim"]);
    run.args(options).arg("--").args(command);
    run
}

fn plainly(command: &[&str]) -> Command {
    let mut run = Command::new(command[0]);
    run.args(&command[1..]);
    run
}

/// The program sees the same with and without `run`.
fn same(command: &[&str], change: impl Fn(&mut Command)) -> Output {
    let output = |mut run: Command| {
        change(&mut run);
        run.output().unwrap()
    };
    let (run, plain) = (
        output(under(&["--quiet"], command)),
        output(plainly(command)),
    );
    assert_eq!(text(&run.stdout), text(&plain.stdout), "{command:?}");
    assert_eq!(text(&run.stderr), text(&plain.stderr), "{command:?}");
    assert_eq!(
        run.status.into_raw(),
        plain.status.into_raw(),
        "{command:?}"
    );
    run
}

#[test]
fn status_arguments_streams_and_signals_pass_through() {
    let nothing = |_: &mut Command| {};
    same(&["sh", "-c", "echo out; echo err >&2; exit 7"], nothing);
    let killed = same(&["sh", "-c", "kill -TERM $$"], nothing);
    assert_eq!(killed.status.signal(), Some(15));
    let named = same(&["cat", "/proc/self/cmdline", "--", "/dev/null"], nothing);
    assert!(
        text(&named.stdout).starts_with("cat\0"),
        "argv[0] is what was given"
    );
    same(
        &["sh", "-c", "ls /proc/self/fd; readlink /proc/self/fd/9"],
        |run| {
            let file = File::open("/dev/zero").unwrap();
            // SAFETY: dup2(2) may be called between fork and exec.
            unsafe {
                run.pre_exec(move || {
                    nix::errno::Errno::result(nix::libc::dup2(file.as_raw_fd(), 9))
                        .map(drop)
                        .map_err(Into::into)
                })
            };
        },
    );
    same(&["sh", "-c", "env | sort; pwd; umask; ulimit -a"], |run| {
        run.env("X", "a b").current_dir("/usr");
    });
}

/// Rust's runtime changes both before main().
#[test]
fn closed_streams_and_ignored_signals_are_what_they_were() {
    let status = ["grep", "^Sig[PBIC]", "/proc/self/status"];
    same(&status, |_| {});
    same(&status, |run| {
        // SAFETY: signal(2) and sigprocmask(2) may be called between fork and
        // exec; no handler of ours is set.
        unsafe {
            run.pre_exec(|| {
                use nix::sys::signal::{SigHandler, SigSet, Signal, signal};
                for ignored in [Signal::SIGPIPE, Signal::SIGHUP] {
                    signal(ignored, SigHandler::SigIgn)?;
                }
                let mut blocked = SigSet::empty();
                blocked.add(Signal::SIGUSR1);
                blocked.thread_block()?;
                Ok(())
            })
        };
    });
    same(&["sh", "-c", "ls /proc/self/fd"], |run| {
        // SAFETY: close(2) may be called between fork and exec.
        unsafe {
            run.pre_exec(|| {
                nix::errno::Errno::result(nix::libc::close(0))
                    .map(drop)
                    .map_err(Into::into)
            })
        };
    });
}

#[test]
fn what_cannot_be_helped_runs_and_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        script(&path, text);
        path.to_str().unwrap().to_owned()
    };
    let cases = [
        (
            file("script", "#!/bin/sh\necho ran\n"),
            "is a script, or no ELF program; it runs as it is: name the interpreter of a script by \
             --with, as --with python3",
        ),
        (file("nameless", "echo ran\n"), "is a script"),
    ];
    for (program, why) in cases {
        let output = under(&[], &[&program]).output().unwrap();
        assert_eq!(text(&output.stdout), "ran\n", "{program}");
        assert!(
            text(&output.stderr).contains(why),
            "{}",
            text(&output.stderr)
        );
        let quiet = under(&["-q"], &[&program]).output().unwrap();
        assert_eq!(text(&quiet.stderr), "");
    }
    let small = under(&[], &["true"]).output().unwrap();
    assert!(small.status.success());
    let said = text(&small.stderr);
    assert!(said.contains("no whole block"), "{said}");
    assert!(!said.contains("linking it anew"), "it is too small: {said}");

    let missing = under(&[], &["/no/such/program"]).output().unwrap();
    assert_eq!(missing.status.code(), Some(127));
    assert!(text(&missing.stderr).contains("No such file"));
    let folder = dir.path().to_str().unwrap();
    let unfit = dir.path().join("unfit");
    fs::write(&unfit, "x").unwrap();
    let no_program = [
        (
            unfit.to_str().unwrap().to_owned(),
            "unfit: is not executable: chmod +x makes it so",
        ),
        (folder.to_owned(), ": is a directory: name a program"),
    ];
    for (path, why) in no_program {
        let unfit = under(&[], &[&path]).output().unwrap();
        assert_eq!(unfit.status.code(), Some(126));
        assert!(text(&unfit.stderr).contains(why), "{}", text(&unfit.stderr));
    }
    assert_eq!(under(&[], &[]).output().unwrap().status.code(), Some(2));
}

/// A program of 8M at a fixed address that touches each block of its text and
/// then waits: a loop over `mov al, [rsi]`, then pause(2).
#[rustfmt::skip]
const TOUCH: [u8; 30] = [
    0xbe, 0x00, 0x00, 0x60, 0x00,
    0x8a, 0x06,
    0x81, 0xc6, 0x00, 0x00, 0x20, 0x00,
    0x81, 0xfe, 0x00, 0x00, 0xc0, 0x00,
    0x72, 0xf0,
    0xb8, 0x22, 0x00, 0x00, 0x00,
    0x0f, 0x05,
    0xeb, 0xf7,
];
const ENTRY: u64 = 0x1000;

fn toucher(dir: &Path) -> PathBuf {
    toucher_at(dir, 0)
}

/// The same at this offset of the file.
fn toucher_at(dir: &Path, offset: u64) -> PathBuf {
    let path = dir.join("toucher");
    write_toucher(&path, offset, &[]);
    path
}

/// And with more segments.
fn write_toucher(path: &Path, offset: u64, more: &[image::Program]) {
    let mut programs = vec![load(R | X, offset, 0x40_0000, 8 * M, 4096)];
    programs.extend(more);
    let mut bytes = Image::new(true, false, ET_EXEC, programs).bytes();
    bytes[24..32].copy_from_slice(&(0x40_0000 + ENTRY).to_le_bytes());
    let at = (offset + ENTRY) as usize;
    bytes[at..at + TOUCH.len()].copy_from_slice(&TOUCH);
    fs::write(path, bytes).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
}

/// Longer than a busy machine may take for anything here.
const PATIENCE: Duration = Duration::from_secs(300);

/// The program runs under its own name.
fn wait_for(child: &Child, path: &Path) {
    let start = Instant::now();
    let exe = format!("/proc/{}/exe", child.id());
    let waits = format!("/proc/{}/wchan", child.id());
    while fs::read_link(&exe).ok().as_deref() != Some(path)
        || fs::read_to_string(&waits).is_ok_and(|w| w == "0")
    {
        assert!(
            start.elapsed() < PATIENCE,
            "{exe} is {:?}",
            fs::read_link(&exe)
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(100));
}

/// Bytes of `ShmemPmdMapped`: ext4 has large folios of its own, at times.
fn wide(pid: u32) -> u64 {
    let smaps = fs::read_to_string(format!("/proc/{pid}/smaps")).unwrap();
    let counts = smaps
        .lines()
        .filter_map(|l| l.strip_prefix("ShmemPmdMapped:"));
    let kib = counts.map(|n| n.trim().trim_end_matches(" kB").parse::<u64>().unwrap());
    kib.sum::<u64>() << 10
}

/// A folder that others may enter.
fn open_dir() -> tempfile::TempDir {
    // Not below /tmp, over which the tmpfs may be mounted while it is filled, nor in cargo's
    // folder, which may lie in root's own.
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    dir
}

fn here() -> bool {
    let sizes = wideleaf_procmap::sizes("/sys".as_ref());
    let fits = cfg!(target_arch = "x86_64") && sizes == (4096, 2 << 20);
    if !fits {
        eprintln!("SKIPPED: the program of this test is for x86-64");
    }
    room::make();
    fits
}

/// Mounts outside that can be of a `run` with a program in `folder`: others mount on this machine,
/// too.
fn mounts(folder: &Path) -> Vec<String> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let places =
        ["/tmp", "/mnt", "/run", "/var/tmp", "/dev/shm"].map(|at| format!("wideleaf {at} "));
    let is = |line: &&str| {
        line.contains(folder.to_str().unwrap()) || places.iter().any(|at| line.starts_with(at))
    };
    mounts.lines().filter(is).map(str::to_owned).collect()
}

fn end(mut child: Child) -> String {
    child.kill().unwrap();
    text(&child.wait_with_output().unwrap().stderr)
}

/// Starts the toucher, as root or not, and looks at what it became.
fn touches_wide(user: Option<u32>, offset: u64) {
    let dir = open_dir();
    let path = toucher_at(dir.path(), offset);
    let program = Reachable::new();
    let mut run = program.command();
    run.args([
        "run",
        "--reclaim",
        "--verbose",
        "--means",
        "namespace",
        "--",
    ]);
    run.arg(&path);
    run.stderr(Stdio::piped()).current_dir("/usr");
    if let Some(user) = user {
        run.uid(user).gid(user);
    }
    let child = run.spawn().unwrap();
    wait_for(&child, &path);
    let pid = child.id();
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    assert!(!maps.contains("rwx"), "{maps}");
    assert!(
        maps.contains(path.to_str().unwrap()),
        "it is a file to debuggers: {maps}"
    );
    let folder = fs::read_link(format!("/proc/{pid}/cwd")).unwrap();
    let wide = wide(pid);
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let children =
        fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let said = end(child);
    if said.contains("runs as it is") && said.contains("namespace: no ") {
        eprintln!("SKIPPED: {said}");
        return;
    }
    assert_eq!(wide, 8 * M, "{said}");
    assert!(said.contains("leaves of 2M map 8M of the 8M"), "{said}");
    assert_eq!(folder, Path::new("/usr"));
    assert_eq!(children.trim(), "", "a process stays");
    if let Some(user) = user {
        assert!(
            status.contains(&format!("Uid:\t{user}\t{user}")),
            "{status}"
        );
        assert!(status.contains("CapEff:\t0000000000000000"), "{status}");
    }
    assert_eq!(mounts(dir.path()), Vec::<String>::new());
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn text_is_wide_in_a_mount_namespace() {
    if here() && nix::unistd::geteuid().is_root() {
        touches_wide(None, 0);
    }
}

#[test]
fn text_is_wide_without_root() {
    if here() {
        let root = nix::unistd::geteuid().is_root();
        touches_wide(root.then_some(65_534), 0);
    }
}

#[test]
fn text_that_is_not_congruent_is_aligned_first() {
    if here() {
        let root = nix::unistd::geteuid().is_root();
        touches_wide(root.then_some(65_534), 0x3000);
    }
}

#[test]
fn what_copies_cost_at_each_start_is_said_unless_they_were_asked_for() {
    if !here() {
        return;
    }
    let dir = open_dir();
    // Only copies widen text that is not congruent.
    let path = toucher_at(dir.path(), 0x3000);
    let said = |options: &[&str]| {
        let mut run = under(options, &[path.to_str().unwrap()]);
        let child = run.stderr(Stdio::piped()).spawn().unwrap();
        wait_for(&child, &path);
        end(child)
    };
    let plainly = said(&[]);
    if plainly.contains("runs as it is") {
        eprintln!("SKIPPED: {plainly}");
        return;
    }
    assert!(
        plainly.contains("ms of CPU time, as they do at each start: a run that takes less than"),
        "{plainly}"
    );
    for asked in [&["--quiet"][..], &["--means", "namespace"]] {
        assert_eq!(said(asked), "");
    }
}

#[test]
fn a_limit_that_is_too_small_or_means_that_fail_leave_the_program_alone() {
    if !here() {
        return;
    }
    let dir = open_dir();
    let path = toucher(dir.path());
    for (options, why) in [
        (
            &["--limit", "4M", "--means", "namespace"][..],
            "copies would take 8M, the limit is 4M",
        ),
        (&["--means", "tunable"], "it has no dynamic loader"),
        (&["--limit", "4K", "--means", "collapse"], "collapse: "),
    ] {
        let mut run = under(options, &[path.to_str().unwrap()]);
        let child = run.stderr(Stdio::piped()).spawn().unwrap();
        wait_for(&child, &path);
        let namespace = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/mnt")).unwrap();
        assert_eq!(
            namespace(&child.id().to_string()),
            namespace("self"),
            "{options:?}"
        );
        let said = end(child);
        assert!(
            said.contains(why) && said.contains("it runs as it is"),
            "{options:?}: {said}"
        );
    }
}

/// The program's mappings of its own file, by PMDs: `FilePmdMapped`.
fn file_wide(pid: u32) -> u64 {
    let smaps = fs::read_to_string(format!("/proc/{pid}/smaps")).unwrap();
    let counts = smaps
        .lines()
        .filter_map(|l| l.strip_prefix("FilePmdMapped:"));
    let kib = counts.map(|n| n.trim().trim_end_matches(" kB").parse::<u64>().unwrap());
    kib.sum::<u64>() << 10
}

#[test]
fn a_file_that_no_other_process_maps_is_filled_and_not_copied() {
    if !here() {
        return;
    }
    let dir = open_dir();
    let path = toucher(dir.path());
    File::open(&path).unwrap().sync_all().unwrap();
    let start = |options: &[&str]| {
        let mut run = under(options, &[path.to_str().unwrap()]);
        let child = run.stderr(Stdio::piped()).spawn().unwrap();
        wait_for(&child, &path);
        child
    };
    let child = start(&["--verbose"]);
    let pid = child.id();
    let (wide, copied) = (file_wide(pid), wide(pid));
    let namespace = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/mnt")).unwrap();
    let same = namespace(&pid.to_string()) == namespace("self");
    let said = end(child);
    if !said.contains("its own folios") {
        eprintln!("SKIPPED: {said}");
        return;
    }
    assert_eq!((wide, copied), (8 * M, 0), "{said}");
    assert!(same, "it needs no namespace");

    // It finds them the next time, and nothing is said of what costs nothing.
    let child = start(&[]);
    let wide = file_wide(child.id());
    assert_eq!((wide, end(child).as_str()), (8 * M, ""));
}

#[test]
fn a_file_that_another_process_maps_is_not_dropped() {
    if !here() {
        return;
    }
    let dir = open_dir();
    let path = toucher(dir.path());
    File::open(&path).unwrap().sync_all().unwrap();
    let sizes = wideleaf_fill::Geometry::here().unwrap();
    let text = wideleaf_fill::Text::read(&path, &path, sizes.page, sizes.pmd).unwrap();
    wideleaf_fill::narrow(&text, &sizes).unwrap();
    let other = plainly(&[path.to_str().unwrap()]).spawn().unwrap();
    wait_for(&other, &path);
    let mut run = under(&["--means", "fill"], &[path.to_str().unwrap()]);
    let child = run.stderr(Stdio::piped()).spawn().unwrap();
    wait_for(&child, &path);
    let said = end(child);
    end(other);
    assert!(
        said.contains("fill: in-use") && said.contains("it runs as it is"),
        "{said}"
    );
}

/// Privileges that a copy would not have.
#[test]
fn setuid_programs_are_left_alone() {
    if !here() {
        return;
    }
    let dir = open_dir();
    let path = toucher(dir.path());
    fs::set_permissions(&path, Permissions::from_mode(0o4755)).unwrap();
    let mut run = under(&[], &[path.to_str().unwrap()]);
    let child = run.stderr(Stdio::piped()).spawn().unwrap();
    wait_for(&child, &path);
    assert!(end(child).contains("is setuid"));
}

/// A script in namespaces of its own, as root of these: `$W` is the command, `$P` the toucher, the
/// current folder is the toucher's. None if the host has no such namespaces.
fn in_namespace(script: &str) -> Option<Output> {
    let dir = open_dir();
    let path = toucher(dir.path());
    unshared(script, |command| {
        command
            .current_dir(dir.path())
            .env("W", WIDELEAF)
            .env("P", path);
    })
}

/// Starts a command in a script, waits until it has become the toucher, however long that takes,
/// leaves it a second to go wrong, and ends it: 143, SIGTERM's, is the status of one that still ran.
const WATCH: &str = r#"
is() { grep -q "$1" /proc/$pid/$2 2>/dev/null; }
watch() {
    "$@" &
    pid=$!
    until is '^toucher$' comm || is '^State:.[ZX]' status || [ ! -e /proc/$pid ]; do sleep 0.05; done
    sleep 1
    kill $pid
    wait $pid
}
"#;

/// A process that `script` starts by `watch` and `run` still runs after a second, and `run` says
/// these words.
fn still_runs(script: &str, words: &[&str]) {
    let Some(output) = in_namespace(&format!("{WATCH}{script}")) else {
        return;
    };
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(143), "{script}: {said}");
    for word in words {
        assert!(said.contains(word), "{script}: {word}: {said}");
    }
}

#[test]
fn without_thp_it_says_so_and_the_program_runs() {
    if !here() {
        return;
    }
    // The kernel still has them; what tells so is not there.
    still_runs(
        r#"mount -t tmpfs none /sys/kernel/mm && watch "$W" run --verbose "$P""#,
        &["toucher: "],
    );
}

#[test]
fn a_program_on_a_read_only_file_system_is_widened_too() {
    if here() {
        still_runs(
            r#"mkdir ro && mount -t tmpfs none ro && cp "$P" ro/ && mount -o remount,bind,ro ro &&
               watch "$W" run --verbose --means namespace ro/toucher"#,
            &["leaves of 2M map 8M of the 8M"],
        );
    }
}

#[test]
fn no_file_system_but_the_tmpfs_needs_room() {
    if here() {
        still_runs(
            // The program may lie below /tmp itself.
            r#"cp "$W" wideleaf
               for place in /tmp /run /dev/shm; do
                 mount -t tmpfs -o size=4k none $place && head -c 4096 /dev/zero >$place/full
               done
               watch ./wideleaf run --verbose --means namespace "$P""#,
            &["leaves of 2M map 8M of the 8M"],
        );
    }
}

/// Aligned, headers, text and constants lie in blocks of their own: more than the file's
/// size tells.
#[test]
fn a_tmpfs_that_is_too_small_after_all_does_no_harm() {
    if !here() {
        return;
    }
    let dir = open_dir();
    let path = dir.path().join("toucher");
    let constants = load(R, 0x80_5000, 0x1c0_7000, 0x1000, 4096);
    write_toucher(&path, 0x3000, &[constants]);
    let mut run = under(
        &["--verbose", "--means", "namespace", "--limit", "10M"],
        &[path.to_str().unwrap()],
    );
    let child = run.stderr(Stdio::piped()).spawn().unwrap();
    wait_for(&child, &path);
    let said = end(child);
    // Where the kernel takes single pages for what is left, it fits.
    let words = ["No space left on device", "leaves of 2M map"];
    assert!(words.iter().any(|word| said.contains(word)), "{said}");
}

/// Whether this kernel starts 32-bit programs or not, it is the same with `run`.
#[test]
fn programs_of_32_bits_run_as_they_would() {
    if !here() {
        return;
    }
    // exit(7)
    #[rustfmt::skip]
    const EXIT: [u8; 12] = [0xb8, 1, 0, 0, 0, 0xbb, 7, 0, 0, 0, 0xcd, 0x80];
    let dir = open_dir();
    for offset in [0, 0x3000] {
        let text = load(R | X, offset, 0x40_0000, 8 * M, 4096);
        let mut image = Image::new(false, false, ET_EXEC, vec![text]);
        image.machine = 3;
        let mut bytes = image.bytes();
        bytes[24..28].copy_from_slice(&(0x40_0000 + ENTRY as u32).to_le_bytes());
        let at = (offset + ENTRY) as usize;
        bytes[at..at + EXIT.len()].copy_from_slice(&EXIT);
        let path = dir.path().join(format!("narrow-{offset}"));
        fs::write(&path, bytes).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        let name = path.to_str().unwrap();
        let output = under(&["--verbose"], &[name]).output().unwrap();
        let said = both(&output);
        match plainly(&[name]).status() {
            Ok(plain) => {
                assert_eq!(plain.code(), Some(7));
                assert_eq!(output.status.code(), Some(7), "{said}");
            }
            // CONFIG_IA32_EMULATION is not set.
            Err(_) => assert_eq!(output.status.code(), Some(126), "{said}"),
        }
        assert!(said.contains("narrow-"), "{said}");
    }
}

/// make and its kin start the programs that matter, more than once.
#[test]
fn programs_that_the_command_starts_share_a_copy() {
    if !here() {
        return;
    }
    let dir = open_dir();
    let path = toucher(dir.path());
    let name = path.to_str().unwrap();
    let make = dir.path().join("make");
    script(&make, &format!("#!/bin/sh\n{name} & {name} & wait\n"));
    let options = ["--verbose", "--means", "namespace", "--with", name];
    let mut run = under(&options, &[make.to_str().unwrap()]);
    let mut child = run.stderr(Stdio::piped()).spawn().unwrap();
    let started = || -> Vec<u32> {
        let pids = fs::read_dir("/proc").unwrap().flatten();
        let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let is_ours =
            |pid: &u32| fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|e| e == path);
        pids.filter(is_ours).collect()
    };
    let begin = Instant::now();
    // Each has touched its text.
    while started().iter().filter(|pid| wide(**pid) == 8 * M).count() < 2 {
        let late = begin.elapsed() > PATIENCE;
        if late || child.try_wait().unwrap().is_some() {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let pids = started();
    let leaves: Vec<u64> = pids.iter().map(|pid| wide(*pid)).collect();
    let inode = |pid: &u32| {
        use std::os::unix::fs::MetadataExt;
        let exe = fs::metadata(format!("/proc/{pid}/exe")).unwrap();
        (exe.dev(), exe.ino())
    };
    let copies: std::collections::HashSet<_> = pids.iter().map(inode).collect();
    for pid in &pids {
        let pid = nix::unistd::Pid::from_raw(*pid as i32);
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL);
    }
    let said = end(child);
    if said.contains("namespace: no ") {
        eprintln!("SKIPPED: {said}");
        return;
    }
    assert_eq!(leaves, [8 * M, 8 * M], "{said}");
    assert_eq!(copies.len(), 1, "one file for both");

    let missing = under(&["--with", "/no/such"], &["true"]).output().unwrap();
    assert!(missing.status.success());
    let said = text(&missing.stderr);
    assert!(said.contains("--with /no/such: no program"), "{said}");
}

/// As container runtimes and administrators do it.
#[test]
fn where_namespaces_are_forbidden_it_runs_as_it_is() {
    let forbid = "echo 0 > /proc/sys/user/max_mnt_namespaces && exec \"$@\"";
    let run = |inner: &[&str]| {
        Command::new("unshare")
            .args(["--user", "--map-root-user", "sh", "-c", forbid, "sh"])
            .args(inner)
            .output()
            .unwrap()
    };
    if !here() || !run(&["true"]).status.success() {
        eprintln!("SKIPPED: no user namespaces, or no util-linux");
        return;
    }
    let dir = open_dir();
    let path = toucher(dir.path());
    let path = path.to_str().unwrap();
    let script = format!("{WATCH}watch \"$@\"");
    let output = run(&[
        "sh",
        "-c",
        &script,
        "sh",
        WIDELEAF,
        "run",
        "--reclaim",
        "--means",
        "namespace",
        path,
    ]);
    let said = text(&output.stderr);
    assert_eq!(
        output.status.code(),
        Some(143),
        "it ran until it was ended: {said}"
    );
    assert!(said.contains("no mount namespace: ENOSPC"), "{said}");
    assert!(said.contains("it runs as it is"), "{said}");
}

#[test]
fn a_mount_that_forbids_execution_still_does() {
    if !here() || !nix::unistd::geteuid().is_root() {
        return;
    }
    let dir = open_dir();
    let path = toucher(dir.path());
    let script =
        "mount -t tmpfs -o noexec,size=32M none /mnt && cp \"$1\" /mnt/ && \"$2\" run /mnt/toucher";
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", script, "sh"])
        .args([path.to_str().unwrap(), WIDELEAF])
        .output()
        .unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(126), "{said}");
    assert!(said.contains("Permission denied"), "{said}");
}

#[test]
fn a_missing_interpreter_is_the_kernels_to_tell() {
    if !here() {
        return;
    }
    let dir = open_dir();
    let interpreter = image::Program {
        kind: image::PT_INTERP,
        offset: 0x2000,
        file_size: 9,
        ..image::Program::default()
    };
    let programs = vec![interpreter, load(R | X, 0, 0x40_0000, 8 * M, 4096)];
    let mut bytes = Image::new(true, false, ET_EXEC, programs).bytes();
    bytes[0x2000..0x2009].copy_from_slice(b"/no/such\0");
    let path = dir.path().join("lost");
    fs::write(&path, bytes).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    let output = under(&[], &[path.to_str().unwrap()]).output().unwrap();
    assert_eq!(output.status.code(), Some(127), "{}", text(&output.stderr));
}

#[test]
fn killed_at_any_point_it_leaves_nothing() {
    if !here() {
        return;
    }
    let dir = open_dir();
    let path = toucher(dir.path());
    for delay in 0..20 {
        let mut child = under(&["-q"], &[path.to_str().unwrap()]).spawn().unwrap();
        std::thread::sleep(Duration::from_micros(500 * delay));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let ours = || {
        let named = |pid: &str| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            text(&line).contains(path.to_str().unwrap())
        };
        let all = fs::read_dir("/proc").unwrap().flatten();
        all.filter(|entry| entry.file_name().to_str().is_some_and(named))
            .count()
    };
    let start = Instant::now();
    while ours() > 0 {
        assert!(start.elapsed() < PATIENCE, "{} processes stay", ours());
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(mounts(dir.path()), Vec::<String>::new());
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

/// Large enough, and at addresses that hold no whole block.
#[test]
fn linking_anew_is_named_only_where_it_would_help() {
    if !here() {
        return;
    }
    let dir = open_dir();
    let path = dir.path().join("straddler");
    let text_segment = load(R | X, 0x1000, 0x50_1000, 2 * M + 0x1000, 4096);
    let bytes = Image::new(true, false, ET_EXEC, vec![text_segment]).bytes();
    fs::write(&path, bytes).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    let output = under(&[], &[path.to_str().unwrap()]).output().unwrap();
    let said = text(&output.stderr);
    assert!(said.contains("without linking it anew"), "{said}");
}

#[test]
fn a_library_that_cannot_be_executed_may_be_named() {
    if !here() {
        return;
    }
    let dir = open_dir();
    let path = toucher(dir.path());
    fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    let options = [
        "--verbose",
        "--means",
        "namespace",
        "--with",
        path.to_str().unwrap(),
    ];
    let output = under(&options, &["true"]).output().unwrap();
    let said = text(&output.stderr);
    if said.contains("namespace: no ") {
        eprintln!("SKIPPED: {said}");
        return;
    }
    assert!(said.contains("leaves of 2M map 8M of the 8M"), "{said}");
    let folder = under(&["--with", "/usr"], &["true"]).output().unwrap();
    let said = text(&folder.stderr);
    assert!(said.contains("--with /usr: is no regular file"), "{said}");
}

#[test]
fn a_name_makes_no_lines_of_its_own() {
    let output = under(&[], &["no\nsuch\x1b[2J"]).output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("no\\x0asuch\\x1b[2J: "), "{said}");
}

/// A kernel that collapses text of no file is not the file system's fault.
#[test]
fn a_collapse_that_the_kernel_was_not_built_for_is_said_to_be_that() {
    let zipped = fs::read("/proc/config.gz").is_ok();
    let config = Command::new("zcat").arg("/proc/config.gz").output();
    let unset = config.is_ok_and(|output| {
        text(&output.stdout).contains("# CONFIG_READ_ONLY_THP_FOR_FS is not set")
    });
    if !here() || !zipped || !unset {
        eprintln!("SKIPPED: the option is set, is no more, or is not known");
        return;
    }
    let dir = open_dir();
    let path = toucher(dir.path());
    let mut run = under(&["--means", "collapse"], &[path.to_str().unwrap()]);
    let child = run.stderr(Stdio::piped()).spawn().unwrap();
    wait_for(&child, &path);
    let said = end(child);
    assert!(said.contains("collapse: EINVAL: "), "{said}");
    assert!(said.contains("CONFIG_READ_ONLY_THP_FOR_FS"), "{said}");
    assert!(!said.contains("its file system has no such"), "{said}");
}

/// Stopped while it fills the copies, it can only be ended by the kernel.
#[test]
fn the_process_that_prepares_ends_with_the_one_it_works_for() {
    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;
    if !here() {
        return;
    }
    let dir = open_dir();
    let path = toucher(dir.path());
    let options = ["-q", "--means", "namespace"];
    let mounts = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/mnt")).ok();
    let own = mounts("self");
    for _ in 0..200 {
        let mut child = under(&options, &[path.to_str().unwrap()]).spawn().unwrap();
        let parent = child.id();
        let children = format!("/proc/{parent}/task/{parent}/children");
        let begin = Instant::now();
        let mut helper = None;
        while helper.is_none() && begin.elapsed() < Duration::from_millis(500) {
            let pids = fs::read_to_string(&children).unwrap_or_default();
            let inside = |pid: &&str| mounts(pid).is_some_and(|ns| Some(ns) != own);
            helper = pids.split_whitespace().find(inside).map(str::to_owned);
        }
        let stopped = helper.filter(|pid| {
            let pid = Pid::from_raw(pid.parse().unwrap());
            kill(pid, Signal::SIGSTOP).is_ok()
        });
        child.kill().unwrap();
        child.wait().unwrap();
        let Some(pid) = stopped else {
            continue;
        };
        let stat = || fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let begin = Instant::now();
        while stat().contains(") T ") && begin.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(10));
        }
        let stat = stat();
        let stays = stat.contains(") T ");
        if stays {
            let _ = kill(Pid::from_raw(pid.parse().unwrap()), Signal::SIGKILL);
        }
        assert!(!stays, "{stat}");
        return;
    }
    eprintln!("SKIPPED: no process that prepares was met");
}

/// A launcher is small; what it runs is in a library.
#[test]
fn a_small_program_is_told_of_its_libraries() {
    if !here() {
        return;
    }
    let dir = open_dir();
    let file = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
    file(
        "big.c",
        r#"__asm__(".text\ncode: .skip 8388608, 0xc3\n"); int f(void) { return 0; }"#,
    );
    file("prog.c", "int f(void); int main(void) { return f(); }");
    let script = r#"
gcc -shared -fPIC -Wl,-z,max-page-size=0x200000 -o libbig.so big.c &&
gcc -o prog prog.c -L. -lbig -Wl,-rpath,"$PWD""#;
    let built = Command::new("sh")
        .args(["-c", script])
        .current_dir(dir.path())
        .output();
    let built = built.unwrap();
    assert!(built.status.success(), "{}", both(&built));
    let prog = dir.path().join("prog");
    let output = under(&[], &[prog.to_str().unwrap()]).output().unwrap();
    let said = text(&output.stderr);
    assert!(
        said.contains(" bytes, holds no whole block of 2M"),
        "{said}"
    );
    assert!(
        said.contains("; --libs takes its libraries, which have "),
        "{said}"
    );
    assert_eq!(output.status.code(), Some(0), "{said}");
}

/// A program that loads a library with 6M of text while it runs, says so and waits for its input
/// to end. None without a C compiler.
fn loader(dir: &Path) -> Option<PathBuf> {
    let main = "#include <dlfcn.h>\n#include <stdio.h>\n#include <unistd.h>\n\
        int main(int n, char **a) { char c; void *l = dlopen(a[1], RTLD_NOW); \
        puts(l ? \"loaded\" : dlerror()); fflush(stdout); while (read(0, &c, 1) > 0); return !l; }";
    let library = "__asm__(\".text\\n.globl f\\nf: ret\\n.fill 0x600000, 1, 0x90\\n\");";
    fs::write(dir.join("main.c"), main).unwrap();
    fs::write(dir.join("lib.c"), library).unwrap();
    let cc = |arguments: &[&str]| {
        let status = Command::new("cc").current_dir(dir).args(arguments).status();
        status.is_ok_and(|status| status.success())
    };
    let library = [
        "-shared",
        "-o",
        "libbig.so",
        "lib.c",
        "-Wl,-z,max-page-size=0x200000",
    ];
    if !cc(&["-o", "loader", "main.c", "-ldl"]) || !cc(&library) {
        eprintln!("SKIPPED: no C compiler");
        return None;
    }
    Some(dir.join("loader"))
}

/// Runs the loader until its library was loaded and `done`; what `run` has said. The process that
/// watched it has ended.
fn loads(dir: &Path, options: &[&str], done: impl Fn() -> bool) -> String {
    use std::io::{BufRead, BufReader};
    let (program, library) = (dir.join("loader"), dir.join("libbig.so"));
    let mut run = under(
        options,
        &[program.to_str().unwrap(), library.to_str().unwrap()],
    );
    let state = dir.join("state");
    run.env("XDG_STATE_HOME", &state).stdin(Stdio::piped());
    let mut child = run
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    out.read_line(&mut line).unwrap();
    assert_eq!(line, "loaded\n");
    let pid = child.id();
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    assert_eq!(
        children, "",
        "the program has a child that it did not start"
    );
    until(&done);
    drop(child.stdin.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    // A reader of the program's output has all of it once the program has ended.
    assert_eq!(out.read_line(&mut line).unwrap(), 0);
    let state = format!("XDG_STATE_HOME={}\0", state.display());
    until(&|| {
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let mut environments = processes.filter_map(|p| fs::read(p.path().join("environ")).ok());
        environments.all(|e| !text(&e).contains(&state))
    });
    text(&output.stderr)
}

fn until(done: &dyn Fn() -> bool) {
    let begin = Instant::now();
    while !done() {
        assert!(begin.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_library_that_was_loaded_in_an_earlier_run_is_wide_in_the_next() {
    let dir = open_dir();
    if !here() || loader(dir.path()).is_none() {
        return;
    }
    let known = dir.path().join("state/wideleaf/loads.json");
    let noted = "are noted, and taken the next time";
    let learned = || fs::read_to_string(&known).is_ok_and(|k| k.contains("/libbig.so\""));
    let said = loads(dir.path(), &["--libs"], learned);
    assert!(said.contains("holds no whole block"), "{said}");
    let content = fs::read_to_string(&known).unwrap();
    assert!(content.contains("/libbig.so\""), "{content}");

    let again = ["--libs", "--verbose", "--means", "namespace"];
    let said = loads(dir.path(), &again, || true);
    assert!(!said.contains(noted), "{said}");
    match said.contains("runs as it is") && said.contains("namespace: no ") {
        true => eprintln!("SKIPPED: {said}"),
        false => assert!(said.contains("leaves of 2M map 6M of the 6M"), "{said}"),
    }
    let said = loads(dir.path(), &["--libs", "--learn"], || true);
    assert!(said.contains(noted), "{said}");

    fs::write(&known, "{").unwrap();
    let said = loads(dir.path(), &["--libs"], learned);
    assert!(
        said.contains("loads.json: ") && said.contains("it is ignored"),
        "{said}"
    );
    assert_eq!(fs::read_to_string(&known).unwrap(), content);
}
