// SPDX-License-Identifier: GPL-2.0-only
//! Finds a QEMU that can run the lab's guests.

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use wideleaf_kbuild::Arch;
use wideleaf_kit::tool::{find, said};

/// The oldest QEMU whose plugin API (version 4) has what our plugin uses.
const QEMU_AT_LEAST: (u32, u32) = (10, 0);

/// A QEMU that can run the lab's guests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Qemu {
    /// The program.
    pub path: PathBuf,
    /// Its version: `10.0.2`.
    pub version: String,
}

/// QEMU's program for an architecture, the Debian package it is in, and the
/// machine the lab uses.
const fn qemu_for(arch: Arch) -> (&'static str, &'static str, &'static str) {
    match arch {
        Arch::Arm64 => ("qemu-system-aarch64", "qemu-system-arm", "virt"),
        Arch::X86_64 => ("qemu-system-x86_64", "qemu-system-x86", "microvm"),
    }
}

impl Qemu {
    /// Finds QEMU for `arch` in `PATH` and makes sure that it will do.
    pub fn find(arch: Arch) -> Result<Self> {
        let (program, package, _) = qemu_for(arch);
        let path = find(program).with_context(|| {
            format!("{program} is missing: install it with 'apt install {package}'")
        })?;
        Self::probe(&path, arch)
    }

    /// Makes sure that the QEMU at `path` will do for `arch`: version 10 or
    /// newer, with plugins, with the machine that the lab uses.
    pub fn probe(path: &Path, arch: Arch) -> Result<Self> {
        let (_, package, machine) = qemu_for(arch);
        let name = path.display();
        let text = said(path, &["--version"])?;
        let version = parse_version(&text).with_context(|| {
            let first = text.lines().next().unwrap_or_default();
            format!("{name}: cannot tell its version from '{first}'")
        })?;
        let (major, minor) = QEMU_AT_LEAST;
        if version.0 < QEMU_AT_LEAST {
            bail!(
                "{name}: version {}, but {major}.{minor} or newer is needed: install {package} of \
                 Debian 13, or on Debian 12 with 'apt install -t bookworm-backports {package}'",
                version.1
            );
        }
        if !said(path, &["-d", "help"])?
            .lines()
            .any(|line| line.split_whitespace().next() == Some("plugin"))
        {
            bail!(
                "{name}: built without TCG plugins, so nothing can be counted: install Debian's \
                 {package}, or configure QEMU with --enable-plugins"
            );
        }
        if !said(path, &["-M", "help"])?
            .lines()
            .any(|line| line.split_whitespace().next() == Some(machine))
        {
            bail!("{name}: knows no machine '{machine}': install Debian's {package}, which has it");
        }
        Ok(Self {
            path: path.to_owned(),
            version: version.1,
        })
    }
}

/// `QEMU emulator version 10.0.2 (Debian ...)` gives `((10, 0), "10.0.2")`.
fn parse_version(text: &str) -> Option<((u32, u32), String)> {
    let version = text.split("version ").nth(1)?.split_whitespace().next()?;
    let mut numbers = version.split('.').map(|number| number.parse().ok());
    Some(((numbers.next()??, numbers.next()??), version.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wideleaf_kit::script::script;

    /// A shell script that answers like a QEMU.
    fn fake(version: &str, log: &str, machines: &str) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("qemu");
        let text = format!(
            "#!/bin/sh\ncase $1 in\n--version) echo 'QEMU emulator version {version} (x)';;\n\
             -d) echo '{log}';;\n-M) echo '{machines}';;\nesac\n"
        );
        script(&path, &text);
        (dir, path)
    }

    fn refusal(version: &str, log: &str, machines: &str) -> String {
        let (_dir, path) = fake(version, log, machines);
        format!("{:#}", Qemu::probe(&path, Arch::Arm64).unwrap_err())
    }

    const PLUGIN: &str = "plugin          output from TCG plugins";

    #[test]
    fn a_good_qemu_passes() {
        let (_dir, path) = fake("10.0.2", PLUGIN, "virt     QEMU 10.0 ARM Virtual Machine");
        assert_eq!(Qemu::probe(&path, Arch::Arm64).unwrap().version, "10.0.2");
    }

    #[test]
    fn each_lack_is_told_with_its_remedy() {
        let old = refusal("7.2.15", PLUGIN, "virt");
        assert!(
            old.contains("7.2.15") && old.contains("bookworm-backports"),
            "{old}"
        );
        // The word alone, as in `op_plugin`, does not count.
        let plain = refusal("10.0.2", "op_plugin  show micro ops", "virt");
        assert!(plain.contains("plugins"), "{plain}");
        let machine = refusal("10.0.2", PLUGIN, "virt-2.6  old");
        assert!(machine.contains("'virt'"), "{machine}");
        let odd = refusal("ten", PLUGIN, "virt");
        assert!(odd.contains("version"), "{odd}");
    }

    #[test]
    fn versions() {
        assert_eq!(
            parse_version("QEMU emulator version 10.1.0\n").unwrap().0,
            (10, 1)
        );
        assert_eq!(parse_version("bash"), None);
    }
}
