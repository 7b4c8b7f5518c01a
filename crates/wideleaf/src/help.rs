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
    command.before_help(list).help_template(
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
    fn the_long_help_of_each_command_or_of_its_group_has_examples() {
        let (mut with, mut without) = (Vec::new(), Vec::new());
        each(&mut all(), "wideleaf", &mut |command, words| {
            let help = command.render_long_help().to_string();
            let of_group = with.iter().any(|group| words.starts_with(group));
            match help.contains("Examples:") {
                true => with.push(format!("{words} ")),
                false if of_group || command.has_subcommands() => {}
                false => without.push(words.to_owned()),
            }
        });
        assert_eq!(without, Vec::<String>::new());
    }
}
