// SPDX-License-Identifier: GPL-2.0-only
//! The commits of a range, read from a git repository that is not written to.

use crate::{commit, mail, scratch};
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use wideleaf_kit::tool;

/// A row of commits, each the child of the one before.
pub(super) struct Range {
    /// As it was asked for.
    pub name: String,
    pub revisions: Vec<Revision>,
    repository: String,
    /// Stands for the work tree: what the user has there says nothing of the commits, and other
    /// attributes would change how differences are shown.
    empty: tempfile::TempDir,
}

/// A commit.
pub(super) struct Revision {
    id: String,
    parent: String,
    subject: String,
    /// What it does to files, by path.
    pub changes: BTreeMap<String, Change>,
}

/// What a commit does to a file.
pub(super) struct Change {
    pub old: Option<Blob>,
    pub new: Option<Blob>,
}

/// A file's content and mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Blob {
    /// `100644`, `100755`; others are no plain files.
    pub mode: String,
    id: String,
}

impl Range {
    /// Reads the range `name` of the repository at `tree`.
    pub(super) fn read(tree: &Path, name: &str) -> Result<Self> {
        let shown = tree.display();
        let repository = tool::stdout(commit::git().arg("-C").arg(tree).args([
            "rev-parse",
            "--path-format=absolute",
            "--git-dir",
        ]))
        .with_context(|| format!("{shown}: not a git tree"))?;
        let mut range = Self {
            name: name.into(),
            revisions: Vec::new(),
            repository: repository.trim_end_matches('\n').into(),
            empty: scratch::folder()?,
        };
        let ours = scratch::ATTRIBUTES.as_bytes();
        scratch::write(range.empty.path(), ".gitattributes", ours)?;
        if !name.contains("..") || name.contains("...") {
            bail!("'{name}': write BASE..TIP: the commits after BASE up to TIP are the steps");
        }
        let list = tool::stdout(range.git().args([
            "rev-list",
            "--reverse",
            "--topo-order",
            "--no-commit-header",
            "--format=%H%x09%P%x09%s",
            "--end-of-options",
            name,
            "--",
        ]))
        .with_context(|| format!("'{name}': {shown} has no such commits"))?;
        for line in list.lines() {
            let mut words = line.splitn(3, '\t').map(str::to_string);
            let mut next = || words.next().unwrap_or_default();
            let (id, parent, subject) = (next(), next(), next());
            let changes = BTreeMap::new();
            let revision = Revision {
                id,
                parent,
                subject,
                changes,
            };
            let before = range.revisions.last().map(|before| &before.id);
            if revision.parent.is_empty()
                || revision.parent.contains(' ')
                || before.is_some_and(|before| *before != revision.parent)
            {
                bail!(
                    "'{name}': {revision} is a merge or beside the others: a series is a row of \
                     commits, each with the one before as its parent"
                );
            }
            let changes = range.changes(&revision)?;
            range.revisions.push(Revision {
                changes,
                ..revision
            });
        }
        if range.revisions.is_empty() {
            bail!("'{name}': no commits in {shown}");
        }
        Ok(range)
    }

    /// A file's content.
    pub(super) fn blob(&self, blob: &Blob) -> Result<Vec<u8>> {
        Ok(tool::output(self.git().args(["cat-file", "blob", &blob.id]))?.stdout)
    }

    /// Writes the commit of this number as a mail into the folder `to`, without the files `less`.
    pub(super) fn patch(&self, number: usize, less: &[String], to: &Path) -> Result<PathBuf> {
        let revision = &self.revisions[number];
        let mut git = self.git();
        git.args([
            "format-patch",
            "-N",
            "-p",
            "--zero-commit",
            "--no-signature",
        ])
        // Whatever the repository's configuration says.
        .args(["--subject-prefix=PATCH", "--filename-max-length=64"])
        .args([
            "--no-thread",
            "--no-attach",
            "--no-cover-letter",
            "--no-base",
        ])
        .args([
            "--no-to",
            "--no-cc",
            "--no-add-header",
            "--no-notes",
            "--no-signoff",
        ])
        .args(["--full-index", "--binary", "--no-renames", "--unified=3"])
        .args([
            "--src-prefix=a/",
            "--dst-prefix=b/",
            "--diff-algorithm=default",
        ])
        .args(["--no-ext-diff", "--no-textconv", "--inter-hunk-context=0"])
        .args(["-O/dev/null", "--ignore-submodules=none"])
        .arg(format!("--start-number={}", number + 1))
        .arg("-o")
        .arg(to)
        .arg(format!("{}..{}", revision.parent, revision.id))
        .args(["--", ":/"])
        .args(
            less.iter()
                .map(|path| format!(":(top,exclude,literal){path}")),
        );
        let written = tool::stdout(&mut git).with_context(|| format!("cannot write {revision}"))?;
        let written = written.trim_end_matches('\n');
        if written.is_empty() {
            bail!(
                "{revision} does nothing but add files, or nothing at all: a step ties in what \
                 it adds (Makefile, Kconfig), so that no step adds a file that no build sees"
            );
        }
        let path = PathBuf::from(written);
        let text = fs::read_to_string(&path)
            .with_context(|| format!("{revision}: a file that it changes is no text"))?;
        fs::write(&path, mail::anonymous(&text))?;
        Ok(path)
    }

    fn changes(&self, revision: &Revision) -> Result<BTreeMap<String, Change>> {
        let text = tool::stdout(self.git().args([
            "diff-tree",
            "-r",
            "-z",
            "--no-renames",
            "--no-abbrev",
            &revision.parent,
            &revision.id,
        ]))?;
        let mut changes = BTreeMap::new();
        let mut fields = text.split('\0');
        // ":100644 100755 OLD NEW M", then the path.
        while let (Some(head), Some(path)) = (fields.next(), fields.next()) {
            let words: Vec<_> = head.trim_start_matches(':').split(' ').collect();
            let [old_mode, new_mode, old, new, _] = words[..] else {
                bail!("git diff-tree: cannot read '{head}'");
            };
            let blob = |mode: &str, id: &str| match mode {
                "000000" => Ok(None),
                "100644" | "100755" => Ok(Some(Blob {
                    mode: mode.into(),
                    id: id.into(),
                })),
                _ => bail!("{revision}: {path} is no plain file: a series holds nothing else"),
            };
            let change = Change {
                old: blob(old_mode, old)?,
                new: blob(new_mode, new)?,
            };
            changes.insert(path.to_string(), change);
        }
        Ok(changes)
    }

    /// git in the repository.
    fn git(&self) -> Command {
        let mut git = scratch::git(self.empty.path());
        git.env("GIT_DIR", &self.repository)
            .env("GIT_WORK_TREE", self.empty.path())
            .env("GIT_INDEX_FILE", self.empty.path().join("index"));
        git
    }
}

impl std::fmt::Display for Revision {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let short = &self.id[..self.id.len().min(12)];
        write!(f, "{short} ('{}')", self.subject)
    }
}
