// SPDX-License-Identifier: GPL-2.0-only
//! The lab's own host side as one hash: all sources that have a part in `wideleaf lab run`. The
//! build script compiles it in, so that a program can only speak for the sources that it was made
//! of.
//!
//! - the workspace's crates that run and judge a row, and those that they need, without their tests;
//! - the foreign crates that these need, by version and checksum (all by `Cargo.lock`);
//! - of this crate: `main.rs`, `cmd_lab.rs` and what they lead to. `main.rs` names every command, so
//!   what it alone uses does not count.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The crates that run a row and judge it.
const LAB: [&str; 3] = ["wideleaf-lab", "wideleaf-jobs", "wideleaf-matrix"];

/// Folders of a crate that no program is made of.
const APART: [&str; 3] = ["tests", "benches", "target"];

/// A package of `Cargo.lock`.
#[derive(Clone, Debug, Default)]
struct Package {
    name: String,
    version: String,
    checksum: String,
    is_foreign: bool,
    needs: Vec<String>,
}

/// The parts of the hash: the text of each input by its name.
///
/// # Errors
///
/// If a file cannot be read, or `Cargo.lock` does not have the lab.
pub fn inputs(workspace: &Path) -> io::Result<BTreeMap<String, Vec<u8>>> {
    let lock = fs::read_to_string(workspace.join("Cargo.lock"))?;
    let mut packages = packages(&lock);
    for package in packages.iter_mut().filter(|package| !package.is_foreign) {
        // Cargo.lock names the crates that only tests need as well.
        let text = fs::read_to_string(folder(workspace, &package.name).join("Cargo.toml"))?;
        let needs = needs(&text);
        package
            .needs
            .retain(|need| needs.contains(need.split(' ').next().unwrap_or(need)));
    }
    let packages = closure(&packages, &LAB);
    if let Some(lacking) = LAB
        .iter()
        .find(|name| packages.iter().all(|p| p.name != **name))
    {
        let text = format!("Cargo.lock has no package {lacking}");
        return Err(io::Error::new(io::ErrorKind::NotFound, text));
    }
    let mut inputs = BTreeMap::new();
    for package in packages {
        if package.is_foreign {
            let name = format!("{} {}", package.name, package.version);
            inputs.insert(name, package.checksum.into_bytes());
            continue;
        }
        for file in files(&folder(workspace, &package.name))? {
            add(&mut inputs, workspace, &file)?;
        }
    }
    for file in own(&workspace.join("crates/wideleaf/src"))? {
        add(&mut inputs, workspace, &file)?;
    }
    Ok(inputs)
}

fn add(inputs: &mut BTreeMap<String, Vec<u8>>, workspace: &Path, file: &Path) -> io::Result<()> {
    let name = file.strip_prefix(workspace).unwrap_or(file);
    inputs.insert(name.to_string_lossy().into_owned(), fs::read(file)?);
    Ok(())
}

/// The folder of a crate of the workspace.
fn folder(workspace: &Path, name: &str) -> PathBuf {
    let name = name.strip_prefix("wideleaf-").unwrap_or(name);
    workspace.join("crates").join(name)
}

fn packages(lock: &str) -> Vec<Package> {
    let value = |line: &str, key: &str| -> Option<String> {
        let rest = line.strip_prefix(key)?.strip_prefix(" = \"")?;
        Some(rest.trim_end_matches('"').to_string())
    };
    let package = |text: &str| {
        let mut package = Package::default();
        for line in text.lines() {
            if let Some(name) = value(line, "name") {
                package.name = name;
            } else if let Some(version) = value(line, "version") {
                package.version = version;
            } else if let Some(checksum) = value(line, "checksum") {
                package.checksum = checksum;
            } else if line.starts_with("source = ") {
                package.is_foreign = true;
            } else if let Some(need) = line.strip_prefix(" \"") {
                package.needs.push(need.trim_end_matches(['"', ',']).into());
            }
        }
        package
    };
    lock.split("[[package]]").skip(1).map(package).collect()
}

/// The names that a `Cargo.toml` depends on for more than its tests.
fn needs(manifest: &str) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    let mut counts = false;
    for line in manifest.lines() {
        if line.starts_with('[') {
            counts = line.ends_with("dependencies]") && !line.contains("dev-dependencies");
        } else if counts {
            let end = line.find(['.', ' ', '=']).unwrap_or(0);
            found.insert(line[..end].trim_matches('"'));
        }
    }
    found
}

/// `roots` and all that they need, by however many others.
fn closure(all: &[Package], roots: &[&str]) -> Vec<Package> {
    // A need has the version behind its name where there are several.
    let meets = |package: &Package, need: &str| {
        let mut words = need.split(' ');
        words.next() == Some(&package.name)
            && words
                .next()
                .is_none_or(|version| version == package.version)
    };
    let mut found: BTreeSet<usize> = BTreeSet::new();
    let mut left: Vec<String> = roots.iter().map(|name| name.to_string()).collect();
    while let Some(need) = left.pop() {
        for (number, package) in all.iter().enumerate() {
            if meets(package, &need) && found.insert(number) {
                left.extend(package.needs.iter().cloned());
            }
        }
    }
    found
        .into_iter()
        .map(|number| all[number].clone())
        .collect()
}

/// All files of a folder that a program may be made of.
fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for item in fs::read_dir(folder)? {
        let path = item?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with('.') || name.ends_with("_tests.rs") {
            continue;
        }
        if !path.is_dir() {
            found.push(path);
        } else if !APART.contains(&name.as_ref()) {
            found.extend(files(&path)?);
        }
    }
    Ok(found)
}

/// The files of this crate that `lab run` leads to.
fn own(src: &Path) -> io::Result<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::from([src.join("main.rs")]);
    let mut left = vec!["cmd_lab".to_string()];
    while let Some(module) = left.pop() {
        let mut all = vec![src.join(format!("{module}.rs"))];
        if src.join(&module).is_dir() {
            all.extend(files(&src.join(&module))?);
        }
        for file in all {
            if file.is_file() && found.insert(file.clone()) {
                left.extend(mentioned(&fs::read_to_string(&file)?));
            }
        }
    }
    Ok(found)
}

/// The modules of the crate's root that a file names: `crate::screen::Screen`.
fn mentioned(text: &str) -> Vec<String> {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let first = |rest: &str| -> String { rest.chars().take_while(|&c| is_of_name(c)).collect() };
    let mut names = Vec::new();
    for rest in text.split("crate::").skip(1) {
        match rest.strip_prefix('{') {
            Some(group) => {
                let group = group.split(';').next().unwrap_or(group);
                names.extend(group.split([',', '{', '}']).map(|part| first(part.trim())));
            }
            None => names.push(first(rest)),
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ours() -> BTreeMap<String, Vec<u8>> {
        inputs(Path::new("../..")).unwrap()
    }

    #[test]
    fn what_runs_a_row_is_an_input() {
        let inputs = ours();
        for name in [
            "crates/lab/src/run.rs",
            "crates/lab/Cargo.toml",
            "crates/lab/userland/load.c",
            "crates/jobs/src/storm/host.rs",
            "crates/matrix/src/attempt.rs",
            "crates/kbuild/src/build.rs",
            "crates/tlb/src/lib.rs",
            "crates/kit/src/lib.rs",
            "crates/wideleaf/src/main.rs",
            "crates/wideleaf/src/cmd_lab.rs",
            "crates/wideleaf/src/cmd_lab/execute.rs",
            "crates/wideleaf/src/screen.rs",
            "crates/wideleaf/src/screen/rows.rs",
            "crates/wideleaf/src/stdout.rs",
        ] {
            assert!(inputs.contains_key(name), "{name}");
        }
        assert!(inputs.keys().any(|name| name.starts_with("serde_json ")));
    }

    #[test]
    fn what_runs_no_row_is_none() {
        let inputs = ours();
        for part in [
            "crates/wideleaf/src/cmd_ps.rs",
            "crates/wideleaf/src/cmd_kernel",
            "crates/stage/",
            "crates/doctor/",
            "crates/run/",
            "crates/inspect/",
            "crates/report/",
            "crates/circles/",
            "crates/lab/tests/",
            "ratatui ",
            "_tests.rs",
        ] {
            let found = inputs.keys().find(|name| name.contains(part));
            assert_eq!(found, None, "{part}");
        }
    }

    #[test]
    fn needs_are_followed_by_name_and_version() {
        let lock = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1\"\n\
            dependencies = [\n \"b 2.0\",\n \"c\",\n]\n\n[[package]]\nname = \"b\"\nversion = \"1.0\"\n\
            source = \"r\"\nchecksum = \"x\"\n\n[[package]]\nname = \"b\"\nversion = \"2.0\"\n\
            source = \"r\"\nchecksum = \"y\"\ndependencies = [\n \"d\",\n]\n\n[[package]]\nname = \"c\"\n\
            version = \"1\"\n\n[[package]]\nname = \"d\"\nversion = \"1\"\n\n[[package]]\nname = \"e\"\n\
            version = \"1\"\n";
        let found = closure(&packages(lock), &["a"]);
        let names: Vec<_> = found
            .iter()
            .map(|p| format!("{} {}", p.name, p.version))
            .collect();
        assert_eq!(names, ["a 1", "b 2.0", "c 1", "d 1"]);
        assert_eq!(found[1].checksum, "y");
        assert!(found[1].is_foreign && !found[2].is_foreign);
    }

    #[test]
    fn what_only_tests_need_is_no_need() {
        let manifest = "[package]\nname = \"x\"\n[dependencies]\na.workspace = true\n\
            b = { version = \"1\" }\n[build-dependencies]\nc = \"1\"\n\
            [target.'cfg(unix)'.dependencies]\nd = \"1\"\n[dev-dependencies]\ne = \"1\"\n";
        let found: Vec<_> = needs(manifest).into_iter().collect();
        assert_eq!(found, ["a", "b", "c", "d"]);
    }

    #[test]
    fn modules_are_found_in_paths_and_groups() {
        let text = "use crate::screen::Screen;\nuse crate::{stdout::{say, tell}, usage};\n\
                    fn f() { crate::order::by(1) }";
        let names = mentioned(text);
        for name in ["screen", "stdout", "usage", "order"] {
            assert!(names.contains(&name.to_string()), "{names:?}");
        }
    }
}
