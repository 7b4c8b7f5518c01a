// SPDX-License-Identifier: GPL-2.0-only
//! Which pages of text a program touches first, in which order: the file that the lab records and
//! the simulator runs.
//!
//! It is text. `docs/policy.md` has the format.

use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::Path;
use std::str::FromStr;
use thiserror::Error;

/// Version of the format. Raised when a line changes its meaning.
pub const VERSION: u32 = 1;

/// The end of a file's name.
pub const SUFFIX: &str = ".trace";

/// Log2 of the pages that touches are told in.
pub const PAGE_SHIFT: u8 = 12;

/// How the first line begins.
const MAGIC: &str = "wideleaf-trace";

/// How the last line begins.
const HASH: &str = "blake3 ";

/// How long the lines of touches become.
const WIDTH: usize = 100;

/// Text that a program executed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// The program, as the lab calls it.
    pub program: String,
    /// Of which architecture its files are.
    pub arch: String,
    /// File names of Debian's packages on its disk, which have the versions.
    pub packages: Vec<String>,
    /// 4K pages of memory that were executed from and are of no file of the disk: what a program
    /// compiled for itself, the vDSO, the process that starts it.
    pub other: u32,
    /// Its programs and libraries.
    pub files: Vec<File>,
    /// The first touch of each page, in the order in which they came, over all processes.
    pub touches: Vec<Touch>,
}

/// A program or library.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct File {
    /// Its path.
    pub path: String,
    /// Its bytes.
    pub size: u64,
    /// Its executable segments.
    pub text: Vec<Text>,
}

/// An executable segment (PT_LOAD) of an ELF file, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Text {
    /// Where in the file it begins.
    pub offset: u64,
    /// Its bytes in the file.
    pub size: u64,
    /// Its first address.
    pub address: u64,
}

/// A page that was touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Touch {
    /// Index in [`Trace::files`].
    pub file: u32,
    /// Number of the 4K page in the file.
    pub page: u32,
}

/// Why a file is no trace.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("line {line}: {why}")]
pub struct BadTrace {
    /// The line, from 1 on.
    pub line: usize,
    /// The reason.
    pub why: String,
}

/// Why a trace cannot be read from a file.
#[derive(Debug, Error)]
pub enum Unreadable {
    /// The file cannot be read.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The file is no trace.
    #[error("{0}: 'wideleaf lab run program --trace FOLDER' records traces")]
    Bad(#[from] BadTrace),
}

impl Text {
    /// Whether a part of the 4K page is its.
    pub fn has(&self, page: u32) -> bool {
        let start = u64::from(page) << PAGE_SHIFT;
        self.size > 0
            && start < self.offset.saturating_add(self.size)
            && self.offset < start + (1 << PAGE_SHIFT)
    }
}

impl Trace {
    /// The trace in the file at `path`.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or is no trace.
    pub fn read(path: &Path) -> Result<Self, Unreadable> {
        let bytes = std::fs::read(path)?;
        let Ok(text) = std::str::from_utf8(&bytes) else {
            let why = "not a trace: it is not text".to_string();
            return Err(BadTrace { line: 1, why }.into());
        };
        Ok(text.parse()?)
    }

    /// The text of its file.
    pub fn text(&self) -> String {
        let mut text = format!(
            "{MAGIC} {VERSION}\nprogram {}\narch {}\n",
            self.program, self.arch
        );
        let mut line = |line: std::fmt::Arguments<'_>| {
            // A string takes everything.
            let _ = writeln!(text, "{line}");
        };
        for package in &self.packages {
            line(format_args!("package {package}"));
        }
        line(format_args!("other {}", self.other));
        for file in &self.files {
            line(format_args!("file {} {}", file.size, file.path));
            for part in &file.text {
                let (offset, size, address) = (part.offset, part.size, part.address);
                line(format_args!("text {offset} {size} {address}"));
            }
        }
        line(format_args!("touches {}", self.touches.len()));
        text += &wrapped(&tokens(&self.touches, self.files.len()));
        let hash = blake3::hash(text.as_bytes());
        text + HASH + hash.to_hex().as_str() + "\n"
    }
}

/// `FILE:` changes the file. A number is the step from the page of the file that was touched last,
/// at first from page 0; `STEPxN` is that step so often.
fn tokens(touches: &[Touch], files: usize) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut last = vec![0; files];
    let mut current = None;
    let mut repeated: Option<(i64, u32)> = None;
    let flush = |repeated: &mut Option<(i64, u32)>, tokens: &mut Vec<String>| {
        tokens.extend(repeated.take().map(|(step, times)| match times {
            1 => step.to_string(),
            _ => format!("{step}x{times}"),
        }));
    };
    for touch in touches {
        if current != Some(touch.file) {
            flush(&mut repeated, &mut tokens);
            tokens.push(format!("{}:", touch.file));
            current = Some(touch.file);
        }
        let page = i64::from(touch.page);
        let step = page - std::mem::replace(&mut last[touch.file as usize], page);
        match &mut repeated {
            Some((same, times)) if *same == step => *times += 1,
            _ => {
                flush(&mut repeated, &mut tokens);
                repeated = Some((step, 1));
            }
        }
    }
    flush(&mut repeated, &mut tokens);
    tokens
}

fn wrapped(tokens: &[String]) -> String {
    let (mut text, mut length) = (String::new(), 0);
    for token in tokens {
        if length > 0 && length + 1 + token.len() > WIDTH {
            text.push('\n');
            length = 0;
        } else if length > 0 {
            text.push(' ');
            length += 1;
        }
        text += token;
        length += token.len();
    }
    if length > 0 {
        text.push('\n');
    }
    text
}

impl FromStr for Trace {
    type Err = BadTrace;

    fn from_str(text: &str) -> Result<Self, BadTrace> {
        let bad = |line, why: String| BadTrace { line, why };
        let first = text.lines().next().unwrap_or_default();
        match first.strip_prefix(MAGIC).map(str::trim) {
            None => {
                return Err(bad(
                    1,
                    format!("not a trace: it does not begin with '{MAGIC}'"),
                ));
            }
            Some(version) if version != VERSION.to_string() => {
                let why = format!("version {version} of the format, this wideleaf reads {VERSION}");
                return Err(bad(1, why));
            }
            Some(_) => {}
        }
        let lines = text.lines().count();
        let content = match text.rfind(HASH).filter(|at| text[..*at].ends_with('\n')) {
            Some(at) => &text[..at],
            None => {
                return Err(bad(
                    lines,
                    format!("it does not end with '{}'", HASH.trim()),
                ));
            }
        };
        let stated = text[content.len() + HASH.len()..].trim_end();
        if stated != blake3::hash(content.as_bytes()).to_hex().as_str() {
            let why = "the content is not what was recorded, as its hash tells";
            return Err(bad(lines, why.into()));
        }
        let mut reader = Reader::default();
        for (number, line) in content.lines().enumerate().skip(1) {
            let result = reader.line(line);
            result.map_err(|why| bad(number + 1, why))?;
        }
        reader.end().map_err(|why| bad(lines, why))
    }
}

/// A trace that is being read.
#[derive(Default)]
struct Reader {
    trace: Trace,
    /// As the file says; touches follow.
    touches: Option<usize>,
    file: Option<u32>,
    /// The page that was touched last, by file.
    last: Vec<i64>,
    seen: HashSet<Touch>,
}

impl Reader {
    fn line(&mut self, line: &str) -> Result<(), String> {
        if self.touches.is_some() {
            return line.split(' ').try_for_each(|token| self.token(token));
        }
        let (key, value) = line
            .split_once(' ')
            .ok_or_else(|| format!("'{line}' has no value"))?;
        let trace = &mut self.trace;
        match key {
            "program" => trace.program = value.into(),
            "arch" => trace.arch = value.into(),
            "package" => trace.packages.push(value.into()),
            "other" => trace.other = number(value)?,
            "file" => {
                let (size, path) = value.split_once(' ').ok_or("a file needs size and path")?;
                trace.files.push(File {
                    path: path.into(),
                    size: number(size)?,
                    text: Vec::new(),
                });
            }
            "text" => {
                let words = value
                    .split(' ')
                    .map(number)
                    .collect::<Result<Vec<u64>, _>>()?;
                let [offset, size, address] = words[..] else {
                    return Err("text needs offset, size and address".into());
                };
                let file = trace.files.last_mut().ok_or("text before any file")?;
                if offset.checked_add(size).is_none_or(|end| end > file.size) {
                    return Err(format!(
                        "text that ends behind the {} bytes of its file",
                        file.size
                    ));
                }
                file.text.push(Text {
                    offset,
                    size,
                    address,
                });
            }
            "touches" => {
                self.touches = Some(number(value)?);
                self.last = vec![0; trace.files.len()];
            }
            _ => return Err(format!("unknown key '{key}'")),
        }
        Ok(())
    }

    fn token(&mut self, token: &str) -> Result<(), String> {
        if let Some(file) = token.strip_suffix(':') {
            let file = number(file)?;
            if self.last.get(file as usize).is_none() {
                return Err(format!("there is no file {file}"));
            }
            self.file = Some(file);
            return Ok(());
        }
        let (step, times) = token.split_once('x').unwrap_or((token, "1"));
        let (step, times) = (number::<i64>(step)?, number::<u32>(times)?);
        (0..times).try_for_each(|_| self.touch(step))
    }

    fn touch(&mut self, step: i64) -> Result<(), String> {
        let file = self.file.ok_or("a touch before any file")?;
        let last = &mut self.last[file as usize];
        *last = last.saturating_add(step);
        let of = &self.trace.files[file as usize];
        let page = u32::try_from(*last).ok();
        let page = page.filter(|page| of.text.iter().any(|text| text.has(*page)));
        let page = page.ok_or_else(|| format!("page {last} of {} is no text", of.path))?;
        let touch = Touch { file, page };
        if !self.seen.insert(touch) {
            return Err(format!("page {page} of {} is touched twice", of.path));
        }
        self.trace.touches.push(touch);
        Ok(())
    }

    fn end(self) -> Result<Trace, String> {
        let stated = self.touches.ok_or("no touches")?;
        let found = self.trace.touches.len();
        if stated != found {
            return Err(format!("{found} touches, and not {stated} as it says"));
        }
        for (key, value) in [("program", &self.trace.program), ("arch", &self.trace.arch)] {
            if value.is_empty() {
                return Err(format!("no {key}"));
            }
        }
        Ok(self.trace)
    }
}

fn number<N: FromStr>(text: &str) -> Result<N, String> {
    text.parse()
        .map_err(|_| format!("'{text}' is no number that can stand here"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace() -> Trace {
        let file = |path: &str, text: &[(u64, u64)]| File {
            path: path.into(),
            size: 1 << 20,
            text: text
                .iter()
                .map(|&(offset, size)| Text {
                    offset,
                    size,
                    address: 0x40_0000 + offset,
                })
                .collect(),
        };
        let touch = |&(file, page): &(u32, u32)| Touch { file, page };
        let touches = [(0, 9), (1, 20), (1, 21), (1, 22), (0, 8), (0, 200), (1, 16)];
        Trace {
            program: "x".into(),
            arch: "x86_64".into(),
            packages: vec!["a_1%3a2_amd64.deb".into(), "b_3_all.deb".into()],
            other: 4,
            files: vec![
                file("/a b", &[(0x8010, 0x1000), (200 << 12, 1)]),
                file("/b", &[(0x1_0000, 0x8000)]),
            ],
            touches: touches.iter().map(touch).collect(),
        }
    }

    /// With the right hash for what it says.
    fn sealed(content: &str) -> String {
        format!(
            "{content}{HASH}{}\n",
            blake3::hash(content.as_bytes()).to_hex()
        )
    }

    fn content() -> String {
        let text = trace().text();
        text[..text.rfind(HASH).unwrap()].to_string()
    }

    #[test]
    fn a_trace_is_read_as_it_was_written() {
        let text = trace().text();
        assert_eq!(text.parse(), Ok(trace()), "{text}");
        assert!(
            text.contains("touches 7\n0: 9 1: 20 1x2 0: -1 192 1: -6\n"),
            "{text}"
        );
        assert!(
            text.contains("\nfile 1048576 /a b\ntext 32784 4096 4227088\n"),
            "{text}"
        );
    }

    #[test]
    fn lines_of_touches_are_short() {
        let touches = (0..1000).map(|n| Touch {
            file: 0,
            page: 16 + n * n % 4093,
        });
        let touches: HashSet<_> = touches.collect();
        let mut trace = trace();
        trace.files[0].size = 1 << 30;
        trace.files[0].text[0].size = 1 << 29;
        trace.touches = touches.into_iter().collect();
        let text = trace.text();
        assert!(text.lines().all(|line| line.len() <= WIDTH));
        assert_eq!(text.parse(), Ok(trace));
    }

    #[test]
    fn a_file_that_is_no_whole_trace_is_refused_with_line_and_reason() {
        let content = content();
        let put = |from: &str, to: &str| {
            assert_eq!(content.matches(from).count(), 1, "{from}");
            sealed(&content.replace(from, to))
        };
        for (text, line, why) in [
            (String::new(), 1, "does not begin"),
            ("{\"a\": 1}".into(), 1, "does not begin"),
            (put("trace 1\n", "trace 2\n"), 1, "version 2"),
            (content.clone(), 13, "does not end"),
            (trace().text().replace("1: 20", "1: 19"), 14, "hash"),
            (trace().text() + "more", 15, "hash"),
            (put("arch x86_64\n", ""), 13, "no arch"),
            (put("other 4", "other -4"), 6, "'-4' is no number"),
            (put("other 4", "others 4"), 6, "unknown key 'others'"),
            (put("other 4", "other"), 6, "no value"),
            (
                put("text 65536 32768", "text 65536 983041"),
                11,
                "ends behind",
            ),
            (
                put("text 65536 32768 ", "text "),
                11,
                "offset, size and address",
            ),
            (put("1: 20", "2: 20"), 13, "no file 2"),
            (put("0: 9 1:", "9 1:"), 13, "before any file"),
            (put("0: 9 ", "0: 7 "), 13, "page 7 of /a b is no text"),
            (put("0: 9 ", "0: 9 0 "), 13, "touched twice"),
            (put("touches 7", "touches 6"), 14, "7 touches, and not 6"),
        ] {
            let error = text.parse::<Trace>().unwrap_err();
            assert!(error.why.contains(why), "{why}: {error}");
            assert_eq!(error.line, line, "{error}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.trace");
        std::fs::write(&path, [0xff, 0xfe]).unwrap();
        let error = Trace::read(&path).unwrap_err().to_string();
        assert!(
            error.contains("not text") && error.contains("lab run program"),
            "{error}"
        );
        assert!(Trace::read(&dir.path().join("none")).is_err());
    }
}
