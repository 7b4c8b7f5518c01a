// SPDX-License-Identifier: GPL-2.0-only
//! What several jobs' host sides share. What their guest sides share is in `crates/guest`.

#[cfg(feature = "host")]
pub mod description;
#[cfg(feature = "host")]
pub mod deviations;
#[cfg(feature = "host")]
pub mod known;
#[cfg(feature = "host")]
pub mod linear;
#[cfg(feature = "host")]
pub mod text;
#[cfg(feature = "host")]
pub mod worked;
