// SPDX-License-Identifier: GPL-2.0-only
//! What is to be run: a job, the machine, the kernels.

use crate::common::{Common, CpuModel};
use crate::disk::DiskFor;
use crate::job::AnyJob;
use crate::plan::{Disk, Plan};
use crate::profiles::{self, default_profile};
use anyhow::{Result, anyhow, bail};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use wideleaf_kbuild::{Arch, Base, Commit, Distribution, KernelDir, PageSize, Spec, Variant};
use wideleaf_tlb::profile::Profile;
use wideleaf_tlb::variant::chosen;

/// Where kernels come from.
#[derive(Clone, Debug)]
pub enum Kernels {
    /// Built from Debian's source and these files of ours.
    Built(KernelDir),
    /// Built from somebody's own source and these fragments of ours.
    Commits(KernelDir, BTreeMap<Variant, Commit>),
    /// Somebody else built them.
    Given(BTreeMap<Variant, PathBuf>),
}

/// What to run.
#[derive(Clone, Debug)]
pub struct Target {
    /// The job.
    pub job: &'static dyn AnyJob,
    /// The base.
    pub base: Base,
    /// The guest's architecture.
    pub arch: Arch,
    /// The guest's base page size.
    pub page_size: PageSize,
    /// What is asked of kernels and guest.
    pub common: Common,
    /// The configuration that it names; `None`: the lab's own.
    pub distribution: Option<Distribution>,
    /// What is asked of the job.
    pub own: Value,
    /// Which of the job's parts it is, if the job has several.
    pub part: Option<String>,
    /// What the job asks for then.
    pub plan: Plan,
    /// Which kernels, pristine first.
    pub variants: Vec<Variant>,
    /// How often each boots.
    pub repeat: u32,
    /// Debian's version of the source; `None`: the newest.
    pub source_version: Option<String>,
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            job,
            base,
            arch,
            page_size,
            part,
            ..
        } = self;
        let part = part.as_ref().map(|part| format!(" {part}"));
        let part = part.unwrap_or_default();
        write!(f, "{job}{part}, Linux {base}, {arch}, {page_size} pages")?;
        match &self.distribution {
            Some(distribution) => write!(f, ", configuration {distribution}"),
            None => Ok(()),
        }
    }
}

impl Target {
    /// A job on a machine, with the kernels that it runs with unless others are asked for, once.
    ///
    /// # Errors
    ///
    /// If what is asked for is impossible.
    pub fn new(
        job: &'static dyn AnyJob,
        (base, arch, page_size): (Base, Arch, PageSize),
        common: Common,
        own: Value,
    ) -> Result<Self> {
        if let Some(profile) = &common.profile
            && !profiles::fits(profile, arch)
        {
            let known = profiles::of(arch).join(", ");
            bail!("--profile {profile} is no {arch} CPU: known for {arch} are {known}");
        }
        if common.cpu_model == CpuModel::Zen && !common.cpu_model.fits(arch) {
            bail!("--cpu-model zen is no {arch} CPU: ask for --arch x86_64");
        }
        check_sweep(job, &common, arch)?;
        let distribution = distribution(&common, arch, page_size)?;
        let plan = job.plan(&common, &own, arch, page_size)?;
        let disk = plan.disk.as_ref();
        if disk.is_some_and(|disk| disk.filesystem.is_only_read() && disk.contents.is_written()) {
            bail!(
                "--fs erofs is only read, and the job {job} writes to its disk: known are xfs, ext4"
            );
        }
        if plan.has_dax() && arch != Arch::X86_64 {
            bail!("--dax: no {arch} guest has persistent memory: ask for --arch x86_64");
        }
        Ok(Self {
            distribution,
            plan,
            job,
            base,
            arch,
            page_size,
            common,
            own,
            part: None,
            variants: job.facts().variants.to_vec(),
            repeat: 1,
            source_version: None,
        })
    }

    /// The kernel of one of its variants, as it is to be built; `None`: it is built already.
    pub fn spec(&self, variant: Variant, kernels: &Kernels) -> Option<Spec> {
        let (files, commit) = match kernels {
            Kernels::Built(files) => (files, None),
            Kernels::Commits(files, commits) => (files, commits.get(&variant)),
            Kernels::Given(_) => return None,
        };
        let mut spec = Spec::new(self.base, self.arch, self.page_size, variant, files.clone());
        spec.version = self.source_version.clone();
        spec.commit = commit.cloned();
        spec.plant = (self.planted_in() == Some(variant))
            .then(|| self.common.plant.clone())
            .flatten();
        spec.distribution = self.distribution.clone();
        let of_job = self.job.facts().fragments.iter().copied().map(String::from);
        let needed = of_job.chain(self.plan.fragments.iter().cloned());
        match spec.distribution {
            // One kernel serves all jobs for which the distribution has what they need.
            Some(_) => {
                let always = self.plan.always.iter().cloned();
                spec.required.extend(needed.chain(always));
            }
            None => spec.add_extras(needed),
        }
        spec.add_extras(&self.common.extra);
        Some(spec)
    }

    /// Which kernel gets the fault, if there is one: the last, so that a patched one is compared
    /// with a pristine one that has none.
    fn planted_in(&self) -> Option<Variant> {
        self.variants.last().copied()
    }

    /// Whether the plugin has a part in it.
    pub fn needs_plugin(&self) -> bool {
        self.job.facts().counts || self.common.referee
    }

    /// Name of the CPU profile.
    pub fn profile(&self) -> &str {
        let asked = self.common.profile.as_deref();
        asked.unwrap_or(default_profile(self.arch))
    }

    /// Seconds that one guest may take.
    pub fn time_limit_s(&self) -> u32 {
        self.common.timeout.unwrap_or(self.plan.time_limit_s)
    }

    /// Kernel parameters besides those of every guest. Figures of two boots must be comparable, so
    /// kernels that a distribution has randomise their own addresses in none.
    pub fn parameters(&self) -> String {
        let of_plan = self.plan.parameters.iter().map(String::as_str);
        let own = self.distribution.is_some().then_some("nokaslr");
        let all = own.into_iter().chain(of_plan);
        let all: Vec<_> = all.chain([self.common.append.as_str()]).collect();
        all.join(" ").trim_end().to_string()
    }

    /// Whom a disk is for.
    pub fn disk_for(&self, disk: &Disk, kernels: &Kernels) -> DiskFor {
        DiskFor {
            base: self.base,
            arch: self.arch,
            filesystem: disk.filesystem,
            aligned: disk.aligned,
            kernel_dir: match kernels {
                Kernels::Built(files) => Some(files.clone()),
                Kernels::Commits(..) | Kernels::Given(_) => None,
            },
        }
    }
}

/// Whether there is something to sweep over.
fn check_sweep(job: &dyn AnyJob, common: &Common, arch: Arch) -> Result<()> {
    if common.sweep_model.is_empty() {
        return Ok(());
    }
    if !job.facts().counts {
        bail!(
            "--sweep-model: the job {job} counts no TLB misses: ask for one that does, such as exec"
        );
    }
    if common.referee {
        bail!(
            "--sweep-model: the referee judges TLB maintenance, which no model changes: leave --referee out"
        );
    }
    let profile = common.profile.as_deref().unwrap_or(default_profile(arch));
    let profile = Profile::by_name(profile)?;
    let sweep = chosen(profile, &common.sweep_model);
    sweep
        .map(drop)
        .map_err(|why| anyhow!("--sweep-model: {why}"))
}

/// The configuration that is asked for, which must be one of this architecture and page size.
fn distribution(common: &Common, arch: Arch, page_size: PageSize) -> Result<Option<Distribution>> {
    let Some(name) = &common.config else {
        return Ok(None);
    };
    let distribution = Distribution::parse(name)?;
    let has = distribution.page_size(arch)?;
    if has != page_size {
        bail!(
            "--config {name}: its kernels have pages of {has}, not of {page_size}: leave --page-size out"
        );
    }
    Ok(Some(distribution))
}
