// SPDX-License-Identifier: GPL-2.0-only
//! MADV_COLLAPSE tried out: on this program's own text, on a file of each file
//! system that holds programs, on shared memory.

use crate::Host;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use wideleaf_collapse::{probe, probe_shared_memory};

/// What was tried, and the kernel's answer.
pub(crate) struct Trial {
    /// Where: a mount point and its type, or what else it is.
    pub place: String,
    /// On which file, if it has a name.
    pub file: Option<PathBuf>,
    /// `Err` has the errno and its meaning.
    pub answer: Result<(), String>,
}

/// Entries of a folder that are looked at in search of a file.
const ENTRIES: usize = 4096;
/// Below a mount point, folders that hold large programs and libraries.
const FOLDERS: &[&str] = &[
    "usr/bin",
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "usr/lib64",
    "usr/local/bin",
    "bin",
    "lib/x86_64-linux-gnu",
    "lib/aarch64-linux-gnu",
    "lib64",
    "lib",
    "local/bin",
    "",
];

/// Tries shared memory, and this program's own file.
pub(crate) fn own(host: &Host) -> Vec<Trial> {
    let pmd = pmd();
    let shared = trial(host, "shared memory", "shared-memory", || {
        Some((None, probe_shared_memory(pmd).map_err(|e| e.to_string())))
    });
    let own = trial(host, "this program's own text", "own", || {
        let file = File::open("/proc/self/exe").ok()?;
        let answer = probe(&file, pmd).map_err(|e| e.to_string());
        Some((std::env::current_exe().ok(), answer))
    });
    shared.into_iter().chain(own).collect()
}

/// Tries a file of a mounted file system; `None` if it has none of that size.
pub(crate) fn mounted(host: &Host, place: &str, point: &str, overlay: bool) -> Option<Trial> {
    let pmd = pmd();
    trial(host, place, point, || {
        let (path, file) = large_file(Path::new(point), overlay, pmd)?;
        let answer = probe(&file, pmd).map_err(|e| e.to_string());
        Some((Some(path), answer))
    })
}

fn pmd() -> u64 {
    std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size")
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(2 << 20)
}

type Tried = (Option<PathBuf>, Result<(), String>);

fn trial(
    host: &Host,
    place: &str,
    question: &str,
    on_this_machine: impl FnOnce() -> Option<Tried>,
) -> Option<Trial> {
    let (file, answer) = match host.told(&format!("collapse {question}")) {
        None => on_this_machine()?,
        Some(None) => return None,
        Some(Some("ok")) => (None, Ok(())),
        Some(Some(errno)) => (None, Err(errno.to_owned())),
    };
    Some(Trial {
        place: place.to_owned(),
        file,
        answer,
    })
}

/// A readable file of at least `size` bytes on the file system mounted there,
/// from the places where large programs lie. Files on an overlay of several file systems have
/// other device numbers than its folders: there, a folder has to be on the overlay.
fn large_file(point: &Path, overlay: bool, size: u64) -> Option<(PathBuf, File)> {
    let device = point.metadata().ok()?.dev();
    let folders = FOLDERS.iter().map(|folder| point.join(folder));
    folders
        .filter(|folder| folder.metadata().is_ok_and(|here| here.dev() == device))
        .filter_map(|folder| std::fs::read_dir(folder).ok())
        .flat_map(|entries| entries.take(ENTRIES).flatten())
        .find_map(|entry| {
            let here = entry.metadata().ok()?;
            let same = overlay || here.dev() == device;
            let fits = here.is_file() && here.len() >= size && same;
            let path = fits.then(|| entry.path())?;
            File::open(&path).ok().map(|file| (path, file))
        })
}
