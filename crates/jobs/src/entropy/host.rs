// SPDX-License-Identifier: GPL-2.0-only
//! What is asked, counted and shown; what alignment may cost.

use super::{Case, NAME, Report, Spread, Task};
use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};
use wideleaf_kbuild::{Arch, PageSize, Variant};
use wideleaf_kit::size::short;
use wideleaf_lab::disk::Contents;
use wideleaf_lab::disk::userland::TEXTS;
use wideleaf_lab::job::{Facts, Job, Measured, Run};
use wideleaf_lab::options::{Fs, ReadAhead};
use wideleaf_lab::plan::{Asked, MOUNT_POINT, Plan};
use wideleaf_lab::results::figures::{Figure, Figures, figure};
use wideleaf_lab::results::row::Row;
use wideleaf_policy::Table;

/// log2 of the widest alignment that the series may give.
const WIDEST_BIT: u32 = 21;

/// Which of the probes' words is about what: `crates/lab/userland/load.c` and
/// `compat.c`.
const INTERPRETER: usize = 1;
const TEXT: usize = 2;

/// personality(2): mmap from below, as it was before 2.6.8.
const ADDR_COMPAT_LAYOUT: u32 = 0x020_0000;

/// personality(2): a program of 32 bits gets 3G of addresses, not 4G.
const ADDR_LIMIT_3GB: u32 = 0x800_0000;

/// What the names of cases with compat tasks begin with.
const COMPAT: &str = "i386-";

/// Compat tasks: what is placed, what is run for it below `/wideleaf`, and the
/// word that tells.
const COMPAT_CASES: &[(&str, &str, usize)] = &[
    ("pie-4M", "i386/pie", TEXT),
    ("interpreter-4M", "i386/pie", INTERPRETER),
    ("static-pie-4M", "i386/static", TEXT),
    ("mmap-private", "i386/static /wideleaf/4M/libtext.so", TEXT),
];

/// Addresses end here for the cases whose names begin so; the first that fits.
const LIMITS: &[(&str, u64)] = &[
    ("mmap-MAP_32BIT", 2 << 30),
    ("i386-3G-", 3 << 30),
    (COMPAT, 4 << 30),
];

/// Mappings of 4M that the probe makes itself: section, label, letter.
const MAPPINGS: &[(&str, &str)] = &[
    ("private", "p"),
    ("shared", "s"),
    ("hint", "h"),
    ("MAP_FIXED", "f"),
];

/// Memory of 4M and a bit that it reserves, as ld.so does and as a heap does: case, letter.
const RESERVED: &[(&str, &str)] = &[("reserved", "r"), ("anonymous", "a")];

/// The job.
#[derive(Debug)]
pub struct Entropy;

/// The registry's entry.
pub const JOB: Entropy = Entropy;

/// What it takes.
#[derive(Args, Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Options {
    /// How often each program and library is loaded
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(2..))]
    pub loads: u32,
    /// The disk.
    #[command(flatten)]
    #[serde(flatten)]
    pub fs: Fs,
    /// The disk's window.
    #[command(flatten)]
    #[serde(flatten)]
    pub window: ReadAhead,
}

impl Job for Entropy {
    type Options = Options;
    type Report = Report;

    fn facts(&self) -> Facts {
        Facts {
            examples: &["entropy --base 7.3 --arch x86_64 --loads 200 --timeout 3600"],
            ..Facts::new(
                NAME,
                "where programs, libraries and mappings come to lie over 1000 loads: bits that vary",
            )
        }
    }

    fn plan(&self, asked: &Asked<'_, Options>) -> Result<Plan> {
        let own = asked.own;
        let task = Task {
            root: MOUNT_POINT.into(),
            loads: own.loads,
            cases: cases(asked.arch == Arch::X86_64),
        };
        let disk = own.fs.disk(Contents::Userland);
        Ok(Plan::new(&task, 1200).with_disk(own.window.of(disk, asked.page_size)?))
    }

    /// The limits of the issue: nothing is lost where no wide leaf helps, and
    /// nowhere more than the step from the page to 2M. Compat tasks, which have
    /// little address space, get what they got before.
    fn agree(&self, measured: &Measured<'_, Self>) -> Result<()> {
        let (arch, page_size) = (measured.arch, measured.page_size);
        let smallest = smallest_leaf(arch, page_size).with_context(|| {
            format!("the leaves of {arch} with {page_size} pages are not known")
        })?;
        for run in &measured.runs {
            for spread in &run.report.spreads {
                let name = &spread.name;
                let limit = LIMITS.iter().find(|(start, _)| name.starts_with(start));
                ensure!(
                    limit.is_none_or(|(_, limit)| spread.max < *limit),
                    "{name}, {}: {:#x} is above its limit",
                    run.variant,
                    spread.max
                );
                let Some(before) = find(measured, Variant::Pristine, name) else {
                    continue;
                };
                let (bit, old) = (lowest_bit(spread), lowest_bit(before));
                ensure!(
                    bit <= old.max(WIDEST_BIT),
                    "{name}, {}: aligned to 2^{bit}, more than 2M",
                    run.variant
                );
                ensure!(
                    bit == old || !name.starts_with(COMPAT),
                    "{name}, {}: aligned to 2^{bit} instead of 2^{old}, but compat tasks get what they got before",
                    run.variant
                );
                let helps = mapped_size(name).is_none_or(|size| size >= smallest);
                ensure!(
                    helps || bit <= old,
                    "{name}, {}: aligned to 2^{bit} instead of 2^{old}, and no leaf that it can hold is wider than a page",
                    run.variant
                );
            }
        }
        Ok(())
    }

    fn figures(&self) -> Vec<Figure> {
        let bits = "number of bits in which any two addresses differ";
        let lowest = "the number of the lowest of these bits, 0 if none varies";
        vec![
            figure("<case>.varying_bits", "bits", bits),
            figure("<case>.lowest_bit", "bits", lowest),
            figure("<case>.distinct", "addresses", "number of different ones"),
            figure("<case>.lowest_address", "addresses", "the lowest one"),
            figure("<case>.span", "bytes", "from there to the highest address"),
        ]
    }

    fn measure(&self, run: &Run<'_, Self>, figures: &mut Figures) {
        for spread in &run.report.spreads {
            let mut put = |what, value| figures.put(format!("{}.{what}", spread.name), value);
            put("varying_bits", spread.varying.count_ones().into());
            put("lowest_bit", lowest_bit(spread).into());
            put("distinct", spread.distinct);
            put("lowest_address", spread.min);
            put("span", spread.max - spread.min);
        }
    }

    fn title(&self, measured: &Measured<'_, Self>) -> String {
        format!("randomisation over {} loads:", measured.own.loads)
    }

    fn rows(&self, measured: &Measured<'_, Self>) -> Vec<Row> {
        let Some(first) = measured.runs.first() else {
            return Vec::new();
        };
        let spreads = first.report.spreads.iter();
        spreads.map(|spread| row(measured, &spread.name)).collect()
    }

    fn notes(&self, _: &Measured<'_, Self>) -> Vec<String> {
        vec![
            "  bits of the address that vary, and the alignment: 2 to the power of the lowest of them".into(),
            "  a bit that varies less often than once in these loads is not seen".into(),
        ]
    }
}

fn cases(x86: bool) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |name: String, command: String, folder: &str, word, persona| {
        cases.push(Case {
            name,
            command,
            env: [("LD_LIBRARY_PATH".into(), format!("/wideleaf/{folder}"))].into(),
            word,
            persona,
        });
    };
    for (size, _) in TEXTS {
        let command = format!("/wideleaf/{size}/libtext.so");
        add(format!("pie-{size}"), command, size, TEXT, 0);
    }
    let command = "/wideleaf/16K/libtext.so";
    add("interpreter".into(), command.into(), "16K", INTERPRETER, 0);
    for (loader, program) in [("glibc", "load"), ("musl", "load-musl")] {
        for (size, _) in TEXTS {
            let command = format!("/wideleaf/{program}");
            add(format!("{loader}-{size}"), command, size, TEXT, 0);
        }
    }
    let command = "/wideleaf/load";
    add(
        "legacy-layout-4M".into(),
        command.into(),
        "4M",
        TEXT,
        ADDR_COMPAT_LAYOUT,
    );
    let low = x86.then_some(&("MAP_32BIT", "l"));
    for (name, letter) in MAPPINGS.iter().chain(low) {
        let command = format!("/wideleaf/load {letter} /wideleaf/4M/libtext.so");
        add(format!("mmap-{name}"), command, "16K", TEXT, 0);
    }
    for (name, letter) in RESERVED {
        let command = format!("/wideleaf/load {letter}");
        add(format!("mmap-{name}"), command, "16K", TEXT, 0);
    }
    if x86 {
        for (limit, persona) in [("", 0), ("3G-", ADDR_LIMIT_3GB)] {
            for (what, command, word) in COMPAT_CASES {
                let name = format!("{COMPAT}{limit}{what}");
                add(name, format!("/wideleaf/{command}"), "4M", *word, persona);
            }
        }
    }
    cases
}

/// The size at the end of a case's name.
fn text_size(name: &str) -> Option<u64> {
    let (_, end) = name.rsplit_once('-')?;
    let (_, size) = TEXTS.iter().find(|(size, _)| *size == end)?;
    Some(*size)
}

/// What the loader maps of a case at once, as far as its name tells. musl reserves a library's
/// whole span from the file, and `mmap()` cannot know that only a part of it is text: where
/// segments are 64K apart, as on arm64, a library with 16K of text is a mapping of 128K.
fn mapped_size(name: &str) -> Option<u64> {
    let size = text_size(name)?;
    Some(match name.strip_prefix("musl-") {
        Some(_) => size.next_multiple_of(64 << 10) + (64 << 10),
        None => size,
    })
}

/// The smallest leaf that is wider than a page, as the series align knows it.
fn smallest_leaf(arch: Arch, page_size: PageSize) -> Option<u64> {
    let shift = page_size.bytes().trailing_zeros();
    let table = Table::find(arch.name(), shift.try_into().ok()?)?;
    table.leaves().get(1).map(|leaf| 1 << leaf.shift)
}

fn lowest_bit(spread: &Spread) -> u32 {
    match spread.varying {
        0 => 0,
        bits => bits.trailing_zeros(),
    }
}

fn find<'a>(
    measured: &'a Measured<'_, Entropy>,
    variant: Variant,
    name: &str,
) -> Option<&'a Spread> {
    let mut spreads = measured.run(variant)?.report.spreads.iter();
    spreads.find(|spread| spread.name == name)
}

fn row(measured: &Measured<'_, Entropy>, name: &str) -> Row {
    let bits = |variant| find(measured, variant, name).map(|s| s.varying.count_ones());
    let mut row = measured.row("", name, |run| {
        let spread = run.report.spreads.iter().find(|spread| spread.name == name);
        spread.map_or("-".into(), cell)
    });
    let last = measured.variants().last().copied();
    if let (Some(before), Some(after)) = (bits(Variant::Pristine), last.and_then(bits)) {
        let change = i64::from(after) - i64::from(before);
        row.change = match change {
            0 => "0".into(),
            _ => format!("{change:+}"),
        };
    }
    row
}

fn cell(spread: &Spread) -> String {
    match spread.varying {
        0 => format!("always {:#x}", spread.min),
        bits => format!(
            "{} bits, {}",
            bits.count_ones(),
            short(1 << bits.trailing_zeros())
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wideleaf_lab::job::AnyJob;
    use wideleaf_lab::results::{BootResult, Comparison};
    use wideleaf_lab::sample::{comparison_of, run};

    #[test]
    fn every_size_is_loaded_by_the_kernel_and_by_both_loaders() {
        let names: Vec<_> = cases(true).into_iter().map(|case| case.name).collect();
        for (size, bytes) in TEXTS {
            for kind in ["pie", "glibc", "musl"] {
                let name = format!("{kind}-{size}");
                assert!(names.contains(&name), "{name}");
                assert_eq!(text_size(&name), Some(bytes));
            }
        }
        assert_eq!(text_size("mmap-hint"), None);
        assert_eq!(mapped_size("glibc-16K"), Some(16 << 10));
        assert_eq!(mapped_size("musl-16K"), Some(128 << 10));
        assert_eq!(mapped_size("musl-1M"), Some((1 << 20) + (64 << 10)));
        // MAP_32BIT, and programs of 32 bits with two limits.
        assert_eq!(cases(false).len() + 1 + 2 * COMPAT_CASES.len(), names.len());
    }

    #[test]
    fn every_guests_leaves_are_known() {
        for &arch in Arch::ALL {
            for &page_size in arch.page_sizes() {
                let leaf = smallest_leaf(arch, page_size);
                let wanted = match (arch, page_size) {
                    (Arch::Arm64, PageSize::K4) => 64 << 10,
                    _ => 2 << 20,
                };
                assert_eq!(leaf, Some(wanted), "{arch} {page_size}");
            }
        }
    }

    fn of_bit(variant: Variant, name: &str, bit: u32) -> BootResult {
        let spread = Spread {
            name: name.into(),
            loads: 2,
            varying: 1 << bit,
            min: 0,
            max: 1 << bit,
            distinct: 2,
        };
        BootResult {
            outcome: serde_json::json!({ "spreads": [spread] }),
            ..run(variant, 1)
        }
    }

    #[test]
    fn alignment_has_limits() {
        let x86 = Comparison {
            arch: Arch::X86_64,
            page_size: PageSize::K4,
            ..comparison_of(&Entropy, Vec::new())
        };
        for (name, before, after, word) in [
            ("pie-4M", 12, 21, ""),
            ("pie-4M", 12, 22, "more than 2M"),
            ("pie-16K", 12, 21, "wider than a page"),
            ("mmap-private", 12, 21, ""),
            ("i386-pie-4M", 12, 12, ""),
            ("i386-pie-4M", 12, 21, "compat tasks"),
            ("i386-3G-mmap-private", 21, 12, "compat tasks"),
            ("mmap-MAP_32BIT", 31, 31, "above its limit"),
            ("i386-mmap-private", 31, 31, ""),
            ("i386-3G-mmap-private", 32, 32, "above its limit"),
        ] {
            let runs = vec![
                of_bit(Variant::Pristine, name, before),
                of_bit(Variant::Patched, name, after),
            ];
            let comparison = Comparison {
                runs,
                ..x86.clone()
            };
            let said = Entropy.look(&comparison).unwrap().agree();
            let said = said.map_or_else(|error| error.to_string(), |()| String::new());
            let right = said.contains(word) && said.is_empty() == word.is_empty();
            assert!(right, "{name}: {said}");
        }
    }

    #[test]
    fn a_cell_says_bits_and_alignment() {
        let mut spread = Spread {
            name: "x".into(),
            loads: 3,
            varying: 0b1011 << 16,
            min: 0x7000_0000,
            max: 0x700b_0000,
            distinct: 3,
        };
        assert_eq!(cell(&spread), "3 bits, 64K");
        spread.varying = 0;
        assert_eq!(cell(&spread), "always 0x70000000");
    }
}
