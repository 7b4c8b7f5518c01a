// SPDX-License-Identifier: GPL-2.0-only
//! `wideleaf lab run JOB`: a command for each job, made of its own options, those of every job and
//! those of `lab run`.

use super::arguments::{Run, RunArgs};
use anyhow::{Result, bail};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgMatches, Args, Command, FromArgMatches, Id, Parser};
use std::ffi::OsString;
use std::sync::LazyLock;
use wideleaf_jobs::registry;
use wideleaf_lab::common::Common;
use wideleaf_lab::job::{self, AnyJob};

const NOTES: &str = "\
Without a JOB it is exec. 'wideleaf lab run JOB --help' tells what a job takes.

Variants:       pristine, patched (all series on text); and the first of these series,
                each with those before: fixes (bugs of the base), aligned (placed where
                wide leaves fit), reads (text read and mapped by blocks), khugepaged
                (narrow blocks of text are collapsed); patched has write faults on
                shared mappings too.
                The series on the linear map: linear-map; both (patched, then linear-map)

Bases:          6.12 (default), 7.3
Architectures:  arm64 (default), x86_64
Page sizes:     4K, 16K, 64K (default) on arm64; 4K on x86_64
Profiles:       neoverse-v2 (default), neoverse-n1, cortex-a53 on arm64;
                zen4 (default), zen2, sapphire-rapids on x86_64

Expectations:   FIGURE<=LIMIT or FIGURE>=LIMIT; with % of the pristine kernel's
                value, without % compared with the patched kernel's. Figures are
                those of the JSON, see docs/lab-schema.md; FIGURE.spread is the
                largest difference between repeated runs, 'spread' that of all
                of the table.

Examples:
  wideleaf lab run
  wideleaf lab run exec --repeat 2 --expect 'spread<=0.5%'
  wideleaf lab run storm --kernel pristine=old/Image,patched=new/Image
  wideleaf lab run boot --tree ~/linux --pristine v7.3 --patched my-branch

Exit status:    0 done, 1 a run or an expectation failed, 2 wrong usage";

impl Args for Run {
    fn augment_args(command: Command) -> Command {
        let jobs = registry::ALL.iter().map(|job| of_job(*job));
        let command = command.after_long_help(NOTES).subcommand_value_name("JOB");
        let command = command.subcommand_help_heading("Jobs");
        // clap would put the options in front, which all are a job's.
        command
            .override_usage("wideleaf lab run [JOB] [OPTIONS]")
            .subcommands(jobs)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Run {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let wrong = |error: String| clap::Error::raw(ErrorKind::InvalidSubcommand, error);
        let (name, matches) = matches
            .subcommand()
            .ok_or_else(|| wrong("name a job".into()))?;
        let job = registry::find(name).map_err(wrong)?;
        Ok(Self {
            job,
            on: RunArgs::from_arg_matches(matches)?,
            common: Common::from_arg_matches(matches)?,
            own: job.parse(matches).map_err(|e| wrong(e.to_string()))?,
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[derive(Parser)]
#[command(no_binary_name = true)]
struct Cli {
    #[command(flatten)]
    run: Run,
}

/// `lab run` with these words, as a row of a matrix has them.
///
/// # Errors
///
/// Words that `lab run` would refuse, without clap's hints on usage.
pub fn parse(words: impl Iterator<Item = OsString>) -> Result<Run> {
    let words = with_job(words.collect());
    match Cli::try_parse_from(&words) {
        Ok(cli) => Ok(cli.run),
        Err(error) => match explain(&error, &words) {
            Some(why) => bail!("{why}"),
            None => bail!("{}", first_sentence(&error.render().to_string())),
        },
    }
}

/// The words of clap without its hints on usage.
fn first_sentence(text: &str) -> String {
    let lines = text.lines().take_while(|line| !line.starts_with("Usage:"));
    let lines = lines.take_while(|line| !line.starts_with("For more information"));
    let lines: Vec<_> = lines
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    let text = lines.join(" ");
    text.strip_prefix("error: ").unwrap_or(&text).to_string()
}

/// The command of one job.
pub fn of_job(job: &dyn AnyJob) -> Command {
    let facts = job.facts();
    let command = Command::new(facts.name)
        .about(facts.about)
        .hide(facts.hidden)
        .after_long_help(examples(facts.examples));
    let command = job::command(job, command).next_help_heading("Machines and results");
    let command = RunArgs::augment_args(command).about(facts.about);
    command.mut_args(|arg| {
        let name = arg.get_id().as_str();
        let of_each_job = OF_EACH_JOB.contains(arg.get_id());
        let seldom = of_each_job && !OFTEN.contains(&name) || SELDOM.contains(&name);
        arg.hide_short_help(seldom)
    })
}

/// Options of every job that `-h` shows; `--help` shows all.
const OFTEN: [&str; 7] = [
    "base",
    "arch",
    "page_size",
    "variants",
    "repeat",
    "expect",
    "json",
];

/// Options of some jobs that `-h` leaves out.
const SELDOM: [&str; 10] = [
    "calls",
    "data",
    "fault_around",
    "fragmented",
    "freed",
    "free_memory",
    "memory_limit",
    "read_ahead",
    "seed",
    "trace",
];

/// The options of every job. Every command of `wideleaf` defines all jobs when it starts, so these
/// are looked up once.
static OF_EACH_JOB: LazyLock<Vec<Id>> = LazyLock::new(|| {
    let command = Common::augment_args(RunArgs::augment_args(Command::new("")));
    command
        .get_arguments()
        .map(|a| a.get_id().clone())
        .collect()
});

fn examples(list: &[&str]) -> String {
    let lines = list
        .iter()
        .map(|words| format!("\n  wideleaf lab run {words}"));
    format!(
        "Variants, bases, profiles and expectations: see 'wideleaf lab run --help'.\n\nExamples:{}",
        lines.collect::<String>()
    )
}

/// The words after `lab run` with the job in front: where none is named it is the default, and
/// `--job JOB` is the older way to name one.
pub fn with_job(mut words: Vec<OsString>) -> Vec<OsString> {
    let named = words.iter().position(|word| {
        let word = word.to_string_lossy();
        word == "--job" || word.starts_with("--job=")
    });
    if let Some(at) = named {
        let word = words.remove(at).to_string_lossy().into_owned();
        let name = match word.split_once('=') {
            Some((_, name)) => Some(name.into()),
            None if at < words.len() => Some(words.remove(at)),
            None => None,
        };
        let name = name.unwrap_or_default();
        // Faults were jobs of their own.
        let fault = name
            .to_str()
            .and_then(|name| name.strip_prefix("selftest-"));
        let named = match fault {
            Some(fault) => ["selftest", "--fault", fault].map(OsString::from).into(),
            None => vec![name],
        };
        words.splice(0..0, named);
        return words;
    }
    let first = words.first().map(|word| word.to_string_lossy());
    let is_option = first.as_deref().is_none_or(|word| word.starts_with('-'));
    let asks_for_help = matches!(first.as_deref(), Some("-h" | "--help"));
    if is_option && !asks_for_help {
        words.insert(0, registry::DEFAULT.into());
    }
    words
}

/// The error in the words that [`with_job`] gave, where clap cannot know: an option that
/// other jobs take, a job that there is not.
pub fn explain(error: &clap::Error, words: &[OsString]) -> Option<String> {
    let job = registry::find(words.first()?.to_str()?);
    let option = match (error.kind(), error.get(ContextKind::InvalidArg), job) {
        (ErrorKind::InvalidSubcommand, _, Err(unknown)) => return Some(unknown),
        (ErrorKind::UnknownArgument, Some(ContextValue::String(option)), Ok(job)) => {
            (job, option.clone())
        }
        _ => return None,
    };
    let (job, option) = option;
    let long = option.strip_prefix("--")?;
    let takes = |job: &&dyn AnyJob| {
        let command = of_job(*job);
        command
            .get_arguments()
            .any(|known| known.get_long() == Some(long))
    };
    let takers: Vec<_> = registry::public()
        .filter(takes)
        .map(|job| job.name())
        .collect();
    (!takers.is_empty()).then(|| {
        let takers = takers.join(", ");
        format!("{option} is no option of the job {job}, only of {takers}")
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use clap::CommandFactory;
    use wideleaf_jobs::registry;
    use wideleaf_kbuild::KernelDir;
    use wideleaf_kbuild::{Arch, Base, PageSize, Variant};
    use wideleaf_lab::job::usual;
    use wideleaf_lab::profiles;
    use wideleaf_lab::target::{Kernels, Target};

    /// The targets of a command line.
    pub fn parse(args: &str) -> Result<Vec<Target>> {
        super::parse(args.split_whitespace().map(Into::into))?.targets()
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
        let (common, own) = usual(registry::find("exec").unwrap());
        assert_eq!((&target.common, &target.own), (&common, &own));
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

    #[test]
    fn a_configuration_brings_its_page_size_and_is_in_the_targets_name() {
        let target = parse("storm --config debian-16k").unwrap().remove(0);
        let name = "storm, Linux 6.12, arm64, 16K pages, configuration debian-16k";
        assert_eq!(target.to_string(), name);
        let size = |args: &str| parse(args).unwrap()[0].page_size;
        assert_eq!(size("--config debian-cloud"), PageSize::K4);
        assert_eq!(target.parameters().trim(), "nokaslr");
        assert_eq!(parse("storm").unwrap()[0].parameters(), "");
    }

    #[test]
    fn one_kernel_of_a_distribution_serves_all_jobs() {
        let kernels = Kernels::Built(KernelDir::find(None).unwrap());
        let spec = |args: &str| {
            let target = parse(args).unwrap().remove(0);
            target.spec(Variant::Pristine, &kernels).unwrap()
        };
        let storm = spec("linear-storm --config debian-cloud");
        assert_eq!(
            storm.flavour(),
            spec("exec --config debian-cloud").flavour()
        );
        assert_eq!(storm.required, ["linear"]);
        assert_eq!(spec("linear-storm").flavour(), "arm64-64K-linear");
        let more = spec("exec --config debian-cloud --extra debug");
        assert_eq!(more.flavour(), "arm64-4K-debian-cloud-debug");
    }

    #[test]
    fn what_the_labs_own_configuration_has_a_distributions_must_have() {
        let kernels = Kernels::Built(KernelDir::find(None).unwrap());
        for (job, needed) in [
            ("collapse --page-size 4K", "collapse"),
            (
                "storm --scenario collapse-truncate --page-size 4K",
                "collapse",
            ),
            ("kunit --page-size 4K", "kunit"),
        ] {
            let required = |args: &str| {
                let target = parse(args).unwrap().remove(0);
                target.spec(Variant::Pristine, &kernels).unwrap().required
            };
            assert_eq!(required(&format!("{job} --config debian-cloud")), [needed]);
            assert!(required(job).is_empty());
        }
        let all = parse("storm --config debian-cloud").unwrap().remove(0);
        let spec = all.spec(Variant::Pristine, &kernels).unwrap();
        assert!(spec.required.is_empty());
    }

    #[test]
    fn programs_with_disks_of_their_own_are_comparisons_of_their_own() {
        let told = |args: &str| {
            let targets = parse(args).unwrap();
            targets.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(
            told("--job program --programs gcc,perl,python"),
            [
                "program perl,python, Linux 6.12, arm64, 64K pages",
                "program gcc, Linux 6.12, arm64, 64K pages"
            ]
        );
        let usual = told("--job program");
        assert_eq!(usual, ["program, Linux 6.12, arm64, 64K pages"]);
        // Kernels of one machine serve all of them.
        let given = "--job program --programs all --kernel pristine=/x,patched=/y";
        assert!(parse(given).unwrap().len() > 10);
    }

    /// A comparison that these arguments ask for, without having been run.
    fn comparison(args: &str) -> wideleaf_lab::results::Comparison {
        let target = parse(args).unwrap().remove(0);
        serde_json::from_value(serde_json::json!({
            "job": target.job.name(),
            "base": target.base,
            "arch": target.arch,
            "page_size": target.page_size,
            "common": target.common,
            "options": target.own,
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
            "--job program --programs gcc --fs ext4",
            "--job entropy --loads 20 --append nokaslr",
            "--job mm-selftests --tests mmap --without cow",
            "--job storm --cpus 2 --seconds 9 --scenario pinned --extra storm --plant no-unmap",
            "--job boot --cpus 2 --referee",
            "--job storm --config debian-cloud --extra kunit",
            "--config debian-16k --base 7.3",
            "--sweep-model",
            "--sweep-model random,half-l2 --arch x86_64",
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
            ("--job program --programs cobol", "stubs-musl"),
            ("--arch riscv", "x86_64"),
            ("--page-size 8K", "64K"),
            ("--profile m1", "neoverse-n1"),
            ("--fs btrfs", "xfs, ext4"),
            ("--variant new", "patched"),
            (
                "--variants fixed-contpte",
                "aligned, reads, khugepaged, patched, linear-map",
            ),
            ("--kernel old=/x", "pristine"),
            ("--config debian-rt", "debian, debian-cloud, debian-16k"),
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
            ("--cpu-model zen", "no arm64 CPU: ask for --arch x86_64"),
            (
                "--arch x86_64 --config debian-16k",
                "it has debian, debian-cloud",
            ),
            ("--page-size 64K --config debian", "pages of 4K, not of 64K"),
            ("--config debian --kernel pristine=/x", "--config"),
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
            ("--job kunit --variants aligned", "kunit"),
            ("--job storm --fs erofs", "only read"),
            ("--job program --trace x --overlay", "leave out --overlay"),
            ("--read-ahead 100", "1K"),
            ("--read-ahead 16K", "64K"),
            ("--repeat 0", "1"),
            ("--timeout 0", "1"),
            ("--calls 0", "0"),
            (
                "--job boot --touch nonsense",
                "--touch is no option of the job boot, only of sparse",
            ),
            (
                "--job boot --size 1M",
                "exec, linear-work, shared-writes, sparse",
            ),
            ("--job kunit --seed 2", "storm"),
            ("--job mm-selftests --fs ext4", "--fs"),
            ("--job boot --profile cortex-a53", "--referee"),
            ("--job boot --sweep-model", "counts no TLB misses"),
            ("--sweep-model --referee", "leave --referee out"),
            ("--sweep-model --variants patched", "leave --variants out"),
            ("--sweep-model nonsense", "tree-plru"),
            (
                "--sweep-model no-contiguous --base 7.3 --arch x86_64",
                "zen4 has no variant no-contiguous: it has tree-plru",
            ),
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
    fn the_job_comes_first_or_by_its_older_name() {
        for (words, with) in [
            ("", "exec"),
            ("--base 7.3", "exec --base 7.3"),
            ("storm --seconds 2", "storm --seconds 2"),
            (
                "--base 7.3 --job storm --cpus 2",
                "storm --base 7.3 --cpus 2",
            ),
            ("--job=boot", "boot"),
            (
                "--job selftest-hang --timeout 5",
                "selftest --fault hang --timeout 5",
            ),
            ("--help", "--help"),
            ("--base 7.3 --help", "exec --base 7.3 --help"),
        ] {
            let given = words.split_whitespace().map(Into::into).collect();
            assert_eq!(with_job(given).join(" ".as_ref()), with, "{words}");
        }
    }

    #[test]
    fn every_job_has_a_help_of_its_own_with_examples_that_parse() {
        Cli::command().debug_assert();
        for job in registry::ALL {
            let facts = job.facts();
            assert!(!facts.examples.is_empty(), "{job}");
            for example in facts.examples {
                assert!(example.starts_with(facts.name), "{job}: {example}");
                let words = shell_words::split(example).unwrap();
                // A tree is looked at when it is parsed.
                if !words.contains(&"--tree".to_string()) {
                    let run = Cli::try_parse_from(words).unwrap().run;
                    run.targets().unwrap();
                }
            }
        }
    }

    #[test]
    fn a_default_is_in_the_help_of_the_job_that_has_it() {
        for (job, part) in [
            ("storm", "CPUs of the guest [default: 4]"),
            ("exec", "CPUs of the guest [default: 1]"),
            ("sparse", "[default: 128M]"),
        ] {
            let mut command = of_job(registry::find(job).unwrap());
            let help = command.render_long_help().to_string();
            let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(help.contains(part), "{job}: {help}");
        }
    }

    #[test]
    fn the_usage_says_that_the_job_may_be_left_out() {
        let mut command = Run::augment_args(Command::new("run"));
        let usage = command.render_usage().to_string();
        assert_eq!(usage, "Usage: wideleaf lab run [JOB] [OPTIONS]");
    }

    #[test]
    fn the_help_of_a_job_says_first_what_it_is() {
        for job in registry::ALL {
            let help = of_job(*job).render_help().to_string();
            let first = help.split("\n\n").next().unwrap().replace('\n', " ");
            assert_eq!(first, job.facts().about);
        }
    }

    #[test]
    fn the_help_lists_what_there_is() {
        let command = Run::augment_args(Command::new("run"));
        let help = command.get_after_long_help().unwrap().to_string();
        // Whole words: 4K is in 64K.
        let is_of_word = |c: char| c.is_alphanumeric() || "-_.".contains(c);
        let words: Vec<_> = help.split(|c| !is_of_word(c)).collect();
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
