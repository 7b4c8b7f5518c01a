// SPDX-License-Identifier: GPL-2.0-only
//! The reader on trees that look like /proc, and on the real one.

use crate::{Error, Extent, Process, Reader, Scope, Select, Sight, Within};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use tempfile::TempDir;

const K4: u64 = 4 << 10;
const K64: u64 = 64 << 10;
const M2: u64 = 2 << 20;
const THP_HEAD: u64 = 1 << 22 | 1 << 15;
const THP_TAIL: u64 = 1 << 22 | 1 << 16;

/// A tree that looks like /proc.
struct Fake(TempDir);

impl Fake {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("kpageflags"), []).unwrap();
        fs::create_dir(root.path().join("sys")).unwrap();
        Self(root)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn process(&self, pid: u32, name: &[u8], cgroup: &str, maps: &[u8]) -> &Self {
        let dir = self.path().join(pid.to_string());
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("comm"), [name, b"\n"].concat()).unwrap();
        fs::write(dir.join("cgroup"), cgroup).unwrap();
        fs::write(dir.join("maps"), maps).unwrap();
        let pagemap = File::create(dir.join("pagemap")).unwrap();
        // Sparse, and long enough for every address of the tests.
        pagemap.set_len((1 << 36) / K4 * 8).unwrap();
        self
    }

    /// Maps `pages` at `address` to frames from `frame` on.
    fn map(&self, pid: u32, address: u64, frame: u64, pages: u64) -> &Self {
        let file = fs::OpenOptions::new()
            .write(true)
            .open(self.path().join(format!("{pid}/pagemap")))
            .unwrap();
        for i in 0..pages {
            let hidden = if frame == 0 { 0 } else { frame + i };
            file.write_all_at(&(1u64 << 63 | hidden).to_ne_bytes(), (address / K4 + i) * 8)
                .unwrap();
        }
        self
    }

    fn folio(&self, frame: u64, pages: u64) -> &Self {
        let file = fs::OpenOptions::new()
            .write(true)
            .open(self.path().join("kpageflags"))
            .unwrap();
        for i in 0..pages {
            let word = if i == 0 { THP_HEAD } else { THP_TAIL };
            file.write_all_at(&word.to_ne_bytes(), (frame + i) * 8)
                .unwrap();
        }
        self
    }

    fn reader(&self) -> Reader {
        Reader::new(self.path(), K4, M2, &[K64])
    }

    fn read(&self, pid: u32) -> Result<Process, Error> {
        read(&mut self.reader(), pid)
    }
}

fn read(reader: &mut Reader, pid: u32) -> Result<Process, Error> {
    Ok(reader
        .read(pid, Scope::Text, &Select::default(), &mut |_| {})?
        .expect("nothing was selected away"))
}

const MAPS: &[u8] = b"\
00400000-00401000 r--p 00000000 fd:01 7                          /opt/my app/bin (deleted)\n\
00600000-00a00000 r-xp 00200000 fd:01 7                          /opt/my app/bin (deleted)\n\
00a00000-00a01000 rw-p 00600000 fd:01 7                          /opt/my app/bin (deleted)\n\
7ff000000-7ff010000 r-xp 00000000 00:00 0                        [vdso]\n\
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0          [vsyscall]\n";

#[test]
fn text_is_told_from_the_rest_and_counted_by_leaf() {
    let fake = Fake::new();
    fake.process(10, b"my app", "0::/system.slice/my.service\n", MAPS);
    fake.folio(0x1000, 16).map(10, 0x60_0000, 0x1000, 16); // one contpte group
    fake.map(10, 0x61_0000, 0x5000, 3); // three base pages
    fake.map(10, 0xa0_0000, 0x6000, 1); // data: not text
    let process = fake.read(10).unwrap();
    assert_eq!(
        (process.name.as_str(), process.cgroup.as_str()),
        ("my app", "/system.slice/my.service")
    );
    assert_eq!(process.sight, Sight::Full);
    assert_eq!(process.mappings.len(), 2, "two text mappings, no vsyscall");
    assert!(process.mappings[0].vma.deleted);
    assert_eq!(process.mappings[0].vma.name, "/opt/my app/bin");
    assert_eq!(
        process.total.leaves,
        BTreeMap::from([(K64, K64), (K4, 3 * K4)])
    );
    assert_eq!(process.total.size, (4 << 20) + (64 << 10));
    let all = fake
        .reader()
        .read(10, Scope::All, &Select::default(), &mut |_| {})
        .unwrap()
        .unwrap();
    assert_eq!(all.mappings.len(), 4);
    assert_eq!(all.total.resident, process.total.resident + K4);
}

#[test]
fn pmd_mappings_come_from_smaps_where_the_kernel_cannot_scan() {
    let fake = Fake::new();
    fake.process(10, b"big", "", MAPS);
    fake.folio(0x2000, 512).map(10, 0x60_0000, 0x2000, 512);
    fake.folio(0x2200, 512).map(10, 0x80_0000, 0x2200, 512);
    let smaps = "00600000-00a00000 r-xp 00200000 fd:01 7 /opt/my app/bin\nRss: 4096 kB\nFilePmdMapped:      2048 kB\nAnonHugePages:         0 kB\n";
    fs::write(fake.path().join("10/smaps"), smaps).unwrap();
    let process = fake.read(10).unwrap();
    assert_eq!(process.total.leaves, BTreeMap::from([(M2, M2), (K64, M2)]));
    assert_eq!(process.folios.file.pmd, M2);
    assert_eq!(process.folios.file.aligned, BTreeMap::from([(M2, M2)]));
}

#[test]
fn hidden_frames_are_said_not_guessed() {
    let fake = Fake::new();
    fake.process(10, b"other", "", MAPS)
        .map(10, 0x60_0000, 0, 512);
    let process = fake.read(10).unwrap();
    assert_eq!(process.sight, Sight::Pmd);
    assert_eq!((process.total.resident, process.total.unknown), (M2, M2));
    assert!(process.total.leaves.is_empty());
}

#[test]
fn without_kpageflags_only_residency_is_known() {
    let fake = Fake::new();
    fake.process(10, b"other", "", MAPS)
        .map(10, 0x60_0000, 0x1000, 4);
    fs::remove_file(fake.path().join("kpageflags")).unwrap();
    let mut reader = fake.reader();
    assert!(reader.loss().unwrap().contains("kpageflags"));
    let process = read(&mut reader, 10).unwrap();
    assert_eq!((process.sight, process.total.unknown), (Sight::Pmd, 4 * K4));
}

#[test]
fn without_pagemap_only_sizes_are_known() {
    let fake = Fake::new();
    fake.process(10, b"other", "", MAPS);
    fs::remove_file(fake.path().join("10/pagemap")).unwrap();
    let process = fake.read(10).unwrap();
    assert_eq!((process.sight, process.total.resident), (Sight::Maps, 0));
    assert_eq!(process.total.size, (4 << 20) + (64 << 10));
}

#[test]
fn what_has_gone_is_gone() {
    let fake = Fake::new();
    assert!(matches!(fake.read(99), Err(Error::Gone { .. })));
    // Ended between two files.
    fake.process(10, b"a", "", MAPS);
    fs::remove_file(fake.path().join("10/maps")).unwrap();
    assert!(matches!(fake.read(10), Err(Error::Gone { .. })));
    // Ended between maps and pagemap: the address space reads as nothing.
    fake.process(11, b"a", "", MAPS);
    fs::write(fake.path().join("11/pagemap"), []).unwrap();
    assert!(matches!(fake.read(11), Err(Error::Gone { .. })));
}

#[test]
fn a_kernel_thread_has_no_text() {
    let fake = Fake::new();
    fake.process(2, b"kthreadd", "0::/\n", b"");
    let process = fake.read(2).unwrap();
    assert!(process.mappings.is_empty());
    assert_eq!((process.cgroup.as_str(), process.total.size), ("/", 0));
}

#[test]
fn hostile_lines_name_file_and_line() {
    let fake = Fake::new();
    fake.process(
        10,
        b"a",
        "",
        b"00400000-00401000 r-xp 00000000 fd:01 7 /a\nzz-yy r-xp \x1b[2J\n",
    );
    let error = fake.read(10).unwrap_err().to_string();
    assert!(error.contains("10/maps:2: "), "{error}");
    assert!(!error.contains('\x1b'), "{error}");
    // A frame number that no memory has.
    fake.process(11, b"a", "", MAPS)
        .map(11, 0x60_0000, (1 << 55) - 100, 2);
    assert_eq!(
        fake.read(11).unwrap().total.leaves,
        BTreeMap::from([(K4, 2 * K4)])
    );
}

#[test]
fn names_are_kept_as_the_kernel_gives_them() {
    let fake = Fake::new();
    fake.process(
        10,
        b"a\nb\x1b[31m",
        "0::/\x07evil\n",
        b"00400000-00401000 r-xp 00000000 fd:01 7 /a\\012b \x1b]0;x\n",
    );
    let process = fake.read(10).unwrap();
    assert_eq!(process.name, "a\nb\x1b[31m");
    assert_eq!(process.cgroup, "/\x07evil");
    assert_eq!(process.mappings[0].vma.name, "/a\\012b \x1b]0;x");
    assert_eq!((process.name_bytes, process.cgroup_bytes), (None, None));
}

#[test]
fn sixty_five_thousand_mappings() {
    let fake = Fake::new();
    let mut maps = String::new();
    for i in 0..65_530u64 {
        let start = 0x1000_0000 + i * 2 * K4;
        let perms = if i % 2 == 0 { "r-xp" } else { "r--p" };
        writeln!(
            maps,
            "{start:08x}-{:08x} {perms} 00000000 fd:01 7 /lib/x y.so",
            start + K4
        )
        .unwrap();
    }
    fake.process(10, b"many", "", maps.as_bytes())
        .map(10, 0x1000_0000, 0x1000, 1);
    let process = fake.read(10).unwrap();
    assert_eq!(process.mappings.len(), 32_765);
    assert_eq!(process.total.resident, K4);
}

#[test]
fn selection_by_name_and_control_group() {
    let fake = Fake::new();
    fake.process(10, b"sshd", "0::/system.slice/ssh.service\n", MAPS);
    let mut reader = fake.reader();
    let mut picked = |name: Option<&str>, cgroup: Option<&str>| {
        let select = Select {
            name: name.map(str::to_owned),
            cgroup: cgroup.map(str::to_owned),
            within: None,
        };
        reader
            .read(10, Scope::Text, &select, &mut |_| {})
            .unwrap()
            .is_some()
    };
    assert!(picked(Some("ssh*"), Some("/system.slice")));
    assert!(!picked(Some("ssh"), None));
    assert!(!picked(None, Some("/system")));
    let mut within = |takes: fn(&str) -> bool| {
        let select = Select {
            within: Some(Within::new(takes)),
            ..Select::default()
        };
        let read = reader.read(10, Scope::Text, &select, &mut |_| {});
        read.unwrap().is_some()
    };
    assert!(within(|path| path == "/system.slice/ssh.service"));
    assert!(!within(|path| path.contains("docker")));
}

#[test]
fn runs_cover_what_is_resident_in_address_order() {
    let fake = Fake::new();
    fake.process(10, b"a", "", MAPS).folio(0x1000, 32);
    fake.map(10, 0x60_f000, 0x9000, 1)
        .map(10, 0x61_0000, 0x1000, 20)
        .map(10, 0x90_0000, 0x5000, 1);
    let mut runs: Vec<Extent> = Vec::new();
    let process = fake
        .reader()
        .read(10, Scope::Text, &Select::default(), &mut |run| {
            runs.push(run)
        })
        .unwrap()
        .unwrap();
    assert!(
        runs.windows(2).all(|w| w[0].start + w[0].len <= w[1].start),
        "{runs:?}"
    );
    assert_eq!(
        runs.iter().map(|r| r.len).sum::<u64>(),
        process.total.resident
    );
}

#[test]
fn this_process_is_readable_whoever_we_are() {
    let (page, pmd) = crate::sizes(Path::new("/sys"));
    let mut reader = Reader::new(Path::new("/proc"), page, pmd, &[]);
    let process = read(&mut reader, std::process::id()).unwrap();
    assert!(
        process.total.resident > 0,
        "the code that runs this is resident"
    );
    let leaves: u64 = process.total.leaves.values().sum();
    assert_eq!(leaves + process.total.unknown, process.total.resident);
}

/// Touches memory that asked for huge pages; what comes is up to the kernel.
fn huge_memory(bytes: usize) -> std::ptr::NonNull<std::ffi::c_void> {
    use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap_anonymous};
    let length = std::num::NonZeroUsize::new(bytes).unwrap();
    let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    // SAFETY: a new private mapping, advised and written within its length.
    unsafe {
        let memory = mmap_anonymous(None, length, protection, MapFlags::MAP_PRIVATE).unwrap();
        madvise(memory, bytes, MmapAdvise::MADV_HUGEPAGE).unwrap_or(());
        memory.as_ptr().cast::<u8>().write_bytes(1, bytes);
        memory
    }
}

#[test]
fn smaps_and_the_scan_agree_on_this_kernel() {
    let memory = huge_memory(16 << 20).as_ptr() as u64;
    let (page, pmd) = crate::sizes(Path::new("/sys"));
    let find = |mut reader: Reader| {
        let process = reader
            .read(
                std::process::id(),
                Scope::All,
                &Select::default(),
                &mut |_| {},
            )
            .unwrap()
            .unwrap();
        let found = process
            .mappings
            .into_iter()
            .find(|m| m.vma.start <= memory && memory < m.vma.end);
        found.expect("the memory is mapped").coverage
    };
    let reader = || Reader::new(Path::new("/proc"), page, pmd, &[]);
    let (scanned, summed) = (find(reader()), find(reader().without_scan()));
    assert_eq!(scanned.leaves.get(&pmd), summed.leaves.get(&pmd));
    assert_eq!(scanned.resident, summed.resident);
}
