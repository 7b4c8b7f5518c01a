// SPDX-License-Identifier: GPL-2.0-only
//! The one way to standard output and standard error: no panic if a device is
//! full or nobody reads on, and nothing that a file or a process is called
//! controls the terminal.

// What clippy.toml keeps from all others.
#![allow(clippy::disallowed_methods)]

use anyhow::{Context, Result};
use serde::Serialize;
use std::io::{BufWriter, ErrorKind, IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use wideleaf_kit::names::{deceives, hex, lossy, printable};
use wideleaf_kit::words::without_error_numbers;

/// Writes lines of text. A reader that has seen enough (`| head`) is no error.
///
/// # Errors
///
/// Anything else, such as a full disk.
pub fn write_out(text: &str) -> Result<()> {
    write_bytes(lines(text).as_bytes())
}

/// Writes a JSON document and a newline, as it is made: all of /usr does not
/// have to be held twice.
///
/// # Errors
///
/// As [`write_out`].
pub fn write_json(value: &impl Serialize) -> Result<()> {
    let mut out = Escaping(BufWriter::new(std::io::stdout().lock()));
    written(
        serde_json::to_writer(&mut out, value).map_err(Into::into),
        out,
    )
}

/// The same for people to read.
///
/// # Errors
///
/// As [`write_out`].
pub fn write_json_pretty(value: &impl Serialize) -> Result<()> {
    let mut out = Escaping(BufWriter::new(std::io::stdout().lock()));
    written(
        serde_json::to_writer_pretty(&mut out, value).map_err(Into::into),
        out,
    )
}

fn written(result: std::io::Result<()>, mut out: impl Write) -> Result<()> {
    forgiven(
        result
            .and_then(|()| out.write_all(b"\n"))
            .and_then(|()| out.flush()),
    )
}

/// Whether somebody looks at standard output as it is written.
pub fn is_terminal() -> bool {
    std::io::stdout().is_terminal()
}

/// A path for people to read, harmless to a terminal: names may hold control
/// characters, escape sequences too.
pub fn printable_path(path: &Path) -> String {
    printable(&path.to_string_lossy())
}

/// Puts a path into an object: as text and, if that loses some of its bytes,
/// in hexadecimal as `KEY_bytes`.
pub fn name(object: &mut serde_json::Value, key: &str, path: &Path) {
    let bytes = path.as_os_str().as_bytes();
    object[key] = lossy(bytes).into();
    if let Some(hex) = hex(bytes) {
        object[format!("{key}_bytes")] = hex.into();
    }
}

/// Writes bytes as they are: for what is made for files.
///
/// # Errors
///
/// As [`write_out`].
pub fn write_bytes(bytes: &[u8]) -> Result<()> {
    let mut out = std::io::stdout().lock();
    forgiven(out.write_all(bytes).and_then(|()| out.flush()))
}

/// A reader that has seen enough is no error.
fn forgiven(result: std::io::Result<()>) -> Result<()> {
    match result {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other.context("cannot write to standard output"),
    }
}

/// Writes lines to standard error, without the error numbers that Rust adds to the system's words.
/// If that cannot be written there is nobody left to tell.
pub fn write_err(text: &str) {
    let text = lines(&without_error_numbers(text));
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

/// Text whose newlines are its own and whose other characters are harmless.
fn lines(text: &str) -> String {
    let lines: Vec<String> = text.split('\n').map(printable).collect();
    lines.join("\n")
}

/// Writes JSON so that no character of a name reaches a terminal as it is.
/// JSON outside of strings is ASCII, and the serializer writes whole characters.
struct Escaping<W>(W);

impl<W: Write> Write for Escaping<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match std::str::from_utf8(bytes) {
            Ok(text) if !text.is_ascii() || text.contains('\u{7f}') => {
                self.0.write_all(json(text).as_bytes())?
            }
            _ => self.0.write_all(bytes)?,
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

/// JSON means the same with any character of a string escaped; control
/// characters are already.
fn json(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if deceives(c) || c == '\u{7f}' || ('\u{80}'..='\u{9f}').contains(&c) {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                safe.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            safe.push(c);
        }
    }
    safe
}

/// `println!` by way of [`write_out`], instead of a panic.
macro_rules! say {
    ($($arg:tt)*) => {
        $crate::stdout::write_out(&format!("{}\n", format_args!($($arg)*)))
    };
}
pub(crate) use say;

/// `eprintln!` by way of [`write_err`].
macro_rules! tell {
    ($($arg:tt)*) => {
        $crate::stdout::write_err(&format!("{}\n", format_args!($($arg)*)))
    };
}
pub(crate) use tell;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_text_and_json_stay_names() {
        assert_eq!(
            lines("a\x1b[2J\ngpj.\u{202e}exe\n"),
            "a\\x1b[2J\ngpj.\\u{202e}exe\n"
        );
        let name = "gpj.\u{202e}exe\x1b\u{9b}\u{e0041}";
        let text = json(&serde_json::to_string(name).unwrap());
        assert!(text.is_ascii(), "{text}");
        assert_eq!(serde_json::from_str::<String>(&text).unwrap(), name);
    }
}
