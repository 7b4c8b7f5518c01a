// SPDX-License-Identifier: GPL-2.0-only
//! Boots the kernels of a target, and joins what guest and plugin counted.

use crate::host;
use crate::referee::{Symbols, before_failure};
use crate::results::{BootResult, CpuCounts, KernelInfo, PhaseCounts};
use crate::target::Target;
use crate::vm::emulator::Qemu;
use crate::vm::initramfs;
use crate::vm::machine::{self, Boot, Cancelled, PhaseSeen};
use crate::vm::qemu::{Guest, Plugin};
use crate::vm::scratch::Scratch;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use wideleaf_cache::Cache;
use wideleaf_guest::protocol::VERSION;
use wideleaf_kbuild::Variant;
use wideleaf_kit::events::{Event, Observer};
use wideleaf_tlb::report::{Phase, Report, SCHEMA};

/// Beyond the guest's own time limit: booting, and telling that it hangs.
const BOOT_GRACE: Duration = Duration::from_secs(15);

/// What guests are run with.
#[derive(Clone, Debug)]
pub struct Parts {
    /// The QEMU.
    pub qemu: Qemu,
    /// The guest's init.
    pub guest_binary: PathBuf,
    /// The TLB plugin, if anybody counts.
    pub plugin: Option<PathBuf>,
    /// How many guests run at once.
    pub at_once: usize,
}

/// Everything that the boots of one repetition share.
#[derive(Clone, Copy)]
pub struct Bench<'a> {
    /// Beside which guest memory goes if nothing better has room.
    pub cache: &'a Cache,
    /// Where what a boot left behind is to be kept.
    pub keep: Option<&'a Path>,
    /// Who is told how it goes.
    pub observer: &'a dyn Observer,
    /// What to run.
    pub target: &'a Target,
    /// What it is run with.
    pub parts: &'a Parts,
    /// The disk, if the job needs one.
    pub disk: Option<&'a Path>,
    /// 1 for the first boots.
    pub repeat: u32,
}

impl Bench<'_> {
    /// Boots these kernels side by side. When one fails, the others are ended.
    ///
    /// # Errors
    ///
    /// That of the first guest that failed.
    pub fn boot_together(
        &self,
        kernels: &[KernelInfo],
    ) -> Result<Vec<(BootResult, Option<Report>)>> {
        let cancel = AtomicBool::new(false);
        let results: Vec<Result<_>> = std::thread::scope(|scope| {
            let threads: Vec<_> = kernels
                .iter()
                .map(|kernel| {
                    let cancel = &cancel;
                    scope.spawn(move || {
                        let result = self.boot(kernel, cancel);
                        if result.is_err() {
                            cancel.store(true, Ordering::Relaxed);
                        }
                        result
                    })
                })
                .collect();
            let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
                thread
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            threads.into_iter().map(join).collect()
        });
        // The failure, rather than that of those it ended.
        let mut results = results;
        results.sort_by_key(|result| matches!(result, Err(error) if error.is::<Cancelled>()));
        let mut runs = results.into_iter().collect::<Result<Vec<_>>>()?;
        runs.sort_by_key(|(run, _)| run.variant);
        Ok(runs)
    }

    fn boot(
        &self,
        kernel: &KernelInfo,
        cancel: &AtomicBool,
    ) -> Result<(BootResult, Option<Report>)> {
        let variant = kernel.variant;
        let memory = self.target.plan.memory_used;
        let scratch = Scratch::new(&host::memory_folder(self.cache, memory)?)?;
        let result = self.boot_in(&scratch, kernel, cancel);
        self.keep(&scratch, variant)?;
        result.map_err(|error| match error.is::<Cancelled>() {
            true => error,
            false => error.context(format!("{variant} kernel ({})", self.target)),
        })
    }

    fn boot_in(
        &self,
        scratch: &Scratch,
        kernel: &KernelInfo,
        cancel: &AtomicBool,
    ) -> Result<(BootResult, Option<Report>)> {
        let Target {
            job,
            arch,
            common,
            plan,
            ..
        } = self.target;
        let time_limit_s = self.target.time_limit_s();
        let variant = kernel.variant;
        let (archive, ram) = (scratch.join("initramfs"), scratch.join("ram"));
        let (answers, console) = (scratch.join("answers"), scratch.join("console"));
        let counts = scratch.join("counts.json");
        let job_file = serde_json::to_vec(&plan.for_guest(job.name(), time_limit_s))?;
        initramfs::write(&archive, &self.parts.guest_binary, *arch, &job_file)?;
        let parameters = self.target.parameters();
        let guest = Guest {
            arch: *arch,
            kernel: &kernel.image,
            initramfs: &archive,
            disk: self.disk,
            writable: (plan.disk.as_ref()).is_some_and(|disk| disk.contents.is_written()),
            disk_rate: plan.disk.as_ref().and_then(|disk| disk.rate),
            cpus: common.cpus,
            memory: plan.memory,
            pluggable: plan.pluggable,
            cpu_model: common.cpu_model,
            ram: &ram,
            answers: &answers,
            console: &console,
            acpi: self.target.distribution.is_some() || plan.has_dax(),
            pcie: plan.has_dax(),
            parameters: &parameters,
            plugin: self.parts.plugin.as_deref().map(|file| Plugin {
                file,
                profile: self.target.profile(),
                out: &counts,
                referee: common.referee,
                sweep: &common.sweep_model,
            }),
        };
        let limit = Duration::from_secs(time_limit_s.into()) + BOOT_GRACE;
        let log = scratch.join("qemu.log");
        let mut progress = |text: &str| {
            let kernel = variant.name();
            self.observer.event(Event::Guest { kernel, text });
        };
        let boot = machine::run(
            &self.parts.qemu.path,
            &guest,
            &log,
            limit,
            cancel,
            &mut progress,
        )
        .inspect_err(|_| self.tell_findings(kernel, &counts))?;
        let mut report = match guest.plugin {
            Some(_) => Some(read_report(&counts)?),
            None => None,
        };
        if let Some(findings) = report.as_mut().and_then(|report| report.referee.as_mut()) {
            Symbols::beside(&kernel.image).apply(findings);
        }
        let warnings = self
            .check(&boot)
            .inspect_err(|_| self.tell_findings(kernel, &counts))?;
        Ok((self.run(variant, boot, warnings, report.as_ref())?, report))
    }

    /// Of a run that failed: what the referee found may be why.
    fn tell_findings(&self, kernel: &KernelInfo, counts: &Path) {
        for line in before_failure(kernel.variant, &kernel.image, counts) {
            self.observer.event(Event::Note(&line));
        }
    }

    /// Whether what booted is what was meant to; and what a reader of its figures must know.
    fn check(&self, boot: &Boot) -> Result<Vec<String>> {
        if boot.hello.version != VERSION {
            bail!(
                "the guest's program ({}) speaks version {} of the protocol, this one {VERSION}: build it again with 'make build'",
                self.parts.guest_binary.display(),
                boot.hello.version
            );
        }
        if boot.hello.page_size != self.target.page_size.bytes() {
            bail!(
                "the kernel has pages of {} bytes, not {}: name the right --page-size",
                boot.hello.page_size,
                self.target.page_size
            );
        }
        self.target.job.judge(&boot.outcome)
    }

    fn run(
        &self,
        variant: Variant,
        boot: Boot,
        warnings: Vec<String>,
        report: Option<&Report>,
    ) -> Result<BootResult> {
        let mut run = BootResult {
            variant,
            repeat: self.repeat,
            wall_s: boot.wall.as_secs_f64(),
            guest: boot.hello,
            warnings,
            outcome: boot.outcome,
            farewell: boot.farewell,
            phases: Vec::new(),
            cpus: Vec::new(),
            models: Vec::new(),
            coverage: Vec::new(),
            touched: Vec::new(),
            referee: None,
        };
        let Some(report) = report else {
            return Ok(run);
        };
        let counts = |seen: &PhaseSeen, phases: &[Phase]| {
            let counted = phases.iter().find(|phase| phase.phase == seen.id)?;
            Some(PhaseCounts {
                id: seen.id,
                name: seen.name.clone(),
                wall_s: seen.wall.map(|wall| wall.as_secs_f64()),
                user: counted.user.clone(),
                kernel: counted.kernel.clone(),
            })
        };
        for seen in &boot.phases {
            let counted = counts(seen, &report.phases).with_context(|| {
                format!("the plugin counted nothing in the phase '{}'", seen.name)
            })?;
            run.phases.push(counted);
        }
        // One that slept all the time counted nothing.
        run.cpus = report
            .cpus
            .iter()
            .map(|cpu| CpuCounts {
                cpu: cpu.cpu,
                phases: (boot.phases.iter())
                    .filter_map(|seen| counts(seen, &cpu.phases))
                    .collect(),
            })
            .collect();
        run.models = report.models.clone();
        run.referee = report.referee.clone();
        run.coverage = report.coverage.clone();
        run.touched = report.touched.clone();
        run.warnings.extend(report.warnings.iter().cloned());
        Ok(run)
    }

    /// Copies what a boot left behind, but not its memory.
    fn keep(&self, scratch: &Scratch, variant: Variant) -> Result<()> {
        let Some(keep) = self.keep else {
            return Ok(());
        };
        let Target {
            base,
            arch,
            page_size,
            ..
        } = self.target;
        let to = keep.join(format!(
            "{base}-{arch}-{page_size}-{variant}-{}",
            self.repeat
        ));
        std::fs::create_dir_all(&to).with_context(|| format!("cannot create {}", to.display()))?;
        for name in ["console", "answers", "counts.json", "qemu.log"] {
            let (from, to) = (scratch.join(name), to.join(name));
            if from.exists() {
                std::fs::copy(&from, &to)
                    .with_context(|| format!("cannot write {}", to.display()))?;
            }
        }
        Ok(())
    }
}

fn read_report(path: &Path) -> Result<Report> {
    let text = std::fs::read_to_string(path).context("the TLB plugin left no counts")?;
    let report: Report =
        serde_json::from_str(&text).context("the TLB plugin's counts are damaged")?;
    if report.schema != SCHEMA {
        bail!(
            "the TLB plugin writes version {} of its counts, this program reads {SCHEMA}: build both again with 'make build'",
            report.schema
        );
    }
    Ok(report)
}
