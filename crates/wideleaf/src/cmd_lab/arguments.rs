// SPDX-License-Identifier: GPL-2.0-only
//! Arguments of `wideleaf lab run` for all jobs, and the runs that they ask for.

use super::outcome::Outcome;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use wideleaf_kbuild::{Arch, Base, Commit, Distribution, PageSize, Variant};
use wideleaf_lab::common::Common;
use wideleaf_lab::expect::Expectation;
use wideleaf_lab::job::AnyJob;
use wideleaf_lab::target::Target;

/// On which machines and kernels, how often, and what becomes of the results.
#[derive(clap::Args, Debug)]
pub struct RunArgs {
    /// Kernel base; with --tree, whose fragments are taken [default: 6.12; with
    /// --tree the newest that is not newer than the tree]
    #[arg(long, value_parser = ["6.12", "7.3", "all"])]
    base: Option<String>,
    /// Guest architecture
    #[arg(long, default_value = "arm64", value_parser = ["arm64", "x86_64", "all"])]
    arch: String,
    /// Guest base page size [default: 64K on arm64, 4K on x86_64]
    #[arg(long, value_parser = ["4K", "16K", "64K", "all"])]
    page_size: Option<String>,
    /// Which kernels, with commas between [default: pristine,patched, or what
    /// the job makes sense with]
    #[arg(long, alias = "variant", value_name = "VARIANTS", value_delimiter = ',', value_parser = variant)]
    variants: Vec<Variant>,
    /// Boot each kernel so often and report how much the counts differ
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    /// Fail unless a figure is so; may be repeated
    #[arg(long, value_name = "EXPECTATION", value_parser = |text: &str| Expectation::parse(text))]
    pub(super) expect: Vec<Expectation>,
    /// Write everything that was found, as JSON; - is standard output
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    /// Show all digits, and changes that repeated runs have too
    #[arg(long)]
    pub(super) exact: bool,
    #[command(flatten)]
    pub(super) outcome: Outcome,
    /// Keep each boot's console, answers and counts in this folder
    #[arg(long, value_name = "DIR")]
    pub(super) keep: Option<PathBuf>,
    /// Kernels that are already built: pristine=PATH,patched=PATH
    #[arg(long, value_name = "KERNELS", value_delimiter = ',', value_parser = given_kernel)]
    pub(super) kernel: Vec<(Variant, PathBuf)>,
    /// Kernels of your own: a git tree of which two commits are built, with the
    /// lab's fragments; what is not committed does not count
    #[arg(long, value_name = "DIR", conflicts_with_all = ["kernel", "plant", "source_version"])]
    pub(super) tree: Option<PathBuf>,
    /// The commit of --tree that is compared with
    #[arg(long, value_name = "REF", requires = "tree")]
    pristine: Option<String>,
    /// The commit of --tree that is compared
    #[arg(long, value_name = "REF", requires = "tree")]
    patched: Option<String>,
    /// Debian's version of the base's source [default: the newest]
    #[arg(long, value_name = "VERSION", conflicts_with = "kernel")]
    source_version: Option<String>,
    /// Folder with the fragments, overlay and patches [default: the nearest
    /// `kernel` above the current folder]
    #[arg(long, value_name = "DIR")]
    pub(super) kernel_dir: Option<PathBuf>,
    /// Static wideleaf-guest of the guest's architecture [default: searched for]
    #[arg(long, value_name = "FILE")]
    pub(super) guest_bin: Option<PathBuf>,
    /// TLB plugin [default: searched for]
    #[arg(long, value_name = "FILE")]
    pub(super) plugin: Option<PathBuf>,
}

fn variant(text: &str) -> Result<Variant> {
    Ok(text.parse()?)
}

fn given_kernel(text: &str) -> Result<(Variant, PathBuf)> {
    let (variant, path) = text
        .split_once('=')
        .with_context(|| format!("'{text}': write pristine=PATH or patched=PATH"))?;
    Ok((variant.parse()?, path.into()))
}

/// A job, and all that is asked of it.
#[derive(Debug)]
pub struct Run {
    /// The job.
    pub(super) job: &'static dyn AnyJob,
    /// On what it runs.
    pub(super) on: RunArgs,
    /// Options of every job.
    pub(super) common: Common,
    /// Options of this one.
    pub(super) own: Value,
}

impl Run {
    /// The runs that the arguments ask for; an error is wrong usage.
    pub fn targets(&self) -> Result<Vec<Target>> {
        let variants = self.variants()?;
        let asked_base = self.asked_base(&variants)?;
        let mut targets = Vec::new();
        for &base in Base::ALL {
            for &arch in Arch::ALL {
                if !asked(&asked_base, base.name()) || !asked(&self.on.arch, arch.name()) {
                    continue;
                }
                for page_size in self.page_sizes(arch)? {
                    for (part, own) in self.parts(arch)? {
                        let machine = (base, arch, page_size);
                        targets.push(Target {
                            part,
                            variants: variants.clone(),
                            repeat: self.on.repeat,
                            source_version: self.on.source_version.clone(),
                            ..Target::new(self.job, machine, self.common.clone(), own)?
                        });
                    }
                }
            }
        }
        self.check(&variants, &targets)?;
        Ok(targets)
    }

    /// The options of each part of the job.
    fn parts(&self, arch: Arch) -> Result<Vec<(Option<String>, Value)>> {
        let parts = self.job.parts(&self.own, arch)?;
        if parts.is_empty() {
            return Ok(vec![(None, self.own.clone())]);
        }
        let named = parts.into_iter().map(|(name, own)| (Some(name), own));
        Ok(named.collect())
    }

    fn check(&self, variants: &[Variant], targets: &[Target]) -> Result<()> {
        self.on.outcome.check(self.on.json.as_deref())?;
        if targets.is_empty() {
            bail!("--arch {} has no such --page-size", self.on.arch);
        }
        if self.common.profile.is_some() && !self.job.facts().counts && !self.common.referee {
            bail!(
                "--profile: the job {} counts nothing, so no CPU is modelled without --referee",
                self.job
            );
        }
        let is_built_anew = !self.common.extra.is_empty()
            || self.common.plant.is_some()
            || self.common.config.is_some();
        if !self.on.kernel.is_empty() && is_built_anew {
            bail!(
                "--extra, --plant and --config are about kernels to build, --kernel names built ones"
            );
        }
        if self.on.tree.is_some() && self.common.config.is_some() {
            bail!("--config is about Debian's sources: leave --tree out");
        }
        if self.on.source_version.is_some() && self.on.base.as_deref() == Some("all") {
            bail!("--source-version is one base's: name it with --base");
        }
        let is_first = |target: &&Target| target.part == targets[0].part;
        if !self.on.kernel.is_empty() && targets.iter().filter(is_first).count() > 1 {
            bail!("--kernel names kernels of one base, architecture and page size: name these too");
        }
        if !self.common.sweep_model.is_empty()
            && (variants.len() < 2 || variants[0] != Variant::Pristine)
        {
            bail!(
                "--sweep-model is about changes: it needs a pristine kernel and another one, \
                 leave --variants out"
            );
        }
        for expectation in &self.on.expect {
            let both = variants.contains(&Variant::Pristine) && variants.len() > 1;
            if expectation.needs_both() && !both {
                bail!(
                    "an expectation in percent needs a pristine kernel and another one: leave --variants out"
                );
            }
            if expectation.needs_repeat() && self.on.repeat < 2 {
                bail!("a 'spread' needs --repeat 2 or more");
            }
        }
        Ok(())
    }

    /// The base or bases asked for; with a tree, the one whose fragments suit it.
    fn asked_base(&self, variants: &[Variant]) -> Result<String> {
        let Some(commits) = self.commits()? else {
            return Ok(self.on.base.clone().unwrap_or("6.12".into()));
        };
        if self.job.facts().builds_from_base {
            bail!(
                "the job {} is built from Debian's source: leave --tree out, or ask for another",
                self.job
            );
        }
        if let Some(variant) = variants.iter().find(|v| !commits.contains_key(v)) {
            bail!(
                "--tree: which commit is the {variant} kernel's? Give --pristine and --patched, \
                 or ask by --variants for what you give"
            );
        }
        match self.on.base.as_deref() {
            Some("all") => bail!("--base all: a tree is built with the fragments of one base"),
            Some(base) => Ok(base.into()),
            None => {
                let oldest = commits.values().map(|commit| commit.base()).min();
                Ok(oldest.unwrap_or(Base::V6_12).to_string())
            }
        }
    }

    /// The commits of `--tree`, if there is one.
    pub(super) fn commits(&self) -> Result<Option<BTreeMap<Variant, Commit>>> {
        let Some(tree) = &self.on.tree else {
            return Ok(None);
        };
        let given = [
            (Variant::Pristine, "--pristine", &self.on.pristine),
            (Variant::Patched, "--patched", &self.on.patched),
        ];
        let mut commits = BTreeMap::new();
        for (variant, option, name) in given {
            if let Some(name) = name {
                let commit = Commit::find(tree, name).map_err(|why| why.context(option))?;
                commits.insert(variant, commit);
            }
        }
        Ok(Some(commits))
    }

    /// In the order in which tables show them.
    fn variants(&self) -> Result<Vec<Variant>> {
        let known = self.job.facts().possible_variants;
        if self.on.variants.is_empty() {
            // What --pristine and --patched name is not built from a series.
            let of_tree = [Variant::Pristine, Variant::Patched];
            if self.on.tree.is_some() && of_tree.iter().all(|v| known.contains(v)) {
                return Ok(of_tree.to_vec());
            }
            return Ok(self.job.facts().variants.to_vec());
        }
        if let Some(other) = self.on.variants.iter().find(|v| !known.contains(v)) {
            bail!("the job {} makes no sense with a {other} kernel", self.job);
        }
        let asked = Variant::ALL.iter().copied();
        Ok(asked.filter(|v| self.on.variants.contains(v)).collect())
    }

    fn page_sizes(&self, arch: Arch) -> Result<Vec<PageSize>> {
        let possible = arch.page_sizes();
        let Some(name) = &self.on.page_size else {
            let size = match &self.common.config {
                Some(config) => Distribution::parse(config)?.page_size(arch)?,
                None => arch.default_page_size(),
            };
            return Ok(vec![size]);
        };
        let sizes = possible.iter().copied();
        let sizes: Vec<_> = sizes.filter(|size| asked(name, size.name())).collect();
        // Among all architectures, those that have the size.
        if sizes.is_empty() && self.on.arch != "all" {
            let known: Vec<_> = possible.iter().map(|size| size.name()).collect();
            bail!(
                "--page-size {name}: {arch} has pages of {} only",
                known.join(", ")
            );
        }
        Ok(sizes)
    }
}

fn asked(wanted: &str, name: &str) -> bool {
    wanted == "all" || wanted == name
}
