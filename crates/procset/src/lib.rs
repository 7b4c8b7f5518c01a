// SPDX-License-Identifier: GPL-2.0-only
//! What `ps`, `top`, `metrics` and `collapse` have in common: one pass over processes, and what
//! their text demands of a CPU's TLBs.
//!
//! | module | reason to exist |
//! |---|---|
//! | `machine` | the CPU, the sizes and the reader; one pass |
//! | `cpu` | which CPU is counted for |
//! | `pressure` | TLB entries needed against those there are |
//! | `seen` | what a pass came across |
//! | `select` | which processes are meant |

mod cpu;
mod error;
mod machine;
mod pressure;
mod seen;
mod select;

pub use error::Error;
pub use machine::Machinery;
pub use pressure::Pressure;
pub use seen::Seen;
pub use select::select;
