// SPDX-License-Identifier: GPL-2.0-only
//! A throw-away git repository that holds the files a series touches.

use crate::Base;
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use wideleaf_tool as tool;

/// File contents by path in the tree; `None` is a file that does not exist.
pub type Contents = BTreeMap<String, Option<Vec<u8>>>;

/// When the pristine files were committed; any fixed time will do.
const EPOCH: &str = "2024-11-17T22:15:08Z";

pub(crate) struct Scratch {
    dir: tempfile::TempDir,
}

impl Scratch {
    /// A repository whose first commit has the files of `original` that exist.
    pub(crate) fn new(original: &Contents) -> Result<Self> {
        let dir = tempfile::Builder::new()
            .prefix("wideleaf-series.")
            .tempdir()
            .context("cannot create a scratch folder")?;
        let scratch = Self { dir };
        scratch.git(&["init", "-q"])?;
        for (path, content) in original {
            if let Some(content) = content {
                let path = scratch.dir.path().join(path);
                fs::create_dir_all(path.parent().context("a path has a parent")?)?;
                fs::write(&path, content)
                    .with_context(|| format!("cannot write {}", path.display()))?;
            }
        }
        scratch.git(&["add", "-f", "."])?;
        scratch.git(&["commit", "-q", "--allow-empty", "-m", "pristine"])?;
        scratch.git(&["tag", "pristine"])?;
        Ok(scratch)
    }

    /// Applies a mail as one commit.
    pub(crate) fn am(&self, patch: &Path) -> Result<()> {
        let patch = patch.to_str().context("patch path is not UTF-8")?;
        let out = self
            .command()
            .args(["am", "-q", "--committer-date-is-author-date", patch])
            .output()
            .context("cannot run git")?;
        if !out.status.success() {
            let text = [out.stdout, out.stderr].concat();
            bail!("{}", failure(&String::from_utf8_lossy(&text)));
        }
        Ok(())
    }

    /// Puts a copy of `file` at `path` in the tree.
    pub(crate) fn copy(&self, file: &Path, path: &str) -> Result<()> {
        let to = self.dir.path().join(path);
        fs::create_dir_all(to.parent().context("a path has a parent")?)?;
        // Content only: the mode of a file in our repository means nothing.
        let content = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
        fs::write(&to, content).with_context(|| format!("cannot write {}", to.display()))
    }

    /// Adds what was copied to the last commit.
    pub(crate) fn amend(&self) -> Result<()> {
        self.git(&["add", "-f", "."])?;
        self.git(&["commit", "-q", "--amend", "--no-edit"])
            .map(drop)
    }

    /// The content of `path` now.
    pub(crate) fn read(&self, path: &str) -> Result<Option<Vec<u8>>> {
        match fs::read(self.dir.path().join(path)) {
            Ok(content) => Ok(Some(content)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("cannot read {path}")),
        }
    }

    /// Writes the commits as mails into `to`, a cover letter first.
    pub(crate) fn format(&self, to: &Path, base: Base, source: &str) -> Result<Vec<PathBuf>> {
        // The cover letter is from, and of the time of, the last commit.
        let ident = self.git(&["log", "-1", "--format=%an%n%ae%n%aI"])?;
        let mut ident = ident.lines();
        let mut format = self.command();
        for name in ["NAME", "EMAIL", "DATE"] {
            format.env(
                format!("GIT_COMMITTER_{name}"),
                ident.next().unwrap_or_default(),
            );
        }
        format
            .args(["format-patch", "-q", "--cover-letter", "--zero-commit"])
            .args(["--no-signature", "--full-index", "-o"])
            .arg(std::path::absolute(to)?)
            .arg("pristine..HEAD");
        tool::output(&mut format)?;
        let mut files: Vec<_> = fs::read_dir(to)?
            .filter_map(|item| Some(item.ok()?.path()))
            .collect();
        files.sort();
        let cover = files.first().context("git format-patch wrote nothing")?;
        let text = fs::read_to_string(cover)?
            .replace(
                "*** SUBJECT HERE ***",
                &format!("Wide leaves for executable text on Linux {base}"),
            )
            .replace(
                "*** BLURB HERE ***",
                &format!(
                    "Made by `wideleaf kernel export --base {base}` for {source}.\n\
                     Each step builds on its own."
                ),
            );
        fs::write(cover, text).with_context(|| format!("cannot write {}", cover.display()))?;
        Ok(files)
    }

    fn git(&self, args: &[&str]) -> Result<String> {
        tool::stdout(self.command().args(args))
            .with_context(|| format!("git {}", args.first().unwrap_or(&"")))
    }

    /// git in this repository, whatever the caller's repository, environment
    /// and configuration are.
    fn command(&self) -> Command {
        let mut command = Command::new("git");
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("GIT_") {
                command.env_remove(name);
            }
        }
        command
            .current_dir(self.dir.path())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("LC_ALL", "C");
        for role in ["AUTHOR", "COMMITTER"] {
            command
                .env(format!("GIT_{role}_NAME"), "Wideleaf")
                .env(format!("GIT_{role}_EMAIL"), "wideleaf@localhost")
                .env(format!("GIT_{role}_DATE"), EPOCH);
        }
        command
    }
}

/// What is worth telling of a failed `git am`: which files and why, without
/// its hints on how to go on in a repository that is about to vanish.
fn failure(text: &str) -> String {
    let errors: Vec<_> = text
        .lines()
        .filter_map(|line| {
            line.strip_prefix("error: ")
                .or(line.strip_prefix("fatal: "))
        })
        .collect();
    if errors.is_empty() {
        return text.trim().to_string();
    }
    errors.join("; ")
}
