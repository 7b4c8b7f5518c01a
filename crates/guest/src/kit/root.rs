// SPDX-License-Identifier: GPL-2.0-only
//! The folder of a disk that programs of a user land see as `/`.

use anyhow::{Context, Result};
use nix::mount::{MsFlags, mount};
use std::fs;
use std::path::Path;

/// The kernel's own file systems, and folders that programs write to, where the disk has a place
/// for them.
const PLACES: [(&str, &str); 5] = [
    ("devtmpfs", "/dev"),
    ("proc", "/proc"),
    ("sysfs", "/sys"),
    ("tmpfs", "/run"),
    ("tmpfs", "/tmp"),
];

/// Mounts what programs expect below their `/`.
///
/// # Errors
///
/// If the kernel lacks one of these file systems.
pub fn furnish(root: &str) -> Result<()> {
    for (kind, place) in PLACES {
        let target = format!("{root}{place}");
        if !Path::new(&target).exists() {
            continue;
        }
        mounted(kind, &target)?;
        if place == "/dev" {
            let shared = format!("{target}/shm");
            fs::create_dir_all(&shared).with_context(|| shared.clone())?;
            mounted("tmpfs", &shared)?;
        }
    }
    Ok(())
}

fn mounted(kind: &str, target: &str) -> Result<()> {
    let flags = MsFlags::empty();
    mount(Some(kind), target, Some(kind), flags, None::<&str>)
        .with_context(|| format!("mount {kind} on {target}"))
}
