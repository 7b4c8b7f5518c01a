// SPDX-License-Identifier: GPL-2.0-only
//! The results folder, which is all the memory that a matrix has.
//!
//! ```text
//! NAME.json                  a link to the row's results, for whoever reads them
//! rows/KEY/row.json          what the row is
//! rows/KEY/results.json      what it came to; there exactly if it is done
//! rows/KEY/failed.json       why it failed; gone as soon as it begins again
//! rows/KEY/log               what its last run printed
//! rows/KEY/queued.json       the Slurm job that has it
//! rows/KEY/lock              held by whoever runs it
//! rows/sources.json          the source versions that this folder's rows are made with
//! slurm/                     what was handed to Slurm, and its logs
//! ```
//!
//! KEY is the hash of all that goes into a row. Every file appears by one `rename(2)`, so whatever
//! is killed at whatever instant leaves rows that are done and rows that are not, and nothing
//! between.

use anyhow::{Context, Result, bail};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// How long a lock is tried for: `--list` takes it for an instant too.
const PATIENCE: Duration = Duration::from_secs(1);

/// A row with all that is needed to run it, here or on another machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Planned {
    /// The row's name.
    pub name: String,
    /// Base, architecture and page size.
    pub machine: [String; 3],
    /// The arguments of `lab run`.
    pub words: Vec<String>,
    /// The hash of the arguments and of the kernels that they run.
    pub key: String,
    /// The hash of the other programs that have a part in the figures: guest, plugin, QEMU.
    pub programs: String,
    /// CPUs that its guests keep busy.
    pub cpus: usize,
    /// Memory that its guests take, in bytes.
    pub memory: u64,
    /// Whether no other row may run beside it.
    #[serde(default)]
    pub alone: bool,
    /// The run must fail, with one of these in what it prints; empty: it must pass.
    #[serde(default)]
    pub must_fail_with: Vec<String>,
}

/// What has become of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It has results.
    Done {
        /// They were measured with another guest, plugin or QEMU.
        outdated: bool,
    },
    /// It failed, or its results cannot be read.
    Failed {
        /// Why, in a line.
        reason: String,
    },
    /// Somebody runs it.
    Running,
    /// It was handed to Slurm.
    Queued {
        /// `12_3`: job and index.
        job: String,
    },
    /// Nobody has begun it.
    ToDo,
}

impl State {
    /// As tables and JSON show it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Done { outdated: false } => "done",
            Self::Done { outdated: true } => "outdated",
            Self::Failed { .. } => "failed",
            Self::Running => "running",
            Self::Queued { .. } => "queued",
            Self::ToDo => "to do",
        }
    }
}

/// What the results say of the row that they are of.
#[derive(Serialize, Deserialize)]
struct Mark {
    row: String,
    key: String,
    programs: String,
    seconds: f64,
    node: String,
}

/// Why a row failed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Failure {
    /// In a line.
    pub reason: String,
    /// Where it ran.
    pub node: String,
}

#[derive(Serialize, Deserialize)]
struct Queued {
    job: String,
}

/// Says whether a results file can be read, and why not.
pub type Readable<'a> = &'a (dyn Fn(&Path) -> Result<()> + Sync);

/// The folder.
#[derive(Clone, Debug)]
pub struct Folder {
    root: PathBuf,
}

/// The right to run a row, until dropped or its holder's death.
#[derive(Debug)]
pub struct Lock(#[allow(dead_code)] Flock<File>);

impl Folder {
    /// Takes `root`, which need not be there, for reading.
    pub fn at(root: &Path) -> Self {
        Self { root: root.into() }
    }

    /// Takes `root` for writing, and creates it where it is not there.
    ///
    /// # Errors
    ///
    /// If nothing can be written there.
    pub fn open(root: &Path) -> Result<Self> {
        fs::create_dir_all(root).with_context(|| format!("cannot create {}", root.display()))?;
        let root = root.canonicalize()?;
        tempfile::tempfile_in(&root)
            .with_context(|| format!("cannot write to the results folder {}", root.display()))?;
        Ok(Self { root })
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folder of a row.
    pub fn row(&self, key: &str) -> PathBuf {
        self.root.join("rows").join(key)
    }

    /// What the row's last run printed.
    pub fn log(&self, key: &str) -> PathBuf {
        self.row(key).join("log")
    }

    /// The row of this key.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub fn planned(&self, key: &str) -> Result<Planned> {
        let path = self.row(key).join("row.json");
        load(&path)?.with_context(|| format!("{}: not there", path.display()))
    }

    /// Writes down what a row is, before it is run.
    ///
    /// # Errors
    ///
    /// If the folder cannot be written to.
    pub fn plan(&self, row: &Planned) -> Result<()> {
        let folder = self.row(&row.key);
        fs::create_dir_all(&folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        store(&folder.join("row.json"), row)
    }

    /// What has become of a row.
    ///
    /// # Errors
    ///
    /// If the folder cannot be read.
    pub fn state(&self, row: &Planned, readable: Readable<'_>) -> Result<State> {
        let folder = self.row(&row.key);
        if self.is_running(&row.key)? {
            return Ok(State::Running);
        }
        if let Some(Failure { reason, .. }) = load(&folder.join("failed.json"))? {
            return Ok(State::Failed { reason });
        }
        let queued = self.job(&row.key)?;
        let results = folder.join("results.json");
        if !results.exists() {
            return Ok(match queued {
                Some(job) => State::Queued { job },
                None => State::ToDo,
            });
        }
        if let Err(error) = readable(&results) {
            let reason = format!("{error:#}");
            return Ok(State::Failed { reason });
        }
        let outdated = mark(&results)?.is_none_or(|mark| mark.programs != row.programs);
        Ok(match queued {
            Some(job) if outdated => State::Queued { job },
            _ => State::Done { outdated },
        })
    }

    /// Whether somebody holds the row's lock.
    fn is_running(&self, key: &str) -> Result<bool> {
        let path = self.row(key).join("lock");
        match File::open(&path) {
            Ok(file) => Ok(Flock::lock(file, FlockArg::LockSharedNonblock).is_err()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error).with_context(|| path.display().to_string()),
        }
    }

    /// The right to run a row; `None`: somebody else has it.
    ///
    /// # Errors
    ///
    /// If the folder cannot be written to, or its file system has no locks.
    pub fn lock(&self, key: &str) -> Result<Option<Lock>> {
        let path = self.row(key).join("lock");
        let what = || format!("cannot lock {}", path.display());
        let mut file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .with_context(what)?;
        let step = PATIENCE / 20;
        for _ in 0..20 {
            file = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                Ok(lock) => return Ok(Some(Lock(lock))),
                Err((file, Errno::EWOULDBLOCK)) => file,
                Err((_, errno)) => return Err(errno).with_context(what),
            };
            std::thread::sleep(step);
        }
        Ok(None)
    }

    /// Forgets how a row ended before, because it begins again.
    ///
    /// # Errors
    ///
    /// If the folder cannot be written to.
    pub fn begin(&self, key: &str) -> Result<()> {
        remove(&self.row(key).join("failed.json"))
    }

    /// Forgets the results of a row too, so that none count until it has run again.
    ///
    /// # Errors
    ///
    /// If the folder cannot be written to.
    pub fn forget(&self, key: &str) -> Result<()> {
        remove(&self.row(key).join("results.json"))?;
        self.begin(key)
    }

    /// When the row's results were written, and how many seconds its run took.
    ///
    /// # Errors
    ///
    /// If they cannot be read.
    pub fn when(&self, key: &str) -> Result<(SystemTime, f64)> {
        let results = self.row(key).join("results.json");
        let written = fs::metadata(&results).and_then(|meta| meta.modified());
        let written = written.with_context(|| results.display().to_string())?;
        Ok((written, mark(&results)?.map_or(0.0, |mark| mark.seconds)))
    }

    /// Removes rows that no [`Self::plan`] has named for so long and that nobody runs.
    ///
    /// # Errors
    ///
    /// If the folder cannot be written to.
    pub fn prune(&self, age: Duration) -> Result<()> {
        let rows = fs::read_dir(self.root.join("rows"));
        for item in rows.into_iter().flatten() {
            let path = item?.path();
            let planned = fs::metadata(path.join("row.json")).and_then(|meta| meta.modified());
            let is_old = |time: SystemTime| time.elapsed().is_ok_and(|elapsed| elapsed > age);
            let key = path.file_name().unwrap_or_default().to_string_lossy();
            if planned.is_ok_and(is_old) && !self.is_running(&key)? {
                fs::remove_dir_all(&path)
                    .with_context(|| format!("cannot remove {}", path.display()))?;
            }
        }
        Ok(())
    }

    /// Keeps the results of a row, which the file `results` has.
    ///
    /// # Errors
    ///
    /// If the folder cannot be written to; `results` is there still.
    pub fn finish(&self, row: &Planned, results: &Path, seconds: f64) -> Result<()> {
        let text = fs::read_to_string(results).with_context(|| results.display().to_string())?;
        // Raw, so that no figure is changed by being read and written.
        let mut all: BTreeMap<String, Box<RawValue>> = serde_json::from_str(&text)
            .with_context(|| format!("{}: not a results file", results.display()))?;
        let mark = Mark {
            row: row.name.clone(),
            key: row.key.clone(),
            programs: row.programs.clone(),
            seconds,
            node: node(),
        };
        all.insert("matrix".into(), serde_json::value::to_raw_value(&mark)?);
        let folder = self.row(&row.key);
        store(&folder.join("results.json"), &all)?;
        remove(&folder.join("queued.json"))?;
        self.link(row)
    }

    /// Makes `NAME.json` show the row's results.
    ///
    /// # Errors
    ///
    /// If the folder cannot be written to.
    pub fn link(&self, row: &Planned) -> Result<()> {
        let target = Path::new("rows").join(&row.key).join("results.json");
        let link = self.root.join(format!("{}.json", row.name));
        if fs::read_link(&link).is_ok_and(|old| old == target) {
            return Ok(());
        }
        // Nobody takes a folder of that name but for this.
        let new = tempfile::Builder::new()
            .prefix(".link-")
            .tempdir_in(&self.root)
            .with_context(|| format!("cannot write to {}", self.root.display()))?;
        let temporary = new.path().join("link");
        std::os::unix::fs::symlink(&target, &temporary)
            .and_then(|()| fs::rename(&temporary, &link))
            .with_context(|| format!("cannot link {}", link.display()))
    }

    /// Writes down that a row failed.
    ///
    /// # Errors
    ///
    /// If the folder cannot be written to.
    pub fn fail(&self, key: &str, reason: &str) -> Result<()> {
        let failure = Failure {
            reason: reason.into(),
            node: node(),
        };
        let folder = self.row(key);
        store(&folder.join("failed.json"), &failure)?;
        remove(&folder.join("queued.json"))
    }

    /// Writes down that Slurm's `job` has a row. How it ended before is forgotten.
    ///
    /// # Errors
    ///
    /// If the folder cannot be written to.
    pub fn queue(&self, key: &str, job: &str) -> Result<()> {
        let job = job.to_string();
        store(&self.row(key).join("queued.json"), &Queued { job })?;
        self.begin(key)
    }

    /// Slurm's job that has the row, or had it when it was last heard of.
    ///
    /// # Errors
    ///
    /// If the folder cannot be read.
    pub fn job(&self, key: &str) -> Result<Option<String>> {
        let queued: Option<Queued> = load(&self.row(key).join("queued.json"))?;
        Ok(queued.map(|Queued { job }| job))
    }

    /// Writes down that Slurm no longer has it.
    ///
    /// # Errors
    ///
    /// If the folder cannot be written to.
    pub fn unqueue(&self, key: &str) -> Result<()> {
        remove(&self.row(key).join("queued.json"))
    }

    /// The source version of each base that rows of this folder are made with.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    pub fn sources(&self) -> Result<BTreeMap<String, String>> {
        Ok(load(&self.root.join("rows/sources.json"))?.unwrap_or_default())
    }

    /// Keeps them.
    ///
    /// # Errors
    ///
    /// If the folder cannot be written to.
    pub fn keep_sources(&self, sources: &BTreeMap<String, String>) -> Result<()> {
        let rows = self.root.join("rows");
        fs::create_dir_all(&rows).with_context(|| format!("cannot create {}", rows.display()))?;
        store(&rows.join("sources.json"), sources)
    }
}

/// This machine's name.
pub fn node() -> String {
    // Several of Slurm's nodes may be one machine.
    std::env::var("SLURMD_NODENAME").unwrap_or_else(|_| {
        let uname = nix::sys::utsname::uname();
        let name = uname.map(|uname| uname.nodename().to_string_lossy().into_owned());
        name.unwrap_or_default()
    })
}

fn mark(results: &Path) -> Result<Option<Mark>> {
    #[derive(Deserialize)]
    struct Marked {
        matrix: Option<Mark>,
    }
    Ok(load::<Marked>(results)?.and_then(|marked| marked.matrix))
}

/// What a file holds; `None` if there is none.
fn load<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    let text = match fs::read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        text => text.with_context(|| path.display().to_string())?,
    };
    match serde_json::from_slice(&text) {
        Ok(value) => Ok(Some(value)),
        Err(error) => bail!(
            "{}: damaged ({error}): remove it, and the row counts as not done",
            path.display()
        ),
    }
}

/// Writes a file, which appears whole or not at all.
fn store(path: &Path, value: &impl Serialize) -> Result<()> {
    let write = || {
        let mut file = tempfile::Builder::new()
            .prefix(".new-")
            .permissions(fs::Permissions::from_mode(0o644))
            .tempfile_in(path.parent().unwrap_or(Path::new(".")))?;
        file.write_all(serde_json::to_string_pretty(value)?.as_bytes())?;
        file.write_all(b"\n")?;
        file.as_file().sync_all()?;
        file.persist(path)?;
        Ok::<(), std::io::Error>(())
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn planned(name: &str) -> Planned {
        Planned {
            name: name.into(),
            machine: ["7.3", "arm64", "64K"].map(String::from),
            words: vec!["--job".into(), name.into()],
            key: format!("key-of-{name}"),
            programs: "one".into(),
            cpus: 1,
            memory: 1 << 20,
            alone: false,
            must_fail_with: Vec::new(),
        }
    }

    /// A folder with one row, and results for it.
    fn folder() -> (tempfile::TempDir, Folder, Planned, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(&dir.path().join("results")).unwrap();
        let row = planned("a");
        folder.plan(&row).unwrap();
        let results = dir.path().join("found.json");
        fs::write(
            &results,
            "{\"ratio\": 0.1000000000000000055511151231257827, \"n\": 1}",
        )
        .unwrap();
        (dir, folder, row, results)
    }

    fn good(_: &Path) -> Result<()> {
        Ok(())
    }

    #[test]
    fn a_row_goes_through_its_states() {
        let (_dir, folder, row, results) = folder();
        let state = |row: &Planned| folder.state(row, &good).unwrap();
        assert_eq!(state(&row), State::ToDo);
        folder.queue(&row.key, "12_3").unwrap();
        assert_eq!(state(&row), State::Queued { job: "12_3".into() });
        let lock = folder.lock(&row.key).unwrap();
        assert!(lock.is_some());
        assert_eq!(state(&row), State::Running);
        assert!(
            folder.lock(&row.key).unwrap().is_none(),
            "two ran it at once"
        );
        folder.fail(&row.key, "it rained").unwrap();
        drop(lock);
        let reason = "it rained".to_string();
        assert_eq!(state(&row), State::Failed { reason });
        folder.begin(&row.key).unwrap();
        assert_eq!(state(&row), State::ToDo);
        folder.finish(&row, &results, 1.5).unwrap();
        assert_eq!(state(&row), State::Done { outdated: false });
        let other = Planned {
            programs: "two".into(),
            ..row
        };
        assert_eq!(state(&other), State::Done { outdated: true });
    }

    #[test]
    fn results_keep_every_digit_and_are_shown_by_name() {
        let (_dir, folder, row, results) = folder();
        folder.finish(&row, &results, 1.5).unwrap();
        let shown = fs::read_to_string(folder.root().join("a.json")).unwrap();
        assert!(
            shown.contains("0.1000000000000000055511151231257827"),
            "{shown}"
        );
        assert!(shown.contains("\"seconds\":1.5"), "{shown}");
        // A row of the same name that runs other kernels takes the name when it has results.
        let newer = Planned {
            key: "other".into(),
            ..row
        };
        folder.plan(&newer).unwrap();
        assert_eq!(folder.state(&newer, &good).unwrap(), State::ToDo);
        folder.finish(&newer, &results, 2.5).unwrap();
        let shown = fs::read_to_string(folder.root().join("a.json")).unwrap();
        assert!(shown.contains("2.5"), "{shown}");
        let left: Vec<_> = fs::read_dir(folder.root()).unwrap().flatten().collect();
        assert_eq!(left.len(), 2, "{left:?}");
    }

    #[test]
    fn results_that_cannot_be_read_count_as_failed_with_what_to_do() {
        let (_dir, folder, row, results) = folder();
        folder.finish(&row, &results, 1.0).unwrap();
        let state = folder.state(&row, &|_| bail!("of schema 9: measure again"));
        let reason = "of schema 9: measure again".to_string();
        assert_eq!(state.unwrap(), State::Failed { reason });
    }

    #[test]
    fn what_cannot_be_written_leaves_what_was_there() {
        let (_dir, folder, row, results) = folder();
        folder.finish(&row, &results, 1.0).unwrap();
        fs::write(&results, "not json").unwrap();
        folder.finish(&row, &results, 2.0).unwrap_err();
        assert_eq!(
            folder.state(&row, &good).unwrap(),
            State::Done { outdated: false }
        );
        assert!(results.exists());
    }

    #[test]
    fn rows_that_nobody_plans_any_more_are_removed() {
        let (_dir, folder, row, results) = folder();
        folder.finish(&row, &results, 1.0).unwrap();
        folder.prune(Duration::from_secs(3600)).unwrap();
        assert_eq!(folder.when(&row.key).unwrap().1, 1.0);
        let lock = folder.lock(&row.key).unwrap();
        folder.prune(Duration::ZERO).unwrap();
        assert!(folder.row(&row.key).exists(), "it is being run");
        drop(lock);
        folder.prune(Duration::ZERO).unwrap();
        assert!(!folder.row(&row.key).exists());
    }

    #[test]
    fn a_row_that_is_forgotten_is_to_do() {
        let (_dir, folder, row, results) = folder();
        folder.finish(&row, &results, 1.0).unwrap();
        folder.forget(&row.key).unwrap();
        assert_eq!(folder.state(&row, &good).unwrap(), State::ToDo);
    }

    #[test]
    fn a_folder_that_cannot_be_is_named() {
        let error = Folder::open(Path::new("/proc/none")).unwrap_err();
        assert!(error.to_string().contains("/proc/none"), "{error}");
    }
}
