// SPDX-License-Identifier: GPL-2.0-only
//! Has a Slurm cluster run rows: job arrays, one row a task.
//!
//! The results folder is shared with the nodes and is the only way back: whether a row is done is
//! read there, never from Slurm, which tells only where a row is while it has no end. So a
//! controller that is away costs nothing but news. A row whose node died is submitted again by us
//! and not by Slurm, which delays what it requeues by minutes, where it does so at all.

use crate::folder::{Folder, Planned, Readable, State};
use anyhow::{Context, Result, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use wideleaf_kit::events::{Event, Observer, Row};

/// Tasks of one array unless the cluster's MaxArraySize is less: Slurm's default.
const ARRAY: usize = 1000;

/// How often a row is submitted again because its node died.
const AGAIN: u32 = 3;

/// How often in a row Slurm must not know a task before it counts as gone: its results may take a
/// moment to be seen here.
const UNSEEN: u32 = 2;

/// States in which a task ends without being at fault.
const NODE_AT_FAULT: [&str; 4] = ["NODE_FAIL", "BOOT_FAIL", "PREEMPTED", "LAUNCH_FAILED"];

/// States in which Slurm ends a task that would end so again.
const ROW_AT_FAULT: [&str; 3] = ["TIMEOUT", "OUT_OF_MEMORY", "DEADLINE"];

/// A cluster.
pub struct Slurm<'a> {
    /// The results folder, which the nodes see at the same path.
    pub folder: &'a Folder,
    /// wideleaf, which they see too.
    pub program: &'a Path,
    /// Variables that rows need on the nodes.
    pub environment: Vec<(String, String)>,
    /// Further words for sbatch: `--partition=short`.
    pub options: Vec<String>,
    /// Tasks of an array that may run at once.
    pub at_once: Option<usize>,
    /// How often Slurm is asked.
    pub poll: Duration,
    /// How long it may give no answer before we give up.
    pub patience: Duration,
    /// Where Slurm's commands are; empty: in `PATH`.
    pub bin: PathBuf,
    /// Whether to return early.
    pub stop: &'a AtomicBool,
    /// Who is told.
    pub observer: &'a dyn Observer,
    /// Whether results can be read.
    pub readable: Readable<'a>,
}

/// Where a task is.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Task {
    state: String,
    node: String,
}

/// What is known of a row that is waited for.
struct Waiting<'r> {
    row: &'r Planned,
    job: String,
    began: bool,
    unseen: u32,
    submitted: u32,
}

impl Slurm<'_> {
    /// Looks whether there is a Slurm that answers, before any work begins.
    ///
    /// # Errors
    ///
    /// What is missing, and what to do about it.
    pub fn require(&self) -> Result<()> {
        for name in ["sbatch", "squeue", "scontrol"] {
            let known = match self.bin.as_os_str().is_empty() {
                true => std::env::var_os("PATH").unwrap_or_default(),
                false => self.bin.clone().into_os_string(),
            };
            if !std::env::split_paths(&known).any(|dir| dir.join(name).is_file()) {
                bail!(
                    "{name} is not in PATH: run this where Slurm's commands are (Debian: \
                     slurm-client), or leave --on slurm out"
                );
            }
        }
        self.queue()
            .context("Slurm does not answer: nothing is submitted")
            .map(drop)
    }

    /// The rows of `rows` that an earlier command submitted and Slurm still has.
    ///
    /// # Errors
    ///
    /// If Slurm does not answer, or the folder cannot be read.
    pub fn queued(&self, rows: &[&Planned]) -> Result<BTreeSet<String>> {
        let queue = self.queue()?;
        let mut keys = BTreeSet::new();
        for row in rows {
            // Whether it waits or runs.
            if let Some(job) = self.folder.job(&row.key)?
                && queue.contains_key(&job)
            {
                keys.insert(row.key.clone());
            }
        }
        Ok(keys)
    }

    /// Submits `rows`.
    ///
    /// # Errors
    ///
    /// If the folder cannot be written to or Slurm refuses; rows that were submitted before that
    /// are known as such.
    pub fn submit(&self, rows: &[&Planned]) -> Result<()> {
        let mut alike: BTreeMap<(usize, u64), Vec<&Planned>> = BTreeMap::new();
        for row in rows {
            let needs = (row.cpus, row.memory.div_ceil(1 << 20));
            alike.entry(needs).or_default().push(row);
        }
        let size = self.array_size()?;
        for ((cpus, mebibytes), rows) in alike {
            for rows in rows.chunks(size) {
                self.submit_array(cpus, mebibytes, rows)?;
            }
        }
        Ok(())
    }

    fn submit_array(&self, cpus: usize, mebibytes: u64, rows: &[&Planned]) -> Result<()> {
        let folder = self.batch(rows)?;
        let mut array = format!("0-{}", rows.len() - 1);
        if let Some(limit) = self.at_once {
            let _ = write!(array, "%{limit}");
        }
        let cwd = std::env::current_dir().context("no current folder")?;
        let mut sbatch = self.tool("sbatch");
        sbatch
            .args(["--parsable", "--no-requeue", "--job-name=wideleaf"])
            .arg(format!("--array={array}"))
            .arg(format!("--cpus-per-task={cpus}"))
            .arg(format!("--mem={mebibytes}M"))
            .arg(format!("--chdir={}", cwd.display()))
            .arg(format!("--output={}", folder.join("%a.log").display()))
            .args(&self.options)
            .arg(folder.join("job.sh"));
        let text = output(&mut sbatch)?;
        // `12`, or `12;cluster`.
        let job = text.trim().split(';').next().unwrap_or_default();
        if job.is_empty() || !job.bytes().all(|byte| byte.is_ascii_digit()) {
            bail!("sbatch --parsable gave no job number but '{}'", text.trim());
        }
        for (index, row) in rows.iter().enumerate() {
            self.folder.queue(&row.key, &format!("{job}_{index}"))?;
        }
        Ok(())
    }

    /// A new folder with the array's script and the keys of its rows.
    fn batch(&self, rows: &[&Planned]) -> Result<PathBuf> {
        let parent = self.folder.root().join("slurm");
        let what = || format!("cannot write to {}", parent.display());
        std::fs::create_dir_all(&parent).with_context(what)?;
        let folder = tempfile::Builder::new()
            .prefix("array-")
            .permissions(std::fs::Permissions::from_mode(0o755))
            .tempdir_in(&parent)
            .with_context(what)?
            .keep();
        let keys: String = rows.iter().map(|row| row.key.clone() + "\n").collect();
        std::fs::write(folder.join("rows"), keys)
            .and_then(|()| std::fs::write(folder.join("job.sh"), self.script(&folder)))
            .with_context(what)?;
        Ok(folder)
    }

    fn script(&self, folder: &Path) -> String {
        let quoted = |path: &Path| shell_words::quote(&path.to_string_lossy()).into_owned();
        let mut text = "#!/bin/sh\n# Made by 'wideleaf lab matrix --on slurm'.\n".to_string();
        for (name, value) in &self.environment {
            let _ = writeln!(text, "export {name}={}", shell_words::quote(value));
        }
        let _ = writeln!(
            text,
            "key=$(sed -n \"$((SLURM_ARRAY_TASK_ID + 1))p\" {}) || exit\n\
             exec {} lab matrix-row --output {} \"$key\"",
            quoted(&folder.join("rows")),
            quoted(self.program),
            quoted(self.folder.root()),
        );
        text
    }

    /// Waits until no row of `rows` is left in Slurm's hands, or `stop` is set.
    ///
    /// # Errors
    ///
    /// If Slurm gives no answer for too long, or the folder cannot be read. What is done is in the
    /// folder, and the same command goes on.
    pub fn wait(&self, rows: &[&Planned]) -> Result<()> {
        let mut waiting = Vec::new();
        for row in rows {
            self.wait_for(row, &mut waiting)?;
        }
        let mut silent: Option<Instant> = None;
        while !waiting.is_empty() && !self.stop.load(Ordering::SeqCst) {
            // Before the folder is looked at: what is in neither now has ended without a trace.
            let queue = match self.queue() {
                Ok(queue) => Some(queue),
                Err(error) => {
                    self.silence(&mut silent, error)?;
                    None
                }
            };
            if queue.is_some() {
                silent = None;
            }
            let mut again = Vec::new();
            for mut one in std::mem::take(&mut waiting) {
                match self.look(&mut one, queue.as_ref())? {
                    Next::Wait => waiting.push(one),
                    Next::Again => again.push(one),
                    Next::Over => {}
                }
            }
            if !again.is_empty() {
                let rows: Vec<_> = again.iter().map(|one| one.row).collect();
                self.submit(&rows)?;
                for mut one in again {
                    self.job(&mut one)?;
                    waiting.push(one);
                }
            }
            if !waiting.is_empty() {
                self.sleep();
            }
        }
        Ok(())
    }

    fn wait_for<'r>(&self, row: &'r Planned, waiting: &mut Vec<Waiting<'r>>) -> Result<()> {
        let mut one = Waiting {
            row,
            job: String::new(),
            began: false,
            unseen: 0,
            submitted: 1,
        };
        self.job(&mut one)?;
        waiting.push(one);
        Ok(())
    }

    /// Looks up which job has the row.
    fn job(&self, one: &mut Waiting<'_>) -> Result<()> {
        one.job = self.folder.job(&one.row.key)?.unwrap_or_default();
        Ok(())
    }

    fn say(&self, row: &str, now: Row<'_>) {
        self.observer.event(Event::Row { row, now });
    }

    /// Takes note that Slurm did not answer.
    fn silence(&self, since: &mut Option<Instant>, error: anyhow::Error) -> Result<()> {
        match since {
            None => {
                *since = Some(Instant::now());
                self.observer.event(Event::Note(&format!(
                    "Slurm does not answer ({error:#}): going on as soon as it does"
                )));
            }
            Some(since) if since.elapsed() >= self.patience => {
                return Err(error.context(format!(
                    "Slurm has not answered for {} s: what is done is kept, and the same command \
                     goes on",
                    since.elapsed().as_secs()
                )));
            }
            Some(_) => {}
        }
        Ok(())
    }

    /// What to do about a row; `queue` is `None` where Slurm did not answer.
    fn look(&self, one: &mut Waiting<'_>, queue: Option<&BTreeMap<String, Task>>) -> Result<Next> {
        let row = one.row.name.as_str();
        match self.folder.state(one.row, self.readable)? {
            State::Done { .. } => {
                self.say(row, Row::Done);
                return Ok(Next::Over);
            }
            State::Failed { reason } => {
                self.say(row, Row::Failed(&reason));
                return Ok(Next::Over);
            }
            State::Running | State::Queued { .. } | State::ToDo => {}
        }
        let Some(queue) = queue else {
            return Ok(Next::Wait);
        };
        if let Some(task) = queue.get(&one.job) {
            one.unseen = 0;
            if task.state == "RUNNING" && !one.began {
                one.began = true;
                self.say(row, Row::Began(&task.node));
            }
            return Ok(Next::Wait);
        }
        one.unseen += 1;
        match one.unseen {
            UNSEEN.. => self.gone(one),
            _ => Ok(Next::Wait),
        }
    }

    /// A row that Slurm no longer has and that left no results.
    fn gone(&self, one: &mut Waiting<'_>) -> Result<Next> {
        let row = one.row.name.as_str();
        let (state, node) = self.fate(&one.job);
        self.folder.unqueue(&one.row.key)?;
        let at = match node.is_empty() {
            true => String::new(),
            false => format!(" on {node}"),
        };
        if ROW_AT_FAULT.contains(&state.as_str()) {
            let reason = &format!("Slurm ended job {}{at}: {state}", one.job);
            self.folder.fail(&one.row.key, reason)?;
            self.say(row, Row::Failed(reason));
            return Ok(Next::Over);
        }
        if NODE_AT_FAULT.contains(&state.as_str()) && one.submitted <= AGAIN {
            let job = &one.job;
            self.observer.event(Event::Note(&format!(
                "{row}: job {job} was lost{at} ({state}): submitting it again"
            )));
            (one.began, one.unseen) = (false, 0);
            one.submitted += 1;
            return Ok(Next::Again);
        }
        let reason = &format!(
            "Slurm's job {} ended{at} without results: {state}; its log is in {}",
            one.job,
            self.folder.root().join("slurm").display()
        );
        self.say(row, Row::Left(reason));
        Ok(Next::Over)
    }

    /// How a task ended and where, as long as Slurm remembers.
    fn fate(&self, job: &str) -> (String, String) {
        let text = output(
            self.tool("scontrol")
                .args(["--oneliner", "show", "job", job]),
        );
        let text = text.unwrap_or_default();
        let field = |name: &str| {
            let mut words = text.split_whitespace();
            let value = words.find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
            value.unwrap_or_default().to_string()
        };
        match field("JobState") {
            state if state.is_empty() => ("Slurm does not remember it".into(), String::new()),
            state => (state, field("NodeList").replace("(null)", "")),
        }
    }

    /// Every task of this user, by `JOB_INDEX`.
    fn queue(&self) -> Result<BTreeMap<String, Task>> {
        let user = nix::unistd::Uid::current().to_string();
        let text = output(self.tool("squeue").args([
            "--noheader",
            "--array",
            "--format=%F_%K %T %N",
            &format!("--user={user}"),
        ]))?;
        let task = |line: &str| {
            let mut words = line.split_whitespace();
            let id = words.next()?.to_string();
            let state = words.next()?.to_string();
            let node = words.next().unwrap_or_default().to_string();
            Some((id, Task { state, node }))
        };
        Ok(text.lines().filter_map(task).collect())
    }

    fn array_size(&self) -> Result<usize> {
        let text = output(self.tool("scontrol").args(["show", "config"]))?;
        let limit = text.lines().find_map(|line| {
            let (name, value) = line.split_once('=')?;
            (name.trim() == "MaxArraySize").then(|| value.trim().parse::<usize>().ok())?
        });
        // The limit is above the highest index.
        Ok(limit.unwrap_or(ARRAY).clamp(1, ARRAY))
    }

    fn tool(&self, name: &str) -> Command {
        Command::new(self.bin.join(name))
    }

    /// Until the next look, or `stop`.
    fn sleep(&self) {
        let until = Instant::now() + self.poll;
        while Instant::now() < until && !self.stop.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(50).min(self.poll));
        }
    }
}

/// What comes next for a row that is waited for.
enum Next {
    Wait,
    Again,
    Over,
}

/// Standard output of a command; a failure carries what it said.
fn output(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let out = command
        .stdin(std::process::Stdio::null())
        .output()
        .with_context(|| format!("cannot run {name}"))?;
    if !out.status.success() {
        let said = String::from_utf8_lossy(&out.stderr);
        bail!("{name}: {}", said.trim().replace('\n', ", "));
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

#[cfg(test)]
#[path = "slurm_tests.rs"]
mod tests;
