// SPDX-License-Identifier: GPL-2.0-only
//! Programs that Debian does not have and crates.io has, as static binaries of the guest's
//! architecture. Cargo builds them; the cache keeps them.

use crate::host::parts::triple;
use crate::vm::scratch::Scratch;
use anyhow::{Context, Result, bail};
use std::path::PathBuf;
use std::process::Command;
use wideleaf_cache::{Cache, Key};
use wideleaf_kbuild::Arch;
use wideleaf_kit::events::{Event, Observer};
use wideleaf_kit::tool;

/// The cache's kind of entry that holds a program.
const KIND: &str = "crate";

/// A program of crates.io.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrateProgram {
    /// Of the crate, and of its program.
    pub name: &'static str,
    /// Its version, as Cargo.toml has it.
    pub version: &'static str,
}

impl CrateProgram {
    /// The program, built if it is not in the cache.
    ///
    /// # Errors
    ///
    /// If cargo is not installed or lacks the target, or the crate cannot be had or built.
    pub fn ensure(self, arch: Arch, cache: &Cache, observer: &dyn Observer) -> Result<PathBuf> {
        let Self { name, version } = self;
        let key = Key::new()
            .field("name", name)
            .field("version", version)
            .field("arch", arch.name());
        let build = |dir: &std::path::Path| {
            let text = format!("building {name} {version} of crates.io for {arch}");
            observer.event(Event::Step(&text));
            let scratch = Scratch::new(cache.root())?;
            let root = scratch.join("root");
            let install = &mut self.install(arch)?;
            install.arg("--root").arg(&root);
            install.env("CARGO_TARGET_DIR", scratch.join("target"));
            tool::output(install).context(text)?;
            let built = root.join("bin").join(name);
            std::fs::copy(&built, dir.join(name)).with_context(|| built.display().to_string())?;
            Ok(())
        };
        let entry = cache.get_or_build(KIND, &key, || (), build)?;
        Ok(entry.path(name))
    }

    fn install(self, arch: Arch) -> Result<Command> {
        let Self { name, version } = self;
        let triple = triple(arch);
        let Some(cargo) = tool::find("cargo") else {
            bail!(
                "cargo is not installed, which builds {name} {version} of crates.io for the \
                 guest: install Rust with the target {triple} (https://rustup.rs)"
            );
        };
        let mut command = Command::new(cargo);
        command
            .args(["install", "--quiet", "--locked", "--no-track"])
            .args(["--target", triple, "--version", version, name])
            // As our own guest program is linked: without a cross compiler.
            .arg("--config")
            .arg(format!("target.{triple}.linker=\"rust-lld\""));
        Ok(command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_version_is_built_for_the_guest() {
        let fsx = CrateProgram {
            name: "fsx",
            version: "0.3.2",
        };
        let command = format!("{:?}", fsx.install(Arch::Arm64).unwrap());
        for word in [
            "\"--target\" \"aarch64-unknown-linux-musl\"",
            "\"--version\" \"0.3.2\" \"fsx\"",
        ] {
            assert!(command.contains(word), "{command}");
        }
    }
}
