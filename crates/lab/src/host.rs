// SPDX-License-Identifier: GPL-2.0-only
//! The machine that the lab runs on: what it is, and what it has to spare.

pub mod parts;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use wideleaf_cache::Cache;

/// Memory that a QEMU takes beside the guest's, in bytes: translated code
/// above all.
const QEMU_OVERHEAD: u64 = 512 << 20;

/// Where guest memory goes if there is room.
const SHM: &str = "/dev/shm";

/// The host, as results describe it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// The CPU's name.
    pub cpu: String,
    /// CPUs that this process may use.
    pub cpus: usize,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// The kernel's release.
    pub kernel: String,
    /// The distribution.
    pub os: String,
}

impl Host {
    /// This machine. What cannot be told is empty or 0.
    pub fn this() -> Self {
        let uname = nix::sys::utsname::uname();
        let kernel = uname.map(|name| name.release().to_string_lossy().into_owned());
        Self {
            cpu: value("/proc/cpuinfo", "model name", ':'),
            cpus: cpus(),
            memory_bytes: meminfo("MemTotal").unwrap_or(0),
            kernel: kernel.unwrap_or_default(),
            os: value("/etc/os-release", "PRETTY_NAME", '=').replace('"', ""),
        }
    }
}

/// CPUs that this process may use.
pub fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Memory that a guest of `memory` bytes takes of the host, in bytes.
pub fn guest_takes(memory: u64) -> u64 {
    memory + QEMU_OVERHEAD
}

/// Memory that programs can get, in bytes.
pub fn available_memory() -> u64 {
    meminfo("MemAvailable").unwrap_or(u64::MAX)
}

/// How many guests of `memory` bytes may run at once, at most `wanted`.
///
/// # Errors
///
/// If there is no room for one.
pub fn guests_at_once(memory: u64, wanted: usize) -> Result<usize> {
    let each = guest_takes(memory);
    let available = available_memory();
    if available < each {
        bail!(
            "{} MiB of memory available, but a guest needs {} MiB: end other programs, \
             or ask for a smaller --size",
            available >> 20,
            each >> 20
        );
    }
    let room = usize::try_from(available / each).unwrap_or(usize::MAX);
    Ok(room.min(wanted).min(cpus()).max(1))
}

/// A folder with room for `bytes` of guest memory: `/dev/shm`, whose pages
/// are never written back, else the cache folder's disk.
///
/// # Errors
///
/// If neither has the room.
pub fn memory_folder(cache: &Cache, bytes: u64) -> Result<PathBuf> {
    let shm = Path::new(SHM);
    let writable = nix::unistd::access(shm, nix::unistd::AccessFlags::W_OK).is_ok();
    if writable && free(shm).is_ok_and(|free| free >= bytes) {
        return Ok(shm.to_owned());
    }
    cache.require_space(bytes, "guest memory")?;
    Ok(cache.root().to_owned())
}

fn free(path: &Path) -> Result<u64> {
    let stat = nix::sys::statvfs::statvfs(path)
        .with_context(|| format!("cannot tell the free space at {}", path.display()))?;
    Ok(stat.blocks_available() as u64 * stat.fragment_size() as u64)
}

/// A line of /proc/meminfo in bytes.
fn meminfo(name: &str) -> Option<u64> {
    let kib = value("/proc/meminfo", name, ':');
    Some(kib.split_whitespace().next()?.parse::<u64>().ok()? << 10)
}

/// The value of the first line `name <separator> value`, or nothing.
fn value(path: &str, name: &str, separator: char) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let pairs = text.lines().filter_map(|line| line.split_once(separator));
    pairs
        .filter(|(key, _)| key.trim() == name)
        .map(|(_, value)| value.trim().to_string())
        .next()
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_described() {
        let host = Host::this();
        assert!(host.memory_bytes > 1 << 26, "{host:?}");
        assert!(!host.kernel.is_empty() && host.cpus > 0, "{host:?}");
    }

    #[test]
    fn a_guest_larger_than_the_machine_is_refused() {
        let error = guests_at_once(1 << 60, 2).unwrap_err().to_string();
        assert!(error.contains("--size"), "{error}");
        assert_eq!(guests_at_once(1 << 20, 1).unwrap(), 1);
    }

    #[test]
    fn no_room_anywhere_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path()).unwrap();
        assert!(memory_folder(&cache, 1 << 60).is_err());
        memory_folder(&cache, 4096).unwrap();
    }
}
