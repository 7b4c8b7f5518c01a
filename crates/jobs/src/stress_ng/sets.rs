// SPDX-License-Identifier: GPL-2.0-only
//! The stressors: names and options are stress-ng's own (its manual, version 0.19), but for those of fsx
//! and fsstress.
//!
//! Sizes are such that no stressor takes all memory and swap: the guest has [`MEMORY`] and
//! [`SWAP`], and an OOM kill fails a run. Those that cannot be bounded (`resources`, `mmapcow`) are
//! left out, one that ends on no kernel here (`metamix`), and those that need a device or a network.

use super::{Again, Program, Set, Stressor};
use wideleaf_lab::disk::built::Built;
use wideleaf_lab::disk::crates_io::CrateProgram;
use wideleaf_lab::disk::debian_source::SourceProgram;

/// Memory of the guest in bytes.
pub const MEMORY: u64 = 768 << 20;

/// Its swap file in bytes.
pub const SWAP: u64 = 512 << 20;

/// Of a stressor: the set that it is of, its name, further options.
type Line = (Set, &'static str, &'static str);

/// All of them.
const ALL: &[Line] = &[
    (Set::Memory, "bigheap", "--bigheap-bytes 64M"),
    (Set::Memory, "brk", "--brk-bytes 64M"),
    (Set::Memory, "clone", ""),
    (Set::Memory, "fallocate", "--fallocate-bytes 64M"),
    (Set::Memory, "fault", ""),
    (Set::Memory, "fork", ""),
    (Set::Memory, "madvise", ""),
    (Set::Memory, "memfd", "--memfd-bytes 64M --memfd-fds 32"),
    (Set::Memory, "mincore", ""),
    (Set::Memory, "mlock", ""),
    (Set::Memory, "mlockmany", "--mlockmany-procs 16"),
    (
        Set::Memory,
        "mmap",
        "--mmap-bytes 64M --mmap-file --mmap-mprotect --mmap-madvise --mmap-write-check",
    ),
    (Set::Memory, "mmapaddr", ""),
    (Set::Memory, "mmapfiles", ""),
    (Set::Memory, "mmapfixed", ""),
    (Set::Memory, "mmapfork", "--mmapfork-bytes 32M"),
    (
        Set::Memory,
        "mmaphuge",
        "--mmaphuge-mmaps 16 --mmaphuge-file",
    ),
    (Set::Memory, "mmapmany", ""),
    (Set::Memory, "mmaptorture", "--mmaptorture-bytes 64M"),
    (Set::Memory, "mprotect", ""),
    (Set::Memory, "mremap", "--mremap-bytes 32M"),
    (Set::Memory, "msync", "--msync-bytes 32M"),
    (Set::Memory, "msyncmany", ""),
    (Set::Memory, "munmap", ""),
    (Set::Memory, "numa", ""),
    (Set::Memory, "pagemove", "--pagemove-bytes 16M"),
    (Set::Memory, "pageswap", ""),
    (Set::Memory, "remap", ""),
    (Set::Memory, "rmap", ""),
    (Set::Memory, "shm", "--shm-bytes 4M"),
    (Set::Memory, "shm-sysv", "--shm-sysv-bytes 4M"),
    (Set::Memory, "stackmmap", ""),
    (Set::Memory, "swap", ""),
    (Set::Memory, "tlb-shootdown", ""),
    (Set::Memory, "userfaultfd", "--userfaultfd-bytes 16M"),
    (Set::Memory, "vfork", ""),
    (Set::Memory, "vm", "--vm-bytes 640M"),
    (Set::Memory, "vm-addr", ""),
    (Set::Memory, "vm-rw", ""),
    (Set::Memory, "vm-segv", ""),
    (Set::Memory, "vm-splice", ""),
    (Set::Memory, "vma", ""),
    (Set::Files, "access", ""),
    (Set::Files, "chmod", ""),
    (Set::Files, "copy-file", "--copy-file-bytes 128M"),
    (Set::Files, "dentry", "--dentries 1024"),
    (Set::Files, "dir", "--dir-dirs 1024"),
    (Set::Files, "dup", ""),
    (Set::Files, "fallocate", "--fallocate-bytes 64M"),
    (Set::Files, "fiemap", "--fiemap-bytes 32M"),
    (Set::Files, "file-ioctl", ""),
    (Set::Files, "flock", ""),
    (Set::Files, "fpunch", ""),
    (Set::Files, FSSTRESS.name(), ""),
    (Set::Files, FSX.name(), ""),
    (Set::Files, "hdd", "--hdd-bytes 64M"),
    (Set::Files, "iomix", "--iomix-bytes 64M"),
    (Set::Files, "link", ""),
    (Set::Files, "lockf", ""),
    (Set::Files, "open", ""),
    (Set::Files, "readahead", "--readahead-bytes 64M"),
    (Set::Files, "rename", ""),
    (Set::Files, "seek", "--seek-size 32M"),
    (Set::Files, "sendfile", "--sendfile-size 4M"),
    (Set::Files, "symlink", ""),
    (Set::Files, "sync-file", "--sync-file-bytes 32M"),
    (Set::Files, "unlink", ""),
    (Set::Files, "utime", ""),
    (Set::Files, "xattr", ""),
];

/// A stressor, the fragment of `kernel/config` that it needs, and a kernel parameter: System V IPC;
/// two nodes, between which pages move. They are the kernel's emulation
/// (Documentation/mm/numa.rst), since QEMU's microvm has no table that would tell of more than one.
const NEEDS: [(&str, &str, Option<&str>); 2] = [
    ("shm-sysv", "sysvipc", None),
    ("numa", "numa", Some("numa=fake=2")),
];

/// fsx, which Debian does not have.
const FSX: Built = Built::Crate(CrateProgram {
    name: "fsx",
    version: "0.3.2",
});

/// fsstress, without what it does on XFS alone.
const FSSTRESS: Built = Built::Source(SourceProgram {
    name: "fsstress",
    package: "e2fsprogs",
    path: "contrib/fsstress.c",
});

/// Of fsx: a file holds up to four blocks of 2M. fsx writes nothing back after a write to a mapping,
/// so the next operation meets dirty entries.
const FSX_CONFIGURATION: &str = "\
flen = 8388608
nomsyncafterwrite = true
[opsize]
max = 262144
[weights]
close_open = 2
read = 10
write = 10
mapread = 10
mapwrite = 10
invalidate = 1
truncate = 5
fsync = 1
fdatasync = 1
posix_fallocate = 1
punch_hole = 3
sendfile = 2
posix_fadvise = 5
copy_file_range = 2
";

/// The names of all.
pub fn names() -> Vec<&'static str> {
    let mut names: Vec<_> = ALL.iter().map(|(_, name, _)| *name).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Those of these names, or of the set if there are none.
pub fn chosen(names: &[String], set: Set) -> Vec<Stressor> {
    let of_set = |(of, ..): &&Line| *of == set;
    if names.is_empty() {
        return ALL.iter().filter(of_set).map(stressor).collect();
    }
    let known = |name: &String| ALL.iter().find(|(_, known, _)| known == name);
    names.iter().filter_map(known).map(stressor).collect()
}

/// The fragments and parameters that these need besides the lab's own.
pub fn needs(
    stressors: &[Stressor],
) -> impl Iterator<Item = (&'static str, Option<&'static str>)> + '_ {
    let asked = |name| stressors.iter().any(|stressor| stressor.name == name);
    let needed = NEEDS.iter().filter(move |(name, ..)| asked(*name));
    needed.map(|(_, fragment, parameter)| (*fragment, *parameter))
}

/// The programs of these that are not stress-ng's.
pub fn built(stressors: &[Stressor]) -> Vec<Built> {
    let asked = |one: &Built| stressors.iter().any(|stressor| stressor.name == one.name());
    [FSX, FSSTRESS].into_iter().filter(asked).collect()
}

fn stressor((_, name, options): &Line) -> Stressor {
    let program = match *name {
        name if name == FSX.name() => Program::Again(Again::Fsx(FSX_CONFIGURATION.into())),
        name if name == FSSTRESS.name() => Program::Again(Again::Fsstress),
        _ => Program::StressNg((*options).into()),
    };
    Stressor {
        name: (*name).into(),
        program,
    }
}
