// SPDX-License-Identifier: GPL-2.0-only
//! The exec benchmark outside of the lab: a processor's counts by the names of the job's figures,
//! and which runs of the lab did the same.

use super::host::Exec;
use super::{NAME, Report};
use crate::kit::text::{named_phases, phases};
use anyhow::{Context, Result};
use wideleaf_bench::report::{ExecReport, Figure, PhaseReport};
use wideleaf_kbuild::{Arch, PageSize};
use wideleaf_kit::size::short;
use wideleaf_lab::job::Job;
use wideleaf_lab::results::figures::Figures;
use wideleaf_lab::results::{Comparison, Counted};

/// A run of `wideleaf bench exec` on this machine.
///
/// # Errors
///
/// If the machine has pages of another size than any that the lab knows.
pub fn counted(report: &ExecReport) -> Result<Counted> {
    let page_size = PageSize::ALL
        .iter()
        .find(|size| size.bytes() == report.page_size);
    let mut figures = Figures::of(Exec.figures());
    phases(&mut figures, "", report);
    let mut counted = Counted {
        job: NAME.into(),
        arch: report.arch,
        page_size: *page_size
            .with_context(|| format!("pages of {}: the lab has none", short(report.page_size)))?,
        figures: figures
            .iter()
            .map(|(name, c)| (name.clone(), c.value))
            .collect(),
        missing: Default::default(),
        nanoseconds: Default::default(),
        outcome: serde_json::to_value(report)?,
    };
    for (name, phase) in named_phases(report) {
        counted.nanoseconds.insert(name.into(), phase.nanoseconds);
        for (what, figure) in processor(report.arch, phase) {
            let name = format!("{name}.{what}");
            match figure {
                Figure::Value(value) => drop(counted.figures.insert(name, value)),
                Figure::Missing { not_available } => {
                    counted.missing.insert(name, not_available);
                }
            }
        }
    }
    Ok(counted)
}

/// The processor's own counts of a phase.
fn processor(arch: Arch, phase: &PhaseReport) -> [(&'static str, Figure); 3] {
    let event = |name: &str| match phase.events.get(name) {
        Some(figure) => figure.clone(),
        None => Figure::missing("it was not counted"),
    };
    let (loads, misses) = (event("itlb-loads"), event("itlb-misses"));
    let l1_misses = match arch {
        // L1I_TLB_REFILL (drivers/perf/arm_pmuv3.c).
        Arch::Arm64 => misses,
        Arch::X86_64 => hits_and_misses(&loads, misses, event("instructions").value()),
    };
    [
        ("user_instructions", event("instructions")),
        ("itlb_l1_misses", l1_misses),
        ("text_walks", event("itlb-walks")),
    ]
}

/// Misses of the first level on x86-64, where Linux has hits of the second level for loads and
/// misses of both for misses: AMD since Zen, Intel since Sandy Bridge (arch/x86/events/amd/core.c,
/// intel/core.c). Of other processors loads are instructions or all fetches.
fn hits_and_misses(loads: &Figure, misses: Figure, instructions: Option<u64>) -> Figure {
    match (loads.value(), misses.value()) {
        (Some(loads), Some(_)) if instructions.is_some_and(|all| loads >= all / 2) => {
            Figure::missing("this processor has no event for hits of the second level")
        }
        (Some(loads), Some(misses)) => Figure::Value(loads + misses),
        (None, _) => loads.clone(),
        (_, None) => misses,
    }
}

/// The options of `lab run` that do the same, if `counted` is of this job.
pub fn command(counted: &Counted) -> Option<String> {
    let report = report_of(counted)?;
    let calls = report.random.as_ref().map_or(0, |random| random.calls);
    Some(format!(
        "wideleaf lab run {NAME} --arch {} --page-size {} --size {} --stride {} --calls {calls} --seed {}",
        counted.arch,
        counted.page_size,
        short(report.size),
        short(report.stride),
        report.seed,
    ))
}

/// Whether a comparison called as many stubs, in the same order, of as much text.
pub fn does_the_same(comparison: &Comparison, counted: &Counted) -> bool {
    let guest = comparison.runs.first().and_then(|run| {
        let report = serde_json::from_value::<Report>(run.outcome.clone());
        Some(report.ok()?.report)
    });
    let work = |report: &ExecReport| {
        let calls = report.random.as_ref().map(|random| random.calls);
        let place = (report.size, report.stride, report.align);
        (place, report.seed, report.cold.is_some(), calls)
    };
    let machine = (counted.arch, counted.page_size);
    comparison.job == counted.job
        && (comparison.arch, comparison.page_size) == machine
        && guest.map(|report| work(&report)) == report_of(counted).map(|report| work(&report))
}

fn report_of(counted: &Counted) -> Option<ExecReport> {
    (counted.job == NAME).then(|| serde_json::from_value(counted.outcome.clone()).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use wideleaf_bench::report::Faults;

    fn phase(events: &[(&str, u64)]) -> PhaseReport {
        let count = |(name, value): &(&str, u64)| (name.to_string(), Figure::Value(*value));
        let mut events: BTreeMap<_, _> = events.iter().map(count).collect();
        events.insert("itlb-walks".into(), Figure::missing("EACCES"));
        PhaseReport {
            calls: 64,
            faults: Faults { minor: 3, major: 4 },
            read_bytes: Figure::missing("no such file"),
            read_requests: None,
            nanoseconds: 500,
            events,
            reclaim: Default::default(),
        }
    }

    fn report(arch: Arch, events: &[(&str, u64)]) -> ExecReport {
        ExecReport {
            file: "/x".into(),
            filesystem: "xfs".into(),
            arch,
            page_size: 4096,
            size: 32 << 10,
            stride: 4096,
            stubs: 8,
            seed: 1,
            address: 0,
            address_alignment: 4096,
            align: None,
            cold: None,
            random: Some(phase(events)),
            smaps: None,
            warnings: Vec::new(),
        }
    }

    const EVENTS: [(&str, u64); 3] = [
        ("instructions", 1000),
        ("itlb-loads", 30),
        ("itlb-misses", 5),
    ];

    #[test]
    fn counts_have_the_lab_s_names_and_what_is_missing_has_a_reason() {
        let counted = counted(&report(Arch::X86_64, &EVENTS)).unwrap();
        let figure = |name: &str| counted.figures.get(name).copied();
        assert_eq!(figure("random.faults"), Some(7));
        assert_eq!(figure("random.user_instructions"), Some(1000));
        assert_eq!(figure("random.itlb_l1_misses"), Some(35));
        assert_eq!(figure("random.text_walks"), None);
        assert_eq!(counted.missing["random.text_walks"], "EACCES");
        assert_eq!(counted.nanoseconds["random"], 500);
        let known = Exec.figures();
        for name in counted.figures.keys() {
            let lab = known.iter().chain(&wideleaf_lab::results::figures::COUNTED);
            assert!(lab.into_iter().any(|figure| figure.is(name)), "{name}");
        }
    }

    #[test]
    fn on_arm64_a_miss_is_a_refill_of_the_first_level() {
        let counted = counted(&report(Arch::Arm64, &EVENTS)).unwrap();
        assert_eq!(counted.figures["random.itlb_l1_misses"], 5);
    }

    #[test]
    fn loads_that_are_instructions_are_no_misses() {
        let events = [
            ("instructions", 1000),
            ("itlb-loads", 999),
            ("itlb-misses", 5),
        ];
        let counted = counted(&report(Arch::X86_64, &events)).unwrap();
        assert!(!counted.figures.contains_key("random.itlb_l1_misses"));
        assert!(counted.missing["random.itlb_l1_misses"].contains("second level"));
    }

    #[test]
    fn the_command_makes_the_comparison() {
        let counted = counted(&report(Arch::X86_64, &EVENTS)).unwrap();
        assert_eq!(
            command(&counted).unwrap(),
            "wideleaf lab run exec --arch x86_64 --page-size 4K --size 32K --stride 4K --calls 64 --seed 1"
        );
    }
}
