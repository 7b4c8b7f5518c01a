// SPDX-License-Identifier: GPL-2.0-only
//! Finds Wideleaf's own parts: the guest's binary and the TLB plugin.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use wideleaf_kbuild::Arch;

/// The environment variable that names a folder with both parts.
pub const ENV: &str = "WIDELEAF_PARTS";

const PLUGIN: &str = "libwideleaf_plugin.so";

/// The Rust target of the guest's binary.
pub const fn triple(arch: Arch) -> &'static str {
    match arch {
        Arch::Arm64 => "aarch64-unknown-linux-musl",
        Arch::X86_64 => "x86_64-unknown-linux-musl",
    }
}

/// The static `wideleaf-guest` of the guest's architecture: `given`, else the one
/// in the folder that [`ENV`] names, beside this program or in the cargo
/// target folder that this program lies in.
///
/// # Errors
///
/// If there is none; the text says what builds it.
pub fn guest_binary(arch: Arch, given: Option<&Path>) -> Result<PathBuf> {
    if let Some(path) = given {
        return existing(path, "--guest-bin");
    }
    let triple = triple(arch);
    let places = |dir: &Path| {
        [
            dir.join(format!("wideleaf-guest-{arch}")),
            dir.join(triple).join("release/wideleaf-guest"),
            dir.join(triple).join("debug/wideleaf-guest"),
        ]
    };
    find(places).with_context(|| {
        format!(
            "no wideleaf-guest for {triple}: install the package wideleaf-lab, build it with 'make build', or with \
             'cargo build --release --target {triple} -p wideleaf-jobs --no-default-features \
             --features guest', or name it with --guest-bin"
        )
    })
}

/// The TLB plugin: `given`, else searched for like the guest's binary.
///
/// # Errors
///
/// If there is none; the text says what builds it.
pub fn plugin(given: Option<&Path>) -> Result<PathBuf> {
    if let Some(path) = given {
        return existing(path, "--plugin");
    }
    let places = |dir: &Path| {
        [
            dir.join(PLUGIN),
            dir.join("release").join(PLUGIN),
            dir.join("debug").join(PLUGIN),
        ]
    };
    find(places).with_context(|| {
        format!(
            "no {PLUGIN}: install the package wideleaf-lab, build it with 'make build', or with \
             'cargo build --release -p wideleaf-plugin', or name it with --plugin"
        )
    })
}

fn existing(path: &Path, by: &str) -> Result<PathBuf> {
    if !path.is_file() {
        bail!("{}: no such file (given by {by})", path.display());
    }
    Ok(path.canonicalize()?)
}

/// The first place that exists, in the folders of [`folders`].
fn find<const N: usize>(places: impl Fn(&Path) -> [PathBuf; N]) -> Option<PathBuf> {
    folders()
        .iter()
        .flat_map(|dir| places(dir))
        .find(|path| path.is_file())
}

/// The named folder, then what [`near`] gives for this program.
fn folders() -> Vec<PathBuf> {
    let named = std::env::var_os(ENV).map(PathBuf::from);
    let exe = std::env::current_exe().unwrap_or_default();
    named.into_iter().chain(near(&exe)).collect()
}

/// Where the parts of the program `exe` are: `PREFIX/lib/wideleaf` of an installed
/// `PREFIX/bin/wideleaf`, else its folder and those above it up to cargo's target
/// folder: `target/<triple>/release/wideleaf` lies three deep.
fn near(exe: &Path) -> impl Iterator<Item = PathBuf> {
    let installed = exe
        .ancestors()
        .nth(2)
        .map(|prefix| prefix.join("lib/wideleaf"));
    let own = exe.ancestors().skip(1).take(4).map(Path::to_owned);
    installed.into_iter().chain(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_given_file_must_exist() {
        let error = plugin(Some(Path::new("/nonexistent/x.so"))).unwrap_err();
        assert!(error.to_string().contains("/nonexistent/x.so"), "{error}");
        let this = std::env::current_exe().unwrap();
        assert_eq!(guest_binary(Arch::Arm64, Some(&this)).unwrap(), this);
    }

    #[test]
    fn an_installed_program_has_its_parts_in_lib() {
        let first = near(Path::new("/usr/bin/wideleaf")).next();
        assert_eq!(first, Some("/usr/lib/wideleaf".into()));
    }

    #[test]
    fn cargos_target_folder_is_searched() {
        // This test runs from target/debug/deps.
        let exe = std::env::current_exe().unwrap();
        let deps = exe.parent().unwrap().to_owned();
        assert_eq!(folders().iter().filter(|dir| **dir == deps).count(), 1);
        assert!(folders().contains(&deps.parent().unwrap().parent().unwrap().to_owned()));
    }
}
