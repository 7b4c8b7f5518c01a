// SPDX-License-Identifier: GPL-2.0-only
//! Builds the base's own `tools/testing/selftests/mm`, and what the series adds to it.
//!
//! The kernel's own Makefile does it, in a copy of the parts of the pristine
//! tree that it reads, of which only the tests are patched, so that nobody
//! waits for the tree meanwhile. Programs are linked statically, as a guest has
//! no libraries; the libraries that they want are Debian's for the guest's
//! architecture, and so are the shell and the small programs that the base's
//! own runner needs.

use crate::source::{self, Source};
use crate::worktree::WorkTree;
use crate::{Arch, Base, Stack, build, make, toolchain};
use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use wideleaf_cache::{Cache, Entry, Key, Lock};
use wideleaf_debian::Packages;
use wideleaf_kit::events::{Event, Observer};

/// The cache's kind of entry that holds them.
const KIND: &str = "selftests";

/// Changes when what is done here changes what comes out.
const RECIPE: &str = "4";

/// What is built, in the source tree.
const TESTS: &str = "tools/testing/selftests/mm/";

/// The base's own program that runs them.
pub const RUNNER: &str = "run_vmtests.sh";

/// The parts of the tree that are needed, besides the architecture's.
const PARTS: [&str; 10] = [
    "Kbuild",
    "Kconfig",
    "Makefile",
    "include",
    "lib/test_hmm_uapi.h",
    "mm/gup_test.h",
    "scripts",
    "tools",
    "usr",
    "arch/Kconfig",
];

/// What the runner needs, a static C library for the guest, and the libraries
/// that tests want.
const PACKAGES: [&str; 6] = [
    "bash-static",
    "busybox-static",
    "libc6-dev",
    "libcap-dev",
    "libnuma-dev",
    "liburing-dev",
];

/// What the runner needs of them: where it is, and its name in the entry.
const TOOLS: [(&str, &str); 2] = [("bin/bash-static", "bash"), ("bin/busybox", "busybox")];

/// The khugepaged.c of 6.12.117 forgets kselftest.h: it does not compile without this line of it.
const OPTION: &str = "-DKSFT_SKIP=4";

/// Bytes that a copy of the tree's parts and the programs take.
const SPACE: u64 = 1 << 30;

/// The tests of the source `version` of `base`, with what `stack` does to them, built for `arch` if
/// they are not in the cache: programs and scripts, [`RUNNER`] among them, static `bash`
/// and `busybox` for it, and the log of the build. `None` is the newest version.
///
/// # Errors
///
/// If the source or a library cannot be had, or a program does not build.
pub fn ensure(
    base: Base,
    version: Option<&str>,
    arch: Arch,
    stack: &Stack,
    cache: &Cache,
    observer: &dyn Observer,
) -> Result<Entry> {
    let source = match version {
        Some(version) => source::pinned(base, version, cache, observer)?,
        None => Source::newest(base, false, cache, observer)?,
    };
    let packages = Packages::ensure(arch, &PACKAGES, cache, observer)?;
    let key = Key::new()
        .field("recipe", RECIPE)
        .field("source", source.to_string())
        .field("arch", arch.name())
        .field("compiler", toolchain::compiler(arch)?)
        .field("packages", packages.names().join(" "))
        .field("tests", stack.hash_below(TESTS)?);
    if let Some(entry) = cache.get(KIND, &key) {
        return Ok(entry);
    }
    cache.require_space(SPACE, "building the selftests")?;
    let lock = cache.lock(&format!("{KIND}-{base}-{arch}"), || {
        observer.event(Event::Waiting("another run that builds the selftests"));
    })?;
    let entry = cache.get_or_build(
        KIND,
        &key,
        || (),
        |into| {
            let work = tempfile::Builder::new()
                .prefix("selftests.")
                .tempdir_in(cache.root())?;
            let (tree, root) = (work.path().join("src"), work.path().join("root"));
            fs::create_dir(&tree)?;
            fs::create_dir(&root)?;
            let work_tree = WorkTree::open(&source, cache, observer)?;
            work_tree.copy(&parts(arch), &tree)?;
            work_tree.patch_copy(stack, TESTS, &tree)?;
            drop(work_tree);
            packages.unpack(&root)?;
            let compiler = work.path().join("cc");
            write_compiler(&compiler, arch, &root)?;
            let text = format!("building the selftests of {source} for {arch}");
            observer.event(Event::Step(&text));
            compile(&tree, arch, &compiler, &lock, into)?;
            for (from, to) in TOOLS {
                let from = root.join(from);
                fs::copy(&from, into.join(to))
                    .with_context(|| format!("cannot copy {}", from.display()))?;
            }
            collect(&tree.join(TESTS), into)
        },
    )?;
    Ok(entry)
}

fn parts(arch: Arch) -> Vec<&'static str> {
    let folder = match arch {
        Arch::Arm64 => "arch/arm64",
        Arch::X86_64 => "arch/x86",
    };
    PARTS.into_iter().chain([folder]).collect()
}

/// A program by itself, because the tests' Makefile takes the compiler's name apart where it may.
/// It links statically, for not every rule there takes LDFLAGS.
fn write_compiler(path: &Path, arch: Arch, root: &Path) -> Result<()> {
    let gcc = toolchain::static_compiler(arch, root).join(" ");
    fs::write(path, format!("#!/bin/sh\nexec {gcc} {OPTION} \"$@\"\n"))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

fn compile(tree: &Path, arch: Arch, compiler: &Path, lock: &Lock, into: &Path) -> Result<()> {
    let log_path = into.join("build.log");
    let mut log = File::create(&log_path)?;
    let mut headers = build::command(tree, arch);
    headers.arg("headers");
    let mut tests = build::command(&tree.join("tools/testing/selftests"), arch);
    tests
        .arg(format!("CC={}", compiler.display()))
        .args(["TARGETS=mm", "USERLDFLAGS=-static"])
        .arg("all");
    for mut command in [headers, tests] {
        make::run(&mut command, lock.as_fd(), &mut log, &log_path, &mut |_| ())?;
    }
    Ok(())
}

/// Programs and scripts, all of which are executable, and the runner, which a tree that was
/// switched by an earlier version is not sure to have so.
fn collect(from: &Path, into: &Path) -> Result<()> {
    for item in fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
        let item = item?;
        let meta = item.metadata()?;
        let is_runner = item.file_name() == RUNNER;
        if meta.is_file() && (is_runner || meta.permissions().mode() & 0o111 != 0) {
            let copy = into.join(item.file_name());
            fs::copy(item.path(), &copy)?;
            fs::set_permissions(&copy, fs::Permissions::from_mode(0o755))?;
        }
    }
    if !into.join(RUNNER).exists() {
        bail!("{}: no {RUNNER} in it", from.display());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_run_is_collected() {
        let (from, into) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        assert!(collect(from.path(), into.path()).is_err());
        for (name, mode) in [(RUNNER, 0o644), ("khugepaged", 0o755), ("cow.c", 0o644)] {
            let path = from.path().join(name);
            fs::write(&path, name).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        }
        collect(from.path(), into.path()).unwrap();
        let mut names: Vec<_> = fs::read_dir(into.path())
            .unwrap()
            .map(|item| item.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["khugepaged", RUNNER]);
        let runner = fs::metadata(into.path().join(RUNNER)).unwrap();
        assert_eq!(runner.permissions().mode() & 0o777, 0o755);
    }
}
