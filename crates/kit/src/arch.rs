// SPDX-License-Identifier: GPL-2.0-only
//! The architectures and base page sizes that Wideleaf knows, and how they are
//! named.

use std::fmt;

/// A name that is none of the known ones.
#[derive(Debug, PartialEq, Eq)]
pub struct Unknown {
    /// What it should name.
    pub what: &'static str,
    /// The name.
    pub value: String,
    /// The known ones.
    pub known: String,
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, value, known } = self;
        write!(f, "unknown {what} '{value}': known are {known}")
    }
}

impl std::error::Error for Unknown {}

/// An enum whose values are named on the command line, in paths and in JSON.
#[macro_export]
macro_rules! named {
    ($(#[$doc:meta])* $name:ident, $what:literal, { $($(#[$vdoc:meta])* $value:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
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

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::arch::Unknown;

            fn from_str(value: &str) -> Result<Self, $crate::arch::Unknown> {
                Self::ALL.iter().copied().find(|known| known.name() == value).ok_or_else(|| $crate::arch::Unknown {
                    what: $what,
                    value: value.into(),
                    known: Self::ALL.iter().map(|known| known.name()).collect::<Vec<_>>().join(", "),
                })
            }
        }
    };
}

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

    /// The architecture that this program was compiled for, if it is one of the
    /// known.
    pub fn host() -> Option<Self> {
        Self::of_machine(std::env::consts::ARCH)
    }

    /// From the name that uname(2), Rust and QEMU have for it.
    pub fn of_machine(name: &str) -> Option<Self> {
        match name {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for &arch in Arch::ALL {
            assert_eq!(arch.name().parse(), Ok(arch));
        }
        for &size in PageSize::ALL {
            assert_eq!(size.name().parse(), Ok(size));
            let json = serde_json::to_string(&size).unwrap();
            assert_eq!(json, format!("\"{size}\""));
            assert_eq!(format!("{}K", size.bytes() >> 10), size.name());
        }
    }

    #[test]
    fn other_names_are_refused_with_the_known() {
        let error = "riscv".parse::<Arch>().unwrap_err().to_string();
        assert_eq!(
            error,
            "unknown architecture 'riscv': known are arm64, x86_64"
        );
        assert_eq!(Arch::of_machine("aarch64"), Some(Arch::Arm64));
        assert_eq!(Arch::of_machine("riscv64"), None);
    }
}
