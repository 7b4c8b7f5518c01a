// SPDX-License-Identifier: GPL-2.0-only
//! What each job does in the guest: a folder each, which may use the kit and the guest's own parts,
//! but no other job (`tests/rooms.rs`).

pub mod boot;
pub mod contpte;
pub mod entropy;
pub mod exec;
pub mod exec_sizes;
pub mod fault;
pub mod kunit;
pub mod linear_map;
pub mod linear_others;
pub mod linear_storm;
pub mod linear_work;
pub mod maintenance;
pub mod mm_selftests;
pub mod program;
pub mod shared_writes;
pub mod sparse;
pub mod storm;

use crate::protocol::Task;
use anyhow::Result;

/// Whether khugepaged is to be as the kernel has it; for others it sleeps, because it would disturb
/// what they measure.
pub fn wants_khugepaged(task: &Task) -> bool {
    match task {
        Task::MmSelftests(_) => mm_selftests::WANTS_KHUGEPAGED,
        Task::Storm(_) => storm::WANTS_KHUGEPAGED,
        _ => false,
    }
}

/// Does what of a task has to happen in PID 1, before the job's process is forked.
pub fn in_init(task: &Task) -> Result<()> {
    match task {
        Task::SelftestFault { fault } => fault::in_init(*fault),
        _ => Ok(()),
    }
}
