// SPDX-License-Identifier: GPL-2.0-only
//! `wideleaf keep`, `enable` and `disable`, on files and in folders of their own.

#[path = "../../elf/tests/common/image.rs"]
#[allow(dead_code)]
mod image;
#[path = "common/kill.rs"]
mod kill;
#[path = "common/room.rs"]
mod room;
#[path = "common/text.rs"]
mod text;
#[path = "common/wide.rs"]
mod wide;

use image::{ET_EXEC, Image, R, X, load};
use kill::killed_after;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use text::text;
use wideleaf_fill::{Geometry, Text, narrow};
use wideleaf_kit::script::script;

const M: u64 = 1 << 20;

fn wideleaf(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wideleaf"));
    command.args(arguments);
    command
}

/// A program with 4M of text and a configuration that keeps it.
struct Kept {
    folder: tempfile::TempDir,
    program: PathBuf,
}

impl Kept {
    fn new(more: &str) -> Self {
        room::make();
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let program = folder.path().join("program");
        let segment = load(R | X, 0, 0x40_0000, 4 * M, 4096);
        fs::write(
            &program,
            Image::new(true, false, ET_EXEC, vec![segment]).bytes(),
        )
        .unwrap();
        File::open(&program).unwrap().sync_all().unwrap();
        let kept = Self { folder, program };
        kept.configure(more);
        kept.narrow();
        kept
    }

    fn config(&self) -> PathBuf {
        self.folder.path().join("keep.toml")
    }

    fn configure(&self, more: &str) {
        let text = format!(
            "programs = [\"{}\"]\nlimit = \"64M\"\nreclaim = true\n{more}\n",
            self.program.display()
        );
        fs::write(self.config(), text).unwrap();
    }

    fn narrow(&self) {
        let sizes = Geometry::here().unwrap();
        let text = Text::read(&self.program, &self.program, sizes.page, sizes.pmd).unwrap();
        narrow(&text, &sizes).unwrap();
    }

    /// Until the value goes, also by a failure.
    fn daemon(&self) -> Daemon {
        Daemon(self.keep(&[]).stderr(Stdio::piped()).spawn().unwrap())
    }

    fn keep(&self, options: &[&str]) -> Command {
        let mut command = wideleaf(&["keep"]);
        command.args(options).arg(self.config());
        command
    }
}

struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_pass_widens_and_tells_and_a_second_has_nothing_to_do() {
    let kept = Kept::new("");
    let metrics = kept.folder.path().join("keep.prom");
    kept.configure(&format!("metrics = \"{}\"", metrics.display()));
    let first = kept.keep(&["--once"]).output().unwrap();
    let said = text(&first.stderr);
    let figures = fs::read_to_string(&metrics).unwrap();
    assert!(
        figures.contains("wideleaf_keep_blocks_bytes{file=\""),
        "{figures}"
    );
    if first.status.code() == Some(3) {
        eprintln!("SKIPPED: {said}");
        return;
    }
    assert!(first.status.success(), "{said}");
    assert!(
        said.contains("program: 4M of 4M wide, before unknown; 4M read"),
        "{said}"
    );
    let second = kept.keep(&["--once"]).output().unwrap();
    assert!(
        text(&second.stderr).contains("; 0 read"),
        "{}",
        text(&second.stderr)
    );
}

#[test]
fn it_mends_what_became_narrow_reads_its_file_again_and_is_alone() {
    let kept = Kept::new("interval = 1");
    let mut daemon = kept.daemon();
    let mut lines = BufReader::new(daemon.0.stderr.take().unwrap()).lines();
    let mut next = || lines.next().unwrap().unwrap();
    let first = next();
    let second = kept.keep(&["--once"]).output().unwrap();
    assert_eq!(second.status.code(), Some(1));
    assert!(
        text(&second.stderr).contains("another wideleaf keep"),
        "{}",
        text(&second.stderr)
    );
    if first.contains("4M of 4M wide") {
        kept.narrow();
        let mended = next();
        assert!(
            mended.contains("4M of 4M wide, before 4M; 4M read"),
            "{mended}"
        );
        // An upgrade.
        let new = kept.folder.path().join("new");
        fs::copy(&kept.program, &new).unwrap();
        File::open(&new).unwrap().sync_all().unwrap();
        fs::rename(&new, &kept.program).unwrap();
        let upgraded = next();
        assert!(upgraded.contains("; 4M read"), "{upgraded}");
    }
    fs::write(kept.config(), "nonsense").unwrap();
    let broken = next();
    assert!(
        broken.contains("keep.toml") && broken.contains("are kept"),
        "{broken}"
    );
    drop(daemon);
    // What held the lock is gone.
    kept.configure("");
    let after = kept.keep(&["--once"]).output().unwrap();
    assert!(
        matches!(after.status.code(), Some(0 | 3)),
        "{}",
        text(&after.stderr)
    );
}

/// Runs a script where what it mounts is seen by nothing else, and `keep` passes once by
/// keep.toml, which keeps `program` by `means`. None if that cannot be tried here.
fn in_namespace(program: &str, means: &str, script: &str) -> Option<String> {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let linked = ["-no-pie", "-Wl,-z,max-page-size=0x200000"];
    wide::compile(folder.path(), "kept-program", &linked);
    let program = folder.path().join(program);
    let config = format!(
        "programs = [\"{}\"]\nmeans = [\"{means}\"]\nlimit = \"64M\"\nreclaim = true\n",
        program.display()
    );
    fs::write(folder.path().join("keep.toml"), config).unwrap();
    let script = format!(
        "keep() {{ \"$W\" keep --once keep.toml 2>&1 && echo all wide || echo \"status $?\"; }}\nset -e\n{script}"
    );
    room::make();
    let output = Command::new("unshare")
        .args(["-m", "sh", "-c", &script])
        .current_dir(folder.path())
        .env("W", env!("CARGO_BIN_EXE_wideleaf"))
        .output()
        .unwrap();
    let said = text(&output.stdout) + &text(&output.stderr);
    if said.contains("unshare failed") {
        eprintln!("SKIPPED: not root: {said}");
        return None;
    }
    assert!(output.status.success(), "{said}");
    Some(said)
}

#[test]
fn text_in_use_that_cannot_be_filled_is_collapsed_where_it_is() {
    let script = r#"
mkdir tmpfs
mount -t tmpfs -o huge=never none tmpfs
cp kept-program tmpfs
mkfifo in out
tmpfs/kept-program line <in >out &
exec 3>in 4<out
read -r there <&4
for pass in 1 2 3 4 5; do keep; done
echo >&3
cat <&4
wait
"#;
    let Some(said) = in_namespace("tmpfs/kept-program", "collapse", script) else {
        return;
    };
    if !said.contains("all wide") {
        assert!(said.contains("others: in-memory"), "{said}");
        eprintln!("SKIPPED: no memory in whole blocks, or no huge pages in a tmpfs: {said}");
        return;
    }
    assert!(
        said.contains("6M of 6M wide, before unknown; 0 read\n")
            && said.contains("collapse made ")
            && said.contains("pmd 6144 kB"),
        "{said}"
    );
}

#[test]
fn a_program_that_only_staging_may_widen_is_staged_once_and_counts_as_wide() {
    let script = r#"
cp kept-program before
mount -t tmpfs none /run
./kept-program
keep
echo again
keep
./kept-program
"$W" unstage --all
cmp kept-program before && echo unchanged
"#;
    let Some(said) = in_namespace("kept-program", "stage", script) else {
        return;
    };
    let (first, second) = said.split_once("again\n").unwrap();
    assert!(first.contains("/kept-program: staged"), "{said}");
    assert!(
        !second.contains("staged\n") && second.contains("unchanged"),
        "{said}"
    );
    if !second.contains("pmd 6144 kB") {
        eprintln!("NOTE: no memory in whole blocks, or no huge pages in a tmpfs: {said}");
        return;
    }
    for pass in [first, second] {
        assert!(
            pass.contains("6M of 6M wide, before unknown; 0 read\n") && pass.contains("all wide"),
            "{said}"
        );
    }
}

#[test]
fn a_program_that_is_not_congruent_gets_an_aligned_copy() {
    let script = r#"
gcc -O1 -no-pie -Wl,-z,separate-code,-z,max-page-size=4096,-Ttext-segment=0x555000 -o odd wide.c
mount -t tmpfs none /run
sed -i 's/kept-program/odd/' keep.toml
keep
./odd
"$W" unstage --all
sed -i 's/"stage"/"fill"/' keep.toml
echo again
keep
"#;
    let Some(said) = in_namespace("kept-program", "stage", script) else {
        return;
    };
    let (staged, filled) = said.split_once("again\n").unwrap();
    assert!(staged.contains("/odd: staged"), "{said}");
    assert!(
        staged.contains("4M of 4M wide") && staged.contains("pmd 4096 kB"),
        "{said}"
    );
    assert!(!filled.contains("staged"), "{said}");
}

/// By the prctl that systemd makes for `MemoryTHP=disable` and `madvise`.
#[test]
fn disabled_huge_pages_keep_wide_text_away_and_madvise_does_not() {
    let script = r#"
mkdir tmpfs
mount -t tmpfs -o huge=always none tmpfs
cp kept-program tmpfs
for how in "" "disabled 0" "disabled 2"; do tmpfs/kept-program $how; done
"#;
    let Some(said) = in_namespace("tmpfs/kept-program", "fill", script) else {
        return;
    };
    let mapped: Vec<&str> = said.lines().filter(|l| l.contains("pmd")).collect();
    let none = "text /kept-program pmd 0 kB";
    if mapped[0] == none || said.contains("no such mode") {
        eprintln!("SKIPPED: no huge pages in a tmpfs, or Linux before 6.18: {said}");
        return;
    }
    assert_eq!(mapped, [mapped[0], none, mapped[0]]);
}

#[test]
fn killed_at_any_point_it_leaves_the_file_as_it_is_and_metrics_whole() {
    let kept = Kept::new("");
    let metrics = kept.folder.path().join("keep.prom");
    kept.configure(&format!("metrics = \"{}\"", metrics.display()));
    let before = fs::read(&kept.program).unwrap();
    for calls in (kill::start()..).step_by(13) {
        kept.narrow();
        let mut keep = kept.keep(&["--once"]);
        let ended = killed_after(calls, keep.stderr(Stdio::null()), &[0, 3]);
        assert!(fs::read(&kept.program).unwrap() == before, "{calls}");
        let figures = fs::read_to_string(&metrics).unwrap_or_default();
        let whole = figures.is_empty() || figures.ends_with("# EOF\n");
        assert!(whole, "{calls}: {figures}");
        if ended {
            assert!(calls > 100 && !figures.is_empty());
            break;
        }
    }
}

#[test]
fn a_wrong_file_is_named_with_the_value() {
    let kept = Kept::new("interval = 0");
    let output = kept.keep(&["--once"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains("keep.toml: interval: 0"), "{said}");
    let missing = wideleaf(&["keep", "/no/such.toml"]).output().unwrap();
    let said = text(&missing.stderr);
    assert!(
        said.contains("/no/such.toml: is not there: 'wideleaf enable"),
        "{said}"
    );
}

const DROP_IN: &str = "etc/systemd/system/x.service.d/50-wideleaf.conf";
const WITH_DROP_IN: [&str; 5] = [
    "--write",
    "--service",
    "x.service",
    "--memory-thp",
    "madvise",
];

/// A folder that stands for /, with a file that has no newline at its end.
fn root() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join("etc")).unwrap();
    fs::write(root.path().join("etc/tunables.conf"), "glibc.malloc.x=1").unwrap();
    root
}

fn enable(root: &Path, more: &[&str]) -> Command {
    let mut command = wideleaf(&["enable", "--tunable", "always", "--root"]);
    command.arg(root).args(more).arg("/bin/sh");
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn disable(root: &Path) -> Command {
    let mut command = wideleaf(&["disable", "--root"]);
    command.arg(root);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn is_as_before(root: &Path) {
    let tunables = fs::read_to_string(root.join("etc/tunables.conf")).unwrap();
    assert_eq!(tunables, "glibc.malloc.x=1");
    assert!(!root.join("etc/wideleaf/keep.toml").exists());
    assert!(!root.join(DROP_IN).exists());
    assert!(!root.join("var/lib/wideleaf/enabled.json").exists());
}

#[test]
fn the_difference_is_shown_then_written_then_undone() {
    let root = root();
    let shown = enable(root.path(), &[]).output().unwrap();
    let diff = text(&shown.stdout);
    assert!(shown.status.success());
    assert!(
        diff.contains("+glibc.elf.thp=1") && diff.contains("+programs = "),
        "{diff}"
    );
    is_as_before(root.path());
    assert!(
        enable(root.path(), &["--write"])
            .output()
            .unwrap()
            .status
            .success()
    );
    let tunables = fs::read_to_string(root.path().join("etc/tunables.conf")).unwrap();
    assert_eq!(tunables, "glibc.malloc.x=1\nglibc.elf.thp=1\n");
    let more = enable(root.path(), &["--write", "--service", "x.service"]);
    assert!({ more }.output().unwrap().status.success());
    let config = fs::read_to_string(root.path().join("etc/wideleaf/keep.toml")).unwrap();
    assert!(
        config.contains("x.service") && config.contains("/sh\"") || config.contains("dash"),
        "{config}"
    );
    let again = enable(root.path(), &["--write"]).output().unwrap();
    assert!(text(&again.stdout).contains("nothing to change"));
    assert!(disable(root.path()).output().unwrap().status.success());
    is_as_before(root.path());
    assert!(!root.path().join("var/lib/wideleaf").exists());
    let twice = disable(root.path()).output().unwrap();
    assert!(text(&twice.stderr).contains("nothing is enabled"));
}

#[test]
fn a_drop_in_for_a_service_is_shown_then_written_then_gone_with_its_folder() {
    let root = root();
    let system = root.path().join("etc/systemd/system");
    fs::create_dir_all(&system).unwrap();
    let shown = enable(root.path(), &WITH_DROP_IN[1..]).output().unwrap();
    let diff = text(&shown.stdout);
    assert!(
        diff.contains("+[Service]\n+MemoryTHP=madvise\n") && diff.contains(DROP_IN),
        "{diff}"
    );
    assert!(text(&shown.stderr).contains("from systemd 260 on"));
    is_as_before(root.path());
    let written = enable(root.path(), &WITH_DROP_IN).output().unwrap();
    assert!(
        text(&written.stderr).contains("systemctl daemon-reload"),
        "{}",
        text(&written.stderr)
    );
    let drop_in = fs::read_to_string(root.path().join(DROP_IN)).unwrap();
    assert!(drop_in.ends_with("[Service]\nMemoryTHP=madvise\n"));
    let undone = disable(root.path()).output().unwrap();
    assert!(
        text(&undone.stderr).contains("systemctl daemon-reload"),
        "{}",
        text(&undone.stderr)
    );
    is_as_before(root.path());
    assert_eq!(fs::read_dir(&system).unwrap().count(), 0);
}

/// The drop-in of x.service that enable writes of itself, where systemd says this of it.
fn drop_in_by_itself(systemd_says: &str) -> Option<String> {
    let (root, tools) = (root(), tempfile::tempdir().unwrap());
    let tool = tools.path().join("systemctl");
    script(&tool, &format!("#!/bin/sh\necho {systemd_says}\n"));
    let mut command = enable(root.path(), &WITH_DROP_IN[..3]);
    let path = format!("{}:/usr/bin:/bin", tools.path().display());
    assert!(command.env("PATH", path).status().unwrap().success());
    let drop_in = fs::read_to_string(root.path().join(DROP_IN)).ok();
    assert!(disable(root.path()).status().unwrap().success());
    is_as_before(root.path());
    drop_in
}

#[test]
fn a_drop_in_is_written_only_where_systemd_has_the_setting_and_it_is_in_the_way() {
    let written = drop_in_by_itself("disable").unwrap();
    assert!(written.contains("MemoryTHP=madvise\n"), "{written}");
    // Wide already, or chosen by the administrator, or unknown to systemd.
    for says in ["madvise", "system", ""] {
        assert_eq!(drop_in_by_itself(says), None, "{says}");
    }
}

#[test]
fn a_name_without_a_drop_in_is_an_error_only_where_one_is_wanted() {
    let root = root();
    for name in ["x.slice", "/system.slice/x.service", "../x.service"] {
        let named = ["--service", name];
        let wanted = enable(
            root.path(),
            &[&named[..], &["--memory-thp", "system"]].concat(),
        );
        let output = { wanted }.output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(text(&output.stderr).contains("name it as NAME.service"));
        assert!(enable(root.path(), &named).status().unwrap().success());
    }
    let nobody = enable(root.path(), &["--memory-thp", "system"]).output();
    let nobody = nobody.unwrap();
    assert_eq!(nobody.status.code(), Some(2));
    assert!(text(&nobody.stderr).contains("--memory-thp needs a service: name it by --service"));
}

#[test]
fn a_service_without_a_process_is_enabled_with_a_note() {
    if fs::read_dir("/sys/fs/cgroup").is_ok_and(|groups| groups.count() == 0) {
        eprintln!("SKIPPED: no control groups are mounted here");
        return;
    }
    let note = "--service no-such: no process is in /system.slice/no-such.service now; keep looks \
                there in each pass";
    // Without --write it changes nothing of this machine.
    let shown = wideleaf(&["enable", "--service", "no-such"]).output();
    let shown = shown.unwrap();
    let said = text(&shown.stderr);
    assert!(shown.status.success() && said.contains(note), "{said}");
    assert!(text(&shown.stdout).contains("no-such.service"));
    // Another root is another machine's.
    let root = root();
    let other = enable(root.path(), &["--service", "no-such"]).output();
    assert!(!text(&other.unwrap().stderr).contains("no process"));
}

#[test]
fn enable_that_is_killed_at_any_point_is_undone() {
    let start = kill::start();
    let mut calls = start;
    loop {
        let root = root();
        let ended = killed_after(calls, &mut enable(root.path(), &WITH_DROP_IN), &[0]);
        let undone = disable(root.path()).output().unwrap();
        assert!(undone.status.success(), "{calls}: {}", text(&undone.stderr));
        is_as_before(root.path());
        if ended {
            break;
        }
        calls += 7;
    }
    assert!(calls > start + 20, "{calls}");
}

#[test]
fn disable_that_is_killed_at_any_point_is_done_again() {
    let mut calls = kill::start();
    loop {
        let root = root();
        assert!(
            enable(root.path(), &WITH_DROP_IN)
                .output()
                .unwrap()
                .status
                .success()
        );
        let ended = killed_after(calls, &mut disable(root.path()), &[0]);
        let undone = disable(root.path()).output().unwrap();
        assert!(undone.status.success(), "{calls}: {}", text(&undone.stderr));
        is_as_before(root.path());
        if ended {
            break;
        }
        calls += 7;
    }
}

#[test]
fn nothing_is_enabled_that_is_not_there() {
    let root = root();
    let script = root.path().join("script");
    fs::write(&script, "#!/bin/sh\n").unwrap();
    let cut = root.path().join("cut");
    fs::write(&cut, b"\x7fELF").unwrap();
    for (path, why) in [
        (Path::new("/no/such"), "/no/such: is no file"),
        (
            &script,
            "script: is not an ELF file: name programs and shared libraries",
        ),
        (&cut, "cut: truncated"),
    ] {
        let output = wideleaf(&["enable", "--write", "--root"])
            .arg(root.path())
            .arg(path)
            .output()
            .unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(why), "{said}");
        is_as_before(root.path());
    }
    assert_eq!(
        wideleaf(&["enable"]).output().unwrap().status.code(),
        Some(2)
    );
}
