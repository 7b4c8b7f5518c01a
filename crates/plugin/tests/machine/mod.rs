// SPDX-License-Identifier: GPL-2.0-only
//! A bare-metal guest: assembled, linked, and run in QEMU under the plugin.

// Each test that includes this file uses another part of it.
#![allow(dead_code)]

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use wideleaf_tlb::report::Report;

/// What a run leaves.
pub struct Run {
    pub report: Report,
    /// Addresses of the guest's labels.
    pub symbols: HashMap<String, u64>,
}

pub struct Guest {
    pub qemu: &'static str,
    /// Prefix of as and ld.
    pub binutils: &'static str,
    pub as_flags: &'static [&'static str],
    pub source: &'static str,
    pub script: &'static str,
    pub machine: &'static [&'static str],
}

pub const ARM64: Guest = Guest {
    qemu: "qemu-system-aarch64",
    binutils: "aarch64-linux-gnu-",
    as_flags: &["-march=armv8.2-a"],
    source: "guest_arm64.S",
    script: "guest_arm64.ld",
    machine: &["-M", "virt,gic-version=3", "-cpu", "max"],
};

pub const X86: Guest = Guest {
    qemu: "qemu-system-x86_64",
    binutils: "x86_64-linux-gnu-",
    as_flags: &["--64"],
    source: "guest_x86.S",
    script: "guest_x86.ld",
    machine: &["-M", "microvm", "-cpu", "max"],
};

fn tests_dir() -> PathBuf {
    PathBuf::from("tests")
}

/// Cargo puts the plugin beside the test's own executable.
fn plugin() -> PathBuf {
    let exe = std::env::current_exe().unwrap();
    let so = exe.with_file_name("libwideleaf_plugin.so");
    assert!(so.exists(), "{} is not built", so.display());
    so
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {stderr}");
}

fn present(tool: &str) -> bool {
    let found = Command::new(tool).arg("--version").output().is_ok();
    if !found {
        assert!(
            std::env::var_os("WIDELEAF_REQUIRE_QEMU").is_none(),
            "{tool} is missing"
        );
        eprintln!("SKIPPED: {tool} is missing; this test has checked nothing");
    }
    found
}

impl Guest {
    pub fn tools_present(&self) -> bool {
        present(self.qemu) && present(&format!("{}as", self.binutils))
    }

    fn build(&self, dir: &Path) -> PathBuf {
        let (object, elf) = (dir.join("guest.o"), dir.join("guest.elf"));
        run(Command::new(format!("{}as", self.binutils))
            .args(self.as_flags)
            .arg("-I")
            .arg(dir)
            .arg("-o")
            .arg(&object)
            .arg(tests_dir().join(self.source)));
        run(Command::new(format!("{}ld", self.binutils))
            .arg("-T")
            .arg(tests_dir().join(self.script))
            .arg("-o")
            .arg(&elf)
            .arg(&object));
        elf
    }

    pub fn command(&self, dir: &Path, plugin_args: &str) -> Command {
        let ram = dir.join("ram");
        let mut c = Command::new("timeout");
        c.args(["180", self.qemu]).args(self.machine);
        c.args(["-m", "256M", "-display", "none", "-serial", "none"]);
        c.args(["-monitor", "none", "-no-reboot", "-object"]);
        c.arg(format!(
            "memory-backend-file,id=ram,size=256M,share=on,mem-path={}",
            ram.display()
        ));
        c.args(["-machine", "memory-backend=ram", "-plugin"]);
        c.arg(format!("{},{plugin_args}", plugin().display()));
        c
    }

    pub fn report(&self, profile: &str) -> Report {
        self.report_of(profile, "", &["-accel", "tcg"])
    }

    /// With more arguments of the plugin and of QEMU.
    pub fn report_of(&self, profile: &str, plugin: &str, qemu: &[&str]) -> Report {
        let dir = tempfile::tempdir().unwrap();
        let elf = self.build(dir.path());
        self.boot(dir.path(), &elf, profile, plugin, qemu)
    }

    /// With `text` in the file that the guest's source includes as `name`.
    pub fn run_with(&self, name: &str, text: &str, plugin: &str, qemu: &[&str]) -> Run {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(name), text).unwrap();
        let elf = self.build(dir.path());
        Run {
            report: self.boot(dir.path(), &elf, "neoverse-v2", plugin, qemu),
            symbols: self.symbols(&elf),
        }
    }

    fn boot(&self, dir: &Path, elf: &Path, profile: &str, plugin: &str, qemu: &[&str]) -> Report {
        let (out, ram) = (dir.join("out.json"), dir.join("ram"));
        let args = format!(
            "profile={profile},ram={},out={}{plugin}",
            ram.display(),
            out.display()
        );
        let mut command = self.command(dir, &args);
        run(command.args(qemu).arg("-kernel").arg(elf));
        serde_json::from_slice(&std::fs::read(out).unwrap()).unwrap()
    }

    fn symbols(&self, elf: &Path) -> HashMap<String, u64> {
        let nm = Command::new(format!("{}nm", self.binutils))
            .arg(elf)
            .output();
        let text = String::from_utf8(nm.unwrap().stdout).unwrap();
        let symbol = |line: &str| {
            let mut words = line.split_whitespace();
            let address = u64::from_str_radix(words.next()?, 16).ok()?;
            Some((words.nth(1)?.to_owned(), address))
        };
        text.lines().filter_map(symbol).collect()
    }
}
