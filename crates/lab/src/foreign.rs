// SPDX-License-Identifier: GPL-2.0-only
//! A kernel that the lab did not build, under the referee: it boots an initramfs of its developer's,
//! or runs one command.

use crate::common::CpuModel;
use crate::host::{self, parts};
use crate::profiles::default_profile;
use crate::referee::{Symbols, read_findings};
use crate::vm::emulator::Qemu;
use crate::vm::qemu::{Guest, Plugin};
use crate::vm::scratch::Scratch;
use crate::vm::silent::{self, Ended};
use crate::vm::{image, initramfs};
use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use wideleaf_cache::{Cache, Key};
use wideleaf_kbuild::Arch;
use wideleaf_tlb::referee::finding::Findings;

/// The name of the JSON.
pub const SCHEMA: &str = "wideleaf-lab-referee";

/// Its version, raised when a field changes its meaning or goes away.
pub const SCHEMA_VERSION: u32 = 1;

/// An x86-64 guest has this much below its hole at most, and the plugin sees memory as one piece.
const X86_MEMORY: u64 = 3 << 30;

/// Addresses are those of `System.map` only where the kernel does not choose others at boot.
const PARAMETERS: &str = "nokaslr";

/// A kernel to judge, and the machine.
#[derive(Debug)]
pub struct Foreign {
    /// `Image` or `bzImage`.
    pub kernel: PathBuf,
    /// The initramfs, if there is one.
    pub initrd: Option<PathBuf>,
    /// The words of the command; none: the init of the initramfs decides what is done.
    pub command: Vec<String>,
    /// CPUs of the guest.
    pub cpus: u32,
    /// The make of an arm64 guest's CPUs.
    pub cpu_model: CpuModel,
    /// Guest memory in bytes.
    pub memory: u64,
    /// More kernel parameters.
    pub append: String,
    /// How long the guest may take.
    pub limit: Duration,
    /// Where `System.map` and `vmlinux` are, if not near the kernel.
    pub symbols: Option<PathBuf>,
    /// The plugin, if it is not to be searched for.
    pub plugin: Option<PathBuf>,
    /// The guest's binary, if it is not to be searched for.
    pub guest_binary: Option<PathBuf>,
    /// Where the guest's console is to be kept.
    pub console: Option<PathBuf>,
}

/// The verdict on a kernel.
#[derive(Clone, Debug, Serialize)]
pub struct Judged {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// The kernel.
    pub kernel: PathBuf,
    /// The hash of its image.
    pub kernel_hash: String,
    /// Its architecture.
    pub arch: Arch,
    /// The words of the command; empty: there was none.
    pub command: Vec<String>,
    /// The QEMU.
    pub qemu: Qemu,
    /// From QEMU's start to its end.
    pub seconds: f64,
    /// Why the guest came to no good end.
    pub failure: Option<String>,
    /// The command's exit status.
    pub status: Option<i32>,
    /// All that the referee found.
    pub findings: Findings,
}

impl Judged {
    /// Whether nothing is wrong.
    pub fn passed(&self) -> bool {
        let Findings { forgotten, .. } = self.findings;
        let done = self.failure.is_none() && self.status.is_none_or(|status| status == 0);
        done && self.findings.is_clean() && forgotten == 0
    }
}

impl Foreign {
    /// The kernel's architecture.
    ///
    /// # Errors
    ///
    /// If the kernel, or what it is to boot, is not what it should be.
    pub fn check(&self) -> Result<Arch> {
        let arch = image::arch(&self.kernel)?;
        if let Some(initrd) = &self.initrd {
            initramfs::check_archive(initrd)?;
        }
        if let (None, Some(program)) = (&self.initrd, self.command.first()) {
            initramfs::check(Path::new(program), arch).context(
                "without --initrd the guest has only this program, which goes there from here",
            )?;
        }
        ensure!(
            self.cpu_model.fits(arch),
            "--cpu-model {}: not a model of {arch}, which {} is for",
            self.cpu_model,
            self.kernel.display()
        );
        ensure!(
            arch == Arch::Arm64 || self.memory <= X86_MEMORY,
            "--memory: an x86_64 guest may have {}M at most",
            X86_MEMORY >> 20
        );
        Ok(arch)
    }

    /// Boots the kernel and says what was found until the guest went off.
    ///
    /// # Errors
    ///
    /// If something is not what it should be, or QEMU does not run the guest.
    pub fn judge(&self) -> Result<Judged> {
        let arch = self.check()?;
        let symbols = Symbols::of(&self.kernel, self.symbols.as_deref())?;
        let qemu = Qemu::find(arch)?;
        host::guests_at_once(self.memory, 1).context("--memory")?;
        let scratch = Scratch::new(&host::memory_folder(&Cache::open()?, self.memory)?)?;
        let start = Instant::now();
        let (ended, mut findings) = self.boot(arch, &qemu, &scratch)?;
        symbols.apply(&mut findings);
        let failure = ended.failure.or_else(|| self.lack(ended.status, &findings));
        Ok(Judged {
            schema: SCHEMA,
            schema_version: SCHEMA_VERSION,
            kernel: self.kernel.clone(),
            kernel_hash: Key::new().file("image", &self.kernel)?.id(),
            arch,
            command: self.command.clone(),
            qemu,
            seconds: start.elapsed().as_secs_f64(),
            failure,
            status: ended.status,
            findings,
        })
    }

    fn boot(&self, arch: Arch, qemu: &Qemu, scratch: &Scratch) -> Result<(Ended, Findings)> {
        let plugin = parts::plugin(self.plugin.as_deref())?;
        let (console, counts) = (scratch.join("console"), scratch.join("counts.json"));
        let own = scratch.join("initramfs");
        let initramfs = self.initramfs(arch, &own)?;
        let (ram, answers) = (scratch.join("ram"), scratch.join("answers"));
        let guest = Guest {
            arch,
            kernel: &self.kernel,
            initramfs,
            disk: None,
            writable: false,
            disk_rate: None,
            cpus: self.cpus,
            cpu_model: self.cpu_model,
            memory: self.memory,
            pluggable: None,
            acpi: false,
            pcie: false,
            ram: &ram,
            answers: &answers,
            console: &console,
            parameters: &format!("{PARAMETERS} {}", self.append),
            plugin: Some(Plugin {
                file: &plugin,
                profile: default_profile(arch),
                out: &counts,
                referee: true,
                sweep: &[],
            }),
        };
        let ended = silent::run(&qemu.path, &guest, &scratch.join("qemu.log"), self.limit);
        let kept = self.keep(&console);
        let ended = ended.with_context(|| self.kernel.display().to_string())?;
        kept?;
        let findings = read_findings(&counts)
            .with_context(|| ended.failure.clone().unwrap_or("the guest went off".into()))?;
        Ok((ended, findings))
    }

    /// The initramfs that the guest gets; `own` is where one of the lab's own may be put.
    fn initramfs<'a>(&'a self, arch: Arch, own: &'a Path) -> Result<&'a Path> {
        if self.command.is_empty() {
            return self
                .initrd
                .as_deref()
                .context("neither --initrd nor --command");
        }
        let binary = parts::guest_binary(arch, self.guest_binary.as_deref())?;
        let below = self.initrd.as_deref();
        initramfs::write_command(own, &binary, arch, &self.command, below)?;
        Ok(own)
    }

    /// A lack of what must have been seen of a guest that went off without a complaint.
    fn lack(&self, status: Option<i32>, findings: &Findings) -> Option<String> {
        if !self.command.is_empty() && status.is_none() {
            return Some("the guest went off before its command had ended".into());
        }
        let nothing = findings.table_writes == 0;
        nothing.then(|| "the referee saw no store to a page table: the kernel did not run".into())
    }

    fn keep(&self, console: &Path) -> Result<()> {
        let Some(to) = &self.console else {
            return Ok(());
        };
        if !console.exists() {
            bail!("{}: the guest wrote nothing to its console", to.display());
        }
        std::fs::copy(console, to)
            .map(drop)
            .with_context(|| format!("cannot write {}", to.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn foreign(dir: &Path) -> Foreign {
        let mut image = vec![0; 0x400];
        image[0x38..0x3c].copy_from_slice(b"ARM\x64");
        std::fs::write(dir.join("Image"), image).unwrap();
        std::fs::write(dir.join("cpio"), b"0707010000").unwrap();
        Foreign {
            kernel: dir.join("Image"),
            initrd: Some(dir.join("cpio")),
            command: Vec::new(),
            cpus: 1,
            cpu_model: CpuModel::Max,
            memory: 1 << 30,
            append: String::new(),
            limit: Duration::from_secs(1),
            symbols: None,
            plugin: None,
            guest_binary: None,
            console: None,
        }
    }

    #[test]
    fn what_cannot_boot_is_refused_before_anything_runs() {
        let dir = tempfile::tempdir().unwrap();
        let ready = || foreign(dir.path());
        assert_eq!(ready().check().unwrap(), Arch::Arm64);
        let text = dir.path().join("notes");
        std::fs::write(&text, "not a kernel").unwrap();
        let error = |wrong: Foreign| format!("{:#}", wrong.check().unwrap_err());
        let (kernel, initrd) = (text.clone(), Some(text.clone()));
        assert!(error(Foreign { kernel, ..ready() }).contains("notes: no kernel image"));
        assert!(error(Foreign { initrd, ..ready() }).contains("notes: no initramfs"));
        let initrd = Some(dir.path().join("none"));
        assert!(error(Foreign { initrd, ..ready() }).contains("none: cannot read"));
        let (initrd, command) = (None, vec![text.display().to_string()]);
        let wrong = Foreign {
            initrd,
            command,
            ..ready()
        };
        let said = error(wrong);
        assert!(
            said.contains("notes: ") && said.contains("--initrd"),
            "{said}"
        );
    }

    #[test]
    fn a_guest_of_which_nothing_was_seen_has_not_passed() {
        let dir = tempfile::tempdir().unwrap();
        let with = |words: &[&str]| Foreign {
            command: words.iter().map(|word| word.to_string()).collect(),
            ..foreign(dir.path())
        };
        let seen = Findings {
            table_writes: 1,
            ..Findings::default()
        };
        assert_eq!(with(&[]).lack(None, &seen), None);
        assert!(with(&[]).lack(None, &Findings::default()).is_some());
        assert!(with(&["true"]).lack(None, &seen).is_some());
        assert_eq!(with(&["true"]).lack(Some(0), &seen), None);
    }
}
