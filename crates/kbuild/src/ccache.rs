// SPDX-License-Identifier: GPL-2.0-only
//! ccache in front of the compilers. kbuild compiles again whatever is older than a header it
//! includes, and a switch between two series, or an edit of one, touches headers that every file
//! includes. ccache remembers what it compiled by what was in the files.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

/// Where Debian's package has a link to ccache by the name of each compiler. Found first in `PATH`
/// they change no command line, by which kbuild, too, decides what to compile again.
const LINKS: &str = "/usr/lib/ccache";

/// Bounds the disk that it takes; what was not used for longest goes first.
const MAX_SIZE: &str = "4G";

/// Lets `make` compile through ccache, if that is installed; what it remembers is in `dir`.
pub(crate) fn put_before_compilers(make: &mut Command, dir: &Path) {
    put(make, Path::new(LINKS), dir);
}

fn put(make: &mut Command, links: &Path, dir: &Path) {
    // Without a PATH the system's own is searched, for make as well.
    let Some(rest) = std::env::var_os("PATH").filter(|_| links.is_dir()) else {
        return;
    };
    let mut path = OsString::from(links);
    path.push(":");
    path.push(rest);
    make.env("PATH", path)
        .env("CCACHE_DIR", dir)
        .env("CCACHE_MAXSIZE", MAX_SIZE)
        // The list of headers that kbuild has the compiler write is enough to look a file up by.
        // Otherwise ccache would run the preprocessor first, for each file that it does not know.
        .env("CCACHE_DEPEND", "1");
}

#[cfg(test)]
mod tests {
    use super::*;
    use wideleaf_kit::script::script;

    fn says_who(links: &Path) -> String {
        let mut make = Command::new("sh");
        make.args(["-c", "test-cc; echo dir $CCACHE_DIR"])
            .env_remove("CCACHE_DIR");
        put(&mut make, links, Path::new("/remembered"));
        String::from_utf8(make.output().unwrap().stdout).unwrap()
    }

    #[test]
    fn a_compiler_is_found_there_first_and_without_it_nothing_changes() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(says_who(&dir.path().join("none")), "dir\n");
        let compiler = dir.path().join("test-cc");
        script(&compiler, "#!/bin/sh\necho through ccache\n");
        assert_eq!(says_who(dir.path()), "through ccache\ndir /remembered\n");
    }
}
