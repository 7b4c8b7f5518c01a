// SPDX-License-Identifier: GPL-2.0-only
//! The kernel's settings for folios of a PMD's size.

use serde::Serialize;
use std::path::Path;

/// Which memory gets such folios.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Setting {
    /// All.
    Always,
    /// Memory for which a process has asked.
    Advised,
    /// None.
    Never,
    /// The kernel does not say.
    Unknown,
}

/// For private and for shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) private: Setting,
    pub(crate) shared: Setting,
}

impl Settings {
    /// Those below `sys`; `pmd` in bytes.
    pub(crate) fn read(sys: &Path, pmd: u64) -> Self {
        let thp = sys.join("kernel/mm/transparent_hugepage");
        let of = |name: &str| {
            // A file for each size since 6.8.
            let own = format!("hugepages-{}kB/{name}", pmd >> 10);
            let own = chosen(&thp.join(own)).filter(|word| word != "inherit");
            setting(own.or_else(|| chosen(&thp.join(name))).as_deref())
        };
        Self {
            private: of("enabled"),
            shared: of("shmem_enabled"),
        }
    }
}

fn setting(word: Option<&str>) -> Setting {
    match word {
        // Shared memory is as large as it is made, so within its size is always.
        Some("always" | "within_size" | "force") => Setting::Always,
        Some("madvise" | "advise") => Setting::Advised,
        Some("never" | "deny") => Setting::Never,
        _ => Setting::Unknown,
    }
}

/// The word in brackets.
fn chosen(path: &Path) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let (_, rest) = text.split_once('[')?;
    let (word, _) = rest.split_once(']')?;
    Some(word.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{create_dir_all, write};

    #[test]
    fn the_file_of_the_size_comes_before_that_of_all() {
        let sys = tempfile::tempdir().unwrap();
        let thp = sys.path().join("kernel/mm/transparent_hugepage");
        let read = || {
            let settings = Settings::read(sys.path(), 2 << 20);
            (settings.private, settings.shared)
        };
        assert_eq!(read(), (Setting::Unknown, Setting::Unknown));
        create_dir_all(thp.join("hugepages-2048kB")).unwrap();
        write(thp.join("enabled"), "always [madvise] never\n").unwrap();
        write(
            thp.join("shmem_enabled"),
            "always within_size advise [never] deny force\n",
        )
        .unwrap();
        assert_eq!(read(), (Setting::Advised, Setting::Never));
        let own = thp.join("hugepages-2048kB/enabled");
        write(&own, "always [inherit] madvise never\n").unwrap();
        assert_eq!(read().0, Setting::Advised);
        write(&own, "[always] inherit madvise never\n").unwrap();
        assert_eq!(read().0, Setting::Always);
    }
}
