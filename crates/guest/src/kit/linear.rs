// SPDX-License-Identifier: GPL-2.0-only
//! The kernel's linear map: by which leaves it maps memory, as the kernel tells and as the plugin
//! sees.

use crate::kit::marker;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};
use wideleaf_procmap::linear;

/// What a job on the linear map found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinearReport {
    /// The map at one time after the other. The plugin's coverage record of the first has the
    /// id 1, and so on.
    pub moments: Vec<LinearMoment>,
    /// What was done how often, by name.
    pub counts: BTreeMap<String, u64>,
}

/// The linear map as the kernel itself tells.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinearMoment {
    /// `boot`, `storm`, `settled`.
    pub name: String,
    /// Bytes by leaf: the lines `DirectMap*` of /proc/meminfo. Empty where there are none.
    pub leaves: BTreeMap<String, u64>,
    /// Bytes of its page tables: the line `DirectMapTable`, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table_bytes: Option<u64>,
    /// The lines `direct_map_*` of /proc/vmstat, by what follows.
    pub events: BTreeMap<String, u64>,
}

/// The addresses that a linear map can have: on arm64 the lower half of the kernel's, from what
/// 52 bits reach to what 48 bits end with (arch/arm64/include/asm/memory.h, `_PAGE_END`); on
/// x86-64 with four levels as Documentation/arch/x86/x86_64/mm.rst has it.
#[cfg(target_arch = "aarch64")]
const ADDRESSES: (u64, u64) = (0xfff0_0000_0000_0000, 0xffff_8000_0000_0000);
#[cfg(target_arch = "x86_64")]
const ADDRESSES: (u64, u64) = (0xffff_8880_0000_0000, 0xffff_c880_0000_0000);

/// For how long the map must not have changed to be at rest, and after how long it is looked at
/// whatever it does.
const REST: Duration = Duration::from_secs(3);
const RESTLESS: Duration = Duration::from_secs(60);

const KALLSYMS: &str = "/proc/kallsyms";

/// What makes the map wider, in kernels with the series linear-map.
const WORKER: &str = "collapse_work";

/// For how long it held the lock against changes at most, in nanoseconds of the guest's clock.
const LONGEST_HOLD: &str = "/sys/kernel/debug/linear_map/longest_hold_ns";

/// Waits until the map changes no more, on kernels that make it wider and tell of it: some begin
/// with pages, and widen them after boot.
pub fn rest() {
    if !events().keys().any(|name| name.ends_with("collapses")) {
        return;
    }
    let begun = Instant::now();
    let (mut was, mut since) = (leaves(), begun);
    while since.elapsed() < REST && begun.elapsed() < RESTLESS {
        std::thread::sleep(Duration::from_millis(250));
        let now = leaves();
        if now != was {
            (was, since) = (now, Instant::now());
        }
    }
}

/// Adds what the map is now.
pub fn take(report: &mut LinearReport, name: &str) {
    let id = report.moments.len() as u64 + 1;
    let (start, end) = ADDRESSES;
    marker::coverage(start, end - start, id);
    report.moments.push(LinearMoment {
        name: name.into(),
        leaves: leaves(),
        table_bytes: linear::table_bytes(&meminfo()),
        events: events(),
    });
}

/// Adds for how long the worker kept changes out at most, on kernels that tell. For guests whose
/// instructions are counted: one is a nanosecond of their clock, so it is a number of instructions.
pub fn take_longest_hold(report: &mut LinearReport) {
    let held = fs::read_to_string(LONGEST_HOLD).ok();
    if let Some(held) = held.and_then(|text| text.trim().parse().ok()) {
        report.counts.insert("longest_hold_ns".into(), held);
    }
}

/// Bytes by leaf.
pub fn leaves() -> BTreeMap<String, u64> {
    linear::leaves(&meminfo())
}

fn meminfo() -> String {
    fs::read_to_string("/proc/meminfo").unwrap_or_default()
}

/// How often the kernel changed leaves of the map, by what it calls that.
pub fn events() -> BTreeMap<String, u64> {
    linear::events(&fs::read_to_string("/proc/vmstat").unwrap_or_default())
}

/// Has the instructions counted that the kernel takes to make the map wider, if it does.
pub fn count_collapses() -> Result<()> {
    let kallsyms = fs::read_to_string(KALLSYMS).context(KALLSYMS)?;
    if let Some(address) = address(&kallsyms, WORKER) {
        marker::count_calls(address);
    }
    Ok(())
}

/// The address of a function by the text of /proc/kallsyms.
fn address(kallsyms: &str, function: &str) -> Option<u64> {
    let mut lines = kallsyms.lines().map(|line| line.split_whitespace());
    lines.find_map(|mut words| {
        let (address, kind, name) = (words.next()?, words.next()?, words.next()?);
        let found = name == function && kind.eq_ignore_ascii_case("t");
        found.then(|| u64::from_str_radix(address, 16).ok())?
    })
}

/// How many of `boot`'s bytes `now` maps by narrower leaves than `boot` did.
pub fn narrower(boot: &BTreeMap<String, u64>, now: &BTreeMap<String, u64>) -> u64 {
    let at_least = |leaves: &BTreeMap<String, u64>, limit: u64| -> u64 {
        let wide = |leaf: &&String| wideleaf_kit::size::parse(leaf).is_ok_and(|size| size >= limit);
        let wide = leaves.iter().filter(|(leaf, _)| wide(leaf));
        wide.map(|(_, bytes)| bytes).sum()
    };
    let sizes = boot
        .keys()
        .filter_map(|leaf| wideleaf_kit::size::parse(leaf).ok());
    let lost = sizes.map(|size| at_least(boot, size).saturating_sub(at_least(now, size)));
    lost.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaves(list: &[(&str, u64)]) -> BTreeMap<String, u64> {
        list.iter()
            .map(|(leaf, bytes)| (leaf.to_string(), *bytes))
            .collect()
    }

    #[test]
    fn a_function_is_found_by_its_whole_name() {
        let text = "ffff800080010000 T collapse_worker\nffff800080020000 d collapse_work\n\
                    ffff800080030040 t collapse_work\n";
        assert_eq!(address(text, "collapse_work"), Some(0xffff_8000_8003_0040));
        assert_eq!(address(text, "collapse"), None);
    }

    #[test]
    fn what_became_narrower_is_counted_once() {
        let boot = leaves(&[("4K", 10), ("2M", 100), ("1G", 1000)]);
        assert_eq!(narrower(&boot, &boot), 0);
        assert_eq!(narrower(&boot, &leaves(&[("4K", 1110)])), 1100);
        assert_eq!(narrower(&boot, &leaves(&[("4K", 110), ("1G", 1000)])), 100);
        assert_eq!(narrower(&boot, &leaves(&[("4K", 10), ("2M", 1100)])), 1000);
        // Wider is no loss.
        assert_eq!(narrower(&boot, &leaves(&[("1G", 1110)])), 0);
    }
}
