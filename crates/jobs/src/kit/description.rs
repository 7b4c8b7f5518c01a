// SPDX-License-Identifier: GPL-2.0-only
//! A program as a TOML file describes it: `docs/jobs/program.md` is its manual.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use wideleaf_guest::kit::program::Program;
use wideleaf_kbuild::Arch;
use wideleaf_kit::size;
use wideleaf_lab::disk::Contents;
use wideleaf_lab::disk::image::Room;
use wideleaf_lab::disk::installed::Install;
use wideleaf_lab::plan::MEMORY;

/// Seconds that a program may take unless its description says more.
pub const SECONDS: u32 = 600;

/// Files that fit a disk to which a program may write.
const FILES: u64 = 1000;

/// A program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// Its name: that of the file, without `.toml`.
    pub name: String,
    /// One line about it.
    pub about: String,
    /// The contents of its disk.
    pub disk: Contents,
    /// Where it runs.
    pub architectures: Vec<Arch>,
    /// Guest memory in bytes.
    pub memory: u64,
    /// Seconds that a guest may take for its three runs.
    pub seconds: u32,
    /// Fragments of `kernel/config` that it needs besides the usual.
    pub kernel: Vec<String>,
    /// The part that the guest is told.
    pub program: Program,
}

/// The file, as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    about: String,
    #[serde(default)]
    disk: Disk,
    #[serde(default)]
    packages: Vec<String>,
    #[serde(default)]
    without: Vec<String>,
    architectures: Option<Vec<String>>,
    memory: Option<String>,
    room: Option<String>,
    seconds: Option<u32>,
    #[serde(default)]
    kernel: Vec<String>,
    #[serde(default)]
    user: u32,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    prepare: Vec<String>,
    commands: Vec<String>,
    #[serde(default)]
    ignore: Vec<String>,
    #[serde(default)]
    expect: Vec<String>,
    #[serde(default)]
    files: BTreeMap<String, String>,
}

/// Which disk.
#[derive(Clone, Copy, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Disk {
    /// One of its own.
    #[default]
    Own,
    /// The lab's small user land.
    Userland,
}

impl Description {
    /// The program `name` as `text`, which `file` holds, describes it.
    ///
    /// # Errors
    ///
    /// The file, the line where TOML has one, and what would be right.
    pub fn parse(file: &str, name: &str, text: &str) -> Result<Self, String> {
        let written: Written = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let line = text[..at].matches('\n').count() + 1;
            format!("{file}:{line}: {}", error.message())
        })?;
        written.check(name).map_err(|why| format!("{file}: {why}"))
    }

    /// The program of a user's own file.
    ///
    /// # Errors
    ///
    /// As [`Self::parse`], or if the file cannot be read.
    pub fn read(path: &Path) -> Result<Self, String> {
        let file = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| format!("{file}: {error}"))?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        Self::parse(&file, &name, &text)
    }

    /// Whether it is on the disk that several programs share.
    pub fn shares_its_disk(&self) -> bool {
        self.disk == Contents::Userland
    }
}

impl Written {
    fn check(self, name: &str) -> Result<Description, String> {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if name.is_empty() || !name.chars().all(plain) {
            return Err(format!(
                "'{name}' is no name of a program: call the file by small letters, digits and '-'"
            ));
        }
        Ok(Description {
            name: name.into(),
            disk: self.contents()?,
            architectures: self.machines()?,
            memory: self.guest_memory()?,
            seconds: match self.seconds {
                Some(0) => return Err("seconds: 0 is no time".into()),
                seconds => seconds.unwrap_or(SECONDS),
            },
            program: Program {
                name: name.into(),
                prepare: words("prepare", &self.prepare)?,
                commands: match self.commands.is_empty() {
                    true => return Err("commands: name one at least".into()),
                    false => words("commands", &self.commands)?,
                },
                env: self.env,
                user: self.user,
                ignore: filled("ignore", self.ignore)?,
                expect: filled("expect", self.expect)?,
            },
            about: self.about,
            kernel: self.kernel,
        })
    }

    fn contents(&self) -> Result<Contents, String> {
        let own = [
            ("packages", self.packages.is_empty()),
            ("without", self.without.is_empty()),
            ("files", self.files.is_empty()),
            ("room", self.room.is_none()),
        ];
        if self.disk == Disk::Userland {
            return match own.iter().find(|(_, empty)| !empty) {
                Some((key, _)) => Err(format!("{key}: the disk 'userland' has what it has")),
                None => Ok(Contents::Userland),
            };
        }
        if self.packages.is_empty() {
            return Err("packages: name one at least".into());
        }
        let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "+-.".contains(c);
        for package in &self.packages {
            if !package.starts_with(|c: char| c.is_ascii_alphanumeric())
                || !package.chars().all(good)
            {
                return Err(format!("packages: '{package}' is no name of a package"));
            }
        }
        for name in self.files.keys() {
            if name.is_empty() || name.starts_with('.') || name.contains(['/', ' ']) {
                return Err(format!("files: '{name}' is no name of a file in /wideleaf"));
            }
        }
        for path in &self.without {
            let inside = Path::new(path).components();
            let mut inside = inside.map(|part| matches!(part, std::path::Component::Normal(_)));
            if path.is_empty() || !inside.all(|inside| inside) {
                return Err(format!(
                    "without: '{path}': write a path like usr/share/icons"
                ));
            }
        }
        Ok(Contents::Installed(Install {
            packages: self.packages.clone(),
            programs: Vec::new(),
            files: self.files.clone(),
            without: self.without.clone(),
            room: self.room()?,
        }))
    }

    fn room(&self) -> Result<Room, String> {
        let Some(text) = &self.room else {
            return Ok(Room::NONE);
        };
        let bytes = size::parse(text).map_err(|why| format!("room: {why}"))?;
        match bytes {
            0 => Err("room: 0 is no room: leave it out".into()),
            bytes => Ok(Room {
                bytes,
                files: FILES,
            }),
        }
    }

    fn machines(&self) -> Result<Vec<Arch>, String> {
        let Some(names) = &self.architectures else {
            return Ok(Arch::ALL.to_vec());
        };
        let find = |name: &String| {
            let known = Arch::ALL.iter().copied().find(|arch| arch.name() == name);
            known.ok_or_else(|| {
                let all: Vec<_> = Arch::ALL.iter().map(|arch| arch.name()).collect();
                let all = all.join(", ");
                format!("architectures: unknown '{name}': known are {all}")
            })
        };
        names.iter().map(find).collect()
    }

    fn guest_memory(&self) -> Result<u64, String> {
        let Some(text) = &self.memory else {
            return Ok(MEMORY);
        };
        let bytes = size::parse(text).map_err(|why| format!("memory: {why}"))?;
        match bytes >= 512 << 20 && bytes.is_multiple_of(1 << 20) {
            true => Ok(bytes),
            false => Err(format!(
                "memory: {text}: write a multiple of 1M from 512M on"
            )),
        }
    }
}

/// Command lines as words. There is no shell, and no PATH.
fn words(key: &str, lines: &[String]) -> Result<Vec<Vec<String>>, String> {
    let split = |line: &String| {
        let words = shell_words::split(line).map_err(|why| format!("{key}: {line}: {why}"))?;
        match words.first() {
            Some(program) if program.starts_with('/') => Ok(words),
            _ => Err(format!(
                "{key}: '{line}': name the program by its whole path"
            )),
        }
    };
    lines.iter().map(split).collect()
}

/// An empty text stands in every line.
fn filled(key: &str, texts: Vec<String>) -> Result<Vec<String>, String> {
    match texts.iter().any(String::is_empty) {
        true => Err(format!("{key}: an empty text stands in every line")),
        false => Ok(texts),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: &str = "about = \"x\"\npackages = [\"gcc\"]\ncommands = [\"/usr/bin/gcc -v\"]\n";

    fn refusal(more: &str) -> String {
        Description::parse("own.toml", "own", &format!("{LEAST}{more}\n")).unwrap_err()
    }

    #[test]
    fn the_least_that_describes_a_program() {
        let program = Description::parse("own.toml", "own", LEAST).unwrap();
        assert_eq!(program.program.commands, [["/usr/bin/gcc", "-v"]]);
        assert_eq!(program.architectures, Arch::ALL);
        assert_eq!((program.memory, program.seconds), (MEMORY, SECONDS));
        assert!(!program.shares_its_disk());
    }

    #[test]
    fn words_may_be_quoted() {
        let text = "about = \"x\"\npackages = [\"bash\"]\ncommands = [\"/bin/bash -c 'echo a b'\"]";
        let program = Description::parse("own.toml", "own", text).unwrap();
        assert_eq!(program.program.commands, [["/bin/bash", "-c", "echo a b"]]);
    }

    #[test]
    fn mistakes_name_the_file_the_place_and_the_remedy() {
        for (more, parts) in [
            ("pakages = []", &["own.toml:4: ", "pakages", "packages"][..]),
            ("memory = 3", &["own.toml:4: ", "integer"]),
            ("memory = \"1K\"", &["own.toml: memory", "512M"]),
            ("seconds = 0", &["seconds"]),
            ("room = \"0\"", &["room"]),
            ("room = \"much\"", &["room"]),
            ("seconds = -1", &["own.toml:4: "]),
            ("prepare = [\"gcc\"]", &["prepare", "'gcc'", "whole path"]),
            ("prepare = [\"/bin/sh -c 'x\"]", &["prepare", "quote"]),
            ("architectures = [\"riscv\"]", &["riscv", "arm64, x86_64"]),
            ("without = [\"/etc\"]", &["'/etc'", "usr/share"]),
            ("without = [\"a/../..\"]", &["a/../.."]),
            ("ignore = [\"\"]", &["ignore"]),
            ("disk = \"userland\"", &["packages", "userland"]),
            ("disk = \"none\"", &["own.toml:4: ", "none", "userland"]),
            ("files = { \"a/b\" = \"x\" }", &["'a/b'"]),
            ("about = \"again\"", &["own.toml:4: ", "duplicate"]),
        ] {
            let text = refusal(more);
            for part in parts {
                assert!(text.contains(part), "{more}: {text}");
            }
        }
    }

    #[test]
    fn nothing_that_is_needed_may_be_missing() {
        for (line, key) in [(0, "about"), (1, "packages"), (2, "commands")] {
            let mut lines: Vec<_> = LEAST.lines().collect();
            lines.remove(line);
            let error = Description::parse("own.toml", "own", &lines.join("\n")).unwrap_err();
            assert!(error.contains(key), "{error}");
        }
        let error = Description::parse("a.toml", "a", &LEAST.replace("gcc\"", "Gcc Lib\""));
        assert!(error.unwrap_err().contains("'Gcc Lib'"));
        let error = Description::parse("A b.toml", "A b", LEAST).unwrap_err();
        assert!(error.contains("'A b'"), "{error}");
    }
}
