// SPDX-License-Identifier: GPL-2.0-only
//! Runs a command plainly and by each means of wide text, in turns, and says what that changed and
//! how sure it is.
//!
//! | module | reason to exist |
//! |---|---|
//! | `request` | the comparison that is asked for |
//! | `trial` | the turns |
//! | `side` | plainly, or by a means: how a run is started, what the page cache holds then |
//! | `measure` | one run: CPU time, time, memory, the CPU's counters |
//! | `coverage` | which leaves map the text of the processes while they run |
//! | `ratio` | two sides against each other: ratio, interval, verdict |

mod coverage;
mod measure;
mod ratio;
mod request;
mod side;
mod trial;

pub use coverage::Seen;
pub use measure::{Ended, Run};
pub use ratio::{Quantity, Ratio, Verdict};
pub use request::Request;
pub use trial::{Error, Side, Trial, trial};
