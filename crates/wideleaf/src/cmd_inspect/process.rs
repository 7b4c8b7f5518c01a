// SPDX-License-Identifier: GPL-2.0-only
//! `--pid`: the files of a process's text, and the text that it has made.

use super::report::width;
use crate::made_text;
use anyhow::Result;
use std::io::Write;
use std::path::{Path, PathBuf};
use wideleaf_inspect::text_files;
use wideleaf_jit::{Account, account};
use wideleaf_procmap::{Scope, Select};
use wideleaf_procset::Machinery;

/// The processes that were named.
#[derive(Default)]
pub struct Processes {
    /// The files of their text.
    pub files: Vec<PathBuf>,
    /// The text that they have made, of those that have.
    pub accounts: Vec<Account>,
    /// Those that could not be read, and why.
    pub errors: Vec<String>,
    /// Those that have made none, by number and name.
    without: Vec<(u32, String)>,
    pmd: u64,
}

/// Reads processes.
pub fn read(pids: &[u32]) -> Result<Processes> {
    let mut found = Processes::default();
    if pids.is_empty() {
        return Ok(found);
    }
    let (proc, sys) = (Path::new("/proc"), Path::new("/sys"));
    let mut machine = Machinery::new(proc, None)?;
    let pmd = machine.pmd;
    found.pmd = pmd;
    let all = Select::default();
    let seen = machine.pass_with_leaves(Some(pids), Scope::Text, &all, |process, leaves| {
        found.files.extend(text_files(proc, &process));
        match account(proc, sys, &process, &leaves, pmd) {
            Some(account) => found.accounts.push(account),
            None => found.without.push((process.pid, process.name)),
        }
    })?;
    let gone = seen
        .vanished
        .iter()
        .map(|pid| format!("{pid}: no such process"));
    found.errors = gone.chain(seen.refusals).chain(seen.failed).collect();
    Ok(found)
}

impl Processes {
    /// Writes in words which text they have made.
    pub fn write(&self, out: &mut impl Write, exact: bool) -> std::io::Result<()> {
        for account in &self.accounts {
            let text = made_text::report(account, self.pmd, width(), exact);
            writeln!(out, "\n{text}")?;
        }
        for (pid, name) in &self.without {
            let line = format!("{pid} {name}: has made no text");
            writeln!(out, "\n{}", wideleaf_kit::names::printable(&line))?;
        }
        Ok(())
    }
}
