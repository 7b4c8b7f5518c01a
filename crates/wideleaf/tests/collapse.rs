// SPDX-License-Identifier: GPL-2.0-only
//! `wideleaf collapse` on real processes: this one, with text that the test
//! maps, by the kernel at hand.

#[path = "common/room.rs"]
mod room;
#[path = "common/text.rs"]
mod text;

use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use serde_json::Value;
use std::ffi::c_void;
use std::fs::File;
use std::io::Write;
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::process::{Command, Output};
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard};
use text::text;

const M2: usize = 2 << 20;
const BLOCKS: usize = 4;

/// The tests look at one process, this one.
static ALONE: Mutex<()> = Mutex::new(());

/// Text that is mapped at whole blocks.
struct Text {
    start: NonNull<c_void>,
    address: usize,
    length: usize,
    _alone: MutexGuard<'static, ()>,
}

impl Drop for Text {
    fn drop(&mut self) {
        // SAFETY: what `map` reserved; nothing points into it any more.
        unsafe { munmap(self.start, self.length) }.unwrap();
    }
}

/// Maps the first blocks of `file` executable, `shift` bytes behind a boundary,
/// and touches each page.
fn map(file: &File, flags: MapFlags, shift: usize) -> Text {
    let alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    let length = (BLOCKS + 2) * M2;
    let room = NonZeroUsize::new(length).unwrap();
    // SAFETY: a new mapping where the kernel likes.
    let start = unsafe { mmap_anonymous(None, room, ProtFlags::PROT_NONE, MapFlags::MAP_PRIVATE) };
    let start = start.unwrap();
    let address = (start.as_ptr() as usize).next_multiple_of(M2) + shift;
    // SAFETY: within the reservation, of which nothing is used.
    unsafe {
        mmap(
            NonZeroUsize::new(address),
            NonZeroUsize::new(BLOCKS * M2).unwrap(),
            ProtFlags::PROT_READ | ProtFlags::PROT_EXEC,
            flags | MapFlags::MAP_FIXED,
            file.as_fd(),
            0,
        )
    }
    .unwrap();
    let text = Text {
        start,
        address,
        length,
        _alone: alone,
    };
    assert!(text.holds(0x5a));
    text
}

impl Text {
    fn holds(&self, byte: u8) -> bool {
        // SAFETY: mapped readable for as long as `self` lives, and as long.
        let bytes = unsafe { std::slice::from_raw_parts(self.address as *const u8, BLOCKS * M2) };
        bytes.iter().all(|b| *b == byte)
    }
}

fn filled(mut file: File) -> File {
    file.write_all(&vec![0x5a; BLOCKS * M2]).unwrap();
    file.sync_all().unwrap();
    file
}

fn shared_memory() -> File {
    filled(File::from(
        memfd_create(c"text", MFdFlags::MFD_CLOEXEC).unwrap(),
    ))
}

fn collapse(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_wideleaf"))
        .args(["collapse", "--reclaim", "--cpu", "none"])
        .args(args)
        .output()
        .unwrap()
}

fn myself() -> String {
    std::process::id().to_string()
}

/// Bytes in 2M leaves before and after, and the whole answer.
fn json(args: &[&str]) -> (u64, u64, Value) {
    let output = collapse(&[&["--json"], args].concat());
    assert!(
        matches!(output.status.code(), Some(0 | 3)),
        "{}",
        text(&output.stderr)
    );
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let process = &document["processes"][0];
    let wide = |when: &str| process[when]["leaves"]["2097152"].as_u64().unwrap_or(0);
    (wide("before"), wide("after"), document)
}

/// The part of `document` that was left in the stretch that the test mapped.
fn left<'a>(document: &'a Value, text: &Text) -> Vec<&'a Value> {
    let left = document["processes"][0]["left"].as_array().unwrap();
    let inside = |l: &&Value| {
        let start = l["start"].as_u64().unwrap() as usize;
        start >= text.address && start < text.address + BLOCKS * M2
    };
    left.iter().filter(inside).collect()
}

/// Memory for code that is made at run time: whole blocks, of which the first `used` hold some.
fn code(used: usize) -> Text {
    let alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    let length = (BLOCKS + 1) * M2;
    let room = NonZeroUsize::new(length).unwrap();
    let all = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE | ProtFlags::PROT_EXEC;
    // SAFETY: a new mapping where the kernel likes.
    let start = unsafe { mmap_anonymous(None, room, all, MapFlags::MAP_PRIVATE) }.unwrap();
    let address = (start.as_ptr() as usize).next_multiple_of(M2);
    for block in 0..used {
        // SAFETY: within the mapping, which nothing else uses.
        unsafe { *((address + block * M2) as *mut u8) = 0x5a };
    }
    Text {
        start,
        address,
        length,
        _alone: alone,
    }
}

/// Bytes of a stretch that are in memory.
fn resident(text: &Text) -> u64 {
    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let head = format!("{:x}-", text.start.as_ptr() as usize);
    let record = smaps.split_once(&head).unwrap().1;
    let rss = record
        .lines()
        .find_map(|line| line.strip_prefix("Rss:"))
        .unwrap();
    rss.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// Whether this test can be made here: 4K pages, root, a kernel that can.
fn possible() -> bool {
    // The probe makes executable memory, which would count where another test looks at the process.
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    room::make();
    let (page, pmd) = wideleaf_procmap::sizes("/sys".as_ref());
    let why = match wideleaf_collapse::probe_shared_memory(pmd) {
        _ if (page, pmd) != (4096, M2 as u64) => "pages are not 4K".to_owned(),
        _ if !nix::unistd::geteuid().is_root() => "not root".to_owned(),
        Ok(()) => return true,
        Err(refusal) => refusal.to_string(),
    };
    eprintln!("SKIPPED: {why}");
    false
}

#[test]
fn shared_memory_becomes_wide_and_stays_what_it_was() {
    if !possible() {
        return;
    }
    let file = shared_memory();
    let mapped = map(&file, MapFlags::MAP_SHARED, 0);
    let (before, planned, document) = json(&["--dry-run", &myself()]);
    assert_eq!((before, planned), (0, 0));
    assert!(
        document["need"]["blocks"].as_u64().unwrap() >= BLOCKS as u64,
        "{document}"
    );
    assert_eq!(document["taken"], 0);
    let (before, after, document) = json(&["--limit", "1G", &myself()]);
    assert_eq!((before, after), (0, (BLOCKS * M2) as u64), "{document}");
    assert!(left(&document, &mapped).is_empty(), "{document}");
    assert_eq!(document["taken"], BLOCKS * M2);
    assert!(mapped.holds(0x5a), "the content changed");
    // Nothing is left to do.
    let (before, after, document) = json(&["--limit", "1G", &myself()]);
    assert_eq!(
        (before, after),
        ((BLOCKS * M2) as u64, (BLOCKS * M2) as u64)
    );
    assert_eq!(document["taken"], 0);
}

#[test]
fn the_limit_holds_and_what_is_left_is_told() {
    if !possible() {
        return;
    }
    let file = shared_memory();
    let mapped = map(&file, MapFlags::MAP_SHARED, 0);
    let (_, after, document) = json(&["--limit", "5M", &myself()]);
    assert_eq!(document["taken"].as_u64(), Some(2 * M2 as u64));
    assert_eq!(after, 2 * M2 as u64, "{document}");
    let left = left(&document, &mapped);
    assert!(left.iter().any(|l| l["reason"] == "limit"), "{document}");
    let output = collapse(&["--limit", "0", &myself()]);
    assert_eq!(output.status.code(), Some(3));
    assert!(
        text(&output.stderr).contains("at most"),
        "{}",
        text(&output.stderr)
    );
    assert!(text(&output.stdout).contains("more memory than the limit"));
}

#[test]
fn text_that_no_leaf_can_map_is_left_without_asking() {
    if !possible() {
        return;
    }
    let file = shared_memory();
    let mapped = map(&file, MapFlags::MAP_SHARED, 4096);
    let (_, after, document) = json(&["--limit", "1G", &myself()]);
    assert_eq!(after, 0);
    let left = left(&document, &mapped);
    assert_eq!(left[0]["reason"], "not-congruent", "{document}");
    assert_eq!(document["taken"], 0);
}

#[test]
fn code_that_was_made_becomes_wide_and_reserved_memory_stays_empty() {
    if !possible() {
        return;
    }
    let code = code(2);
    let (before, after, document) = json(&["--limit", "1G", &myself()]);
    assert_eq!((before, after), (0, 2 * M2 as u64), "{document}");
    assert_eq!(
        resident(&code),
        2 * M2 as u64,
        "reserved memory was populated"
    );
    let left = left(&document, &code);
    assert!(
        left.iter().all(|l| l["reason"] == "unpopulated"),
        "{document}"
    );
    let bytes = |l: &&Value| l["end"].as_u64().unwrap() - l["start"].as_u64().unwrap();
    // More if the kernel has put the mapping at a multiple of 2M.
    assert!(left.iter().map(bytes).sum::<u64>() >= 2 * M2 as u64);
    // SAFETY: mapped for as long as `code` lives.
    let byte = unsafe { *(code.address as *const u8) };
    assert_eq!(byte, 0x5a);
    // Nothing that could be wide was left.
    assert_eq!(
        collapse(&["--limit", "1G", &myself()]).status.code(),
        Some(0)
    );
}

#[test]
fn code_that_was_made_is_explained() {
    if !possible() {
        return;
    }
    let code = code(2);
    let explained = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wideleaf"));
        let output = command.args(arguments).arg(myself()).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        output
    };
    let made = |document: &Value| {
        let made = document["made"].as_array().unwrap().clone();
        let start = code.start.as_ptr() as u64;
        made.into_iter()
            .find(|m| m["start"].as_u64() == Some(start))
            .unwrap()
    };
    let inspect = explained(&["inspect", "--json", "--pid"]);
    let document: Value = serde_json::from_slice(&inspect.stdout).unwrap();
    let before = made(&document["processes"][0]);
    assert_eq!(
        (&before["populated"], &before["wide"]),
        (&2.into(), &0.into())
    );
    assert_ne!(before["why"], "wide", "{before}");
    json(&["--limit", "1G", &myself()]);
    let ps = explained(&["ps", "--json", "--explain"]);
    let document: Value = serde_json::from_slice(&ps.stdout).unwrap();
    let process = &document["processes"][0];
    assert_eq!(made(&process["jit"])["why"], "wide", "{process}");
    assert!(process["made"].as_u64().unwrap() >= code.length as u64);
    let table = explained(&["ps", "-n", "-o", "jit", "-b"]);
    assert_eq!(text(&table.stdout).trim(), process["made"].to_string());
    assert!(
        text(&table.stderr).contains("inspect --pid"),
        "{}",
        text(&table.stderr)
    );
    let report = text(&explained(&["inspect", "--pid"]).stdout);
    assert!(
        report.contains("wide: leaves of a PMD's size map each whole block"),
        "{report}"
    );
}

/// collapse says what the file system at hand says.
#[test]
fn a_file_system_that_refuses_is_told_with_the_kernels_reason() {
    if !possible() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("text");
    drop(filled(File::create(&path).unwrap()));
    let file = File::open(&path).unwrap();
    let answer = {
        // It makes executable memory for a moment, as the probe of `possible` does.
        let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
        wideleaf_collapse::probe(&file, M2 as u64)
    };
    let mapped = map(&file, MapFlags::MAP_PRIVATE, 0);
    let output = collapse(&["--limit", "1G", &myself()]);
    let said = text(&output.stdout);
    match answer {
        Ok(()) => assert!(
            !said.contains("REASON") || !said.contains("/text\n"),
            "{said}"
        ),
        Err(refusal) => {
            // Large folios of the file system may have been mapped wide already.
            let lines: Vec<&str> = said.lines().filter(|l| l.ends_with("/text")).collect();
            let named = |l: &&str| l.contains(&format!(" {} ", refusal.name()));
            assert!(lines.iter().all(named), "{said}");
            if lines.is_empty() {
                eprintln!("SKIPPED: all of it was wide before");
                return;
            }
            assert_eq!(output.status.code(), Some(3), "{said}");
            assert!(said.contains(refusal.meaning()), "{said}");
        }
    }
    assert!(mapped.holds(0x5a));
}

#[test]
fn whom_is_asked_and_who_is_not_there_is_said() {
    let output = collapse(&[]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("nothing is named to collapse: name process numbers, "));
    let output = collapse(&["4194304"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("4194304: no such process"));
    let output = collapse(&["--name", "no-such-name-anywhere"]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(
        said.contains("no process matched --name no-such-name-anywhere: `wideleaf ps` lists all"),
        "{said}"
    );
}
