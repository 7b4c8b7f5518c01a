// SPDX-License-Identifier: GPL-2.0-only
//! What goes to standard output, for commands that outlive their reader.

use anyhow::{Context, Result};
use std::io::{ErrorKind, Write};

/// Writes `text`. A reader that has seen enough (`| head`) is no error.
///
/// # Errors
///
/// Anything else, such as a full disk.
pub fn write_out(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other.context("cannot write to standard output"),
    }
}

/// `println!` by way of [`write_out`], instead of a panic.
macro_rules! say {
    ($($arg:tt)*) => {
        $crate::stdout::write_out(&format!("{}\n", format_args!($($arg)*)))
    };
}
pub(crate) use say;
