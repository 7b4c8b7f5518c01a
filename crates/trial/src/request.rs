// SPDX-License-Identifier: GPL-2.0-only
//! The comparison that is asked for.

use std::ffi::OsString;
use std::path::Path;
use wideleaf_run::Means;

/// The comparison to make.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The command and its arguments.
    pub command: &'a [OsString],
    /// Programs and libraries that it starts or loads, and whose text is to be wide, too.
    pub with: &'a [OsString],
    /// The libraries of all of them, too.
    pub libs: bool,
    /// By which means.
    pub means: &'a [Means],
    /// How many runs each side has.
    pub runs: u32,
    /// Whether plain runs find base pages in the page cache, not what happens to be there.
    pub base_pages: bool,
    /// Whether the kernel may reclaim and compact for wide text.
    pub reclaim: bool,
    /// Whether a command may fail.
    pub failing: bool,
    /// The program that has the command `run`.
    pub starter: &'a Path,
}
