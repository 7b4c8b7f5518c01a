// SPDX-License-Identifier: GPL-2.0-only
//! The columns of tables of processes, each defined once: `ps`, `top` and `collapse` show them.

use crate::procset::Pressure;
use std::cmp::Ordering;
use wideleaf_containers::Container;
use wideleaf_kit::size::{bytes, short};
use wideleaf_kit::table::{Align, Heading};
use wideleaf_procmap::{Coverage, Mapping, Sight, Vma};

/// The subject of a table's line: a process, or one of its mappings.
pub struct Line<'a> {
    /// Process id.
    pub pid: u32,
    /// Command name.
    pub name: &'a str,
    /// Control group.
    pub cgroup: &'a str,
    /// The container that it is in, where that was looked for.
    pub container: Option<&'a Container>,
    /// The part of it that could be seen.
    pub sight: Sight,
    /// Its bytes by leaf.
    pub coverage: &'a Coverage,
    /// TLB entries needed and there.
    pub pressure: &'a Pressure,
    /// The mapping, if the line is about one.
    pub mapping: Option<&'a Mapping>,
    /// Bytes of it that were made at run time, where that was looked for.
    pub made: Option<u64>,
    /// Base page size in bytes.
    pub page: u64,
    /// Bytes that a PMD maps: from here on a leaf is always known.
    pub pmd: u64,
}

impl Line<'_> {
    /// `sign` if what is counted is a bound, because leaves are unknown.
    fn bound(&self, sign: &'static str) -> &'static str {
        match self.coverage.unknown {
            0 => "",
            _ => sign,
        }
    }
}

/// How a column is set and sorted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// How much: the largest first.
    Amount,
    /// Which, by number.
    Number,
    /// Which, by name.
    Word,
}

/// The key by which lines are sorted.
enum Key<'a> {
    Number(f64),
    Word(Option<&'a str>),
}

/// A column.
pub struct Definition {
    /// As `-o` and `--sort` name it.
    pub name: &'static str,
    title: &'static str,
    kind: Kind,
    /// Told from page tables, which may be out of sight.
    of_leaves: bool,
    key: for<'a> fn(&Line<'a>) -> Key<'a>,
    cell: fn(l: &Line<'_>, exact: bool) -> String,
}

/// Process id.
pub static PID: Definition = Definition {
    name: "pid",
    title: "PID",
    kind: Kind::Number,
    of_leaves: false,
    key: |l| Key::Number(f64::from(l.pid)),
    cell: |l, _| l.pid.to_string(),
};

/// Command name.
pub static NAME: Definition = Definition {
    name: "name",
    title: "NAME",
    kind: Kind::Word,
    of_leaves: false,
    key: |l| Key::Word(Some(l.name)),
    cell: |l, _| l.name.to_owned(),
};

/// Control group.
pub static CGROUP: Definition = Definition {
    name: "cgroup",
    title: "CGROUP",
    kind: Kind::Word,
    of_leaves: false,
    key: |l| Key::Word(Some(l.cgroup)),
    cell: |l, _| l.cgroup.to_owned(),
};

/// The container's name, or the beginning of its id.
pub static CONTAINER: Definition = Definition {
    name: "container",
    title: "CONTAINER",
    kind: Kind::Word,
    of_leaves: false,
    key: |l| Key::Word(l.container.map(Container::label)),
    cell: |l, _| or_dash(l.container.map(|c| c.label().to_owned())),
};

/// The container's pod, with the namespace.
pub static POD: Definition = Definition {
    name: "pod",
    title: "POD",
    kind: Kind::Word,
    of_leaves: false,
    key: |l| Key::Word(l.container.and_then(|c| c.pod.as_deref())),
    cell: |l, _| or_dash(l.container.and_then(Container::pod_label)),
};

/// The image that the container was made from.
pub static IMAGE: Definition = Definition {
    name: "image",
    title: "IMAGE",
    kind: Kind::Word,
    of_leaves: false,
    key: |l| Key::Word(l.container.and_then(|c| c.image.as_deref())),
    cell: |l, _| or_dash(l.container.and_then(|c| c.image.clone())),
};

/// Bytes of the mappings.
pub static TEXT: Definition = Definition {
    name: "text",
    title: "TEXT",
    kind: Kind::Amount,
    of_leaves: false,
    key: |l| whole(l.coverage.size),
    cell: |l, exact| bytes(l.coverage.size, exact),
};

/// Bytes of the mappings whose text was made at run time.
pub static JIT: Definition = Definition {
    name: "jit",
    title: "JIT",
    kind: Kind::Amount,
    of_leaves: false,
    key: |l| whole(l.made.unwrap_or(0)),
    cell: |l, exact| or_dash(l.made.map(|made| bytes(made, exact))),
};

/// Bytes in memory.
pub static RESIDENT: Definition = Definition {
    name: "resident",
    title: "RESIDENT",
    kind: Kind::Amount,
    of_leaves: true,
    key: |l| whole(l.coverage.resident),
    cell: |l, exact| bytes(l.coverage.resident, exact),
};

/// Bytes whose leaf cannot be told.
pub static UNKNOWN: Definition = Definition {
    name: "unknown",
    title: "UNKNOWN",
    kind: Kind::Amount,
    of_leaves: true,
    key: |l| whole(l.coverage.unknown),
    cell: |l, exact| bytes(l.coverage.unknown, exact),
};

/// Bytes that are not resident.
pub static ABSENT: Definition = Definition {
    name: "absent",
    title: "ABSENT",
    kind: Kind::Amount,
    of_leaves: true,
    key: |l| whole(l.coverage.absent()),
    cell: |l, exact| bytes(l.coverage.absent(), exact),
};

/// Percent of the resident bytes in leaves wider than a base page; a lower bound where leaves
/// are unknown.
pub static WIDE: Definition = Definition {
    name: "wide",
    title: "WIDE%",
    kind: Kind::Amount,
    of_leaves: true,
    key: |l| Key::Number(wide(l).unwrap_or(-1.0)),
    cell: |l, _| or_dash(wide(l).map(|wide| format!("{}{wide:.0}", l.bound(">=")))),
};

/// TLB entries to reach all that is resident.
pub static NEED: Definition = Definition {
    name: "need",
    title: "NEED",
    kind: Kind::Amount,
    of_leaves: true,
    key: |l| whole(l.pressure.needed),
    cell: |l, _| format!("{}{}", l.bound("<="), l.pressure.needed),
};

/// Entries of the first TLB level.
pub static L1: Definition = Definition {
    name: "l1",
    title: "L1",
    kind: Kind::Amount,
    of_leaves: false,
    key: |l| entries(l.pressure.entries_l1),
    cell: |l, _| or_dash(l.pressure.entries_l1.map(|n| n.to_string())),
};

/// Entries of the last TLB level.
pub static HAVE: Definition = Definition {
    name: "have",
    title: "HAVE",
    kind: Kind::Amount,
    of_leaves: false,
    key: |l| entries(l.pressure.entries_last),
    cell: |l, _| or_dash(l.pressure.entries_last.map(|n| n.to_string())),
};

/// Percent of the first TLB level that is needed.
pub static L1LOAD: Definition = Definition {
    name: "l1load",
    title: "L1LOAD%",
    kind: Kind::Amount,
    of_leaves: true,
    key: |l| Key::Number(l.pressure.load_l1.unwrap_or(-1.0)),
    cell: |l, _| percent(l, l.pressure.load_l1),
};

/// Percent of the last TLB level that is needed.
pub static LOAD: Definition = Definition {
    name: "load",
    title: "LOAD%",
    kind: Kind::Amount,
    of_leaves: true,
    key: |l| Key::Number(l.pressure.load_last.unwrap_or(-1.0)),
    cell: |l, _| percent(l, l.pressure.load_last),
};

/// The part that could be seen.
pub static SIGHT: Definition = Definition {
    name: "sight",
    title: "SIGHT",
    kind: Kind::Word,
    of_leaves: false,
    key: |l| Key::Number(f64::from(l.sight as u8)),
    cell: |l, _| sight(l.sight).to_owned(),
};

/// Addresses of the mapping.
pub static ADDRESS: Definition = Definition {
    name: "address",
    title: "ADDRESS",
    kind: Kind::Word,
    of_leaves: false,
    key: |l| of_vma(l, |vma| vma.start),
    cell: |l, _| text(l, |m| format!("{:012x}-{:012x}", m.vma.start, m.vma.end)),
};

/// Its offset in the file.
pub static OFFSET: Definition = Definition {
    name: "offset",
    title: "OFFSET",
    kind: Kind::Number,
    of_leaves: false,
    key: |l| of_vma(l, |vma| vma.offset),
    cell: |l, _| text(l, |m| format!("{:x}", m.vma.offset)),
};

/// Its protection.
pub static PERMS: Definition = Definition {
    name: "perms",
    title: "PERMS",
    kind: Kind::Word,
    of_leaves: false,
    key: |l| Key::Word(l.mapping.map(|m| m.vma.perms.as_str())),
    cell: |l, _| text(l, |m| m.vma.perms.clone()),
};

/// Its file.
pub static FILE: Definition = Definition {
    name: "file",
    title: "FILE",
    kind: Kind::Word,
    of_leaves: false,
    key: |l| Key::Word(l.mapping.map(|m| m.vma.name.as_str())),
    cell: |l, _| text(l, file_name),
};

/// All but those of leaves.
pub static ALL: [&Definition; 22] = [
    &PID, &NAME, &CGROUP, &CONTAINER, &POD, &IMAGE, &TEXT, &JIT, &RESIDENT, &UNKNOWN, &ABSENT,
    &WIDE, &NEED, &L1, &HAVE, &L1LOAD, &LOAD, &SIGHT, &ADDRESS, &OFFSET, &PERMS, &FILE,
];

/// Whether a column is about the container.
pub fn of_container(column: Column) -> bool {
    [&CONTAINER, &POD, &IMAGE].map(Column::Of).contains(&column)
}

fn whole<'a>(number: u64) -> Key<'a> {
    Key::Number(number as f64)
}

fn entries<'a>(number: Option<u32>) -> Key<'a> {
    Key::Number(number.map_or(-1.0, f64::from))
}

fn of_vma<'a>(line: &Line<'a>, number: fn(&Vma) -> u64) -> Key<'a> {
    whole(line.mapping.map_or(0, |mapping| number(&mapping.vma)))
}

fn wide(line: &Line<'_>) -> Option<f64> {
    let coverage = line.coverage;
    (coverage.resident > 0)
        .then(|| coverage.wide(line.page) as f64 * 100.0 / coverage.resident as f64)
}

fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}

fn percent(line: &Line<'_>, load: Option<f64>) -> String {
    or_dash(load.map(|load| format!("{}{:.0}", line.bound("<="), load * 100.0)))
}

fn text(line: &Line<'_>, of: fn(&Mapping) -> String) -> String {
    line.mapping.map_or_else(String::new, of)
}

fn sight(sight: Sight) -> &'static str {
    match sight {
        Sight::Full => "full",
        Sight::Pmd => "pmd",
        Sight::Maps => "maps",
    }
}

fn file_name(mapping: &Mapping) -> String {
    let vma = &mapping.vma;
    let name = if vma.name.is_empty() {
        "[anon]"
    } else {
        &vma.name
    };
    format!("{name}{}", if vma.deleted { " (deleted)" } else { "" })
}

/// A column of a table.
#[derive(Clone, Copy)]
pub enum Column {
    /// Bytes in leaves of this size.
    Leaf(u64),
    /// Any other.
    Of(&'static Definition),
}

impl PartialEq for Column {
    fn eq(&self, other: &Self) -> bool {
        self.title() == other.title()
    }
}

impl std::fmt::Debug for Column {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.title())
    }
}

impl Column {
    fn kind(self) -> Kind {
        match self {
            Self::Leaf(_) => Kind::Amount,
            Self::Of(definition) => definition.kind,
        }
    }

    /// Its heading's text.
    pub fn title(self) -> String {
        match self {
            Self::Leaf(size) => short(size),
            Self::Of(definition) => definition.title.to_owned(),
        }
    }

    /// Its heading.
    pub fn heading(self) -> Heading {
        match self.kind() {
            Kind::Word => Align::Left.column(self.title()),
            Kind::Amount | Kind::Number => Align::Right.column(self.title()),
        }
    }

    /// Whether it tells how much, not which.
    pub fn is_amount(self) -> bool {
        self.kind() == Kind::Amount
    }

    /// Ascending.
    pub fn compare(self, a: &Line<'_>, b: &Line<'_>) -> Ordering {
        match (self.key(a), self.key(b)) {
            (Key::Number(a), Key::Number(b)) => a.total_cmp(&b),
            (Key::Word(a), Key::Word(b)) => a.cmp(&b),
            _ => Ordering::Equal,
        }
    }

    fn key<'a>(self, line: &Line<'a>) -> Key<'a> {
        match self {
            Self::Leaf(size) => whole(line.coverage.leaves.get(&size).copied().unwrap_or_default()),
            Self::Of(definition) => (definition.key)(line),
        }
    }

    /// What it shows of `line`; `?` for what cannot be told. `exact`: bytes as plain numbers.
    pub fn cell(self, line: &Line<'_>, exact: bool) -> String {
        let blind = line.sight == Sight::Maps;
        match self {
            Self::Leaf(_) if blind => "?".to_owned(),
            Self::Of(definition) if blind && definition.of_leaves => "?".to_owned(),
            Self::Of(definition) => (definition.cell)(line, exact),
            Self::Leaf(size) => match line.coverage.leaves.get(&size) {
                None if line.coverage.unknown > 0 && size < line.pmd => "?".to_owned(),
                here => bytes(here.copied().unwrap_or_default(), exact),
            },
        }
    }
}
