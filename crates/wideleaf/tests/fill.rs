// SPDX-License-Identifier: GPL-2.0-only
//! `wideleaf fill` on files of its own, on the file system at hand and by the kernel at hand.

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
use nix::sys::mman::{MapFlags, ProtFlags, mmap};
use serde_json::Value;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use text::text;
use wideleaf_fill::{Geometry, Text, narrow};
use wideleaf_kit::script::script;

const M: u64 = 1 << 20;
/// Of the text, all in whole blocks.
const TEXT: u64 = 8 * M;

/// A program that is nothing but 8M of text, cached in base pages.
struct Program {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

impl Program {
    fn new() -> Self {
        room::make();
        Self::at(0)
    }

    /// Its text begins at this offset of the file.
    fn at(offset: u64) -> Self {
        // Not in /tmp, which may be a tmpfs.
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let path = folder.path().join("program");
        let segment = load(R | X, offset, 0x40_0000, TEXT, 4096);
        let mut bytes = Image::new(true, false, ET_EXEC, vec![segment]).bytes();
        for (at, byte) in bytes.iter_mut().enumerate().skip(0x1000) {
            *byte = (at / 4096) as u8 | 1;
        }
        fs::write(&path, bytes).unwrap();
        File::open(&path).unwrap().sync_all().unwrap();
        let program = Self {
            _folder: folder,
            path,
        };
        program.narrow();
        program
    }

    fn narrow(&self) {
        let sizes = Geometry::here().unwrap();
        let text = Text::read(&self.path, &self.path, sizes.page, sizes.pmd).unwrap();
        narrow(&text, &sizes).unwrap();
    }

    /// A page of it, mapped for good.
    fn use_page(&self, offset: i64) {
        let file = File::open(&self.path).unwrap();
        let length = 4096.try_into().unwrap();
        let flags = MapFlags::MAP_PRIVATE;
        // SAFETY: a new mapping where the kernel likes.
        let at = unsafe { mmap(None, length, ProtFlags::PROT_READ, flags, &file, offset) };
        // SAFETY: mapped above.
        unsafe { std::ptr::read_volatile(at.unwrap().as_ptr().cast::<u8>()) };
    }

    fn fill(&self, options: &[&str]) -> (Output, Value) {
        let output = fill(options)
            .arg("--json")
            .arg(&self.path)
            .output()
            .unwrap();
        let json = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|e| panic!("{e}: {}", text(&output.stderr)));
        (output, json)
    }
}

fn fill(options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wideleaf"));
    command.args(["fill", "--reclaim"]).args(options);
    command
}

/// The only file's figure.
fn figure(json: &Value, key: &str) -> u64 {
    json["files"][0][key]
        .as_u64()
        .unwrap_or_else(|| panic!("{key}: {json}"))
}

fn reasons(json: &Value) -> Vec<(u64, String)> {
    let left = json["files"][0]["left"].as_array().unwrap().iter();
    let one = |l: &Value| {
        let bytes = l["end"].as_u64().unwrap() - l["start"].as_u64().unwrap();
        (bytes, l["reason"].as_str().unwrap().to_owned())
    };
    left.map(one).collect()
}

/// Whether this kernel has folios of 2M for files in /var/tmp, and memory for them.
fn here() -> bool {
    let (output, json) = Program::new().fill(&[]);
    let wide = output.status.success();
    if !wide {
        eprintln!("SKIPPED: /var/tmp: {:?}", reasons(&json));
    }
    wide
}

#[test]
fn text_becomes_wide_in_place_and_stays_what_it_was() {
    let program = Program::new();
    let content = fs::read(&program.path).unwrap();
    let (_, planned) = program.fill(&["--dry-run"]);
    assert_eq!(figure(&planned, "blocks"), TEXT);
    assert!(planned["files"][0]["after"].is_null(), "{planned}");
    let (output, json) = program.fill(&[]);
    assert!(fs::read(&program.path).unwrap() == content);
    assert_eq!(figure(&json, "before"), 0, "a dry run changes nothing");
    match output.status.code() {
        Some(0) => assert_eq!(figure(&json, "after"), TEXT),
        // On a file system without such folios one block is tried, and is cached again.
        code => {
            assert_eq!((code, figure(&json, "lost")), (Some(3), 0), "{json}");
            eprintln!("SKIPPED: {:?}", reasons(&json));
            return;
        }
    }
    let (_, again) = program.fill(&[]);
    assert_eq!(
        (figure(&again, "before"), figure(&again, "read")),
        (TEXT, 0)
    );
}

#[test]
fn what_another_process_maps_is_not_dropped() {
    let program = Program::new();
    program.use_page(2 * M as i64);
    let (output, json) = program.fill(&[]);
    assert_eq!(output.status.code(), Some(3), "{json}");
    assert!(reasons(&json).contains(&(2 * M, "in-use".into())), "{json}");
    if here() {
        assert_eq!(figure(&json, "after"), TEXT - 2 * M, "the others are wide");
    }
    let pages = json["files"][0]["left"][0]["bytes"].as_u64().unwrap();
    assert!((4096..2 * M).contains(&pages), "{json}");
}

#[test]
fn without_eviction_only_what_is_absent_is_read() {
    let program = Program::new();
    let (output, json) = program.fill(&["--no-evict"]);
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(reasons(&json), [(TEXT, "cached".to_owned())]);
    assert_eq!((figure(&json, "read"), figure(&json, "dropped")), (0, 0));
}

#[test]
fn limits_hold_and_have_names() {
    if !here() {
        return;
    }
    for (options, reason) in [
        (["--limit", "4M"], "limit"),
        (["--read", "5M"], "read-limit"),
    ] {
        let (output, json) = Program::new().fill(&options);
        assert_eq!(output.status.code(), Some(3));
        assert_eq!(figure(&json, "after"), 4 * M, "{json}");
        assert_eq!(reasons(&json), [(4 * M, reason.to_owned())]);
    }
}

#[test]
fn text_that_no_leaf_could_map_is_left_alone() {
    let program = Program::at(0x3000);
    let (output, json) = program.fill(&[]);
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(reasons(&json), [(TEXT, "not-congruent".to_owned())]);
    assert_eq!((figure(&json, "read"), figure(&json, "dropped")), (0, 0));
}

#[test]
fn the_files_of_a_process_are_found() {
    let own = std::process::id().to_string();
    let output = fill(&["--dry-run", "--json", "--pid", &own])
        .output()
        .unwrap();
    // This test's own text may hold no whole block.
    let said = text(&output.stderr);
    match serde_json::from_slice::<Value>(&output.stdout) {
        Ok(json) => assert!(json["files"][0]["path"].is_string(), "{json}"),
        Err(_) => assert!(said.contains("nothing to fill"), "{said}"),
    }
    let gone = fill(&["--pid", "4000000"]).output().unwrap();
    assert_eq!(gone.status.code(), Some(1));
    assert!(text(&gone.stderr).contains("4000000: no such process"));
}

/// A process, for as long as the value lives.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = (self.0.kill(), self.0.wait());
    }
}

/// A control group, for as long as the value lives and has no process.
struct Group(PathBuf);

impl Group {
    /// With this process in it; None where there is no cgroup2 or this user may not write to it.
    fn of(pid: u32) -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        let mut fields = mounts.lines().map(|line| line.split(' ').skip(1));
        let mounted = fields.find_map(|mut line| {
            let at = line.next()?;
            (line.next()? == "cgroup2").then_some(at)
        });
        let folder = Path::new(mounted?).join(format!("wideleaf-fill-{pid}"));
        fs::create_dir(&folder).ok()?;
        let group = Self(folder);
        fs::write(group.0.join("cgroup.procs"), pid.to_string()).ok()?;
        Some(group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn a_control_group_means_the_files_of_its_processes_and_no_others() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let aligned = ["-no-pie", "-Wl,-z,max-page-size=0x200000"];
    let start = |name: &str| {
        wide::compile(folder.path(), name, &aligned);
        let mut command = Command::new(folder.path().join(name));
        let mut child = command.arg("ever").stdout(Stdio::piped()).spawn().unwrap();
        // It has touched its text.
        let mut said = BufReader::new(child.stdout.take().unwrap());
        said.read_line(&mut String::new()).unwrap();
        Running(child)
    };
    let (inside, _outside) = (start("inside"), start("outside"));
    let group = Group::of(inside.0.id());
    if group.is_none() {
        eprintln!("SKIPPED: no cgroup2 that this user may write to");
        return;
    }
    let groups = fs::read_to_string(format!("/proc/{}/cgroup", inside.0.id())).unwrap();
    let name = groups.lines().find_map(|line| line.strip_prefix("0::"));
    let run = fill(&["--dry-run", "--json", "--cgroup", name.unwrap()]).output();
    // The group can be removed once its process has ended.
    drop(inside);
    let output = run.unwrap();
    let json: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", text(&output.stderr)));
    let has = |name: &str| {
        let path = folder.path().join(name).display().to_string();
        let mut files = json["files"].as_array().unwrap().iter();
        files.any(|file| file["path"] == path)
    };
    assert!(has("inside") && !has("outside"), "{json}");
    assert!(
        reasons(&json).iter().all(|left| left.1 == "in-use"),
        "{json}"
    );
}

#[test]
fn bad_input_is_named_and_the_rest_is_done() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script");
    fs::write(&script, "#!/bin/sh\n").unwrap();
    let program = Program::new();
    let output = fill(&["--dry-run", "/no/such"])
        .args([&script, &program.path])
        .output()
        .unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("/no/such: No such file"), "{said}");
    assert!(said.contains("script: is no ELF file"), "{said}");
    assert!(
        text(&output.stdout).contains("program"),
        "the rest is looked at"
    );
    for usage in [
        &[][..],
        &["--libs", "--pid", "1"],
        &["--rate", "0", "/bin/sh"],
        &["--time", "0", "/bin/sh"],
    ] {
        assert_eq!(
            fill(usage).output().unwrap().status.code(),
            Some(2),
            "{usage:?}"
        );
    }
}

/// podman's and docker's answer, from a stand-in; the layers are folders of the test's.
#[test]
fn an_image_is_its_layers() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let (layer, tool) = (folder.path().join("layer"), folder.path().join("podman"));
    fs::create_dir(&layer).unwrap();
    fs::rename(&Program::new().path, layer.join("program")).unwrap();
    let answer = format!(
        r#"[{{"GraphDriver":{{"Name":"overlay","Data":{{"UpperDir":"{}"}}}}}}]"#,
        layer.display()
    );
    let answers = format!(
        "#!/bin/sh\n[ \"$4\" = here ] || {{ echo no image $4 >&2; exit 125; }}\necho '{answer}'\n"
    );
    script(&tool, &answers);
    let image = |name: &str| {
        let mut command = fill(&["--dry-run", "--json", "--image", name]);
        command.env("PATH", folder.path()).output().unwrap()
    };
    let output = image("here");
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["files"][0]["path"], "/program");
    let said = text(&image("elsewhere").stderr);
    assert!(
        said.contains("no image elsewhere; get the image by `podman pull elsewhere`, or name"),
        "{said}"
    );
    let refuses = "#!/bin/sh\necho Cannot connect to the Docker daemon >&2; exit 1\n";
    fs::rename(&tool, folder.path().join("docker")).unwrap();
    script(&folder.path().join("docker"), refuses);
    let said = text(&image("here").stderr);
    assert!(
        said.contains("Cannot connect to the Docker daemon; start the daemon, or name"),
        "{said}"
    );
    let mut without = fill(&["--image", "here"]);
    let output = without.env("PATH", "/nowhere").output().unwrap();
    assert!(text(&output.stderr).contains("neither podman nor docker"));
    assert_eq!(output.status.code(), Some(1));
}

/// Bytes of the file that are cached, as another program sees it.
fn cached(path: &Path) -> u64 {
    let sizes = Geometry::here().unwrap();
    let file = File::open(path).unwrap();
    let pages = usize::try_from(TEXT / sizes.page).unwrap();
    let mut cached = vec![0u8; pages];
    let length = usize::try_from(TEXT).unwrap();
    let flags = MapFlags::MAP_PRIVATE;
    // SAFETY: a new mapping where the kernel likes, of which nothing is touched.
    let at = unsafe {
        mmap(
            None,
            length.try_into().unwrap(),
            ProtFlags::PROT_READ,
            flags,
            &file,
            0,
        )
    };
    let at = at.unwrap();
    // SAFETY: a byte for each page of the mapping.
    let result = unsafe { nix::libc::mincore(at.as_ptr(), length, cached.as_mut_ptr()) };
    assert_eq!(result, 0);
    // SAFETY: the mapping is not used any more.
    unsafe { nix::sys::mman::munmap(at, length) }.unwrap();
    cached.iter().filter(|page| **page & 1 != 0).count() as u64 * sizes.page
}

#[test]
fn killed_at_any_point_at_most_one_block_is_missing() {
    if !here() {
        return;
    }
    let program = Program::new();
    let content = fs::read(&program.path).unwrap();
    let start = kill::start();
    let mut calls = start;
    loop {
        program.narrow();
        let mut command = fill(&["--limit", "64M"]);
        command.arg(&program.path);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        // 3: without memory for a block it stays as it is.
        let ended = killed_after(calls, &mut command, &[0, 3]);
        assert!(cached(&program.path) >= TEXT - 2 * M, "{calls}");
        assert!(fs::read(&program.path).unwrap() == content, "{calls}");
        if ended {
            break;
        }
        calls += 9;
    }
    assert!(calls > start + 20, "{calls}");
}
