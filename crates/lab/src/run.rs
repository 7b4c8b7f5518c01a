// SPDX-License-Identifier: GPL-2.0-only
//! Runs a job with each of the kernels.

use crate::boot::{Bench, Parts};
use crate::compare::conclude;
use crate::host::{self, parts};
use crate::referee;
use crate::results::{Comparison, KernelInfo};
use crate::target::{Kernels, Target};
use crate::vm::emulator::Qemu;
use crate::vm::initramfs;
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use wideleaf_cache::{Cache, Key};
use wideleaf_kbuild::{Kernel, Variant};
use wideleaf_kit::events::{Event, Observer};

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
        let qemu = Qemu::find(target.arch)?;
        let guest_binary = parts::guest_binary(target.arch, self.guest_binary.as_deref())?;
        initramfs::check(&guest_binary, target.arch)?;
        let plugin = match target.needs_plugin() {
            true => Some(parts::plugin(self.plugin.as_deref())?),
            false => None,
        };
        if let Some(disk) = &target.plan.disk {
            let whom = target.disk_for(disk, &self.kernels);
            disk.contents.require_tools(&whom)?;
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
        let memory = target.plan.memory_used;
        let at_once = host::guests_at_once(memory, target.variants.len())?;
        host::memory_folder(self.cache, memory * at_once as u64)?;
        Ok(Parts {
            qemu,
            guest_binary,
            plugin,
            at_once,
        })
    }

    /// Has everything made that `target` needs, kernels and disk, and boots nothing.
    ///
    /// # Errors
    ///
    /// If it cannot be had.
    pub fn prepare(&self, target: &Target) -> Result<()> {
        self.disk(target)?;
        self.ready(target).map(drop)
    }

    /// Names each kernel of `target` by all that goes into it, without making it. One that is
    /// to be built needs [`Target::source_version`].
    ///
    /// # Errors
    ///
    /// If that cannot be read.
    pub fn kernel_keys(&self, target: &Target) -> Result<Vec<String>> {
        let key = |&variant: &Variant| {
            if let Some(spec) = target.spec(variant, &self.kernels) {
                return wideleaf_kbuild::key(&spec);
            }
            let given = match &self.kernels {
                Kernels::Given(given) => given.get(&variant),
                _ => None,
            };
            let path = given.with_context(|| format!("--kernel names no {variant} kernel"))?;
            Ok(Key::new().file("image", path)?.id())
        };
        target.variants.iter().map(key).collect()
    }

    /// Names what has a part in the figures besides the kernels: QEMU's version, the guest's
    /// binary, the plugin.
    ///
    /// # Errors
    ///
    /// If one of them is missing.
    pub fn programs_key(&self, target: &Target) -> Result<String> {
        let guest = parts::guest_binary(target.arch, self.guest_binary.as_deref())?;
        let mut key = Key::new()
            .field("QEMU", Qemu::find(target.arch)?.version)
            .file("guest", &guest)?;
        if target.needs_plugin() {
            key = key.file("plugin", &parts::plugin(self.plugin.as_deref())?)?;
        }
        Ok(key.id())
    }

    /// Runs `target` with each of its kernels.
    ///
    /// # Errors
    ///
    /// If a kernel cannot be had, or a guest fails; the kernel's own lines are
    /// in the text then.
    pub fn compare(&self, target: &Target) -> Result<Comparison> {
        let parts = self.parts(target)?;
        // A package that Debian does not have is told before a kernel is built.
        let disk = self.disk(target)?;
        let kernels = self.ready(target)?;
        let mut comparison = Comparison {
            job: target.job.name().into(),
            base: target.base,
            arch: target.arch,
            page_size: target.page_size,
            common: target.common.clone(),
            options: target.own.clone(),
            memory_bytes: target.plan.memory,
            qemu: parts.qemu.clone(),
            profile: None,
            kernels: kernels.clone(),
            runs: Vec::new(),
            figures: BTreeMap::new(),
            sweep: BTreeMap::new(),
        };
        self.observer
            .event(Event::Step(&format!("running {target}")));
        for repeat in 1..=target.repeat {
            let bench = Bench {
                cache: self.cache,
                keep: self.keep.as_deref(),
                observer: self.observer,
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
        {
            let look = target.job.look(&comparison)?;
            look.agree().inspect_err(|_| {
                for line in referee::lines(&comparison) {
                    self.observer.event(Event::Note(&line));
                }
            })?;
            look.keep(&|| self.packages(target))?;
        }
        conclude(target.job, comparison)
    }

    /// The image of the disk of `target`, made if it is not in the cache; `None`: its job has none.
    ///
    /// # Errors
    ///
    /// If it cannot be made.
    pub fn disk(&self, target: &Target) -> Result<Option<PathBuf>> {
        let disk = target.plan.disk.as_ref();
        disk.map(|disk| {
            let whom = target.disk_for(disk, &self.kernels);
            disk.contents.ensure(&whom, self.cache, self.observer)
        })
        .transpose()
    }

    /// Debian's packages on the disk of `target`.
    fn packages(&self, target: &Target) -> Result<Vec<String>> {
        let Some(disk) = &target.plan.disk else {
            return Ok(Vec::new());
        };
        let whom = target.disk_for(disk, &self.kernels);
        disk.contents.packages(&whom, self.cache, self.observer)
    }

    fn ready(&self, target: &Target) -> Result<Vec<KernelInfo>> {
        match &self.kernels {
            Kernels::Built(_) | Kernels::Commits(..) => self.build(target),
            Kernels::Given(paths) => target
                .variants
                .iter()
                .map(|&variant| given(variant, &paths[&variant]))
                .collect(),
        }
    }

    /// All from the same version of the source, whichever came first.
    fn build(&self, target: &Target) -> Result<Vec<KernelInfo>> {
        let mut version = None;
        let mut ready = Vec::new();
        // The series first: if it does not apply, that shows before anything is built.
        for &variant in target.variants.iter().rev() {
            let Some(mut spec) = target.spec(variant, &self.kernels) else {
                bail!("no {variant} kernel is to be built");
            };
            spec.version = version.or(spec.version);
            let kernel = wideleaf_kbuild::ensure(&spec, self.cache, self.observer)?;
            version = Some(kernel.version.clone());
            ready.push(built(&kernel)?);
        }
        ready.reverse();
        Ok(ready)
    }
}

fn built(kernel: &Kernel) -> Result<KernelInfo> {
    let config = std::fs::read_to_string(&kernel.config).unwrap_or_default();
    let compiler = config
        .lines()
        .find_map(|line| line.strip_prefix("CONFIG_CC_VERSION_TEXT="))
        .map(|text| text.trim_matches('"').to_string());
    let version = kernel.commit.is_none().then(|| kernel.version.clone());
    Ok(KernelInfo {
        package_version: version,
        commit: kernel.commit.clone(),
        config_hash: Some(kernel.config_hash.clone()),
        compiler,
        ..given(kernel.variant, &kernel.image)?
    })
}

fn given(variant: Variant, image: &Path) -> Result<KernelInfo> {
    Ok(KernelInfo {
        variant,
        image: image.to_owned(),
        image_hash: Key::new().file("image", image)?.id(),
        package_version: None,
        commit: None,
        config_hash: None,
        compiler: None,
    })
}
