// SPDX-License-Identifier: GPL-2.0-only
//! What can be wrong with the CPU that was asked for.

use wideleaf_kit::size::short;

/// Why there is nothing to count for. Each says what would be right.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No CPU has this name, and it is no list of sizes.
    #[error(
        "--cpu {given}: no such CPU; known names: {}; or sizes that it coalesces, like 16K,32K, or none",
        wideleaf_cpu::names().join(", ")
    )]
    UnknownCpu {
        /// As it was given.
        given: String,
    },
    /// Sizes that no CPU could coalesce.
    #[error(
        "--cpu {given}: each size must be a power of two of at least two pages of {}",
        short(*page)
    )]
    Sizes {
        /// As they were given.
        given: String,
        /// Base page in bytes.
        page: u64,
    },
}
