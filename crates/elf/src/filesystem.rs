// SPDX-License-Identifier: GPL-2.0-only
//! What the file system that holds a file has to do with its mappings.

use serde::Serialize;

/// What the file system that holds a file does about its mappings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FileSystem {
    /// Its name, as in /proc/mounts.
    pub name: &'static str,
    /// Whether it asks mmap to align large mappings to the PMD's size.
    pub aligns: bool,
}

impl FileSystem {
    /// Containers see their image through it.
    pub const OVERLAY: FileSystem = FileSystem {
        name: "overlay",
        aligns: false,
    };
}
