// SPDX-License-Identifier: GPL-2.0-only
//! What is to be run: a job, the machine, the kernels.

use crate::disk::DiskFor;
use crate::job::Job;
use crate::options::Options;
use std::collections::BTreeMap;
use std::path::PathBuf;
use wideleaf_kbuild::{Arch, Base, Commit, KernelDir, PageSize, Spec, Variant};

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
            ..
        } = self;
        write!(f, "{job}, Linux {base}, {arch}, {page_size} pages")
    }
}

impl Target {
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
            .then(|| self.options.plant.clone())
            .flatten();
        spec.add_extras(self.job.fragments().iter().copied());
        spec.add_extras(&self.options.extras);
        Some(spec)
    }

    /// Which kernel gets the fault, if there is one: the last, so that a patched one is compared
    /// with a pristine one that has none.
    fn planted_in(&self) -> Option<Variant> {
        self.variants.last().copied()
    }

    /// Whether the plugin has a part in it.
    pub(crate) fn needs_plugin(&self) -> bool {
        self.job.counts() || self.options.referee
    }

    /// Whom the job's disk is for.
    pub fn disk_for(&self, kernels: &Kernels) -> DiskFor {
        DiskFor {
            base: self.base,
            arch: self.arch,
            filesystem: self.options.filesystem,
            aligned: self.options.aligned,
            kernel_dir: match kernels {
                Kernels::Built(files) => Some(files.clone()),
                Kernels::Commits(..) | Kernels::Given(_) => None,
            },
        }
    }
}
