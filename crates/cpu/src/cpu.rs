// SPDX-License-Identifier: GPL-2.0-only
//! What is known of a CPU.

use crate::coalesce::Coalesce;
use crate::tlb::Tlb;
use serde::{Serialize, Serializer};
use wideleaf_kit::arch::Arch;

/// A CPU as far as its TLBs are concerned.
#[derive(Clone, Debug, Serialize)]
pub struct Cpu {
    /// The name to show, for example `AMD EPYC (family 1Ah model 2)`.
    pub name: String,
    /// Its architecture; `None` for any that Wideleaf does not know: base pages
    /// and PMD leaves only.
    #[serde(serialize_with = "known_or_other")]
    pub arch: Option<Arch>,
    /// How it was found out.
    pub origin: String,
    /// Which entries it coalesces.
    pub coalesce: Coalesce,
    /// Its TLBs, or `None` where neither the hardware nor a table tells.
    pub tlb: Option<Tlb>,
}

fn known_or_other<S: Serializer>(arch: &Option<Arch>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(arch.map_or("other", Arch::name))
}
