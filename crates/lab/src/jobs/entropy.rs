// SPDX-License-Identifier: GPL-2.0-only
//! Where programs and libraries come to lie: what alignment costs in
//! randomisation.

use crate::disk::Contents;
use crate::disk::userland::TEXTS;
use crate::job::{Job, MOUNT_POINT};
use crate::jobs::program::owned;
use crate::options::{Options, Setting};
use crate::profiles;
use crate::results::figures::Figures;
use crate::results::row::Row;
use crate::results::{BootResult, Comparison};
use anyhow::{Context, Result, ensure};
use wideleaf_guest::protocol::{EntropyCase, Outcome, Spread, Task};
use wideleaf_kbuild::{Arch, PageSize, Variant};
use wideleaf_kit::size::short;
use wideleaf_policy::Table;

/// How often each case is loaded unless told.
const LOADS: u32 = 1000;

/// log2 of the widest alignment that the policy may give.
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

/// The job.
#[derive(Debug)]
pub struct Entropy;

impl Job for Entropy {
    fn name(&self) -> String {
        "entropy".into()
    }

    fn about(&self) -> &'static str {
        "where programs, libraries and mappings come to lie over 1000 loads: bits that vary"
    }

    fn settings(&self) -> &'static [Setting] {
        &[Setting::Filesystem, Setting::Loads, Setting::ReadAhead]
    }

    fn defaults(&self, options: &mut Options) {
        options.loads = LOADS;
    }

    fn time_limit_s(&self) -> u32 {
        1200
    }

    fn check(&self, options: &Options, page_size: PageSize) -> Result<(), String> {
        options.check_window(page_size)
    }

    fn contents(&self, _: &Options) -> Option<Contents> {
        Some(Contents::Userland)
    }

    fn task(&self, options: &Options) -> Task {
        // The profile is of the guest's architecture.
        let x86 = profiles::fits(&options.profile, Arch::X86_64);
        Task::Entropy {
            root: MOUNT_POINT.into(),
            loads: options.loads,
            cases: cases(x86),
        }
    }

    /// The limits of the issue: nothing is lost where no wide leaf helps, and
    /// nowhere more than the step from the page to 2M. Compat tasks, which have
    /// little address space, get what they got before.
    fn agree(&self, comparison: &Comparison) -> Result<()> {
        let Comparison {
            arch, page_size, ..
        } = *comparison;
        let smallest = smallest_leaf(arch, page_size)
            .with_context(|| format!("the policy knows no leaves of {arch}, {page_size} pages"))?;
        for run in &comparison.runs {
            for spread in spreads(run) {
                let name = &spread.name;
                let limit = LIMITS.iter().find(|(start, _)| name.starts_with(start));
                ensure!(
                    limit.is_none_or(|(_, limit)| spread.max < *limit),
                    "{name}, {}: {:#x} is above its limit",
                    run.variant,
                    spread.max
                );
                let Some(before) = find(comparison, Variant::Pristine, name) else {
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

    fn figures(&self, run: &BootResult, figures: &mut Figures) {
        for spread in spreads(run) {
            let mut put = |what, unit, value| {
                figures.put(format!("{}.{what}", spread.name), unit, value);
            };
            put("varying_bits", "bits", spread.varying.count_ones().into());
            put("lowest_bit", "bits", lowest_bit(spread).into());
            put("distinct", "addresses", spread.distinct);
            put("lowest_address", "addresses", spread.min);
            put("span", "bytes", spread.max - spread.min);
        }
    }

    fn title(&self, comparison: &Comparison) -> String {
        let loads = comparison.options.loads;
        format!("randomisation over {loads} loads:")
    }

    fn rows(&self, comparison: &Comparison) -> Vec<Row> {
        let names: Vec<_> = comparison
            .runs
            .first()
            .map_or(&[][..], spreads)
            .iter()
            .map(|spread| spread.name.clone())
            .collect();
        names.iter().map(|name| row(comparison, name)).collect()
    }

    fn notes(&self, _: &Comparison) -> Vec<String> {
        vec![
            "  bits of the address that vary, and the alignment: 2 to the power of the lowest of them".into(),
            "  a bit that varies less often than once in these loads is not seen".into(),
        ]
    }
}

fn cases(x86: bool) -> Vec<EntropyCase> {
    let mut cases = Vec::new();
    let mut add = |name: String, command: String, folder: &str, word, persona| {
        cases.push(EntropyCase {
            name,
            command,
            env: owned(&[("LD_LIBRARY_PATH", &format!("/wideleaf/{folder}"))]),
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

/// The smallest leaf that is wider than a page, as the policy knows it.
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

fn spreads(run: &BootResult) -> &[Spread] {
    match &run.outcome {
        Outcome::Entropy { spreads } => spreads,
        _ => &[],
    }
}

fn find<'a>(comparison: &'a Comparison, variant: Variant, name: &str) -> Option<&'a Spread> {
    let run = comparison.run(variant)?;
    spreads(run).iter().find(|spread| spread.name == name)
}

fn row(comparison: &Comparison, name: &str) -> Row {
    let bits = |variant| find(comparison, variant, name).map(|s| s.varying.count_ones());
    let mut row = Row::text(comparison, "", name, |run| {
        let spread = spreads(run).iter().find(|spread| spread.name == name);
        spread.map_or("-".into(), cell)
    });
    let last = comparison.variants().last().copied();
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
    use crate::sample::{comparison, run};

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
    fn the_policy_knows_every_guests_leaves() {
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
            outcome: Outcome::Entropy {
                spreads: vec![spread],
            },
            ..run(variant, 1)
        }
    }

    #[test]
    fn alignment_has_limits() {
        let x86 = Comparison {
            arch: Arch::X86_64,
            page_size: PageSize::K4,
            ..comparison(1, 1)
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
            let said = Entropy.agree(&Comparison {
                runs,
                ..x86.clone()
            });
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
