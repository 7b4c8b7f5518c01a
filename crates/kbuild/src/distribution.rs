// SPDX-License-Identifier: GPL-2.0-only
//! Configurations of distributions: Debian's, from its packages `linux-config-<base>`, and files.

use crate::options;
use crate::source::{Source, suites};
use crate::{Arch, Base, PageSize};
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use wideleaf_cache::{Cache, Key};
use wideleaf_debian::apt::Lists;
use wideleaf_kit::events::{Event, Observer};
use wideleaf_kit::{named, tool};

/// The cache's kind of entry that holds a package of configurations.
const KIND: &str = "configurations";

/// The disk space of such a package, in bytes, with room to spare.
const PACKAGE_BYTES: u64 = 20 << 20;

named!(
    /// A flavour of Debian's kernels.
    Flavour, "configuration", {
        /// The usual one, with 4K pages.
        Debian = "debian",
        /// That of virtual machines, with 4K pages.
        Cloud = "debian-cloud",
        /// The usual one with 16K pages, on arm64.
        K16 = "debian-16k",
    }
);

impl Flavour {
    /// The name that Debian gives its kernel of `arch`, if there is one.
    fn kernel(self, arch: Arch) -> Option<&'static str> {
        match (self, arch) {
            (Self::Debian, Arch::Arm64) => Some("arm64"),
            (Self::Debian, Arch::X86_64) => Some("amd64"),
            (Self::Cloud, Arch::Arm64) => Some("cloud-arm64"),
            (Self::Cloud, Arch::X86_64) => Some("cloud-amd64"),
            (Self::K16, Arch::Arm64) => Some("arm64-16k"),
            (Self::K16, Arch::X86_64) => None,
        }
    }
}

/// A configuration that a distribution ships.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// Debian's, of the version that the source has.
    Debian(Flavour),
    /// A file of one's own.
    File {
        /// Where it was read.
        path: PathBuf,
        /// Its text.
        text: String,
    },
}

impl Distribution {
    /// Reads what `--config` takes: the name of a flavour, or a file.
    ///
    /// # Errors
    ///
    /// If it is neither, or the file is no configuration of a kernel.
    pub fn parse(name: &str) -> Result<Self> {
        if let Ok(flavour) = name.parse() {
            return Ok(Self::Debian(flavour));
        }
        let path = PathBuf::from(name);
        let known: Vec<_> = Flavour::ALL.iter().map(|flavour| flavour.name()).collect();
        let bytes = fs::read(&path).with_context(|| {
            format!(
                "--config {name}: neither a file that can be read nor one of {}",
                known.join(", ")
            )
        })?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let own = Self::File { path, text };
        own.architecture_of_file()?;
        Ok(own)
    }

    /// The page size of its kernels on `arch`.
    ///
    /// # Errors
    ///
    /// If it is of another architecture.
    pub fn page_size(&self, arch: Arch) -> Result<PageSize> {
        match self {
            Self::Debian(flavour) => {
                self.kernel(*flavour, arch)?;
                Ok(match flavour {
                    Flavour::Debian | Flavour::Cloud => PageSize::K4,
                    Flavour::K16 => PageSize::K16,
                })
            }
            Self::File { path, text } => {
                let of = self.architecture_of_file()?;
                if of != arch {
                    bail!(
                        "--config {}: it is of {of}, not of {arch}: name it with --arch",
                        path.display()
                    );
                }
                Ok(page_size_of(&options::options(text)))
            }
        }
    }

    fn kernel(&self, flavour: Flavour, arch: Arch) -> Result<&'static str> {
        flavour.kernel(arch).with_context(|| {
            let all = Flavour::ALL.iter();
            let known = all.filter(|other| other.kernel(arch).is_some());
            let known: Vec<_> = known.map(|flavour| flavour.name()).collect();
            format!(
                "--config {flavour}: Debian has none of it for {arch}; it has {}",
                known.join(", ")
            )
        })
    }

    fn architecture_of_file(&self) -> Result<Arch> {
        let Self::File { path, text } = self else {
            bail!("no file");
        };
        let options = options::options(text);
        let is_set = |name| options.get(name) == Some(&"y");
        match (is_set("CONFIG_ARM64"), is_set("CONFIG_X86_64")) {
            (true, false) => Ok(Arch::Arm64),
            (false, true) => Ok(Arch::X86_64),
            _ => bail!(
                "{}: no configuration of an arm64 or x86_64 kernel: it sets neither CONFIG_ARM64=y \
                 nor CONFIG_X86_64=y. Name the .config of a built kernel, or /boot/config-VERSION",
                path.display()
            ),
        }
    }

    /// Its part of the name of an object folder.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Debian(flavour) => flavour.name().into(),
            Self::File { text, .. } => format!("own-{}", &options::hash(text)[..8]),
        }
    }

    /// What names its text without network: the version of a package, which is signed, says it all.
    pub(crate) fn identity(&self, source: &str, arch: Arch) -> Result<String> {
        match self {
            Self::Debian(flavour) => Ok(format!("{} of {source}", self.kernel(*flavour, arch)?)),
            Self::File { text, .. } => Ok(options::hash(text)),
        }
    }

    /// The text, from the file, from the cache or from Debian's archive.
    pub(crate) fn text(
        &self,
        source: &Source,
        arch: Arch,
        cache: &Cache,
        observer: &dyn Observer,
    ) -> Result<String> {
        match self {
            Self::File { text, .. } => Ok(text.clone()),
            Self::Debian(flavour) => {
                let kernel = self.kernel(*flavour, arch)?;
                let dir = package(source, arch, cache, observer)?;
                read(&dir, source.base, kernel)
            }
        }
    }
}

impl std::fmt::Display for Distribution {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Debian(flavour) => flavour.fmt(f),
            Self::File { path, .. } => path.display().fmt(f),
        }
    }
}

/// The page size that a configuration asks for; x86-64 has one.
fn page_size_of(options: &BTreeMap<&str, &str>) -> PageSize {
    let is_set = |name| options.get(name) == Some(&"y");
    match (
        is_set("CONFIG_ARM64_16K_PAGES"),
        is_set("CONFIG_ARM64_64K_PAGES"),
    ) {
        (true, _) => PageSize::K16,
        (_, true) => PageSize::K64,
        _ => PageSize::K4,
    }
}

/// The folder with the configurations of the version that `source` has.
fn package(source: &Source, arch: Arch, cache: &Cache, observer: &dyn Observer) -> Result<PathBuf> {
    let Source { base, version } = source;
    let name = format!("linux-config-{base}");
    let key = Key::new()
        .field("package", &name)
        .field("version", version)
        .field("arch", arch.name());
    if let Some(entry) = cache.get(KIND, &key) {
        return Ok(entry.dir().into());
    }
    let what = format!("{name} {version} for {arch}");
    let lists = Lists::of_arch(cache.root(), base.name(), suites(*base), arch);
    let _lock = cache.lock(&format!("configurations-{base}-{arch}"), || {
        observer.event(Event::Waiting(&format!("another run that fetches {what}")));
    })?;
    let entry = cache.get_or_build(
        KIND,
        &key,
        || (),
        |dir| {
            cache.require_space(PACKAGE_BYTES, &what)?;
            observer.event(Event::Step(&format!("downloading {what}")));
            fetch(&lists, &name, version, dir).with_context(|| {
                let offered = lists.candidate(&name).ok().flatten();
                format!(
                    "cannot get {what}, Debian's configurations for that source. Debian offers {}: \
                     name its version with --source-version, or a file with --config",
                    offered.unwrap_or("none".into())
                )
            })
        },
    )?;
    Ok(entry.dir().into())
}

/// Downloads the package, and leaves its configurations in `dir`, which takes plain files only.
fn fetch(lists: &Lists, name: &str, version: &str, dir: &Path) -> Result<()> {
    lists.update(false)?;
    let scratch = tempfile::tempdir().context("cannot make a temporary folder")?;
    let root = scratch.path();
    let package = lists.download(name, version, root).or_else(|_| {
        lists.update(true)?;
        lists.download(name, version, root)
    })?;
    tool::output(Command::new("dpkg-deb").arg("-x").arg(&package).arg(root))?;
    let below = root.join("usr/src").join(name);
    let items = fs::read_dir(&below).with_context(|| format!("cannot read {}", below.display()))?;
    for item in items {
        let item = item?;
        let to = dir.join(item.file_name());
        fs::copy(item.path(), &to).with_context(|| format!("cannot write {}", to.display()))?;
    }
    Ok(())
}

/// The configuration of `kernel` among those of the package.
fn read(dir: &Path, base: Base, kernel: &str) -> Result<String> {
    let name = |item: &fs::DirEntry| item.file_name().to_string_lossy().into_owned();
    let wanted = format!("_none_{kernel}.xz");
    let items = fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))?;
    let items: Vec<_> = items.filter_map(Result::ok).collect();
    let Some(item) = items.iter().find(|item| name(item).ends_with(&wanted)) else {
        let there = items.iter().map(name);
        let there: Vec<_> = there.filter(|name| name.starts_with("config.")).collect();
        bail!(
            "Debian's configurations for {base} have none of {kernel} (config.*{wanted}); they are {}",
            there.join(", ")
        );
    };
    tool::stdout(Command::new("xz").arg("-dc").arg(item.path()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> Result<Distribution> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("my.config");
        fs::write(&path, text).unwrap();
        Distribution::parse(path.to_str().unwrap())
    }

    #[test]
    fn a_flavour_has_its_page_size_and_architectures() {
        let size = |name: &str, arch| Distribution::parse(name).unwrap().page_size(arch);
        assert_eq!(size("debian", Arch::Arm64).unwrap(), PageSize::K4);
        assert_eq!(size("debian-16k", Arch::Arm64).unwrap(), PageSize::K16);
        assert_eq!(size("debian-cloud", Arch::X86_64).unwrap(), PageSize::K4);
        let error = size("debian-16k", Arch::X86_64).unwrap_err().to_string();
        assert!(error.contains("it has debian, debian-cloud"), "{error}");
    }

    #[test]
    fn a_file_says_of_which_kernel_it_is() {
        let own = file("CONFIG_ARM64=y\nCONFIG_ARM64_64K_PAGES=y\n").unwrap();
        assert_eq!(own.page_size(Arch::Arm64).unwrap(), PageSize::K64);
        let error = own.page_size(Arch::X86_64).unwrap_err().to_string();
        assert!(error.contains("it is of arm64, not of x86_64"), "{error}");
        let own = file("CONFIG_X86_64=y\n").unwrap();
        assert_eq!(own.page_size(Arch::X86_64).unwrap(), PageSize::K4);
    }

    #[test]
    fn what_is_no_configuration_is_refused_with_what_would_be_one() {
        let error = file("hello\n").unwrap_err().to_string();
        assert!(error.contains("my.config"), "{error}");
        assert!(error.contains("CONFIG_ARM64=y"), "{error}");
        let error = Distribution::parse("debian-rt").unwrap_err().to_string();
        assert!(
            error.contains("debian, debian-cloud, debian-16k"),
            "{error}"
        );
    }

    #[test]
    fn a_package_without_the_flavour_names_those_it_has() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("config.arm64_none_arm64.xz"), "").unwrap();
        let error = read(dir.path(), Base::V7_3, "arm64-16k").unwrap_err();
        assert!(error.to_string().contains("config.arm64_none_arm64.xz"));
        // The name of one is the end of another's.
        assert!(read(dir.path(), Base::V7_3, "64").is_err());
    }

    #[test]
    fn two_files_with_the_same_options_are_one_configuration() {
        let identity = |text: &str| file(text).unwrap().identity("x", Arch::Arm64).unwrap();
        let one = identity("CONFIG_ARM64=y\nCONFIG_A=y\n");
        assert_eq!(one, identity("# a comment\nCONFIG_A=y\nCONFIG_ARM64=y\n"));
        assert_ne!(one, identity("CONFIG_ARM64=y\nCONFIG_A=m\n"));
        let debian = Distribution::parse("debian-cloud").unwrap();
        let identity = |source| debian.identity(source, Arch::Arm64).unwrap();
        assert_ne!(identity("linux 1"), identity("linux 2"));
    }
}
