// SPDX-License-Identifier: GPL-2.0-only
//! Processes that write to shared mappings of files of their own, unmap them, and begin anew:
//! what will-it-scale's `page_fault3` does, in several ways, and what must hold of the writes.

use super::writers::{Before, Work as Writing};
use super::{Case, NAME, Report, Task, proofs, writers};
use anyhow::{Context, Result};
use nix::mount::{MsFlags, mount};
use std::fs;
use std::path::{Path, PathBuf};
use wideleaf_bench::page_size;
use wideleaf_guest::kit::marker;
use wideleaf_guest::kit::page_cache::fault_around_bytes;
use wideleaf_guest::kit::shared_file::{FOLIO_MOST, SharedFile, folio};
use wideleaf_guest::place::Place;
use wideleaf_guest::port::Port;
use wideleaf_guest::protocol::Message;
use wideleaf_guest::work::Work;

/// The job's guest side.
pub struct SharedWrites;

/// The registry's entry.
pub const WORK: SharedWrites = SharedWrites;

impl Work for SharedWrites {
    const NAME: &'static str = NAME;
    type Task = Task;
    type Report = Report;

    fn run(&self, task: &Task, _: &Place<'_>, port: &Port) -> Result<Report> {
        job(task, port)
    }
}

/// Processes, and how often each maps, writes and unmaps.
const PROCESSES: u64 = 4;
const ROUNDS: u64 = 4;

/// When the kernel begins writeback by itself: after this time (0 is never), or when so much of
/// memory is dirty, in percent. The last wants to be less than the one before it.
const WRITEBACK: [(&str, &str); 3] = [
    ("/proc/sys/vm/dirty_writeback_centisecs", "0"),
    ("/proc/sys/vm/dirty_ratio", "95"),
    ("/proc/sys/vm/dirty_background_ratio", "90"),
];

/// One way to map and write.
struct Way {
    name: &'static str,
    /// Bytes of the writes that fill the file, and with them of its folios.
    piece: u64,
    /// Bytes of the file in front of the mapping.
    before: u64,
    /// Bytes by which address and file offset differ, modulo all leaves.
    skew: u64,
    /// Done by the processes before.
    first: Before,
    /// What is written to `fault_around_bytes` before.
    fault_around: Option<u64>,
}

/// The ways, in order. Half a folio and a page cut folios off wherever leaves end.
fn ways() -> [Way; 7] {
    let (page, folio) = (page_size(), folio());
    let way = |name, piece, before, skew| Way {
        name,
        piece,
        before,
        skew,
        first: Before::Nothing,
        fault_around: None,
    };
    [
        way("small", page, 0, 0),
        way("large", folio, 0, 0),
        way("cut", folio, folio / 2 + page, 0),
        way("askew", folio, 0, page),
        Way {
            first: Before::Read,
            ..way("read", folio, 0, 0)
        },
        Way {
            first: Before::WriteAndSync,
            ..way("synced", folio, 0, 0)
        },
        Way {
            fault_around: Some(page),
            ..way("stated", folio, 0, 0)
        },
    ]
}

/// Runs all ways on the disk's file system, then on tmpfs, then looks what must hold.
fn job(options: &Task, port: &Port) -> Result<Report> {
    // Writeback takes the right to write away, and a write faults again. It is to begin where the
    // job asks for it, not after the five seconds that a longer run meets, nor when the mappings are
    // large.
    for (file, value) in WRITEBACK {
        fs::write(file, value).context(file)?;
    }
    let never = tmpfs("never")?;
    let always = tmpfs("always")?;
    let mut report = Report::default();
    let mut id = 0;
    for way in &ways() {
        let tmpfs = if way.piece == page_size() {
            &never
        } else {
            &always
        };
        for (place, folder) in [("disk", &options.folder), ("tmpfs", tmpfs)] {
            if let Some(bytes) = way.fault_around {
                fault_around_bytes(bytes)?;
            }
            id += 1;
            let name = format!("{place}.{}", way.name);
            let case = run(&name, id, way, folder, options.size, port).context(name)?;
            report.cases.push(case);
        }
        // Before somebody asks for less than whole folios.
        if way.name == "askew" {
            port.send(&Message::Progress {
                text: "what must hold".into(),
            })?;
            proofs::all(&options.folder, &always, &mut report)?;
        }
    }
    Ok(report)
}

/// A tmpfs with or without large folios.
fn tmpfs(huge: &str) -> Result<PathBuf> {
    let place = PathBuf::from(format!("/tmp/{huge}"));
    fs::create_dir_all(&place).with_context(|| place.display().to_string())?;
    let data = format!("huge={huge}");
    mount(
        Some("tmpfs"),
        &place,
        Some("tmpfs"),
        MsFlags::empty(),
        Some(data.as_str()),
    )
    .with_context(|| format!("mount tmpfs, {data}"))?;
    Ok(place)
}

/// One way on one file system, as a phase that bears its name.
fn run(name: &str, id: u8, way: &Way, folder: &Path, size: u64, port: &Port) -> Result<Case> {
    let files = (0..PROCESSES)
        .map(|n| {
            SharedFile::make(
                &folder.join(format!("file-{n}")),
                size + 2 * FOLIO_MOST,
                way.piece,
            )
        })
        .collect::<Result<Vec<_>>>()?;
    let rounds = match way.first {
        Before::Nothing => ROUNDS,
        Before::Read | Before::WriteAndSync => 1,
    };
    let work = Writing {
        before: way.before,
        len: size,
        skew: way.skew,
        first: way.first,
        rounds,
        id: u64::from(id),
    };
    let mut crew = writers::fork(&files, &work)?;
    port.begin(id, name)?;
    marker::enter(id);
    let faults = crew.work()?;
    marker::leave();
    crew.end()?;
    for (n, file) in files.into_iter().enumerate() {
        file.verify(way.before, size, n as u64, way.first.words(rounds))?;
        file.remove()?;
    }
    Ok(Case {
        name: name.into(),
        id: u64::from(id),
        pages: PROCESSES * rounds * size / page_size(),
        faults,
    })
}
