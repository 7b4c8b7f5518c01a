// SPDX-License-Identifier: GPL-2.0-only
//! What is asked, counted and shown.

use super::{NAME, Program, Report, Task, Worked};
use crate::kit::text::no_large_folios;
use anyhow::{Result, bail, ensure};
use clap::Args;
use clap::builder::PossibleValuesParser;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use wideleaf_guest::kit::trace::Mapped;
use wideleaf_kit::size::short;
use wideleaf_lab::disk::Contents;
use wideleaf_lab::job::{Facts, Job, Measured, Run};
use wideleaf_lab::options::{Fs, ReadAhead, Scarce};
use wideleaf_lab::plan::{Asked, Disk, MOUNT_POINT, Plan};
use wideleaf_lab::results::BootResult;
use wideleaf_lab::results::figures::{Figure, Figures, counted, figure};
use wideleaf_lab::results::row::{self, Row, shown};
use wideleaf_tlb::report::Coverage;

/// Text below this is of no file that a wide leaf could map.
const SMALL: u64 = 64 << 10;

/// A program: name, environment, commands.
type Known = (
    &'static str,
    &'static [(&'static str, &'static str)],
    &'static [&'static str],
);

/// Of openssl, what reaches into many corners of libcrypto and gives the same
/// each time.
const OPENSSL: &[&str] = &[
    "/usr/bin/openssl dgst -sha3-512 /usr/bin/perl",
    "/usr/bin/openssl dgst -blake2b512 /usr/bin/perl",
    "/usr/bin/openssl enc -camellia-256-ctr -K 0123456789abcdef -iv 01 -a -in /wideleaf/work.pl",
    "/usr/bin/openssl prime -hex D187C83E48D48BB4BD7CD8FF75B0BBFF9A9F5F4EFBF5",
    "/usr/bin/openssl ecparam -name secp384r1 -param_enc explicit -text -check",
    "/usr/bin/openssl kdf -keylen 32 -kdfopt pass:wide -kdfopt salt:leaf -kdfopt iter:1000 -kdfopt digest:SHA512 PBKDF2",
    "/usr/bin/openssl ciphers -v",
    "/usr/bin/openssl list -all-algorithms",
];

const PROGRAMS: &[Known] = &[
    (
        "perl",
        &[("PERL_HASH_SEED", "0")],
        &["/usr/bin/perl /wideleaf/work.pl"],
    ),
    (
        "python",
        &[("PYTHONHASHSEED", "0")],
        &["/usr/bin/python3.13 -S -B /wideleaf/work.py"],
    ),
    ("openssl", &[], OPENSSL),
    (
        "openssl-shifted",
        &[("LD_LIBRARY_PATH", "/wideleaf/shifted")],
        OPENSSL,
    ),
    (
        "stubs-glibc",
        &[("LD_LIBRARY_PATH", "/wideleaf/4M")],
        &["/wideleaf/load w 1024"],
    ),
    (
        "stubs-musl",
        &[("LD_LIBRARY_PATH", "/wideleaf/4M")],
        &["/wideleaf/load-musl w 1024"],
    ),
];

/// The job.
#[derive(Debug)]
pub struct Programs;

/// The registry's entry.
pub const JOB: Programs = Programs;

/// What it takes.
#[derive(Args, Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Options {
    /// Programs, with commas between [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = PossibleValuesParser::new(PROGRAMS.iter().map(|(name, ..)| *name)))]
    pub programs: Vec<String>,
    /// Give programs and libraries to 'wideleaf align' before they are put on the
    /// disk
    #[arg(long)]
    pub align: bool,
    /// The disk.
    #[command(flatten)]
    #[serde(flatten)]
    pub fs: Fs,
    /// The disk's window.
    #[command(flatten)]
    #[serde(flatten)]
    pub window: ReadAhead,
    /// Its memory.
    #[command(flatten)]
    #[serde(flatten)]
    pub scarce: Scarce,
}

impl Job for Programs {
    type Options = Options;
    type Report = Report;

    fn facts(&self) -> Facts {
        Facts {
            counts: true,
            examples: &[
                "program --base 7.3",
                "program --programs openssl-shifted --page-size 16K --align",
            ],
            ..Facts::new(
                NAME,
                "perl, python and openssl of Debian under the real ld.so, and a library under musl's: \
                 faults, instructions, bytes read, TLB misses, page walks, leaves by file",
            )
        }
    }

    fn plan(&self, asked: &Asked<'_, Options>) -> Result<Plan> {
        let own = asked.own;
        let asked_for =
            |name: &str| own.programs.is_empty() || own.programs.iter().any(|asked| asked == name);
        let program = |(name, env, commands): &Known| Program {
            name: (*name).into(),
            env: owned(env),
            commands: commands.iter().map(ToString::to_string).collect(),
        };
        let known = PROGRAMS.iter().filter(|(name, ..)| asked_for(name));
        let task = Task {
            root: MOUNT_POINT.into(),
            programs: known.map(program).collect(),
        };
        let disk = Disk {
            aligned: own.align,
            ..own.fs.disk(Contents::Userland)
        };
        let plan = Plan {
            pressure: own.scarce.pressure(),
            ..Plan::new(&task, 600)
        };
        Ok(plan.with_disk(own.window.of(disk, asked.page_size)?))
    }

    fn judge(&self, report: &Report) -> Result<()> {
        for report in &report.programs {
            let Worked {
                name, complaint, ..
            } = report;
            for status in report.cold.status.iter().chain(&report.warm.status) {
                ensure!(*status == 0, "{name} failed ({status:#x}): {complaint}");
            }
            ensure!(
                report.cold.output == report.warm.output,
                "{name} wrote something else the second time"
            );
        }
        Ok(())
    }

    fn agree(&self, measured: &Measured<'_, Self>) -> Result<()> {
        let Some((first, others)) = measured.runs.split_first() else {
            return Ok(());
        };
        for run in others {
            let pairs = first.report.programs.iter().zip(&run.report.programs);
            for (one, other) in pairs {
                if one.cold.output != other.cold.output {
                    let (a, b) = (first.variant, run.variant);
                    bail!("{} wrote something else in {a} and in {b}", one.name);
                }
            }
        }
        Ok(())
    }

    #[rustfmt::skip]
    fn figures(&self) -> Vec<Figure> {
        let cold = "cold faults (minor/major)";
        vec![
            figure("<program>.cold.minor_faults", "faults", "of its processes in a run from an empty page cache, without reading from the disk").row("", cold),
            figure("<program>.cold.major_faults", "faults", "with reading").row("", cold),
            figure("<program>.cold.faults", "faults", "both").plotted("faults, cold"),
            counted("<program>.cold.instructions").row("", "cold guest instructions").plotted("guest instructions, cold"),
            figure("<program>.cold.read_bytes", "bytes", "read from the guest's disk").row("", "cold bytes read from disk").plotted("bytes read, cold"),
            figure("<program>.warm.minor_faults", "faults", "of the run after that, without reading from the disk"),
            figure("<program>.warm.major_faults", "faults", "with reading"),
            figure("<program>.warm.faults", "faults", "both").row("", "warm faults"),
            figure("<program>.warm.read_bytes", "bytes", "read from the guest's disk"),
            counted("<program>.warm.instructions").row("", "warm guest instructions").plotted("guest instructions, warm"),
            counted("<program>.warm.itlb_l1_misses").row("", "warm L1 iTLB misses").plotted("L1 iTLB misses, warm"),
            counted("<program>.warm.walks").row("", "warm page walks").plotted("page walks, warm"),
            counted("<program>.warm.text_walks").row("", "warm page walks for text"),
            figure("<program>.<file>.text.<leaf>", "bytes", "of the file's executable mappings that leaves of this size map at the end"),
        ]
    }

    fn measure(&self, run: &Run<'_, Self>, figures: &mut Figures) {
        for report in &run.report.programs {
            for (phase, of) in [("cold", &report.cold), ("warm", &report.warm)] {
                let mut put = |what, value| {
                    figures.put(format!("{}.{phase}.{what}", report.name), value);
                };
                put("minor_faults", of.minor_faults);
                put("major_faults", of.major_faults);
                put("faults", of.minor_faults + of.major_faults);
                put("read_bytes", of.read_bytes);
            }
            for (file, text) in texts(run, report) {
                figures.put_leaves(&format!("{}.{file}.text", report.name), &text.leaves);
            }
        }
    }

    fn title(&self, measured: &Measured<'_, Self>) -> String {
        let own = &measured.own;
        let aligned = if own.align { "aligned " } else { "" };
        format!("{aligned}programs of Debian 13 on {},", own.fs.fs.title())
    }

    fn rows(&self, measured: &Measured<'_, Self>) -> Vec<Row> {
        let Some(run) = measured.runs.first() else {
            return Vec::new();
        };
        let mut rows = Vec::new();
        for report in &run.report.programs {
            let name = &report.name;
            let figures = self.figures();
            let shown = shown(&figures).into_iter();
            rows.extend(shown.map(|shown| shown.of_case(measured, name, name, shown.label)));
            rows.extend(text_rows(measured, report));
        }
        rows
    }

    fn notes(&self, measured: &Measured<'_, Self>) -> Vec<String> {
        let own = &measured.own;
        let mut notes = vec![
            format!("  readahead window {}", short(own.window.read_ahead)),
            "  text: of a third run of each last command, at its exit; aligned: the widest power of two \
             that divides address - offset"
                .into(),
        ];
        notes.extend(no_large_folios(own.fs.fs, measured.base));
        notes
    }
}

/// An environment as the guest reads it.
fn owned(env: &[(&str, &str)]) -> BTreeMap<String, String> {
    let pair = |(name, value): &(&str, &str)| (name.to_string(), value.to_string());
    env.iter().map(pair).collect()
}

/// What maps a file's text.
#[derive(Default)]
struct Text {
    leaves: BTreeMap<String, u64>,
    len: u64,
    /// Address less offset, of the first mapping.
    bias: u64,
}

/// By file, without those that are too small to matter.
fn texts(run: &BootResult, report: &Worked) -> BTreeMap<String, Text> {
    let mut texts: BTreeMap<String, Text> = BTreeMap::new();
    for mapped in &report.text {
        let Some(coverage) = run.coverage.iter().find(|c| c.id == mapped.id) else {
            continue;
        };
        let text = texts.entry(file_name(mapped)).or_insert_with(|| Text {
            bias: mapped.start - mapped.offset,
            ..Text::default()
        });
        text.add(coverage);
    }
    texts.retain(|_, text| text.len >= SMALL);
    texts
}

impl Text {
    fn add(&mut self, coverage: &Coverage) {
        self.len += coverage.len;
        for (leaf, bytes) in &coverage.leaves {
            *self.leaves.entry(leaf.clone()).or_default() += bytes;
        }
    }

    fn alignment(&self) -> u64 {
        1 << self.bias.trailing_zeros()
    }
}

fn file_name(mapped: &Mapped) -> String {
    let name = mapped.file.rsplit('/').next();
    name.unwrap_or(&mapped.file).to_string()
}

fn text_rows(measured: &Measured<'_, Programs>, report: &Worked) -> Vec<Row> {
    let names: BTreeSet<String> = report
        .text
        .iter()
        .filter(|mapped| mapped.len >= SMALL)
        .map(file_name)
        .collect();
    let row = |file: &String| {
        let label = format!("text of {file}");
        measured.row(&report.name, &label, |run| {
            let mut programs = run.report.programs.iter();
            let of_run = programs.find(|known| known.name == report.name);
            let mut texts = of_run.map_or_else(BTreeMap::new, |report| texts(run, report));
            let Some(text) = texts.remove(file) else {
                return "-".into();
            };
            let leaves = row::shares(&text.leaves, text.len);
            format!("{leaves}; aligned {}", short(text.alignment()))
        })
    };
    names.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use wideleaf_lab::job::AnyJob;

    #[test]
    fn commands_are_words() {
        for (name, _, commands) in PROGRAMS {
            for command in *commands {
                assert!(command.starts_with('/'), "{name}: {command}");
                assert!(!command.contains(['\'', '"']), "{name}: {command}");
            }
        }
    }

    #[test]
    fn the_tables_figures_are_headlines() {
        let job: &dyn AnyJob = &Programs;
        assert!(job.is_headline("stubs-musl.warm.walks"));
        assert!(!job.is_headline("perl.warm.kernel_instructions"));
        assert!(!job.is_headline("perl.libc.so.6.text.64K"));
    }
}
