// SPDX-License-Identifier: GPL-2.0-only
//! Figures and rows of programs' runs, for the jobs program and services.

use crate::kit::text::REQUESTS;
use std::collections::{BTreeMap, BTreeSet};
use wideleaf_guest::kit::program::Worked;
use wideleaf_guest::kit::trace::Mapped;
use wideleaf_kit::size::short;
use wideleaf_lab::job::{Job, Measured, Run};
use wideleaf_lab::results::BootResult;
use wideleaf_lab::results::figures::{Figure, Figures, counted, figure};
use wideleaf_lab::results::row::{self, Row, shown};

/// Text below this is of no file that a wide leaf could map.
const SMALL: u64 = 64 << 10;

/// The figures of each program.
#[rustfmt::skip]
pub fn figures() -> Vec<Figure> {
    let cold = "cold faults (minor/major)";
    vec![
        figure("<program>.cold.minor_faults", "faults", "of its processes in a run from an empty page cache, without reading from the disk").row("", cold),
        figure("<program>.cold.major_faults", "faults", "with reading").row("", cold),
        figure("<program>.cold.faults", "faults", "both").plotted("faults, cold"),
        counted("<program>.cold.instructions").row("", "cold guest instructions").plotted("guest instructions, cold"),
        figure("<program>.cold.read_bytes", "bytes", "read from the guest's disk").row("", "cold bytes read from disk").plotted("bytes read, cold"),
        figure("<program>.cold.read_requests", "requests", REQUESTS).row("", "cold requests to the disk"),
        figure("<program>.cold.page_cache", "bytes", "by which the page cache grew").row("", "page cache, cold"),
        figure("<program>.warm.minor_faults", "faults", "of the run after that, without reading from the disk"),
        figure("<program>.warm.major_faults", "faults", "with reading"),
        figure("<program>.warm.faults", "faults", "both").row("", "warm faults"),
        figure("<program>.warm.read_bytes", "bytes", "read from the guest's disk"),
        counted("<program>.warm.instructions").row("", "warm guest instructions").plotted("guest instructions, warm"),
        counted("<program>.warm.itlb_l1_misses").row("", "warm L1 iTLB misses").plotted("L1 iTLB misses, warm"),
        counted("<program>.warm.walks").row("", "warm page walks").plotted("page walks, warm"),
        counted("<program>.warm.text_walks").row("", "warm page walks for text"),
        figure("<program>.page_tables", "bytes", "of page tables of the process that had most, at its end").row("", "page tables"),
        figure("<program>.<file>.text.<leaf>", "bytes", "of the file's executable mappings that leaves of this size map at the end, in all processes"),
    ]
}

/// The values of these figures for a program.
pub fn measure(run: &BootResult, worked: &Worked, figures: &mut Figures) {
    let name = &worked.name;
    for (phase, of) in [("cold", &worked.cold), ("warm", &worked.warm)] {
        let mut put = |what, value| figures.put(format!("{name}.{phase}.{what}"), value);
        put("minor_faults", of.minor_faults);
        put("major_faults", of.major_faults);
        put("faults", of.minor_faults + of.major_faults);
        put("read_bytes", of.read_bytes);
    }
    let requests = worked.cold.read_requests;
    figures.put(format!("{name}.cold.read_requests"), requests);
    figures.put(format!("{name}.cold.page_cache"), worked.cold.page_cache);
    figures.put(format!("{name}.page_tables"), worked.page_tables);
    for (file, text) in texts(run, worked) {
        figures.put_leaves(&format!("{name}.{file}.text"), &text.leaves);
    }
}

/// The rows of the program `name`, which `of` finds in a report.
pub fn rows<J: Job>(
    measured: &Measured<'_, J>,
    name: &str,
    of: impl Fn(&J::Report) -> Option<&Worked>,
) -> Vec<Row> {
    let figures = figures();
    let shown = shown(&figures).into_iter();
    let rows = shown.map(|shown| shown.of_case(measured, name, name, shown.label));
    rows.chain(text_rows(measured, name, of)).collect()
}

/// A warning if some of a program's text was not seen.
pub fn unseen(worked: &Worked) -> Option<String> {
    (worked.unseen > 0).then(|| {
        format!(
            "{}: the text of {} of {} processes was not seen: a signal ended them, or they were \
             too many",
            worked.name, worked.unseen, worked.processes
        )
    })
}

/// Why a program has no figures, if it failed, or wrote something else the second time.
pub fn failure(worked: &Worked) -> Option<String> {
    let (name, complaint) = (&worked.name, &worked.complaint);
    if !complaint.is_empty() {
        return Some(format!("{name} failed: {complaint}"));
    }
    let (cold, warm) = (&worked.cold.output, &worked.warm.output);
    (cold != warm).then(|| {
        let difference = difference(cold, warm);
        format!("{name} wrote something else the second time: {difference}")
    })
}

/// How two texts differ first: the lines, cut to what a message can hold.
pub fn difference(one: &str, other: &str) -> String {
    let cut = |line: Option<&str>| match line {
        Some(line) => format!("'{}'", line.chars().take(100).collect::<String>()),
        None => "nothing".into(),
    };
    let (mut one, mut other) = (one.lines(), other.lines());
    loop {
        match (one.next(), other.next()) {
            (None, None) => return "ends of lines".into(),
            (a, b) if a != b => return format!("{} and {}", cut(a), cut(b)),
            _ => {}
        }
    }
}

/// The leaves that map a file's text.
#[derive(Default)]
struct Text {
    leaves: BTreeMap<String, u64>,
    len: u64,
    /// Address less offset, of the first mapping.
    bias: u64,
}

/// By file, without those that are too small to matter.
fn texts(run: &BootResult, worked: &Worked) -> BTreeMap<String, Text> {
    let mut texts: BTreeMap<String, Text> = BTreeMap::new();
    for mapped in &worked.text {
        let Some(coverage) = run.coverage.iter().find(|c| c.id == mapped.id) else {
            continue;
        };
        let text = texts.entry(file_name(mapped)).or_insert_with(|| Text {
            bias: mapped.start - mapped.offset,
            ..Text::default()
        });
        text.add(coverage.len, &coverage.leaves);
    }
    texts.retain(|_, text| text.len >= SMALL);
    texts
}

impl Text {
    fn add(&mut self, len: u64, leaves: &BTreeMap<String, u64>) {
        self.len += len;
        for (leaf, bytes) in leaves {
            *self.leaves.entry(leaf.clone()).or_default() += bytes;
        }
    }

    fn is_wide(&self, page: &str) -> bool {
        let mut mapped = self.leaves.iter().filter(|(_, bytes)| **bytes > 0);
        mapped.any(|(leaf, _)| leaf != page && leaf != "unmapped")
    }

    fn shares(&self) -> String {
        row::shares(&self.leaves, self.len)
    }

    fn alignment(&self) -> u64 {
        1 << self.bias.trailing_zeros()
    }
}

fn file_name(mapped: &Mapped) -> String {
    let name = mapped.file.rsplit('/').next();
    name.unwrap_or(&mapped.file).to_string()
}

/// A row for each file that a kernel maps by a leaf wider than a page, and one for all others.
fn text_rows<J: Job>(
    measured: &Measured<'_, J>,
    name: &str,
    worked: impl Fn(&J::Report) -> Option<&Worked>,
) -> Vec<Row> {
    let of = |run: &Run<'_, J>| {
        let worked = worked(&run.report);
        worked.map_or_else(BTreeMap::new, |worked| texts(run, worked))
    };
    let all: Vec<_> = measured.runs.iter().map(of).collect();
    let (wide, narrow) = by_width(&all, &measured.page_size.to_string());
    let of_file = |file: &String| {
        let label = format!("text of {file}");
        measured.row(name, &label, |run| match of(run).get(file) {
            Some(text) => format!("{}; aligned {}", text.shares(), short(text.alignment())),
            None => "-".into(),
        })
    };
    let of_others = || {
        let label = match narrow.len() {
            1 => "text of 1 narrow file".into(),
            n => format!("text of {n} narrow files"),
        };
        measured.row(name, &label, |run| {
            let mut sum = Text::default();
            let texts = of(run).into_iter();
            let texts = texts.filter(|(file, _)| narrow.contains(file));
            texts.for_each(|(_, text)| sum.add(text.len, &text.leaves));
            sum.shares()
        })
    };
    let others = (!narrow.is_empty()).then(of_others);
    wide.iter().map(of_file).chain(others).collect()
}

/// The files of which a run maps something by a leaf wider than a page, and the others.
fn by_width(runs: &[BTreeMap<String, Text>], page: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    let wide = |file: &String| {
        let mut texts = runs.iter().filter_map(|texts| texts.get(file));
        texts.any(|text| text.is_wide(page))
    };
    let files = runs.iter().flat_map(|texts| texts.keys().cloned());
    files.partition(wide)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_no_kernel_maps_wide_are_one_row() {
        let text = |leaves: &[(&str, u64)]| {
            let mut text = Text::default();
            text.add(
                8 << 20,
                &leaves.iter().map(|(l, b)| ((*l).into(), *b)).collect(),
            );
            text
        };
        let run = |cc1: Text| {
            let narrow = text(&[("4K", 100), ("unmapped", 50), ("2M", 0)]);
            BTreeMap::from([("cc1".into(), cc1), ("libc.so.6".into(), narrow)])
        };
        let runs = [run(text(&[("4K", 100)])), run(text(&[("2M", 100)]))];
        let (wide, narrow) = by_width(&runs, "4K");
        assert_eq!(wide, BTreeSet::from(["cc1".into()]));
        assert_eq!(narrow, BTreeSet::from(["libc.so.6".into()]));
    }
}
