// SPDX-License-Identifier: GPL-2.0-only
//! The options, the figures and the table; what alignment may cost.

use super::{Case, NAME, Report, Spread, Task};
use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};
use wideleaf_kbuild::{Arch, PageSize, Variant};
use wideleaf_kit::size::short;
use wideleaf_lab::common::CpuModel;
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

/// From so few loads on, random bits are right to a fifth of one.
const ENOUGH: u32 = 20;

/// Which of the probes' words is about what: `crates/lab/userland/load.c` and
/// `compat.c`.
const INTERPRETER: usize = 1;
const TEXT: usize = 2;
const BRK: usize = 3;
const STACK: usize = 4;

/// The names of cases with programs that the kernel places begin so.
const PROGRAM: &str = "pie-";

/// Where the heap and the stack of the program with 4M of text begin.
const HEAP: &str = "brk";
const TOP: &str = "stack";

/// The case that lies below programs, not above them.
const LEGACY: &str = "legacy-layout-4M";

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
const RESERVED: &[(&str, &str)] = &[("mmap-reserved", "r"), ("mmap-anonymous", "a")];

/// The job.
#[derive(Debug)]
pub struct Entropy;

/// The registry's entry.
pub const JOB: Entropy = Entropy;

/// The options.
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
                "random bits of where programs and libraries come to lie",
            )
        }
    }

    fn plan(&self, asked: &Asked<'_, Options>) -> Result<Plan> {
        let own = asked.own;
        let task = Task {
            root: MOUNT_POINT.into(),
            random_bits: default_bits(asked.arch, asked.page_size),
            loads: own.loads,
            cases: cases(asked.arch == Arch::X86_64),
        };
        let disk = own.fs.disk(Contents::Userland);
        Ok(Plan::new(&task, 1200).with_disk(own.window.of(disk, asked.page_size)?))
    }

    /// No case has fewer random bits than pristine but programs with a block of 2M on x86-64, and
    /// what is aligned to 32K on Zen. None is aligned where no wide leaf helps or to more than 2M,
    /// and the areas of a process stay apart. Compat tasks, which have little address space, get
    /// what they got before.
    fn agree(&self, measured: &Measured<'_, Self>) -> Result<()> {
        let (arch, page_size) = (measured.arch, measured.page_size);
        let zen = measured.common.cpu_model == CpuModel::Zen;
        let smallest = match zen {
            true => Some(ZEN_GROUP),
            false => smallest_leaf(arch, page_size),
        };
        let smallest = smallest.with_context(|| {
            format!("the leaves of {arch} with {page_size} pages are not known")
        })?;
        for run in &measured.runs {
            apart(&run.report.spreads).with_context(|| run.variant.to_string())?;
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
                let (random, had) = (random_bits(spread), random_bits(before));
                let least = had.saturating_sub(lost(arch, zen, name));
                ensure!(
                    random >= least || spread.loads < ENOUGH,
                    "{name}, {}: {random} random bits of {had}, less than {least}",
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
        let bits = "log2 of the number of places of its alignment from the lowest to the highest address, rounded";
        let lowest =
            "the number of the lowest bit that varies, 0 if none does: log2 of the alignment";
        vec![
            figure("<case>.random_bits", "bits", bits),
            figure("<case>.lowest_bit", "bits", lowest),
            figure("<case>.distinct", "addresses", "number of different ones"),
            figure("<case>.lowest_address", "addresses", "the lowest one"),
            figure("<case>.span", "bytes", "from there to the highest address"),
        ]
    }

    fn measure(&self, run: &Run<'_, Self>, figures: &mut Figures) {
        for spread in &run.report.spreads {
            let mut put = |what, value| figures.put(format!("{}.{what}", spread.name), value);
            put("random_bits", random_bits(spread).into());
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
            "  random bits: log2 of the places from the lowest to the highest address; and the alignment".into(),
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
    for (name, word) in [(HEAP, BRK), (TOP, STACK)] {
        let command = "/wideleaf/4M/libtext.so";
        add(name.into(), command.into(), "4M", word, 0);
    }
    for (loader, program) in [("glibc", "load"), ("musl", "load-musl")] {
        for (size, _) in TEXTS {
            let command = format!("/wideleaf/{program}");
            add(format!("{loader}-{size}"), command, size, TEXT, 0);
        }
    }
    let command = "/wideleaf/load";
    add(
        LEGACY.into(),
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
        add((*name).into(), command, "16K", TEXT, 0);
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

/// The default of vm.mmap_rnd_bits: CONFIG_ARCH_MMAP_RND_BITS_MIN of the architectures' Kconfig.
/// A kernel has another one if its configuration was made for smaller pages first.
fn default_bits(arch: Arch, page_size: PageSize) -> u32 {
    match (arch, page_size) {
        (Arch::X86_64, _) => 28,
        (Arch::Arm64, PageSize::K4) => 18,
        (Arch::Arm64, PageSize::K16) => 16,
        (Arch::Arm64, PageSize::K64) => 14,
    }
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

/// Bytes of pages that Zen may hold as one TLB entry, as the series reads knows it.
const ZEN_GROUP: u64 = 32 << 10;

/// The smallest leaf that is wider than a page, as the series align knows it.
fn smallest_leaf(arch: Arch, page_size: PageSize) -> Option<u64> {
    let shift = page_size.bytes().trailing_zeros();
    let table = Table::find(arch.name(), shift.try_into().ok()?)?;
    table.leaves().get(1).map(|leaf| 1 << leaf.shift)
}

/// How many bits of an address are drawn at random: log2 of the number of places that it can
/// take. Bits that vary are more than that, for a sum carries into higher ones. `n` numbers drawn
/// from a range span `(n - 1) / (n + 1)` of it on average. Of a sum of two draws it is an upper
/// bound.
fn random_bits(spread: &Spread) -> u32 {
    let loads = f64::from(spread.loads);
    let step = (1_u64 << lowest_bit(spread)) as f64;
    let span = (spread.max - spread.min) as f64 * (loads + 1.0) / (loads - 1.0);
    (span / step + 1.0).log2().round() as u32
}

/// How many random bits a case may lose. On x86-64 a program that is aligned to 2M loses nine, and
/// two come back as higher ones: more would leave the range that ThreadSanitizer's runtime has
/// for programs. So does memory that ld.so reserves: there it does so only for a library that asks
/// for more than a page itself, and aligns that to 2M anyway. On Zen an alignment to 32K takes three
/// of all others, and gives back two.
fn lost(arch: Arch, zen: bool, name: &str) -> u32 {
    let holds_leaf = text_size(name).is_some_and(|size| size >= 1 << WIDEST_BIT);
    let is_program = name.starts_with(PROGRAM) && holds_leaf;
    match arch {
        Arch::X86_64 if is_program || name == RESERVED[0].0 => 7,
        Arch::X86_64 if zen => 1,
        _ => 0,
    }
}

/// Whether programs and their heaps lie below all that `mmap()` places, and that below all stacks.
fn apart(spreads: &[Spread]) -> Result<()> {
    let mut areas = [(u64::MAX, 0); 3];
    for spread in spreads {
        let name = spread.name.as_str();
        let area = match name {
            HEAP => 0,
            TOP => 2,
            LEGACY | "mmap-hint" | "mmap-MAP_FIXED" | "mmap-MAP_32BIT" => continue,
            _ if name.starts_with(COMPAT) => continue,
            _ if name.starts_with(PROGRAM) => 0,
            _ => 1,
        };
        let (low, high) = areas[area];
        areas[area] = (low.min(spread.min), high.max(spread.max));
    }
    let names = ["programs and heaps", "mappings", "stacks"];
    for (lower, upper) in [(0, 1), (1, 2)] {
        let (end, start) = (areas[lower].1, areas[upper].0);
        ensure!(
            end < start,
            "{} reach {end:#x}, and {} begin at {start:#x}",
            names[lower],
            names[upper]
        );
    }
    Ok(())
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
    let bits = |variant| find(measured, variant, name).map(random_bits);
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
        _ => format!(
            "{} bits, {}",
            random_bits(spread),
            short(1 << lowest_bit(spread))
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wideleaf_lab::common::Common;
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
            min: 1,
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

    fn spread(name: &str, places: std::ops::Range<u64>, step: u64) -> Spread {
        Spread {
            name: name.into(),
            loads: 200,
            varying: step,
            min: places.start * step,
            max: (places.end - 1) * step,
            distinct: 200,
        }
    }

    #[test]
    fn a_carry_is_no_random_bit() {
        // 2^18 places of 64K from one that is no power of two: 20 bits vary.
        assert_eq!(random_bits(&spread("x", 0x3_5555..0x7_5555, 1 << 16)), 18);
        assert_eq!(random_bits(&spread("x", 5..6, 0)), 0);
    }

    #[test]
    fn random_bits_may_be_lost_by_programs_on_x86_alone() {
        for (arch, page_size, name, shift, word) in [
            (Arch::Arm64, PageSize::K64, "pie-4M", 18, ""),
            (
                Arch::Arm64,
                PageSize::K64,
                "pie-4M",
                17,
                "17 random bits of 18",
            ),
            (Arch::X86_64, PageSize::K4, "pie-4M", 11, ""),
            (Arch::X86_64, PageSize::K4, "pie-4M", 10, "less than 11"),
            (Arch::X86_64, PageSize::K4, "pie-16K", 17, "less than 18"),
            (Arch::X86_64, PageSize::K4, "glibc-4M", 17, "less than 18"),
        ] {
            let before = spread(name, 1..1 << 18, 1 << 16);
            let after = spread(name, 1..1 << shift, 1 << 16);
            let of = |variant, spread| BootResult {
                outcome: serde_json::json!({ "spreads": [spread] }),
                ..run(variant, 1)
            };
            let runs = vec![of(Variant::Pristine, before), of(Variant::Patched, after)];
            let comparison = Comparison {
                arch,
                page_size,
                ..comparison_of(&Entropy, runs)
            };
            let said = Entropy.look(&comparison).unwrap().agree();
            let said = said.map_or_else(|error| error.to_string(), |()| String::new());
            let right = said.contains(word) && said.is_empty() == word.is_empty();
            assert!(right, "{name}: {said}");
        }
    }

    #[test]
    fn zen_may_lose_one_bit_of_what_holds_32k() {
        let of = |name, shift, common: &Common| {
            let of = |variant, spread| BootResult {
                outcome: serde_json::json!({ "spreads": [spread] }),
                ..run(variant, 1)
            };
            let runs = vec![
                of(Variant::Pristine, spread(name, 1..1 << 18, 1 << 12)),
                of(Variant::Patched, spread(name, 1..1_u64 << shift, 1 << 15)),
            ];
            let comparison = Comparison {
                arch: Arch::X86_64,
                page_size: PageSize::K4,
                common: common.clone(),
                ..comparison_of(&Entropy, runs)
            };
            let said = Entropy.look(&comparison).unwrap().agree();
            said.map_or_else(|error| error.to_string(), |()| String::new())
        };
        let max = comparison_of(&Entropy, Vec::new()).common;
        let zen = Common {
            cpu_model: CpuModel::Zen,
            ..max.clone()
        };
        assert_eq!(of("glibc-1M", 17, &zen), "");
        assert!(of("glibc-1M", 16, &zen).contains("less than 17"));
        assert!(of("pie-16K", 18, &zen).contains("wider than a page"));
        assert!(of("glibc-1M", 18, &max).contains("wider than a page"));
    }

    #[test]
    fn areas_that_meet_are_told() {
        let area = |name, place| spread(name, place..place + 10, 1);
        let good = [
            area("pie-4M", 100),
            area(HEAP, 120),
            area("musl-4M", 200),
            area(TOP, 300),
            area(LEGACY, 1),
            area("i386-pie-4M", 400),
        ];
        assert!(apart(&good).is_ok());
        for (name, place, word) in [
            (HEAP, 195, "heaps reach"),
            ("interpreter", 295, "mappings reach"),
            (TOP, 205, "stacks begin at"),
        ] {
            let mut bad = good.to_vec();
            bad.push(area(name, place));
            let said = apart(&bad).unwrap_err().to_string();
            assert!(said.contains(word), "{said}");
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
        // 12 places, and three loads span half of what they are drawn from.
        assert_eq!(cell(&spread), "5 bits, 64K");
        spread.varying = 0;
        assert_eq!(cell(&spread), "always 0x70000000");
    }
}
