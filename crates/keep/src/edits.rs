// SPDX-License-Identifier: GPL-2.0-only
//! Files of the system that `enable` changes and `disable` restores, byte for byte.
//!
//! The journal holds what each file was, and is on the disk before the first of them changes. So
//! `disable` can undo an `enable` that was killed at any point, and a `disable` that was.

use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use wideleaf_kit::replace::replace;

/// A file and its new content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edit {
    /// The file.
    pub path: PathBuf,
    /// Its content before; none if there was no such file.
    pub before: Option<Vec<u8>>,
    /// Its content after.
    pub after: Vec<u8>,
    /// The uppermost of the folders that are made for it.
    #[serde(default)]
    pub made: Option<PathBuf>,
}

/// Why nothing was changed, or not all restored.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// A file that cannot be read or written.
    #[error("{}: {error}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// A journal of another program, or a damaged one.
    #[error("{}: is no journal of enable ({error}): restore it, or remove it", path.display())]
    Journal {
        /// Which.
        path: PathBuf,
        /// Why not.
        error: serde_json::Error,
    },
    /// Somebody has edited the file meanwhile.
    #[error(
        "{}: was changed since it was enabled, so that restoring it would lose that: undo the change, \
         or restore all the same with --force",
        path.display()
    )]
    Changed {
        /// Which.
        path: PathBuf,
    },
}

impl EditError {
    fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |error| Self::File { path, error }
    }
}

impl Edit {
    /// The change of a file, as it is now, to another content.
    ///
    /// # Errors
    ///
    /// If the file is there and cannot be read.
    pub fn new(path: &Path, after: impl FnOnce(&str) -> String) -> Result<Self, EditError> {
        // The file that a symbolic link names is edited, the link stays.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let before = content(&path)?;
        let text = String::from_utf8_lossy(before.as_deref().unwrap_or_default()).into_owned();
        let folders = path.ancestors().skip(1);
        let made = folders.take_while(|folder| !folder.exists()).last();
        Ok(Self {
            after: after(&text).into_bytes(),
            made: made.map(Path::to_owned),
            path,
            before,
        })
    }

    /// Whether anything would change.
    pub fn changes(&self) -> bool {
        self.before.as_deref() != Some(&self.after[..])
    }
}

fn content(path: &Path) -> Result<Option<Vec<u8>>, EditError> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(EditError::file(path)(error)),
    }
}

/// The changes as a unified diff.
pub fn differences(edits: &[Edit]) -> String {
    let one = |edit: &Edit| {
        let before = String::from_utf8_lossy(edit.before.as_deref().unwrap_or_default());
        let after = String::from_utf8_lossy(&edit.after);
        let mut options = diffy::DiffOptions::new();
        let from = match edit.before {
            Some(_) => edit.path.display().to_string(),
            None => "/dev/null".to_owned(),
        };
        options.set_original_filename(from);
        options.set_modified_filename(edit.path.display().to_string());
        options.create_patch(&before, &after).to_string()
    };
    edits
        .iter()
        .filter(|edit| edit.changes())
        .map(one)
        .collect()
}

/// The changes that a journal holds: none if nothing is enabled.
///
/// # Errors
///
/// If it is damaged.
pub fn pending(journal: &Path) -> Result<Vec<Edit>, EditError> {
    match content(journal)? {
        None => Ok(Vec::new()),
        Some(bytes) => serde_json::from_slice(&bytes).map_err(|error| EditError::Journal {
            path: journal.to_owned(),
            error,
        }),
    }
}

/// Makes the changes. What a file was before the first of several is what `restore` gives back.
///
/// # Errors
///
/// If a file cannot be written; those before it in the list are, and `restore` undoes them.
pub fn apply(journal: &Path, edits: &[Edit]) -> Result<(), EditError> {
    let mut all = pending(journal)?;
    for edit in edits.iter().filter(|edit| edit.changes()) {
        match all.iter_mut().find(|known| known.path == edit.path) {
            Some(known) => known.after = edit.after.clone(),
            None => all.push(edit.clone()),
        }
    }
    let text = serde_json::to_vec(&all).expect("paths of the system are UTF-8");
    write(journal, &text)?;
    edits
        .iter()
        .filter(|edit| edit.changes())
        .try_for_each(|edit| write(&edit.path, &edit.after))
}

/// Replaces a file in one step, with the mode that it had.
fn write(path: &Path, bytes: &[u8]) -> Result<(), EditError> {
    let wrong = || EditError::file(path);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(wrong())?;
    }
    let mode = fs::metadata(path).map(|m| m.permissions().mode() & 0o777);
    replace(path, bytes).map_err(wrong())?;
    match mode {
        Ok(mode) if mode != 0o644 => {
            let mode = fs::Permissions::from_mode(mode);
            fs::set_permissions(path, mode).map_err(wrong())
        }
        _ => Ok(()),
    }
}

/// Removes the folders that were made for a file, those that hold nothing else.
fn remove_folders(edit: &Edit) {
    let Some(made) = &edit.made else {
        return;
    };
    let folders = edit.path.ancestors().skip(1);
    for folder in folders.take_while(|folder| folder.starts_with(made)) {
        match fs::remove_dir(folder) {
            // By a restore that was killed.
            Err(error) if error.kind() != io::ErrorKind::NotFound => return,
            _ => {}
        }
    }
}

/// Gives back what the files of a journal were, and removes it. The files that were restored are
/// the answer.
///
/// # Errors
///
/// If one was changed by somebody else (then nothing is restored, unless `force`), or cannot be
/// written.
pub fn restore(journal: &Path, force: bool) -> Result<Vec<PathBuf>, EditError> {
    let edits = pending(journal)?;
    let mut to_do = Vec::new();
    for edit in &edits {
        let now = content(&edit.path)?;
        match now {
            now if now == edit.before => {}
            Some(now) if now == edit.after || force => to_do.push(edit),
            // Removed by hand: that is what it comes to if there was none before.
            None if force => to_do.push(edit),
            _ => {
                return Err(EditError::Changed {
                    path: edit.path.clone(),
                });
            }
        }
    }
    for edit in &to_do {
        match &edit.before {
            Some(before) => write(&edit.path, before)?,
            None => fs::remove_file(&edit.path).map_err(EditError::file(&edit.path))?,
        }
    }
    edits.iter().for_each(remove_folders);
    if !edits.is_empty() {
        fs::remove_file(journal).map_err(EditError::file(journal))?;
    }
    // Its folder, if it is empty: also after a restore that was killed before this.
    let _ = journal.parent().map(fs::remove_dir);
    Ok(to_do.into_iter().map(|edit| edit.path.clone()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Files {
        folder: tempfile::TempDir,
    }

    impl Files {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            fs::write(folder.path().join("old"), b"one\r\n\xfftwo").unwrap();
            Self { folder }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.folder.path().join(name)
        }

        fn edits(&self, text: &str) -> Vec<Edit> {
            let append = |old: &str| format!("{old}{text}\n");
            ["old", "etc/new"]
                .map(|name| Edit::new(&self.path(name), append).unwrap())
                .into()
        }

        fn are_as_before(&self) {
            assert_eq!(fs::read(self.path("old")).unwrap(), b"one\r\n\xfftwo");
            assert!(!self.path("etc").exists());
            assert!(!self.path("journal").exists());
        }
    }

    #[test]
    fn every_byte_comes_back_after_however_many_changes() {
        let files = Files::new();
        let mode = fs::Permissions::from_mode(0o600);
        fs::set_permissions(files.path("old"), mode).unwrap();
        let edits = files.edits("line");
        let diff = differences(&edits);
        assert!(
            diff.contains("+line") && diff.contains("/dev/null"),
            "{diff}"
        );
        apply(&files.path("journal"), &edits).unwrap();
        apply(&files.path("journal"), &files.edits("more")).unwrap();
        let new = fs::read_to_string(files.path("etc/new")).unwrap();
        assert_eq!(new, "line\nmore\n");
        assert_eq!(restore(&files.path("journal"), false).unwrap().len(), 2);
        files.are_as_before();
        let mode = fs::metadata(files.path("old"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(restore(&files.path("journal"), false).unwrap().is_empty());
    }

    #[test]
    fn a_file_that_was_edited_since_is_not_overwritten_without_force() {
        let files = Files::new();
        apply(&files.path("journal"), &files.edits("line")).unwrap();
        fs::write(files.path("etc/new"), "mine\n").unwrap();
        let error = restore(&files.path("journal"), false).unwrap_err();
        assert!(matches!(error, EditError::Changed { .. }), "{error}");
        assert!(
            fs::read(files.path("old")).unwrap().ends_with(b"line\n"),
            "nothing was restored"
        );
        restore(&files.path("journal"), true).unwrap();
        files.are_as_before();
    }

    #[test]
    fn what_was_killed_half_way_is_undone_or_done_again() {
        let files = Files::new();
        let edits = files.edits("line");
        // Killed after the journal was written, and after the first of the files.
        for done in 0..=1 {
            let text = serde_json::to_vec(&edits).unwrap();
            fs::write(files.path("journal"), text).unwrap();
            edits[..done]
                .iter()
                .for_each(|edit| write(&edit.path, &edit.after).unwrap());
            assert_eq!(restore(&files.path("journal"), false).unwrap().len(), done);
            files.are_as_before();
        }
        fs::write(files.path("journal"), "nonsense").unwrap();
        let error = restore(&files.path("journal"), false).unwrap_err();
        assert!(matches!(error, EditError::Journal { .. }), "{error}");
    }
}
