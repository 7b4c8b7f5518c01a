// SPDX-License-Identifier: GPL-2.0-only
//! The compiler and linker that build for an architecture.

use crate::Arch;
use anyhow::Result;
use std::process::Command;
use wideleaf_kit::tool;

/// The prefix of the tools that build for `arch` on this machine.
pub fn cross(arch: Arch) -> &'static str {
    match arch {
        _ if Arch::host() == Some(arch) => "",
        Arch::Arm64 => "aarch64-linux-gnu-",
        Arch::X86_64 => "x86_64-linux-gnu-",
    }
}

/// What the compiler and linker for `arch` say they are.
pub(crate) fn compiler(arch: Arch) -> Result<String> {
    let version = |tool: &str| {
        let text = tool::stdout(Command::new(format!("{}{tool}", cross(arch))).arg("--version"))?;
        anyhow::Ok(text.lines().next().unwrap_or_default().to_string())
    };
    Ok(format!("{}; {}", version("gcc")?, version("ld")?))
}
