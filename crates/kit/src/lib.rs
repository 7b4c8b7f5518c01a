// SPDX-License-Identifier: GPL-2.0-only
//! What any crate may need and none is about: it knows no kernels, guests, processes or ELF files.

pub mod amount;
pub mod arch;
pub mod events;
pub mod fresh;
pub mod names;
pub mod replace;
pub mod scratch;
#[cfg(any(test, feature = "testing"))]
pub mod script;
pub mod size;
pub mod table;
pub mod tool;
pub mod words;
