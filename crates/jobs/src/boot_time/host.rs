// SPDX-License-Identifier: GPL-2.0-only
//! The host's side: options, figures, table.

use super::{NAME, Report, Task};
use crate::kit::linear::{self, MOMENTS, memory};
use anyhow::Result;
use clap::Args;
use serde::{Deserialize, Serialize};
use wideleaf_lab::job::{Facts, Job, Measured, Run};
use wideleaf_lab::options::GuestMemory;
use wideleaf_lab::plan::{Asked, MEMORY, Plan};
use wideleaf_lab::results::figures::{Figure, Figures, counted, figure};
use wideleaf_lab::results::row::Row;

/// The job.
#[derive(Debug)]
pub struct BootTime;

/// The registry's entry.
pub const JOB: BootTime = BootTime;

/// Its options.
#[derive(Args, Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Options {
    /// Its memory.
    #[command(flatten)]
    #[serde(flatten)]
    pub memory: GuestMemory,
}

impl Job for BootTime {
    type Options = Options;
    type Report = Report;

    fn facts(&self) -> Facts {
        Facts {
            counts: true,
            examples: &[
                "boot-time --repeat 2",
                "boot-time --variants pristine,linear-map --page-size 4K --memory 16G",
            ],
            ..Facts::new(
                NAME,
                "instructions, memory and page tables that a boot takes",
            )
        }
    }

    fn plan(&self, asked: &Asked<'_, Options>) -> Result<Plan> {
        let memory = asked.own.memory.memory.unwrap_or(MEMORY);
        Ok(Plan {
            memory_used: linear::idle(memory),
            ..Plan::new(&Task { memory }, 300).with_memory(memory)
        })
    }

    #[rustfmt::skip]
    fn figures(&self) -> Vec<Figure> {
        let reached = "until the kernel said so, of its clock, which counts instructions in arm64 guests with one CPU: `cpus` are up, the initramfs is unpacked (`devices`), init memory is `freed`, `/init` is run";
        let used = "when the job begins, as /proc/meminfo tells";
        let mut all = vec![
            counted("start.kernel_instructions").row("start", "kernel instructions"),
            counted("start.user_instructions").row("start", "user instructions"),
            counted("start.walks").row("start", "page walks"),
            counted("start.tlb_invalidations").shown("start", "TLB invalidations"),
            counted("end.kernel_instructions").row("end", "kernel instructions"),
            figure("reached.init_us", "us", reached),
            figure("reached.<what>_us", "us", reached),
            figure("memory.reserved", "bytes", "of the machine that never came to the page allocator").row("memory", "reserved bytes"),
            figure("memory.taken", "bytes", "of the machine that are not free when the job begins").shown("memory", "bytes not free"),
        ];
        for (name, label) in [
            ("memory.slab", "slab bytes"),
            ("memory.stacks", "bytes of kernel stacks"),
            ("memory.tables", "bytes of processes' page tables"),
            ("memory.vmalloc", "vmalloc bytes"),
            ("memory.percpu", "per-CPU bytes"),
            ("memory.cached", "bytes of the page cache"),
        ] {
            all.push(figure(name, "bytes", used).shown("memory", label));
        }
        all.extend(MOMENTS);
        all
    }

    fn measure(&self, run: &Run<'_, Self>, figures: &mut Figures) {
        for (what, us) in &run.report.reached_us {
            figures.put(format!("reached.{what}_us"), *us);
        }
        for (what, bytes) in &run.report.memory {
            figures.put(format!("memory.{what}"), *bytes);
        }
        linear::put(run, &run.report.linear, figures);
    }

    fn title(&self, measured: &Measured<'_, Self>) -> String {
        format!("boot with {} of memory,", memory(measured))
    }

    fn rows(&self, measured: &Measured<'_, Self>) -> Vec<Row> {
        let mut rows = Row::defined(measured, &self.figures());
        let maps = measured.runs.iter().map(|run| &run.report.linear);
        let mut map = linear::rows(measured, maps);
        map.iter_mut()
            .for_each(|row| row.section = "linear map".into());
        rows.extend(map);
        rows
    }

    fn notes(&self, _: &Measured<'_, Self>) -> Vec<String> {
        vec![
            "  start: from the first instruction to the job's process; end: from there to the machine's"
                .into(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use wideleaf_kbuild::Variant;
    use wideleaf_lab::job::AnyJob;
    use wideleaf_lab::sample;

    #[test]
    fn what_was_reached_and_taken_are_figures_with_units() {
        let mut run = sample::run(Variant::Pristine, 1);
        run.outcome = json!({
            "reached_us": { "init": 700, "cpus": 3 },
            "memory": { "taken": 9, "slab": 5 },
            "linear": { "moments": [], "counts": {} },
        });
        let figures = AnyJob::measure(&BootTime, &run).unwrap();
        let value = |name| figures.get(name).map(|count| (count.value, count.unit));
        assert_eq!(value("reached.init_us"), Some((700, "us")));
        assert_eq!(value("reached.cpus_us"), Some((3, "us")));
        assert_eq!(value("memory.taken"), Some((9, "bytes")));
        assert_eq!(value("memory.slab"), Some((5, "bytes")));
        assert_eq!(figures.undefined().count(), 0);
    }
}
