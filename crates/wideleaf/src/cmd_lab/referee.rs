// SPDX-License-Identifier: GPL-2.0-only
//! `wideleaf lab referee`: judges the TLB maintenance of a kernel that the lab did not build.

use super::outcome::Outcome;
use crate::screen::Screen;
use crate::usage::misuse;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use wideleaf_kit::events::{Event, Observer};
use wideleaf_kit::replace::replace;
use wideleaf_kit::size;
use wideleaf_kit::table::{Table, left, right};
use wideleaf_lab::choices;
use wideleaf_lab::common::CpuModel;
use wideleaf_lab::foreign::{Foreign, Judged};
use wideleaf_lab::referee::told;
use wideleaf_lab::vm::scratch;
use wideleaf_report::foreign::test;

const NOTES: &str = "\
The kernel's architecture is told by its image: Image, Image.gz or vmlinuz.efi of
arm64; bzImage, or vmlinux with CONFIG_PVH, of x86_64. It needs a console (ttyAMA0 or ttyS0) and an initramfs;
options for virtio are not needed. A run is over when the guest goes off: an
init of an x86_64 guest has to reboot rather than power off, as QEMU's microvm
has no power button.

The first complaint of the kernel ends the run and fails it (panic_on_warn=1,
oops=panic, panic=-1), unless --append says otherwise. Names of functions come from
System.map, files and lines from a vmlinux with debug information; both are looked
for beside the kernel, and in the build folder above arch/*/boot.

docs/referee.md says which rules are judged, and which faults cannot be seen.

Examples:
  wideleaf lab referee --kernel arch/arm64/boot/Image --initrd initramfs.cpio.gz
  wideleaf lab referee --kernel arch/arm64/boot/Image --command './busybox stat /proc'
  wideleaf lab referee --kernel Image --initrd rootfs.cpio --command 'ltp-mm.sh' --cpus 2
  wideleaf lab referee --kernel bzImage --command './mremap_test' --ktap - --timeout 60

Exit status:    0 nothing found, 1 something found or the guest failed, 2 wrong usage";

/// Boot any kernel under the referee and report what is wrong with its TLB maintenance
#[derive(clap::Args)]
#[command(after_long_help = NOTES)]
#[command(group = clap::ArgGroup::new("work").required(true).multiple(true).args(["initrd", "command"]))]
pub struct Referee {
    /// The kernel: Image or bzImage
    #[arg(long, value_name = "IMAGE")]
    kernel: PathBuf,
    /// The initramfs that it boots: a cpio archive, packed or not
    #[arg(long, value_name = "FILE")]
    initrd: Option<PathBuf>,
    /// A command that the guest runs instead of the initramfs' own init, with quotes as
    /// in a shell; without --initrd the first word is a static program of this machine
    #[arg(long, value_name = "COMMAND")]
    command: Option<String>,
    /// CPUs of the guest
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=8))]
    cpus: u32,
    /// The make of the guest's CPUs, as of lab run: bbm may change the size of leaves live
    #[arg(long, value_name = "MODEL", default_value = "max", value_parser = choices!(CpuModel))]
    cpu_model: CpuModel,
    /// Guest memory
    #[arg(long, value_name = "SIZE", default_value = "2G", value_parser = memory)]
    memory: u64,
    /// More kernel parameters
    #[arg(
        long,
        value_name = "PARAMETERS",
        default_value = "",
        hide_default_value = true,
        allow_hyphen_values = true
    )]
    append: String,
    /// Seconds that the guest may take
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u32).range(1..))]
    timeout: u32,
    /// Folder with System.map and vmlinux of this kernel [default: searched for]
    #[arg(long, value_name = "DIR")]
    symbols: Option<PathBuf>,
    /// Keep what the guest wrote to its console
    #[arg(long, value_name = "FILE")]
    console: Option<PathBuf>,
    /// Write everything that was found, as JSON; - is standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    outcome: Outcome,
    /// TLB plugin [default: searched for]
    #[arg(long, value_name = "FILE")]
    plugin: Option<PathBuf>,
    /// Static wideleaf-guest of the guest's architecture, for --command [default:
    /// searched for]
    #[arg(long, value_name = "FILE")]
    guest_bin: Option<PathBuf>,
}

/// At least what any kernel boots with, in pages of every size.
fn memory(text: &str) -> Result<u64, String> {
    const LEAST: u64 = 128 << 20;
    let bytes = size::parse(text)?;
    match bytes % (2 << 20) == 0 && bytes >= LEAST {
        true => Ok(bytes),
        false => Err("not a multiple of 2M of at least 128M".into()),
    }
}

impl Referee {
    /// Boots, prints what was found and writes what was asked for.
    ///
    /// # Errors
    ///
    /// If the guest cannot be run, or a file not be written.
    pub fn run(self) -> Result<ExitCode> {
        if let Err(error) = self.outcome.check(self.json.as_deref()) {
            misuse!("{error:#}");
        }
        let foreign = self.foreign()?;
        scratch::install();
        let screen = Screen::new();
        let step = format!("the referee watches {}", self.kernel.display());
        foreign.check()?;
        screen.event(Event::Step(&step));
        let judged = foreign.judge()?;
        self.write(&judged, &screen)?;
        Ok(match judged.passed() {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        })
    }

    fn foreign(&self) -> Result<Foreign> {
        let command = match &self.command {
            None => Vec::new(),
            Some(text) => match shell_words::split(text) {
                Ok(words) if !words.is_empty() => words,
                Ok(_) => misuse!("--command: there is no word in it"),
                Err(error) => misuse!("--command {text}: {error}"),
            },
        };
        Ok(Foreign {
            kernel: self.kernel.clone(),
            initrd: self.initrd.clone(),
            command,
            cpus: self.cpus,
            cpu_model: self.cpu_model,
            memory: self.memory,
            append: self.append.clone(),
            limit: Duration::from_secs(self.timeout.into()),
            symbols: self.symbols.clone(),
            plugin: self.plugin.clone(),
            guest_binary: self.guest_bin.clone(),
            console: self.console.clone(),
        })
    }

    fn write(&self, judged: &Judged, screen: &Screen) -> Result<()> {
        let json_to_stdout = self.json.as_deref() == Some(Path::new("-"));
        if let Some(path) = &self.json {
            let text = serde_json::to_string_pretty(judged)? + "\n";
            match json_to_stdout {
                true => screen.print(&text)?,
                false => replace(path, text)
                    .with_context(|| format!("cannot write {}", path.display()))?,
            }
        }
        self.outcome.put(&[test(judged)], screen)?;
        match json_to_stdout || self.outcome.to_stdout() {
            true => Ok(()),
            false => screen.print(&text(judged)),
        }
    }
}

/// The findings for people: a line for each rule that was broken, then each finding.
fn text(judged: &Judged) -> String {
    let mut kinds = BTreeMap::new();
    for finding in &judged.findings.list {
        let (places, times) = kinds.entry(finding.kind).or_insert((0_u64, 0));
        *places += 1;
        *times += finding.count;
    }
    let mut table = Table::new([left("RULE BROKEN"), right("PLACES"), right("TIMES")]).gap("  ");
    for (kind, (places, times)) in &kinds {
        table.row([kind.name(), &places.to_string(), &times.to_string()]);
    }
    let mut out = match kinds.is_empty() {
        true => String::new(),
        false => table.render(true) + "\n",
    };
    let name = judged
        .kernel
        .file_name()
        .unwrap_or_default()
        .to_string_lossy();
    for line in told(&format!("{name} ({})", judged.arch), &judged.findings) {
        out += &format!("{line}\n");
    }
    if let Some(status) = judged.status {
        out += &format!(
            "  '{}' ended with status {status}\n",
            judged.command.join(" ")
        );
    }
    if let Some(failure) = &judged.failure {
        out += &format!("  failed: {failure}\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{CommandFactory, Parser};

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        referee: Referee,
    }

    fn parse(line: &str) -> Result<Referee, String> {
        let words = shell_words::split(line).unwrap();
        let words = [String::from("referee")].into_iter().chain(words);
        let parsed = Cli::try_parse_from(words).map_err(|error| error.to_string())?;
        Ok(parsed.referee)
    }

    #[test]
    fn the_examples_of_the_help_parse() {
        Cli::command().debug_assert();
        let lines = NOTES
            .lines()
            .filter_map(|line| line.trim().strip_prefix("wideleaf lab referee "));
        let parsed = lines.map(|line| parse(line).unwrap().foreign().unwrap());
        assert_eq!(parsed.count(), 4);
    }

    #[test]
    fn a_kernel_without_anything_to_boot_is_wrong_usage() {
        let error = |line| parse(line).err().unwrap_or_default();
        assert!(error("--kernel Image").contains("--initrd"));
        assert!(error("--initrd x").contains("--kernel"));
        assert!(error("--kernel Image --initrd x --timeout 0").contains("--timeout"));
        assert!(error("--kernel Image --initrd x --memory 3M").contains("2M"));
        let referee = parse("--kernel Image --command ' '").unwrap();
        let error = referee.foreign().unwrap_err();
        assert!(error.is::<crate::usage::Usage>(), "{error}");
        let twice = parse("--kernel Image --initrd x --json - --ktap -").unwrap();
        assert!(twice.run().unwrap_err().is::<crate::usage::Usage>());
    }

    #[test]
    fn a_command_is_split_as_in_a_shell() {
        let referee = parse("--kernel Image --command \"sh -c 'a b'\"").unwrap();
        assert_eq!(referee.foreign().unwrap().command, ["sh", "-c", "a b"]);
    }
}
