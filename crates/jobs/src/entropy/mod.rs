// SPDX-License-Identifier: GPL-2.0-only
//! Where programs and libraries come to lie: what alignment costs in
//! randomisation.

#[cfg(feature = "guest")]
pub mod guest;
#[cfg(feature = "host")]
pub mod host;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Its name.
pub const NAME: &str = "entropy";

/// What is loaded again and again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Case {
    /// By which its figures go.
    pub name: String,
    /// Program and arguments, without blanks in them. Writes addresses as native 64-bit words.
    pub command: String,
    /// All of the environment.
    pub env: BTreeMap<String, String>,
    /// Which of the words it is about.
    pub word: usize,
    /// Persona flags of personality(2) that it gets.
    pub persona: u32,
}

/// Where a case's loads came to lie.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spread {
    /// The case's name.
    pub name: String,
    /// Number of loads.
    pub loads: u32,
    /// Bits in which any two addresses differ, set.
    pub varying: u64,
    /// The lowest address.
    pub min: u64,
    /// The highest.
    pub max: u64,
    /// Number of different addresses.
    pub distinct: u64,
}

/// What the guest is asked to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// The folder that its programs see as `/`.
    pub root: String,
    /// The value that vm.mmap_rnd_bits gets.
    pub random_bits: u32,
    /// How often each case is loaded.
    pub loads: u32,
    /// What is loaded.
    pub cases: Vec<Case>,
}

/// What it found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// One for each case, in their order.
    pub spreads: Vec<Spread>,
}
