// SPDX-License-Identifier: GPL-2.0-only
//! Runs stressors one after the other, each in a cgroup of its own that can be killed as a whole,
//! and watches over all tasks meanwhile.

use super::text::Text;
use super::{End, NAME, Report, Stressed, Stressor, Task};
use anyhow::{Context, Result};
use nix::mount::{MsFlags, mount};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};
use wideleaf_guest::kit::crew::Crew;
use wideleaf_guest::kit::watch::hang;
use wideleaf_guest::kit::{cgroup, root, spawn, swap};
use wideleaf_guest::place::Place;
use wideleaf_guest::port::Port;
use wideleaf_guest::protocol::Message;
use wideleaf_guest::work::Work;

/// The job's guest side.
pub struct StressNg;

/// The registry's entry.
pub const WORK: StressNg = StressNg;

impl Work for StressNg {
    const NAME: &'static str = NAME;
    type Task = Task;
    type Report = Report;

    fn run(&self, task: &Task, _: &Place<'_>, port: &Port) -> Result<Report> {
        job(task, port)
    }
}

/// Below the root: where stressors have their files, and where the program is that is executed.
const FOLDER: &str = "/under-fire";

/// Below the root: the layers of an overlay, and the swap file.
const LAYERS: &str = "/layers";
const SWAP_FILE: &str = "/swap";

/// The words and the figures of a stressor, in memory.
const OUTPUT: &str = "/tmp/output";
const METRICS: &str = "/tmp/metrics.yaml";

/// Of an output that is no success, so many bytes from its end.
const LAST: usize = 2000;

/// Seconds that a stressor may take to begin and to end, besides those that it lasts.
const GRACE: Duration = Duration::from_secs(120);

/// How often it is looked after.
const LOOK: Duration = Duration::from_millis(200);

/// Lines of /proc/vmstat that are told, by the name of their sum.
const EVENTS: [(&str, &[&str]); 2] = [
    ("reclaimed", &["pgsteal_kswapd", "pgsteal_direct"]),
    ("swapped_out", &["pswpout"]),
];

/// Runs them all.
fn job(task: &Task, port: &Port) -> Result<Report> {
    root::furnish(&task.root)?;
    swap::on(&format!("{}{SWAP_FILE}", task.root), task.swap)?;
    make_folder(task)?;
    let text = Text::new(&task.root, &format!("{FOLDER}/text"))?;
    let mut stage = Stage {
        task,
        group: cgroup::unlimited(NAME)?,
        crew: Crew::watched(Duration::from_secs(task.hung_s.into()))?,
    };
    let users = cgroup::unlimited("text")?;
    text.start(&mut stage.crew, &users)?;
    let before = events()?;
    let mut report = Report::default();
    for stressor in &task.stressors {
        let text = stressor.name.clone();
        port.send(&Message::Progress { text })?;
        let stressed = stage.run(stressor);
        report
            .stressors
            .push(stressed.with_context(|| format!("during {}", stressor.name))?);
    }
    // A program that still reads when the guest goes off would get an I/O error.
    stage.end_all(&users)?;
    report.counts = text.counts();
    for (name, count) in events()? {
        let more = count - before.get(&name).copied().unwrap_or_default();
        report.counts.insert(name, more);
    }
    Ok(report)
}

/// The folder that all use: one of the disk, or an overlay over one of the disk.
fn make_folder(task: &Task) -> Result<()> {
    let folder = format!("{}{FOLDER}", task.root);
    fs::create_dir_all(&folder).with_context(|| folder.clone())?;
    if !task.overlay {
        return Ok(());
    }
    let layer = |name| format!("{}{LAYERS}/{name}", task.root);
    for name in ["lower", "upper", "work"] {
        fs::create_dir_all(layer(name)).with_context(|| layer(name))?;
    }
    let options = format!(
        "lowerdir={},upperdir={},workdir={}",
        layer("lower"),
        layer("upper"),
        layer("work")
    );
    let kind = Some("overlay");
    let flags = MsFlags::empty();
    mount(kind, folder.as_str(), kind, flags, Some(options.as_str()))
        .with_context(|| format!("mount overlay ({options}) on {folder}"))
}

/// Where stressors run, and who runs beside them.
struct Stage<'a> {
    task: &'a Task,
    group: PathBuf,
    crew: Crew,
}

impl Stage<'_> {
    fn run(&mut self, stressor: &Stressor) -> Result<Stressed> {
        let root = &self.task.root;
        let files = format!("{root}{FOLDER}/files");
        fs::create_dir_all(&files).with_context(|| files.clone())?;
        let _ = fs::remove_file(format!("{root}{METRICS}"));
        let mut child = self.command(stressor)?.spawn().context("stress-ng")?;
        let status = self.wait(&mut child)?;
        self.end_all(&self.group)?;
        let _ = child.wait();
        fs::remove_dir_all(&files).with_context(|| files.clone())?;
        let end = status.map_or(End::Killed, end_of);
        let metrics = fs::read_to_string(format!("{root}{METRICS}")).unwrap_or_default();
        Ok(Stressed {
            name: stressor.name.clone(),
            end,
            operations: operations(&metrics),
            said: match end {
                End::Exit(0) => String::new(),
                _ => last_words(&fs::read(OUTPUT).context(OUTPUT)?),
            },
        })
    }

    fn command(&self, stressor: &Stressor) -> Result<Command> {
        let Task {
            root,
            seconds,
            instances,
            seed,
            ..
        } = self.task;
        let Stressor { name, options } = stressor;
        let line = format!(
            "/usr/bin/stress-ng --{name} {instances} {options} --timeout {seconds}s --verify \
             --seed {seed} --oom-avoid --temp-path {FOLDER}/files --metrics --yaml {METRICS}"
        );
        let env = BTreeMap::from([("PATH".to_owned(), "/usr/bin".to_owned())]);
        let mut command = spawn::command(root, &line, &env)?;
        let output = File::create(OUTPUT).context(OUTPUT)?;
        command.stdout(output.try_clone()?).stderr(output);
        let procs = self.group.join("cgroup.procs");
        let procs = File::options()
            .write(true)
            .open(&procs)
            .context("a cgroup")?;
        // SAFETY: write is async-signal-safe.
        unsafe {
            command.pre_exec(move || {
                nix::unistd::write(&procs, b"0")
                    .map(drop)
                    .map_err(Into::into)
            });
        }
        Ok(command)
    }

    /// How it ended; nothing if it did not within its time.
    fn wait(&mut self, child: &mut Child) -> Result<Option<ExitStatus>> {
        let limit = Duration::from_secs(self.task.seconds.into()) + GRACE;
        let since = Instant::now();
        while since.elapsed() < limit {
            if let Some(status) = child.try_wait().context("waitpid")? {
                return Ok(Some(status));
            }
            self.crew.look()?;
            std::thread::sleep(LOOK);
        }
        Ok(None)
    }

    /// Ends the processes of a group.
    fn end_all(&self, group: &Path) -> Result<()> {
        let since = Instant::now();
        while cgroup::is_populated(group)? {
            cgroup::kill(group)?;
            if since.elapsed() > Duration::from_secs(self.task.hung_s.into()) {
                return Err(hang("SIGKILL does not end all processes".into()));
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }
}

fn end_of(status: ExitStatus) -> End {
    match (status.code(), status.signal()) {
        (Some(code), _) => End::Exit(code),
        (None, signal) => End::Signal(signal.unwrap_or_default()),
    }
}

/// Bogo operations of all stressors in what stress-ng writes as YAML.
fn operations(metrics: &str) -> u64 {
    let lines = metrics.lines();
    let values =
        lines.filter_map(|line| line.trim().strip_prefix("bogo-ops: ")?.parse::<u64>().ok());
    values.sum()
}

fn last_words(output: &[u8]) -> String {
    let last = &output[output.len().saturating_sub(LAST)..];
    String::from_utf8_lossy(last).trim().to_owned()
}

/// The guest's reclaim so far.
fn events() -> Result<BTreeMap<String, u64>> {
    let text = fs::read_to_string("/proc/vmstat").context("/proc/vmstat")?;
    let value = |wanted: &&str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(' '));
        let found = lines.find(|(name, _)| name == wanted);
        found.and_then(|(_, value)| value.parse::<u64>().ok())
    };
    let all = EVENTS.iter();
    Ok(all
        .map(|(name, lines)| ((*name).to_owned(), lines.iter().filter_map(value).sum()))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_of_what_stress_ng_writes() {
        let metrics = "---\nmetrics:\n    - stressor: mmap\n      bogo-ops: 12\n      \
                       bogo-ops-per-second-usr-sys-time: 3.5\n    - stressor: x\n      \
                       bogo-ops: 1\n";
        assert_eq!(operations(metrics), 13);
        assert_eq!(operations(""), 0);
    }

    #[test]
    fn how_a_process_ended_is_told() {
        let end = |line: &str| end_of(Command::new("sh").args(["-c", line]).status().unwrap());
        assert_eq!(end("exit 3"), End::Exit(3));
        assert_eq!(end("kill -9 $$"), End::Signal(9));
    }

    #[test]
    fn of_much_output_the_end_is_kept() {
        let output = "x".repeat(LAST) + "the end\n";
        let words = last_words(output.as_bytes());
        assert!(words.ends_with("xthe end") && words.len() < LAST, "{words}");
    }
}
