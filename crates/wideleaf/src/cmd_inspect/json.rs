// SPDX-License-Identifier: GPL-2.0-only
//! The JSON document; docs/tool/inspect.md describes it.

use crate::stdout::write_json_pretty;
use anyhow::Result;
use serde::{Serialize, Serializer};
use std::os::unix::ffi::OsStrExt;
use wideleaf_elf::{
    Class, FileSystem, Fix, Join, Kind, LEAF_2M, Linker, Machine, Order, Packer, SectionFacts,
    Segment, Verdict, explain, fix, join,
};
use wideleaf_inspect::{Entry, Found, Staged, Summary, summary};
use wideleaf_jit::Account;
use wideleaf_kit::names::{hex, lossy};
use wideleaf_outlook::{self as outlook, Outlook};

/// Raised when a field changes its meaning or goes.
const SCHEMA: u32 = 1;

#[derive(Serialize)]
struct Document<'f> {
    schema: u32,
    files: Files<'f>,
    /// Text that processes have made at run time.
    processes: &'f [Account],
    errors: Vec<Failure>,
    summary: Summary,
}

struct Files<'f> {
    entries: &'f [Entry],
    pages: &'f [u64],
}

#[derive(Serialize)]
struct Failure {
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_bytes: Option<String>,
    error: String,
}

#[derive(Serialize)]
struct File<'f> {
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_bytes: Option<String>,
    size: u64,
    class: Class,
    order: Order,
    machine: Machine,
    kind: Kind,
    dynamic: bool,
    staged: bool,
    file_system: Option<FileSystem>,
    packer: Option<Packer>,
    linker: &'f Linker,
    sections: &'f SectionFacts,
    text: u64,
    usable: u64,
    gain: u64,
    /// The segments that `align --merge` would join, and the gain.
    merge: Option<Join>,
    segments: Vec<Judged<'f>>,
    kernels: Vec<Outlook>,
}

#[derive(Serialize)]
struct Judged<'f> {
    #[serde(flatten)]
    segment: &'f Segment,
    verdict: &'f Verdict,
    explanation: String,
    fix: Option<Fix>,
}

impl Serialize for Files<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_seq(self.entries.iter().map(|entry| file(entry, self.pages)))
    }
}

fn file<'f>(entry: &'f Entry, pages: &[u64]) -> File<'f> {
    let (elf, verdict) = (&entry.elf, &entry.verdict);
    let judged = |verdict: &'f Verdict| Judged {
        segment: &elf.segments[verdict.position],
        verdict,
        explanation: explain(elf, verdict),
        fix: fix(elf, verdict),
    };
    let known = outlook::page_sizes(elf.machine).into_iter();
    let pages = known.filter(|page| pages.is_empty() || pages.contains(page));
    File {
        path: lossy(entry.path.as_os_str().as_bytes()),
        path_bytes: hex(entry.path.as_os_str().as_bytes()),
        size: entry.size,
        class: elf.class,
        order: elf.order,
        machine: elf.machine,
        kind: elf.kind,
        dynamic: elf.dynamic,
        staged: entry.staged != Staged::No,
        file_system: elf.file_system,
        packer: elf.packer,
        linker: &elf.linker,
        sections: &elf.sections,
        text: verdict.text,
        usable: verdict.usable,
        gain: verdict.gain,
        merge: join(elf, LEAF_2M),
        segments: verdict.segments.iter().map(judged).collect(),
        kernels: pages
            .flat_map(|page| outlook::outlook(elf, entry.size, page))
            .collect(),
    }
}

/// Writes everything that was found. `pages` limits the kernels by their base
/// page size in bytes; empty means all.
pub fn write(found: &Found, pages: &[u64], processes: &[Account]) -> Result<()> {
    let failure = |(path, error): &(std::path::PathBuf, wideleaf_inspect::Error)| Failure {
        path: lossy(path.as_os_str().as_bytes()),
        path_bytes: hex(path.as_os_str().as_bytes()),
        error: error.to_string(),
    };
    let document = Document {
        schema: SCHEMA,
        files: Files {
            entries: &found.entries,
            pages,
        },
        processes,
        errors: found.errors.iter().map(failure).collect(),
        summary: summary(found),
    };
    write_json_pretty(&document)
}
