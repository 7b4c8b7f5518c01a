// SPDX-License-Identifier: GPL-2.0-only
//! `wideleaf run`: starts a program with its text mapped by wide leaves, by the
//! best means that this machine allows; without any, as it is.

mod cache;
mod inherited;
mod namespace;
mod program;

use crate::stdout::tell;
use anyhow::Result;
use clap::ValueEnum;
use nix::errno::Errno;
use nix::unistd::{execv, execvp};
use program::{Image, find, libraries, loader};
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use wideleaf_collapse::{headroom, spare};
use wideleaf_kit::size::bytes;
use wideleaf_kit::size::{parse, short};

/// Arguments of `wideleaf run`.
#[derive(clap::Args)]
#[command(after_help = "\
Means, best first; the first that works is taken:
  namespace  a copy on a tmpfs with huge=always, aligned if need be, mounted over
             the program in a mount namespace of its own; without root also in
             a user namespace, in which setuid programs have no privileges
  collapse   MADV_COLLAPSE of the file's text, in the page cache, before it runs
  tunable    GLIBC_TUNABLES=glibc.elf.thp=1 for libraries, where glibc has it
  none       as it is

The program takes this process's place: process number, signals, standard
streams, file descriptors, argv[0] and exit status are its own. If nothing can
be done it runs as it is, and a line on standard error says why.

Exit status: the program's; 126 it cannot be run, 127 there is none; 2 usage.

Examples:
  wideleaf run cc1plus -O2 -quiet big.cc -o /dev/null
  wideleaf run --verbose --libs -- node --version
  wideleaf run --with $(gcc -print-prog-name=cc1plus) -- make -j8
  wideleaf run --means collapse --limit 64M postgres -D /srv/db")]
pub struct Args {
    /// Only these means, in this order [default: namespace,collapse,tunable]
    #[arg(long, value_name = "MEANS", value_delimiter = ',')]
    means: Vec<Means>,
    /// The program's libraries, too
    #[arg(long)]
    libs: bool,
    /// This program, too, which the command starts: all its processes share one
    /// copy; may be repeated
    #[arg(long, value_name = "FILE")]
    with: Vec<OsString>,
    /// Take no more memory than this [default: a quarter of what is free, of the
    /// machine and in its control groups]
    #[arg(long, value_name = "SIZE", value_parser = parse)]
    limit: Option<u64>,
    /// Say on standard error which means was taken and what it covers
    #[arg(short, long, conflicts_with = "quiet")]
    verbose: bool,
    /// Do not say why nothing could be done
    #[arg(short, long)]
    quiet: bool,
    /// The program, searched for in PATH, and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "PROGRAM"
    )]
    command: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Means {
    Namespace,
    Collapse,
    Tunable,
    None,
}

const USUAL: [Means; 3] = [Means::Namespace, Means::Collapse, Means::Tunable];

/// As env(1), nice(1) and a shell have it.
const CANNOT_RUN: u8 = 126;
const NOT_THERE: u8 = 127;

/// Runs `wideleaf run`: returns only if the program cannot be started.
pub fn run(args: Args) -> Result<ExitCode> {
    let name = &args.command[0];
    match widen(&args) {
        Ok(what) if args.verbose => tell!("wideleaf: run: {}: {what}", name.display()),
        Ok(_) => {}
        Err(_) if args.quiet => {}
        Err(why) => tell!("wideleaf: run: {}: {why}; it runs as it is", name.display()),
    }
    let error = exec(&args.command);
    tell!("wideleaf: run: {}: {}", name.display(), error.desc());
    Ok(ExitCode::from(match error {
        Errno::ENOENT => NOT_THERE,
        _ => CANNOT_RUN,
    }))
}

/// Does what can be done; tells what.
fn widen(args: &Args) -> Result<String, String> {
    if args.means == [Means::None] {
        return Ok("as it is".to_owned());
    }
    // What cannot be started says so itself.
    let Some(path) = find(&args.command[0]) else {
        return Ok("is not there".to_owned());
    };
    let (page, pmd) = wideleaf_procmap::sizes("/sys".as_ref());
    let images = images(&path, args, pmd)?;
    let possible: u64 = images.iter().map(Image::possible).sum();
    let text: u64 = images.iter().map(|i| i.verdict.text).sum();
    let free = spare("/proc".as_ref(), page, pmd).map_or(0, |s| s.bytes());
    // Beyond it the kernel kills in the group, and not only what fills the copies.
    let free = free.min(headroom(
        "/proc".as_ref(),
        "/sys/fs/cgroup".as_ref(),
        std::process::id(),
    ));
    let limit = args.limit.unwrap_or(free / 4).min(free);
    let means = match args.means.is_empty() {
        true => &USUAL[..],
        false => &args.means,
    };
    let mut refusals = Vec::new();
    for means in means {
        let done = match means {
            Means::Namespace => by_namespace(&images, page, pmd, limit),
            Means::Collapse => cache::collapse(&images, pmd, limit)
                .map(|done| ("MADV_COLLAPSE in the page cache".to_owned(), done)),
            Means::Tunable => by_tunable(&path).map(|what| (what, 0)),
            Means::None => Ok(("as it is".to_owned(), 0)),
        };
        match done {
            Ok((what, 0)) => return Ok(what),
            Ok((what, wide)) => {
                let size = |n| bytes(n, false);
                return Ok(format!(
                    "{what}: leaves of {} map {} of the {} in whole blocks, of {} of text",
                    short(pmd),
                    size(wide),
                    size(possible),
                    size(text)
                ));
            }
            Err(why) => {
                let name = means.to_possible_value();
                let name = name.map_or(String::new(), |v| v.get_name().to_owned());
                refusals.push(format!("{name}: {why}"));
            }
        }
    }
    Err(refusals.join("; "))
}

/// The programs, and the libraries if they are wanted, whose text holds a block
/// at all.
fn images(path: &Path, args: &Args, pmd: u64) -> Result<Vec<Image>, String> {
    let mut images = Vec::new();
    match Image::read(path) {
        Ok(program) => images.push(program),
        // make, and whatever else starts the programs that matter.
        Err(why) if why == program::SCRIPT && !args.with.is_empty() => {}
        Err(why) => return Err(why),
    }
    for name in &args.with {
        let with = |why: &str| format!("--with {}: {why}", name.display());
        let path = find(name).ok_or_else(|| with("no program of this name"))?;
        images.push(Image::read(&path).map_err(|why| with(&why))?);
    }
    if args.libs {
        let of_programs: Vec<_> = images.iter().flat_map(|i| libraries(&i.path)).collect();
        images.extend(of_programs.iter().filter_map(|path| Image::read(path).ok()));
    }
    images.retain(|image| image.possible() >= pmd);
    if images.is_empty() {
        return Err(format!(
            "its text holds no whole block of {} that could be mapped wide without linking it anew",
            short(pmd)
        ));
    }
    // Two names of one file are one.
    images.sort_by(|a, b| a.path.cmp(&b.path));
    images.dedup_by(|a, b| a.path == b.path);
    Ok(images)
}

fn by_namespace(
    images: &[Image],
    page: u64,
    pmd: u64,
    limit: u64,
) -> Result<(String, u64), String> {
    let take: u64 = images.iter().map(|i| i.size.next_multiple_of(pmd)).sum();
    if take > limit {
        return Err(format!(
            "copies would take {}, the limit is {}",
            bytes(take, false),
            bytes(limit, false)
        ));
    }
    let entered = namespace::enter(images, namespace::Sizes { page, pmd, limit })?;
    let whose = match entered.user {
        true => "user and mount namespaces",
        false => "a mount namespace",
    };
    Ok((
        format!("copies on a huge tmpfs in {whose} of its own"),
        entered.wide,
    ))
}

/// glibc's own word on whether it has the tunable (2.44).
fn by_tunable(path: &Path) -> Result<String, String> {
    const TUNABLE: &str = "glibc.elf.thp";
    let loader = loader(path).ok_or("it has no dynamic loader")?;
    let output = Command::new(&loader)
        .arg("--list-tunables")
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("{}: {e}", loader.display()))?;
    let known = String::from_utf8_lossy(&output.stdout)
        .lines()
        .any(|line| line.starts_with(&format!("{TUNABLE}:")));
    if !known {
        return Err(format!("{} has no {TUNABLE}", loader.display()));
    }
    let mut tunables = std::env::var_os("GLIBC_TUNABLES").unwrap_or_default();
    if !tunables.is_empty() {
        tunables.push(":");
    }
    tunables.push(format!("{TUNABLE}=1"));
    // SAFETY: there is one thread.
    unsafe { std::env::set_var("GLIBC_TUNABLES", tunables) };
    Ok(format!("GLIBC_TUNABLES={TUNABLE}=1, for its libraries"))
}

/// Becomes the program; returns only if that fails.
fn exec(command: &[OsString]) -> Errno {
    let words: Result<Vec<CString>, _> = command
        .iter()
        .map(|word| CString::new(word.clone().into_vec()))
        .collect();
    // Arguments of a process hold no NUL.
    let Ok(words) = words else {
        return Errno::EINVAL;
    };
    debug_assert_eq!(words[0].as_bytes(), command[0].as_bytes());
    inherited::restore();
    let Err(error) = execvp(&words[0], &words);
    match error {
        Errno::ENOEXEC => by_shell(words),
        error => error,
    }
}

/// POSIX has execvp(3) give a script without a first line to the shell; musl's
/// does not. What is ELF is for another machine.
fn by_shell(mut words: Vec<CString>) -> Errno {
    let Some(path) = find(OsStr::from_bytes(words[0].as_bytes())) else {
        return Errno::ENOEXEC;
    };
    if Image::read(&path)
        .err()
        .is_none_or(|why| why != program::SCRIPT)
    {
        return Errno::ENOEXEC;
    }
    let Ok(path) = CString::new(path.into_os_string().into_vec()) else {
        return Errno::ENOEXEC;
    };
    words[0] = path;
    words.insert(0, c"/bin/sh".to_owned());
    let Err(error) = execv(&words[0], &words);
    error
}
