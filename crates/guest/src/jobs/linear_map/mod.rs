// SPDX-License-Identifier: GPL-2.0-only
//! The kernel's linear map after boot.

use crate::kit::linear::{rest, take, take_longest_hold};
use crate::protocol::{LinearReport, Outcome};

/// The map as it is once the kernel has made it as wide as it can after boot.
pub fn look() -> Outcome {
    let mut report = LinearReport::default();
    rest();
    take(&mut report, "boot");
    take_longest_hold(&mut report);
    Outcome::Linear(report)
}
