// SPDX-License-Identifier: GPL-2.0-only
//! What must be installed, looked for before any work begins.

use crate::Arch;
use crate::config::Fragment;
use crate::toolchain::cross;
use anyhow::{Result, bail};
use std::io::Write;
use std::process::{Command, Stdio};

/// Something that is not installed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Missing {
    /// The program or header.
    pub what: String,
    /// The Debian package that has it.
    pub package: String,
}

/// Programs that get a source out of Debian's archive, and their packages.
const OF_PACKAGES: [(&str, &str); 6] = [
    ("apt-cache", "apt"),
    ("apt-get", "apt"),
    ("dpkg", "dpkg"),
    ("dpkg-deb", "dpkg"),
    ("tar", "tar"),
    ("xz", "xz-utils"),
];

/// Programs that every build runs, and their packages.
const PROGRAMS: [(&str, &str); 9] = [
    ("bc", "bc"),
    ("bison", "bison"),
    ("flex", "flex"),
    ("gcc", "gcc"),
    ("git", "git"),
    ("ld", "binutils"),
    ("make", "make"),
    ("perl", "perl"),
    ("awk", "mawk"),
];

/// Options that make the build's own tools include OpenSSL's headers.
const NEED_OPENSSL: [&str; 3] = [
    "CONFIG_MODULE_SIG=y",
    "CONFIG_SYSTEM_TRUSTED_KEYRING=y",
    "CONFIG_IMA_APPRAISE_MODSIG=y",
];

/// What is missing to build kernels for these architectures.
pub fn missing(arches: &[Arch]) -> Vec<Missing> {
    missing_with(arches, true, &[], &has_program, &has_header)
}

/// Fails if something is missing to build for `arch` from `fragments`; `of_package`: from Debian's
/// source.
pub(crate) fn require(arch: Arch, of_package: bool, fragments: &[Fragment]) -> Result<()> {
    let missing = missing_with(&[arch], of_package, fragments, &has_program, &has_header);
    if missing.is_empty() {
        return Ok(());
    }
    let what: Vec<_> = missing.iter().map(|m| m.what.as_str()).collect();
    bail!(
        "cannot build for {arch}: missing {}. As root, on Debian: apt-get install {}",
        what.join(", "),
        packages(&missing).join(" ")
    )
}

/// The packages to install, each once.
pub fn packages(missing: &[Missing]) -> Vec<String> {
    let mut packages: Vec<_> = missing.iter().map(|m| m.package.clone()).collect();
    packages.sort();
    packages.dedup();
    packages
}

fn missing_with(
    arches: &[Arch],
    of_package: bool,
    fragments: &[Fragment],
    has_program: &dyn Fn(&str) -> bool,
    has_header: &dyn Fn(&str) -> bool,
) -> Vec<Missing> {
    let mut missing = Vec::new();
    let mut need = |there: bool, what: &str, package: &str| {
        if !there {
            missing.push(Missing {
                what: what.into(),
                package: package.into(),
            });
        }
    };
    let of_packages = OF_PACKAGES.iter().filter(|_| of_package);
    for &(program, package) in PROGRAMS.iter().chain(of_packages) {
        need(has_program(program), program, package);
    }
    for &arch in arches {
        let triplet = cross(arch);
        if !triplet.is_empty() {
            let suffix = triplet.trim_end_matches('-').replace('_', "-");
            for (tool, package) in [("gcc", "gcc"), ("ld", "binutils")] {
                let tool = format!("{triplet}{tool}");
                need(has_program(&tool), &tool, &format!("{package}-{suffix}"));
            }
        }
    }
    if !has_program("gcc") {
        return missing;
    }
    need(has_header("stdio.h"), "stdio.h", "libc6-dev");
    if arches.contains(&Arch::X86_64) {
        // objtool, which x86-64 always runs
        need(has_header("gelf.h"), "gelf.h", "libelf-dev");
    }
    let signs = |fragment: &Fragment| NEED_OPENSSL.iter().any(|o| fragment.text.contains(o));
    if fragments.iter().any(signs) {
        need(has_header("openssl/evp.h"), "openssl/evp.h", "libssl-dev");
    }
    missing
}

fn has_program(name: &str) -> bool {
    wideleaf_kit::tool::find(name).is_some()
}

/// Whether the host's compiler finds a header; where it lies differs.
fn has_header(name: &str) -> bool {
    let mut gcc = Command::new("gcc");
    gcc.args(["-E", "-x", "c", "-o", "/dev/null", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let Ok(mut child) = gcc.spawn() else {
        return false;
    };
    if let Some(mut stdin) = child.stdin.take() {
        let _ = writeln!(stdin, "#include <{name}>");
    }
    child.wait().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packages_without(absent: &[&str], arch: Arch, fragments: &[Fragment]) -> Vec<String> {
        let has = |name: &str| !absent.contains(&name);
        packages(&missing_with(&[arch], true, fragments, &has, &has))
    }

    #[test]
    fn nothing_missing_nothing_said() {
        for &arch in Arch::ALL {
            assert!(packages_without(&[], arch, &[]).is_empty());
        }
    }

    #[test]
    fn a_missing_program_names_its_package() {
        assert_eq!(
            packages_without(&["flex", "xz", "dpkg", "dpkg-deb"], Arch::Arm64, &[]),
            ["dpkg", "flex", "xz-utils"]
        );
    }

    #[test]
    fn an_own_tree_needs_nothing_of_debian() {
        let has = |name: &str| !["apt-get", "apt-cache", "dpkg", "dpkg-deb", "xz"].contains(&name);
        assert!(missing_with(&[Arch::X86_64], false, &[], &has, &has).is_empty());
        assert!(!missing_with(&[Arch::X86_64], true, &[], &has, &has).is_empty());
    }

    #[test]
    fn a_missing_cross_compiler_names_its_package() {
        let (arch, tool, package) = match Arch::host() {
            Some(Arch::Arm64) => (Arch::X86_64, "x86_64-linux-gnu-gcc", "gcc-x86-64-linux-gnu"),
            _ => (
                Arch::Arm64,
                "aarch64-linux-gnu-gcc",
                "gcc-aarch64-linux-gnu",
            ),
        };
        assert_eq!(packages_without(&[tool], arch, &[]), [package]);
    }

    #[test]
    fn headers_only_where_they_are_needed() {
        let absent = ["gelf.h", "openssl/evp.h"];
        assert_eq!(packages_without(&absent, Arch::X86_64, &[]), ["libelf-dev"]);
        assert!(packages_without(&absent, Arch::Arm64, &[]).is_empty());
        let signing = [Fragment {
            path: "f".into(),
            text: "CONFIG_MODULE_SIG=y\n".into(),
        }];
        assert_eq!(
            packages_without(&absent, Arch::Arm64, &signing),
            ["libssl-dev"]
        );
    }

    #[test]
    fn headers_are_looked_for_as_the_compiler_does() {
        assert!(!has_header("no/such/header.h"));
        assert!(has_program("sh") && !has_program("no-such-program"));
    }
}
