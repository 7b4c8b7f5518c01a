// SPDX-License-Identifier: GPL-2.0-only
//! The kernel's version and configuration.

use crate::{Check, Host};
use std::collections::HashMap;
use std::io::Read;

/// A kernel release.
pub(crate) struct Release {
    /// As the kernel says it.
    pub text: String,
    /// Major and minor number.
    pub number: Option<(u32, u32)>,
}

impl Release {
    /// Whether it is `major.minor` or later; `None` if it cannot be told.
    pub(crate) fn at_least(&self, major: u32, minor: u32) -> Option<bool> {
        self.number.map(|n| n >= (major, minor))
    }
}

/// Reads `/proc/sys/kernel/osrelease`.
pub(crate) fn release(host: &Host) -> Release {
    let text = host.read("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut parts = text.split(|c: char| !c.is_ascii_digit());
    let mut next = || parts.next().and_then(|p| p.parse().ok());
    let number = next().zip(next());
    Release { text, number }
}

/// The kernel's configuration.
pub(crate) struct Config {
    /// Where it was found; `None` if nowhere.
    pub source: Option<String>,
    options: HashMap<String, String>,
}

impl Config {
    /// An option's value, without the `CONFIG_`. `Some("n")` if the
    /// configuration is known and does not set it.
    pub(crate) fn get(&self, option: &str) -> Option<&str> {
        self.source.as_ref()?;
        Some(self.options.get(option).map_or("n", String::as_str))
    }

    /// Whether the option occurs at all, set or not: an option that was
    /// removed from the kernel does not.
    pub(crate) fn mentions(&self, option: &str) -> bool {
        self.options.contains_key(option)
    }
}

/// Reads `/proc/config.gz`, `/boot/config-RELEASE` or the modules' copy.
pub(crate) fn config(host: &Host) -> Config {
    let release = release(host).text;
    let unzip = |bytes: Vec<u8>| {
        let mut text = String::new();
        flate2::read::GzDecoder::new(&bytes[..])
            .take(16 << 20)
            .read_to_string(&mut text)
            .ok()
            .map(|_| text)
    };
    let plain = [
        format!("/boot/config-{release}"),
        format!("/lib/modules/{release}/config"),
    ];
    let zipped = host
        .bytes("/proc/config.gz")
        .and_then(unzip)
        .map(|text| ("/proc/config.gz".to_owned(), text));
    let found = zipped.or_else(|| {
        plain
            .into_iter()
            .find_map(|path| host.read(&path).map(|text| (path, text)))
    });
    let Some((source, text)) = found else {
        return Config {
            source: None,
            options: HashMap::new(),
        };
    };
    let options = text.lines().filter_map(|line| {
        if let Some(name) = line
            .strip_prefix("# CONFIG_")
            .and_then(|l| l.strip_suffix(" is not set"))
        {
            return Some((name.to_owned(), "n".to_owned()));
        }
        let (name, value) = line.strip_prefix("CONFIG_")?.split_once('=')?;
        Some((name.to_owned(), value.trim_matches('"').to_owned()))
    });
    Config {
        source: Some(source),
        options: options.collect(),
    }
}

/// What the version brings.
pub(crate) fn version(release: &Release) -> Check {
    let check = Check::new(
        "kernel",
        "kernel version",
        "large folios for text came step by step: 5.18 XFS, 6.1 MADV_COLLAPSE, 6.9 contpte folding on arm64, 6.16 ext4",
    );
    // WSL 2's is "microsoft-standard-WSL2".
    if release.text.ends_with("-Microsoft") {
        return check.improve(
            format!(
                "{}: WSL 1, whose loader refuses programs with a p_align above 4K",
                release.text
            ),
            "use WSL 2; do not align programs for WSL 1: they do not start there",
            "wsl --set-version DISTRIBUTION 2, on Windows",
        );
    }
    match release.at_least(6, 1) {
        None => check.unknown(format!("{:?} is no kernel version", release.text)),
        Some(true) if release.at_least(6, 16) == Some(true) => check.good(format!("Linux {}", release.text)),
        Some(true) => check.improve(
            format!("Linux {}", release.text),
            "6.16 and later give ext4 large folios",
            "install a later kernel of the distribution (Debian: backports)",
        ),
        Some(false) => check.improve(
            format!("Linux {}: before MADV_COLLAPSE and most large folios", release.text),
            "any kernel from 6.1 on can collapse text on request; from 6.16 on ext4 has large folios",
            "install a later kernel of the distribution",
        ),
    }
}
