// SPDX-License-Identifier: GPL-2.0-only
//! The guest's init: the lab boots kernels with this program as `/init` and only process.

use std::process::ExitCode;

fn main() -> ExitCode {
    if wideleaf_guest::init::wanted() {
        if wideleaf_guest::command::wanted() {
            wideleaf_guest::command::main();
        }
        wideleaf_guest::init::main(wideleaf_jobs::works::ALL);
    }
    eprintln!("wideleaf-guest: the init of the lab's guests; 'wideleaf lab run' boots them");
    ExitCode::from(2)
}
