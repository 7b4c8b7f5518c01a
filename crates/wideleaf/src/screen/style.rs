// SPDX-License-Identifier: GPL-2.0-only
//! How a line is laid out.

use indicatif::ProgressStyle;

/// The style of this template.
pub fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}
