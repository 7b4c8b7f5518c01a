// SPDX-License-Identifier: GPL-2.0-only
//! Staging and unstaging. The order is what makes it safe to be killed:
//! journal, tmpfs, copies, binds, journal; and backwards. What the journal
//! calls pending is undone by the next command.

use crate::journal::{self, Folder, Identity, Journal, Phase, Staged};
use crate::mounts::Mount;
use crate::{Error, cgroup, mounts, original, users};
use serde::Serialize;
use std::collections::HashSet;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use wideleaf_align::{Options, Report, Status, Target, align, copy_rights};
use wideleaf_elf::LEAF_2M;
use wideleaf_kit::size::short;

/// What to stage.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Programs, and libraries that were named themselves.
    pub programs: Vec<PathBuf>,
    /// The libraries that these load at their start, too.
    pub libs: bool,
    /// Limit of the tmpfs in bytes; if none, what the copies need.
    pub size: Option<u64>,
    /// Limit of a control group for the copies in bytes.
    pub memory: Option<u64>,
    /// Files whose text has no block of 2M, too.
    pub always: bool,
}

/// A file that was not staged.
#[derive(Clone, Debug, Serialize)]
pub struct Skipped {
    /// Which.
    #[serde(with = "crate::paths")]
    pub path: PathBuf,
    /// Why.
    pub why: String,
}

/// What a command has done.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// What is staged now and was not before.
    pub staged: Vec<Staged>,
    /// What was not.
    pub skipped: Vec<Skipped>,
    /// Files that were staged, and that some will not see so.
    pub notes: Vec<Skipped>,
    /// Limit of the tmpfs in bytes.
    pub size: u64,
}

/// How a staged file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Health {
    /// New processes get the copy.
    Staged,
    /// The original is another file now: new processes still get the old copy.
    OriginalChanged,
    /// The bind is gone: the original was replaced, or somebody unmounted it.
    NotMounted,
    /// The original cannot be looked at.
    Unknown,
    /// Left by a command that was killed; the next one undoes it.
    Unfinished,
    /// Unstaged, and used by processes still.
    InUse,
}

/// A staged file and how it is.
#[derive(Clone, Debug, Serialize)]
pub struct Listed {
    /// The file.
    #[serde(flatten)]
    pub staged: Staged,
    /// How it is.
    pub health: Health,
    /// How many processes that can be looked at map the copy.
    pub processes: usize,
}

/// All that is staged.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Listing {
    /// Limit of the tmpfs in bytes.
    pub size: u64,
    /// Bytes of it that are used.
    pub used: u64,
    /// Limit of the control group in bytes.
    pub memory: Option<u64>,
    /// Whether it was made in this mount namespace.
    pub here: bool,
    /// The files.
    pub files: Vec<Listed>,
}

/// Everything staged with one folder for journal and tmpfs.
pub struct Stage {
    folder: PathBuf,
}

/// A file to stage and what aligning it would do.
struct Candidate {
    path: PathBuf,
    original: Identity,
    report: Report,
}

impl Stage {
    /// With this folder, /run/wideleaf usually.
    pub fn new(folder: PathBuf) -> Stage {
        Stage { folder }
    }

    /// Stages files: all of them, or none.
    ///
    /// # Errors
    ///
    /// Why nothing was staged.
    pub fn stage(
        &self,
        request: &Request,
        progress: &mut dyn FnMut(&Path),
    ) -> Result<Summary, Error> {
        kernel_allows()?;
        let folder = Folder::lock(&self.folder)?;
        let (journal, renewed) = drop_stale(&folder, recover(&folder)?)?;
        let (candidates, skipped) = candidates(request, journal.as_ref(), &renewed)?;
        if candidates.is_empty() {
            return match &journal {
                Some(journal) => Ok(Summary {
                    staged: Vec::new(),
                    skipped,
                    notes: Vec::new(),
                    size: journal.size,
                }),
                None => Err(Error::Nothing),
            };
        }
        let (size, memory) = limits(request, journal.as_ref(), &candidates)?;
        let mut journal = match journal {
            Some(journal) => journal,
            None => Journal::new(journal::namespace()?, size, memory),
        };
        (journal.size, journal.memory) = (size, memory);
        if memory.is_some() && journal.cgroup.is_none() {
            journal.cgroup = Some(cgroup::path(&self.folder)?);
        }
        let entry = |c: &Candidate| entry(c, &journal.files);
        let new: Vec<Staged> = candidates.iter().map(entry).collect();
        journal.files.extend(new.clone());
        folder.write(&journal)?;
        let done = put_in_place(&folder, &journal, candidates.iter().zip(&new), progress);
        if let Err(error) = done {
            undo(&folder, journal)?;
            return Err(error);
        }
        journal
            .files
            .iter_mut()
            .filter(|s| s.phase == Phase::Pending)
            .for_each(|s| s.phase = Phase::Staged);
        folder.write(&journal)?;
        let staged = new.into_iter().map(|s| Staged {
            phase: Phase::Staged,
            ..s
        });
        Ok(Summary {
            staged: staged.collect(),
            skipped,
            notes: notes(&candidates)?,
            size,
        })
    }

    /// Takes files off the stage, or all if none is named. Processes that use
    /// a copy keep it until they end. Returns what was taken off.
    ///
    /// # Errors
    ///
    /// If a file is not staged, or cannot be unmounted, or, without `force`, if
    /// processes use it that would lose the name of their text.
    pub fn unstage(&self, files: &[PathBuf], force: bool) -> Result<Vec<PathBuf>, Error> {
        if journal::read(&self.folder)?.is_none() && files.is_empty() {
            return Ok(Vec::new());
        }
        let folder = Folder::lock(&self.folder)?;
        let Some(mut journal) = recover(&folder)? else {
            return match files.first() {
                Some(path) => Err(not_staged(path)),
                None => Ok(Vec::new()),
            };
        };
        for path in files {
            let path = path.canonicalize().unwrap_or_else(|_| path.clone());
            let mut entries = journal.files.iter_mut();
            let entry = entries.find(|s| s.path == path && s.phase == Phase::Staged);
            entry.ok_or_else(|| not_staged(&path))?.phase = Phase::Pending;
        }
        if files.is_empty() {
            journal
                .files
                .iter_mut()
                .filter(|s| s.phase == Phase::Staged)
                .for_each(|s| s.phase = Phase::Pending);
        }
        let pending = journal.files.iter().filter(|s| s.phase == Phase::Pending);
        let pending: Vec<Staged> = pending.cloned().collect();
        if !force {
            refuse_in_use(&folder.files(), &pending)?;
        }
        let paths = pending.into_iter().map(|s| s.path).collect();
        folder.write(&journal)?;
        undo(&folder, journal)?;
        Ok(paths)
    }

    /// What is staged, and how it is.
    ///
    /// # Errors
    ///
    /// If the journal or the table of mounts cannot be read.
    pub fn list(&self) -> Result<Listing, Error> {
        let Some(journal) = journal::read(&self.folder)? else {
            return Ok(Listing {
                here: true,
                ..Listing::default()
            });
        };
        let mounts = mounts::all()?;
        let tmpfs = self.folder.join("files");
        let users = users::of(&tmpfs, &journal.files);
        let files = journal.files.iter().map(|staged| Listed {
            staged: staged.clone(),
            health: health(staged, &mounts),
            processes: users.get(&staged.copy).map_or(0, Vec::len),
        });
        let files: Vec<Listed> = files.collect();
        Ok(Listing {
            size: journal.size,
            used: used(&tmpfs, &files),
            memory: journal.memory,
            here: journal.namespace == journal::namespace()?,
            files,
        })
    }
}

/// Bytes that copies take: what the tmpfs says, or if it was unmounted, what the copies still
/// mounted were reckoned to take.
fn used(tmpfs: &Path, files: &[Listed]) -> u64 {
    let ours = tmpfs.canonicalize().map(|path| mounts::tmpfs(&path));
    if let (Ok(Ok(true)), Ok(s)) = (ours, nix::sys::statvfs::statvfs(tmpfs)) {
        return (s.blocks() - s.blocks_free()) * s.fragment_size();
    }
    let mounted = files.iter().filter(|f| f.health != Health::NotMounted);
    mounted.map(|f| f.staged.memory).sum()
}

/// Refuses to take the name from what processes map.
fn refuse_in_use(files: &Path, pending: &[Staged]) -> Result<(), Error> {
    let (mounts, mut users) = (mounts::all()?, users::of(files, pending));
    for staged in pending {
        let pids = users.remove(&staged.copy).unwrap_or_default();
        if !pids.is_empty() && !mounts::can_move(&mounts, &staged.path) {
            let path = staged.path.clone();
            return Err(Error::InUse { path, pids });
        }
    }
    Ok(())
}

/// Containers map what is in the layers of their overlay, not what is mounted on a layer's file.
fn notes(candidates: &[Candidate]) -> Result<Vec<Skipped>, Error> {
    let mounts = mounts::all()?;
    let note = |candidate: &Candidate| {
        let path = candidate.path.clone();
        let over = mounts::overlays_over(&mounts, &path);
        let why = match over.first() {
            Some(first) => format!(
                "is in a layer of the overlay at {}: containers and all that see it through an \
                 overlay do not see the copy",
                first.display()
            ),
            None if in_image_store(&path) => "is in a layer of a container image: containers see \
                 it through an overlay, which does not show the copy"
                .into(),
            None => return None,
        };
        Some(Skipped { path, why })
    };
    Ok(candidates.iter().filter_map(note).collect())
}

/// `overlay/ID/diff` of podman, `overlay2/ID/diff` of Docker, `snapshots/N/fs` of containerd.
fn in_image_store(path: &Path) -> bool {
    let names: Vec<_> = path.iter().collect();
    names.windows(3).any(|w| {
        (w[0] == "overlay" || w[0] == "overlay2") && w[2] == "diff"
            || w[0] == "snapshots" && w[2] == "fs"
    })
}

fn not_staged(path: &Path) -> Error {
    Error::File {
        path: path.to_path_buf(),
        why: "is not staged (wideleaf stage --list lists what is)".into(),
    }
}

/// Whether huge=always does anything on this kernel.
fn kernel_allows() -> Result<(), Error> {
    let read =
        |name: &str| fs::read_to_string(format!("/sys/kernel/mm/transparent_hugepage/{name}"));
    let Ok(size) = read("hpage_pmd_size") else {
        return Err(Error::Kernel(
            "this kernel has no transparent huge pages (CONFIG_TRANSPARENT_HUGEPAGE)".into(),
        ));
    };
    if size.trim() != LEAF_2M.to_string() {
        return Err(Error::Kernel(format!(
            "huge pages of a tmpfs are {} bytes with this kernel's base pages, staging is for 2M",
            size.trim()
        )));
    }
    match read("shmem_enabled") {
        Ok(text) if text.contains("[deny]") => Err(Error::Kernel(
            "/sys/kernel/mm/transparent_hugepage/shmem_enabled is deny, which overrules huge=always: \
             any other value will do"
                .into(),
        )),
        Ok(_) => Ok(()),
        Err(_) => Err(Error::Kernel(
            "this kernel has no huge pages in tmpfs (CONFIG_SHMEM)".into(),
        )),
    }
}

/// Takes off what has another original now, or is not mounted any more: what
/// remains, and what to stage anew.
fn drop_stale(
    folder: &Folder,
    journal: Option<Journal>,
) -> Result<(Option<Journal>, Vec<PathBuf>), Error> {
    let Some(mut journal) = journal else {
        return Ok((None, Vec::new()));
    };
    let mounts = mounts::all()?;
    let mut stale = Vec::new();
    for staged in journal.files.iter_mut() {
        let health = health(staged, &mounts);
        if matches!(health, Health::OriginalChanged | Health::NotMounted) {
            staged.phase = Phase::Pending;
            stale.push(staged.path.clone());
        }
    }
    if stale.is_empty() {
        return Ok((Some(journal), stale));
    }
    folder.write(&journal)?;
    Ok((undo(folder, journal)?, stale))
}

fn health(staged: &Staged, mounts: &[Mount]) -> Health {
    match staged.phase {
        Phase::Pending => return Health::Unfinished,
        Phase::InUse => return Health::InUse,
        Phase::Staged => {}
    }
    if mounts::binds(mounts, &staged.copy, &staged.path).last() != Some(&true) {
        return Health::NotMounted;
    }
    match original::look_below(&staged.path) {
        Ok(now) if now == staged.original => Health::Staged,
        Ok(_) => Health::OriginalChanged,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Health::OriginalChanged,
        Err(_) => Health::Unknown,
    }
}

/// Finds the files and asks what aligning them would do.
fn candidates(
    request: &Request,
    journal: Option<&Journal>,
    renewed: &[PathBuf],
) -> Result<(Vec<Candidate>, Vec<Skipped>), Error> {
    let staged = journal.iter().flat_map(|j| &j.files);
    let staged = staged.filter(|s| s.phase != Phase::InUse);
    let staged: HashSet<&Path> = staged.map(|s| s.path.as_path()).collect();
    let mut wanted: Vec<(PathBuf, bool)> = Vec::new();
    wanted.extend(renewed.iter().map(|path| (path.clone(), false)));
    for program in &request.programs {
        let path = program.canonicalize().map_err(|error| Error::File {
            path: program.clone(),
            why: error.to_string(),
        })?;
        if request.libs {
            let libraries = crate::libraries(&path)?;
            let libraries = libraries.iter().filter_map(|l| l.canonicalize().ok());
            wanted.extend(libraries.map(|library| (library, false)));
        }
        wanted.push((path, true));
    }
    // A file that was named counts as such, even if it is another one's library.
    wanted.sort_by_key(|(_, named)| !named);
    let mut seen = HashSet::new();
    let (mut found, mut skipped) = (Vec::new(), Vec::new());
    for (path, named) in wanted {
        if !seen.insert(path.clone()) {
            continue;
        }
        if staged.contains(path.as_path()) {
            let why = "is staged already".to_string();
            skipped.push(Skipped { path, why });
            continue;
        }
        match candidate(&path, request) {
            Ok(candidate) => found.push(candidate),
            Err(No::File(why)) if named => return Err(Error::File { path, why }),
            Err(No::File(why) | No::Use(why)) => skipped.push(Skipped { path, why }),
        }
    }
    Ok((found, skipped))
}

/// Why a file is not staged.
enum No {
    /// It cannot be.
    File(String),
    /// It could, and would gain nothing.
    Use(String),
}

fn candidate(path: &Path, request: &Request) -> Result<Candidate, No> {
    let options = Options {
        dry_run: true,
        ..Options::new(LEAF_2M)
    };
    let metadata = path.metadata().map_err(|e| No::File(e.to_string()))?;
    // Nothing is written there. A file may have another one mounted over it, and be staged.
    let report =
        align(path, Target::File(path), &options).map_err(|e| No::File(e.without_force()))?;
    if report.usable_after == 0 && !request.always {
        let why = "has no block of 2M in its text that a leaf could map";
        return Err(No::Use(why.into()));
    }
    Ok(Candidate {
        path: path.to_path_buf(),
        original: Identity::from(&metadata),
        report,
    })
}

fn entry(candidate: &Candidate, have: &[Staged]) -> Staged {
    let name = candidate.path.file_name().unwrap_or_default();
    let (device, inode) = (candidate.original.device, candidate.original.inode);
    let base = format!("{device:x}-{inode}-{}", name.to_string_lossy());
    // A copy of the same file that is in use has that name.
    let taken = |copy: &String| have.iter().any(|s| s.copy == *copy);
    let others = (1..).map(|n| format!("{n}.{base}"));
    let mut names = std::iter::once(base.clone()).chain(others);
    Staged {
        path: candidate.path.clone(),
        copy: names.find(|copy| !taken(copy)).expect("there is no end"),
        phase: Phase::Pending,
        original: candidate.original.clone(),
        usable: candidate.report.usable_after,
        memory: candidate.report.huge_after,
    }
}

/// The limits of tmpfs and control group that fit what is staged and what is to be.
fn limits(
    request: &Request,
    journal: Option<&Journal>,
    candidates: &[Candidate],
) -> Result<(u64, Option<u64>), Error> {
    let have: u64 = journal.map_or(0, |j| j.files.iter().map(|s| s.memory).sum());
    let new: u64 = candidates.iter().map(|c| c.report.huge_after).sum();
    let needed = have + new;
    let size = match (request.size, journal) {
        (Some(size), _) => size,
        (None, Some(journal)) => journal.size.max(needed),
        (None, None) => needed,
    };
    if size < needed {
        return Err(Error::Size {
            needed: short(needed),
            size: short(size),
        });
    }
    let memory = request.memory.or(journal.and_then(|j| j.memory));
    // Pages of this process are charged, too; at the limit a huge page falls apart into small ones.
    let charged = needed + LEAF_2M;
    if let Some(memory) = memory.filter(|memory| *memory < charged) {
        return Err(Error::Memory {
            needed: short(charged),
            memory: short(memory),
        });
    }
    Ok((size, memory))
}

/// tmpfs, copies, binds.
fn put_in_place<'a>(
    folder: &Folder,
    journal: &Journal,
    candidates: impl Iterator<Item = (&'a Candidate, &'a Staged)> + Clone,
    progress: &mut dyn FnMut(&Path),
) -> Result<(), Error> {
    let files = folder.files();
    match mounts::tmpfs(&files)? {
        true => {
            mounts::set_writable(&files, true)?;
            mounts::resize_tmpfs(&files, journal.size)?;
        }
        false => mounts::mount_tmpfs(&files, journal.size)?,
    }
    let group = journal.memory.zip(journal.cgroup.as_deref());
    let inside = group
        .map(|(limit, group)| cgroup::enter(group, limit))
        .transpose()?;
    for (candidate, staged) in candidates.clone() {
        progress(&candidate.path);
        copy(candidate, &files.join(&staged.copy))?;
    }
    drop(inside);
    mounts::set_writable(&files, false)?;
    for (_, staged) in candidates {
        mounts::bind(&files.join(&staged.copy), &staged.path)?;
    }
    Ok(())
}

fn copy(candidate: &Candidate, copy: &Path) -> Result<(), Error> {
    let path = &candidate.path;
    let bad = |why: String| Error::File {
        path: path.clone(),
        why,
    };
    let mut old = File::open(path).map_err(|e| bad(e.to_string()))?;
    let mut new = File::create_new(copy).map_err(|e| bad(e.to_string()))?;
    // From the page cache: a buffer of the file would be charged to the group, beside the copy.
    match candidate.report.status {
        Status::Good => std::io::copy(&mut old, &mut new)
            .map(drop)
            .map_err(|e| bad(format!("cannot write the copy: {e}")))?,
        _ => wideleaf_align::copy_mapped(&old, &new, LEAF_2M).map_err(|e| bad(e.to_string()))?,
    }
    copy_rights(&old, &new).map_err(|e| bad(e.to_string()))?;
    let now = old.metadata().map_err(|e| bad(e.to_string()))?;
    match Identity::from(&now) == candidate.original && now.nlink() > 0 {
        true => Ok(()),
        false => Err(bad("was replaced meanwhile: try again".into())),
    }
}

/// Undoes what a command that was killed has left. The journal as it is then.
fn recover(folder: &Folder) -> Result<Option<Journal>, Error> {
    let Some(journal) = folder.read()? else {
        return Ok(None);
    };
    if journal.namespace != journal::namespace()? {
        return Err(Error::Namespace(folder.journal()));
    }
    // Without files it was killed before the journal went, after all else.
    let unused = |s: &Staged| s.phase != Phase::Staged;
    match journal.files.is_empty() || journal.files.iter().any(unused) {
        true => undo(folder, journal),
        false => Ok(Some(journal)),
    }
}

/// Takes away all that is pending or was in use: binds, copies, and with the
/// last one the tmpfs, the control group and the journal. A copy that processes
/// use stays, counted, and where the kernel allows it under a name.
fn undo(folder: &Folder, mut journal: Journal) -> Result<Option<Journal>, Error> {
    let files = folder.files();
    let mounts = mounts::all()?;
    let (pending, kept): (Vec<Staged>, Vec<Staged>) =
        (journal.files.into_iter()).partition(|s| s.phase != Phase::Staged);
    let users = users::of(&files, &pending);
    let (in_use, pending): (Vec<Staged>, Vec<Staged>) =
        (pending.into_iter()).partition(|s| users.contains_key(&s.copy));
    for staged in in_use.iter().chain(&pending) {
        if staged.phase == Phase::InUse {
            continue;
        }
        let keep_name = users.contains_key(&staged.copy) && mounts::can_move(&mounts, &staged.path);
        for ours in mounts::binds(&mounts, &staged.copy, &staged.path)
            .iter()
            .rev()
        {
            if !ours {
                let why = "something else is mounted over it: unmount that first".into();
                let path = staged.path.clone();
                return Err(Error::File { path, why });
            }
            match keep_name {
                true => move_aside(folder, staged)?,
                false => mounts::unmount(&staged.path)?,
            }
        }
    }
    for staged in &pending {
        remove_aside(&mounts, &folder.aside(staged))?;
    }
    let mounted = mounts::tmpfs(&files)?;
    journal.files = kept;
    journal.files.extend(in_use.into_iter().map(|s| Staged {
        phase: Phase::InUse,
        ..s
    }));
    if journal.files.is_empty() {
        if mounted {
            mounts::unmount(&files)?;
        }
        if let Some(group) = &journal.cgroup {
            cgroup::remove(group);
        }
        let _ = fs::remove_dir(folder.in_use());
        folder.remove()?;
        return Ok(None);
    }
    if mounted {
        mounts::set_writable(&files, true)?;
        for staged in &pending {
            // Not made yet, perhaps.
            let _ = fs::remove_file(files.join(&staged.copy));
        }
        mounts::set_writable(&files, false)?;
    }
    folder.write(&journal)?;
    Ok(Some(journal))
}

/// Has the processes that use a copy see it under a name of its own.
fn move_aside(folder: &Folder, staged: &Staged) -> Result<(), Error> {
    let place = folder.aside(staged);
    let what = || format!("cannot make {}", place.display());
    fs::create_dir_all(folder.in_use()).map_err(Error::io(what()))?;
    File::create(&place).map_err(Error::io(what()))?;
    mounts::move_to(&staged.path, &place)
}

fn remove_aside(mounts: &[Mount], place: &Path) -> Result<(), Error> {
    if mounts::is_mounted(mounts, place) {
        mounts::unmount(place)?;
    }
    // There is one only for what was in use.
    let _ = fs::remove_file(place);
    Ok(())
}
