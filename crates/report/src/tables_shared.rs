// SPDX-License-Identifier: GPL-2.0-only
//! The tables of figures of shared file mappings that are written to.

use crate::cells::Cell::{At, Each};
use crate::cells::Show::Count;
use crate::layout::Cases::These;
use crate::layout::Column;
use crate::layout::Layout::{self, Of};

const PER_PAGE: &[&str] = &["*.instructions_per_page"];
const PRISTINE: Column = ("pristine", At(0, PER_PAGE, Count));
const PATCHED: Column = ("patched", At(1, PER_PAGE, Count));
const FAULTS: Column = ("faults", Each(&["*.faults"], Count));

pub const K4: Layout = Of(
    "6.12-arm64-4K.shared-writes",
    "way",
    These(&[
        ("`disk.small`: XFS, large folios off", "disk.small"),
        ("`disk.large`", "disk.large"),
        ("`disk.cut`", "disk.cut"),
        ("`disk.askew`", "disk.askew"),
        (
            "`disk.stated`: `fault_around_bytes` is one page",
            "disk.stated",
        ),
        ("`tmpfs.small`", "tmpfs.small"),
        ("`tmpfs.large`: by a PMD", "tmpfs.large"),
        ("`tmpfs.cut`", "tmpfs.cut"),
        ("`tmpfs.askew`", "tmpfs.askew"),
        ("`tmpfs.stated`", "tmpfs.stated"),
    ]),
    &[
        PRISTINE,
        PATCHED,
        FAULTS,
        ("invalidations", Each(&["*.tlb_invalidations"], Count)),
    ],
);

pub const K64: Layout = Of(
    "6.12-arm64-64K.shared-writes",
    "way",
    These(&[
        ("`small`: large folios off", "disk.small"),
        ("`large`", "disk.large"),
        ("`cut`", "disk.cut"),
        ("`askew`", "disk.askew"),
        ("`stated`: `fault_around_bytes` is one page", "disk.stated"),
    ]),
    &[PRISTINE, PATCHED, FAULTS],
);

pub const K16: Layout = Of(
    "6.12-arm64-16K.shared-writes",
    "way",
    These(&[
        ("small", "small"),
        ("large", "large"),
        ("cut", "cut"),
        ("askew", "askew"),
        ("stated", "stated"),
    ]),
    &[
        ("disk", Each(&["disk.*.instructions_per_page"], Count)),
        ("tmpfs", Each(&["tmpfs.*.instructions_per_page"], Count)),
    ],
);
