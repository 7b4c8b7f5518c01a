// SPDX-License-Identifier: GPL-2.0-only
//! Free memory that wide folios can be made of.

use crate::{Check, Host};
use wideleaf_collapse::Source;
use wideleaf_kit::size::{bytes, short};

/// Of fewer free blocks a quarter, which the commands take at most, is not one with its reserve.
const FEW: u64 = 12;

pub(crate) fn check(host: &Host) -> Check {
    let check = Check::new(
        "memory",
        "free memory in whole blocks",
        "run, fill, collapse and keep take only what is free in whole blocks, a quarter of it, so that no task has to \
         wait; page cache that fills the machine leaves none",
    );
    let pmd = host.read("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size");
    let Some(pmd) = pmd.and_then(|text| text.parse::<u64>().ok()) else {
        return check.note("the kernel has no transparent huge pages");
    };
    let source = |reclaim| Source {
        proc: host.path("/proc"),
        // A PMD maps one table of 8-byte entries, which fills a page.
        page: (pmd * 8).isqrt(),
        pmd,
        reclaim,
    };
    let (Ok(free), Ok(more)) = (source(false).bytes(), source(true).bytes()) else {
        return check.unknown("/proc/buddyinfo, zoneinfo or meminfo cannot be read");
    };
    let found = format!(
        "{} free in blocks of {}, {} with page cache that the kernel can reclaim",
        bytes(free, false),
        short(pmd),
        bytes(more, false)
    );
    match free < FEW * pmd && more >= FEW * pmd {
        true => check.improve(
            found,
            "--reclaim of run, fill and collapse, which may take page cache from others",
            "keep.toml: reclaim = true",
        ),
        false => check.note(found),
    }
}
