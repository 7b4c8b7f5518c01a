// SPDX-License-Identifier: GPL-2.0-only
//! Leaf coverage per service as OpenMetrics text.
//!
//! | module | reason to exist |
//! |---|---|
//! | `snapshot` | processes summed up by control group |
//! | `text` | the exposition format |
//! | `scrape` | one look at all processes |
//! | `serve` | a small HTTP endpoint |

mod scrape;
mod serve;
mod snapshot;
mod text;

pub use scrape::{Wanted, scrape};
pub use serve::{Content, Server};
pub use snapshot::{Group, Snapshot};
pub use text::render;
pub use wideleaf_kit::replace::replace;
