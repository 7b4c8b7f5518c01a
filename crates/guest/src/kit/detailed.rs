// SPDX-License-Identifier: GPL-2.0-only
//! Errors that tell more than one line.

use crate::protocol::Failure;

/// An error with lines that explain it.
#[derive(Clone, Debug)]
pub struct Detailed(pub Failure);

impl std::fmt::Display for Detailed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.what)
    }
}

impl std::error::Error for Detailed {}
