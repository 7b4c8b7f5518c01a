// SPDX-License-Identifier: GPL-2.0-only
//! A TLS server is the service, the library is libcrypto: Debian's file, packed again twice, with a
//! higher version the second time. Clients come all the time.

use super::{NAME, Report, Task, Text};
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use wideleaf_guest::kit::spawn::said;
use wideleaf_guest::place::Place;
use wideleaf_guest::port::Port;
use wideleaf_guest::protocol::{Disk, Message};
use wideleaf_guest::systemd;
use wideleaf_guest::work::Work;
use wideleaf_kit::size::short;
use wideleaf_procmap::{Coverage, Reader, Scope, Select, sizes};

/// The job's guest side.
pub struct Upgrade;

/// The registry's entry.
pub const WORK: Upgrade = Upgrade;

/// The library, below `/usr/lib/` and the machine's triplet.
const LIBRARY: &str = "libcrypto.so.3";

/// Where packages are made.
const PACKING: &str = "/tmp/package";

/// dpkg's list of packages, which its own installation would have made.
const STATUS: &str = "/var/lib/dpkg/status";

/// Units: the service, and its clients.
const UNITS: [(&str, &str); 2] = [
    (
        "/run/systemd/system/tls.service",
        "[Service]
ExecStartPre=/usr/bin/openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj \
         /CN=wideleaf -keyout /run/wideleaf/key -out /run/wideleaf/certificate
ExecStart=/usr/bin/openssl s_server -www -quiet -unlink -unix /run/wideleaf/tls -key \
         /run/wideleaf/key -cert /run/wideleaf/certificate
",
    ),
    (
        "/run/systemd/system/clients.service",
        "[Service]
ExecStart=/usr/bin/bash -c 'while :; do echo GET / | openssl s_client -quiet -unix \
         /run/wideleaf/tls; sleep 0.1; done'
StandardOutput=null
StandardError=null
",
    ),
];

/// Between two looks at the service's text.
const PAUSE: Duration = Duration::from_millis(500);

impl Work for Upgrade {
    const NAME: &'static str = NAME;
    const WANTS_KHUGEPAGED: bool = true;
    type Task = Task;
    type Report = Report;

    fn in_init(&self, _task: &Task, disk: Option<&Disk>) -> Result<()> {
        let disk = disk.context("the job upgrade needs a disk, and names none")?;
        match systemd::hand_over(disk)? {}
    }

    fn run(&self, task: &Task, _place: &Place<'_>, port: &Port) -> Result<Report> {
        let tell = |text: &str| port.send(&Message::Progress { text: text.into() });
        let patience = Duration::from_secs(task.patience_s.into());
        tell("packing libcrypto twice")?;
        let (old, new) = (pack(1)?, pack(2)?);
        if !Path::new(STATUS).exists() {
            fs::write(STATUS, "").context(STATUS)?;
        }
        install(&old)?;
        tell("the first version runs")?;
        for (path, text) in UNITS {
            fs::write(path, text).context(path)?;
        }
        systemctl(&["daemon-reload"])?;
        systemctl(&["start", "tls", "clients"])?;
        let before = settled(patience)?;
        tell("dpkg installs the second")?;
        install(&new)?;
        let replaced = text(process()?)?.context("the service ended meanwhile")?;
        systemctl(&["restart", "tls"])?;
        tell("the second version runs")?;
        let after = settled(patience)?;
        Ok(Report {
            before,
            replaced,
            after,
        })
    }
}

/// A package of this version that holds the library. Its contents are stored as they are, so that
/// unpacking is writing.
fn pack(version: u32) -> Result<PathBuf> {
    let library = library();
    let packed = Path::new(PACKING).join(library.trim_start_matches('/'));
    let folder = packed.parent().context("no folder")?;
    let control = Path::new(PACKING).join("DEBIAN");
    for folder in [folder, &control] {
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    fs::copy(&library, &packed).context(library)?;
    let architecture = match cfg!(target_arch = "x86_64") {
        true => "amd64",
        false => "arm64",
    };
    let text = format!(
        "Package: libssl3t64\nVersion: 99.{version}\nArchitecture: {architecture}\n\
         Maintainer: nobody <nobody@localhost>\nDescription: libcrypto, packed again\n"
    );
    fs::write(control.join("control"), text).context("DEBIAN/control")?;
    let package = PathBuf::from(format!("{PACKING}_{version}.deb"));
    let mut build = Command::new("dpkg-deb");
    build.args(["--build", "--root-owner-group", "-Znone", PACKING]);
    said(build.arg(&package))?;
    Ok(package)
}

fn library() -> String {
    format!("/usr/lib/{}-linux-gnu/{LIBRARY}", std::env::consts::ARCH)
}

fn install(package: &Path) -> Result<()> {
    let mut dpkg = Command::new("dpkg");
    dpkg.args(["--force-depends", "-i"]);
    said(dpkg.arg(package)).map(drop)
}

fn systemctl(words: &[&str]) -> Result<String> {
    said(Command::new("systemctl").args(words))
}

/// The service's process.
fn process() -> Result<u32> {
    let pid = systemctl(&["show", "--property=MainPID", "--value", "tls"])?;
    let pid = pid.trim().parse().context("systemctl: no process")?;
    if pid == 0 {
        // Of a service that does not run its status is an error.
        let status = systemctl(&["status", "tls"]);
        let status = status.unwrap_or_else(|error| format!("{error:#}"));
        bail!("the service does not run: {status}");
    }
    Ok(pid)
}

/// The service's text once it has had its time, with the moment after which no more became wide.
fn settled(patience: Duration) -> Result<Text> {
    let pid = process()?;
    let begin = Instant::now();
    let (mut most, mut wide_after_cs) = (0, None);
    loop {
        let seen = text(pid)?;
        if let Some(seen) = seen.as_ref().filter(|seen| seen.wide > most) {
            most = seen.wide;
            wide_after_cs = Some((begin.elapsed().as_millis() / 10) as u64);
        }
        if begin.elapsed() >= patience {
            let seen = seen.context("the service does not map libcrypto")?;
            return Ok(Text {
                wide_after_cs,
                ..seen
            });
        }
        std::thread::sleep(PAUSE);
    }
}

/// The library's text in this process, of whatever version; `None`: it maps none yet.
fn text(pid: u32) -> Result<Option<Text>> {
    let (page, pmd) = sizes(Path::new("/sys"));
    let mut reader = Reader::new(Path::new("/proc"), page, pmd, &[contpte(page)]);
    let process = reader.read(pid, Scope::Text, &Select::default(), &mut |_| ())?;
    let mut sum = Coverage::default();
    for mapping in process.iter().flat_map(|process| &process.mappings) {
        if mapping.vma.name.contains(LIBRARY) {
            sum.add(&mapping.coverage);
        }
    }
    Ok((sum.size > 0).then(|| told(&sum, page)))
}

/// The leaf between page and PMD, of arm64; on x86-64 there is none.
fn contpte(page: u64) -> u64 {
    match (cfg!(target_arch = "aarch64"), page) {
        (false, _) => page,
        (true, 4096) => 64 << 10,
        (true, _) => 2 << 20,
    }
}

fn told(coverage: &Coverage, page: u64) -> Text {
    let leaves = coverage.leaves.iter();
    let mut leaves: std::collections::BTreeMap<_, _> =
        leaves.map(|(leaf, bytes)| (short(*leaf), *bytes)).collect();
    leaves.insert("unmapped".into(), coverage.absent());
    Text {
        size: coverage.size,
        leaves,
        wide: coverage.wide(page),
        wide_after_cs: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_told_by_leaf_with_what_no_page_is_at() {
        let coverage = Coverage {
            size: 4 << 20,
            resident: 3 << 20,
            leaves: [(4096, 1 << 20), (2 << 20, 2 << 20)].into(),
            unknown: 0,
        };
        let text = told(&coverage, 4096);
        let leaf = |name: &str| text.leaves[name] >> 20;
        assert_eq!((leaf("4K"), leaf("2M"), leaf("unmapped")), (1, 2, 1));
        assert_eq!((text.size, text.wide), (4 << 20, 2 << 20));
    }
}
