// SPDX-License-Identifier: GPL-2.0-only
//! The tables of figures that pages show: each is defined once, under the name by which a page asks
//! for it. Those that repeat themselves for each machine are here, others in `tables.toml`; a sheet
//! is a table as it stands.

use crate::cells::Cell::{self, Each, Ratio, Share};
use crate::cells::Show::{Count, In, Percent};
use crate::committed::Figures;
use crate::layout::Cases::{Asked, Names, Sizes, These};
use crate::layout::Column;
use crate::layout::Layout::{self, Cases, Grid, Machines, Origins};
use crate::template::Templates;
use anyhow::{Context, Result, bail, ensure};
use std::sync::LazyLock;

/// The sets of `docs/measured.toml`.
const MEASURED: &[&str] = &[
    "entropy",
    "exec",
    "exec-8M",
    "exec-read",
    "exec-settled",
    "exec-written",
    "fragmented",
    "free",
    "limit",
    "program",
    "sizes",
    "sparse",
    "sparse-settled",
];

/// All tables that are laid out here, by name.
const TABLES: &[(&str, Layout)] = &[
    ("origins", Origins(|set| MEASURED.contains(&set))),
    ("front", Machines(&[("exec", FRONT), ("exec-8M", FRONT_8M)])),
    ("exec", Machines(&[("exec", EXEC)])),
    ("exec-8M", Machines(&[("exec-8M", EXEC)])),
    ("sparse-bytes", SPARSE_BYTES),
    ("sparse", Cases("sparse", "touched", Asked("touch"), SPARSE)),
    ("limit", Machines(&[("limit", SCARCE)])),
    ("free", Machines(&[("free", SCARCE)])),
    ("fragmented", Machines(&[("fragmented", FRAGMENTED)])),
    (
        "program",
        Cases("program", "program", Names("warm.faults"), PROGRAM),
    ),
    ("programs-6.12", PROGRAMS),
    ("entropy", ENTROPY),
    (
        "sizes",
        Cases("sizes", "mapping", Sizes("cold.faults"), SIZES),
    ),
];

/// Those that are described by text.
static TEMPLATES: LazyLock<Result<Templates, toml::de::Error>> =
    LazyLock::new(|| toml::from_str(include_str!("tables.toml")));

/// The table of this name as Markdown.
///
/// # Errors
///
/// If there is none, or no row has a figure of it.
pub fn markdown(name: &str, figures: &Figures) -> Result<String> {
    let sheet = figures.sheets.iter().find(|sheet| sheet.table == name);
    let layout = TABLES.iter().find(|(known, _)| *known == name);
    let templates = TEMPLATES.as_ref().context("tables.toml")?;
    let text = match (sheet, layout, templates.get(name)) {
        (Some(sheet), None, None) => sheet.markdown(),
        (None, Some((_, layout)), None) => layout.markdown(&figures.rows),
        (None, None, Some(template)) => template
            .markdown(templates, &figures.rows)
            .with_context(|| format!("the table '{name}'"))?,
        (None, None, None) => {
            let mut known: Vec<_> = TABLES.iter().map(|(name, _)| *name).collect();
            known.extend(templates.keys().map(String::as_str));
            known.extend(figures.sheets.iter().map(|sheet| sheet.table.as_str()));
            bail!("there is no table '{name}': there are {}", known.join(", "))
        }
        _ => bail!("there are two tables '{name}': rename the one in results/"),
    };
    ensure!(
        !text.is_empty(),
        "there are no figures for the table '{name}'"
    );
    Ok(text)
}

/// All that are defined here.
#[cfg(test)]
pub fn names() -> impl Iterator<Item = &'static str> {
    let templates = TEMPLATES.as_ref().unwrap().keys().map(String::as_str);
    TABLES.iter().map(|(name, _)| *name).chain(templates)
}

const THOUSANDS: f64 = 1e3;
const MILLIONS: f64 = 1e6;
const MIB: f64 = 1048576.0;

const fn count(figure: &'static [&'static str]) -> Cell {
    Each(figure, Count)
}

const fn in_units(figure: &'static [&'static str], unit: f64, digits: usize) -> Cell {
    Each(figure, In(unit, digits))
}

const fn percent(figure: &'static [&'static str]) -> Cell {
    Each(figure, Percent(0))
}

const FRONT: &[Column] = &[
    ("cold faults", count(&["cold.faults"])),
    (
        "cold guest instructions, millions",
        in_units(&["cold.instructions"], MILLIONS, 1),
    ),
    ("random page walks", count(&["random.walks"])),
    ("text in 2M leaves", percent(&["text.2M_percent"])),
];

const FRONT_8M: &[Column] = &[("faults, window 8M", count(&["cold.faults"]))];

const EXEC: &[Column] = &[
    ("cold faults", count(&["cold.faults"])),
    (
        "cold instructions, millions",
        in_units(&["cold.instructions"], MILLIONS, 1),
    ),
    ("of pristine", Share("cold.instructions")),
    ("random L1 iTLB misses", count(&["random.itlb_l1_misses"])),
    ("random walks", count(&["random.walks"])),
    ("text in 2M leaves", percent(&["text.2M_percent"])),
];

const SIZES: &[Column] = &[
    ("cold faults", count(&["*.cold.faults"])),
    (
        "cold instructions, thousands",
        in_units(&["*.cold.instructions"], THOUSANDS, 0),
    ),
    ("random L1 iTLB misses", count(&["*.random.itlb_l1_misses"])),
    ("random walks", count(&["*.random.walks"])),
    ("text in 2M leaves", percent(&["*.text.2M_percent"])),
];

const SPARSE_BYTES: Layout = Grid {
    set: "sparse",
    base: "",
    head: "touched",
    option: None,
    cases: Asked("touch"),
    cells: &[Ratio("*.cold.read_bytes")],
};

const SPARSE: &[Column] = &[
    ("MiB read", in_units(&["*.cold.read_bytes"], MIB, 1)),
    ("faults", count(&["*.cold.faults"])),
    ("random L1 iTLB misses", count(&["*.random.itlb_l1_misses"])),
    ("random walks for text", count(&["*.random.text_walks"])),
    ("mapped text in 2M leaves", percent(&["*.text.2M_percent"])),
];

const SCARCE: &[Column] = &[
    ("cold faults", count(&["cold.faults"])),
    (
        "cold instructions, millions",
        in_units(&["cold.instructions"], MILLIONS, 0),
    ),
    (
        "cold, pages scanned directly",
        count(&["cold.direct_scans"]),
    ),
    ("random, MiB read", in_units(&["random.read_bytes"], MIB, 0)),
    ("patched / pristine", Ratio("random.read_bytes")),
    (
        "random instructions, millions",
        in_units(&["random.instructions"], MILLIONS, 0),
    ),
    (
        "random, pages scanned directly",
        count(&["random.direct_scans"]),
    ),
    ("random, stalls", count(&["random.direct_stalls"])),
    ("OOM kills", count(&["random.oom_kills"])),
];

const FRAGMENTED: &[Column] = &[
    ("cold faults", count(&["cold.faults"])),
    (
        "cold instructions, millions",
        in_units(&["cold.instructions"], MILLIONS, 1),
    ),
    ("MiB read", in_units(&["cold.read_bytes"], MIB, 0)),
    ("pages scanned directly", count(&["cold.direct_scans"])),
    ("pages scanned by kswapd", count(&["cold.kswapd_scans"])),
    ("stalls", count(&["cold.direct_stalls"])),
    ("text in 2M leaves", percent(&["text.2M_percent"])),
];

const PROGRAM: &[Column] = &[
    ("cold faults", count(&["*.cold.faults"])),
    (
        "cold instructions, thousands",
        in_units(&["*.cold.instructions"], THOUSANDS, 0),
    ),
    ("MiB read", in_units(&["*.cold.read_bytes"], MIB, 1)),
    ("warm faults", count(&["*.warm.faults"])),
    ("warm L1 iTLB misses", count(&["*.warm.itlb_l1_misses"])),
    ("warm walks for text", count(&["*.warm.text_walks"])),
];

const PROGRAMS: Layout = Grid {
    set: "program",
    base: "6.12",
    head: "",
    option: None,
    cases: These(&[
        ("perl", "perl"),
        ("python", "python"),
        ("openssl", "openssl"),
        ("openssl, libcrypto not congruent", "openssl-shifted"),
        ("stubs, glibc", "stubs-glibc"),
        ("stubs, musl", "stubs-musl"),
    ]),
    cells: &[
        count(&["*.warm.itlb_l1_misses"]),
        count(&["*.warm.text_walks"]),
    ],
};

const ENTROPY: Layout = Grid {
    set: "entropy",
    base: "",
    head: "case",
    option: Some("loads"),
    cases: Names("random_bits"),
    cells: &[count(&["*.random_bits"])],
};
