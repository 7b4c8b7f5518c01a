// SPDX-License-Identifier: GPL-2.0-only
//! Overlays of folders, as containers have them.

use anyhow::{Context, Result};
use nix::mount::{MsFlags, mount as mount_file_system};
use std::fs;

/// Mounts an overlay on the folder `at`: `lower` is below, what is written goes to the folder
/// `layers`, which may hold other things. Folders that are missing are made.
///
/// # Errors
///
/// If one cannot be made, or the kernel has no overlays.
pub fn mount(layers: &str, lower: &str, at: &str) -> Result<()> {
    let (upper, work) = (format!("{layers}/upper"), format!("{layers}/work"));
    for folder in [&upper, &work, lower, at] {
        fs::create_dir_all(folder).with_context(|| folder.to_string())?;
    }
    let options = format!("lowerdir={lower},upperdir={upper},workdir={work}");
    let kind = Some("overlay");
    mount_file_system(kind, at, kind, MsFlags::empty(), Some(options.as_str()))
        .with_context(|| format!("mount overlay ({options}) on {at}"))
}

/// Mounts an overlay over the folder `lower` that keeps what is written in memory, and returns
/// where.
///
/// # Errors
///
/// As [`mount`].
pub fn over(lower: &str) -> Result<String> {
    const LAYERS: &str = "/layers";
    fs::create_dir_all(LAYERS).context(LAYERS)?;
    let kind = Some("tmpfs");
    mount_file_system(kind, LAYERS, kind, MsFlags::empty(), None::<&str>)
        .with_context(|| format!("mount tmpfs on {LAYERS}"))?;
    let at = format!("{LAYERS}/merged");
    mount(LAYERS, lower, &at)?;
    Ok(at)
}
