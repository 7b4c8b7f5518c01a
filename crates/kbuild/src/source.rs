// SPDX-License-Identifier: GPL-2.0-only
//! Which source version there is, and the package that holds it.

use crate::Base;
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use wideleaf_cache::{Cache, Key};
use wideleaf_debian::apt::{self, Lists, MAIN, SECURITY, Suite};
use wideleaf_kit::events::{Event, Observer};

/// The cache's kind of entry that holds a package.
const KIND: &str = "source";

/// The journal's file name.
pub(crate) const JOURNAL: &str = "tree.json";

/// What a package takes, in bytes: 7.3's has 167 MB.
const PACKAGE_BYTES: u64 = 200 << 20;

/// The places in Debian's archive that carry a base: address and suite. 6.12
/// is in trixie itself, but the security suites have every version of it and
/// lists of 300 kB instead of 10 MB; 7.3 is a backport until its successor
/// replaces it.
pub(crate) const fn suites(base: Base) -> &'static [Suite] {
    match base {
        Base::V6_12 => &[
            (SECURITY, "bookworm-security"),
            (SECURITY, "trixie-security"),
        ],
        Base::V7_3 => &[(MAIN, "trixie-backports")],
    }
}

fn private(cache: &Cache, base: Base) -> Lists {
    Lists::private(cache.root(), base.name(), suites(base))
}

/// A version of a base's source package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The base.
    pub base: Base,
    /// The Debian version: `6.12.117-1~deb12u1`.
    pub version: String,
}

impl Source {
    /// The newest version that is in the cache or offered by apt.
    ///
    /// The system's own lists are asked first; private ones are fetched where
    /// those offer nothing, at most once a day, and always with `refresh`.
    /// Without network the newest in the cache is taken, with a note.
    pub fn newest(
        base: Base,
        refresh: bool,
        cache: &Cache,
        observer: &dyn Observer,
    ) -> Result<Self> {
        let cached = cached(base, cache)?;
        let system = Lists::System.candidate(&base.package()).unwrap_or_default();
        let private = private(cache, base);
        if refresh || system.is_none() {
            let _lock = lock(base, cache, observer)?;
            if let Err(error) = private.update(refresh) {
                let Some(newest) = apt::newest(cached.clone())? else {
                    return Err(error.context(format!(
                        "cannot get the lists that offer {}, and no version of it is in {}",
                        base.package(),
                        cache.root().display()
                    )));
                };
                observer.event(Event::Note(&format!(
                    "apt cannot get its lists: going on with {} {newest} from the cache",
                    base.package()
                )));
            }
        }
        let offered = private.candidate(&base.package()).unwrap_or_default();
        let all = cached.into_iter().chain(system).chain(offered);
        let version = apt::newest(all)?.with_context(|| {
            format!(
                "{}: neither the system's lists nor Debian's suites for this base offer it",
                base.package()
            )
        })?;
        Ok(Self { base, version })
    }

    /// The package's file, downloaded and signature-checked by apt if it is
    /// not in the cache.
    pub fn package(&self, cache: &Cache, observer: &dyn Observer) -> Result<PathBuf> {
        if let Some(entry) = cache.get(KIND, &self.key()) {
            return find_package(entry.dir());
        }
        let _lock = lock(self.base, cache, observer)?;
        let entry = cache.get_or_build(
            KIND,
            &self.key(),
            || (),
            |dir| {
                cache.require_space(PACKAGE_BYTES, &self.to_string())?;
                observer.event(Event::Step(&format!("downloading {self}")));
                self.download(cache, dir)
            },
        )?;
        find_package(entry.dir())
    }

    /// The version's name in paths; make takes no colon in them.
    pub(crate) fn dir_name(&self) -> String {
        format!("{}-{}", self.base, self.version.replace(':', "%3a"))
    }

    fn download(&self, cache: &Cache, dir: &Path) -> Result<()> {
        let (package, private) = (self.base.package(), private(cache, self.base));
        let Err(system) = Lists::System.download(&package, &self.version, dir) else {
            return Ok(());
        };
        // The system's lists do not have it, or are so old that the file has
        // gone from the archive.
        private
            .update(false)
            .and_then(|()| private.download(&package, &self.version, dir))
            .map(drop)
            .with_context(|| format!("cannot download {self} (by the system's lists: {system})"))
    }

    fn key(&self) -> Key {
        Key::new()
            .field("package", self.base.package())
            .field("version", &self.version)
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.base.package(), self.version)
    }
}

/// The versions that need no network: their package is in the cache, or their
/// tree is unpacked.
pub fn cached(base: Base, cache: &Cache) -> Result<Vec<String>> {
    let mut versions = BTreeSet::new();
    for entry in cache.list()?.iter().filter(|entry| entry.kind == KIND) {
        let Ok(path) = find_package(&entry.path) else {
            continue;
        };
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        versions.extend(version_in(&name, base));
    }
    for item in std::fs::read_dir(cache.root().join("work"))
        .into_iter()
        .flatten()
    {
        let path = item?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let version = name.strip_prefix(&format!("{base}-"));
        if let Some(version) = version.filter(|_| path.join(JOURNAL).exists()) {
            versions.insert(version.replace("%3a", ":"));
        }
    }
    Ok(versions.into_iter().collect())
}

/// The version in a package file's name; apt writes an epoch's colon as `%3a`.
fn version_in(name: &str, base: Base) -> Option<String> {
    let rest = name.strip_prefix(&base.package())?.strip_prefix('_')?;
    let version = rest.strip_suffix("_all.deb")?;
    Some(version.replace("%3a", ":"))
}

fn find_package(dir: &Path) -> Result<PathBuf> {
    std::fs::read_dir(dir)
        .with_context(|| format!("cannot read {}", dir.display()))?
        .filter_map(|item| Some(item.ok()?.path()))
        .find(|path| path.extension().is_some_and(|ext| ext == "deb"))
        .with_context(|| format!("{}: no package in it", dir.display()))
}

/// apt's own locks would let the second run fail instead of wait.
fn lock(base: Base, cache: &Cache, observer: &dyn Observer) -> Result<wideleaf_cache::Lock> {
    let text = format!("another run that fetches {}", base.package());
    cache.lock(&format!("source-{base}"), || {
        observer.event(Event::Waiting(&text));
    })
}

/// The source of this very version, from the cache or from apt.
pub fn pinned(base: Base, version: &str, cache: &Cache, observer: &dyn Observer) -> Result<Source> {
    let source = Source {
        base,
        version: version.into(),
    };
    let known = cached(base, cache)?;
    if known.iter().any(|known| known == version) {
        return Ok(source);
    }
    source.package(cache, observer).with_context(|| {
        format!(
            "{source} is not in the cache, which has: {}",
            if known.is_empty() {
                "none".into()
            } else {
                known.join(", ")
            }
        )
    })?;
    Ok(source)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_from_a_file_name() {
        assert_eq!(
            version_in("linux-source-7.3_7.3.4-1~bpo13+1_all.deb", Base::V7_3).unwrap(),
            "7.3.4-1~bpo13+1"
        );
        assert_eq!(
            version_in("linux-source-7.3_1%3a7.3.4-1_all.deb", Base::V7_3).unwrap(),
            "1:7.3.4-1"
        );
        // linux-source-6.1 is another package, as is a doc package.
        assert_eq!(
            version_in("linux-source-6.12_6.12.1-1_all.deb", Base::V7_3),
            None
        );
    }

    #[test]
    fn cached_versions_are_found_and_served_without_apt() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path()).unwrap();
        let source = Source {
            base: Base::V7_3,
            version: "7.3.1-1".into(),
        };
        let name = "linux-source-7.3_7.3.1-1_all.deb";
        let fill = |dir: &Path| Ok(std::fs::write(dir.join(name), "deb")?);
        cache
            .get_or_build(KIND, &source.key(), || (), fill)
            .unwrap();
        assert_eq!(cached(Base::V7_3, &cache).unwrap(), ["7.3.1-1"]);
        assert!(cached(Base::V6_12, &cache).unwrap().is_empty());
        let observer = |event: Event<'_>| panic!("{event:?}");
        let path = source.package(&cache, &observer).unwrap();
        assert!(path.ends_with(name));
        // An unpacked tree will do as well, but not a half unpacked one.
        let tree = dir.path().join("work/7.3-7.3.2-1");
        std::fs::create_dir_all(tree.join("src")).unwrap();
        assert_eq!(cached(Base::V7_3, &cache).unwrap(), ["7.3.1-1"]);
        std::fs::write(tree.join(JOURNAL), "{}").unwrap();
        assert_eq!(cached(Base::V7_3, &cache).unwrap(), ["7.3.1-1", "7.3.2-1"]);
        assert_eq!(
            pinned(Base::V7_3, "7.3.1-1", &cache, &observer).unwrap(),
            source
        );
    }
}
