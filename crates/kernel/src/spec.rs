// SPDX-License-Identifier: GPL-2.0-only
//! What a kernel is asked for by: base, architecture, page size, variant.

use crate::KernelDir;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// A name that is none of the known ones.
#[derive(Debug, PartialEq, Eq)]
pub struct Unknown {
    what: &'static str,
    value: String,
    known: String,
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, value, known } = self;
        write!(f, "unknown {what} '{value}': known are {known}")
    }
}

impl std::error::Error for Unknown {}

/// An enum whose values are named on the command line, in paths and in JSON.
macro_rules! named {
    ($(#[$doc:meta])* $name:ident, $what:literal, { $($(#[$vdoc:meta])* $value:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum $name {
            $($(#[$vdoc])* #[serde(rename = $text)] $value,)*
        }

        impl $name {
            /// All values, in the order they are listed to users.
            pub const ALL: &'static [Self] = &[$(Self::$value),*];

            /// The name, as on the command line, in paths and in JSON.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$value => $text,)* }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }

        impl FromStr for $name {
            type Err = Unknown;

            fn from_str(value: &str) -> Result<Self, Unknown> {
                Self::ALL.iter().copied().find(|known| known.name() == value).ok_or_else(|| Unknown {
                    what: $what,
                    value: value.into(),
                    known: Self::ALL.iter().map(|known| known.name()).collect::<Vec<_>>().join(", "),
                })
            }
        }
    };
}

named!(
    /// A kernel base: a Debian package `linux-source-<base>`.
    Base, "base", {
        /// Linux 6.12 LTS, the durable default.
        V6_12 = "6.12",
        /// Linux 7.3, the forward base.
        V7_3 = "7.3",
    }
);

named!(
    /// A guest architecture.
    Arch, "architecture", {
        /// AArch64, little endian.
        Arm64 = "arm64",
        /// x86-64.
        X86_64 = "x86_64",
    }
);

named!(
    /// A base page size.
    PageSize, "page size", {
        /// 4 KiB.
        K4 = "4K",
        /// 16 KiB.
        K16 = "16K",
        /// 64 KiB.
        K64 = "64K",
    }
);

named!(
    /// With or without the series, or with a part of it.
    Variant, "variant", {
        /// The base as Debian ships it.
        Pristine = "pristine",
        /// With the first steps of the series, up to the line that names this
        /// variant: text is read by a constant order, that of the contpte leaf.
        FixedContpte = "fixed-contpte",
        /// With our overlay and patches.
        Patched = "patched",
    }
);

impl Base {
    /// The Debian package that holds the source.
    pub fn package(self) -> String {
        format!("linux-source-{self}")
    }
}

impl Variant {
    /// Whether there is such a kernel for `arch`: x86-64 has no contpte leaf.
    pub fn exists_on(self, arch: Arch) -> bool {
        self != Self::FixedContpte || arch == Arch::Arm64
    }
}

impl Arch {
    /// The base page sizes that this architecture has.
    pub const fn page_sizes(self) -> &'static [PageSize] {
        match self {
            Self::Arm64 => PageSize::ALL,
            Self::X86_64 => &[PageSize::K4],
        }
    }

    /// The page size that shows most: 64K on arm64, the only one on x86-64.
    pub const fn default_page_size(self) -> PageSize {
        match self {
            Self::Arm64 => PageSize::K64,
            Self::X86_64 => PageSize::K4,
        }
    }

    /// The architecture of this machine, if it is one of the known.
    pub fn host() -> Option<Self> {
        match std::env::consts::ARCH {
            "aarch64" => Some(Self::Arm64),
            "x86_64" => Some(Self::X86_64),
            _ => None,
        }
    }
}

impl PageSize {
    /// Bytes in a page.
    pub const fn bytes(self) -> u64 {
        match self {
            Self::K4 => 4 << 10,
            Self::K16 => 16 << 10,
            Self::K64 => 64 << 10,
        }
    }
}

/// A kernel to be had.
#[derive(Clone, Debug)]
pub struct Spec {
    /// The base.
    pub base: Base,
    /// The architecture it runs on.
    pub arch: Arch,
    /// The base page size; must be one of [`Arch::page_sizes`].
    pub page_size: PageSize,
    /// Pristine or patched.
    pub variant: Variant,
    /// Names of further fragments in `kernel/config`, such as `debug`, in the
    /// order they are merged.
    pub extras: Vec<String>,
    /// The Debian version of the source, to compare kernels of the same one;
    /// `None` is the newest there is.
    pub version: Option<String>,
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
            extras: Vec::new(),
            version: None,
            files,
        }
    }

    /// The object folder's name part: `arm64-64K` or `arm64-4K-debug`.
    pub fn flavour(&self) -> String {
        let mut name = format!("{}-{}", self.arch, self.page_size);
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
    /// The Debian version of the source: `6.12.117-1~deb12u1`.
    pub version: String,
    /// What `uname -r` says in it: `6.12.117`.
    pub release: String,
    /// The architecture.
    pub arch: Arch,
    /// The base page size.
    pub page_size: PageSize,
    /// Pristine or patched.
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

    #[test]
    fn names_round_trip() {
        for &base in Base::ALL {
            assert_eq!(base.name().parse(), Ok(base));
        }
        for &size in PageSize::ALL {
            assert_eq!(size.name().parse(), Ok(size));
            let json = serde_json::to_string(&size).unwrap();
            assert_eq!(json, format!("\"{size}\""));
        }
    }

    #[test]
    fn unknown_names_list_the_known() {
        let error = "6.13".parse::<Base>().unwrap_err().to_string();
        assert_eq!(error, "unknown base '6.13': known are 6.12, 7.3");
    }
}
