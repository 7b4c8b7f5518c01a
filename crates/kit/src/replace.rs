// SPDX-License-Identifier: GPL-2.0-only
//! Files that are whole whenever somebody reads them.

use crate::fresh::Fresh;
use std::fs::Permissions;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Replaces `path` by a file with this content in one step, readable for all whatever the umask.
/// It is on the disk when this returns.
///
/// # Errors
///
/// If a file cannot be written beside `path`; what was there before is there still.
pub fn replace(path: &Path, content: impl AsRef<[u8]>) -> io::Result<()> {
    let fresh = Fresh::beside(path)?;
    let mut file = fresh.file();
    file.write_all(content.as_ref())?;
    file.set_permissions(Permissions::from_mode(0o644))?;
    fresh.replace(path).map_err(|refused| refused.error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_file_is_replaced_and_nothing_left_behind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("wideleaf.prom");
        replace(&path, "old").unwrap();
        replace(&path, "new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o644);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        let error = replace(&folder.path().join("none/x"), "x").unwrap_err();
        assert_eq!(error.to_string(), "No such file or directory (os error 2)");
        // A folder cannot be replaced: what was to take its place is gone, too.
        fs::create_dir(folder.path().join("folder")).unwrap();
        assert!(replace(&folder.path().join("folder"), "x").is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
