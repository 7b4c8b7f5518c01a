// SPDX-License-Identifier: GPL-2.0-only
//! The options of `wideleaf lab run`, and which runs they ask for.

use anyhow::{Context, Result, bail};
use clap::builder::PossibleValuesParser;
use std::path::PathBuf;
use wideleaf_guest::protocol::Stride;
use wideleaf_kernel::{Arch, Base, PageSize, Variant};
use wideleaf_lab::expect::Expectation;
use wideleaf_lab::image::Filesystem;
use wideleaf_lab::job::{self, Job, Options, default_profile};
use wideleaf_lab::profiles;
use wideleaf_lab::run::Target;

const EXAMPLES: &str = "\
Jobs:
  exec          a large executable file of return stubs, called cold and at random
  exec-sizes    the same at mapping sizes from 64K to 512M
  sparse        text of which 1 to 100 % is executed
  program       perl, python, openssl of Debian under ld.so, a library under musl's
  entropy       where programs and libraries come to lie over 1000 loads
  mm-selftests  the base's own selftests/mm: which tests do not end the same way
  kunit         the patched kernel's own KUnit suites
  boot          whether the kernels boot to user space and power off

Variants:       pristine, patched; fixed-contpte on arm64: text is read by the
                constant order of the contpte leaf, without a policy

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
  wideleaf lab run --job exec-sizes --variants pristine,fixed-contpte,patched
  wideleaf lab run --job sparse --expect 'pages:10.cold.read_bytes<=125%'
  wideleaf lab run --size 256M --memory-limit 64M --calls 4096
  wideleaf lab run --arch x86_64 --fs ext4 --base 7.3 --profile sapphire-rapids
  wideleaf lab run --kernel pristine=old/Image,patched=new/Image

Exit status:    0 done, 1 a run or an expectation failed, 2 wrong usage";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Run {
    /// What to run
    #[arg(long, default_value = "exec", value_parser = job::find)]
    job: &'static dyn Job,
    /// Kernel base
    #[arg(long, default_value = "6.12", value_parser = ["6.12", "7.3", "all"])]
    base: String,
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
    /// File system of the stub file: xfs or ext4
    #[arg(long, value_name = "FS", default_value = "xfs")]
    fs: Filesystem,
    /// Size of the stub file [default: 512M, 128M for the job sparse]
    #[arg(long, value_parser = wideleaf_size::parse)]
    size: Option<u64>,
    /// Sizes of the job exec-sizes, with commas between [default: 64K,128K and
    /// so on to 512M]
    #[arg(long, value_name = "SIZES", value_delimiter = ',', value_parser = wideleaf_size::parse)]
    sizes: Vec<u64>,
    /// What the job sparse executes, patterns of 'policy simulate' with commas
    /// between [default: from pages:10, 1 % of all pages, to sweep]
    #[arg(long, value_name = "PATTERNS", value_delimiter = ',')]
    touch: Vec<String>,
    /// Memory that the benchmark's cgroup may use (memory.max)
    #[arg(long, value_name = "SIZE", value_parser = wideleaf_size::parse)]
    memory_limit: Option<u64>,
    /// Memory that is free above the high watermarks when the benchmark begins;
    /// the rest of the guest's is taken
    #[arg(long, value_name = "SIZE", value_parser = wideleaf_size::parse)]
    free_memory: Option<u64>,
    /// That memory is free page by page only, so that no wide folio can be had
    #[arg(long, requires = "free_memory")]
    fragmented: bool,
    /// Distance between two called stubs: page, or a multiple of 4K
    #[arg(long, default_value = "page")]
    stride: Stride,
    /// Random calls [default: eight per stub]
    #[arg(long)]
    calls: Option<u64>,
    /// Seed of the random sequence
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How often the entropy job loads each program and library
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(2..))]
    loads: u32,
    /// Programs of the program job [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    programs: Vec<String>,
    /// Readahead window of the guest's disk
    #[arg(long, value_name = "SIZE", default_value = "128K", value_parser = wideleaf_size::parse)]
    read_ahead: u64,
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
    #[arg(
        long,
        value_name = "CATEGORIES",
        default_value = "",
        hide_default_value = true
    )]
    tests: String,
    /// Programs of the job mm-selftests that are not run, because they take too
    /// long: 'cow transhuge-stress' [default: none]
    #[arg(
        long,
        value_name = "PROGRAMS",
        default_value = "",
        hide_default_value = true
    )]
    without: String,
    /// Keep each boot's console, answers and counts in this folder
    #[arg(long, value_name = "DIR")]
    pub(super) keep: Option<PathBuf>,
    /// Kernels that are already built: pristine=PATH,patched=PATH
    #[arg(long, value_name = "KERNELS", value_delimiter = ',', value_parser = given_kernel)]
    pub(super) kernel: Vec<(Variant, PathBuf)>,
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

fn variant(text: &str) -> Result<Variant> {
    Ok(text.parse()?)
}

fn given_kernel(text: &str) -> Result<(Variant, PathBuf)> {
    let (variant, path) = text
        .split_once('=')
        .with_context(|| format!("'{text}': write pristine=PATH or patched=PATH"))?;
    Ok((variant.parse()?, path.into()))
}

impl Run {
    /// What the arguments ask for; an error is wrong usage.
    pub fn targets(&self) -> Result<Vec<Target>> {
        let variants = self.variants()?;
        let mut targets = Vec::new();
        for &base in Base::ALL {
            for &arch in Arch::ALL {
                if !asked(&self.base, base.name()) || !asked(&self.arch, arch.name()) {
                    continue;
                }
                if let Some(variant) = variants.iter().find(|v| !v.exists_on(arch)) {
                    bail!("--variants {variant}: {arch} has no contpte leaf, so no such kernel");
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
        if !self.kernel.is_empty() && targets.len() > 1 {
            bail!("--kernel names kernels of one base, architecture and page size: name these too");
        }
        for expectation in &self.expect {
            let both = [Variant::Pristine, Variant::Patched];
            if expectation.needs_both() && !both.iter().all(|v| variants.contains(v)) {
                bail!(
                    "an expectation in percent needs both a pristine and a patched kernel: leave --variants out"
                );
            }
            if expectation.needs_repeat() && self.repeat < 2 {
                bail!("a 'spread' needs --repeat 2 or more");
            }
        }
        Ok(())
    }

    /// In the order in which tables show them.
    fn variants(&self) -> Result<Vec<Variant>> {
        let of_job = self.job.variants();
        if self.variants.is_empty() {
            return Ok(of_job.to_vec());
        }
        // A job that compares takes any kernel.
        let known = if of_job.len() > 1 {
            Variant::ALL
        } else {
            of_job
        };
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
        let kib = self.read_ahead >> 10;
        let read_ahead_kb = u32::try_from(kib)
            .ok()
            .filter(|_| self.read_ahead.is_multiple_of(1024));
        let usual = Options::new(self.job, arch);
        Ok(Options {
            filesystem: self.fs,
            size: self.size.unwrap_or(usual.size),
            sizes: given(&self.sizes).unwrap_or(usual.sizes),
            patterns: given(&self.touch).unwrap_or(usual.patterns),
            memory_limit: self.memory_limit,
            free_memory: self.free_memory,
            fragmented: self.fragmented,
            stride: self.stride,
            calls: self.calls,
            seed: self.seed,
            loads: self.loads,
            programs: self.programs.clone(),
            read_ahead_kb: read_ahead_kb.with_context(|| {
                format!(
                    "--read-ahead {}: not a multiple of 1K below 4096G",
                    self.read_ahead
                )
            })?,
            profile: profile.into(),
            tests: self.tests.clone(),
            without: self.without.clone(),
            parameters: self.append.clone(),
            time_limit_s: self.timeout.unwrap_or(usual.time_limit_s),
        })
    }
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
    use wideleaf_lab::job::JOBS;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        run: Run,
    }

    fn parse(args: &str) -> Result<Vec<Target>> {
        let words = std::iter::once("run").chain(args.split_whitespace());
        Cli::try_parse_from(words)?.run.targets()
    }

    fn refusal(args: &str) -> String {
        match parse(args) {
            Ok(targets) => panic!("{args}: accepted as {targets:?}"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn the_default_is_the_issues() {
        let targets = parse("").unwrap();
        assert_eq!(targets.len(), 1);
        let target = &targets[0];
        assert_eq!(target.to_string(), "exec, Linux 6.12, arm64, 64K pages");
        assert_eq!(target.options, Options::new(JOBS[0], Arch::Arm64));
        assert_eq!(target.variants, [Variant::Pristine, Variant::Patched]);
    }

    #[test]
    fn all_is_every_possible_combination() {
        let targets = parse("--base all --arch all --page-size all").unwrap();
        assert_eq!(targets.len(), 2 * (3 + 1));
        // Only arm64 has it.
        assert_eq!(parse("--arch all --page-size 16K").unwrap().len(), 1);
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
            ("--variant pristine --expect cold.faults<=5%", "both"),
            ("--expect spread<=1%", "--repeat"),
            ("--expect cold.faults", "cold.faults"),
            ("--size 100K", "64K"),
            ("--size 0", "0"),
            ("--job exec-sizes --sizes 64K,64K", "twice"),
            ("--job sparse --touch pages", "pattern"),
            ("--arch x86_64 --variants fixed-contpte", "contpte"),
            ("--job kunit --variants fixed-contpte", "kunit"),
            ("--read-ahead 100", "1K"),
            ("--read-ahead 16K", "64K"),
            ("--repeat 0", "1"),
            ("--timeout 0", "1"),
            ("--calls 0", "0"),
        ] {
            let text = refusal(args);
            assert!(text.contains(word), "{args}: {text}");
        }
    }

    #[test]
    fn the_help_lists_what_there_is() {
        let jobs = JOBS.map(|job| job.name());
        let bases = Base::ALL.iter().map(|base| base.to_string());
        let arches = Arch::ALL.iter().map(|arch| arch.to_string());
        let sizes = PageSize::ALL.iter().map(|size| size.to_string());
        let profiles = profiles::names().into_iter().map(str::to_string);
        for name in jobs
            .into_iter()
            .chain(bases)
            .chain(arches)
            .chain(sizes)
            .chain(profiles)
        {
            assert!(EXAMPLES.contains(&name), "--help lacks {name}");
        }
    }
}
