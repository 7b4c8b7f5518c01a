// SPDX-License-Identifier: GPL-2.0-only
//! What the small machines of the tests have in common: who takes a step.

use super::At;

/// Gives each step an instruction address of its own.
#[derive(Debug, Default)]
pub struct Steps {
    /// The last one.
    pub pc: u64,
    /// The task that runs on each CPU.
    pub tasks: Vec<u64>,
}

impl Steps {
    /// `cpu` takes the next step.
    pub fn at(&mut self, cpu: usize) -> At {
        self.pc += 4;
        At {
            cpu,
            pc: self.pc,
            task: self.tasks[cpu],
            ..At::default()
        }
    }
}
