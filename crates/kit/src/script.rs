// SPDX-License-Identifier: GPL-2.0-only
//! Scripts that stand in for programs, in tests.

use std::path::Path;
use std::process::Command;

/// Writes `text` to `path`, which anybody may then execute.
///
/// Another process writes it. While this one had it open for writing, a test beside could fork and
/// keep it so, and the kernel would refuse to execute it (ETXTBSY).
///
/// # Panics
///
/// If the file cannot be written.
pub fn script(path: &Path, text: &str) {
    let mut sh = Command::new("/bin/sh");
    sh.args(["-c", r#"printf %s "$1" >"$2" && chmod 755 "$2""#, "sh"]);
    let written = sh.arg(text).arg(path).status();
    assert!(written.unwrap().success(), "{}", path.display());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_runs_and_says_what_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a b");
        script(&path, "#!/bin/sh\nprintf '%s;' \"$1\" '%s\\n'\n");
        let output = Command::new(&path).arg("one").output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "one;%s\\n;");
    }
}
