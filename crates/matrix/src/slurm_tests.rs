// SPDX-License-Identifier: GPL-2.0-only
//! A Slurm of shell scripts; the real one is tried by `scripts/test-slurm`.

use super::*;
use crate::attempt::tests::played;
use crate::folder::tests::planned;
use std::fs;
use std::sync::Mutex;
use wideleaf_kit::script::script;

/// Slurm's commands in a folder; they keep what they were told in it.
struct Cluster {
    dir: tempfile::TempDir,
    folder: Folder,
    stop: AtomicBool,
    said: Mutex<Vec<String>>,
}

impl Cluster {
    fn new(squeue: &str, sbatch: &str) -> Self {
        let (dir, folder, _) = played("");
        let cluster = Self {
            dir,
            folder,
            stop: AtomicBool::new(false),
            said: Mutex::new(Vec::new()),
        };
        cluster.command("squeue", squeue);
        cluster.command("sbatch", sbatch);
        cluster.command(
            "scontrol",
            "case $2 in config) echo 'MaxArraySize   = 2';; \
             *) echo \"JobId=1 JobState=$(cat \"$DIR\"/fate) NodeList=n2\";; esac",
        );
        cluster
    }

    fn command(&self, name: &str, commands: &str) {
        let path = self.dir.path().join(name);
        let text = format!("#!/bin/sh\nDIR={}\n{commands}\n", self.dir.path().display());
        script(&path, &text);
    }

    fn put(&self, name: &str, text: &str) {
        fs::write(self.dir.path().join(name), text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.dir.path().join(name)).unwrap_or_default()
    }

    fn rows(&self, names: &[&str]) -> Vec<Planned> {
        let rows: Vec<_> = names.iter().map(|name| planned(name)).collect();
        rows.iter().for_each(|row| self.folder.plan(row).unwrap());
        rows
    }

    fn with<T>(&self, work: impl FnOnce(&Slurm<'_>) -> T) -> T {
        let observer = |event: Event<'_>| {
            let said = match event {
                Event::Row { row, now } => match now {
                    Row::Began(place) => format!("{row} runs on {place}"),
                    Row::Done => format!("{row} done"),
                    Row::Failed(reason) => format!("{row} failed: {reason}"),
                    Row::Left(reason) => format!("{row} left: {reason}"),
                },
                Event::Note(text) => text.to_string(),
                other => panic!("{other:?}"),
            };
            self.said.lock().unwrap().push(said);
        };
        work(&Slurm {
            folder: &self.folder,
            program: Path::new("/opt/wide leaf/wideleaf"),
            environment: vec![("XDG_CACHE_HOME".into(), "/shared/c".into())],
            options: vec!["--partition=short".into()],
            at_once: Some(2),
            poll: Duration::from_millis(1),
            patience: Duration::from_millis(50),
            bin: self.dir.path().into(),
            stop: &self.stop,
            observer: &observer,
            readable: &|_| Ok(()),
        })
    }

    fn said(&self) -> String {
        self.said.lock().unwrap().join("\n")
    }
}

/// Gives job numbers from 1, and keeps what it was told.
const SBATCH: &str = "echo \"$@\" >> \"$DIR\"/told; n=$(($(cat \"$DIR\"/n 2>/dev/null) + 1)); \
                      echo $n | tee \"$DIR\"/n";

fn state(cluster: &Cluster, row: &Planned) -> State {
    cluster.folder.state(row, &|_| Ok(())).unwrap()
}

#[test]
fn rows_go_out_as_arrays_no_longer_than_the_cluster_takes() {
    let cluster = Cluster::new("true", SBATCH);
    let rows = cluster.rows(&["a", "b", "c"]);
    cluster.with(|slurm| slurm.submit(&rows.iter().collect::<Vec<_>>()).unwrap());
    let told = cluster.read("told");
    assert_eq!(told.lines().count(), 2, "{told}");
    for word in [
        "--array=0-1%2",
        "--partition=short",
        "--mem=1M",
        "--cpus-per-task=1",
    ] {
        assert!(told.contains(word), "no {word} in {told}");
    }
    let job = |job: &str| State::Queued { job: job.into() };
    assert_eq!(state(&cluster, &rows[1]), job("1_1"));
    assert_eq!(state(&cluster, &rows[2]), job("2_0"));
    let script = told.split_whitespace().last().unwrap();
    let script = fs::read_to_string(script).unwrap();
    assert!(
        script.contains("export XDG_CACHE_HOME=/shared/c"),
        "{script}"
    );
    assert!(
        script.contains("exec '/opt/wide leaf/wideleaf' lab matrix-row"),
        "{script}"
    );
}

#[test]
fn without_slurm_nothing_is_begun() {
    let cluster = Cluster::new("echo 'cannot contact controller' >&2; exit 1", SBATCH);
    let error = cluster.with(|slurm| format!("{:#}", slurm.require().unwrap_err()));
    assert!(error.contains("nothing is submitted"), "{error}");
    assert!(error.contains("cannot contact controller"), "{error}");
    fs::remove_file(cluster.dir.path().join("sbatch")).unwrap();
    let error = cluster.with(|slurm| slurm.require().unwrap_err().to_string());
    assert!(error.contains("sbatch is not in PATH"), "{error}");
}

#[test]
fn a_refused_array_is_told_and_leaves_its_rows_to_do() {
    let cluster = Cluster::new("true", "echo 'error: invalid partition: moon' >&2; exit 1");
    let rows = cluster.rows(&["a"]);
    let error = cluster.with(|slurm| slurm.submit(&[&rows[0]]).unwrap_err().to_string());
    assert!(error.contains("invalid partition: moon"), "{error}");
    assert_eq!(state(&cluster, &rows[0]), State::ToDo);
}

#[test]
fn a_row_is_waited_for_until_the_folder_has_its_end() {
    // The row ends while Slurm says for the third time that it runs.
    let squeue = "echo x >> \"$DIR\"/asked; echo '1_0 RUNNING n1'; \
                  [ $(wc -l < \"$DIR\"/asked) -lt 3 ] || \
                  echo '{\"reason\": \"it rained\", \"node\": \"n1\"}' > \"$ROW\"/failed.json";
    let cluster = Cluster::new("", SBATCH);
    let rows = cluster.rows(&["a"]);
    let row = cluster.folder.row(&rows[0].key);
    cluster.command("squeue", &squeue.replace("$ROW", row.to_str().unwrap()));
    cluster.with(|slurm| {
        slurm.submit(&[&rows[0]]).unwrap();
        slurm.wait(&[&rows[0]]).unwrap();
    });
    assert_eq!(cluster.said(), "a runs on n1\na failed: it rained");
}

#[test]
fn what_slurm_has_is_known_to_the_next_command_though_it_runs() {
    let cluster = Cluster::new("echo '1_0 RUNNING n1'", SBATCH);
    let rows = cluster.rows(&["a", "b"]);
    cluster.with(|slurm| slurm.submit(&[&rows[0]]).unwrap());
    let _lock = cluster.folder.lock(&rows[0].key).unwrap();
    assert_eq!(state(&cluster, &rows[0]), State::Running);
    let queued = cluster.with(|slurm| slurm.queued(&[&rows[0], &rows[1]]).unwrap());
    assert_eq!(
        queued.into_iter().collect::<Vec<_>>(),
        [rows[0].key.clone()]
    );
}

#[test]
fn a_lost_row_is_submitted_again_but_not_for_ever() {
    let cluster = Cluster::new("true", SBATCH);
    cluster.put("fate", "NODE_FAIL");
    let rows = cluster.rows(&["a"]);
    cluster.with(|slurm| {
        slurm.submit(&[&rows[0]]).unwrap();
        slurm.wait(&[&rows[0]]).unwrap();
    });
    assert_eq!(cluster.read("n").trim(), (1 + AGAIN).to_string());
    let said = cluster.said();
    assert!(
        said.contains("job 1_0 was lost on n2 (NODE_FAIL): submitting it again"),
        "{said}"
    );
    assert!(
        said.contains("a left: Slurm's job 4_0 ended on n2 without results"),
        "{said}"
    );
    assert_eq!(state(&cluster, &rows[0]), State::ToDo);
}

#[test]
fn a_row_that_slurm_ended_for_its_own_sake_has_failed() {
    let cluster = Cluster::new("true", SBATCH);
    cluster.put("fate", "TIMEOUT");
    let rows = cluster.rows(&["a"]);
    cluster.with(|slurm| {
        slurm.submit(&[&rows[0]]).unwrap();
        slurm.wait(&[&rows[0]]).unwrap();
    });
    let reason = "Slurm ended job 1_0 on n2: TIMEOUT".to_string();
    assert_eq!(state(&cluster, &rows[0]), State::Failed { reason });
}

#[test]
fn a_controller_that_stays_away_is_given_up_and_the_rows_stay_queued() {
    let cluster = Cluster::new("true", SBATCH);
    let rows = cluster.rows(&["a"]);
    cluster.with(|slurm| slurm.submit(&[&rows[0]]).unwrap());
    cluster.command("squeue", "echo gone >&2; exit 1");
    let error = cluster.with(|slurm| slurm.wait(&[&rows[0]]).unwrap_err().to_string());
    assert!(error.contains("the same command goes on"), "{error}");
    assert!(
        cluster.said().contains("does not answer"),
        "{}",
        cluster.said()
    );
    let job = "1_0".to_string();
    assert_eq!(state(&cluster, &rows[0]), State::Queued { job });
}
