// SPDX-License-Identifier: GPL-2.0-only
//! The machine under examination: its files, and programs that can be asked.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where the checks get everything from.
pub struct Host {
    root: PathBuf,
    /// Answers of programs instead of running them: `None` runs them.
    answers: Option<HashMap<String, String>>,
}

impl Host {
    /// The machine that this runs on.
    pub fn local() -> Self {
        Self {
            root: PathBuf::from("/"),
            answers: None,
        }
    }

    /// A machine whose files are below `root`. Programs are not run; `answers`
    /// has the output of those that there are, by command line.
    pub fn at(root: &Path, answers: HashMap<String, String>) -> Self {
        Self {
            root: root.to_owned(),
            answers: Some(answers),
        }
    }

    /// Where a path of the machine is.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// A file's text without the last newline; `None` if it cannot be read.
    pub(crate) fn read(&self, path: &str) -> Option<String> {
        let bytes = self.bytes(path)?;
        Some(String::from_utf8_lossy(&bytes).trim_end().to_owned())
    }

    /// A file's bytes, at most 16 MiB of them.
    pub(crate) fn bytes(&self, path: &str) -> Option<Vec<u8>> {
        use std::io::Read;
        let mut bytes = Vec::new();
        let file = std::fs::File::open(self.path(path)).ok()?;
        file.take(16 << 20).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }

    /// The names in a folder, sorted; empty if there is none.
    pub(crate) fn list(&self, path: &str) -> Vec<String> {
        let folder = std::fs::read_dir(self.path(path));
        let mut names: Vec<String> = folder
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|e| e.file_name().into_string().ok())
            .collect();
        names.sort();
        names
    }

    /// What a program prints on both outputs; `None` if there is no such
    /// program or it fails.
    pub(crate) fn ask(&self, command: &[&str]) -> Option<String> {
        if let Some(answers) = &self.answers {
            return answers.get(&command.join(" ")).cloned();
        }
        let output = Command::new(command[0])
            .args(&command[1..])
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .output()
            .ok()?;
        let text = [output.stdout, output.stderr].concat();
        output
            .status
            .success()
            .then(|| String::from_utf8_lossy(&text).into_owned())
    }

    /// Whether it is the machine that this runs on, where things can be tried.
    pub(crate) fn is_here(&self) -> bool {
        self.answers.is_none()
    }

    /// Answers to what is tried out, where nothing can be: `None` on this
    /// machine, where it can.
    pub(crate) fn told(&self, question: &str) -> Option<Option<&str>> {
        let answers = self.answers.as_ref()?;
        Some(answers.get(question).map(String::as_str))
    }

    /// The choice in brackets of a sysfs file like `always [madvise] never`.
    pub(crate) fn chosen(&self, path: &str) -> Option<String> {
        let text = self.read(path)?;
        let (_, rest) = text.split_once('[')?;
        Some(rest.split_once(']')?.0.to_owned())
    }
}
