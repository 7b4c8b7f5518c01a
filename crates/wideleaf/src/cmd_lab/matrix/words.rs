// SPDX-License-Identifier: GPL-2.0-only
//! The command line of `lab run` as a matrix file's vocabulary, and rows held against it.

use super::super::arguments::Run;
use super::super::command::{self, of_job};
use anyhow::{Context, Result, bail};
use clap::{Arg, ArgAction};
use std::collections::BTreeMap;
use std::path::Path;
use wideleaf_jobs::registry;
use wideleaf_kbuild::{Arch, Base, Variant};
use wideleaf_lab::job::AnyJob;
use wideleaf_lab::target::Target;
use wideleaf_matrix::file::{self, Mistake, Row};
use wideleaf_matrix::vocabulary::{Architecture, RowOption, Values, Vocabulary};

/// Options of `lab run` that have a key of their own in the file, or that the matrix itself gives.
const OWN: [&str; 9] = [
    "job",
    "base",
    "arch",
    "page-size",
    "variants",
    "json",
    "keep",
    "source-version",
    "help",
];

/// The rows of a matrix file.
///
/// # Errors
///
/// The error in it, with its line.
pub fn read(path: &Path) -> Result<Vec<Row>, Mistake> {
    let check = |words: &[String]| match parse(words) {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("{error:#}")),
    };
    file::read(path, &vocabulary(), &check)
}

/// The request of a row's words: the parsed command line, and its only target.
///
/// # Errors
///
/// Rows that `lab run` would refuse.
pub fn parse(words: &[String]) -> Result<(Run, Target)> {
    let run = command::parse(words.iter().map(Into::into))?;
    let mut targets = run.targets()?;
    let target = targets.pop().context("a row asks for one comparison")?;
    if let (Some(other), Some(part)) = (targets.pop(), &target.part) {
        let other = other.part.unwrap_or_default();
        bail!("{other} and {part} have a disk each: write a row for each");
    }
    Ok((run, target))
}

fn vocabulary() -> Vocabulary {
    let machine = |&arch: &Arch| {
        let mut sizes = arch.page_sizes().to_vec();
        sizes.sort_by_key(|&size| size != arch.default_page_size());
        Architecture {
            name: arch.to_string(),
            page_sizes: sizes.iter().map(ToString::to_string).collect(),
        }
    };
    // One of each name: two jobs' options of one name take values in the same way.
    let mut options = BTreeMap::new();
    for job in registry::ALL {
        let command = of_job(*job);
        let of_job = command.get_arguments().filter_map(option);
        options.extend(of_job.map(|option| (option.name.clone(), option)));
    }
    let hidden = registry::ALL.iter().copied();
    let hidden = hidden.filter(|job| job.facts().hidden);
    Vocabulary {
        jobs: names(registry::public()),
        hidden_jobs: names(hidden),
        bases: Base::ALL.iter().map(ToString::to_string).collect(),
        machines: Arch::ALL.iter().map(machine).collect(),
        variants: Variant::ALL.iter().map(ToString::to_string).collect(),
        options: options.into_values().collect(),
    }
}

fn names(jobs: impl Iterator<Item = &'static dyn AnyJob>) -> Vec<String> {
    jobs.map(|job| job.name().into()).collect()
}

fn option(argument: &Arg) -> Option<RowOption> {
    let name = argument.get_long()?.to_string();
    let values = match argument.get_action() {
        ArgAction::SetTrue => Values::Flag,
        ArgAction::Append if argument.get_value_delimiter().is_some() => Values::Commas,
        ArgAction::Append => Values::Repeated,
        _ => Values::One,
    };
    (!OWN.contains(&name.as_str())).then_some(RowOption { name, values })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("m.toml");
        std::fs::write(&path, text).unwrap();
        let error = read(&path).unwrap_err().to_string();
        error.rsplit("/m.toml:").next().unwrap().to_string()
    }

    #[test]
    fn a_program_with_a_disk_of_its_own_takes_a_row() {
        let rows = read(Path::new("../../docs/programs.toml")).unwrap();
        // Eighteen programs and the small ones on two machines, five and the small ones on
        // six, aligned and not; openssl on one; and the account of the eighteen and the small ones.
        assert_eq!(rows.len(), 2 * (2 * (18 + 1) + 6 * (5 + 1)) + 1 + 19);
        let text = refusal("[[set]]\njobs = \"program\"\noptions = { programs = \"gcc,git\" }\n");
        assert!(text.contains("gcc and git"), "{text}");
    }

    #[test]
    fn the_rows_of_distributions_are_of_their_configurations_page_sizes() {
        let rows = read(Path::new("../../docs/distributions.toml")).unwrap();
        // Five jobs on three machines, and one on the two of arm64; two bases. stress-ng four times
        // on two machines, and twice with 16K pages.
        assert_eq!(rows.len(), 2 * (5 * 3 + 2 + 4 * 2 + 2));
        for row in &rows {
            assert!(row.words.contains(&"--config".to_string()), "{}", row.name);
        }
        let text = refusal(
            "[[set]]\njobs = \"boot\"\npage-sizes = \"64K\"\noptions = { config = \"debian\" }\n",
        );
        assert!(text.contains("pages of 4K"), "{text}");
    }

    #[test]
    fn the_matrix_of_the_documentation_is_what_it_was() {
        let rows = read(Path::new("../../docs/measured.toml")).unwrap();
        // Seventeen sets; arm64 with three page sizes, and x86-64; two bases.
        assert_eq!(rows.len(), 17 * 4 * 2);
        let row = |name: &str| rows.iter().find(|row| row.name == name).unwrap();
        let limit = row("7.3-x86_64-4K.limit").words.join(" ");
        assert!(limit.contains("--memory-limit 64M"), "{limit}");
    }

    /// Those that no other test reads run nowhere but in `make soak`.
    #[test]
    fn every_matrix_of_the_documentation_can_be_run() {
        let folder = std::fs::read_dir("../../docs").unwrap();
        let files = folder.map(|item| item.unwrap().path());
        let matrix = |path: &std::path::PathBuf| {
            path.extension().is_some_and(|ext| ext == "toml") && !path.ends_with("book.toml")
        };
        for path in files.filter(matrix) {
            let rows = read(&path).unwrap_or_else(|error| panic!("{error}"));
            assert!(!rows.is_empty(), "{}", path.display());
        }
    }

    #[test]
    fn what_lab_run_refuses_names_the_line() {
        for (text, part) in [
            (
                "jobs = 'exec'\noptions = { size = '100K' }",
                "2: size 102400 is not a multiple",
            ),
            (
                "jobs = 'exec'\noptions = { fs = 'btrfs' }",
                "2: invalid value 'btrfs'",
            ),
            (
                "jobs = 'exec'\noptions = { stride = 'x' }",
                "2: invalid value 'x'",
            ),
            (
                "jobs = 'exec'\noptions = { json = 'x' }",
                "2: unknown option 'json'",
            ),
            (
                "jobs = 'exec'\nmachines = 'x86_64'\noptions = { profile = 'cortex-a53' }",
                "3: --profile",
            ),
            ("jobs = 'exce'", "1: unknown job 'exce'"),
            (
                "jobs = 'boot'\noptions = { touch = 'sweep' }",
                "2: --touch is no option of the job boot, only of sparse",
            ),
        ] {
            let error = refusal(text);
            assert!(error.starts_with(part), "{text}: {error}");
            assert!(!error.contains("Usage"), "{error}");
        }
    }

    #[test]
    fn options_are_taken_as_lab_run_takes_them() {
        let vocabulary = vocabulary();
        for (name, values) in [
            ("size", Values::One),
            ("sizes", Values::Commas),
            ("expect", Values::Repeated),
            ("referee", Values::Flag),
        ] {
            assert_eq!(vocabulary.option(name).unwrap().values, values, "{name}");
        }
        assert!(OWN.iter().all(|name| vocabulary.option(name).is_none()));
    }
}
