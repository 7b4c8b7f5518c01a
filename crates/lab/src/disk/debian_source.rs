// SPDX-License-Identifier: GPL-2.0-only
//! Programs of one file of C that Debian has in a source package only, as static binaries of the
//! guest's architecture. The cross compiler that builds kernels builds them, with Debian's C library.

use crate::vm::scratch::Scratch;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;
use wideleaf_cache::{Cache, Key};
use wideleaf_debian::{Packages, source_file};
use wideleaf_kbuild::{Arch, toolchain};
use wideleaf_kit::events::{Event, Observer};
use wideleaf_kit::tool;

/// The cache's kind of entry that holds a program.
const KIND: &str = "compiled";

/// The C library for the guest, and what it depends on.
const LIBRARY: &str = "libc6-dev";

/// A program of a source package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceProgram {
    /// Its own.
    pub name: &'static str,
    /// Of the source package.
    pub package: &'static str,
    /// Its only file of C, as a path in the package.
    pub path: &'static str,
}

impl SourceProgram {
    /// The program, built if it is not in the cache.
    ///
    /// # Errors
    ///
    /// If the source or the C library cannot be had, or it does not compile.
    pub fn ensure(self, arch: Arch, cache: &Cache, observer: &dyn Observer) -> Result<PathBuf> {
        let Self {
            name,
            package,
            path,
        } = self;
        let source = source_file(package, path, cache, observer)?;
        let library = Packages::ensure(arch, &[LIBRARY], cache, observer)?;
        let key = Key::new()
            .field("name", name)
            .file("source", &source)?
            .field("arch", arch.name())
            .field("compiler", toolchain::compiler(arch)?)
            .field("packages", library.names().join(" "));
        let build = |dir: &Path| {
            let text = format!("compiling {name} of Debian's source {package} for {arch}");
            observer.event(Event::Step(&text));
            let root = Scratch::new(cache.root())?;
            library.unpack(root.path())?;
            let [gcc, options @ ..] = toolchain::static_compiler(arch, root.path());
            let mut command = Command::new(gcc);
            // Of old C that is not ours, a warning tells nothing.
            command.args(options).args(["-O2", "-w", "-o"]);
            tool::output(command.arg(dir.join(name)).arg(&source)).context(text)?;
            Ok(())
        };
        let entry = cache.get_or_build(KIND, &key, || (), build)?;
        Ok(entry.path(name))
    }
}
