// SPDX-License-Identifier: GPL-2.0-only
//! Aligns or restores one file, start to end.

use crate::merge::merge;
use crate::protect::{
    all_names, broken_signatures, check, check_no_mount, check_replaceable, has_backup,
};
use crate::replace::{backup_name, beside, copy_attributes, not_replaced};
use crate::{Moved, Plan, Refusal, is_aligned, note, plan};
use rustix::fs::{FlockOperation, Mode};
use serde::Serialize;
use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use wideleaf_elf::{Cause, Elf, Join, LEAF_2M, Source, judge};
use wideleaf_kit::fresh::relink;

/// What to do with a file that has several names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HardLinks {
    /// Leave it as it is.
    Refuse,
    /// Replace all of them, which have to be found.
    All,
}

/// How to align.
#[derive(Clone, Debug)]
pub struct Options {
    /// The leaf in bytes, a power of two from 4K to 1G.
    pub leaf: u64,
    /// Align setuid and signed files and such with appended data, too.
    pub force: bool,
    /// Refuse files that strip and objcopy would damage afterwards: those whose
    /// headers have to move. Loaders do not mind.
    pub strippable: bool,
    /// Rewrite files whose text the leaf can map already, too.
    pub always: bool,
    /// Leave files alone whose text gains no leaf by it.
    pub only_gaining: bool,
    /// Judge gains as containers see the file: through overlayfs, which aligns no mapping. Else the
    /// file system is taken for one that aligns mappings, as those of programs do on a host.
    pub overlay: bool,
    /// Make code and the constants beside it one segment where that gives whole blocks.
    pub merge: bool,
    /// Decide and report, write nothing.
    pub dry_run: bool,
    /// Append the note that [`restore`] needs.
    pub note: bool,
    /// What to do with a file that has several names.
    pub hard_links: HardLinks,
    /// Where to look for a file's other names.
    pub names: Vec<PathBuf>,
    /// Keep the original under its name with this suffix.
    pub backup: Option<OsString>,
}

impl Options {
    /// Options for a leaf of this many bytes, with everything off that can be off.
    pub fn new(leaf: u64) -> Options {
        Options {
            leaf,
            force: false,
            strippable: false,
            always: false,
            only_gaining: false,
            overlay: false,
            merge: false,
            dry_run: false,
            note: false,
            hard_links: HardLinks::Refuse,
            names: Vec::new(),
            backup: None,
        }
    }
}

/// Where the result goes.
#[derive(Clone, Copy, Debug)]
pub enum Target<'p> {
    /// In the place of the original.
    InPlace,
    /// To another file, with the original's mode, but for setuid and setgid.
    File(&'p Path),
}

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// Offsets moved.
    Aligned,
    /// It was good; another target got a copy.
    Good,
    /// It would have gained nothing, and only files that do were asked for.
    NoGain,
    /// It is again what it was.
    Restored,
}

/// What was done with a file, or would be.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// What was done.
    pub status: Status,
    /// The leaf in bytes that segments are congruent at: the one asked for, or
    /// a wider one that the file asked for itself.
    pub leaf: u64,
    /// Bytes, holes included.
    pub size_before: u64,
    /// Bytes, holes included.
    pub size_after: u64,
    /// Bytes of disk.
    pub disk_before: u64,
    /// Bytes of disk; with a dry run an estimate.
    pub disk_after: u64,
    /// Bytes of huge pages of 2M that it takes on a tmpfs that has nothing else.
    pub huge_after: u64,
    /// Bytes of text that 2M leaves could map before.
    pub usable_before: u64,
    /// Bytes of text that 2M leaves can map now.
    pub usable_after: u64,
    /// Loadable segments, if offsets moved.
    pub segments: Vec<Moved>,
    /// Segments that are one now, if any were joined.
    pub merged: Option<Join>,
    /// Checksums and signatures kept elsewhere that do not fit any more.
    pub signatures_broken: Vec<String>,
    /// All names of the new file that replaced old ones, if there are several.
    pub names: Vec<PathBuf>,
    /// The backup made.
    pub backup: Option<PathBuf>,
}

/// An open file, read whole, that nobody else is aligning.
struct Original {
    path: PathBuf,
    file: File,
    metadata: Metadata,
    bytes: Vec<u8>,
}

impl Drop for Original {
    // Closing alone leaves the lock to a child that another thread has forked meanwhile.
    fn drop(&mut self) {
        let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
    }
}

impl Original {
    fn open_for(path: &Path, target: Target) -> Result<Original, Refusal> {
        let original = Self::open(path)?;
        if matches!(target, Target::InPlace) {
            check_no_mount(&original.file)?;
        }
        Ok(original)
    }

    fn open(path: &Path) -> Result<Original, Refusal> {
        // What a symbolic link names is replaced, not the link.
        let path = path.canonicalize().map_err(Refusal::io("cannot open"))?;
        let metadata = path.metadata().map_err(Refusal::io("cannot open"))?;
        if !metadata.is_file() {
            let what = if metadata.is_dir() {
                "a directory"
            } else {
                "no regular file"
            };
            return Err(Refusal::Protected(format!(
                "is {what}, must be a regular file"
            )));
        }
        let mut file = OpenOptions::new()
            .read(true)
            .custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32)
            .open(&path)
            .map_err(Refusal::io("cannot open"))?;
        // Other errors come from file systems without locks.
        let lock = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive);
        if lock == Err(rustix::io::Errno::WOULDBLOCK) {
            return Err(Refusal::Protected("is locked by another process".into()));
        }
        let metadata = file.metadata().map_err(Refusal::io("cannot read"))?;
        // Somebody may have replaced it between opening and locking.
        let now = path.metadata().map_err(Refusal::io("cannot read"))?;
        if (now.dev(), now.ino()) != (metadata.dev(), metadata.ino()) {
            return Err(Refusal::Protected(
                "was replaced while it was opened: try again".into(),
            ));
        }
        let mut bytes = Vec::new();
        bytes
            .try_reserve_exact(metadata.len() as usize)
            .map_err(|_| {
                Refusal::Protected(format!("is too large for memory: {} bytes", metadata.len()))
            })?;
        file.read_to_end(&mut bytes)
            .map_err(Refusal::io("cannot read"))?;
        if let Some(line) = bytes.strip_prefix(b"#!") {
            let line = line.split(|b| *b == b'\n').next().unwrap_or_default();
            let line = String::from_utf8_lossy(&line[..line.len().min(128)]);
            let name = line.split_whitespace().next().unwrap_or_default();
            return Err(Refusal::Script(name.to_string()));
        }
        Ok(Original {
            path,
            file,
            metadata,
            bytes,
        })
    }

    fn disk(&self) -> u64 {
        self.metadata.blocks() * 512
    }
}

/// Aligns a file.
///
/// # Errors
///
/// Why it was left as it is. Nothing was changed then, unless a further name
/// of a file with several could not be replaced, which the error says.
pub fn align(path: &Path, target: Target, options: &Options) -> Result<Report, Refusal> {
    let original = Original::open_for(path, target)?;
    let original = without_note(original)?;
    let elf = read(&&original.bytes[..], options)?;
    let verdict = judge(&elf);
    let merged = match options.merge {
        true => merge(&original.bytes, &elf, options.leaf)?,
        false => None,
    };
    let (bytes, elf) = match &merged {
        Some(merged) => (&merged.bytes[..], merged.elf.clone()),
        None => (&original.bytes[..], elf),
    };
    let mut report = Report {
        status: Status::Good,
        leaf: options.leaf,
        size_before: original.metadata.len(),
        size_after: original.metadata.len(),
        disk_before: original.disk(),
        disk_after: original.disk(),
        huge_after: original.metadata.len().next_multiple_of(LEAF_2M),
        usable_before: verdict.usable,
        usable_after: verdict.usable,
        segments: Vec::new(),
        merged: None,
        signatures_broken: Vec::new(),
        names: Vec::new(),
        backup: None,
    };
    let on_disk = read(&on_disk(&original)?, options)?;
    // As few segments: what could be joined was joined before.
    let joined = merged.is_none() || on_disk.segments.len() == elf.segments.len();
    let done = joined && (is_aligned(&on_disk, options.leaf) || is_good(&on_disk, options));
    if done && !options.always && !elf.segments.is_empty() {
        report.usable_before = judge(&on_disk).usable;
        report.usable_after = report.usable_before;
        return copy_if_asked(&original, target, options, report);
    }
    let plan = plan(bytes, &elf, options.leaf, options.force)?;
    check(&original.file, &original.metadata, options.force)?;
    report.leaf = plan.leaf;
    report.usable_after = usable_after(&elf, &plan);
    if options.only_gaining && report.usable_after <= report.usable_before {
        report.status = Status::NoGain;
        report.usable_after = report.usable_before;
        return copy_if_asked(&original, target, options, report);
    }
    if options.strippable && elf.headers_would_move(plan.leaf) {
        return Err(Refusal::HeadersMove { leaf: plan.leaf });
    }
    report.status = Status::Aligned;
    report.huge_after = plan.blocks(bytes, LEAF_2M);
    report.segments = plan.segments.clone();
    report.merged = merged.as_ref().map(|merged| merged.join.clone());
    report.signatures_broken = broken_signatures(&original.path, &original.file);
    if options.dry_run {
        report.size_after = plan.size;
        report.disk_after = plan.disk(bytes);
        return Ok(report);
    }
    let table = merged.as_ref().map(|merged| &merged.table);
    let write = |file: &File| {
        let needed = plan.disk(bytes);
        plan.write(bytes, file)
            .and_then(|()| match options.note {
                true => note::append(&plan, &original.bytes, table, file),
                false => Ok(()),
            })
            .map_err(Refusal::write(written(&original, target), needed))?;
        plan.verify(bytes, &elf, file)
    };
    put(&original, target, options, report, &write)
}

/// Makes a file again what it was before it was aligned.
///
/// # Errors
///
/// If it holds no note of that, was changed since, or cannot be replaced.
pub fn restore(path: &Path, target: Target, options: &Options) -> Result<Report, Refusal> {
    let original = Original::open_for(path, target)?;
    let old = note::restore(&original.bytes)?;
    check(&original.file, &original.metadata, options.force)?;
    let now = read(&&original.bytes[..], options)?;
    let elf = read(&&old[..], options)?;
    let report = Report {
        status: Status::Restored,
        leaf: options.leaf,
        size_before: original.metadata.len(),
        size_after: old.len() as u64,
        disk_before: original.disk(),
        disk_after: (old.len() as u64).next_multiple_of(4096),
        huge_after: (old.len() as u64).next_multiple_of(LEAF_2M),
        usable_before: judge(&now).usable,
        usable_after: judge(&elf).usable,
        segments: Vec::new(),
        merged: None,
        signatures_broken: broken_signatures(&original.path, &original.file),
        names: Vec::new(),
        backup: None,
    };
    if options.dry_run {
        return Ok(report);
    }
    let write = |file: &File| {
        use std::os::unix::fs::FileExt;
        file.write_all_at(&old, 0)
            .map_err(Refusal::write(written(&original, target), old.len() as u64))
    };
    put(&original, target, options, report, &write)
}

/// A file's headers, with the file system that it is judged for.
fn read(source: &impl Source, options: &Options) -> Result<Elf, wideleaf_elf::Error> {
    let elf = Elf::read(source)?;
    Ok(match options.overlay {
        true => elf.on_overlay(),
        false => elf,
    })
}

/// The bytes of the file itself, which may be one that was aligned before.
fn on_disk(original: &Original) -> Result<wideleaf_elf::FileSource, Refusal> {
    let file = original.file.try_clone();
    file.and_then(wideleaf_elf::FileSource::new)
        .map_err(Refusal::io("cannot read"))
}

/// A file that was aligned before, for a narrower leaf perhaps, is planned
/// from what it was.
fn without_note(mut original: Original) -> Result<Original, Refusal> {
    if note::find(&original.bytes).is_some() {
        original.bytes = note::restore(&original.bytes)?;
    }
    Ok(original)
}

/// Whether leaves of the size asked for can map all text that they ever could.
fn is_good(elf: &Elf, options: &Options) -> bool {
    let verdict = judge(elf);
    let text = verdict.segments.iter().filter(|v| {
        let segment = &elf.segments[v.position];
        segment.is_text() && segment.whole_blocks(options.leaf, 4096) > 0
    });
    let mut some = false;
    for verdict in text {
        some = true;
        let fixed = verdict.placement.holds(options.leaf);
        let good = verdict.cause == Cause::Good && verdict.congruent.holds(options.leaf) && fixed;
        if !good {
            return false;
        }
    }
    some
}

fn usable_after(elf: &Elf, plan: &Plan) -> u64 {
    let mut after = elf.clone();
    for (segment, moved) in after.segments.iter_mut().zip(&plan.segments) {
        segment.offset = moved.offset_after;
        segment.align = moved.align_after;
    }
    judge(&after).usable
}

/// The file whose file system has to have room.
fn written<'a>(original: &'a Original, target: Target<'a>) -> &'a Path {
    match target {
        Target::InPlace => &original.path,
        Target::File(path) => path,
    }
}

/// What is left as it is and was to go elsewhere is there in any case.
fn copy_if_asked(
    original: &Original,
    target: Target,
    options: &Options,
    report: Report,
) -> Result<Report, Refusal> {
    if options.dry_run || matches!(target, Target::InPlace) {
        return Ok(report);
    }
    let write = |mut new: &File| {
        let mut old = File::open(&original.path).map_err(Refusal::io("cannot open"))?;
        io::copy(&mut old, &mut new)
            .map(|_| ())
            .map_err(Refusal::write(
                written(original, target),
                original.metadata.len(),
            ))
    };
    put(original, target, options, report, &write)
}

/// Writes the new file and gives it its name.
fn put(
    original: &Original,
    target: Target,
    options: &Options,
    mut report: Report,
    write: &dyn Fn(&File) -> Result<(), Refusal>,
) -> Result<Report, Refusal> {
    let path = match target {
        Target::InPlace => original.path.clone(),
        Target::File(path) => checked_output(path, original)?,
    };
    let in_place = matches!(target, Target::InPlace);
    let mut names = Vec::new();
    let mut backed_up = false;
    if in_place {
        check_replaceable(&original.file)?;
        backed_up = match &options.backup {
            Some(suffix) => has_backup(&original.path, &original.metadata, suffix)?,
            None => false,
        };
        names = other_names(original, options, backed_up)?;
    }
    let new = beside(&path)?;
    write(new.file())?;
    match in_place {
        true => copy_attributes(&original.file, new.file(), &original.metadata)?,
        false => {
            let mode = Mode::from_raw_mode(original.metadata.mode() & 0o777);
            rustix::fs::fchmod(new.file(), mode).map_err(Refusal::io("cannot set the mode"))?;
        }
    }
    if let (true, Some(suffix)) = (in_place, &options.backup) {
        let name = backup_name(&path, suffix);
        if !backed_up {
            fs::hard_link(&path, &name).map_err(Refusal::io(format!(
                "cannot make the backup {}",
                name.display()
            )))?;
        }
        report.backup = Some(name);
    }
    let metadata = new.file().metadata();
    let metadata = metadata.map_err(Refusal::io("cannot look at the new file"))?;
    let file = new.file().try_clone();
    new.replace(&path).map_err(not_replaced)?;
    report.size_after = metadata.len();
    // Allocated only now, on some file systems.
    let blocks = file.and_then(|f| f.metadata()).map_or(0, |m| m.blocks());
    report.disk_after = blocks * 512;
    for name in &names {
        relink(&path, name).map_err(not_replaced)?;
    }
    if !names.is_empty() {
        names.push(path);
        names.sort();
        report.names = names;
    }
    Ok(report)
}

/// The further names to replace.
fn other_names(
    original: &Original,
    options: &Options,
    backed_up: bool,
) -> Result<Vec<PathBuf>, Refusal> {
    let count = original.metadata.nlink() - u64::from(backed_up);
    if count <= 1 {
        return Ok(Vec::new());
    }
    if options.hard_links == HardLinks::Refuse {
        return Err(Refusal::Protected(format!(
            "has {count} names (hard links): --hard-links all replaces all of them"
        )));
    }
    let mut names = all_names(&original.path, &original.metadata, &options.names)?;
    let backup = options.backup.as_ref();
    let backup = backup.map(|suffix| backup_name(&original.path, suffix));
    names.retain(|name| *name != original.path && Some(name) != backup.as_ref());
    Ok(names)
}

/// Where the output goes, if that may be replaced.
fn checked_output(path: &Path, original: &Original) -> Result<PathBuf, Refusal> {
    let refuse = |text: String| Err(Refusal::Protected(text));
    match path.metadata() {
        Ok(m) if (m.dev(), m.ino()) == (original.metadata.dev(), original.metadata.ino()) => {
            refuse(format!(
                "{} is the file itself: use --in-place",
                path.display()
            ))
        }
        Ok(m) if !m.is_file() => refuse(format!("{} is no regular file", path.display())),
        Ok(_) => path.canonicalize().map_err(Refusal::io("cannot write")),
        Err(_) => Ok(path.to_path_buf()),
    }
}
