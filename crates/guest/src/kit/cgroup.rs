// SPDX-License-Identifier: GPL-2.0-only
//! Memory cgroups.

use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

const ROOT: &str = "/sys/fs/cgroup";

/// A group of this name below the root, with this memory.max. It may be there already.
pub fn limited(name: &str, limit: &str) -> Result<PathBuf> {
    let root = Path::new(ROOT);
    write(&root.join("cgroup.subtree_control"), "+memory")
        .context("the kernel needs CONFIG_MEMCG")?;
    let group = root.join(name);
    fs::create_dir_all(&group).with_context(|| group.display().to_string())?;
    write(&group.join("memory.max"), limit)?;
    Ok(group)
}

/// A group of this name below the root, without a limit. It may be there already.
pub fn unlimited(name: &str) -> Result<PathBuf> {
    let group = Path::new(ROOT).join(name);
    fs::create_dir_all(&group)
        .with_context(|| format!("{}: the kernel needs CONFIG_CGROUPS", group.display()))?;
    Ok(group)
}

/// Whether a process lives in it.
pub fn is_populated(group: &Path) -> Result<bool> {
    let path = group.join("cgroup.events");
    let events = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    Ok(events.lines().any(|line| line == "populated 1"))
}

/// Sends SIGKILL to all its processes, also to those that fork meanwhile.
pub fn kill(group: &Path) -> Result<()> {
    write(&group.join("cgroup.kill"), "1")
}

/// Moves this process into it.
pub fn enter(group: &Path) -> Result<()> {
    write(&group.join("cgroup.procs"), "0")
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("{}: cannot write {text}", path.display()))
}
