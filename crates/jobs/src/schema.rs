// SPDX-License-Identifier: GPL-2.0-only
//! The parts of `docs/lab-schema.md` that follow from the jobs: names, options, figures.

use crate::registry;
use anyhow::{Context, Result, bail};
use clap::{Arg, Command};
use std::fmt::Write;
use wideleaf_guest::kit::tap::Status;
use wideleaf_kbuild::{Arch, Base, PageSize, Variant};
use wideleaf_lab::job::{self, AnyJob};
use wideleaf_lab::results::figures::{COUNTED, Figure};
use wideleaf_tlb::profile::PROFILES;
use wideleaf_tlb::referee::finding::Kind;

/// How a part begins and ends in the page.
const BEGIN: &str = "<!-- made by 'wideleaf lab list --schema': ";
const END: &str = "<!-- end of what is made -->";

/// The page with its made parts as they are to be.
///
/// # Errors
///
/// A sentence that names the part that is unknown or does not end.
pub fn page(text: &str) -> Result<String> {
    let mut pieces = text.split(BEGIN);
    let mut page = pieces.next().unwrap_or_default().to_string();
    for piece in pieces {
        let (name, rest) = piece.split_once(" -->\n").unwrap_or((piece, ""));
        let (_, after) = rest
            .split_once(END)
            .with_context(|| format!("the part '{name}' has no '{END}'"))?;
        let part = match name {
            "names" => names(),
            "options" => options(),
            "figures" => figures(),
            _ => bail!("no part is called '{name}'"),
        };
        let _ = write!(page, "{BEGIN}{name} -->\n\n{part}\n{END}{after}");
    }
    Ok(page)
}

/// The values of the fields that have a few.
fn names() -> String {
    let list = |names: Vec<&str>| {
        let quoted = names.iter().map(|name| format!("`\"{name}\"`"));
        quoted.collect::<Vec<_>>().join(", ")
    };
    let jobs = registry::public().map(|job| job.name()).collect();
    let rows = [
        ("job", list(jobs)),
        (
            "base",
            list(Base::ALL.iter().map(|base| base.name()).collect()),
        ),
        (
            "arch",
            list(Arch::ALL.iter().map(|arch| arch.name()).collect()),
        ),
        (
            "page_size",
            list(PageSize::ALL.iter().map(|size| size.name()).collect()),
        ),
        (
            "variant",
            list(Variant::ALL.iter().map(|variant| variant.name()).collect()),
        ),
        ("level", list(levels())),
        (
            "kind",
            list(Kind::ALL.iter().map(|kind| kind.name()).collect()),
        ),
        (
            "status",
            list(Status::ALL.iter().map(|status| status.name()).collect()),
        ),
    ];
    let mut out = String::from("| field | values |\n|---|---|\n");
    for (field, values) in rows {
        let _ = writeln!(out, "| `{field}` | {values} |");
    }
    out
}

/// Where the TLBs of modelled CPUs have arrays, each place once.
fn levels() -> Vec<&'static str> {
    let profiles = PROFILES.iter().flat_map(|profile| profile.arrays());
    let mut levels = Vec::new();
    for (level, _) in profiles {
        if !levels.contains(&level) {
            levels.push(level);
        }
    }
    levels
}

/// What can be asked: of every job, then of each.
fn options() -> String {
    let nothing = Command::new("common");
    let common = <wideleaf_lab::common::Common as clap::Args>::augment_args(nothing);
    let mut out = String::from("`common`, of every job:\n\n") + &table_of_options(&common);
    for job in registry::public() {
        let command = job.augment(Command::new(job.name()));
        if command.get_arguments().next().is_some() {
            let _ = write!(out, "\n`options` of the job `{}`:\n\n", job.name());
            out += &table_of_options(&command);
        }
    }
    out
}

fn table_of_options(command: &Command) -> String {
    let mut out = String::from("| field | default | what |\n|---|---|---|\n");
    for option in command.get_arguments() {
        let default = option.get_default_values().first();
        let default = default.map(|value| value.to_string_lossy().into_owned());
        let _ = writeln!(
            out,
            "| `{}` | {} | {}{} |",
            option.get_id(),
            default.filter(|text| !text.is_empty()).unwrap_or_default(),
            help(option),
            values(option)
        );
    }
    out
}

fn help(option: &Arg) -> String {
    let help = option.get_help().map(ToString::to_string);
    // The default has a column.
    let help = help.unwrap_or_default();
    let text = help.split(" [default:").next().unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn values(option: &Arg) -> String {
    let values = option.get_possible_values();
    let names: Vec<_> = values
        .iter()
        .map(|value| format!("`\"{}\"`", value.get_name()))
        .collect();
    match names.is_empty() || !option.get_action().takes_values() {
        true => String::new(),
        false => format!(": {}", names.join(", ")),
    }
}

/// The figures: of each phase that the plugin counts, then of each job.
fn figures() -> String {
    let mut out = String::from("Of each phase, of jobs that count:\n\n");
    out += &table_of_figures(COUNTED.iter());
    for job in registry::public() {
        let own = own_figures(job);
        if !own.is_empty() {
            let _ = write!(out, "\nOf the job `{}`:\n\n", job.name());
            out += &table_of_figures(own.iter());
        }
    }
    out
}

/// Those of a job that are not counted in every phase.
fn own_figures(job: &dyn AnyJob) -> Vec<Figure> {
    let counted = |figure: &Figure| COUNTED.iter().any(|known| known.about == figure.about);
    let mut own = job.figures();
    own.retain(|figure| !counted(figure));
    own
}

fn table_of_figures<'a>(figures: impl Iterator<Item = &'a Figure>) -> String {
    let mut out = String::from("| name | unit | what |\n|---|---|---|\n");
    for Figure {
        name, unit, about, ..
    } in figures
    {
        let _ = writeln!(out, "| `{name}` | {unit} | {about} |");
    }
    out
}

/// The fields of `common` and of all jobs' options, for tests.
pub fn fields() -> impl Iterator<Item = String> {
    let of_job = |job: &'static dyn AnyJob| {
        let command = job::command(job, Command::new(job.name()));
        let ids = command
            .get_arguments()
            .map(|option| option.get_id().to_string());
        ids.collect::<Vec<_>>()
    };
    registry::public().flat_map(of_job)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "../../docs/lab-schema.md";

    #[test]
    fn the_page_says_what_the_jobs_define() {
        let text = std::fs::read_to_string(PAGE).unwrap();
        let made = page(&text).unwrap();
        assert!(
            text == made,
            "docs/lab-schema.md is out of date: run \
             'wideleaf lab list --schema docs/lab-schema.md' and commit it"
        );
        for field in fields() {
            assert!(text.contains(&format!("| `{field}` |")), "{field}");
        }
    }

    #[test]
    fn a_part_that_is_made_by_hand_is_noticed() {
        let text = format!("a\n{BEGIN}names -->\n{END}\nb\n");
        let made = page(&text).unwrap();
        assert!(made.contains("`\"boot\"`"), "{made}");
        let edited = made.replace("`\"boot\"`", "`\"shoe\"`");
        assert_eq!(page(&edited).unwrap(), made);
        for (text, word) in [
            (format!("{BEGIN}names -->\n"), "has no"),
            (format!("{BEGIN}nonsense -->\n{END}"), "nonsense"),
        ] {
            assert!(
                page(&text).unwrap_err().to_string().contains(word),
                "{text}"
            );
        }
    }

    #[test]
    fn every_figure_says_what_it_is() {
        for job in registry::ALL {
            for figure in job.figures() {
                assert!(
                    !figure.about.is_empty() && !figure.unit.is_empty(),
                    "{figure:?}"
                );
            }
        }
    }
}
