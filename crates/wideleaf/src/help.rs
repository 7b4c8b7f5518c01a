// SPDX-License-Identifier: GPL-2.0-only
//! `wideleaf help`: the commands by purpose.

use clap::Command;
use std::fmt::Write;

/// A purpose, and the commands that serve it, in the order in which they are usually needed.
const GROUPS: [(&str, &[&str]); 6] = [
    ("See", &["inspect", "ps", "top", "doctor", "metrics"]),
    (
        "Make text wide",
        &["run", "fill", "collapse", "align", "stage", "unstage"],
    ),
    ("Keep it wide", &["keep", "enable", "disable"]),
    ("Prove what it gains", &["try", "bench"]),
    ("Kernels and the lab", &["lab", "kernel", "policy", "cache"]),
    ("Other", &["gen", "help"]),
];

/// Has the help list the commands in groups: clap knows one heading for all of them.
pub fn grouped(command: Command) -> Command {
    let list = list(&command);
    with_examples(command).before_help(list).help_template(
        "{about-with-newline}\n{usage-heading} {usage}\n\n{before-help}Options:\n{options}\n\n\
         'wideleaf COMMAND --help' says more of a command, with examples.\n",
    )
}

fn list(command: &Command) -> String {
    let about = |name: &str| match command.find_subcommand(name) {
        Some(found) => found.get_about().unwrap_or_default().to_string(),
        None => "Print this, or the help of a command".into(),
    };
    let mut list = String::new();
    for (purpose, names) in GROUPS {
        // A String takes all that is written to it.
        let _ = writeln!(list, "{purpose}:");
        for name in names {
            let _ = writeln!(list, "  {name:<10}{}", about(name));
        }
    }
    list
}

/// Has each command of commands share its examples with these, or take its own from them.
pub fn with_examples(command: Command) -> Command {
    command.mut_subcommands(|sub| match sub.has_subcommands() {
        true => with_shared_examples(sub),
        false => sub,
    })
}

/// Gives each command below the examples of `command` that are its own, if it has none, or
/// `command` the first example of each, if that has none.
fn with_shared_examples(command: Command) -> Command {
    let words = format!("wideleaf {}", command.get_name());
    let own = examples(&command, &words);
    if own.is_empty() {
        let below = command.get_subcommands();
        let first = below.filter_map(|sub| examples(sub, &words).into_iter().next());
        let first: Vec<_> = first.collect();
        return command.after_long_help(shown(&first));
    }
    command.mut_subcommands(|sub| {
        let words = format!("{words} {}", sub.get_name());
        let of_sub = own.iter().filter(|line| is_of(line, &words));
        let of_sub: Vec<_> = of_sub.cloned().collect();
        match sub.get_after_long_help() {
            None if !of_sub.is_empty() => sub.after_long_help(shown(&of_sub)),
            _ => sub,
        }
    })
}

/// The lines of a command's examples that call `words`.
fn examples(command: &Command, words: &str) -> Vec<String> {
    let text = command.get_after_long_help().map(ToString::to_string);
    let text = text.unwrap_or_default();
    let lines = text
        .lines()
        .filter(|line| line.starts_with("  ") && is_of(line, words));
    lines.map(str::to_owned).collect()
}

/// Whether a line calls the command `words`, not one whose name only begins so.
fn is_of(line: &str, words: &str) -> bool {
    let rest = line.split_once(words).map(|(_, rest)| rest);
    rest.is_some_and(|rest| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '-'))
}

fn shown(examples: &[String]) -> String {
    format!("Examples:\n{}", examples.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    /// On a screen of 80 columns.
    const LINES: usize = 40;

    fn all() -> Command {
        let mut command = grouped(crate::Cli::command()).term_width(80);
        command.build();
        command
    }

    /// Calls `look` with each command that a user can give, and its words.
    fn each(command: &mut Command, words: &str, look: &mut dyn FnMut(&mut Command, &str)) {
        look(command, words);
        let below = command.get_subcommands_mut();
        for sub in below.filter(|sub| !sub.is_hide_set() && sub.get_name() != "help") {
            let words = format!("{words} {}", sub.get_name());
            each(sub, &words, look);
        }
    }

    #[test]
    fn each_command_is_in_one_group() {
        let mut grouped: Vec<_> = GROUPS.iter().flat_map(|group| group.1).copied().collect();
        let command = all();
        let mut there: Vec<_> = command.get_subcommands().map(Command::get_name).collect();
        grouped.sort_unstable();
        there.sort_unstable();
        assert_eq!(grouped, there);
        let help = all().render_help().to_string();
        for part in ["See:\n  inspect   Report which", "Make text wide:\n  run "] {
            assert!(help.contains(part), "{help}");
        }
    }

    #[test]
    fn the_short_help_of_each_command_fits_a_screen() {
        let mut long = Vec::new();
        each(&mut all(), "wideleaf", &mut |command, words| {
            let lines = command.render_help().to_string().lines().count();
            if lines > LINES {
                long.push(format!("{words}: {lines}"));
            }
        });
        assert_eq!(long, Vec::<String>::new());
    }

    #[test]
    fn the_long_help_of_each_command_has_examples_of_its_own() {
        let mut without = Vec::new();
        each(&mut all(), "wideleaf", &mut |command, words| {
            let help = command.render_long_help().to_string();
            let has = help
                .split_once("Examples:")
                .is_some_and(|(_, of)| of.contains(words));
            // The whole lists its commands in place of examples.
            if !has && words != "wideleaf" {
                without.push(words.to_owned());
            }
        });
        assert_eq!(without, Vec::<String>::new());
    }
}
