// SPDX-License-Identifier: GPL-2.0-only
//! Which processes map a copy.

use crate::journal::Staged;
use nix::libc::{major, minor};
use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The processes that map each of these copies, by the copy's name. Of processes that cannot be
/// looked at nothing is known; root can look at all that /proc shows.
pub(crate) fn of(files: &Path, staged: &[Staged]) -> HashMap<String, Vec<u32>> {
    let mut wanted: HashMap<String, String> = HashMap::new();
    for staged in staged {
        if let Ok(m) = files.join(&staged.copy).metadata() {
            let (major, minor, inode) = (major(m.dev()), minor(m.dev()), m.ino());
            let key = format!("{major:02x}:{minor:02x} {inode}");
            wanted.insert(key, staged.copy.clone());
        }
    }
    let mut users: HashMap<String, Vec<u32>> = HashMap::new();
    if wanted.is_empty() {
        return users;
    }
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    for pid in processes.filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok()) {
        let maps = fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
        for line in maps.split(|b| *b == b'\n') {
            let Some(copy) = key(line).and_then(|key| wanted.get(&key)) else {
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

/// Device and inode of a line: `start-end perms offset device inode path`.
fn key(line: &[u8]) -> Option<String> {
    let mut fields = line.split(|b| *b == b' ').skip(3);
    let (device, inode) = (fields.next()?, fields.next()?);
    let text = |bytes| std::str::from_utf8(bytes).ok();
    Some(format!("{} {}", text(device)?, text(inode)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_maps_names_device_and_inode() {
        let line = b"00658000-01b8b000 r-xp 00258000 00:27 2            /usr/bin/a b";
        assert_eq!(key(line).as_deref(), Some("00:27 2"));
        assert_eq!(key(b""), None);
    }
}
