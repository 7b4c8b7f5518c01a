// SPDX-License-Identifier: GPL-2.0-only
//! `wideleaf enable` and `wideleaf disable`: the files of the system that keep text wide from the
//! next boot on, and back.

use crate::procset::is_no_group;
use crate::stdout::{printable_path, say, tell, write_out};
use crate::usage::misuse;
use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use wideleaf_elf::{Elf, FileSource};
use wideleaf_keep::{
    Config, DROP_IN, Edit, MemoryThp, apply, differences, drop_in_path, restore, unit,
};
use wideleaf_kit::names::printable;
use wideleaf_kit::size::parse;
use wideleaf_run::{TUNABLE, has_tunable};

const CONFIG: &str = "etc/wideleaf/keep.toml";
const TUNABLES: &str = "etc/tunables.conf";
const RELOAD: &str =
    "MemoryTHP= of a service has changed: systemctl daemon-reload, then restart the service";
const JOURNAL: &str = "var/lib/wideleaf/enabled.json";

/// Arguments of `wideleaf enable`.
#[derive(clap::Args)]
#[command(after_long_help = "\
The difference is shown; --write writes it. Files that are changed:
  /etc/wideleaf/keep.toml  what `wideleaf keep` keeps wide: what is named is added
  /etc/tunables.conf       glibc.elf.thp=1, by which ld.so aligns libraries, where
                           this machine's glibc has the tunable (2.44)
  /etc/systemd/system/NAME.service.d/50-wideleaf.conf
                           MemoryTHP=madvise if the service's unit disables huge
                           pages; MemoryTHP=system if systemd itself runs without
                           them (systemd 260)

Their content before is in /var/lib/wideleaf/enabled.json, for `wideleaf disable`.

Exit status: 0 shown, or written; 1 an error; 2 usage.

Examples:
  wideleaf enable --libs /usr/bin/node
  wideleaf enable --write --service postgresql.service --limit 512M")]
pub struct Args {
    /// Programs and shared libraries
    #[arg(value_name = "PROGRAM")]
    programs: Vec<PathBuf>,
    /// The programs' libraries, too
    #[arg(long)]
    libs: bool,
    /// A service, by name or by control group; may be repeated
    #[arg(long, value_name = "NAME")]
    service: Vec<String>,
    /// An image of podman or docker; may be repeated
    #[arg(long, value_name = "NAME")]
    image: Vec<String>,
    /// New folios that a pass may take
    #[arg(long, value_name = "SIZE", value_parser = parse)]
    limit: Option<u64>,
    /// Whether to write glibc's tunable
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    tunable: When,
    /// Value of systemd's MemoryTHP= for each --service
    #[arg(long, value_name = "VALUE", default_value = "auto")]
    memory_thp: Thp,
    /// Write what is shown
    #[arg(long)]
    write: bool,
    /// Folder that stands for /
    #[arg(long, value_name = "DIR", default_value = "/", hide_short_help = true)]
    root: PathBuf,
}

/// Arguments of `wideleaf disable`.
#[derive(clap::Args)]
#[command(after_long_help = "\
Each file is byte for byte what it was before the first `wideleaf enable`, or gone
if there was none. A file that was changed otherwise since is an error, and then
nothing is restored.

Exit status: 0 restored, or nothing was enabled; 1 an error; 2 usage.

Examples:
  wideleaf disable")]
pub struct DisableArgs {
    /// Restore files that were changed since, too
    #[arg(short, long)]
    force: bool,
    /// Folder that stands for /
    #[arg(long, value_name = "DIR", default_value = "/", hide_short_help = true)]
    root: PathBuf,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum When {
    /// Where glibc has it
    Auto,
    /// In any case
    Always,
    /// Do not write it
    Never,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Thp {
    /// As its text needs it, where systemd has it
    Auto,
    /// In any case: huge pages for text, and for memory only if the program asks
    Madvise,
    /// In any case: huge pages as /sys/kernel/mm/transparent_hugepage says
    System,
    /// Do not write it
    Never,
}

/// Runs `wideleaf enable`.
pub fn run(args: Args) -> Result<ExitCode> {
    if args.programs.is_empty() && args.service.is_empty() && args.image.is_empty() {
        misuse!("nothing is named to enable: name programs, --service or --image");
    }
    args.programs.iter().try_for_each(|path| check(path))?;
    let in_any_case = matches!(args.memory_thp, Thp::Madvise | Thp::System);
    if in_any_case && args.service.is_empty() {
        misuse!("--memory-thp needs a service: name it by --service");
    }
    let edits = edits(&args)?;
    if in_any_case {
        tell!("wideleaf: enable: MemoryTHP= has an effect from systemd 260 on");
    }
    if args.root == Path::new("/") {
        absent(&args.service);
    }
    let shown = differences(&edits);
    if shown.is_empty() {
        say!("nothing to change: it is enabled already")?;
        return Ok(ExitCode::SUCCESS);
    }
    write_out(&shown)?;
    if !args.write {
        tell!("wideleaf: enable: nothing is written; --write does it");
        return Ok(ExitCode::SUCCESS);
    }
    apply(&args.root.join(JOURNAL), &edits)?;
    tell!("wideleaf: enable: written; start it with: systemctl enable --now wideleaf-keep");
    if edits.iter().any(is_drop_in) {
        tell!("wideleaf: enable: {RELOAD}");
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs `wideleaf disable`.
pub fn disable(args: DisableArgs) -> Result<ExitCode> {
    let restored = restore(&args.root.join(JOURNAL), args.force)?;
    for path in &restored {
        say!("{}", printable_path(path))?;
    }
    if restored.iter().any(|path| path.ends_with(DROP_IN)) {
        tell!("wideleaf: disable: {RELOAD}");
    }
    match restored.is_empty() {
        true => tell!("wideleaf: disable: nothing is enabled"),
        false => tell!(
            "wideleaf: disable: restored; stop it with: systemctl disable --now wideleaf-keep"
        ),
    }
    Ok(ExitCode::SUCCESS)
}

/// Refuses what `keep` could not keep wide.
fn check(program: &Path) -> Result<()> {
    let name = printable_path(program);
    if !program.is_file() {
        bail!("{name}: is no file: name programs and libraries that are there");
    }
    let file = File::open(program).and_then(FileSource::new);
    let file = file.with_context(|| format!("{name}: cannot open"))?;
    match Elf::read(&file) {
        Ok(_) => Ok(()),
        Err(wideleaf_elf::Error::NotElf { .. }) => {
            bail!("{name}: is not an ELF file: name programs and shared libraries")
        }
        Err(error) => Err(error).context(name),
    }
}

/// Says of which services there is no process, by their control groups on this machine.
fn absent(services: &[String]) {
    for service in services {
        let group = match service.starts_with('/') {
            true => service.clone(),
            false => format!("/system.slice/{}", unit(service)),
        };
        if is_no_group(&group) {
            tell!(
                "wideleaf: enable: --service {service}: no process is in {group} now; keep looks \
                 there in each pass"
            );
        }
    }
}

fn edits(args: &Args) -> Result<Vec<Edit>> {
    let path = args.root.join(CONFIG);
    let mut config = match path.exists() {
        true => Config::read(&path)?,
        false => Config::default(),
    };
    for program in &args.programs {
        let program = program
            .canonicalize()
            .with_context(|| printable_path(program))?;
        if program.to_str().is_none() {
            bail!(
                "{}: its name is not UTF-8, as TOML wants it",
                printable_path(&program)
            );
        }
        add(&mut config.programs, program);
    }
    let services: Vec<String> = args.service.iter().map(|name| unit(name)).collect();
    for service in &services {
        add(&mut config.services, service.clone());
    }
    for image in &args.image {
        add(&mut config.images, image.clone());
    }
    config.libs |= args.libs;
    config.limit = args.limit.or(config.limit);
    let mut edits = vec![Edit::new(&path, |_| config.text())?];
    if tunable(args.tunable) {
        edits.push(Edit::new(&args.root.join(TUNABLES), with_tunable)?);
    }
    for service in &services {
        let Some(thp) = memory_thp(args.memory_thp, service) else {
            continue;
        };
        let Some(path) = drop_in_path(service) else {
            bail!(
                "{}: has no drop-in, which --memory-thp writes: name it as NAME.service",
                printable(service)
            );
        };
        let edit = Edit::new(&args.root.join(path), |_| thp.drop_in())?;
        add(&mut edits, edit);
    }
    Ok(edits)
}

fn memory_thp(value: Thp, service: &str) -> Option<MemoryThp> {
    match value {
        Thp::Auto => drop_in_path(service).and_then(|_| MemoryThp::that_helps(service)),
        Thp::Madvise => Some(MemoryThp::Madvise),
        Thp::System => Some(MemoryThp::System),
        Thp::Never => None,
    }
}

fn is_drop_in(edit: &Edit) -> bool {
    edit.changes() && edit.path.ends_with(DROP_IN)
}

fn add<T: PartialEq>(list: &mut Vec<T>, value: T) {
    if !list.contains(&value) {
        list.push(value);
    }
}

fn tunable(when: When) -> bool {
    match when {
        When::Auto => has_tunable(Path::new("/bin/sh")),
        When::Always => {
            tell!("wideleaf: enable: {TUNABLE} has an effect from glibc 2.44 on");
            true
        }
        When::Never => false,
    }
}

/// The file with the tunable set; another value of it is left to the administrator.
fn with_tunable(text: &str) -> String {
    let set = |line: &str| line.trim_start().starts_with(&format!("{TUNABLE}="));
    if text.lines().any(set) {
        return text.to_owned();
    }
    let end = match text.is_empty() || text.ends_with('\n') {
        true => "",
        false => "\n",
    };
    format!("{text}{end}{TUNABLE}=1\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tunable_is_a_line_of_its_own_and_set_once() {
        assert_eq!(with_tunable(""), "glibc.elf.thp=1\n");
        assert_eq!(with_tunable("a=1"), "a=1\nglibc.elf.thp=1\n");
        let set = with_tunable("a=1\n");
        assert_eq!(with_tunable(&set), set);
        assert_eq!(with_tunable("glibc.elf.thp=0\n"), "glibc.elf.thp=0\n");
    }
}
