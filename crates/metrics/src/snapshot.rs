// SPDX-License-Identifier: GPL-2.0-only
//! Processes summed up by control group.

use std::collections::BTreeMap;
use wideleaf_containers::Container;
use wideleaf_procmap::{Coverage, Process};

/// The processes of one control group.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// Processes with text.
    pub processes: u64,
    /// Their text, each process's mappings counted: a page that ten processes
    /// share counts ten times, as it takes ten address spaces' TLB entries.
    pub text: Coverage,
    /// TLB entries that the neediest process needs for its resident text.
    pub needed: u64,
    /// Load of the last TLB level by that process; `None` without known TLBs.
    pub load: Option<f64>,
    /// The container that it is.
    pub container: Option<Container>,
}

/// What one scrape tells.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// By control group path.
    pub groups: BTreeMap<String, Group>,
    /// Base page size, bytes.
    pub page: u64,
    /// TLB entries for instructions by level.
    pub tlb: Vec<(u8, u32)>,
    /// Bytes of the kernel's linear map by leaf; empty where the kernel does not tell.
    pub linear: BTreeMap<String, u64>,
    /// What happened to its leaves since boot.
    pub linear_events: BTreeMap<String, u64>,
    /// Processes that could not be read, by reason.
    pub unreadable: Vec<(&'static str, u64)>,
    /// Runtimes, and files of theirs, of which no containers could be learnt.
    pub unasked: u64,
    /// Processes whose leaves below PMD size are unknown.
    pub partly: u64,
    /// How long it took, seconds.
    pub seconds: f64,
    /// Version of the program.
    pub version: &'static str,
}

/// The group that takes those that are too many.
const OTHER: &str = "(other)";

impl Snapshot {
    /// Adds a process. Only the first `depth` parts of its control group's
    /// path are kept. `needed` and `load` are its TLB entries and load.
    pub fn add(&mut self, process: &Process, depth: usize, needed: u64, load: Option<f64>) {
        if process.total.size == 0 {
            return;
        }
        let group = self
            .groups
            .entry(shorten(&process.cgroup, depth))
            .or_default();
        group.processes += 1;
        group.text.add(&process.total);
        if needed >= group.needed {
            group.needed = needed;
            group.load = load;
        }
    }

    /// Keeps the `limit` groups with the most text and sums up the others: a
    /// label has to have few values.
    pub fn limit(&mut self, limit: usize) {
        if self.groups.len() <= limit {
            return;
        }
        let mut sizes: Vec<(u64, String)> = self
            .groups
            .iter()
            .map(|(name, g)| (g.text.size, name.clone()))
            .collect();
        sizes.sort_by(|a, b| b.cmp(a));
        for (_, name) in sizes.drain(limit..) {
            let group = self.groups.remove(&name).expect("listed above");
            let other = self.groups.entry(OTHER.to_owned()).or_default();
            other.processes += group.processes;
            other.text.add(&group.text);
            if group.needed >= other.needed {
                other.needed = group.needed;
                other.load = group.load;
            }
        }
    }
}

impl Snapshot {
    /// Gives groups that are containers what is known of these.
    pub fn name(&mut self, of: impl Fn(&str) -> Option<Container>) {
        for (cgroup, group) in &mut self.groups {
            group.container = of(cgroup);
        }
    }
}

fn shorten(cgroup: &str, depth: usize) -> String {
    let parts: Vec<&str> = cgroup
        .split('/')
        .filter(|p| !p.is_empty())
        .take(depth)
        .collect();
    format!("/{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wideleaf_procmap::{Folios, Sight};

    pub(crate) fn process(cgroup: &str, size: u64) -> Process {
        Process {
            pid: 1,
            name: String::new(),
            name_bytes: None,
            cgroup: cgroup.to_owned(),
            cgroup_bytes: None,
            sight: Sight::Full,
            total: Coverage {
                size,
                resident: size,
                leaves: BTreeMap::from([(4096, size)]),
                unknown: 0,
            },
            folios: Folios::default(),
            mappings: Vec::new(),
        }
    }

    #[test]
    fn processes_add_up_and_the_neediest_counts() {
        let mut snapshot = Snapshot::default();
        snapshot.add(&process("/a/b/c", 8192), 2, 2, Some(0.5));
        snapshot.add(&process("/a/b/d", 4096), 2, 1, Some(0.25));
        snapshot.add(&process("/kthread", 0), 2, 0, None);
        assert_eq!(snapshot.groups.keys().collect::<Vec<_>>(), ["/a/b"]);
        let group = &snapshot.groups["/a/b"];
        assert_eq!(
            (group.processes, group.text.size, group.needed, group.load),
            (2, 12288, 2, Some(0.5))
        );
    }

    #[test]
    fn too_many_groups_become_one() {
        let mut snapshot = Snapshot::default();
        for i in 1..=5u64 {
            snapshot.add(&process(&format!("/{i}"), i * 4096), 9, i, None);
        }
        snapshot.limit(2);
        assert_eq!(
            snapshot.groups.keys().collect::<Vec<_>>(),
            ["(other)", "/4", "/5"]
        );
        assert_eq!(
            (
                snapshot.groups[OTHER].text.size,
                snapshot.groups[OTHER].needed
            ),
            (6 * 4096, 3)
        );
    }
}
