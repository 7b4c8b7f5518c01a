// SPDX-License-Identifier: GPL-2.0-only
//! Runs a job with each of the kernels.

use crate::events::{Event, Observer};
use crate::job::{Job, Options};
use crate::machine::{self, Boot, Cancelled};
use crate::qemu::{Guest, Plugin};
use crate::results::{Comparison, KernelInfo, PhaseCounts, Run};
use crate::scratch::Scratch;
use crate::tools::Qemu;
use crate::{host, initramfs, programs};
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use wideleaf_cache::{Cache, Key};
use wideleaf_guest::protocol::VERSION;
use wideleaf_kernel::{Arch, Base, Kernel, KernelDir, PageSize, Spec, Variant};
use wideleaf_tlb::report::{Report, SCHEMA};

/// Beyond the guest's own time limit: booting, and telling that it hangs.
const BOOT_GRACE: Duration = Duration::from_secs(15);

/// Where kernels come from.
#[derive(Clone, Debug)]
pub enum Kernels {
    /// Built from Debian's source and these files of ours.
    Built(KernelDir),
    /// Somebody else built them.
    Given(BTreeMap<Variant, PathBuf>),
}

/// What to run.
#[derive(Clone, Debug)]
pub struct Target {
    /// The job.
    pub job: &'static dyn Job,
    /// The base.
    pub base: Base,
    /// The guest's architecture.
    pub arch: Arch,
    /// The guest's base page size.
    pub page_size: PageSize,
    /// The options.
    pub options: Options,
    /// Which kernels, pristine first.
    pub variants: Vec<Variant>,
    /// How often each boots.
    pub repeat: u32,
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            job,
            base,
            arch,
            page_size,
            ..
        } = self;
        write!(f, "{job}, Linux {base}, {arch}, {page_size} pages")
    }
}

/// Runs jobs.
pub struct Lab<'a> {
    /// The cache.
    pub cache: &'a Cache,
    /// Where kernels come from.
    pub kernels: Kernels,
    /// The guest's binary, if it is not to be searched for.
    pub guest_binary: Option<PathBuf>,
    /// The plugin, if it is not to be searched for.
    pub plugin: Option<PathBuf>,
    /// Where each boot's console, answers and counts are to be kept.
    pub keep: Option<PathBuf>,
    /// Who is told how it goes.
    pub observer: &'a dyn Observer,
}

/// What [`Lab::prepare`] found.
#[derive(Clone, Debug)]
struct Parts {
    qemu: Qemu,
    guest_binary: PathBuf,
    plugin: Option<PathBuf>,
    at_once: usize,
}

/// A kernel ready to boot.
#[derive(Clone, Debug)]
struct Ready {
    info: KernelInfo,
}

impl Lab<'_> {
    /// Looks whether everything is there that `target` needs, before any work
    /// begins.
    ///
    /// # Errors
    ///
    /// The first lack, with its remedy.
    pub fn preflight(&self, target: &Target) -> Result<()> {
        self.parts(target).map(drop)
    }

    fn parts(&self, target: &Target) -> Result<Parts> {
        let job = target.job;
        let qemu = Qemu::find(target.arch)?;
        let guest_binary = programs::guest_binary(target.arch, self.guest_binary.as_deref())?;
        initramfs::check(&guest_binary, target.arch)?;
        let plugin = match job.counts() {
            true => Some(programs::plugin(self.plugin.as_deref())?),
            false => None,
        };
        if let Some(contents) = job.contents(&target.options) {
            contents.require_tools(target)?;
        }
        if let Kernels::Given(given) = &self.kernels {
            for variant in &target.variants {
                let path = given.get(variant).with_context(|| {
                    format!("--kernel names no {variant} kernel: add '{variant}=PATH', or ask for other --variants")
                })?;
                std::fs::File::open(path).with_context(|| {
                    format!("{}: cannot read the {variant} kernel", path.display())
                })?;
            }
        }
        let memory = job.memory(&target.options);
        let at_once = host::guests_at_once(memory, target.variants.len())?;
        host::memory_folder(self.cache, memory * at_once as u64)?;
        Ok(Parts {
            qemu,
            guest_binary,
            plugin,
            at_once,
        })
    }

    /// Runs `target` with each of its kernels.
    ///
    /// # Errors
    ///
    /// If a kernel cannot be had, or a guest fails; the kernel's own lines are
    /// in the text then.
    pub fn compare(&self, target: &Target) -> Result<Comparison> {
        let parts = self.parts(target)?;
        let kernels = self.ready(target)?;
        let disk = self.disk(target)?;
        let mut comparison = Comparison {
            job: target.job.name(),
            base: target.base,
            arch: target.arch,
            page_size: target.page_size,
            options: target.options.clone(),
            memory_bytes: target.job.memory(&target.options),
            qemu: parts.qemu.clone(),
            profile: None,
            kernels: kernels.iter().map(|kernel| kernel.info.clone()).collect(),
            runs: Vec::new(),
            figures: BTreeMap::new(),
        };
        self.observer
            .event(Event::Step(&format!("running {target}")));
        for repeat in 1..=target.repeat {
            let bench = Bench {
                lab: self,
                target,
                parts: &parts,
                disk: disk.as_deref(),
                repeat,
            };
            for group in kernels.chunks(parts.at_once) {
                for (run, report) in bench.boot_together(group)? {
                    comparison.runs.push(run);
                    comparison.profile = report.map(|report| report.profile).or(comparison.profile);
                }
            }
        }
        target.job.agree(&comparison)?;
        Ok(comparison.conclude())
    }

    fn disk(&self, target: &Target) -> Result<Option<PathBuf>> {
        let mut relay = |event: wideleaf_kernel::Event<'_>| self.relay(event);
        let contents = target.job.contents(&target.options);
        contents
            .map(|contents| contents.ensure(target, self.cache, &mut relay))
            .transpose()
    }

    fn ready(&self, target: &Target) -> Result<Vec<Ready>> {
        match &self.kernels {
            Kernels::Built(files) => self.build(target, files),
            Kernels::Given(given) => target
                .variants
                .iter()
                .map(|&variant| Ready::given(variant, &given[&variant]))
                .collect(),
        }
    }

    /// All from the same version of the source, whichever came first.
    fn build(&self, target: &Target, files: &KernelDir) -> Result<Vec<Ready>> {
        let mut version = None;
        let mut ready = Vec::new();
        // The series first: if it does not apply, that shows before anything is built.
        for &variant in target.variants.iter().rev() {
            let Target {
                base,
                arch,
                page_size,
                ..
            } = *target;
            let mut spec = Spec::new(base, arch, page_size, variant, files.clone());
            spec.version = version;
            spec.extras = target
                .job
                .fragments()
                .iter()
                .map(ToString::to_string)
                .collect();
            let mut relay = |event: wideleaf_kernel::Event<'_>| self.relay(event);
            let kernel = wideleaf_kernel::ensure(&spec, self.cache, &mut relay)?;
            version = Some(kernel.version.clone());
            ready.push(Ready::built(&kernel)?);
        }
        ready.reverse();
        Ok(ready)
    }

    fn relay(&self, event: wideleaf_kernel::Event<'_>) {
        use wideleaf_kernel::Event as Kernel;
        self.observer.event(match event {
            Kernel::Step(text) | Kernel::Waiting(text) => Event::Step(text),
            Kernel::Progress { done, total } => Event::Progress { done, total },
            Kernel::Note(text) => Event::Note(text),
        });
    }
}

impl Ready {
    fn built(kernel: &Kernel) -> Result<Self> {
        let config = std::fs::read_to_string(&kernel.config).unwrap_or_default();
        let compiler = config
            .lines()
            .find_map(|line| line.strip_prefix("CONFIG_CC_VERSION_TEXT="))
            .map(|text| text.trim_matches('"').to_string());
        let mut ready = Self::given(kernel.variant, &kernel.image)?;
        ready.info.package_version = Some(kernel.version.clone());
        ready.info.config_hash = Some(kernel.config_hash.clone());
        ready.info.compiler = compiler;
        Ok(ready)
    }

    fn given(variant: Variant, image: &Path) -> Result<Self> {
        Ok(Self {
            info: KernelInfo {
                variant,
                image: image.to_owned(),
                image_hash: Key::new().file("image", image)?.id(),
                package_version: None,
                config_hash: None,
                compiler: None,
            },
        })
    }
}

/// Everything that the boots of one repetition share.
struct Bench<'a> {
    lab: &'a Lab<'a>,
    target: &'a Target,
    parts: &'a Parts,
    disk: Option<&'a Path>,
    repeat: u32,
}

impl Bench<'_> {
    /// Boots these kernels side by side. When one fails, the others are ended.
    fn boot_together(&self, kernels: &[Ready]) -> Result<Vec<(Run, Option<Report>)>> {
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

    fn boot(&self, kernel: &Ready, cancel: &AtomicBool) -> Result<(Run, Option<Report>)> {
        let variant = kernel.info.variant;
        let memory = self.target.job.memory(&self.target.options);
        let scratch = Scratch::new(&host::memory_folder(self.lab.cache, memory)?)?;
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
        kernel: &Ready,
        cancel: &AtomicBool,
    ) -> Result<(Run, Option<Report>)> {
        let Target {
            job, arch, options, ..
        } = self.target;
        let variant = kernel.info.variant;
        let (archive, ram) = (scratch.join("initramfs"), scratch.join("ram"));
        let (answers, console) = (scratch.join("answers"), scratch.join("console"));
        let counts = scratch.join("counts.json");
        let job_file = serde_json::to_vec(&options.protocol(*job))?;
        initramfs::write(&archive, &self.parts.guest_binary, *arch, &job_file)?;
        let guest = Guest {
            arch: *arch,
            kernel: &kernel.info.image,
            initramfs: &archive,
            disk: self.disk,
            writable: job
                .contents(options)
                .is_some_and(|contents| contents.is_written()),
            memory: job.memory(options),
            ram: &ram,
            answers: &answers,
            console: &console,
            parameters: &options.parameters,
            plugin: self.parts.plugin.as_deref().map(|file| Plugin {
                file,
                profile: &options.profile,
                out: &counts,
            }),
        };
        let limit = Duration::from_secs(options.time_limit_s.into()) + BOOT_GRACE;
        let log = scratch.join("qemu.log");
        let mut progress = |text: &str| self.lab.observer.event(Event::Guest { variant, text });
        let boot = machine::run(
            &self.parts.qemu.path,
            &guest,
            &log,
            limit,
            cancel,
            &mut progress,
        )?;
        let report = match guest.plugin {
            Some(_) => Some(read_report(&counts)?),
            None => None,
        };
        self.check(&boot)?;
        Ok((self.run(variant, boot, report.as_ref())?, report))
    }

    /// Whether what booted is what was meant to.
    fn check(&self, boot: &Boot) -> Result<()> {
        if boot.hello.version != VERSION {
            bail!(
                "the guest's wideleaf ({}) speaks version {} of the protocol, this one {VERSION}: build it again with 'make build'",
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

    fn run(&self, variant: Variant, boot: Boot, report: Option<&Report>) -> Result<Run> {
        let mut run = Run {
            variant,
            repeat: self.repeat,
            wall_s: boot.wall.as_secs_f64(),
            guest: boot.hello,
            warnings: self.target.job.warnings(&boot.outcome),
            outcome: boot.outcome,
            farewell: boot.farewell,
            phases: Vec::new(),
            coverage: Vec::new(),
        };
        let Some(report) = report else {
            return Ok(run);
        };
        for seen in boot.phases {
            let counted = report.phases.iter().find(|phase| phase.phase == seen.id);
            let counted = counted.with_context(|| {
                format!("the plugin counted nothing in the phase '{}'", seen.name)
            })?;
            run.phases.push(PhaseCounts {
                id: seen.id,
                name: seen.name,
                wall_s: seen.wall.map(|wall| wall.as_secs_f64()),
                user: counted.user.clone(),
                kernel: counted.kernel.clone(),
            });
        }
        run.coverage = report.coverage.clone();
        run.warnings.extend(report.warnings.iter().cloned());
        Ok(run)
    }

    /// Copies what a boot left behind, but not its memory.
    fn keep(&self, scratch: &Scratch, variant: Variant) -> Result<()> {
        let Some(keep) = &self.lab.keep else {
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
