// SPDX-License-Identifier: GPL-2.0-only
//! Results of the lab for others to read.
//!
//! [`page()`] makes one HTML page of them: `summary` its first screen, `count` what is shown of a
//! comparison, `strips` the pictures in the cells of its tables. It has the command behind every
//! figure, and [`days`] finds comparisons that were made more than once. `hardware` shows what
//! processors counted beside what was modelled.
//!
//! [`picture`] draws the text of one row by the leaf, as SVG.
//!
//! [`Simple`] is a page of other commands, with [`plot`]s.
//!
//! [`compact`] is the form in which figures are committed, [`sheet`] that of tables which no row has
//! the figures of, and [`committed`] all of both. [`markdown`] writes them into the tables of pages,
//! which `tables` defines, each once: by `layout`, or by `template`. [`outcome`] tells how a run went, as machines
//! read it: in [`ktap`] or [`junit`].

mod amount;
mod cells;
pub mod committed;
pub mod compact;
mod count;
pub mod days;
pub mod foreign;
mod hardware;
pub mod junit;
pub mod ktap;
mod layout;
pub mod markdown;
pub mod outcome;
mod page;
pub mod picture;
pub mod plot;
pub mod sheet;
mod simple;
mod strips;
mod summary;
mod tables;
mod template;

#[cfg(test)]
mod sample;

pub use page::page;
pub use simple::Simple;

use wideleaf_jobs::registry;
use wideleaf_lab::job::AnyJob;
use wideleaf_lab::results::{Comparison, Results};

/// One results file.
pub struct Source {
    /// As the reader knows it: its path.
    pub name: String,
    /// What it holds.
    pub results: Results,
}

/// Tells the command that makes a comparison again.
pub type Command<'a> = &'a dyn Fn(&Comparison) -> String;

/// `Linux 6.12, arm64, 64K pages`.
pub fn machine(comparison: &Comparison) -> String {
    let machine = format!(
        "Linux {}, {}, {} pages",
        comparison.base, comparison.arch, comparison.page_size
    );
    match &comparison.common.config {
        Some(config) => format!("{machine}, {config}"),
        None => machine,
    }
}

/// The job of a comparison that was read from a file; `None`: this program does not know it.
fn job(comparison: &Comparison) -> Option<&'static dyn AnyJob> {
    registry::find(&comparison.job).ok()
}
