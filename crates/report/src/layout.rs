// SPDX-License-Identifier: GPL-2.0-only
//! How rows, columns and machines make a table.

use crate::cells::Cell;
use crate::compact::Row;
use std::collections::{BTreeMap, BTreeSet};

/// The machines in the order of tables: architecture and page size.
const MACHINES: [(&str, &str); 4] = [
    ("arm64", "4K"),
    ("arm64", "16K"),
    ("arm64", "64K"),
    ("x86_64", "4K"),
];

/// A head and what stands below it, or a label and what stands beside it.
pub type Column = (&'static str, Cell);

/// What the rows of a table are, one for each.
#[derive(Clone, Copy)]
pub enum Cases {
    /// The values of an option that takes a list.
    Asked(&'static str),
    /// What stands before a figure's name, as a size.
    Sizes(&'static str),
    /// The same, by name.
    Names(&'static str),
    /// These, with a label for each.
    These(&'static [(&'static str, &'static str)]),
}

/// A table, or one for each machine.
#[derive(Clone, Copy)]
pub enum Layout {
    /// From which commit and sources the rows of these sets are.
    Origins(fn(&str) -> bool),
    /// A row for each machine. The columns of several sets stand side by side.
    Machines(&'static [(&'static str, &'static [Column])]),
    /// A table for each machine of the set, with a row for each case.
    Cases(&'static str, &'static str, Cases, &'static [Column]),
    /// A row for each case, a column for each machine of the set whose base begins so.
    Grid {
        set: &'static str,
        base: &'static str,
        head: &'static str,
        /// An option that the first row shows.
        option: Option<&'static str>,
        cases: Cases,
        cells: &'static [Cell],
    },
}

impl Layout {
    /// The table as Markdown; empty if no row belongs to it.
    pub fn markdown(self, rows: &[Row]) -> String {
        match self {
            Self::Origins(of) => origins(rows, of),
            Self::Machines(sets) => machines(rows, sets),
            Self::Cases(set, head, cases, columns) => of(rows, set)
                .map(|row| titled(row) + &by_case(row, head, cases, columns))
                .collect(),
            Self::Grid {
                set,
                base,
                head,
                option,
                cases,
                cells,
            } => grid(rows, set, base, head, option, cases, cells),
        }
    }
}

impl Cases {
    /// Label and name of each case of a row.
    fn of(self, row: &Row) -> Vec<(String, String)> {
        let twice = |name: String| (name.clone(), name);
        match self {
            Self::These(cases) => cases
                .iter()
                .map(|(label, case)| (label.to_string(), case.to_string()))
                .collect(),
            Self::Asked(option) => {
                let asked = row.option(option).and_then(|asked| asked.as_array());
                let words = asked.into_iter().flatten().filter_map(|word| word.as_str());
                words.map(|word| twice(word.to_string())).collect()
            }
            Self::Names(figure) => before(row, figure).map(twice).collect(),
            Self::Sizes(figure) => {
                let mut sizes: Vec<_> = before(row, figure).collect();
                sizes.sort_by_key(|size| wideleaf_kit::size::parse(size).unwrap_or(u64::MAX));
                sizes.into_iter().map(twice).collect()
            }
        }
    }
}

/// What stands before `figure` in the names of a row's figures.
fn before(row: &Row, figure: &str) -> impl Iterator<Item = String> {
    let names = row.figures.keys();
    names.filter_map(move |name| Some(name.strip_suffix(figure)?.strip_suffix('.')?.to_string()))
}

/// The rows of a set, machine by machine.
fn of<'a>(rows: &'a [Row], set: &str) -> impl Iterator<Item = &'a Row> {
    let mut found: Vec<_> = rows.iter().filter(|row| row.set() == set).collect();
    found.sort_by_key(|row| (row.base.clone(), place(row)));
    found.into_iter()
}

fn place(row: &Row) -> usize {
    let of_row = (row.arch.as_str(), row.page_size.as_str());
    let place = MACHINES.iter().position(|machine| *machine == of_row);
    place.unwrap_or(MACHINES.len())
}

fn machines(rows: &[Row], sets: &[(&str, &[Column])]) -> String {
    let Some((first, _)) = sets.first() else {
        return String::new();
    };
    let body = of(rows, first).map(|row| {
        let mut cells = vec![row.title()];
        for (set, columns) in sets {
            let of_set = of(rows, set).find(|other| other.title() == row.title());
            let shown = |cell: &Cell| of_set.map_or_else(String::new, |row| cell.all(row, ""));
            cells.extend(columns.iter().map(|(_, cell)| shown(cell)));
        }
        cells
    });
    let heads = sets
        .iter()
        .flat_map(|(_, columns)| heads(columns))
        .collect();
    table("machine", heads, body)
}

fn by_case(row: &Row, head: &str, cases: Cases, columns: &[Column]) -> String {
    let body = cases.of(row).into_iter().map(|(label, case)| {
        let cells = columns.iter().map(|(_, cell)| cell.all(row, &case));
        std::iter::once(label).chain(cells).collect()
    });
    table(head, heads(columns), body)
}

fn grid(
    rows: &[Row],
    set: &str,
    base: &str,
    head: &str,
    option: Option<&str>,
    cases: Cases,
    cells: &[Cell],
) -> String {
    let rows: Vec<_> = of(rows, set)
        .filter(|row| row.base.starts_with(base))
        .collect();
    let mut all: Vec<(String, String)> = Vec::new();
    for case in rows.iter().flat_map(|row| cases.of(row)) {
        if !all.contains(&case) {
            all.push(case);
        }
    }
    let asked = option.map(|option| {
        let value = |row: &&Row| {
            row.option(option)
                .map_or_else(String::new, ToString::to_string)
        };
        let label = std::iter::once(option.to_string());
        label.chain(rows.iter().map(value)).collect()
    });
    let body = all.into_iter().map(|(label, case)| {
        let shown = |row: &&Row| {
            let shown: Vec<_> = cells.iter().map(|cell| cell.all(row, &case)).collect();
            shown.join(", ")
        };
        std::iter::once(label)
            .chain(rows.iter().map(shown))
            .collect()
    });
    // With one base, it need not be said in each head.
    let title = |row: &&Row| match base {
        "" => row.title(),
        base => row.title().replacen(&format!("{base}, "), "", 1),
    };
    table(
        head,
        rows.iter().map(title).collect(),
        asked.into_iter().chain(body),
    )
}

/// Rows that are of one commit, one day and one source stand together.
fn origins(rows: &[Row], of: fn(&str) -> bool) -> String {
    let mut groups: BTreeMap<[String; 5], Vec<&Row>> = BTreeMap::new();
    for row in rows.iter().filter(|row| of(row.set())) {
        let or = |text: &Option<String>, none: &str| text.as_deref().unwrap_or(none).to_string();
        let key = [
            row.base.clone(),
            or(&row.commit, "not known"),
            or(&row.date, "not known"),
            or(&row.source, "not known"),
            or(&row.qemu, "not known"),
        ];
        groups.entry(key).or_default().push(row);
    }
    let heads = ["commit", "taken on", "Debian's source", "QEMU", "rows"];
    let body = groups.iter().map(|(key, group)| {
        let [base, rest @ ..] = key;
        let mut cells = vec![base.clone()];
        cells.extend(rest.iter().cloned());
        cells.push(sets(rows, group));
        cells
    });
    table("base", heads.map(String::from).into(), body)
}

/// The sets of a group, and of which machines, if not of all that the base has rows of.
fn sets(rows: &[Row], group: &[&Row]) -> String {
    let names: BTreeSet<_> = group.iter().map(|row| row.set()).collect();
    let shown = names.into_iter().map(|set| {
        let base = &group[0].base;
        let all = of(rows, set).filter(|row| row.base == *base).count();
        let mut here: Vec<_> = group.iter().filter(|row| row.set() == set).collect();
        here.sort_by_key(|row| place(row));
        let machine = |row: &&&Row| row.title().replacen(&format!("{base}, "), "", 1);
        let machines: Vec<_> = here.iter().map(machine).collect();
        match machines.len() == all {
            true => set.to_string(),
            false => format!("{set} ({})", machines.join(", ")),
        }
    });
    shown.collect::<Vec<_>>().join(", ")
}

fn heads(columns: &[Column]) -> Vec<String> {
    columns.iter().map(|(head, _)| head.to_string()).collect()
}

/// What stands over the table of one machine: which, and its variants if a cell has several.
fn titled(row: &Row) -> String {
    match row.variants.len() {
        3 => format!("{}; {}:\n\n", row.title(), row.variants.join(" / ")),
        _ => format!("{}:\n\n", row.title()),
    }
}

/// A table as Markdown; empty without rows.
pub fn table(head: &str, heads: Vec<String>, rows: impl Iterator<Item = Vec<String>>) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let body: String = rows.map(|row| line(&row)).collect();
    if body.is_empty() {
        return body;
    }
    let head: Vec<_> = std::iter::once(head.to_string()).chain(heads).collect();
    let rule = format!("|{}\n", "---|".repeat(head.len()));
    line(&head) + &rule + &body + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cells::Show;
    use crate::sample::{count, source};
    use serde_json::json;

    fn row(name: &str) -> Row {
        let figures = json!({
            "2M.cold.faults": count(32, 1, 1),
            "64K.cold.faults": count(1, 1, 1),
            "128K.cold.faults": count(3, 1, 1),
        });
        let mut row = Row::of(name, &source(1, "exec", &figures).results, "", "c0ffee").unwrap();
        let mut words = name.split(['-', '.']);
        let machine = name.split_once('-').unwrap();
        row.base = machine.0.into();
        words.next_back();
        let parts: Vec<_> = machine.1.split(['-', '.']).collect();
        (row.arch, row.page_size) = (parts[0].into(), parts[1].into());
        row
    }

    const FAULTS: Cell = Cell::Each(&["*.cold.faults"], Show::Count);

    #[test]
    fn machines_stand_in_one_order_whatever_the_files_are_called() {
        let names = [
            "7.3-arm64-64K.s",
            "6.12-x86_64-4K.s",
            "6.12-arm64-16K.s",
            "6.12-arm64-4K.s",
        ];
        let rows: Vec<_> = names.map(row).into();
        let titles: Vec<_> = of(&rows, "s").map(Row::title).collect();
        let right = [
            "6.12, arm64 4K",
            "6.12, arm64 16K",
            "6.12, x86-64",
            "7.3, arm64 64K",
        ];
        assert_eq!(titles, right);
    }

    #[test]
    fn sizes_are_ordered_by_size() {
        let layout = Layout::Cases(
            "s",
            "mapping",
            Cases::Sizes("cold.faults"),
            &[("faults", FAULTS)],
        );
        let text = layout.markdown(&[row("7.3-arm64-4K.s")]);
        let right = "7.3, arm64 4K; pristine / reads / patched:\n\n\
                     | mapping | faults |\n|---|---|\n\
                     | 64K | 1 / 1 / 1 |\n| 128K | 3 / 1 / 1 |\n| 2M | 32 / 1 / 1 |\n\n";
        assert_eq!(text, right);
    }

    #[test]
    fn a_case_that_a_machine_lacks_is_blank_there() {
        let mut rows = [row("6.12-arm64-4K.s"), row("7.3-arm64-4K.s")];
        rows[0].figures.remove("2M.cold.faults");
        let layout = Layout::Grid {
            set: "s",
            base: "",
            head: "case",
            option: None,
            cases: Cases::Names("cold.faults"),
            cells: &[FAULTS],
        };
        let text = layout.markdown(&rows);
        assert!(text.contains("| 2M |  | 32 / 1 / 1 |"), "{text}");
    }

    #[test]
    fn rows_of_another_commit_stand_apart() {
        let mut rows = ["6.12-arm64-4K.s", "6.12-arm64-16K.s", "6.12-arm64-4K.t"].map(row);
        rows[1].commit = Some("decaf".into());
        let text = Layout::Origins(|_| true).markdown(&rows);
        assert!(text.contains("| 10 | s (arm64 4K), t |"), "{text}");
        assert!(
            text.contains("| decaf | 1970-01-02 | 7.3.4-1 | 10 | s (arm64 16K) |"),
            "{text}"
        );
    }
}
