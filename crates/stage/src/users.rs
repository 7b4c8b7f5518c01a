// SPDX-License-Identifier: GPL-2.0-only
//! Which processes map a copy.

use crate::journal::Staged;
use nix::libc::{major, minor};
use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use wideleaf_procmap::mappings;

/// The processes that map each of these copies, by the copy's name. Of processes that cannot be
/// looked at nothing is known; root can look at all that /proc shows.
pub(crate) fn of(files: &Path, staged: &[Staged]) -> HashMap<String, Vec<u32>> {
    let mut wanted: HashMap<(String, u64), String> = HashMap::new();
    for staged in staged {
        if let Ok(m) = files.join(&staged.copy).metadata() {
            let device = format!("{:02x}:{:02x}", major(m.dev()), minor(m.dev()));
            wanted.insert((device, m.ino()), staged.copy.clone());
        }
    }
    let mut users: HashMap<String, Vec<u32>> = HashMap::new();
    if wanted.is_empty() {
        return users;
    }
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    for pid in processes.filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok()) {
        let maps = fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
        for vma in mappings(&maps) {
            let Some(copy) = wanted.get(&(vma.device, vma.inode)) else {
                continue;
            };
            let pids = users.entry(copy.clone()).or_default();
            if pids.last() != Some(&pid) {
                pids.push(pid);
            }
        }
    }
    users
}
