// SPDX-License-Identifier: GPL-2.0-only
//! Guests that go wrong on purpose, so that the lab can be seen to notice.

use crate::job::Job;
use crate::jobs::boot::Boot;
use crate::options::Options;
use crate::results::Comparison;
use crate::results::row::Row;
use wideleaf_guest::protocol::{Fault, Task};
use wideleaf_kbuild::Variant;

/// A job that goes wrong in this way.
#[derive(Debug)]
pub struct GoesWrong(Fault);

/// One job for each way. Users are not told of them.
pub static FAULTS: [GoesWrong; Fault::ALL.len()] = {
    let mut faults = [const { GoesWrong(Fault::Panic) }; Fault::ALL.len()];
    let mut n = 0;
    while n < faults.len() {
        faults[n] = GoesWrong(Fault::ALL[n]);
        n += 1;
    }
    faults
};

impl Job for GoesWrong {
    fn name(&self) -> String {
        // The name that the protocol has for it.
        let name = serde_json::to_value(self.0).unwrap_or_default();
        format!("selftest-{}", name.as_str().unwrap_or_default())
    }

    fn about(&self) -> &'static str {
        "a fault on purpose, which the lab must notice"
    }

    fn variants(&self) -> &'static [Variant] {
        &[Variant::Pristine]
    }

    fn time_limit_s(&self) -> u32 {
        60
    }

    fn task(&self, _: &Options) -> Task {
        Task::SelftestFault { fault: self.0 }
    }

    fn rows(&self, comparison: &Comparison) -> Vec<Row> {
        Boot.rows(comparison)
    }
}
