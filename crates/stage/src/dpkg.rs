// SPDX-License-Identifier: GPL-2.0-only
//! Which files dpkg is about to replace or remove, as apt tells a hook.

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The installed files of the packages that apt lists on the input of a
/// `DPkg::Pre-Install-Pkgs` hook of version 3, without symbolic links.
pub fn affected(mut input: impl Read) -> std::io::Result<Vec<PathBuf>> {
    let mut text = String::new();
    input.read_to_string(&mut text)?;
    let mut query = Command::new("dpkg-query");
    query.arg("-L").args(packages(&text));
    // It fails for a package that is new, and lists the files of the others.
    let listed = query.output()?.stdout;
    let file = |line| {
        let path = Path::new(OsStr::from_bytes(line));
        path.is_absolute().then(|| path.canonicalize().ok())?
    };
    Ok(listed.split(|b| *b == b'\n').filter_map(file).collect())
}

/// `VERSION 3`, apt's configuration, an empty line, then for each step
/// `package old-version old-arch old-multi-arch < new-version ... action`.
fn packages(text: &str) -> impl Iterator<Item = &str> {
    let steps = text.split_once("\n\n").map_or("", |(_, steps)| steps);
    let steps = steps
        .lines()
        .filter(|line| !line.ends_with("**CONFIGURE**"));
    steps.filter_map(|line| line.split_whitespace().next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_that_are_unpacked_or_removed_are_named() {
        let text = "VERSION 3\nAPT::Architecture=amd64\n\n\
            nodejs 18.1 amd64 none < 18.2 amd64 none /var/cache/apt/archives/nodejs.deb\n\
            old 1 amd64 none > - - none **REMOVE**\n\
            nodejs 18.1 amd64 none < 18.2 amd64 none **CONFIGURE**\n";
        assert_eq!(packages(text).collect::<Vec<_>>(), ["nodejs", "old"]);
        assert_eq!(packages("/a.deb\n").count(), 0);
    }
}
