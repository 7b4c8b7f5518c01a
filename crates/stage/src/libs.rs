// SPDX-License-Identifier: GPL-2.0-only
//! The libraries that a program loads: at its start, by its loader's word, and later, as far as
//! that is remembered.

use crate::Error;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use wideleaf_elf::{Elf, FileSource};
use wideleaf_loads::remembered;

/// Asks the program's own interpreter, which loads and lists libraries
/// without running anything of them, and adds those that it has loaded later in a run that
/// `wideleaf run --libs` watched.
///
/// # Errors
///
/// If the interpreter is missing, is for another machine or finds a library missing.
pub fn libraries(program: &Path) -> Result<Vec<PathBuf>, Error> {
    let bad = |why: String| Error::File {
        path: program.to_path_buf(),
        why,
    };
    let read = |path: &Path| -> Result<Elf, String> {
        let file = std::fs::File::open(path).and_then(FileSource::new);
        Elf::read(&file.map_err(|e| e.to_string())?).map_err(|e| e.to_string())
    };
    let elf = read(program).map_err(bad)?;
    if !elf.dynamic {
        return Ok(Vec::new());
    }
    let no_name = || bad("names no interpreter".into());
    let interpreter = elf.interpreter.ok_or_else(no_name)?;
    // By a symbolic link its libraries would be sought beside the link ($ORIGIN).
    let path = program.canonicalize().map_err(|e| bad(e.to_string()))?;
    let output = Command::new(&interpreter)
        .arg("--list")
        .arg(path)
        .output()
        .map_err(|e| bad(format!("its interpreter {}: {e}", interpreter.display())))?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() || text.contains("not found") {
        let said = String::from_utf8_lossy(&output.stderr);
        let missing = text.lines().find(|line| line.contains("not found"));
        let said = missing.unwrap_or(said.trim());
        return Err(bad(format!(
            "its libraries cannot be listed: {}",
            said.trim()
        )));
    }
    let found = listed(&output.stdout).filter(|path| *path != interpreter);
    Ok(found.chain(remembered(program)).collect())
}

/// What a loader's `--list` printed: a tab and `libc.so.6 => /lib/libc.so.6 (0x7f…)`, or without
/// an arrow what is needed by its path, as the interpreter is.
pub fn listed(output: &[u8]) -> impl Iterator<Item = PathBuf> {
    output.split(|byte| *byte == b'\n').filter_map(path_in)
}

fn path_in(line: &[u8]) -> Option<PathBuf> {
    let line = line.trim_ascii();
    let at = line.windows(4).position(|w| w == b" => ");
    let rest = &line[at.map_or(0, |at| at + 4)..];
    let end = rest.windows(2).rposition(|w| w == b" (")?;
    let path = PathBuf::from(OsStr::from_bytes(&rest[..end]));
    path.is_absolute().then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_loader() {
        let path = |line: &str| path_in(line.as_bytes()).map(|path| path.display().to_string());
        assert_eq!(
            path("\tlibc.so.6 => /lib/libc.so.6 (0x7f12)"),
            Some("/lib/libc.so.6".into())
        );
        assert_eq!(
            path("\t/opt/a b/libx.so (0x7f12)"),
            Some("/opt/a b/libx.so".into())
        );
        assert_eq!(path("\tlinux-vdso.so.1 (0x7ffc)"), None);
        assert_eq!(path("\tstatically linked"), None);
        assert_eq!(path("\tlibx.so => not found"), None);
    }
}
