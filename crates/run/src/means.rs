// SPDX-License-Identifier: GPL-2.0-only
//! The ways to wide text, by name.

/// A way to have a program's text mapped wide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Means {
    /// The file itself, read into folios of a leaf's size.
    Fill,
    /// A copy on a huge tmpfs, in a mount namespace.
    Namespace,
    /// MADV_COLLAPSE in the page cache.
    Collapse,
    /// glibc's own, for libraries.
    Tunable,
    /// As it is.
    None,
}

impl Means {
    /// All of them.
    pub const ALL: [Means; 5] = [
        Self::Fill,
        Self::Namespace,
        Self::Collapse,
        Self::Tunable,
        Self::None,
    ];
    /// Those that are tried if none is named, best first.
    pub const USUAL: [Means; 4] = [Self::Fill, Self::Namespace, Self::Collapse, Self::Tunable];

    /// As the command line has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fill => "fill",
            Self::Namespace => "namespace",
            Self::Collapse => "collapse",
            Self::Tunable => "tunable",
            Self::None => "none",
        }
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|means| means.name() == name)
    }
}
