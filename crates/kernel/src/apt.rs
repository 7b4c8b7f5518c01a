// SPDX-License-Identifier: GPL-2.0-only
//! Asks apt for Debian's kernel source packages.
//!
//! Two sets of lists are asked: the system's own, which offer the durable
//! base on Debian 12 and 13, and private ones in the cache folder, for what
//! the system's do not offer. apt checks the signatures of both; neither needs
//! root, and the system's configuration and lists stay as they are.

use crate::{Base, tool};
use anyhow::{Context, Result, anyhow, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

/// Private lists older than this are fetched again.
const FRESH: Duration = Duration::from_secs(24 * 3600);

/// Where Debian's archive keys are installed.
const KEYRINGS: &str = "/usr/share/keyrings";

const MAIN: &str = "http://deb.debian.org/debian";
const SECURITY: &str = "http://deb.debian.org/debian-security";

/// The places in Debian's archive that carry a base: address and suite. 6.12
/// is in trixie itself, but the security suites have every version of it and
/// lists of 300 kB instead of 10 MB; 7.3 is a backport until its successor
/// replaces it.
const fn suites(base: Base) -> &'static [(&'static str, &'static str)] {
    match base {
        Base::V6_12 => &[
            (SECURITY, "bookworm-security"),
            (SECURITY, "trixie-security"),
        ],
        Base::V7_3 => &[(MAIN, "trixie-backports")],
    }
}

/// Which lists to ask.
#[derive(Clone, Debug)]
pub(crate) enum Lists {
    System,
    /// Private lists below this folder.
    Private(PathBuf),
}

impl Lists {
    /// The private lists for `base` below the cache folder `root`.
    pub(crate) fn private(root: &Path, base: Base) -> Self {
        Self::Private(root.join("apt").join(base.name()))
    }

    /// Fetches private lists if they are missing or older than a day, or if
    /// `force` is set.
    pub(crate) fn update(&self, base: Base, force: bool) -> Result<()> {
        let Self::Private(dir) = self else {
            return Ok(());
        };
        let stamp = dir.join("updated");
        if !force && is_fresh(&stamp) {
            return Ok(());
        }
        for sub in ["lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(dir.join(sub))
                .with_context(|| format!("cannot create {}", dir.join(sub).display()))?;
        }
        fs::write(
            dir.join("sources.list"),
            sources(base, &keyrings(Path::new(KEYRINGS))?),
        )?;
        // The system's hooks are there for the system's lists.
        fs::write(
            dir.join("apt.conf"),
            "#clear APT::Update::Pre-Invoke;\n\
             #clear APT::Update::Post-Invoke;\n\
             #clear APT::Update::Post-Invoke-Success;\n",
        )?;
        // Without this option apt-get update succeeds when nothing was fetched.
        let mut update = self.apt("apt-get");
        update.args(["-q", "--error-on=any", "update"]);
        run(&mut update)?;
        fs::write(&stamp, "").with_context(|| format!("cannot write {}", stamp.display()))
    }

    /// The version that these lists offer, if they offer one.
    pub(crate) fn candidate(&self, base: Base) -> Result<Option<String>> {
        if matches!(self, Self::Private(dir) if !dir.join("updated").exists()) {
            return Ok(None);
        }
        let policy = tool::stdout(self.apt("apt-cache").args(["policy", &base.package()]))?;
        Ok(parse_candidate(&policy))
    }

    /// Downloads the package into the folder `into`.
    pub(crate) fn download(&self, base: Base, version: &str, into: &Path) -> Result<PathBuf> {
        let package = format!("{}={version}", base.package());
        let mut get = self.apt("apt-get");
        get.current_dir(into).args(["-q", "download", &package]);
        run(&mut get)?;
        let file = fs::read_dir(into)?
            .filter_map(|item| Some(item.ok()?.path()))
            .find(|path| path.extension().is_some_and(|ext| ext == "deb"));
        file.with_context(|| format!("apt-get download {package} left no file"))
    }

    fn apt(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        // apt would work as the user `_apt`, who cannot enter a home folder.
        command.args(["-o", "APT::Sandbox::User=root"]);
        if let Self::Private(dir) = self {
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

fn sources(base: Base, keyrings: &[PathBuf]) -> String {
    let keys: Vec<_> = keyrings.iter().map(|k| k.display().to_string()).collect();
    let options = format!("[signed-by={} target=Packages]", keys.join(","));
    let line = |(uri, suite): &(&str, &str)| format!("deb {options} {uri} {suite} main\n");
    suites(base).iter().map(line).collect()
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
pub(crate) fn newest(versions: impl IntoIterator<Item = String>) -> Result<Option<String>> {
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
    fn every_suite_is_signed_by_debians_keys() {
        for &base in Base::ALL {
            let text = sources(base, &["/k/a.gpg".into(), "/k/b.gpg".into()]);
            assert!(!text.is_empty());
            for line in text.lines() {
                assert!(line.contains("signed-by=/k/a.gpg,/k/b.gpg"), "{line}");
                assert!(!line.contains("trusted"), "{line}");
            }
        }
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
        let stamp = dir.path().join("updated");
        assert!(!is_fresh(&stamp));
        let file = fs::File::create(&stamp).unwrap();
        assert!(is_fresh(&stamp));
        file.set_modified(SystemTime::now() - FRESH).unwrap();
        assert!(!is_fresh(&stamp));
    }
}
