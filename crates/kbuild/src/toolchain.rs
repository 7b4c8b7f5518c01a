// SPDX-License-Identifier: GPL-2.0-only
//! The compiler and linker that build for an architecture.

use crate::Arch;
use anyhow::Result;
use std::path::Path;
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

/// A compiler for static programs of `arch`, and its options. Debian's packages with the C library
/// were unpacked below `root`, where it looks before the host's, which gcc finds beside itself
/// whatever the sysroot.
pub fn static_compiler(arch: Arch, root: &Path) -> [String; 4] {
    let libraries = wideleaf_debian::libraries(root, arch);
    [
        format!("{}gcc", cross(arch)),
        format!("--sysroot={}", root.display()),
        format!("-B{}/", libraries.display()),
        "-static".into(),
    ]
}

/// What the compiler and linker for `arch` say they are.
pub fn compiler(arch: Arch) -> Result<String> {
    let version = |tool: &str| {
        let text = tool::stdout(Command::new(format!("{}{tool}", cross(arch))).arg("--version"))?;
        anyhow::Ok(text.lines().next().unwrap_or_default().to_string())
    };
    Ok(format!("{}; {}", version("gcc")?, version("ld")?))
}
