// SPDX-License-Identifier: GPL-2.0-only
//! Guests that go wrong on purpose, so that the lab can be seen to notice.

#[cfg(feature = "guest")]
pub mod guest;
#[cfg(feature = "host")]
pub mod host;

use serde::{Deserialize, Serialize};
use wideleaf_kit::named;

/// Its name.
pub const NAME: &str = "selftest";

named!(
    /// Ways to go wrong.
    Fault, "fault", {
        /// Kernel panic through sysrq, or by leaving PID 1 where there is no sysrq.
        Panic = "panic",
        /// Kernel panic because PID 1 exits.
        InitExit = "init-exit",
        /// Kernel WARN, through lkdtm (CONFIG_LKDTM).
        Warn = "warn",
        /// Kernel oops (a BUG), through lkdtm (CONFIG_LKDTM).
        Oops = "oops",
        /// The task never ends; the guest's own time limit catches it.
        Hang = "hang",
        /// The whole guest sits still; only the host can notice.
        Freeze = "freeze",
        /// Power-off before the result.
        EarlyPowerOff = "early-power-off",
        /// The task's process dies of SIGSEGV.
        JobCrash = "job-crash",
        /// The task panics (Rust's panic).
        JobPanic = "job-panic",
        /// Garbage on the console, some of it looking like an answer, and a good result after it.
        ConsoleGarbage = "console-garbage",
    }
);

/// What the guest is asked to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// How it goes wrong.
    pub fault: Fault,
}

/// What it found: that it is well.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {}
