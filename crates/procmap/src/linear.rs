// SPDX-License-Identifier: GPL-2.0-only
//! The kernel's linear map as it tells of it, in words of /proc/meminfo and /proc/vmstat. x86
//! kernels do; arm64 ones with the series linear-map.

use std::collections::BTreeMap;

/// Bytes of the linear map by the leaf that maps them, `4K`, `2M`: the lines `DirectMap<leaf>` of
/// /proc/meminfo's text. Empty where there are none.
pub fn leaves(meminfo: &str) -> BTreeMap<String, u64> {
    let lines = meminfo.lines().filter_map(of_line);
    let lines = lines.filter(|(what, _)| what.starts_with(|c: char| c.is_ascii_digit()));
    lines
        .map(|(leaf, bytes)| (leaf.to_uppercase(), bytes))
        .collect()
}

/// Bytes of the page tables of the linear map: the line `DirectMapTable`, if there is one.
pub fn table_bytes(meminfo: &str) -> Option<u64> {
    let mut lines = meminfo.lines().filter_map(of_line);
    lines.find_map(|(what, bytes)| (what == "Table").then_some(bytes))
}

fn of_line(line: &str) -> Option<(&str, u64)> {
    let (what, kib) = line.strip_prefix("DirectMap")?.split_once(':')?;
    let kib: u64 = kib.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some((what, kib << 10))
}

/// What happened to leaves of the linear map since boot, by its name: the lines
/// `direct_map_<name>` of /proc/vmstat's text.
pub fn events(vmstat: &str) -> BTreeMap<String, u64> {
    let of_line = |line: &str| {
        let (name, count) = line.strip_prefix("direct_map_")?.split_once(' ')?;
        Some((name.to_string(), count.parse().ok()?))
    };
    vmstat.lines().filter_map(of_line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernel_are_read() {
        let map = |list: &[(&str, u64)]| -> BTreeMap<String, u64> {
            let pairs = list.iter().map(|(name, value)| (name.to_string(), *value));
            pairs.collect()
        };
        let text = "MemTotal:  10 kB\nDirectMap4k:      68 kB\nDirectMap2M:    2048 kB\n\
                    DirectMapTable:   12 kB\n";
        assert_eq!(table_bytes(text), Some(12 << 10));
        assert_eq!(table_bytes("DirectMap4k:  1 kB\n"), None);
        assert_eq!(leaves(text), map(&[("4K", 68 << 10), ("2M", 2 << 20)]));
        let text = "nr_free_pages 3\ndirect_map_splits 7\ndirect_map_level2_splits 1\n";
        assert_eq!(events(text), map(&[("splits", 7), ("level2_splits", 1)]));
    }
}
