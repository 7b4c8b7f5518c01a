// SPDX-License-Identifier: GPL-2.0-only
//! A throw-away git repository that holds the files a series touches.

use crate::author::Author;
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use wideleaf_kit::tool;

/// File contents by path in the tree; `None` is a file that does not exist.
pub type Contents = BTreeMap<String, Option<Vec<u8>>>;

/// When the pristine files were committed; any fixed time will do.
const EPOCH: &str = "2024-11-17T22:15:08Z";

/// What the kernel's own repository says of its files; it decides which function a hunk's head
/// names.
pub(crate) const ATTRIBUTES: &str = "\
*.[ch] diff=cpp
*.dts diff=dts
*.dts[io] diff=dts
*.rs diff=rust
";

pub(crate) struct Scratch {
    dir: tempfile::TempDir,
    author: Author,
}

impl Scratch {
    /// A repository whose first commit has the files of `original` that exist, and whose others
    /// are `author`'s.
    pub(crate) fn new(original: &Contents, author: &Author) -> Result<Self> {
        let scratch = Self {
            dir: folder()?,
            author: author.clone(),
        };
        scratch.git(&["init", "-q"])?;
        write(
            scratch.dir.path(),
            ".git/info/attributes",
            ATTRIBUTES.as_bytes(),
        )?;
        for (path, content) in original {
            if let Some(content) = content {
                write(scratch.dir.path(), path, content)?;
            }
        }
        scratch.git(&["add", "-f", "."])?;
        scratch.git(&["commit", "-q", "--allow-empty", "-m", "pristine"])?;
        scratch.git(&["tag", "pristine"])?;
        Ok(scratch)
    }

    /// Applies a mail without `From:` as one commit that the author signs off.
    pub(crate) fn am(&self, patch: &Path) -> Result<()> {
        let text = fs::read_to_string(patch).context("cannot read it")?;
        let (first, rest) = text.split_once('\n').context("it is empty")?;
        // git am reads mails from files; this one is not part of the tree.
        let mail = self.dir.path().join(".git/mail");
        fs::write(&mail, format!("{first}\nFrom: {}\n{rest}", self.author))?;
        let mut am = self.command();
        am.args(["am", "-q", "--signoff", "--committer-date-is-author-date"]);
        run(am.arg(&mail))
    }

    /// Gives `path` in the tree this content.
    pub(crate) fn write(&self, path: &str, content: &[u8]) -> Result<()> {
        write(self.dir.path(), path, content)
    }

    /// Adds what was written to the last commit.
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

    /// Writes the commits as mails into `to`, first a cover letter with this subject and text.
    pub(crate) fn format(&self, to: &Path, subject: &str, text: &str) -> Result<Vec<PathBuf>> {
        // The cover letter is of the time of the last commit.
        let date = self.git(&["log", "-1", "--format=%aI"])?;
        let mut format = self.command();
        format
            .env("GIT_COMMITTER_DATE", date.trim())
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
        let letter = fs::read_to_string(cover)?
            .replace("*** SUBJECT HERE ***", subject)
            .replace("*** BLURB HERE ***", text.trim_end());
        fs::write(cover, letter).with_context(|| format!("cannot write {}", cover.display()))?;
        Ok(files)
    }

    fn git(&self, args: &[&str]) -> Result<String> {
        tool::stdout(self.command().args(args))
            .with_context(|| format!("git {}", args.first().unwrap_or(&"")))
    }

    fn command(&self) -> Command {
        let mut command = git(self.dir.path());
        for role in ["AUTHOR", "COMMITTER"] {
            command
                .env(format!("GIT_{role}_NAME"), &self.author.name)
                .env(format!("GIT_{role}_EMAIL"), &self.author.email)
                .env(format!("GIT_{role}_DATE"), EPOCH);
        }
        command
    }
}

/// A folder that goes when this is dropped.
pub(crate) fn folder() -> Result<tempfile::TempDir> {
    tempfile::Builder::new()
        .prefix("wideleaf-series.")
        .tempdir()
        .context("cannot create a scratch folder")
}

/// Writes a file of the tree below the folder `dir`.
pub(crate) fn write(dir: &Path, path: &str, content: &[u8]) -> Result<()> {
    let file = dir.join(path);
    let write = || {
        fs::create_dir_all(file.parent().unwrap_or(dir))?;
        fs::write(&file, content)?;
        // As in the kernel's repository; what a patch says of a file's mode is compared.
        let mode = if is_script(content) { 0o755 } else { 0o644 };
        fs::set_permissions(&file, fs::Permissions::from_mode(mode))
    };
    write().with_context(|| format!("cannot write {}", file.display()))
}

/// Whether a file with this content is executable in the kernel's repository.
pub(crate) fn is_script(content: &[u8]) -> bool {
    content.starts_with(b"#!")
}

/// git in `dir`, whatever the caller's repository, environment and configuration are.
pub(crate) fn git(dir: &Path) -> Command {
    let mut command = crate::git::command();
    command
        .current_dir(dir)
        .env("GIT_CEILING_DIRECTORIES", dir.parent().unwrap_or(dir))
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("LC_ALL", "C");
    command
}

/// Runs git to its end.
///
/// # Errors
///
/// If it fails: which files and why.
pub(crate) fn run(git: &mut Command) -> Result<()> {
    let out = git.output().context("cannot run git")?;
    if !out.status.success() {
        let text = [out.stdout, out.stderr].concat();
        bail!("{}", failure(&String::from_utf8_lossy(&text)));
    }
    Ok(())
}

/// What is worth telling of a failed `git am` or `git apply`: which files and why, without
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_executable_and_sources_are_not() {
        let file = |text: &str| Some(text.as_bytes().to_vec());
        let original = [
            ("mm/run.sh".to_string(), file("#!/bin/sh\n")),
            ("mm/x.c".to_string(), file("int x;\n")),
        ];
        let scratch = Scratch::new(&original.into(), &Author::nobody()).unwrap();
        let list = scratch.git(&["ls-files", "-s"]).unwrap();
        let modes: Vec<_> = list.lines().map(|line| &line[..6]).collect();
        assert_eq!(modes, ["100755", "100644"], "{list}");
    }
}
