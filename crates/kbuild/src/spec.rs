// SPDX-License-Identifier: GPL-2.0-only
//! What a kernel is asked for by: base, architecture, page size, variant.

use crate::{Base, Commit, Distribution, KernelDir, Variant};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use wideleaf_kit::arch::{Arch, PageSize};

/// A kernel to be had.
#[derive(Clone, Debug)]
pub struct Spec {
    /// The base.
    pub base: Base,
    /// The architecture it runs on.
    pub arch: Arch,
    /// The base page size; must be one of [`Arch::page_sizes`].
    pub page_size: PageSize,
    /// What of our series it has.
    pub variant: Variant,
    /// The distribution's configuration that it has; `None`: the lab's own, of fragments.
    pub distribution: Option<Distribution>,
    /// Names of further fragments in `kernel/config`, such as `debug`, in the
    /// order they are merged.
    pub extras: Vec<String>,
    /// Names of fragments that the distribution's configuration must have come true; nothing is
    /// merged for them, so that one kernel serves many jobs.
    pub required: Vec<String>,
    /// Name of a fault ([`crate::faults`]) that the kernel gets, on top of its series if it has one,
    /// by which a job is seen to notice it.
    pub plant: Option<String>,
    /// The Debian version of the source, to compare kernels of the same one;
    /// `None` is the newest there is.
    pub version: Option<String>,
    /// Somebody's own source, instead of the base's: the base then says whose fragments are taken.
    pub commit: Option<Commit>,
    /// Where our kernel files are.
    pub files: KernelDir,
}

impl Spec {
    /// A kernel of the newest source version, without extras.
    pub fn new(
        base: Base,
        arch: Arch,
        page_size: PageSize,
        variant: Variant,
        files: KernelDir,
    ) -> Self {
        Self {
            base,
            arch,
            page_size,
            variant,
            distribution: None,
            extras: Vec::new(),
            required: Vec::new(),
            plant: None,
            version: None,
            commit: None,
            files,
        }
    }

    /// Has these fragments merged too, after those it has, in this order. One that it has already is
    /// not named again, so that the same kernel has one name.
    pub fn add_extras(&mut self, names: impl IntoIterator<Item = impl Into<String>>) {
        for name in names.into_iter().map(Into::into) {
            if !self.extras.contains(&name) {
                self.extras.push(name);
            }
        }
    }

    /// The object folder's name part: `arm64-64K`, `arm64-4K-debug` or `arm64-4K-debian-cloud`.
    pub fn flavour(&self) -> String {
        let mut name = format!("{}-{}", self.arch, self.page_size);
        if let Some(distribution) = &self.distribution {
            name.push('-');
            name.push_str(&distribution.name());
        }
        for extra in &self.extras {
            name.push('-');
            name.push_str(extra);
        }
        name
    }
}

/// A kernel that was built.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kernel {
    /// The base.
    pub base: Base,
    /// The Debian version of the source, `6.12.117-1~deb12u1`; of somebody's own source its own.
    pub version: String,
    /// Somebody's own source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<Commit>,
    /// What `uname -r` says in it: `6.12.117`.
    pub release: String,
    /// The architecture.
    pub arch: Arch,
    /// The base page size.
    pub page_size: PageSize,
    /// What of our series it has.
    pub variant: Variant,
    /// The file QEMU boots: `Image` on arm64, the ELF file `vmlinux` on x86-64.
    pub image: PathBuf,
    /// Hash over the options in `config`, comments and order left out.
    pub config_hash: String,
    /// The final `.config`.
    pub config: PathBuf,
    /// The symbol table.
    pub system_map: PathBuf,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn names_round_trip() {
        for &base in Base::ALL {
            assert_eq!(base.name().parse(), Ok(base));
        }
    }

    #[test]
    fn a_fragment_that_is_named_twice_makes_no_other_kernel() {
        let files = KernelDir::at(Path::new("../../kernel")).unwrap();
        let (arch, size) = (Arch::Arm64, PageSize::K4);
        let mut spec = Spec::new(Base::V6_12, arch, size, Variant::Pristine, files);
        spec.add_extras(["linear"]);
        spec.add_extras(["linear", "others", "others"].map(String::from));
        assert_eq!(spec.flavour(), "arm64-4K-linear-others");
        assert_eq!(spec.extras, ["linear", "others"]);
    }

    #[test]
    fn unknown_names_list_the_known() {
        let error = "6.13".parse::<Base>().unwrap_err().to_string();
        assert_eq!(error, "unknown base '6.13': known are 6.12, 7.3");
    }
}
