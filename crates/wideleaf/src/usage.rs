// SPDX-License-Identifier: GPL-2.0-only
//! Errors of whoever called, which end with status 2 as clap's own do.

use std::fmt;

/// A value on the command line that makes no sense.
#[derive(Debug)]
pub struct Usage(pub String);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// The exit status of wrong usage.
pub const STATUS: u8 = 2;

/// `bail!` with a [`Usage`].
macro_rules! misuse {
    ($($arg:tt)*) => {
        return Err($crate::usage::Usage(format!($($arg)*)).into())
    };
}
pub(crate) use misuse;
