// SPDX-License-Identifier: GPL-2.0-only
//! What a process's memory control groups leave: beyond it the kernel reclaims
//! in the group, whoever asked.

use std::path::{Path, PathBuf};

/// Bytes that a process may still be charged with, by /proc/PID/cgroup below
/// `proc` and the hierarchies below `mounted` (`/sys/fs/cgroup`). `u64::MAX` if
/// nothing limits it, or nothing is known of a limit.
pub fn headroom(proc: &Path, mounted: &Path, pid: u32) -> u64 {
    let text = std::fs::read(proc.join(format!("{pid}/cgroup"))).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    text.lines()
        .filter_map(|line| group(line, mounted))
        .map(|(root, path, [limit, usage])| left(&root, &path, limit, usage))
        .min()
        .unwrap_or(u64::MAX)
}

type Group<'a> = (PathBuf, PathBuf, [&'a str; 2]);

/// `0::/a/b` of the one hierarchy, `4:memory:/a/b` of many.
fn group(line: &str, mounted: &Path) -> Option<Group<'static>> {
    let mut fields = line.splitn(3, ':').skip(1);
    let (controllers, path) = (fields.next()?, fields.next()?);
    let path = PathBuf::from(path.trim_start_matches('/'));
    if controllers.is_empty() {
        return Some((mounted.to_owned(), path, ["memory.max", "memory.current"]));
    }
    let memory = controllers.split(',').any(|c| c == "memory");
    let files = ["memory.limit_in_bytes", "memory.usage_in_bytes"];
    memory.then(|| (mounted.join("memory"), path, files))
}

/// The least that a group and those above it leave. `max` is no number.
fn left(root: &Path, path: &Path, limit: &str, usage: &str) -> u64 {
    path.ancestors()
        .filter_map(|group| {
            let read = |name: &str| {
                let text = std::fs::read_to_string(root.join(group).join(name)).ok()?;
                text.trim().parse::<u64>().ok()
            };
            Some(read(limit)?.saturating_sub(read(usage)?))
        })
        .min()
        .unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{create_dir_all, write};

    #[test]
    fn the_tightest_group_above_counts() {
        let root = tempfile::tempdir().unwrap();
        let (proc, groups) = (root.path().join("proc"), root.path().join("cgroup"));
        create_dir_all(proc.join("7")).unwrap();
        create_dir_all(groups.join("a/b")).unwrap();
        create_dir_all(groups.join("memory/c")).unwrap();
        write(proc.join("7/cgroup"), "0::/a/b\n").unwrap();
        assert_eq!(headroom(&proc, &groups, 7), u64::MAX);
        write(groups.join("a/memory.max"), "1000\n").unwrap();
        write(groups.join("a/memory.current"), "400\n").unwrap();
        write(groups.join("a/b/memory.max"), "max\n").unwrap();
        write(groups.join("a/b/memory.current"), "300\n").unwrap();
        assert_eq!(headroom(&proc, &groups, 7), 600);
        write(
            proc.join("7/cgroup"),
            "4:cpu,memory:/c\n1:name=systemd:/x\n",
        )
        .unwrap();
        write(groups.join("memory/c/memory.limit_in_bytes"), "50\n").unwrap();
        write(groups.join("memory/c/memory.usage_in_bytes"), "80\n").unwrap();
        assert_eq!(headroom(&proc, &groups, 7), 0);
        assert_eq!(headroom(&proc, &groups, 8), u64::MAX);
    }
}
