// SPDX-License-Identifier: GPL-2.0-only
//! A folder of a test's own.

use std::path::PathBuf;

/// It goes with the value.
pub struct Dir(pub tempfile::TempDir);

impl Dir {
    /// An empty one.
    pub fn new() -> Dir {
        Dir(tempfile::tempdir().unwrap())
    }

    /// Writes a file into it.
    pub fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
}
