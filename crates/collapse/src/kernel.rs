// SPDX-License-Identifier: GPL-2.0-only
//! What the kernel at hand needs to collapse text of files.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::sync::OnceLock;

/// Which files' text a kernel collapses; those of a tmpfs always.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextOfFiles {
    /// From 7.2 on: of each file system that has folios of a PMD's size.
    AsTheFileSystem,
    /// Before, with CONFIG_READ_ONLY_THP_FOR_FS: of all that nobody writes to.
    All,
    /// Before, without it: none, whatever folios the file system has.
    None,
    /// Before, and its configuration is not known.
    Unknown,
}

/// The release from which on no option is needed.
const WITHOUT_OPTION: (u32, u32) = (7, 2);
const OPTION: &str = "CONFIG_READ_ONLY_THP_FOR_FS";

/// What the kernel of this machine does. Read once.
pub fn text_of_files() -> TextOfFiles {
    static HERE: OnceLock<TextOfFiles> = OnceLock::new();
    *HERE.get_or_init(|| read("/".as_ref()))
}

/// By the release and the configuration below `root`.
fn read(root: &Path) -> TextOfFiles {
    let release = std::fs::read_to_string(root.join("proc/sys/kernel/osrelease"));
    let release = release.unwrap_or_default();
    let release = release.trim();
    if number(release).is_some_and(|number| number >= WITHOUT_OPTION) {
        return TextOfFiles::AsTheFileSystem;
    }
    let plain = [
        format!("boot/config-{release}"),
        format!("lib/modules/{release}/config"),
    ];
    let zipped = File::open(root.join("proc/config.gz"));
    let zipped = zipped.ok().map(|file| {
        let text: Box<dyn Read> = Box::new(flate2::read::GzDecoder::new(file));
        text
    });
    let text = zipped.or_else(|| {
        let files = plain.iter().map(|path| File::open(root.join(path)));
        files.flatten().next().map(|file| {
            let text: Box<dyn Read> = Box::new(file);
            text
        })
    });
    match text.map(has_option) {
        Some(true) => TextOfFiles::All,
        Some(false) => TextOfFiles::None,
        None => TextOfFiles::Unknown,
    }
}

fn number(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    let mut next = || parts.next()?.parse().ok();
    next().zip(next())
}

fn has_option(config: Box<dyn Read>) -> bool {
    let set = format!("{OPTION}=y");
    let mut lines = BufReader::new(config).lines().map_while(Result::ok);
    lines.any(|line| line == set)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{create_dir_all, write};

    #[test]
    fn release_and_option_decide_what_a_kernel_collapses() {
        let root = tempfile::tempdir().unwrap();
        create_dir_all(root.path().join("proc/sys/kernel")).unwrap();
        create_dir_all(root.path().join("boot")).unwrap();
        let on = |release: &str, config: Option<&str>| {
            write(
                root.path().join("proc/sys/kernel/osrelease"),
                format!("{release}\n"),
            )
            .unwrap();
            if let Some(config) = config {
                write(root.path().join(format!("boot/config-{release}")), config).unwrap();
            }
            read(root.path())
        };
        let unset = format!("CONFIG_SHMEM=y\n# {OPTION} is not set\n");
        assert_eq!(on("6.18.44-x", Some(&unset)), TextOfFiles::None);
        assert_eq!(
            on("6.1.0-1-amd64", Some(&format!("{OPTION}=y\n"))),
            TextOfFiles::All
        );
        assert_eq!(on("6.12.0", None), TextOfFiles::Unknown);
        assert_eq!(on("7.2.0", None), TextOfFiles::AsTheFileSystem);
        assert_eq!(on("nonsense", None), TextOfFiles::Unknown);
    }
}
