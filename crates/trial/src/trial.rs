// SPDX-License-Identifier: GPL-2.0-only
//! The turns: A B B A, so that what changes with time changes both sides alike.

use crate::coverage::{Seen, Watcher};
use crate::measure::{Ended, Run, run};
use crate::request::Request;
use crate::side::{Cache, Way, refusal, words};
use std::ffi::OsStr;
use std::io;
use std::path::PathBuf;

/// One side.
#[derive(Clone, Debug)]
pub struct Side {
    /// `plain`, or a means of `wideleaf run`.
    pub name: &'static str,
    /// The leaves of its text, looked at in a run that is not counted.
    pub seen: Seen,
    /// Its runs, in order.
    pub runs: Vec<Run>,
}

/// The outcome.
#[derive(Clone, Debug)]
pub struct Trial {
    /// The plain side, and one for each means that works.
    pub sides: Vec<Side>,
    /// Means that did nothing, and why.
    pub refused: Vec<(&'static str, String)>,
}

/// Why there is nothing to compare.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The command cannot be started.
    #[error("{}: {error}", command.display())]
    Start {
        /// Which.
        command: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// A run did not end well.
    #[error(
        "{}, {way}: {ended}{}: a run that fails says nothing about speed; with --ignore-failure it counts",
        command.display(),
        said(words)
    )]
    Failed {
        /// The command.
        command: PathBuf,
        /// Which side.
        way: &'static str,
        /// How it ended.
        ended: Ended,
        /// Its last words.
        words: String,
    },
    /// The page cache cannot be made what a side needs.
    #[error("page cache: {0}")]
    Cache(#[from] wideleaf_fill::Error),
    /// No temporary file.
    #[error("temporary file: {0}")]
    Temporary(io::Error),
}

fn said(words: &str) -> String {
    match words.trim().lines().last() {
        Some(last) => format!(" ({last})"),
        None => String::new(),
    }
}

/// Runs all of it; `step` hears what is done, before it is.
///
/// # Errors
///
/// If a command cannot be run, or fails.
pub fn trial(request: &Request, step: &mut dyn FnMut(&str, u32)) -> Result<Trial, Error> {
    let mut cache = Cache::new(request)?;
    let mut ways = vec![Way::Plain];
    ways.extend(request.means.iter().map(|means| Way::By(*means)));
    let mut trial = Trial {
        sides: Vec::new(),
        refused: Vec::new(),
    };
    let mut taken = Vec::new();
    for way in ways {
        step(way.name(), 0);
        enter(way, request, &mut cache)?;
        match first(way, request)? {
            Ok(seen) => {
                cache.changed |= way.changes_the_cache();
                taken.push(way);
                trial.sides.push(Side {
                    name: way.name(),
                    seen,
                    runs: Vec::new(),
                });
            }
            Err(why) => trial.refused.push((way.name(), why)),
        }
    }
    if taken.len() < 2 {
        return Ok(trial);
    }
    for round in 0..request.runs {
        let mut turns: Vec<usize> = (0..taken.len()).collect();
        if round % 2 == 1 {
            turns.reverse();
        }
        for turn in turns {
            step(taken[turn].name(), round + 1);
            enter(taken[turn], request, &mut cache)?;
            let run = counted(taken[turn], request)?;
            trial.sides[turn].runs.push(run);
        }
    }
    Ok(trial)
}

/// Makes the page cache what a side finds when it is used all day.
fn enter(way: Way, request: &Request, cache: &mut Cache) -> Result<(), Error> {
    match way {
        Way::Plain if request.base_pages => cache.narrow()?,
        Way::Plain if cache.changed => {
            cache.forget()?;
            counted(Way::Plain, request)?;
        }
        // What fills the page cache pays once for all starts.
        by if by.changes_the_cache() && !cache.changed => {
            counted(by, request)?;
        }
        _ => return Ok(()),
    }
    cache.changed = way.changes_the_cache();
    Ok(())
}

/// A run that is looked at and not counted; why its means did nothing, if so.
fn first(way: Way, request: &Request) -> Result<Result<Seen, String>, Error> {
    let said = tempfile::tempfile().map_err(Error::Temporary)?;
    let mut watcher = Watcher::new(request.starter);
    let start = |error| start(request, error);
    let mut command = way.command(request, Some(&said)).map_err(start)?;
    let mut look = |pid| watcher.look(pid);
    let (_, ended) = run(&mut command, Some(&mut look)).map_err(start)?;
    let words = words(&said);
    if let Some(why) = refusal(&words).filter(|_| way != Way::Plain) {
        return Ok(Err(why));
    }
    well(way, request, ended, words)?;
    Ok(Ok(watcher.seen))
}

fn counted(way: Way, request: &Request) -> Result<Run, Error> {
    let start = |error| start(request, error);
    let mut command = way.command(request, None).map_err(start)?;
    let (run, ended) = run(&mut command, None).map_err(start)?;
    well(way, request, ended, String::new())?;
    Ok(run)
}

fn start(request: &Request, error: io::Error) -> Error {
    Error::Start {
        command: PathBuf::from(name(request)),
        error,
    }
}

fn name<'a>(request: &Request<'a>) -> &'a OsStr {
    &request.command[0]
}

fn well(way: Way, request: &Request, ended: Ended, words: String) -> Result<(), Error> {
    match ended.success() || request.failing {
        true => Ok(()),
        false => Err(Error::Failed {
            command: PathBuf::from(name(request)),
            way: way.name(),
            ended,
            words,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;
    use std::path::Path;
    use wideleaf_kit::script::script;
    use wideleaf_run::Means;

    fn try_it(command: &[&str], starter: &Path, failing: bool) -> Result<Trial, Error> {
        let command: Vec<OsString> = command.iter().map(OsString::from).collect();
        let request = Request {
            command: &command,
            with: &[],
            libs: false,
            means: &[Means::Fill],
            runs: 3,
            base_pages: false,
            reclaim: false,
            failing,
            starter,
        };
        let mut steps = Vec::new();
        let trial = trial(&request, &mut |way, round| {
            steps.push((way.to_owned(), round))
        });
        if trial.is_ok() {
            let order: Vec<&str> = steps.iter().map(|(way, _)| way.as_str()).collect();
            assert!(order.starts_with(&["plain", "fill"]));
        }
        trial
    }

    /// Stands in for the command `run`.
    fn starter(says: &str) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("starter");
        let text = format!(
            "#!/bin/sh\necho '{says}' >&2\nwhile [ \"$1\" != -- ]; do shift; done\nshift\nexec \"$@\"\n"
        );
        script(&path, &text);
        (folder, path)
    }

    #[test]
    fn both_sides_have_all_runs() {
        let (_folder, path) = starter("wideleaf: run: sh: its own folios");
        let trial = try_it(&["sh", "-c", ":"], &path, false).unwrap();
        let runs: Vec<_> = trial.sides.iter().map(|s| (s.name, s.runs.len())).collect();
        assert_eq!(runs, [("plain", 3), ("fill", 3)]);
    }

    #[test]
    fn a_means_that_does_nothing_is_no_side_and_says_why() {
        let (_folder, path) = starter("wideleaf: run: sh: its text is small; it runs as it is");
        let trial = try_it(&["sh", "-c", ":"], &path, false).unwrap();
        assert_eq!(trial.sides.len(), 1);
        assert_eq!(
            trial.refused,
            [("fill", "sh: its text is small".to_owned())]
        );
    }

    #[test]
    fn a_command_that_fails_ends_the_trial_with_its_words() {
        let (_folder, path) = starter("x");
        let command = ["sh", "-c", "echo no such wheel >&2; exit 3"];
        let error = try_it(&command, &path, false).unwrap_err().to_string();
        assert!(
            error.contains("no such wheel") && error.contains("3"),
            "{error}"
        );
        assert!(try_it(&command, &path, true).is_ok());
        let error = try_it(&["/no/such"], &path, false).unwrap_err();
        assert!(matches!(error, Error::Start { .. }), "{error}");
    }
}
