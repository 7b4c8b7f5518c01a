// SPDX-License-Identifier: GPL-2.0-only
//! Making leaves wide after the fact: collapse of file text.

use crate::kernel::{Config, Release};
use crate::{Check, Host};

/// `needless`: the file systems that hold programs have large folios.
pub(crate) fn checks(
    host: &Host,
    release: &Release,
    config: &Config,
    needless: bool,
) -> Vec<Check> {
    vec![
        read_only_thp(release, config, needless),
        madv_collapse(host, release, config),
    ]
}

fn read_only_thp(release: &Release, config: &Config, needless: bool) -> Check {
    const OPTION: &str = "READ_ONLY_THP_FOR_FS";
    let check = Check::new(
        "read-only-thp",
        "CONFIG_READ_ONLY_THP_FOR_FS",
        "on file systems without large folios it lets khugepaged and MADV_COLLAPSE put text that nobody writes into PMD leaves",
    );
    match config.get(OPTION) {
        None => check.unknown("the kernel's configuration was not found (/proc/config.gz, /boot/config-*)"),
        Some("y") => check.good("built in"),
        // 7.3 has no such option any more.
        Some(_) if !config.mentions(OPTION) && release.at_least(7, 0) == Some(true) => {
            check.note("this kernel has no such option any more; large folios of the file system take its place")
        }
        Some(_) if needless => check.note(
            "not set; the file systems that hold programs have large folios and do not need it",
        ),
        Some(_) => check.improve(
            format!("not set in {}", config.source.as_deref().unwrap_or("?")),
            "use a kernel with CONFIG_READ_ONLY_THP_FOR_FS=y, or file systems that have large folios themselves",
            "install such a kernel",
        ),
    }
}

fn madv_collapse(host: &Host, release: &Release, config: &Config) -> Check {
    let check = Check::new(
        "madv-collapse",
        "MADV_COLLAPSE",
        "a process can ask for PMD leaves for its own text at once, without waiting for khugepaged",
    );
    let thp = host
        .read("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size")
        .is_some();
    let files = match config.get("READ_ONLY_THP_FOR_FS") {
        Some("y") => "text of any file system, as long as nobody has the file open for writing",
        Some(_) => {
            "shared memory and tmpfs; other files only where the file system has large folios"
        }
        None => {
            "shared memory and tmpfs; other files if the kernel has CONFIG_READ_ONLY_THP_FOR_FS"
        }
    };
    match (release.at_least(6, 1), thp) {
        (Some(true), true) => check.good(format!("works on {files}")),
        (Some(true), false) => check.note("the kernel has no transparent huge pages"),
        (Some(false), _) => check.improve(
            format!("Linux {} does not have it", release.text),
            "use Linux 6.1 or later",
            "install a later kernel of the distribution",
        ),
        (None, _) => check.unknown("the kernel's version is unknown"),
    }
}
