// SPDX-License-Identifier: GPL-2.0-only
//! What is staged, and how far: one file, replaced in one step before and
//! after each change. It lies in /run, so that a reboot, which takes the
//! mounts, takes it too.

use crate::Error;
use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const SCHEMA: u32 = 1;
/// The folder of mounts that are used by processes only.
const IN_USE: &str = "in-use";

/// Whether it is the place of such a mount, which lies over no original.
pub(crate) fn is_aside(point: &Path) -> bool {
    point
        .parent()
        .is_some_and(|folder| folder.ends_with(IN_USE))
}

/// What tells whether a file is still the one that it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Device number.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
    /// Bytes.
    pub size: u64,
    /// Seconds and nanoseconds.
    pub modified: (i64, i64),
}

impl From<&Metadata> for Identity {
    fn from(m: &Metadata) -> Self {
        Identity {
            device: m.dev(),
            inode: m.ino(),
            size: m.size(),
            modified: (m.mtime(), m.mtime_nsec()),
        }
    }
}

/// How far an entry has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Being staged or unstaged: to be undone.
    Pending,
    /// Staged with all others of its command.
    Staged,
    /// Unstaged; the copy stays until no process maps it.
    InUse,
}

/// A file with a copy.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Staged {
    /// The program or library, without symbolic links.
    #[serde(with = "crate::paths")]
    pub path: PathBuf,
    /// Name of the copy on the tmpfs.
    pub copy: String,
    /// How far it has come.
    pub phase: Phase,
    /// The original when it was copied.
    pub original: Identity,
    /// Bytes of text that 2M leaves can map.
    pub usable: u64,
    /// Bytes of huge pages that the copy takes.
    pub memory: u64,
}

/// All that is staged.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Journal {
    schema: u32,
    /// The mount namespace, as /proc names it.
    pub(crate) namespace: String,
    /// Limit of the tmpfs in bytes.
    pub(crate) size: u64,
    /// Limit of the control group in bytes.
    pub(crate) memory: Option<u64>,
    /// The control group made for it.
    pub(crate) cgroup: Option<PathBuf>,
    pub(crate) files: Vec<Staged>,
}

impl Journal {
    pub(crate) fn new(namespace: String, size: u64, memory: Option<u64>) -> Journal {
        Journal {
            schema: SCHEMA,
            namespace,
            size,
            memory,
            cgroup: None,
            files: Vec::new(),
        }
    }
}

/// The folder that holds journal, lock and tmpfs, locked by this process.
pub(crate) struct Folder {
    path: PathBuf,
    _lock: Flock<File>,
}

impl Folder {
    /// Makes the folder if need be, and waits for other commands to end.
    pub(crate) fn lock(path: &Path) -> Result<Folder, Error> {
        let what = || format!("cannot use {} (run as root)", path.display());
        fs::create_dir_all(path.join("files")).map_err(Error::io(what()))?;
        let file = File::create(path.join("lock")).map_err(Error::io(what()))?;
        let lock = Flock::lock(file, FlockArg::LockExclusive)
            .map_err(|(_, error)| Error::io(what())(error))?;
        let path = path.canonicalize().map_err(Error::io(what()))?;
        remove_unfinished(&path);
        Ok(Folder { path, _lock: lock })
    }

    /// Where the tmpfs is mounted.
    pub(crate) fn files(&self) -> PathBuf {
        self.path.join("files")
    }

    pub(crate) fn in_use(&self) -> PathBuf {
        self.path.join(IN_USE)
    }

    /// Where the mount of a copy goes that was unstaged while processes use it.
    pub(crate) fn aside(&self, staged: &Staged) -> PathBuf {
        self.in_use().join(&staged.copy)
    }

    pub(crate) fn journal(&self) -> PathBuf {
        self.path.join("journal.json")
    }

    pub(crate) fn read(&self) -> Result<Option<Journal>, Error> {
        read(&self.path)
    }

    pub(crate) fn write(&self, journal: &Journal) -> Result<(), Error> {
        let path = self.journal();
        let what = || format!("cannot write {}", path.display());
        let text = serde_json::to_vec_pretty(journal).expect("plain data");
        wideleaf_kit::replace::replace(&path, text).map_err(Error::io(what()))
    }

    pub(crate) fn remove(&self) -> Result<(), Error> {
        let path = self.journal();
        fs::remove_file(&path).map_err(Error::io(format!("cannot remove {}", path.display())))
    }
}

/// Removes journals that commands were killed over: this process has the lock.
fn remove_unfinished(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name().as_bytes().starts_with(b".wideleaf-") {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// The journal in a folder, if there is one.
pub(crate) fn read(folder: &Path) -> Result<Option<Journal>, Error> {
    let path = folder.join("journal.json");
    let text = match fs::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(Error::io(format!("cannot read {}", path.display())))?,
    };
    let bad = |why: String| Error::Journal {
        path: path.clone(),
        why,
    };
    let journal: Journal = serde_json::from_slice(&text).map_err(|e| bad(e.to_string()))?;
    match journal.schema {
        SCHEMA => Ok(Some(journal)),
        other => Err(bad(format!("schema is {other}, must be {SCHEMA}"))),
    }
}

/// The mount namespace of this process.
pub(crate) fn namespace() -> Result<String, Error> {
    let link = fs::read_link("/proc/self/ns/mnt").map_err(Error::io("cannot read /proc"))?;
    Ok(link.to_string_lossy().into_owned())
}
