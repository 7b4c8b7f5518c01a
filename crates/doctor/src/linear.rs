// SPDX-License-Identifier: GPL-2.0-only
//! The kernel's own memory: by which leaves its linear map maps it.

use crate::{Check, Host};
use wideleaf_kit::size::short;
use wideleaf_procmap::linear;

pub(crate) fn map(host: &Host) -> Check {
    let check = Check::new(
        "linear-map",
        "the kernel's linear map",
        "the kernel reaches page cache, sockets and its own data through it: narrow leaves there \
         are data TLB misses of every system call; changing permissions splits them",
    );
    let text = |path| host.read(path).unwrap_or_default();
    let leaves = linear::leaves(&text("/proc/meminfo"));
    let all: u64 = leaves.values().sum();
    if all == 0 {
        return check.unknown("/proc/meminfo has no lines DirectMap: this kernel does not tell");
    }
    let mut leaves: Vec<_> = leaves.into_iter().filter(|(_, bytes)| *bytes > 0).collect();
    leaves.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    let share = |bytes: u64| 100.0 * bytes as f64 / all as f64;
    let leaves = leaves
        .iter()
        .map(|(leaf, bytes)| format!("{leaf} {:.1} %", share(*bytes)));
    let events = linear::events(&text("/proc/vmstat"));
    let events = events.iter().filter(|(_, count)| **count > 0);
    let events: Vec<_> = events
        .map(|(name, count)| format!("{} {count}", name.replace('_', " ")))
        .collect();
    let events = match events.is_empty() {
        true => String::new(),
        false => format!("; since boot: {}", events.join(", ")),
    };
    let leaves: Vec<_> = leaves.collect();
    let tables = linear::table_bytes(&text("/proc/meminfo")).map_or_else(String::new, |bytes| {
        format!("; page tables {}", short(bytes))
    });
    check.note(format!("mapped by {}{tables}{events}", leaves.join(", ")))
}
