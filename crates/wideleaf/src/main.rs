// SPDX-License-Identifier: GPL-2.0-only
//! The `wideleaf` command.
fn main() {println!("hi");}
