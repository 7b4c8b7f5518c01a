// SPDX-License-Identifier: GPL-2.0-only
//! Free disk space.

use anyhow::{Context, Result};
use std::path::Path;

/// Bytes that an unprivileged user may still write to the file system of `path`.
pub(crate) fn free(path: &Path) -> Result<u64> {
    let stat = nix::sys::statvfs::statvfs(path)
        .with_context(|| format!("cannot tell the free space at {}", path.display()))?;
    Ok(stat.blocks_available() as u64 * stat.fragment_size() as u64)
}
