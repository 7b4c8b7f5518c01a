// SPDX-License-Identifier: GPL-2.0-only
//! Commits of somebody's own git tree, and their checkout in the cache.
//!
//! The user's repository is read and never written to: the checkout has its own folder and its own
//! index, and what the user has in the working tree does not count. All commits of a repository
//! are checked out at one path, one after the other, and git writes only files whose content
//! changes; so make compiles no more than it must.

use crate::Base;
use crate::place::{Place, TREE_BYTES};
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;
use wideleaf_cache::{Cache, Key};
use wideleaf_kit::events::{Event, Observer};
use wideleaf_kit::tool;

/// Settings of a user's or a repository that would change what a checkout writes, or run
/// something.
const FIXED: [&str; 8] = [
    "core.attributesFile=/dev/null",
    "core.autocrlf=false",
    "core.eol=lf",
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.sparseCheckout=false",
    "core.splitIndex=false",
    "core.symlinks=true",
];

/// A commit with a kernel's sources.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commit {
    /// The git tree, as it was named.
    pub dir: PathBuf,
    /// The commit's full name.
    pub id: String,
    /// Its content: the full name of its tree.
    pub tree: String,
    /// What it was asked for by: a branch, a tag.
    pub name: String,
    /// The version in its Makefile: `6.18.0-rc3`.
    pub version: String,
}

impl Commit {
    /// The commit that `name` stands for in the git tree `dir`.
    ///
    /// # Errors
    ///
    /// If `dir` is no git tree, has no such commit, or holds no kernel.
    pub fn find(dir: &Path, name: &str) -> Result<Self> {
        let shown = dir.display();
        let dir = dir
            .canonicalize()
            .with_context(|| format!("{shown}: no git tree there"))?;
        let git = |args: &[&str]| tool::stdout(git().arg("-C").arg(&dir).args(args));
        git(&["rev-parse", "--git-dir"]).with_context(|| {
            format!(
                "{shown}: not a git tree: name a folder that holds a kernel's sources under git"
            )
        })?;
        let resolve = |what: &str| {
            git(&["rev-parse", "--verify", "--quiet", "--end-of-options", what])
                .map(|text| text.trim().to_string())
        };
        let Ok(id) = resolve(&format!("{name}^{{commit}}")) else {
            bail!(
                "'{name}': {shown} has no such commit, branch or tag: 'git -C {shown} log' shows \
                 what it has"
            );
        };
        let tree = resolve(&format!("{id}^{{tree}}"))?;
        let is_file = |path: &str| git(&["cat-file", "-e", &format!("{id}:{path}")]).is_ok();
        for path in ["Makefile", "scripts/kconfig/merge_config.sh"] {
            if !is_file(path) {
                bail!("'{name}' in {shown} is no Linux kernel: it has no {path}");
            }
        }
        let makefile = git(&["cat-file", "blob", &format!("{id}:Makefile")])?;
        Ok(Self {
            version: version(&makefile).with_context(|| {
                format!("'{name}' in {shown} is no Linux kernel: its Makefile names no VERSION")
            })?,
            dir,
            id,
            tree,
            name: name.into(),
        })
    }

    /// The base whose fragments suit it: the newest one that is not newer.
    pub fn base(&self) -> Base {
        let of = numbers(&self.version);
        let older = |base: &Base| numbers(base.name()) <= of;
        let all = Base::ALL.iter().copied();
        let newest = all.filter(older).max_by_key(|base| numbers(base.name()));
        newest.unwrap_or(Base::ALL[0])
    }

    /// The first digits of the commit's name, by which people know it.
    pub fn short(&self) -> &str {
        &self.id[..self.id.len().min(12)]
    }

    /// The name of its place in the cache: one for each repository.
    pub(crate) fn place(&self) -> String {
        let key = Key::new().field("tree", self.dir.to_string_lossy());
        format!("tree-{}", &key.id()[..12])
    }

    /// Checks it out in the cache.
    pub(crate) fn check_out(&self, cache: &Cache, observer: &dyn Observer) -> Result<Place> {
        let what = self.dir.display().to_string();
        let place = Place::take(&self.place(), &what, cache, observer)?;
        let src = place.src();
        if !src.exists() {
            cache.require_space(TREE_BYTES, &format!("checking out {self}"))?;
        }
        observer.event(Event::Step(&format!("checking out {self}")));
        fs::create_dir_all(&src).with_context(|| format!("cannot create {}", src.display()))?;
        let index = place.dir().join("index");
        // Whoever was killed here left it; nobody else works here.
        match fs::remove_file(place.dir().join("index.lock")) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(error).context("cannot remove a stale index.lock");
            }
            _ => {}
        }
        let repository = tool::stdout(git().arg("-C").arg(&self.dir).args([
            "rev-parse",
            "--path-format=absolute",
            "--git-common-dir",
        ]))?;
        let git = |args: &[&str]| {
            let mut git = git();
            git.current_dir(&src)
                .env("GIT_DIR", repository.trim())
                .env("GIT_WORK_TREE", &src)
                .env("GIT_INDEX_FILE", &index)
                .args(args);
            tool::output(&mut git).with_context(|| format!("cannot check out {self}"))
        };
        git(&["read-tree", "--reset", "-u", &self.tree])?;
        // What an interrupted checkout of another commit wrote.
        git(&["clean", "-ffdxq"])?;
        Ok(place)
    }
}

impl std::fmt::Display for Commit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.name, self.short())
    }
}

/// git, with what must not depend on the user fixed.
pub(crate) fn git() -> Command {
    let mut git = crate::git::command();
    for setting in FIXED {
        git.args(["-c", setting]);
    }
    git
}

/// `6.18.0-rc3`, from the head of a kernel's Makefile.
fn version(makefile: &str) -> Option<String> {
    let value = |name: &str| {
        let mut lines = makefile.lines().filter_map(|line| line.split_once('='));
        let found = lines.find(|(key, _)| key.trim() == name)?.1.trim();
        Some(found.to_string())
    };
    let (major, minor) = (value("VERSION")?, value("PATCHLEVEL")?);
    let number = |text: &String| text.parse::<u32>().is_ok();
    if !number(&major) || !number(&minor) {
        return None;
    }
    let sublevel = value("SUBLEVEL").filter(number).unwrap_or("0".into());
    let extra = value("EXTRAVERSION").unwrap_or_default();
    Some(format!("{major}.{minor}.{sublevel}{extra}"))
}

/// The first two numbers of a version.
fn numbers(version: &str) -> (u32, u32) {
    let mut numbers = version
        .split(['.', '-'])
        .map(|text| text.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

#[cfg(test)]
#[path = "commit_tests.rs"]
mod tests;
