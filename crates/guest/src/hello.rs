// SPDX-License-Identifier: GPL-2.0-only
//! Facts of the running kernel, for the first message and the last.

use crate::protocol::{Farewell, Hello, VERSION};
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

const THP: &str = "/sys/kernel/mm/transparent_hugepage";

/// Which kernel this is.
pub fn hello() -> Result<Hello> {
    let uname = nix::sys::utsname::uname().context("uname")?;
    let meminfo = fs::read_to_string("/proc/meminfo").context("/proc/meminfo")?;
    Ok(Hello {
        version: VERSION,
        release: uname.release().to_string_lossy().into_owned(),
        build: uname.version().to_string_lossy().into_owned(),
        machine: uname.machine().to_string_lossy().into_owned(),
        page_size: wideleaf_bench::page_size(),
        cmdline: fs::read_to_string("/proc/cmdline")
            .context("/proc/cmdline")?
            .trim_end()
            .into(),
        memory: mem_total(&meminfo).context("/proc/meminfo has no MemTotal")?,
        thp: settings(Path::new(THP)),
    })
}

/// How it ends.
pub fn farewell() -> Farewell {
    let read = |path: &str| fs::read_to_string(path).ok();
    Farewell {
        tainted: read("/proc/sys/kernel/tainted").and_then(|text| text.trim().parse().ok()),
        uptime_cs: read("/proc/uptime")
            .and_then(|text| centiseconds(&text))
            .unwrap_or(0),
    }
}

/// `MemTotal` in bytes.
fn mem_total(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// First field of /proc/uptime, which has two decimals.
fn centiseconds(uptime: &str) -> Option<u64> {
    let (seconds, hundredths) = uptime.split_whitespace().next()?.split_once('.')?;
    Some(seconds.parse::<u64>().ok()? * 100 + hundredths.parse::<u64>().ok()?)
}

/// Contents of the settings in a folder and in the folders below it.
fn settings(folder: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut add = |key: String, path: &Path| {
        if let Ok(text) = fs::read_to_string(path) {
            found.insert(key, text.trim_end().to_owned());
        }
    };
    for entry in entries(folder) {
        let name = entry.file_name().to_string_lossy().into_owned();
        if !entry.path().is_dir() {
            add(name, &entry.path());
            continue;
        }
        // hugepages-*/stats holds counters, not settings, one level further down.
        for inner in entries(&entry.path()).filter(|inner| inner.path().is_file()) {
            add(
                format!("{name}/{}", inner.file_name().to_string_lossy()),
                &inner.path(),
            );
        }
    }
    found
}

fn entries(folder: &Path) -> impl Iterator<Item = fs::DirEntry> {
    fs::read_dir(folder).into_iter().flatten().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mem_total_is_in_bytes() {
        assert_eq!(
            mem_total("Foo: 1 kB\nMemTotal:        2048 kB\n"),
            Some(2 << 20)
        );
        assert_eq!(mem_total("MemFree: 1 kB\n"), None);
    }

    #[test]
    fn uptime_keeps_its_hundredths() {
        assert_eq!(centiseconds("12.07 3.00\n"), Some(1207));
        assert_eq!(centiseconds(""), None);
    }

    #[test]
    fn settings_are_read_one_level_down() {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("enabled", "always [madvise] never\n");
        write("hugepages-64kB/enabled", "[inherit]\n");
        write("hugepages-64kB/stats/swpout", "0\n");
        let expected = [
            ("enabled", "always [madvise] never"),
            ("hugepages-64kB/enabled", "[inherit]"),
        ];
        assert_eq!(
            settings(dir.path()),
            expected.map(|(k, v)| (k.into(), v.into())).into()
        );
        assert!(settings(Path::new("/no/such")).is_empty());
    }

    #[test]
    fn this_machine_says_hello() {
        let hello = hello().unwrap();
        assert!(hello.memory > 1 << 20 && hello.page_size >= 4096 && !hello.release.is_empty());
    }
}
