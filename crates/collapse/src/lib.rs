// SPDX-License-Identifier: GPL-2.0-only
//! Wide leaves on request: `MADV_COLLAPSE` (Linux 6.1), for this process and
//! for others, one PMD at a time, and what the kernel's refusals mean.
//!
//! | module | reason to exist |
//! |---|---|
//! | `act` | block by block, with an eye on memory |
//! | `advise` | the system calls |
//! | `block` | a piece of a file mapped where a PMD can map it |
//! | `group` | what memory control groups leave |
//! | `kernel` | which files' text this kernel collapses at all |
//! | `plan` | which blocks there are to ask for, and why not others |
//! | `probe` | whether the kernel collapses a given file at all |
//! | `refusal` | errno in words |
//! | `spare` | how much can be taken before the kernel has to reclaim |
//! | `targets` | the processes that this is about, before and after |

mod act;
mod advise;
mod block;
mod group;
mod kernel;
mod plan;
mod probe;
mod refusal;
mod spare;
mod targets;

pub use act::{Budget, act};
pub use advise::{Other, own};
pub use block::Blocks;
pub use group::headroom;
pub use kernel::{TextOfFiles, text_of_files};
pub use plan::{Block, Key, Left, Need, Target, Why, need};
pub use probe::{probe, probe_shared_memory};
pub use refusal::Refusal;
pub use spare::{Source, Spare, make_blocks, spare};
pub use targets::{again, targets};
