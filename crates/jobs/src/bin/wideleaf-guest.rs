// SPDX-License-Identifier: GPL-2.0-only
//! The guest's init: the lab boots kernels with this program as `/init` and only process. Where a
//! guest has a systemd, it is a service there, and starts loads in others.

use std::process::ExitCode;
use wideleaf_guest::{command, init, systemd};
use wideleaf_jobs::{services, works};

fn main() -> ExitCode {
    if init::wanted() {
        if command::wanted() {
            command::main();
        }
        init::main(works::ALL);
    }
    match std::env::args().nth(1).as_deref() {
        Some(systemd::WORD) => systemd::main(works::ALL),
        Some(services::LOAD) => services::load::main(),
        _ => {
            eprintln!(
                "wideleaf-guest: the init of the lab's guests; 'wideleaf lab run' boots them"
            );
            ExitCode::from(2)
        }
    }
}
