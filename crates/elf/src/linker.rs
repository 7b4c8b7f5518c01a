// SPDX-License-Identifier: GPL-2.0-only
//! The linker that made a file. lld and mold sign in `.comment`, gold leaves a note, Go
//! its own; GNU ld signs nowhere. Distributions strip `.comment` (dh_strip
//! does), so the layout has to do where it is characteristic.

use crate::Segment;
use crate::sections::Marks;
use serde::Serialize;
use std::fmt;

/// The linkers that we know flags for, and Go's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LinkerName {
    /// GNU ld, the BFD linker
    Gnu,
    /// GNU gold
    Gold,
    /// LLVM's lld
    Lld,
    /// mold
    Mold,
    /// Go's internal linker
    Go,
    /// Not to be told
    Unknown,
}

/// How we know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Evidence {
    /// The linker's own mark in the file.
    Mark,
    /// The compiler's comments are there, another linker's mark is not.
    Elimination,
    /// The order and places of the segments.
    Layout,
    /// None.
    Nothing,
}

/// The linker that made a file, and how we know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Linker {
    /// The linker.
    pub name: LinkerName,
    /// Its version, if it left one.
    pub version: Option<String>,
    /// How we know.
    pub evidence: Evidence,
}

impl fmt::Display for LinkerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            LinkerName::Gnu => "GNU ld",
            LinkerName::Gold => "gold",
            LinkerName::Lld => "lld",
            LinkerName::Mold => "mold",
            LinkerName::Go => "Go",
            LinkerName::Unknown => "unknown",
        })
    }
}

impl Linker {
    pub(crate) fn unknown() -> Self {
        Linker::without_version(LinkerName::Unknown, Evidence::Nothing)
    }

    fn without_version(name: LinkerName, evidence: Evidence) -> Self {
        Linker {
            name,
            version: None,
            evidence,
        }
    }

    fn marked(name: LinkerName, version: &str) -> Self {
        // What a file says ends up on terminals: take what looks like a version.
        let plain = |v: &&str| v.len() <= 32 && v.chars().all(|c| c.is_ascii_graphic());
        let version = version.split_whitespace().next().filter(plain);
        let version = version.map(str::to_string);
        Linker {
            name,
            version,
            evidence: Evidence::Mark,
        }
    }

    pub(crate) fn detect(marks: &Marks, segments: &[Segment], sections: bool) -> Self {
        if let Some(linker) = marks.comments.iter().find_map(|c| from_comment(c)) {
            return linker;
        }
        if let Some(gold) = &marks.gold {
            let version = gold.strip_prefix("gold ").unwrap_or(gold);
            return Linker::marked(LinkerName::Gold, version);
        }
        if marks.go {
            return Linker::without_version(LinkerName::Go, Evidence::Mark);
        }
        match from_layout(segments, sections) {
            // lld 17 and mold fill the last page of RELRO; mold signs, unless it was stripped.
            LinkerName::Unknown if marks.relro_padding => {
                Linker::without_version(LinkerName::Lld, Evidence::Layout)
            }
            LinkerName::Unknown if !marks.comments.is_empty() => {
                Linker::without_version(LinkerName::Gnu, Evidence::Elimination)
            }
            LinkerName::Unknown => Linker::unknown(),
            name => Linker::without_version(name, Evidence::Layout),
        }
    }
}

fn from_comment(comment: &str) -> Option<Linker> {
    if let Some(version) = comment.strip_prefix("mold ") {
        return Some(Linker::marked(LinkerName::Mold, version));
    }
    let name = comment.strip_prefix("Linker: ")?;
    // "LLD 22.1.0", "Debian LLD 14.0.6", "Ubuntu LLD 18.1.3"
    Some(match name.split_once("LLD ") {
        Some((_, version)) => Linker::marked(LinkerName::Lld, version),
        None => Linker::without_version(LinkerName::Unknown, Evidence::Mark),
    })
}

/// lld and mold let the code follow the constants at the next byte of the
/// file, with the address moved up by a page for each segment. GNU ld starts
/// code on a page of the file, with its constants in a read-only segment
/// after it, or has code and constants in the first segment. gold does the
/// latter too, but leaves its note unless all sections are gone.
fn from_layout(segments: &[Segment], sections: bool) -> LinkerName {
    let Some(text) = segments.iter().position(Segment::is_text) else {
        return LinkerName::Unknown;
    };
    let read_only = |s: &Segment| !s.write && !s.execute;
    let page_aligned = |s: &Segment| s.offset.is_multiple_of(4096);
    let code = &segments[text];
    if text == 0 {
        let headers = code.offset == 0;
        return if headers && sections {
            LinkerName::Gnu
        } else {
            LinkerName::Unknown
        };
    }
    if !page_aligned(code) && segments[..text].iter().all(read_only) {
        return LinkerName::Lld;
    }
    let after = segments.get(text + 1);
    if page_aligned(code) && after.is_some_and(|s| read_only(s) && page_aligned(s)) {
        return LinkerName::Gnu;
    }
    LinkerName::Unknown
}

impl fmt::Display for Linker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.name, self.evidence) {
            (LinkerName::Lld, Evidence::Layout) => f.write_str("lld or mold")?,
            (name, _) => write!(f, "{name}")?,
        }
        if let Some(version) = &self.version {
            write!(f, " {version}")?;
        }
        match self.evidence {
            Evidence::Layout => f.write_str(" (by its layout)"),
            Evidence::Elimination => f.write_str(" (no other's mark)"),
            Evidence::Mark | Evidence::Nothing => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comment(text: &str) -> Option<Linker> {
        from_comment(text)
    }

    #[test]
    fn the_signatures_of_lld_and_mold_are_read_with_their_versions() {
        let cases = [
            ("Linker: LLD 22.1.0", LinkerName::Lld, "22.1.0"),
            ("Linker: Debian LLD 14.0.6", LinkerName::Lld, "14.0.6"),
            (
                "mold 1.10.1 (compatible with GNU ld)",
                LinkerName::Mold,
                "1.10.1",
            ),
        ];
        for (text, name, version) in cases {
            let linker = comment(text).expect(text);
            assert_eq!(linker.name, name);
            assert_eq!(linker.version.as_deref(), Some(version));
        }
        assert_eq!(comment("GCC: (Debian 12.2.0-14) 12.2.0"), None);
    }

    #[test]
    fn a_section_that_only_lld_and_mold_make_tells_them_from_gnu_ld() {
        let mut marks = Marks {
            comments: vec!["clang version 21.0.0".to_owned()],
            ..Marks::default()
        };
        let found = |marks: &Marks| Linker::detect(marks, &[], true);
        assert_eq!(found(&marks).name, LinkerName::Gnu);
        marks.relro_padding = true;
        assert_eq!(found(&marks).to_string(), "lld or mold (by its layout)");
    }

    #[test]
    fn a_version_that_would_control_a_terminal_is_dropped() {
        let linker = comment("Linker: LLD \u{1b}[2Jx").unwrap();
        assert_eq!((linker.name, linker.version), (LinkerName::Lld, None));
    }

    #[test]
    fn a_linker_that_we_do_not_know_is_not_taken_for_gnu_ld() {
        let linker = comment("Linker: Wild version 0.5").unwrap();
        assert_eq!(linker.name, LinkerName::Unknown);
    }
}
