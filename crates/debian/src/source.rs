// SPDX-License-Identifier: GPL-2.0-only
//! Files of Debian's source packages, for what no binary package has.

use crate::apt::{self, Lists};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
use wideleaf_cache::{Cache, Key};
use wideleaf_kit::events::{Event, Observer};
use wideleaf_kit::scratch::{Scratch, sweep};
use wideleaf_kit::tool;

/// The cache's kind of entry that holds a file.
const KIND: &str = "source-file";

/// The file `path` of the newest upstream sources of `package`, from the cache or downloaded. apt is
/// asked for newer ones at most once a day; without network those known last will do.
///
/// # Errors
///
/// If apt cannot find or get the sources, or they have no such file.
pub fn source_file(
    package: &str,
    path: &str,
    cache: &Cache,
    observer: &dyn Observer,
) -> Result<PathBuf> {
    let what = format!("sources of Debian {}", apt::USERLAND);
    let _lock = cache.lock("sources", || observer.event(Event::Waiting(&what)))?;
    let lists = Lists::sources(cache.root());
    lists.refresh(&what, observer);
    let archive = lists
        .source(package)
        .with_context(|| format!("{what}: {package}"))?;
    let key = Key::new()
        .field("suite", apt::USERLAND)
        .field("archive", &archive)
        .field("path", path);
    let fetch = |dir: &Path| {
        observer.event(Event::Step(&format!("downloading the source of {package}")));
        sweep(cache.root(), KIND);
        let work = Scratch::new(cache.root(), KIND)?;
        lists.download_source(package, work.path())?;
        let name = archive.split(' ').next().unwrap_or_default();
        extract(&work.join(name), path, dir)
    };
    let entry = cache.get_or_build(KIND, &key, || (), fetch)?;
    Ok(entry.path(name_of(path)))
}

/// Puts a file of an archive, whose files are all in one folder, into the folder `into`.
fn extract(archive: &Path, path: &str, into: &Path) -> Result<()> {
    let mut tar = Command::new("tar");
    tar.arg("-xf").arg(archive).arg("-C").arg(into);
    tar.args([
        "--transform=s,.*/,,",
        "--wildcards",
        "--no-wildcards-match-slash",
    ]);
    tool::output(tar.arg(format!("*/{path}"))).with_context(|| archive.display().to_string())?;
    ensure!(into.join(name_of(path)).is_file(), "{path}: is no file");
    Ok(())
}

fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn one_file_is_taken_and_one_that_is_not_there_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for (path, text) in [("a-1/contrib/x.c", "right"), ("a-1/b/contrib/x.c", "wrong")] {
            fs::create_dir_all(at(path).parent().unwrap()).unwrap();
            fs::write(at(path), text).unwrap();
        }
        let mut tar = Command::new("tar");
        tar.arg("-czf")
            .arg(at("a.tar.gz"))
            .arg("-C")
            .arg(dir.path());
        tool::output(tar.arg("a-1")).unwrap();
        extract(&at("a.tar.gz"), "contrib/x.c", dir.path()).unwrap();
        assert_eq!(fs::read_to_string(at("x.c")).unwrap(), "right");
        let error = extract(&at("a.tar.gz"), "contrib/y.c", dir.path()).unwrap_err();
        assert!(format!("{error:#}").contains("contrib/y.c"), "{error:#}");
    }
}
