// SPDX-License-Identifier: GPL-2.0-only
//! Every `wideleaf` command that the docs show is one that this version takes.
//! scripts/test-docs runs the ones that take no kernel.

use crate::Cli;
use clap::Parser;
use pulldown_cmark::{Event, Parser as Markdown, Tag, TagEnd};
use std::path::{Path, PathBuf};

/// What stands for a value in a command that is shown for several machines.
const PLACEHOLDERS: [(&str, &str); 7] = [
    ("$$", "1"),
    ("B", "7.3"),
    ("A", "arm64"),
    ("P", "64K"),
    ("S", "all"),
    ("FS", "ext4"),
    ("$1", "arm64"),
];

/// What ends a command's words in a shell.
const OPERATORS: [&str; 7] = ["|", ">", "&&", "||", ";", "&", "#"];

fn documents() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = vec![
        root.join("README.md"),
        root.join("kernel/README.md"),
        root.join("CONTRIBUTING.md"),
    ];
    let docs = std::fs::read_dir(root.join("docs")).unwrap();
    found.extend(
        docs.map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|e| e == "md")),
    );
    found
}

fn code_blocks(text: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut block = None;
    for event in Markdown::new(text) {
        match event {
            Event::Start(Tag::CodeBlock(_)) => block = Some(String::new()),
            Event::End(TagEnd::CodeBlock) => blocks.extend(block.take()),
            Event::Text(words) => {
                if let Some(block) = &mut block {
                    block.push_str(&words);
                }
            }
            _ => {}
        }
    }
    blocks
}

/// What follows a prompt.
fn prompted(line: &str) -> Option<&str> {
    let line = line.trim_start();
    line.strip_prefix("$ ").or(line.strip_prefix("# "))
}

/// Where in a line a command of ours begins: at its start, behind sudo, in `$(...)`, after
/// `&&`. Anywhere else it is a message or a drawing.
fn begins(line: &str) -> Option<usize> {
    let at = line.find("wideleaf ")?;
    let before = &line[..at];
    let starts = before.is_empty() || before == "sudo ";
    let command = starts || before.ends_with("$(") || before.ends_with("&& ");
    (command && !line[at..].starts_with("wideleaf ─")).then_some(at)
}

/// The lines of a block that a user types, whole: continued ones joined. In a block with
/// prompts, what has none is output.
fn typed(block: &str) -> Vec<String> {
    let prompts = block.lines().any(|line| prompted(line).is_some());
    let mut commands = Vec::new();
    let mut lines = block.lines();
    while let Some(line) = lines.next() {
        let line = match prompts {
            true => prompted(line).unwrap_or_default(),
            false => line.trim_start(),
        };
        let Some(at) = begins(line) else { continue };
        let mut command = line[at..].to_owned();
        if line[..at].ends_with("$(") {
            command.truncate(command.find(')').expect("$( that ends in its line"));
        }
        while command.ends_with('\\') || shell_words::split(&command).is_err() {
            let Some(next) = lines.next() else { break };
            command = format!("{} {}", command.trim_end_matches('\\'), next.trim());
        }
        commands.push(command);
    }
    commands
}

/// With the output of other commands replaced by something that names a file or a process.
fn without_substitutions(command: &str) -> String {
    let mut left = command.to_owned();
    while let Some(at) = left.find("$(") {
        let Some(end) = left[at..].find(')') else {
            break;
        };
        left.replace_range(at..=at + end, "1");
    }
    left
}

fn words(command: &str) -> Vec<String> {
    let command = without_substitutions(command);
    let command = command.as_str();
    let words = shell_words::split(command).expect("quotes that end");
    let ends = |word: &String| OPERATORS.iter().any(|operator| word.starts_with(operator));
    // `; done` behind the last word, as shell_words leaves it.
    let last = words.iter().position(|word| word.ends_with(';'));
    let end = words.iter().position(ends).unwrap_or(words.len());
    let end = last.map_or(end, |last| end.min(last + 1));
    let plain = |word: &String| match PLACEHOLDERS.iter().find(|(name, _)| name == word) {
        Some((_, value)) => (*value).to_owned(),
        None => word.replace("$2", "64K").trim_end_matches(';').to_owned(),
    };
    words[..end].iter().map(plain).collect()
}

#[test]
fn every_command_in_the_docs_is_one_that_there_is() {
    let mut seen = 0;
    let mut refused = String::new();
    for document in documents() {
        let text = std::fs::read_to_string(&document).unwrap();
        for command in code_blocks(&text).iter().flat_map(|block| typed(block)) {
            seen += 1;
            if let Err(error) = Cli::try_parse_from(words(&command)) {
                refused += &format!("{}: {command}\n{error}\n", document.display());
            }
        }
    }
    assert!(refused.is_empty(), "{refused}");
    assert!(seen > 40, "only {seen} commands found");
}

#[test]
fn a_command_is_read_as_a_shell_would() {
    let block = "    $ wideleaf ps -m \\\n        --data | head\n    wideleaf: ps: no\n    $ x=$(wideleaf kernel build --base 7.3)\n";
    let commands = typed(block);
    assert_eq!(commands.len(), 2, "{commands:?}");
    assert_eq!(words(&commands[0]), ["wideleaf", "ps", "-m", "--data"]);
    assert_eq!(
        words(&commands[1]),
        ["wideleaf", "kernel", "build", "--base", "7.3"]
    );
    assert!(Cli::try_parse_from(["wideleaf", "ps", "--dtaa"]).is_err());
}
