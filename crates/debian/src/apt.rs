// SPDX-License-Identifier: GPL-2.0-only
//! Asks apt for versions and files of packages.
//!
//! Two sets of lists are asked: the system's own, and private ones in the cache
//! folder for what the system's do not offer. apt checks the signatures of both; neither needs
//! root, and the system's configuration and lists stay as they are.

use anyhow::{Context, Result, anyhow, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};
use wideleaf_kit::arch::Arch;
use wideleaf_kit::events::{Event, Observer};
use wideleaf_kit::tool;

/// Private lists older than this are fetched again.
const FRESH: Duration = Duration::from_secs(24 * 3600);

/// The file of private lists that is as old as they are.
const UPDATED: &str = "updated";

/// Where Debian's archive keys are installed.
const KEYRINGS: &str = "/usr/share/keyrings";

/// Debian's main archive.
pub const MAIN: &str = "http://deb.debian.org/debian";
/// The archive of security updates.
pub const SECURITY: &str = "http://deb.debian.org/debian-security";

/// The suite of the guest's user land: one for hosts of all releases, so that
/// all run the same programs.
pub const USERLAND: &str = "trixie";

/// A place in an archive: its address and its name there.
pub type Suite = (&'static str, &'static str);

/// Which lists to ask.
#[derive(Clone, Debug)]
pub enum Lists {
    /// The system's own.
    System,
    /// Lists of our own.
    Private(Private),
}

/// The packages that lists name: `deb` or `deb-src` in sources.list(5).
#[derive(Clone, Copy, Debug)]
enum Kind {
    Packages,
    Sources,
}

/// Lists of our own.
#[derive(Clone, Debug)]
pub struct Private {
    dir: PathBuf,
    suites: &'static [Suite],
    kind: Kind,
    /// An architecture to which nothing is installed: apt then resolves as
    /// for an empty machine of that kind. `None`: the host as it is.
    bare: Option<Arch>,
}

impl Lists {
    /// Private lists of these suites, kept as `name` below the cache folder `root`.
    pub fn private(root: &Path, name: &str, suites: &'static [Suite]) -> Self {
        Self::Private(Private {
            dir: root.join("apt").join(name),
            suites,
            kind: Kind::Packages,
            bare: None,
        })
    }

    /// The lists of the source packages of the guest's user land.
    pub fn sources(root: &Path) -> Self {
        Self::Private(Private {
            dir: root.join("apt").join(format!("{USERLAND}-source")),
            suites: &[(MAIN, USERLAND)],
            kind: Kind::Sources,
            bare: None,
        })
    }

    /// The same for packages of `arch`, whatever the host's is.
    pub fn of_arch(root: &Path, name: &str, suites: &'static [Suite], arch: Arch) -> Self {
        Self::Private(Private {
            dir: root.join("apt").join(format!("{name}-{arch}")),
            suites,
            kind: Kind::Packages,
            bare: Some(arch),
        })
    }

    /// The lists of a user land of `arch`.
    pub fn userland(root: &Path, arch: Arch) -> Self {
        Self::of_arch(root, USERLAND, &[(MAIN, USERLAND)], arch)
    }

    /// Fetches private lists if they are missing or older than a day, or if
    /// `force` is set.
    ///
    /// # Errors
    ///
    /// If apt cannot get them, or Debian's keys are missing.
    pub fn update(&self, force: bool) -> Result<()> {
        let Self::Private(Private {
            dir, suites, kind, ..
        }) = self
        else {
            return Ok(());
        };
        let stamp = dir.join(UPDATED);
        if !force && is_fresh(&stamp) {
            return Ok(());
        }
        for sub in ["lists/partial", "cache/archives/partial", "state"] {
            fs::create_dir_all(dir.join(sub))
                .with_context(|| format!("cannot create {}", dir.join(sub).display()))?;
        }
        let write = |name: &str, text: &str| {
            let path = dir.join(name);
            fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
        };
        let keyrings = keyrings(Path::new(KEYRINGS))?;
        write("sources.list", &sources(*kind, suites, &keyrings))?;
        // Of the machine on which nothing is installed.
        write("status", "")?;
        // The system's hooks are there for the system's lists.
        write(
            "apt.conf",
            "#clear APT::Update::Pre-Invoke;\n\
             #clear APT::Update::Post-Invoke;\n\
             #clear APT::Update::Post-Invoke-Success;\n",
        )?;
        // Without this option apt-get update succeeds when nothing was fetched.
        let mut update = self.apt("apt-get");
        update.args(["-q", "--error-on=any", "update"]);
        run(&mut update)?;
        write(UPDATED, "")
    }

    /// The same if they are old. If apt cannot, those that are there will do, and `observer` is told;
    /// `what` is what they list.
    pub fn refresh(&self, what: &str, observer: &dyn Observer) {
        if let Err(error) = self.update(false) {
            observer.event(Event::Note(&format!(
                "apt cannot get new lists of {what}: going on with what is there ({error:#})"
            )));
        }
    }

    /// The version that these lists offer, if they offer one.
    pub fn candidate(&self, package: &str) -> Result<Option<String>> {
        if matches!(self, Self::Private(lists) if !lists.dir.join(UPDATED).exists()) {
            return Ok(None);
        }
        let policy = tool::stdout(self.apt("apt-cache").args(["policy", package]))?;
        Ok(parse_candidate(&policy))
    }

    /// Downloads the package into the folder `into`.
    pub fn download(&self, package: &str, version: &str, into: &Path) -> Result<PathBuf> {
        let package = format!("{package}={version}");
        let mut get = self.apt("apt-get");
        get.current_dir(into).args(["-q", "download", &package]);
        run(&mut get)?;
        let file = fs::read_dir(into)?
            .filter_map(|item| Some(item.ok()?.path()))
            .find(|path| path.extension().is_some_and(|ext| ext == "deb"));
        file.with_context(|| format!("apt-get download {package} left no file"))
    }

    /// The files that installing `packages` on an empty machine takes, as apt
    /// resolves it: `libc6_2.41-12+deb13u4_arm64.deb`. In order of name.
    pub fn resolve(&self, packages: &[&str]) -> Result<Vec<String>> {
        let mut install = self.install(packages);
        install.arg("--print-uris");
        let said = tool::stdout(&mut install)?;
        let name = |file: &str| file.split(' ').next().map(String::from);
        let mut files: Vec<_> = files(&said).filter_map(name).collect();
        files.sort();
        if files.is_empty() {
            bail!("apt-get: nothing to install for {}", packages.join(" "));
        }
        Ok(files)
    }

    /// Downloads what [`Lists::resolve`] names into the folder `into`.
    pub fn download_all(&self, packages: &[&str], into: &Path) -> Result<()> {
        // Without it apt keeps no partial files, and refuses to begin.
        fs::create_dir_all(into.join("partial"))?;
        let mut install = self.install(packages);
        install.arg("--download-only").arg("-o").arg(format!(
            "Dir::Cache::archives={}",
            into.canonicalize()?.display()
        ));
        run(&mut install)?;
        fs::remove_dir_all(into.join("partial"))?;
        Ok(fs::remove_file(into.join("lock"))?)
    }

    /// The upstream sources of a source package: name, bytes and hash of its file, as apt tells them.
    ///
    /// # Errors
    ///
    /// If these lists have no such package, or its sources are of more than one file.
    pub fn source(&self, package: &str) -> Result<String> {
        let said = tool::stdout(self.get_source(package).arg("--print-uris"))?;
        let mut files = files(&said);
        match (files.next(), files.next()) {
            (Some(file), None) => Ok(file.into()),
            _ => bail!("{package}: a source package of one file is wanted; apt-get says: {said}"),
        }
    }

    /// Downloads what [`Lists::source`] names into the folder `into`.
    pub fn download_source(&self, package: &str, into: &Path) -> Result<()> {
        run(self.get_source(package).current_dir(into))
    }

    fn get_source(&self, package: &str) -> Command {
        let mut get = self.apt("apt-get");
        get.args(["-q", "source", "--download-only", "--tar-only", package]);
        get
    }

    fn install(&self, packages: &[&str]) -> Command {
        let mut install = self.apt("apt-get");
        install.args(["-qq", "--no-install-recommends", "install"]);
        install.args(packages);
        install
    }

    fn apt(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        // apt would work as the user `_apt`, who cannot enter a home folder.
        command.args(["-o", "APT::Sandbox::User=root"]);
        if let Self::Private(Private { dir, bare, .. }) = self {
            command.arg("-c").arg(dir.join("apt.conf"));
            for (option, value) in [
                ("Dir::State::Lists", dir.join("lists")),
                ("Dir::Cache", dir.join("cache")),
                ("Dir::Etc::sourcelist", dir.join("sources.list")),
                ("Dir::Etc::sourceparts", "/dev/null".into()),
                ("Dir::Etc::preferences", "/dev/null".into()),
                ("Dir::Etc::preferencesparts", "/dev/null".into()),
            ] {
                command
                    .arg("-o")
                    .arg(format!("{option}={}", value.display()));
            }
            if let Some(arch) = bare {
                let name = debian_name(*arch);
                for option in [
                    format!("Dir::State={}", dir.join("state").display()),
                    format!("Dir::State::status={}", dir.join("status").display()),
                    format!("APT::Architecture={name}"),
                    format!("APT::Architectures={name}"),
                ] {
                    command.args(["-o", &option]);
                }
            }
            command.args(["-o", "Acquire::Languages=none"]);
            // A machine without network should say so soon.
            command.args([
                "-o",
                "Acquire::http::Timeout=20",
                "-o",
                "Acquire::Retries=0",
            ]);
        }
        command
    }
}

/// Runs apt-get; of all that it says of a failure, its errors are kept.
fn run(apt: &mut Command) -> Result<()> {
    tool::output(apt).map(drop).map_err(|error| {
        let text = error.to_string();
        let errors: Vec<_> = text.lines().filter(|l| l.starts_with("E: ")).collect();
        if errors.is_empty() {
            return error;
        }
        anyhow!("apt-get: {}", errors.join("; "))
    })
}

fn is_fresh(stamp: &Path) -> bool {
    let written = fs::metadata(stamp).and_then(|meta| meta.modified());
    // A stamp from the future is as good as none.
    written
        .ok()
        .and_then(|time| SystemTime::now().duration_since(time).ok())
        .is_some_and(|age| age < FRESH)
}

/// As Debian names an architecture.
const fn debian_name(arch: Arch) -> &'static str {
    match arch {
        Arch::Arm64 => "arm64",
        Arch::X86_64 => "amd64",
    }
}

/// Of what apt-get says with `--print-uris`, all but the addresses: names, bytes and hashes.
fn files(said: &str) -> impl Iterator<Item = &str> {
    let lines = said.lines();
    lines.filter_map(|line| Some(line.strip_prefix('\'')?.split_once("' ")?.1))
}

fn sources(kind: Kind, suites: &[Suite], keyrings: &[PathBuf]) -> String {
    let keys: Vec<_> = keyrings.iter().map(|k| k.display().to_string()).collect();
    let (deb, target) = match kind {
        Kind::Packages => ("deb", "Packages"),
        Kind::Sources => ("deb-src", "Sources"),
    };
    let options = format!("[signed-by={} target={target}]", keys.join(","));
    let line = |(uri, suite): &Suite| format!("{deb} {options} {uri} {suite} main\n");
    suites.iter().map(line).collect()
}

/// Debian's archive keyrings in `dir`; names differ between releases.
fn keyrings(dir: &Path) -> Result<Vec<PathBuf>> {
    let whole: Vec<_> = ["debian-archive-keyring.pgp", "debian-archive-keyring.gpg"]
        .iter()
        .map(|name| dir.join(name))
        .filter(|path| path.exists())
        .take(1)
        .collect();
    if !whole.is_empty() {
        return Ok(whole);
    }
    let mut parts: Vec<_> = fs::read_dir(dir)
        .into_iter()
        .flatten()
        .filter_map(|item| Some(item.ok()?.path()))
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("debian-archive-") && !name.contains("removed")
        })
        .collect();
    parts.sort();
    if parts.is_empty() {
        bail!(
            "no keys of Debian's archive in {}: install the package debian-archive-keyring",
            dir.display()
        );
    }
    Ok(parts)
}

fn parse_candidate(policy: &str) -> Option<String> {
    let version = policy
        .lines()
        .find_map(|line| line.trim().strip_prefix("Candidate: "))?;
    (version != "(none)").then(|| version.to_string())
}

/// The newest of `versions` by Debian's order.
pub fn newest(versions: impl IntoIterator<Item = String>) -> Result<Option<String>> {
    let mut best: Option<String> = None;
    for version in versions {
        let newer = match &best {
            None => true,
            Some(best) => Command::new("dpkg")
                .args(["--compare-versions", &version, "gt", best])
                .status()
                .context("cannot run dpkg")?
                .success(),
        };
        if newer {
            best = Some(version);
        }
    }
    Ok(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidate_of_a_known_and_of_an_unknown_package() {
        let known = "linux-source-6.12:\n  Installed: (none)\n  Candidate: 6.12.117-1~deb12u1\n";
        assert_eq!(parse_candidate(known).unwrap(), "6.12.117-1~deb12u1");
        assert_eq!(parse_candidate(""), None);
        assert_eq!(parse_candidate("x:\n  Candidate: (none)\n"), None);
    }

    #[test]
    fn a_package_that_debian_does_not_have_is_named() {
        let error = Lists::System.resolve(&["dpkg", "no-such-package-of-debian"]);
        let error = format!("{:#}", error.unwrap_err());
        assert!(
            error.ends_with("E: Unable to locate package no-such-package-of-debian"),
            "{error}"
        );
    }

    #[test]
    fn every_suite_is_signed_by_debians_keys() {
        let suites = [(MAIN, "trixie"), (SECURITY, "trixie-security")];
        for kind in [Kind::Packages, Kind::Sources] {
            let text = sources(kind, &suites, &["/k/a.gpg".into(), "/k/b.gpg".into()]);
            assert_eq!(text.lines().count(), suites.len());
            for line in text.lines() {
                assert!(line.contains("signed-by=/k/a.gpg,/k/b.gpg"), "{line}");
                assert!(!line.contains("trusted"), "{line}");
            }
        }
    }

    #[test]
    fn files_are_what_follows_an_address() {
        let said = "Reading package lists...\nNOTICE: 'a' is in git\n\
                    'http://d/a_1.orig.tar.gz' a_1.orig.tar.gz 12 SHA256:ab\n";
        let found: Vec<_> = files(said).collect();
        assert_eq!(found, ["a_1.orig.tar.gz 12 SHA256:ab"]);
    }

    #[test]
    fn keyrings_of_either_naming_are_found_and_removed_keys_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let error = keyrings(dir.path()).unwrap_err().to_string();
        assert!(error.contains("debian-archive-keyring"), "{error}");
        for name in [
            "debian-archive-removed-keys.gpg",
            "debian-archive-trixie.gpg",
        ] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        assert_eq!(
            keyrings(dir.path()).unwrap(),
            [dir.path().join("debian-archive-trixie.gpg")]
        );
        fs::write(dir.path().join("debian-archive-keyring.pgp"), "").unwrap();
        assert_eq!(
            keyrings(dir.path()).unwrap(),
            [dir.path().join("debian-archive-keyring.pgp")]
        );
    }

    #[test]
    fn lists_go_stale() {
        let dir = tempfile::tempdir().unwrap();
        let stamp = dir.path().join(UPDATED);
        assert!(!is_fresh(&stamp));
        let file = fs::File::create(&stamp).unwrap();
        assert!(is_fresh(&stamp));
        file.set_modified(SystemTime::now() - FRESH).unwrap();
        assert!(!is_fresh(&stamp));
    }
}
