// SPDX-License-Identifier: GPL-2.0-only
//! Boots kernels in QEMU, runs jobs in them and compares the figures.
//!
//! A [`target::Target`] is what is to be run: a [`job`] with its
//! [`options`] and the [`plan`] that follows from them, on a machine, with some kernels. [`run::Lab`] runs it and gives
//! [`results`]; [`compare`] holds the kernels' figures against each other,
//! [`sweep`] says how far their changes depend on the model, [`table`] shows them, [`expect`]
//! judges them.
//!
//! [`foreign`] has the referee judge a kernel that the lab did not build.
//!
//! [`host`] looks before work begins whether the machine has what is needed.
//! [`disk`] has the guest's disk made; [`vm`] runs one guest and says how it
//! ended.

pub mod boot;
pub mod common;
pub mod compare;
pub mod disk;
pub mod expect;
pub mod foreign;
pub mod host;
pub mod job;
pub mod options;
pub mod plan;
pub mod profiles;
pub mod referee;
pub mod results;
pub mod run;
pub mod sweep;
pub mod table;
pub mod target;
pub mod vm;

#[cfg(any(test, feature = "testing"))]
pub mod sample;
