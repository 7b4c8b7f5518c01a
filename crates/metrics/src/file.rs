// SPDX-License-Identifier: GPL-2.0-only
//! A file that is whole whenever somebody reads it.

use std::fs::Permissions;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Replaces `path` by a file with this text in one step, readable for all:
/// node_exporter runs as another user.
///
/// Fails if a file cannot be written beside `path`.
pub fn replace(path: &Path, text: &str) -> io::Result<()> {
    let folder = path
        .parent()
        .filter(|p| !p.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new()
        .prefix(".wideleaf-")
        .permissions(Permissions::from_mode(0o644))
        .tempfile_in(folder)?;
    file.write_all(text.as_bytes())?;
    // The umask applies to new files; readers need the bits.
    file.as_file()
        .set_permissions(Permissions::from_mode(0o644))?;
    file.persist(path).map(|_| ()).map_err(|e| e.error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_replaced_and_nothing_left_behind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("wideleaf.prom");
        replace(&path, "old").unwrap();
        replace(&path, "new").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(
            std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o644
        );
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(replace(&folder.path().join("none/x"), "x").is_err());
    }
}
