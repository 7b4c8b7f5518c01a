// SPDX-License-Identifier: GPL-2.0-only
//! The tables of figures of the linear map.

use crate::cells::Cell::{self, Each};
use crate::cells::Show::{Count, Percent};
use crate::layout::Column;
use crate::layout::Layout::{self, Across, Runs};

const fn count(figures: &'static [&'static str]) -> Cell {
    Each(figures, Count)
}

const LEAVES: &[Column] = &[
    ("4K", count(&["boot.4K"])),
    ("64K", count(&["boot.64K"])),
    ("2M", count(&["boot.2M"])),
    ("32M", count(&["boot.32M"])),
    ("512M", count(&["boot.512M"])),
    ("1G", count(&["boot.1G"])),
    ("page tables", count(&["boot.tables"])),
];

pub const PRISTINE: Layout = Runs(
    "kernel",
    &[
        ("6.12, 4K pages", "6.12-arm64-4K.linear-map-pristine"),
        (
            "the same, `--append rodata=on`",
            "6.12-arm64-4K.linear-map-pristine-rodata-on",
        ),
        (
            "6.12, 4K pages, `--memory 64G`",
            "6.12-arm64-4K.linear-map-pristine-64G",
        ),
        ("6.12, 64K pages", "6.12-arm64-64K.linear-map-pristine"),
        ("7.3, 4K pages", "7.3-arm64-4K.linear-map-pristine"),
        (
            "the same, `--memory 64G`",
            "7.3-arm64-4K.linear-map-pristine-64G",
        ),
        (
            "the same, 2G, `--cpu-model max`",
            "7.3-arm64-4K.linear-map-pristine-max",
        ),
        ("7.3, 64K pages", "7.3-arm64-64K.linear-map-pristine"),
    ],
    LEAVES,
);

pub const SERIES: Layout = Runs(
    "kernel",
    &[
        ("6.12, 4K pages", "6.12-arm64-4K.linear-map"),
        ("the same, `--memory 64G`", "6.12-arm64-4K.linear-map-64G"),
        (
            "6.12, 16K pages, `--memory 64G`",
            "6.12-arm64-16K.linear-map-64G",
        ),
        ("6.12, 64K pages", "6.12-arm64-64K.linear-map"),
        ("the same, `--memory 64G`", "6.12-arm64-64K.linear-map-64G"),
        ("7.3, 4K pages", "7.3-arm64-4K.linear-map"),
        ("the same, `--memory 64G`", "7.3-arm64-4K.linear-map-64G"),
    ],
    LEAVES,
);

const SPLITS: Cell = count(&["settled.splits", "settled.collapses"]);
const WIDE: Cell = Each(&["settled.as_wide_percent"], Percent(3));

pub const STORM: Layout = Across(
    &[
        ("4K pages", "6.12-arm64-4K.linear-storm", None),
        ("64K pages", "6.12-arm64-64K.linear-storm", None),
    ],
    &[
        ("secret areas, filters", count(&["secrets", "filters"])),
        ("splits, collapses", SPLITS),
        (
            "bytes checked, written meanwhile",
            count(&["checked_bytes", "written_bytes"]),
        ),
        (
            "mapped by single pages at boot, after the storm, settled",
            count(&["boot.@", "storm.@", "settled.@"]),
        ),
        ("as wide as at boot", WIDE),
    ],
);

pub const KASAN: Layout = Across(
    &[
        ("6.12, 64K", "6.12-arm64-64K.linear-storm-kasan", None),
        (
            "the same, 50 rounds, 1G",
            "6.12-arm64-64K.linear-storm-kasan-1G",
            None,
        ),
        ("6.12, 16K", "6.12-arm64-16K.linear-storm-kasan", None),
        ("7.3, 16K", "7.3-arm64-16K.linear-storm-kasan", None),
        ("7.3, 4K", "7.3-arm64-4K.linear-storm-kasan", None),
    ],
    &[
        (
            "allocations that failed, changes that were refused, in the storm",
            count(&["failed_allocations", "refused"]),
        ),
        (
            "allocations of single changes that failed in turn, refused",
            count(&["failed_one_by_one", "refused_one_by_one"]),
        ),
        (
            "splits that found no memory for a table",
            count(&["settled.split_failures"]),
        ),
        ("splits, collapses", SPLITS),
        (
            "bytes checked, of which none was lost",
            count(&["checked_bytes"]),
        ),
        ("as wide as at boot", WIDE),
    ],
);

/// The kernel's own L1 dTLB misses and walks in a phase.
macro_rules! phase {
    ($name:literal) => {
        count(&[
            concat!($name, ".kernel_dtlb_l1_misses"),
            concat!($name, ".kernel_dtlb_walks"),
            concat!($name, ".kernel_dtlb_walks_per_1000"),
        ])
    };
}

const SCAN: Column = (
    "`scan`: L1 misses, walks, walks per 1000 instructions",
    phase!("scan"),
);

pub const WORK: Layout = Across(
    &[
        ("pristine", "6.12-arm64-4K.linear-work-repeat", Some(0)),
        ("series", "6.12-arm64-4K.linear-work-repeat", Some(1)),
        (
            "series, `rodata=on`",
            "6.12-arm64-4K.linear-work-repeat-rodata-on",
            None,
        ),
        (
            "series, `max`",
            "6.12-arm64-4K.linear-work-repeat-max",
            None,
        ),
    ],
    &[
        ("page tables of the map, bytes", count(&["boot.tables"])),
        SCAN,
        ("`read`", phase!("read")),
        ("`request`", phase!("request")),
        ("`encrypt`", phase!("encrypt")),
        (
            "`change`: instructions, splits",
            count(&["change.kernel_instructions", "settled.splits"]),
        ),
        (
            "`restore`: instructions",
            count(&["restore.kernel_instructions"]),
        ),
        (
            "`settle`: instructions, collapses",
            count(&["settle.kernel_instructions", "settled.collapses"]),
        ),
    ],
);

pub const MACHINES: Layout = Across(
    &[
        ("6.12, 4K", "6.12-arm64-4K.linear-work", None),
        ("6.12, 16K", "6.12-arm64-16K.linear-work", None),
        ("6.12, 64K", "6.12-arm64-64K.linear-work", None),
        ("7.3, 4K", "7.3-arm64-4K.linear-work", None),
    ],
    &[
        (
            "page tables of the map at boot, bytes",
            count(&["boot.tables"]),
        ),
        ("the same after all changes", count(&["settled.tables"])),
        SCAN,
        ("`read`", phase!("read")),
        ("`request`", phase!("request")),
        ("`encrypt`", phase!("encrypt")),
        ("`fio`", phase!("fio")),
        (
            "`change`: instructions",
            count(&["change.kernel_instructions"]),
        ),
        ("splits, collapses by the series", SPLITS),
        ("`read-again`", phase!("read-again")),
        (
            "instructions of the worker, of which for each collapse",
            count(&["collapse_instructions", "collapse_instructions_each"]),
        ),
        (
            "`longest_hold_ns` since boot, an instruction each",
            count(&["longest_hold_ns"]),
        ),
    ],
);

pub const RODATA_ON: Layout = Runs(
    "",
    &[
        ("4K", "6.12-arm64-4K.linear-work-rodata-on"),
        ("16K", "6.12-arm64-16K.linear-work-rodata-on"),
        ("64K", "6.12-arm64-64K.linear-work-rodata-on"),
    ],
    &[
        ("`scan`", count(&["scan.kernel_dtlb_walks"])),
        ("`read`", count(&["read.kernel_dtlb_walks"])),
        ("`request`", count(&["request.kernel_dtlb_walks"])),
        ("`encrypt`", count(&["encrypt.kernel_dtlb_walks"])),
        ("`fio`", count(&["fio.kernel_dtlb_walks"])),
        ("`read-again`", count(&["read-again.kernel_dtlb_walks"])),
    ],
);
