// SPDX-License-Identifier: GPL-2.0-only
//! Runs rows on this machine, as many at once as it holds.

use crate::attempt::{self, Outcome};
use crate::folder::{Folder, Planned};
use anyhow::Result;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use wideleaf_kit::events::{Event, Observer, Row};

/// What may be in use at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// So many rows.
    Rows(usize),
    /// As many rows as fit into so many CPUs and bytes of memory, but at least one.
    Machine {
        /// CPUs.
        cpus: usize,
        /// Bytes.
        memory: u64,
    },
}

impl Room {
    /// Whether `row` fits beside those that run.
    fn fits(self, row: &Planned, running: &[&Planned]) -> bool {
        match self {
            _ if running.is_empty() => true,
            _ if row.alone || running.iter().any(|row| row.alone) => false,
            Self::Rows(rows) => running.len() < rows,
            Self::Machine { cpus, memory } => {
                let all = || running.iter().copied().chain([row]);
                all().map(|row| row.cpus).sum::<usize>() <= cpus
                    && all().map(|row| row.memory).sum::<u64>() <= memory
            }
        }
    }
}

/// Runs `rows` by `program`, which is wideleaf, until all have ended or `stop` is set. A row that
/// fails does not keep the others from running.
///
/// # Errors
///
/// If results cannot be kept: then no further rows are begun, and those that run end first.
pub fn run(
    rows: &[&Planned],
    folder: &Folder,
    program: &Path,
    room: Room,
    stop: &AtomicBool,
    observer: &dyn Observer,
) -> Result<()> {
    let (ended, ends) = mpsc::channel();
    let mut left: Vec<&Planned> = rows.to_vec();
    let mut running: Vec<&Planned> = Vec::new();
    let mut error = None;
    std::thread::scope(|scope| {
        loop {
            let may_begin = error.is_none() && !stop.load(Ordering::SeqCst);
            let next = left.iter().position(|row| room.fits(row, &running));
            if let Some(next) = next.filter(|_| may_begin) {
                let row = left.remove(next);
                running.push(row);
                say(observer, row, Row::Began(""));
                let ended = ended.clone();
                scope.spawn(move || {
                    let outcome = attempt::attempt(folder, row, program, stop);
                    // It is received below, as long as a row runs.
                    let _ = ended.send((row, outcome));
                });
                continue;
            }
            if running.is_empty() {
                break;
            }
            let Ok((row, outcome)) = ends.recv() else {
                break;
            };
            running.retain(|other| other.key != row.key);
            match outcome {
                Ok(outcome) => say(observer, row, now(&outcome)),
                Err(why) => {
                    say(observer, row, Row::Left(&format!("{why:#}")));
                    error.get_or_insert(why);
                }
            }
        }
    });
    error.map_or(Ok(()), Err)
}

fn say(observer: &dyn Observer, row: &Planned, now: Row<'_>) {
    let row = &row.name;
    observer.event(Event::Row { row, now });
}

fn now(outcome: &Outcome) -> Row<'_> {
    match outcome {
        Outcome::Done => Row::Done,
        Outcome::Failed(reason) => Row::Failed(reason),
        Outcome::Busy => Row::Left("another command runs it"),
        Outcome::Stopped => Row::Left("stopped"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt::tests::played;
    use crate::folder::State;
    use crate::folder::tests::planned;
    use std::sync::Mutex;

    fn rows(names: &[&str], folder: &Folder) -> Vec<Planned> {
        let rows: Vec<_> = names.iter().map(|name| planned(name)).collect();
        rows.iter().for_each(|row| folder.plan(row).unwrap());
        rows
    }

    fn names(rows: &[Planned], folder: &Folder) -> Vec<&'static str> {
        let state = |row| folder.state(row, &|_| Ok(())).unwrap().name();
        rows.iter().map(state).collect()
    }

    fn one_by_one(
        rows: &[Planned],
        folder: &Folder,
        program: &Path,
        stopped: bool,
        observer: &dyn Observer,
    ) -> Result<()> {
        let (all, stop) = (rows.iter().collect::<Vec<_>>(), AtomicBool::new(stopped));
        run(&all, folder, program, Room::Rows(1), &stop, observer)
    }

    #[test]
    fn a_failure_keeps_no_other_row_from_running() {
        let (_dir, folder, program) = played("[ \"$4\" != b ] || exit 1; echo '{}' > \"$RESULTS\"");
        let rows = rows(&["a", "b", "c"], &folder);
        let seen = Mutex::new(Vec::new());
        let observer = |event: Event<'_>| {
            if let Event::Row {
                row,
                now: Row::Done | Row::Failed(_),
            } = event
            {
                seen.lock().unwrap().push(row.to_string());
            }
        };
        one_by_one(&rows, &folder, &program, false, &observer).unwrap();
        assert_eq!(names(&rows, &folder), ["done", "failed", "done"]);
        assert_eq!(*seen.lock().unwrap(), ["a", "b", "c"]);
    }

    #[test]
    fn a_folder_that_cannot_be_written_stops_the_matrix_and_loses_nothing() {
        let (_dir, folder, program) = played("echo '{}' > \"$RESULTS\"");
        let rows = rows(&["a", "b", "c"], &folder);
        // A file in the place of the row's own folder stands for a full disk.
        std::fs::remove_dir_all(folder.row(&rows[1].key)).unwrap();
        std::fs::write(folder.row(&rows[1].key), "").unwrap();
        assert!(one_by_one(&rows, &folder, &program, false, &|_: Event<'_>| ()).is_err());
        std::fs::remove_file(folder.row(&rows[1].key)).unwrap();
        assert_eq!(names(&rows, &folder), ["done", "to do", "to do"]);
    }

    #[test]
    fn as_many_run_as_fit() {
        let (a, b) = (planned("a"), planned("b"));
        let wide = Planned {
            cpus: 8,
            ..planned("wide")
        };
        let machine = |cpus, memory| Room::Machine { cpus, memory };
        assert!(machine(2, 2 << 20).fits(&b, &[&a]));
        assert!(!machine(1, 2 << 20).fits(&b, &[&a]));
        assert!(!machine(2, 1 << 20).fits(&b, &[&a]));
        assert!(machine(2, 1).fits(&wide, &[]), "a row that nothing holds");
        assert!(!machine(2, 1 << 30).fits(&wide, &[&a]));
        assert!(Room::Rows(2).fits(&wide, &[&a]));
        let alone = Planned {
            alone: true,
            ..planned("alone")
        };
        assert!(machine(8, 1 << 30).fits(&alone, &[]));
        assert!(!machine(8, 1 << 30).fits(&alone, &[&a]));
        assert!(!machine(8, 1 << 30).fits(&a, &[&alone]));
        assert!(!Room::Rows(2).fits(&wide, &[&a, &b]));
    }

    #[test]
    fn nothing_is_begun_once_it_is_stopped() {
        let (_dir, folder, program) = played("echo '{}' > \"$RESULTS\"");
        let rows = rows(&["a"], &folder);
        assert_eq!(names(&rows, &folder), ["to do"]);
        one_by_one(&rows, &folder, &program, true, &|_: Event<'_>| ()).unwrap();
        assert_eq!(folder.state(&rows[0], &|_| Ok(())).unwrap(), State::ToDo);
    }
}
