// SPDX-License-Identifier: GPL-2.0-only
//! Several files take the place of others, or none does.

use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// Moves each new file or folder to its place; without a new one what is there goes. `old` is a
/// folder of the same file system for what was there before.
///
/// # Errors
///
/// If one cannot be moved: then all are back where they were.
pub(super) fn swap(changes: &[(PathBuf, Option<PathBuf>)], old: &Path) -> Result<()> {
    fs::create_dir_all(old).with_context(|| format!("cannot create {}", old.display()))?;
    let mut undo: Vec<(PathBuf, PathBuf)> = Vec::new();
    let go = |undo: &mut Vec<(PathBuf, PathBuf)>| -> Result<()> {
        let mut step = |from: PathBuf, to: PathBuf| -> Result<()> {
            let parent = to.parent().unwrap_or(Path::new("."));
            fs::create_dir_all(parent)
                .and_then(|()| fs::rename(&from, &to))
                .with_context(|| format!("cannot move {} to {}", from.display(), to.display()))?;
            undo.push((to, from));
            Ok(())
        };
        for (number, (place, new)) in changes.iter().enumerate() {
            if place.symlink_metadata().is_ok() {
                step(place.clone(), old.join(number.to_string()))?;
            }
            if let Some(new) = new {
                step(new.clone(), place.clone())?;
            }
        }
        Ok(())
    };
    let result = go(&mut undo);
    if result.is_err() {
        for (now, before) in undo.into_iter().rev() {
            // Nothing better can be done if this fails as well; the first error says more.
            let _ = fs::rename(now, before);
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_moved_or_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        for name in ["a", "b", "gone", "new-a", "new-b"] {
            fs::write(path(name), name).unwrap();
        }
        let text = |name: &str| fs::read_to_string(path(name)).unwrap_or_default();
        let mut changes = vec![
            (path("a"), Some(path("new-a"))),
            (path("gone"), None),
            (path("deep/er"), Some(path("new-b"))),
            (path("b"), Some(path("none"))),
        ];
        let error = swap(&changes, &path("old")).unwrap_err();
        assert!(format!("{error:#}").contains("none"), "{error:#}");
        for name in ["a", "b", "gone", "new-a", "new-b"] {
            assert_eq!(text(name), name);
        }
        changes.pop();
        swap(&changes, &path("old")).unwrap();
        assert_eq!(
            (text("a"), text("deep/er")),
            ("new-a".into(), "new-b".into())
        );
        assert!(!path("gone").exists());
    }
}
