// SPDX-License-Identifier: GPL-2.0-only
//! The file that is remembered in: small, bounded, replaced in one step. Writers take turns by a
//! lock beside it; readers need none.

use crate::{Error, Program};
use nix::fcntl::{Flock, FlockArg};
use nix::unistd::geteuid;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use wideleaf_kit::fresh::Fresh;

/// As many programs are remembered; the one that was learned first goes first.
const PROGRAMS: usize = 256;
/// As many libraries of each.
const LIBRARIES: usize = 64;
/// A larger file is none of ours.
const LARGEST: u64 = 4 << 20;
const SCHEMA: &str = "wideleaf-loads-1";
const NAME: &str = "wideleaf/loads.json";

/// The knowledge about a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Known {
    /// No run of it was watched.
    Nothing,
    /// Libraries that it has loaded, in order of their paths; there may be none.
    Libraries(Vec<PathBuf>),
}

/// The file.
#[derive(Clone, Debug)]
pub struct Memory {
    path: PathBuf,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Content {
    schema: String,
    /// Those that were learned last come last.
    programs: Vec<Entry>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    id: String,
    /// For a reader of the file.
    path: String,
    libraries: Vec<String>,
}

impl Memory {
    /// This user's: `$XDG_STATE_HOME/wideleaf/loads.json`, else below `$HOME/.local/state`.
    ///
    /// # Errors
    ///
    /// If neither variable is an absolute path.
    pub fn of_user() -> Result<Self, Error> {
        Self::of(|name| std::env::var_os(name))
    }

    fn of(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, Error> {
        let absolute = |name| {
            let path = variable(name).map(PathBuf::from);
            path.filter(|path| path.is_absolute())
        };
        let folder = absolute("XDG_STATE_HOME")
            .or_else(|| absolute("HOME").map(|home| home.join(".local/state")))
            .ok_or(Error::NoFolder)?;
        Ok(Self::at(folder.join(NAME)))
    }

    /// In this file.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Tells the libraries of a program. Libraries that are gone are left out.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or makes no sense.
    pub fn known(&self, program: &Program) -> Result<Known, Error> {
        let mut entries = self.read()?.programs.into_iter();
        let found = entries.find(|known| known.id == program.id);
        Ok(found.map_or(Known::Nothing, |known| {
            let paths = known.libraries.into_iter().map(PathBuf::from);
            Known::Libraries(paths.filter(|p| p.is_absolute() && p.exists()).collect())
        }))
    }

    /// Adds libraries to those that are known of a program.
    ///
    /// # Errors
    ///
    /// If the file cannot be replaced, which then is as before.
    pub fn remember<'p>(
        &self,
        program: &Program,
        libraries: impl IntoIterator<Item = &'p Path>,
    ) -> Result<(), Error> {
        let failed = |error| self.failed(error);
        let folder = wideleaf_kit::fresh::folder(&self.path);
        std::fs::create_dir_all(&folder).map_err(failed)?;
        let _turn = self.turn().map_err(failed)?;
        let mut content = match self.read() {
            // Nothing of it can be kept.
            Err(Error::Garbage { .. }) => Content::default(),
            read => read?,
        };
        content.learn(program, libraries);
        let bytes = serde_json::to_vec_pretty(&content).map_err(|e| failed(e.into()))?;
        let fresh = Fresh::beside(&self.path).map_err(failed)?;
        fresh.file().write_all(&bytes).map_err(failed)?;
        fresh.replace(&self.path).map_err(|not| failed(not.error))
    }

    fn failed(&self, error: io::Error) -> Error {
        Error::Io {
            path: self.path.clone(),
            error,
        }
    }

    /// Waits until no other process writes; the kernel ends the turn with the process.
    fn turn(&self) -> io::Result<Flock<File>> {
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(false);
        let file = options.mode(0o600).open(self.path.with_extension("lock"))?;
        Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, errno)| errno.into())
    }

    fn read(&self) -> Result<Content, Error> {
        let mut options = OpenOptions::new();
        // Not to wait for a pipe of that name.
        let options = options.read(true).custom_flags(libc::O_NONBLOCK);
        let file = match options.open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Content::default()),
            file => file.map_err(|error| self.failed(error))?,
        };
        let garbage = |why: String| Error::Garbage {
            path: self.path.clone(),
            why,
        };
        let metadata = file.metadata().map_err(|error| self.failed(error))?;
        if !metadata.is_file() {
            return Err(garbage("is no regular file".into()));
        }
        // It names files that root would copy.
        if metadata.uid() != geteuid().as_raw() {
            let (owner, user) = (metadata.uid(), geteuid());
            return Err(garbage(format!("belongs to user {owner}, not to {user}")));
        }
        let mut bytes = Vec::new();
        let read = file.take(LARGEST + 1).read_to_end(&mut bytes);
        read.map_err(|error| self.failed(error))?;
        if bytes.len() as u64 > LARGEST {
            return Err(garbage(format!("has more than {LARGEST} bytes")));
        }
        let content: Content =
            serde_json::from_slice(&bytes).map_err(|error| garbage(error.to_string()))?;
        match content.schema == SCHEMA {
            true => Ok(content),
            false => Err(garbage(format!(
                "has schema {:?}, must be {SCHEMA:?}",
                content.schema
            ))),
        }
    }
}

impl Content {
    fn learn<'p>(&mut self, program: &Program, libraries: impl IntoIterator<Item = &'p Path>) {
        self.schema = SCHEMA.to_owned();
        let at = self
            .programs
            .iter()
            .position(|known| known.id == program.id);
        let old = at.map(|at| self.programs.remove(at));
        let mut all = old.map_or(Vec::new(), |known| known.libraries);
        // JSON has no place for a path that is no text.
        let new = libraries.into_iter().filter_map(Path::to_str);
        all.extend(new.map(str::to_owned));
        all.sort();
        all.dedup();
        all.truncate(LIBRARIES);
        self.programs.push(Entry {
            id: program.id.clone(),
            path: program.path.display().to_string(),
            libraries: all,
        });
        let surplus = self.programs.len().saturating_sub(PROGRAMS);
        self.programs.drain(..surplus);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    struct Place(tempfile::TempDir);

    impl Place {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn memory(&self) -> Memory {
            Memory::at(self.0.path().join("state/loads.json"))
        }

        fn file(&self, name: &str) -> PathBuf {
            let path = self.0.path().join(name);
            fs::write(&path, name).unwrap();
            path
        }

        fn program(&self, name: &str) -> Program {
            Program::read(&self.file(name)).unwrap()
        }
    }

    fn libraries(memory: &Memory, program: &Program) -> Vec<PathBuf> {
        match memory.known(program).unwrap() {
            Known::Libraries(libraries) => libraries,
            Known::Nothing => panic!("nothing is known of {program:?}"),
        }
    }

    #[test]
    fn libraries_of_a_program_are_known_once_they_were_remembered() {
        let place = Place::new();
        let (memory, program) = (place.memory(), place.program("program"));
        let (a, b) = (place.file("a.so"), place.file("b.so"));
        assert_eq!(memory.known(&program).unwrap(), Known::Nothing);
        memory.remember(&program, []).unwrap();
        assert!(libraries(&memory, &program).is_empty());
        memory.remember(&program, [b.as_path()]).unwrap();
        memory.remember(&program, [a.as_path(), &b]).unwrap();
        assert_eq!(libraries(&memory, &program), [a.clone(), b.clone()]);
        fs::remove_file(&a).unwrap();
        assert_eq!(libraries(&memory, &program), [b], "one that is gone");
        let another = place.program("another program");
        assert_eq!(memory.known(&another).unwrap(), Known::Nothing);
    }

    #[test]
    fn the_file_is_bounded_and_forgets_what_was_learned_first() {
        let mut content = Content::default();
        let program = |number: usize| Program {
            path: "/p".into(),
            id: number.to_string(),
        };
        let many: Vec<PathBuf> = (0..100).map(|n| format!("/l/{n:03}.so").into()).collect();
        for number in 0..PROGRAMS + 2 {
            let paths = many.iter().map(PathBuf::as_path);
            content.learn(&program(number), paths);
        }
        // Learned again, it is the last.
        content.learn(&program(2), []);
        let ids: Vec<&str> = content.programs.iter().map(|p| p.id.as_str()).collect();
        assert_eq!((ids.len(), ids[0], ids[PROGRAMS - 1]), (PROGRAMS, "3", "2"));
        assert!(
            content
                .programs
                .iter()
                .all(|p| p.libraries.len() == LIBRARIES)
        );
        let longest = serde_json::to_vec_pretty(&content).unwrap();
        assert!((longest.len() as u64) < LARGEST);
    }

    #[test]
    fn garbage_is_said_to_be_so_and_replaced() {
        let place = Place::new();
        let (memory, program, library) = (place.memory(), place.program("p"), place.file("l.so"));
        memory.remember(&program, []).unwrap();
        let whole = fs::read(&memory.path).unwrap();
        let huge = vec![b' '; LARGEST as usize + 1];
        let newer = br#"{"schema": "wideleaf-loads-9", "programs": []}"#;
        for garbage in [
            &whole[..whole.len() / 2],
            &huge[..],
            &newer[..],
            b"",
            b"\xff",
        ] {
            fs::write(&memory.path, garbage).unwrap();
            let error = memory.known(&program).unwrap_err();
            assert!(matches!(error, Error::Garbage { .. }), "{error}");
            assert!(error.to_string().contains("loads.json: "), "{error}");
            memory.remember(&program, [library.as_path()]).unwrap();
            assert_eq!(libraries(&memory, &program), std::slice::from_ref(&library));
        }
        fs::remove_file(&memory.path).unwrap();
        fs::create_dir(&memory.path).unwrap();
        let error = memory.known(&program).unwrap_err();
        assert!(error.to_string().contains("no regular file"), "{error}");
        assert!(memory.remember(&program, []).is_err());
    }

    #[test]
    fn of_two_that_write_at_once_neither_is_lost_and_nothing_is_left() {
        let place = Place::new();
        let memory = place.memory();
        // Of different sizes, by which they are told.
        let names = (1..9).map(|size| "p".repeat(size));
        let programs: Vec<Program> = names.map(|name| place.program(&name)).collect();
        std::thread::scope(|scope| {
            for program in &programs {
                let memory = &memory;
                scope.spawn(move || {
                    for _ in 0..5 {
                        memory.remember(program, [program.path.as_path()]).unwrap();
                    }
                });
            }
        });
        for program in &programs {
            assert_eq!(
                libraries(&memory, program),
                std::slice::from_ref(&program.path)
            );
        }
        let folder = fs::read_dir(memory.path.parent().unwrap()).unwrap();
        let mut names: Vec<_> = folder.map(|e| e.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["loads.json", "loads.lock"]);
    }

    #[test]
    fn the_folder_is_that_of_the_user() {
        let of = |variables: &[(&str, &str)]| {
            let find = |name: &str| variables.iter().find(|v| v.0 == name);
            Memory::of(|name| find(name).map(|v| v.1.into())).map(|m| m.path)
        };
        let home = ("HOME", "/home/a");
        let below_home = Path::new("/home/a/.local/state/wideleaf/loads.json");
        assert_eq!(of(&[home]).unwrap(), below_home);
        assert_eq!(of(&[home, ("XDG_STATE_HOME", "odd")]).unwrap(), below_home);
        let state = of(&[home, ("XDG_STATE_HOME", "/s")]).unwrap();
        assert_eq!(state, Path::new("/s/wideleaf/loads.json"));
        assert!(of(&[]).unwrap_err().to_string().contains("XDG_STATE_HOME"));
    }
}
