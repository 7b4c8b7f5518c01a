// SPDX-License-Identifier: GPL-2.0-only
//! `wideleaf doctor`: what this machine allows, and what to change.

use crate::stdout::{write_json, write_out};
use anyhow::Result;
use serde_json::json;
use std::path::Path;
use std::process::ExitCode;
use wideleaf_doctor::{Check, Host, Status, examine};

/// Arguments of `wideleaf doctor`.
#[derive(clap::Args)]
#[command(after_long_help = "\
Nothing is changed: what to change, and how to make it last, is printed.

Exit status: 0 nothing to improve; 3 something can be improved; 1 an error; 2
usage.

Examples:
  wideleaf doctor --brief
  wideleaf doctor --json | jq '.checks[] | select(.status == \"improve\")'")]
pub struct Args {
    /// Print JSON
    #[arg(short = 'J', long)]
    json: bool,
    /// Only what can be improved
    #[arg(short, long)]
    brief: bool,
}

/// Something can be improved.
const IMPROVE: u8 = 3;

/// Runs `wideleaf doctor`.
pub fn run(args: Args) -> Result<ExitCode> {
    let (page, _) = wideleaf_procmap::sizes(Path::new("/sys"));
    let cpu = wideleaf_cpu::detect(Path::new("/sys"), page);
    let checks = examine(&Host::local(), &cpu);
    let improve = checks
        .iter()
        .filter(|c| c.status == Status::Improve)
        .count();
    if args.json {
        let document = json!({ "schema": "wideleaf-doctor-1", "page_size": page, "cpu": cpu, "checks": checks });
        write_json(&document)?;
    } else {
        let shown = checks
            .iter()
            .filter(|c| !args.brief || c.status == Status::Improve);
        let text: Vec<String> = shown.map(paragraph).collect();
        write_out(&format!(
            "{}\n{improve} of {} checks can be improved\n",
            text.join("\n"),
            checks.len()
        ))?;
    }
    Ok(if improve > 0 {
        ExitCode::from(IMPROVE)
    } else {
        ExitCode::SUCCESS
    })
}

fn paragraph(check: &Check) -> String {
    let word = match check.status {
        Status::Good => "good",
        Status::Improve => "IMPROVE",
        Status::Note => "note",
        Status::Unknown => "unknown",
    };
    let mut text = format!("{word:<8} {}\n", check.title);
    let parts = [
        ("found", check.found.as_str()),
        ("why", check.why),
        ("change", &check.change),
        ("persist", &check.persist),
    ];
    for (label, part) in parts.iter().filter(|p| !p.1.is_empty()) {
        text.push_str(&wrap(label, part));
    }
    text
}

/// Fills lines of 80 columns after a label.
fn wrap(label: &str, text: &str) -> String {
    let first = format!("  {label:<8} ");
    let options = textwrap::Options::new(80)
        .initial_indent(&first)
        .subsequent_indent("           ")
        .break_words(false)
        .word_splitter(textwrap::WordSplitter::NoHyphenation);
    textwrap::fill(text, options) + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_fit_a_terminal() {
        let text = wrap("found", &"word ".repeat(60));
        assert!(text.lines().count() > 3);
        assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
    }
}
