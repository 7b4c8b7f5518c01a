// SPDX-License-Identifier: GPL-2.0-only
//! Processes with what there is to collapse of each, and what became of them.

use crate::plan::Target;
use wideleaf_procmap::{Error, Process, Scope, Select};
use wideleaf_procset::{Machinery, Seen};

/// The processes of `pids` that match, or all, with what there is to do; those without text are
/// left out.
///
/// # Errors
///
/// If the list of processes cannot be read.
pub fn targets(
    machine: &mut Machinery,
    pids: Option<&[u32]>,
    select: &Select,
) -> Result<(Vec<Target>, Seen), Error> {
    let pmd = machine.pmd;
    let mut targets = Vec::new();
    let seen = machine.pass_with_leaves(pids, Scope::Text, select, |process, leaves| {
        if process.total.size > 0 {
            targets.push(Target::new(process, &leaves, pmd));
        }
    })?;
    Ok((targets, seen))
}

/// The same processes, as they are now; those that have ended are left out.
///
/// # Errors
///
/// As [`targets`].
pub fn again(machine: &mut Machinery, targets: &[Target]) -> Result<Vec<Process>, Error> {
    let pids: Vec<u32> = targets.iter().map(|t| t.before.pid).collect();
    let mut after = Vec::new();
    let all = Select::default();
    machine.pass(Some(&pids), Scope::Text, &all, |mut process| {
        process.mappings = Vec::new();
        after.push(process);
    })?;
    Ok(after)
}
