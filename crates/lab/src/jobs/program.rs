// SPDX-License-Identifier: GPL-2.0-only
//! Real programs of a Debian user land, under the real loaders.

use crate::disk::Contents;
use crate::job::{Job, MOUNT_POINT};
use crate::jobs::exec;
use crate::options::{Options, Setting};
use crate::results::figures::Figures;
use crate::results::row::{self, Row};
use crate::results::{BootResult, Comparison};
use anyhow::{Result, bail, ensure};
use std::collections::{BTreeMap, BTreeSet};
use wideleaf_guest::protocol::{Mapped, Outcome, Program, ProgramReport, Task};
use wideleaf_kbuild::PageSize;
use wideleaf_kit::size::short;
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

/// The table's rows for each program: section, figure, and its figures.
const ROWS: &[(&str, &str, &[&str])] = &[
    (
        "cold",
        "faults (minor/major)",
        &["minor_faults", "major_faults"],
    ),
    ("cold", "guest instructions", &["instructions"]),
    ("cold", "bytes read from disk", &["read_bytes"]),
    ("warm", "faults", &["faults"]),
    ("warm", "guest instructions", &["instructions"]),
    ("warm", "L1 iTLB misses", &["itlb_l1_misses"]),
    ("warm", "page walks", &["walks"]),
    ("warm", "page walks for text", &["text_walks"]),
];

/// The job.
#[derive(Debug)]
pub struct Programs;

impl Job for Programs {
    fn name(&self) -> String {
        "program".into()
    }

    fn about(&self) -> &'static str {
        "perl, python and openssl of Debian under the real ld.so, and a library under musl's: \
         faults, instructions, bytes read, TLB misses, page walks, leaves by file"
    }

    fn counts(&self) -> bool {
        true
    }

    fn settings(&self) -> &'static [Setting] {
        &[
            Setting::Filesystem,
            Setting::Programs,
            Setting::Align,
            Setting::MemoryLimit,
            Setting::FreeMemory,
            Setting::Fragmented,
            Setting::ReadAhead,
        ]
    }

    fn time_limit_s(&self) -> u32 {
        600
    }

    fn check(&self, options: &Options, page_size: PageSize) -> Result<(), String> {
        for name in &options.programs {
            if !PROGRAMS.iter().any(|(known, ..)| known == name) {
                let known: Vec<_> = PROGRAMS.iter().map(|(name, ..)| *name).collect();
                return Err(format!("--programs {name}: known are {}", known.join(", ")));
            }
        }
        options.check_window(page_size)
    }

    fn contents(&self, _: &Options) -> Option<Contents> {
        Some(Contents::Userland)
    }

    fn task(&self, options: &Options) -> Task {
        let asked = |name: &str| {
            options.programs.is_empty() || options.programs.iter().any(|asked| asked == name)
        };
        let program = |(name, env, commands): &Known| Program {
            name: (*name).into(),
            env: owned(env),
            commands: commands.iter().map(ToString::to_string).collect(),
        };
        Task::Programs {
            root: MOUNT_POINT.into(),
            programs: PROGRAMS
                .iter()
                .filter(|(name, ..)| asked(name))
                .map(program)
                .collect(),
        }
    }

    fn judge(&self, outcome: &Outcome) -> Result<()> {
        for report in reports(outcome) {
            let ProgramReport {
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

    fn agree(&self, comparison: &Comparison) -> Result<()> {
        let Some((first, others)) = comparison.runs.split_first() else {
            return Ok(());
        };
        for run in others {
            let pairs = reports(&first.outcome).iter().zip(reports(&run.outcome));
            for (one, other) in pairs {
                if one.cold.output != other.cold.output {
                    let (a, b) = (first.variant, run.variant);
                    bail!("{} wrote something else in {a} and in {b}", one.name);
                }
            }
        }
        Ok(())
    }

    fn figures(&self, run: &BootResult, figures: &mut Figures) {
        for report in reports(&run.outcome) {
            for (phase, of) in [("cold", &report.cold), ("warm", &report.warm)] {
                let mut put = |what, unit, value| {
                    figures.put(format!("{}.{phase}.{what}", report.name), unit, value);
                };
                put("minor_faults", "faults", of.minor_faults);
                put("major_faults", "faults", of.major_faults);
                put("faults", "faults", of.minor_faults + of.major_faults);
                put("read_bytes", "bytes", of.read_bytes);
            }
            for (file, text) in texts(run, report) {
                figures.put_leaves(&format!("{}.{file}.text", report.name), &text.leaves);
            }
        }
    }

    fn is_headline(&self, figure: &str) -> bool {
        let mut parts = figure.splitn(3, '.');
        let (_, section, name) = (parts.next(), parts.next(), parts.next());
        ROWS.iter()
            .any(|(of, _, names)| section == Some(of) && name.is_some_and(|n| names.contains(&n)))
    }

    fn title(&self, comparison: &Comparison) -> String {
        let options = &comparison.options;
        let aligned = if options.aligned { "aligned " } else { "" };
        let filesystem = options.filesystem.title();
        format!("{aligned}programs of Debian 13 on {filesystem},")
    }

    fn rows(&self, comparison: &Comparison) -> Vec<Row> {
        let Some(run) = comparison.runs.first() else {
            return Vec::new();
        };
        let of_program = |report: &ProgramReport| {
            let name = report.name.clone();
            let figures = ROWS.iter().map(move |(section, label, figures)| {
                let figures: Vec<_> = figures
                    .iter()
                    .map(|figure| format!("{name}.{section}.{figure}"))
                    .collect();
                Row::figures(comparison, &name, &format!("{section} {label}"), &figures)
            });
            figures
                .chain(text_rows(comparison, report))
                .collect::<Vec<_>>()
        };
        reports(&run.outcome).iter().flat_map(of_program).collect()
    }

    fn notes(&self, comparison: &Comparison) -> Vec<String> {
        let mut notes = vec![
            format!("  readahead window {}", short(comparison.options.window())),
            "  text: of a third run of each last command, at its exit; aligned: the widest power of two \
             that divides address - offset"
                .into(),
        ];
        notes.extend(exec::no_large_folios(comparison));
        notes
    }
}

/// An environment as the protocol has it.
pub fn owned(env: &[(&str, &str)]) -> BTreeMap<String, String> {
    let pair = |(name, value): &(&str, &str)| (name.to_string(), value.to_string());
    env.iter().map(pair).collect()
}

fn reports(outcome: &Outcome) -> &[ProgramReport] {
    match outcome {
        Outcome::Programs { programs } => programs,
        _ => &[],
    }
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
fn texts(run: &BootResult, report: &ProgramReport) -> BTreeMap<String, Text> {
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

fn text_rows(comparison: &Comparison, report: &ProgramReport) -> Vec<Row> {
    let names: BTreeSet<String> = report
        .text
        .iter()
        .filter(|mapped| mapped.len >= SMALL)
        .map(file_name)
        .collect();
    let row = |file: &String| {
        let label = format!("text of {file}");
        Row::text(comparison, &report.name, &label, |run| {
            let of_run = reports(&run.outcome).iter().find(|r| r.name == report.name);
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
    use crate::job::usual;
    use wideleaf_kbuild::Arch;

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
        assert!(Programs.is_headline("stubs-musl.warm.walks"));
        assert!(!Programs.is_headline("perl.warm.kernel_instructions"));
        assert!(!Programs.is_headline("perl.libc.so.6.text.64K"));
    }

    #[test]
    fn an_unknown_program_is_refused_with_the_known() {
        let mut options = usual(&Programs, Arch::Arm64);
        options.programs = vec!["ruby".into()];
        let error = Programs.check(&options, PageSize::K64).unwrap_err();
        assert!(error.contains("ruby") && error.contains("perl"), "{error}");
    }
}
