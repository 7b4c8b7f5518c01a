// SPDX-License-Identifier: GPL-2.0-only
//! What user space does about it: the dynamic loader and the linkers.

use crate::link::{Linked, TEXT, link};
use crate::{Check, Host, Status};
use wideleaf_kit::size::short;

pub(crate) fn checks(host: &Host) -> Vec<Check> {
    let mut checks = vec![loader(host)];
    checks.extend(linkers(host));
    checks
}

const LOADERS: &[&str] = &[
    "/lib64/ld-linux-x86-64.so.2",
    "/lib/ld-linux-aarch64.so.1",
    "/lib/ld-linux-riscv64-lp64d.so.1",
    "/lib64/ld64.so.2",
];

/// glibc's tunable `glibc.elf.thp` (2.44): asks the loader itself.
fn loader(host: &Host) -> Check {
    let check = Check::new(
        "glibc-thp",
        "glibc's tunable glibc.elf.thp",
        "with it ld.so aligns the large segments of libraries to the PMD size and, with THP madvise, asks for huge pages; \
         without it a library lies at any page",
    );
    let Some((path, version)) = LOADERS
        .iter()
        .find_map(|l| Some((l, host.ask(&[l, "--version"])?)))
    else {
        return check.unknown("no glibc loader was found, or it cannot be run (musl?)");
    };
    let version = version
        .lines()
        .next()
        .unwrap_or_default()
        .trim_end_matches('.')
        .to_owned();
    let tunables = host.ask(&[path, "--list-tunables"]).unwrap_or_default();
    let Some(line) = tunables.lines().find(|l| l.starts_with("glibc.elf.thp:")) else {
        return check.note(format!(
            "{path}: {version}: no such tunable (it came with glibc 2.44)"
        ));
    };
    let value = line
        .trim_start_matches("glibc.elf.thp:")
        .split_whitespace()
        .next()
        .unwrap_or("?");
    if value
        .trim_start_matches("0x")
        .trim_start_matches('0')
        .is_empty()
    {
        return check.improve(
            format!("{path}: {version}: off"),
            "GLIBC_TUNABLES=glibc.elf.thp=1 in the environment of the program",
            "systemd: systemctl edit NAME.service, then [Service] Environment=GLIBC_TUNABLES=glibc.elf.thp=1",
        );
    }
    check.good(format!("{path}: {version}: {value}"))
}

/// A linker and the program that it is.
struct Linker {
    id: &'static str,
    title: &'static str,
    program: &'static str,
}

const LINKERS: [Linker; 4] = [
    Linker {
        id: "linker-gnu",
        title: "GNU ld",
        program: "ld.bfd",
    },
    Linker {
        id: "linker-gold",
        title: "gold",
        program: "ld.gold",
    },
    Linker {
        id: "linker-lld",
        title: "lld",
        program: "ld.lld",
    },
    Linker {
        id: "linker-mold",
        title: "mold",
        program: "ld.mold",
    },
];

fn linkers(host: &Host) -> Vec<Check> {
    LINKERS
        .iter()
        .filter_map(|linker| {
            Some(examine(
                linker,
                &host.ask(&[linker.program, "--help"])?,
                host,
            ))
        })
        .collect()
}

fn examine(linker: &Linker, help: &str, host: &Host) -> Check {
    let check = Check::new(
        linker.id,
        linker.title,
        "programs linked with its defaults can be mapped wide only if segments are congruent and aligned at the leaf size",
    );
    let version = host.ask(&[linker.program, "--version"]).unwrap_or_default();
    let version = version.lines().next().unwrap_or_default().to_owned();
    let defaults: Vec<&str> = [
        "separate-code",
        "noseparate-code",
        "--rosegment",
        "--no-rosegment",
    ]
    .into_iter()
    .filter(|o| is_default(help, o))
    .collect();
    let said = match defaults.is_empty() {
        true => "its help names no default".to_owned(),
        false => format!("default: {}", defaults.join(", ")),
    };
    let tested = host.is_here().then(|| link(linker.program));
    let size = short(TEXT);
    let (made, change) = match &tested {
        None => ("a test was not made".to_owned(), String::new()),
        Some(Err(why)) => (
            format!("linking a test program failed: {why}"),
            String::new(),
        ),
        Some(Ok(Linked {
            cause,
            repaired: None,
        })) => (
            format!("a test program with {size} of text is: {}", cause.label()),
            String::new(),
        ),
        Some(Ok(Linked {
            cause,
            repaired: Some((flags, after)),
        })) => (
            format!(
                "a test program with {size} of text is: {}; linked with {flags}: {}",
                cause.label(),
                after.label()
            ),
            format!(
                "link hot programs with {flags}; `wideleaf inspect` tells for each what it would gain"
            ),
        ),
    };
    let persist = match change.is_empty() {
        true => "",
        false => "LDFLAGS of the build (Debian: DEB_LDFLAGS_MAINT_APPEND in debian/rules)",
    };
    Check {
        // A default is no fault of the machine: it binds what is linked here.
        status: Status::Note,
        found: format!("{version}: {said}; {made}"),
        change,
        persist: persist.to_owned(),
        ..check
    }
}

/// Whether the help calls `option` the default, on its line or the next.
fn is_default(help: &str, option: &str) -> bool {
    let lines: Vec<&str> = help.lines().collect();
    lines.iter().enumerate().any(|(i, line)| {
        let names = line
            .split(|c: char| c.is_whitespace() || c == ',')
            .any(|word| word == option);
        let next_continues = lines
            .get(i + 1)
            .is_some_and(|n| n.starts_with("      ") && !n.trim_start().starts_with('-'));
        names
            && (line.contains("(default)")
                || (next_continues && lines[i + 1].contains("(default)")))
    })
}
