// SPDX-License-Identifier: GPL-2.0-only
//! Output of a program.

/// As text, whatever it is.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
