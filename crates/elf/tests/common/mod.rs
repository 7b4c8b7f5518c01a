// SPDX-License-Identifier: GPL-2.0-only
pub mod image;
pub mod invariants;
