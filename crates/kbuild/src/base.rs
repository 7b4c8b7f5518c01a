// SPDX-License-Identifier: GPL-2.0-only
//! The kernel bases.

use wideleaf_kit::named;

named!(
    /// A kernel base: a Debian package `linux-source-<base>`.
    Base, "base", {
        /// Linux 6.12 LTS, the durable default.
        V6_12 = "6.12",
        /// Linux 7.3, the forward base.
        V7_3 = "7.3",
    }
);

impl Base {
    /// The Debian package that holds the source.
    pub fn package(self) -> String {
        format!("linux-source-{self}")
    }
}
