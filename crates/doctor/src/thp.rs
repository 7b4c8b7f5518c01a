// SPDX-License-Identifier: GPL-2.0-only
//! Transparent huge pages: the settings in sysfs.

use crate::kernel::{Config, Release};
use crate::{Check, Host};
use wideleaf_kit::size::short;

const THP: &str = "/sys/kernel/mm/transparent_hugepage";

pub(crate) fn checks(host: &Host, release: &Release, config: &Config) -> Vec<Check> {
    let mut checks = vec![enabled(host, config)];
    if host.read(&format!("{THP}/enabled")).is_some() {
        checks.push(shmem(host));
        checks.push(khugepaged(host));
        checks.push(contpte(host, release, config));
    }
    checks
}

fn enabled(host: &Host, config: &Config) -> Check {
    let check = Check::new(
        "thp",
        "transparent huge pages",
        "PMD leaves for text need THP in the kernel; `never` keeps khugepaged off files and refuses madvise",
    );
    let path = format!("{THP}/enabled");
    let persist = "kernel command line: transparent_hugepage=madvise (Debian: GRUB_CMDLINE_LINUX in /etc/default/grub, then update-grub)";
    match (
        host.chosen(&path).as_deref(),
        config.get("TRANSPARENT_HUGEPAGE"),
    ) {
        (Some("never"), _) => check.improve(
            format!("{path}: never"),
            format!("echo madvise > {path}"),
            persist,
        ),
        (Some(choice), _) => check.good(format!("{path}: {choice}")),
        (None, Some("n")) => check.improve(
            "the kernel is built without CONFIG_TRANSPARENT_HUGEPAGE",
            "use a kernel with CONFIG_TRANSPARENT_HUGEPAGE=y",
            "install a kernel of the distribution; all large ones have it",
        ),
        (None, _) => check.unknown(format!("{path} cannot be read")),
    }
}

fn shmem(host: &Host) -> Check {
    let check = Check::new(
        "shmem",
        "huge pages for shared memory",
        "memfd and SysV or anonymous shared memory that holds code (JITs) gets PMD leaves only if this allows; tmpfs mounts \
         decide by their own huge= option, unless it says deny",
    );
    let path = format!("{THP}/shmem_enabled");
    let persist = format!("/etc/tmpfiles.d/wideleaf.conf: w {path} - - - - advise");
    match host.chosen(&path).as_deref() {
        None => check.unknown(format!("{path} cannot be read")),
        Some(choice @ ("deny" | "never")) => {
            let also = if choice == "deny" {
                ": overrules even huge=always of a tmpfs"
            } else {
                ""
            };
            check.improve(
                format!("{path}: {choice}{also}"),
                format!("echo advise > {path}"),
                persist,
            )
        }
        Some(choice) => check.good(format!("{path}: {choice}")),
    }
}

fn khugepaged(host: &Host) -> Check {
    let check = Check::new(
        "khugepaged",
        "khugepaged",
        "it turns text into PMD leaves after the fact, for mappings that asked for it (MADV_HUGEPAGE) or all with THP always; \
         pages_to_scan per scan_sleep_millisecs is its pace",
    );
    let folder = format!("{THP}/khugepaged");
    let get = |name: &str| {
        host.read(&format!("{folder}/{name}"))
            .and_then(|v| v.parse::<u64>().ok())
    };
    let (Some(pages), Some(sleep)) = (get("pages_to_scan"), get("scan_sleep_millisecs")) else {
        return check.unknown(format!("{folder} cannot be read"));
    };
    let none = get("max_ptes_none").map_or_else(|| "?".to_owned(), |n| n.to_string());
    let found = format!(
        "pages_to_scan {pages}, scan_sleep_millisecs {sleep}, max_ptes_none {none}: at most {} pages a second; collapsed so far: {}",
        pages.saturating_mul(1000) / sleep.max(1),
        get("pages_collapsed").map_or_else(|| "?".to_owned(), |n| n.to_string())
    );
    if pages == 0 {
        let persist =
            format!("/etc/tmpfiles.d/wideleaf.conf: w {folder}/pages_to_scan - - - - 4096");
        return check.improve(
            found,
            format!("echo 4096 > {folder}/pages_to_scan"),
            persist,
        );
    }
    check.note(found)
}

fn contpte(host: &Host, release: &Release, config: &Config) -> Check {
    let check = Check::new(
        "folio-sizes",
        "folio sizes below a PMD",
        "a folio between the base page and the PMD is one TLB entry where the CPU coalesces it (arm64 contpte, AMD)",
    );
    let mut sizes: Vec<u64> = host
        .list(THP)
        .iter()
        .filter_map(|n| {
            n.strip_prefix("hugepages-")?
                .strip_suffix("kB")?
                .parse()
                .ok()
        })
        .collect();
    sizes.sort_unstable();
    let enabled: Vec<String> = sizes
        .iter()
        .filter_map(|kib| Some((*kib, mode(host, *kib)?)))
        .map(|(kib, mode)| format!("{} ({mode})", short(kib << 10)))
        .collect();
    let all: Vec<String> = sizes.iter().map(|kib| short(kib << 10)).collect();
    let anonymous = match (sizes.len(), enabled.len()) {
        (0, _) => "the kernel names no sizes for anonymous memory".to_owned(),
        (all_of, 0) => format!(
            "anonymous memory may use none of the {all_of} sizes ({})",
            all.join(" ")
        ),
        (all_of, some) => format!(
            "anonymous memory may use {some} of {all_of} sizes: {}; the others ({}) are off",
            enabled.join(" "),
            sizes
                .iter()
                .filter(|kib| mode(host, **kib).is_none())
                .map(|kib| short(kib << 10))
                .collect::<Vec<_>>()
                .join(" ")
        ),
    };
    let anonymous = anonymous.replace("; the others () are off", "");
    let folding = match config.get("ARM64_CONTPTE") {
        Some("y") => ", contpte folding built in",
        _ if config.mentions("ARM64_CONTPTE") => ", contpte folding not built in",
        _ => "",
    };
    match release.at_least(6, 8) {
        Some(true) => check.note(format!(
            "{anonymous}; for files the file system and readahead decide{folding}"
        )),
        _ => check.note(format!(
            "no sizes between page and PMD for anonymous memory before Linux 6.8{folding}"
        )),
    }
}

/// What `enabled` says of anonymous folios of one size; `None` for never.
/// `inherit` is what the setting of all sizes says.
fn mode(host: &Host, kib: u64) -> Option<String> {
    let chosen = host.chosen(&format!("{THP}/hugepages-{kib}kB/enabled"))?;
    let mode = match chosen.as_str() {
        "inherit" => host.chosen(&format!("{THP}/enabled"))?,
        _ => chosen,
    };
    (mode != "never").then_some(mode)
}
