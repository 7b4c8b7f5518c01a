// SPDX-License-Identifier: GPL-2.0-only
//! Settings of transparent huge pages: which folios anonymous memory gets, and how busy khugepaged
//! is.

use anyhow::{Context, Result};
use std::fs;
use std::path::Path;

/// Not there without transparent huge pages.
const KHUGEPAGED: &str = "/sys/kernel/mm/transparent_hugepage/khugepaged";

/// Anonymous memory in folios of the contpte leaf's size: 64K with 4K pages, 2M with others. A
/// kernel that has no such folios does not need them.
pub fn allow_large_folios() {
    [64, 2048].into_iter().for_each(allow_folios_of);
}

/// Anonymous memory in folios of so many KiB, if the kernel has them, where they fit.
pub fn allow_folios_of(kib: u64) {
    let path = format!("/sys/kernel/mm/transparent_hugepage/hugepages-{kib}kB/enabled");
    let _ = fs::write(path, "always");
}

/// Keeps khugepaged from what a job measures. It looks at a process as soon as that maps
/// something, and then every ten seconds of wall time; it reads and collapses as much as a PMD
/// maps, with 16K pages 32M of text, if a single page of it is there. So it is told to sleep for
/// 24 days, and to fill no holes, of which the first round finds nothing else.
///
/// # Errors
///
/// If a setting cannot be written.
pub fn quiet_khugepaged() -> Result<()> {
    let folder = Path::new(KHUGEPAGED);
    if !folder.exists() {
        return Ok(());
    }
    for (name, value) in [("max_ptes_none", 0), ("scan_sleep_millisecs", i32::MAX)] {
        let path = folder.join(name);
        fs::write(&path, value.to_string()).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

/// Has the kernel make huge pages of what is advised alone. khugepaged then leaves all else alone,
/// even in a round that was due before [`quiet_khugepaged`]; MADV_COLLAPSE does not mind.
///
/// # Errors
///
/// If the setting cannot be written.
pub fn only_as_advised() -> Result<()> {
    let path = "/sys/kernel/mm/transparent_hugepage/enabled";
    fs::write(path, "madvise").context(path)
}

/// Has khugepaged look often; kernels without it go without.
pub fn wake_khugepaged() {
    for (name, value) in [("scan_sleep_millisecs", "50"), ("pages_to_scan", "65536")] {
        let _ = fs::write(Path::new(KHUGEPAGED).join(name), value);
    }
}
