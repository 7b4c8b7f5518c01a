// SPDX-License-Identifier: GPL-2.0-only
//! The options of `wideleaf lab run`, and which runs they ask for.

use anyhow::{Context, Result, bail};
use clap::builder::PossibleValuesParser;
use std::collections::BTreeMap;
use std::path::PathBuf;
use wideleaf_guest::protocol::{Advice, Scenario, Stride};
use wideleaf_kbuild::{Arch, Base, Commit, PageSize, Variant};
use wideleaf_lab::disk::filesystem::Filesystem;
use wideleaf_lab::expect::Expectation;
use wideleaf_lab::job::{Job, usual};
use wideleaf_lab::jobs;
use wideleaf_lab::options::{CpuModel, Options, Setting};
use wideleaf_lab::profiles::{self, default_profile};
use wideleaf_lab::target::Target;

const EXAMPLES: &str = "\
Jobs:
  exec          a large executable file of return stubs, called cold and at random
  exec-sizes    the same at mapping sizes from 64K to 512M
  sparse        text of which 1 to 100 % is executed
  program       perl, python, openssl of Debian under ld.so, a library under musl's
  entropy       where programs and libraries come to lie over 1000 loads
  storm         text used and changed by many processes on several CPUs at once
  linear-map    the kernel's linear map after boot: bytes by leaf, page tables
  linear-storm  its permissions changed by many processes; then wide again?
  linear-others these changes meet ptdump, kexec, hotplug, hibernation, kfence
  linear-work   page cache, requests, an encrypted disk: the kernel's own misses
  mm-selftests  the base's own selftests/mm: which tests do not end the same way
  kunit         the patched kernel's own KUnit suites
  shared-writes shared file mappings written page by page: what each page costs
  contpte       contiguous groups of page-table entries made and broken (arm64)
  maintenance   memory protected, unmapped, moved, shared, reused: for --referee
  boot          whether the kernels boot to user space and power off

Variants:       pristine, patched; and parts of the series, each with those before:
                fixes (bugs of the base), aligned (placed where wide leaves fit),
                reads (text read by the widest leaf that its mapping holds), writes
                (write faults on shared mappings map what fits of a folio), evidence
                (text read so only where faults gave evidence that it pays).
                The series on the linear map: linear-map; both (patched, then linear-map)

Bases:          6.12 (default), 7.3
Architectures:  arm64 (default), x86_64
Page sizes:     4K, 16K, 64K (default) on arm64; 4K on x86_64
Profiles:       neoverse-v2 (default), neoverse-n1, cortex-a53 on arm64;
                zen4 (default), sapphire-rapids on x86_64

Expectations:   FIGURE<=LIMIT or FIGURE>=LIMIT; with % of the pristine kernel's
                value, without % compared with the patched kernel's. Figures are
                those of the JSON, see docs/lab-schema.md; FIGURE.spread is the
                largest difference between repeated runs, 'spread' that of all
                of the table.

Examples:
  wideleaf lab run
  wideleaf lab run --base all --page-size all --json results.json
  wideleaf lab run --size 64M --expect 'random.walks<=1%' --expect 'cold.faults<=5%'
  wideleaf lab run --repeat 2 --expect 'spread<=0.5%'
  wideleaf lab run --job exec-sizes --variants pristine,reads,patched
  wideleaf lab run --variants pristine,fixes,aligned,reads,writes,evidence,patched
  wideleaf lab run --job sparse --expect 'pages:10.cold.read_bytes<=125%'
  wideleaf lab run --size 256M --memory-limit 64M --calls 4096
  wideleaf lab run --arch x86_64 --fs ext4 --base 7.3 --profile sapphire-rapids
  wideleaf lab run --job program --programs openssl-shifted --page-size 16K --align
  wideleaf lab run --job storm --seconds 600 --seed 7 --fs ext4 --extra storm
  wideleaf lab run --job storm --scenario collapse-truncate --variants pristine
  wideleaf lab run --job boot --referee
  wideleaf lab run --job linear-map --memory 64G --append rodata=full
  wideleaf lab run --job linear-others --variants linear-map --extra storm
  wideleaf lab run --job shared-writes --variants pristine,writes
  wideleaf lab run --kernel pristine=old/Image,patched=new/Image
  wideleaf lab run --tree ~/linux --pristine v7.3 --patched my-branch

Exit status:    0 done, 1 a run or an expectation failed, 2 wrong usage";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct RunArgs {
    /// What to run
    #[arg(long, default_value = "exec", value_parser = jobs::find)]
    pub(super) job: &'static dyn Job,
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
    /// File system of the guest's disk: xfs or ext4 [default: xfs]
    #[arg(long, value_name = "FS")]
    fs: Option<Filesystem>,
    /// Size of the stub file [default: 512M, 128M for the job sparse]
    #[arg(long, value_parser = wideleaf_kit::size::parse)]
    size: Option<u64>,
    /// Sizes of the job exec-sizes, with commas between [default: 64K,128K and
    /// so on to 512M]
    #[arg(long, value_name = "SIZES", value_delimiter = ',', value_parser = wideleaf_kit::size::parse)]
    sizes: Vec<u64>,
    /// What the job sparse executes, patterns of 'policy simulate' with commas
    /// between [default: from pages:10, 1 % of all pages, to sweep]
    #[arg(long, value_name = "PATTERNS", value_delimiter = ',')]
    touch: Vec<String>,
    /// What the kernel is told of the mapping in the job sparse: random,
    /// sequential or hugepage [default: nothing]
    #[arg(long, value_name = "ADVICE")]
    advice: Option<Advice>,
    /// Have the job sparse map its file as data and read where it else executes
    #[arg(long)]
    data: bool,
    /// What is written to fault_around_bytes before the job sparse [default: nothing]
    #[arg(long, value_name = "SIZE", value_parser = wideleaf_kit::size::parse)]
    fault_around: Option<u64>,
    /// Memory of the guest, in the jobs on the linear map [default: 2G, or what the
    /// job needs]
    #[arg(long, value_name = "SIZE", value_parser = memory)]
    memory: Option<u64>,
    /// Memory that the benchmark's cgroup may use (memory.max)
    #[arg(long, value_name = "SIZE", value_parser = wideleaf_kit::size::parse)]
    memory_limit: Option<u64>,
    /// Memory that is free above the high watermarks when the benchmark begins;
    /// the rest of the guest's is taken
    #[arg(long, value_name = "SIZE", value_parser = wideleaf_kit::size::parse)]
    free_memory: Option<u64>,
    /// That memory is free page by page only, so that no wide folio can be had
    #[arg(long, requires = "free_memory")]
    fragmented: bool,
    /// Distance between two called stubs: page, or a multiple of 4K
    /// [default: page]
    #[arg(long)]
    stride: Option<Stride>,
    /// Random calls [default: eight per stub]; reads, requests and writes of the
    /// job linear-work [5000]; rounds of each process in linear-storm [200]
    #[arg(long)]
    calls: Option<u64>,
    /// Seed of the random sequence [default: 1]
    #[arg(long)]
    seed: Option<u64>,
    /// How often the job entropy loads each program and library [default: 1000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..))]
    loads: Option<u32>,
    /// CPUs of the guest [default: 1, in the job storm 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=8))]
    cpus: Option<u32>,
    /// What an arm64 guest's CPUs are: max; bbm, whose kernels may change the size of
    /// leaves live; bbm-no-lpa2, such with 48 bits of address; bbm-mte, such with tagged
    /// memory; or no-ets2, where a load may be translated before a barrier
    /// [default: max; bbm in jobs on the linear map]
    #[arg(long, value_name = "MODEL")]
    cpu_model: Option<CpuModel>,
    /// Seconds that the job storm lasts [default: 60], and each meeting in linear-others
    /// [10]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=86400))]
    seconds: Option<u32>,
    /// What is played in the job storm: all, collapse-truncate, pinned,
    /// direct-write, slow-read, busy-cpu or charged [default: all]
    #[arg(long, value_name = "NAME")]
    scenario: Option<Scenario>,
    /// A further fragment of kernel/config for the kernels, such as debug or
    /// storm; may be repeated
    #[arg(long, value_name = "FRAGMENT")]
    extra: Vec<String>,
    /// A fault of kernel/planted that the kernel gets, or the last of several,
    /// which the job is to notice
    #[arg(long, value_name = "NAME")]
    plant: Option<String>,
    /// Programs of the program job [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    programs: Vec<String>,
    /// Give the programs and libraries of the program job to 'wideleaf align'
    /// before they are put on the disk
    #[arg(long)]
    align: bool,
    /// Readahead window of the guest's disk [default: 128K]
    #[arg(long, value_name = "SIZE", value_parser = wideleaf_kit::size::parse)]
    read_ahead: Option<u64>,
    /// CPU whose TLBs are modelled [default: neoverse-v2, zen4]
    #[arg(long, value_parser = PossibleValuesParser::new(profiles::names()))]
    profile: Option<String>,
    /// Boot each kernel so often and report how much the counts differ
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    /// What a figure should be; may be repeated
    #[arg(long, value_name = "EXPECTATION", value_parser = |text: &str| Expectation::parse(text))]
    pub(super) expect: Vec<Expectation>,
    /// Write everything that was found, as JSON; - is standard output
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    /// Watch over the guest's TLB maintenance: stale use, changes without
    /// break-before-make, size conflicts; anything found fails the run
    #[arg(long)]
    referee: bool,
    /// More kernel parameters for the guest
    #[arg(
        long,
        value_name = "PARAMETERS",
        default_value = "",
        hide_default_value = true,
        allow_hyphen_values = true
    )]
    append: String,
    /// Seconds that one guest may take [default: 600 for exec]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    timeout: Option<u32>,
    /// Categories of the job mm-selftests, as the base's run_vmtests.sh has
    /// them: 'mmap mremap thp' [default: all]
    #[arg(long, value_name = "CATEGORIES")]
    tests: Option<String>,
    /// Programs of the job mm-selftests that are not run, because they take too
    /// long: 'cow transhuge-stress' [default: none]
    #[arg(long, value_name = "PROGRAMS")]
    without: Option<String>,
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
    /// Static wideleaf of the guest's architecture [default: searched for]
    #[arg(long, value_name = "FILE")]
    pub(super) guest_bin: Option<PathBuf>,
    /// TLB plugin [default: searched for]
    #[arg(long, value_name = "FILE")]
    pub(super) plugin: Option<PathBuf>,
}

/// At least what a kernel boots with.
fn memory(text: &str) -> Result<u64> {
    let bytes = wideleaf_kit::size::parse(text).map_err(anyhow::Error::msg)?;
    if bytes < 512 << 20 || !bytes.is_multiple_of(1 << 20) {
        bail!("{text}: write a multiple of 1M from 512M on, such as 64G");
    }
    Ok(bytes)
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

impl RunArgs {
    /// What the arguments ask for; an error is wrong usage.
    pub fn targets(&self) -> Result<Vec<Target>> {
        for setting in self.given() {
            jobs::check_takes(self.job, setting).map_err(anyhow::Error::msg)?;
        }
        let variants = self.variants()?;
        let asked_base = self.asked_base(&variants)?;
        let mut targets = Vec::new();
        for &base in Base::ALL {
            for &arch in Arch::ALL {
                if !asked(&asked_base, base.name()) || !asked(&self.arch, arch.name()) {
                    continue;
                }
                for page_size in self.page_sizes(arch)? {
                    let options = self.options(arch)?;
                    self.job
                        .check(&options, page_size)
                        .map_err(anyhow::Error::msg)?;
                    targets.push(Target {
                        job: self.job,
                        base,
                        arch,
                        page_size,
                        options,
                        variants: variants.clone(),
                        repeat: self.repeat,
                        source_version: self.source_version.clone(),
                    });
                }
            }
        }
        self.check(&variants, &targets)?;
        Ok(targets)
    }

    fn check(&self, variants: &[Variant], targets: &[Target]) -> Result<()> {
        if targets.is_empty() {
            bail!("--arch {} has no such --page-size", self.arch);
        }
        if self.profile.is_some() && !self.job.counts() && !self.referee {
            bail!(
                "--profile: the job {} counts nothing, so no CPU is modelled without --referee",
                self.job
            );
        }
        let is_built_anew = !self.extra.is_empty() || self.plant.is_some();
        if !self.kernel.is_empty() && is_built_anew {
            bail!("--extra and --plant are about kernels to build, --kernel names built ones");
        }
        if self.source_version.is_some() && self.base.as_deref() == Some("all") {
            bail!("--source-version is one base's: name it with --base");
        }
        if !self.kernel.is_empty() && targets.len() > 1 {
            bail!("--kernel names kernels of one base, architecture and page size: name these too");
        }
        for expectation in &self.expect {
            let both = variants.contains(&Variant::Pristine) && variants.len() > 1;
            if expectation.needs_both() && !both {
                bail!(
                    "an expectation in percent needs a pristine kernel and another one: leave --variants out"
                );
            }
            if expectation.needs_repeat() && self.repeat < 2 {
                bail!("a 'spread' needs --repeat 2 or more");
            }
        }
        Ok(())
    }

    /// The options of jobs that the user named.
    fn given(&self) -> impl Iterator<Item = Setting> {
        [
            (Setting::Filesystem, self.fs.is_some()),
            (Setting::Size, self.size.is_some()),
            (Setting::Sizes, !self.sizes.is_empty()),
            (Setting::Touch, !self.touch.is_empty()),
            (Setting::Advice, self.advice.is_some()),
            (Setting::Data, self.data),
            (Setting::FaultAround, self.fault_around.is_some()),
            (Setting::Memory, self.memory.is_some()),
            (Setting::MemoryLimit, self.memory_limit.is_some()),
            (Setting::FreeMemory, self.free_memory.is_some()),
            (Setting::Fragmented, self.fragmented),
            (Setting::Stride, self.stride.is_some()),
            (Setting::Calls, self.calls.is_some()),
            (Setting::Seed, self.seed.is_some()),
            (Setting::Loads, self.loads.is_some()),
            (Setting::Programs, !self.programs.is_empty()),
            (Setting::Align, self.align),
            (Setting::ReadAhead, self.read_ahead.is_some()),
            (Setting::Tests, self.tests.is_some()),
            (Setting::Without, self.without.is_some()),
            (Setting::Cpus, self.cpus.is_some()),
            (Setting::CpuModel, self.cpu_model.is_some()),
            (Setting::Seconds, self.seconds.is_some()),
            (Setting::Scenario, self.scenario.is_some()),
        ]
        .into_iter()
        .filter_map(|(setting, given)| given.then_some(setting))
    }

    /// The base or bases asked for; with a tree, the one whose fragments suit it.
    fn asked_base(&self, variants: &[Variant]) -> Result<String> {
        let Some(commits) = self.commits()? else {
            return Ok(self.base.clone().unwrap_or("6.12".into()));
        };
        if self.job.builds_from_base() {
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
        match self.base.as_deref() {
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
        let Some(tree) = &self.tree else {
            return Ok(None);
        };
        let given = [
            (Variant::Pristine, "--pristine", &self.pristine),
            (Variant::Patched, "--patched", &self.patched),
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
        let known = self.job.possible_variants();
        if self.variants.is_empty() {
            // What --pristine and --patched name is not built from a series.
            let of_tree = [Variant::Pristine, Variant::Patched];
            if self.tree.is_some() && of_tree.iter().all(|v| known.contains(v)) {
                return Ok(of_tree.to_vec());
            }
            return Ok(self.job.variants().to_vec());
        }
        if let Some(other) = self.variants.iter().find(|v| !known.contains(v)) {
            bail!("the job {} makes no sense with a {other} kernel", self.job);
        }
        let asked = Variant::ALL.iter().copied();
        Ok(asked.filter(|v| self.variants.contains(v)).collect())
    }

    fn page_sizes(&self, arch: Arch) -> Result<Vec<PageSize>> {
        let possible = arch.page_sizes();
        let Some(name) = &self.page_size else {
            return Ok(vec![arch.default_page_size()]);
        };
        let sizes = possible.iter().copied();
        let sizes: Vec<_> = sizes.filter(|size| asked(name, size.name())).collect();
        // Among all architectures, those that have the size.
        if sizes.is_empty() && self.arch != "all" {
            let known: Vec<_> = possible.iter().map(|size| size.name()).collect();
            bail!(
                "--page-size {name}: {arch} has pages of {} only",
                known.join(", ")
            );
        }
        Ok(sizes)
    }

    fn options(&self, arch: Arch) -> Result<Options> {
        let profile = self.profile.as_deref().unwrap_or(default_profile(arch));
        if !profiles::fits(profile, arch) {
            let known = profiles::of(arch).join(", ");
            bail!("--profile {profile} is no {arch} CPU: known for {arch} are {known}");
        }
        let usual = usual(self.job, arch);
        Ok(Options {
            filesystem: self.fs.unwrap_or(usual.filesystem),
            size: self.size.unwrap_or(usual.size),
            sizes: given(&self.sizes).unwrap_or(usual.sizes),
            patterns: given(&self.touch).unwrap_or(usual.patterns),
            advice: self.advice,
            is_data: self.data,
            fault_around: self.fault_around,
            memory: self.memory,
            memory_limit: self.memory_limit,
            free_memory: self.free_memory,
            fragmented: self.fragmented,
            stride: self.stride.unwrap_or(usual.stride),
            calls: self.calls,
            seed: self.seed.unwrap_or(usual.seed),
            loads: self.loads.unwrap_or(usual.loads),
            programs: self.programs.clone(),
            aligned: self.align,
            cpus: self.cpus.unwrap_or(usual.cpus),
            cpu_model: self.cpu_model.unwrap_or(usual.cpu_model),
            seconds: self.seconds.unwrap_or(usual.seconds),
            scenario: self.scenario.unwrap_or(usual.scenario),
            extras: self.extra.clone(),
            plant: self.plant.clone(),
            read_ahead_kb: match self.read_ahead {
                Some(window) => kib(window)?,
                None => usual.read_ahead_kb,
            },
            profile: profile.into(),
            tests: self.tests.clone().unwrap_or_default(),
            without: self.without.clone().unwrap_or_default(),
            referee: self.referee,
            parameters: self.append.clone(),
            time_limit_s: self
                .timeout
                .unwrap_or(usual.time_limit_s + self.seconds.unwrap_or(0)),
        })
    }
}

/// The readahead window in KiB.
fn kib(window: u64) -> Result<u32> {
    u32::try_from(window >> 10)
        .ok()
        .filter(|_| window.is_multiple_of(1024))
        .with_context(|| format!("--read-ahead {window}: not a multiple of 1K below 4096G"))
}

/// `None` for an empty list.
fn given<T: Clone>(list: &[T]) -> Option<Vec<T>> {
    (!list.is_empty()).then(|| list.to_vec())
}

fn asked(wanted: &str, name: &str) -> bool {
    wanted == "all" || wanted == name
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use wideleaf_kbuild::KernelDir;
    use wideleaf_lab::jobs::JOBS;
    use wideleaf_lab::target::Kernels;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        run: RunArgs,
    }

    fn parse(args: &str) -> Result<Vec<Target>> {
        let words = std::iter::once("run").chain(args.split_whitespace());
        Cli::try_parse_from(words)?.run.targets()
    }

    fn refusal(args: &str) -> String {
        match parse(args) {
            Ok(targets) => panic!("{args}: accepted as {targets:?}"),
            Err(error) => format!("{error:#}"),
        }
    }

    #[test]
    fn the_default_is_the_issues() {
        let targets = parse("").unwrap();
        assert_eq!(targets.len(), 1);
        let target = &targets[0];
        assert_eq!(target.to_string(), "exec, Linux 6.12, arm64, 64K pages");
        assert_eq!(target.options, usual(JOBS[0], Arch::Arm64));
        assert_eq!(target.variants, [Variant::Pristine, Variant::Patched]);
    }

    #[test]
    fn a_fault_is_planted_in_the_last_kernel() {
        let files = || Kernels::Built(KernelDir::find(None).unwrap());
        let plants = |args: &str| {
            let target = &parse(args).unwrap()[0];
            let planted = |variant: &Variant| target.spec(*variant, &files()).unwrap().plant;
            target.variants.iter().map(planted).collect::<Vec<_>>()
        };
        let some = Some("no-unmap".to_string());
        assert_eq!(plants("--plant no-unmap"), [None, some.clone()]);
        assert_eq!(plants("--plant no-unmap --variants pristine"), [some]);
    }

    #[test]
    fn all_is_every_possible_combination() {
        let targets = parse("--base all --arch all --page-size all").unwrap();
        assert_eq!(targets.len(), 2 * (3 + 1));
        // Only arm64 has it.
        assert_eq!(parse("--arch all --page-size 16K").unwrap().len(), 1);
    }

    /// A comparison that these arguments ask for, without having been run.
    fn comparison(args: &str) -> wideleaf_lab::results::Comparison {
        let target = parse(args).unwrap().remove(0);
        serde_json::from_value(serde_json::json!({
            "job": target.job.name(),
            "base": target.base,
            "arch": target.arch,
            "page_size": target.page_size,
            "options": target.options,
            "memory_bytes": 0,
            "qemu": { "path": "/qemu", "version": "10" },
            "profile": null,
            "kernels": target.variants.iter().map(|variant| serde_json::json!({
                "variant": variant, "image": "/image", "image_hash": "",
            })).collect::<Vec<_>>(),
            "runs": [],
            "figures": {},
        }))
        .unwrap()
    }

    #[test]
    fn a_comparison_is_repeated_by_its_command() {
        for args in [
            "",
            "--base 7.3 --arch x86_64 --fs ext4 --profile sapphire-rapids",
            "--page-size 16K --size 256M --memory-limit 64M --calls 4096 --seed 7 --timeout 9",
            "--free-memory 24M --fragmented --stride 128K --read-ahead 8M",
            "--job exec-sizes --sizes 64K,2M --variants pristine,reads,patched",
            "--job sparse --touch pages:10,clusters:64K:50",
            "--job program --programs perl,python --align",
            "--job entropy --loads 20 --append nokaslr",
            "--job mm-selftests --tests mmap --without cow",
            "--job storm --cpus 2 --seconds 9 --scenario pinned --extra storm --plant no-unmap",
            "--job boot --cpus 2 --referee",
        ] {
            let command = super::super::repeat::command(&comparison(args));
            let again = command.strip_prefix("wideleaf lab run ").unwrap();
            let (asked, again) = (parse(args).unwrap(), parse(again).unwrap());
            assert_eq!(
                format!("{asked:?}"),
                format!("{again:?}"),
                "{args}: {command}"
            );
        }
    }

    #[test]
    fn unknown_names_list_the_known() {
        for (args, known) in [
            ("--base 6.13", "7.3"),
            ("--job exce", "kunit"),
            ("--arch riscv", "x86_64"),
            ("--page-size 8K", "64K"),
            ("--profile m1", "neoverse-n1"),
            ("--fs btrfs", "xfs, ext4"),
            ("--variant new", "patched"),
            (
                "--variants fixed-contpte",
                "aligned, reads, writes, evidence, patched, linear-map",
            ),
            ("--kernel old=/x", "pristine"),
        ] {
            let text = refusal(args);
            assert!(text.contains(known), "{args}: {text}");
        }
    }

    #[test]
    fn impossible_combinations_are_refused() {
        for (args, word) in [
            ("--arch x86_64 --page-size 16K", "4K only"),
            ("--arch x86_64 --profile cortex-a53", "zen4"),
            ("--job kunit --variant pristine", "kunit"),
            ("--base all --kernel pristine=/x", "--kernel"),
            (
                "--variant pristine --expect cold.faults<=5%",
                "a pristine kernel and another one",
            ),
            ("--expect spread<=1%", "--repeat"),
            ("--expect cold.faults", "cold.faults"),
            ("--size 100K", "64K"),
            ("--size 0", "0"),
            ("--job exec-sizes --sizes 64K,64K", "twice"),
            ("--job sparse --touch pages", "pattern"),
            ("--job kunit --variants reads", "kunit"),
            ("--read-ahead 100", "1K"),
            ("--read-ahead 16K", "64K"),
            ("--repeat 0", "1"),
            ("--timeout 0", "1"),
            ("--calls 0", "0"),
            (
                "--job boot --touch nonsense",
                "--touch is no option of the job boot, only of sparse",
            ),
            ("--job boot --size 1M", "exec, sparse"),
            ("--job kunit --seed 2", "storm"),
            ("--job mm-selftests --fs ext4", "--fs"),
            ("--job boot --profile cortex-a53", "--referee"),
            (
                "--align",
                "--align is no option of the job exec, only of program",
            ),
            ("--job storm --cpus 9", "8"),
            ("--cpus 0", "1"),
            ("--job storm --scenario rain", "collapse-truncate"),
            ("--job storm --scenario busy-cpu --cpus 1", "--cpus 2"),
            ("--kernel patched=/x --extra debug", "--extra"),
            ("--source-version 6.12.1-1 --base all", "--base"),
            ("--tree / --pristine HEAD", "not a git tree"),
            ("--tree /dev/null/tree --pristine HEAD", "no git tree"),
            ("--pristine HEAD", "--tree"),
            ("--tree /", "which commit is the pristine kernel's"),
            ("--tree / --job mm-selftests", "built from Debian's source"),
            ("--tree / --kernel patched=/x", "cannot be used with"),
        ] {
            let text = refusal(args);
            assert!(text.contains(word), "{args}: {text}");
        }
    }

    #[test]
    fn the_help_lists_what_there_is() {
        let (jobs, others) = EXAMPLES.split_once("\n\n").unwrap();
        let first_word = |line: &str| line.split_whitespace().next().map(str::to_string);
        let listed: Vec<_> = jobs.lines().skip(1).filter_map(first_word).collect();
        assert_eq!(listed, JOBS.map(|job| job.name()));
        // Whole words: 4K is in 64K.
        let is_of_word = |c: char| c.is_alphanumeric() || "-_.".contains(c);
        let words: Vec<_> = others.split(|c| !is_of_word(c)).collect();
        let bases = Base::ALL.iter().map(|base| base.name());
        let arches = Arch::ALL.iter().map(|arch| arch.name());
        let sizes = PageSize::ALL.iter().map(|size| size.name());
        let variants = Variant::ALL.iter().map(|variant| variant.name());
        let all = bases.chain(arches).chain(sizes).chain(variants);
        for name in all.chain(profiles::names()) {
            assert!(words.contains(&name), "--help lacks {name}");
        }
    }
}
