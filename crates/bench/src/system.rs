// SPDX-License-Identifier: GPL-2.0-only
//! What the kernel tells about the benchmark's process, disk and file.

use crate::report::{Faults, Figure, Smaps};
use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use nix::sys::resource::{UsageWho, getrusage};
use procfs::process::{MMapPath, MountInfos, Process};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::path::{Path, PathBuf};

/// How the file gets out of the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Evict {
    /// All clean pages of the machine, through /proc/sys/vm/drop_caches. For the guest, and for
    /// root elsewhere.
    DropCaches,
    /// This file's, by posix_fadvise(2). Pages that someone else has mapped stay.
    Fadvise,
}

impl Evict {
    /// Does it. Dirty pages are written back first, for only clean ones can go.
    pub fn run(self, file: &File) -> Result<()> {
        // A read-only file system has nothing dirty, and says so in its own way.
        match nix::unistd::fdatasync(file) {
            Ok(()) | Err(Errno::EROFS | Errno::EINVAL) => {}
            Err(e) => return Err(e).context("fdatasync"),
        }
        match self {
            Self::Fadvise => posix_fadvise(file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED)
                .context("posix_fadvise(DONTNEED)"),
            // 1: pages only. Inodes and dentries stay, so that the file's extent map is not read
            // again in the midst of what is measured.
            Self::DropCaches => std::fs::write("/proc/sys/vm/drop_caches", "1")
                .context("/proc/sys/vm/drop_caches: cannot write; it needs root and CONFIG_SYSCTL"),
        }
    }
}

/// A count of reads from a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reads {
    /// Bytes.
    pub bytes: u64,
    /// Requests, those that the kernel merged counted as one. None where a process is counted.
    pub requests: Option<u64>,
}

impl Reads {
    /// Those since `before`.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        let requests = self.requests.zip(before.requests);
        Self {
            bytes: self.bytes - before.bytes,
            requests: requests.map(|(after, before)| after - before),
        }
    }
}

/// Where reads are counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadCounter {
    /// The whole block device of this name, which nobody else uses.
    BlockDevice(String),
    /// What this process had read, /proc/self/io.
    OwnProcess,
}

impl ReadCounter {
    /// So far.
    pub fn read(&self) -> Result<Reads, Figure> {
        match self {
            Self::OwnProcess => Process::myself()
                .and_then(|me| me.io())
                .map(|io| Reads {
                    bytes: io.read_bytes,
                    requests: None,
                })
                .map_err(|e| Figure::missing(format!("/proc/self/io: {e}"))),
            Self::BlockDevice(name) => {
                let path = format!("/sys/class/block/{name}/stat");
                std::fs::read_to_string(&path)
                    .map_err(|e| Figure::missing(format!("{path}: {e}")))
                    .and_then(|text| disk_reads(&text).ok_or_else(|| Figure::missing(&path)))
            }
        }
    }
}

/// First and third field of /sys/class/block/…/stat. Sectors are 512 bytes there whatever the
/// disk's (Documentation/block/stat.rst).
fn disk_reads(stat: &str) -> Option<Reads> {
    let mut fields = stat.split_ascii_whitespace();
    let requests = fields.next()?.parse().ok()?;
    let sectors: u64 = fields.nth(1)?.parse().ok()?;
    Some(Reads {
        bytes: sectors * 512,
        requests: Some(requests),
    })
}

/// Where the work of reclaim is counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReclaimCounter {
    /// The cgroup (v2) that the process is in, if its memory is limited: reclaim on behalf of a
    /// cgroup does not count in /proc/vmstat.
    pub cgroup: Option<PathBuf>,
}

/// The unit of the count of this name that [`ReclaimCounter::read`] gives.
pub fn reclaim_unit(name: &str) -> &'static str {
    match name {
        "direct_stalls" => "stalls",
        "limit_hits" => "hits",
        "oom_kills" => "kills",
        _ => "pages",
    }
}

impl ReclaimCounter {
    /// So far: `direct_scans` and `kswapd_scans`, pages looked at by whoever needed memory and by
    /// kswapd, and `scans`, both; `direct_stalls`, how often an allocation had to reclaim by itself (of the machine);
    /// `limit_hits`, how often the cgroup was at its limit; `oom_kills`.
    pub fn read(&self) -> Result<BTreeMap<String, u64>> {
        let mut counts = BTreeMap::new();
        let mut put = |name: &str, value| counts.insert(name.to_string(), value);
        let machine = counters(Path::new("/proc/vmstat"))?;
        let scans = match &self.cgroup {
            None => machine.clone(),
            Some(cgroup) => {
                let events = counters(&cgroup.join("memory.events"))?;
                put("limit_hits", sum(&events, "max"));
                counters(&cgroup.join("memory.stat"))?
            }
        };
        let (direct, kswapd) = (sum(&scans, "pgscan_direct"), sum(&scans, "pgscan_kswapd"));
        put("direct_scans", direct);
        put("kswapd_scans", kswapd);
        put("scans", direct + kswapd);
        // One for each zone: allocstall_normal, allocstall_movable.
        let stalls = machine
            .iter()
            .filter(|(name, _)| name.starts_with("allocstall"));
        put("direct_stalls", stalls.map(|(_, count)| count).sum());
        put("oom_kills", sum(&machine, "oom_kill"));
        Ok(counts)
    }
}

fn sum(counters: &[(String, u64)], wanted: &str) -> u64 {
    let found = counters.iter().filter(|(name, _)| name == wanted);
    found.map(|(_, count)| count).sum()
}

/// Lines of a name and a number.
fn counters(path: &Path) -> Result<Vec<(String, u64)>> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let line = |line: &str| {
        let (name, count) = line.split_once(' ')?;
        Some((name.to_string(), count.trim().parse().ok()?))
    };
    Ok(text.lines().filter_map(line).collect())
}

/// Page faults of this thread so far.
pub fn faults() -> Result<Faults> {
    let usage = getrusage(UsageWho::RUSAGE_THREAD).context("getrusage")?;
    Ok(Faults {
        minor: usage.minor_page_faults() as u64,
        major: usage.major_page_faults() as u64,
    })
}

/// Coverage of the mapping that holds `address`.
pub fn smaps(address: u64) -> Result<Smaps> {
    let maps = Process::myself()
        .and_then(|me| me.smaps())
        .context("/proc/self/smaps")?;
    // A file mapping may have been split or merged; all parts of the file count.
    let path = maps
        .iter()
        .find(|map| (map.address.0..map.address.1).contains(&address))
        .map(|map| map.pathname.clone())
        .with_context(|| format!("/proc/self/smaps: no mapping at {address:#x}"))?;
    let ours = || {
        maps.iter()
            .filter(|map| map.pathname == path && matches!(path, MMapPath::Path(_)))
    };
    let sum = |key: &str| {
        ours()
            .filter_map(|map| map.extension.map.get(key))
            .sum::<u64>()
    };
    let figure = |key: &str| {
        if ours().any(|map| map.extension.map.contains_key(key)) {
            Figure::Value(sum(key))
        } else {
            Figure::missing(format!("/proc/self/smaps has no {key}"))
        }
    };
    Ok(Smaps {
        rss: sum("Rss"),
        file_pmd_mapped: figure("FilePmdMapped"),
        shmem_pmd_mapped: figure("ShmemPmdMapped"),
    })
}

/// Type of the file system that holds a file, as mount(8) names it.
pub fn filesystem(path: &Path) -> Result<String> {
    // A file without a name has only a link in /proc that says where it would be.
    let real = path
        .canonicalize()
        .or_else(|_| path.read_link())
        .with_context(|| path.display().to_string())?;
    own_mounts()?
        .0
        .iter()
        .filter(|mount| real.starts_with(&mount.mount_point))
        // The innermost; of several on one place, the last one hides the others.
        .max_by_key(|mount| mount.mount_point.components().count())
        .map(|mount| mount.fs_type.clone())
        .with_context(|| format!("/proc/self/mountinfo: no mount above {}", real.display()))
}

/// Options of the file system that was mounted last on a place, as proc(5) has them: names, and
/// values of those that have one. `None` if nothing is mounted there.
pub fn filesystem_options(place: &Path) -> Result<Option<HashMap<String, Option<String>>>> {
    Ok(options_on(place, own_mounts()?))
}

fn own_mounts() -> Result<MountInfos> {
    Process::myself()
        .and_then(|me| me.mountinfo())
        .context("/proc/self/mountinfo")
}

fn options_on(place: &Path, mounts: MountInfos) -> Option<HashMap<String, Option<String>>> {
    let mut there = mounts
        .0
        .into_iter()
        .filter(|mount| mount.mount_point == place);
    there.next_back().map(|mount| mount.super_options)
}

#[cfg(test)]
mod tests {
    use super::*;
    use procfs::FromRead;

    #[test]
    fn options_are_of_the_file_system_that_was_mounted_last() {
        let text = "\
            15 1 0:13 / /sys rw - sysfs sysfs rw\n\
            16 1 259:0 / /mnt rw - xfs /dev/pmem0 rw,dax=inode\n\
            17 1 259:0 / /mnt rw,dax=never - xfs /dev/pmem0 rw,attr2,dax=always,noquota\n\
            18 1 259:1 / /mnt2 rw - xfs /dev/pmem1 rw,inode64\n";
        let on = |place| {
            let mounts = MountInfos::from_read(text.as_bytes()).unwrap();
            options_on(Path::new(place), mounts)
        };
        let found = on("/mnt").unwrap();
        assert_eq!(found["dax"].as_deref(), Some("always"));
        assert_eq!(found["attr2"], None);
        assert!(!on("/mnt2").unwrap().contains_key("dax"));
        assert!(on("/").is_none());
    }

    #[test]
    fn a_disk_tells_requests_and_sectors() {
        let reads = disk_reads("   12  3   4096  7   0 0 0 0 0 0 0\n").unwrap();
        let expected = Reads {
            bytes: 4096 * 512,
            requests: Some(12),
        };
        assert_eq!(reads, expected);
        assert_eq!(disk_reads("1 2"), None);
        let later = disk_reads("15 3 4104 7").unwrap().since(reads);
        assert_eq!((later.bytes, later.requests), (4096, Some(3)));
    }

    #[test]
    fn reclaim_of_a_cgroup_is_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        put("memory.stat", "anon 5\npgscan_kswapd 7\npgscan_direct 40\n");
        put("memory.events", "low 0\nmax 3\noom 0\n");
        let counter = ReclaimCounter {
            cgroup: Some(dir.path().into()),
        };
        let counts = counter.read().unwrap();
        assert_eq!((counts["direct_scans"], counts["kswapd_scans"]), (40, 7));
        assert_eq!(counts["scans"], 47);
        assert_eq!(counts["limit_hits"], 3);
        assert!(counts.contains_key("direct_stalls") && counts.contains_key("oom_kills"));
        let machine = ReclaimCounter::default().read().unwrap();
        assert!(!machine.contains_key("limit_hits"));
    }

    #[test]
    fn a_file_without_a_name_has_a_filesystem() {
        use std::os::fd::AsRawFd;
        let dir = tempfile::tempdir().unwrap();
        let file = tempfile::tempfile_in(dir.path()).unwrap();
        let link = format!("/proc/self/fd/{}", file.as_raw_fd());
        assert_eq!(
            filesystem(Path::new(&link)).unwrap(),
            filesystem(dir.path()).unwrap()
        );
    }

    #[test]
    fn proc_is_proc() {
        assert_eq!(filesystem(Path::new("/proc/self/status")).unwrap(), "proc");
    }

    #[test]
    fn a_device_that_is_not_there_gives_a_reason() {
        let reason = ReadCounter::BlockDevice("nosuch0".into())
            .read()
            .unwrap_err();
        assert!(reason.to_string().contains("nosuch0"), "{reason}");
    }
}
