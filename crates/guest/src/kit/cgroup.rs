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

/// Moves this process into it.
pub fn enter(group: &Path) -> Result<()> {
    write(&group.join("cgroup.procs"), "0")
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("{}: cannot write {text}", path.display()))
}
