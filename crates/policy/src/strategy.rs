// SPDX-License-Identifier: GPL-2.0-only
//! Rules that the simulator knows, and how they are written.

use std::fmt;
use std::str::FromStr;

/// A rule: reads of a fault, and blocks that are collapsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strategy {
    /// Reads of a fault that misses.
    pub read: Reading,
    /// Which blocks of 2M are copied into one folio, if any are. Pages that are missing of
    /// them are read.
    pub collapse: Option<Collapse>,
    /// How much may be read beyond what narrow reads would have read: 2M for each file, and this
    /// many percent of that.
    pub credit: Option<u8>,
}

/// Reads of a fault that misses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// As Linux 6.12 does: around the fault, and not at all after a hundred misses.
    Pristine612,
    /// As Linux 7.3 does: from the fault on.
    Pristine73,
    /// As 7.3 with the exec order set to 2M, whatever the mapping.
    Fixed2M,
    /// As the series reads does, `exec_read()`, but for the window's place and size.
    Exec {
        /// Percent of the window that are read before the fault; 0 in the series.
        before: u8,
        /// Percent of it that are read from the fault on; 100 in the series.
        after: u8,
    },
    /// A whole block of 2M if the mapping holds it and nothing of it is there.
    Size,
    /// The same if faults of this file found their blocks dense enough before.
    Density {
        /// Resident share of the blocks that narrow reads have visited.
        percent: u8,
        /// How many these have to be.
        blocks: u32,
    },
}

/// When a block of 2M is collapsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collapse {
    /// Share of it that is resident at least; 0 is one page.
    pub percent: u8,
    /// At which moment.
    pub when: When,
}

/// At which moment blocks are collapsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// After each fault, so that later ones find the block whole.
    Fault,
    /// After the last touch, the fullest first: by a thread that comes too late for a first run.
    Idle,
}

impl Reading {
    /// Whether all that a read brought is mapped at once.
    pub(crate) fn is_patched(self) -> bool {
        !matches!(
            self,
            Self::Pristine612 | Self::Pristine73 | Self::Fixed2M | Self::Exec { .. }
        )
    }
}

impl Strategy {
    /// It reads so, and does nothing else.
    pub const fn reads(read: Reading) -> Self {
        Self {
            read,
            collapse: None,
            credit: None,
        }
    }
}

/// Names that stand for themselves, and what is read then.
const READINGS: [(&str, Reading); 5] = [
    ("6.12", Reading::Pristine612),
    ("7.3", Reading::Pristine73),
    ("fixed-2M", Reading::Fixed2M),
    ("size", Reading::Size),
    (
        "exec_read",
        Reading::Exec {
            before: 0,
            after: 100,
        },
    ),
];

/// Rules that have a name, and what they are in our words: upstream's, and that of our series.
const NAMED: [(&str, &str); 2] = [
    ("khugepaged", "7.3+idle:0"),
    ("patched", "exec_read+collapse:50"),
];

/// How rules are written.
const GRAMMAR: &str = "a way of reading (6.12, 7.3, fixed-2M, size, exec_read[:BEFORE:AFTER], or \
    density:PERCENT[:BLOCKS]), with +collapse:PERCENT or +idle:PERCENT, and +credit:PERCENT; \
    or khugepaged, or patched";

impl FromStr for Strategy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((_, words)) = NAMED.iter().find(|(name, _)| *name == text) {
            return words.parse();
        }
        let wrong = |part: &str| format!("'{part}' in '{text}': want {GRAMMAR}");
        let percent = |part: &str, value: &str| match value.parse() {
            Ok(percent @ 0..=100) => Ok(percent),
            _ => Err(wrong(part)),
        };
        let mut parts = text.split('+');
        let first = parts.next().unwrap_or_default();
        let known = READINGS.iter().find(|(name, _)| *name == first);
        let mut strategy = Self::reads(match (known, first.split_once(':')) {
            (Some((_, reading)), _) => *reading,
            (None, Some(("density", values))) => {
                let (share, blocks) = values.split_once(':').unwrap_or((values, "1"));
                Reading::Density {
                    percent: percent(first, share)?,
                    blocks: blocks.parse().map_err(|_| wrong(first))?,
                }
            }
            (None, Some(("exec_read", values))) => {
                let (before, after) = values.split_once(':').ok_or_else(|| wrong(first))?;
                Reading::Exec {
                    before: percent(first, before)?,
                    after: percent(first, after)?,
                }
            }
            _ => return Err(wrong(first)),
        });
        for part in parts {
            let (key, value) = part.split_once(':').ok_or_else(|| wrong(part))?;
            let value = percent(part, value)?;
            let collapse = |when| {
                Some(Collapse {
                    percent: value,
                    when,
                })
            };
            match (key, strategy.collapse, strategy.credit) {
                ("collapse", None, _) => strategy.collapse = collapse(When::Fault),
                ("idle", None, _) => strategy.collapse = collapse(When::Idle),
                ("credit", _, None) => strategy.credit = Some(value),
                _ => return Err(wrong(part)),
            }
        }
        Ok(strategy)
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut named = NAMED.iter();
        if let Some((name, _)) = named.find(|(_, words)| words.parse() == Ok(*self)) {
            return f.write_str(name);
        }
        let mut readings = READINGS.iter();
        match (readings.find(|(_, known)| *known == self.read), self.read) {
            (Some((name, _)), _) => f.write_str(name)?,
            (None, Reading::Exec { before, after }) => write!(f, "exec_read:{before}:{after}")?,
            (None, Reading::Density { percent, blocks }) => {
                write!(f, "density:{percent}:{blocks}")?;
            }
            (None, _) => unreachable!("READINGS has all ways of reading without numbers"),
        }
        if let Some(Collapse { percent, when }) = self.collapse {
            let word = match when {
                When::Fault => "collapse",
                When::Idle => "idle",
            };
            write!(f, "+{word}:{percent}")?;
        }
        self.credit
            .map_or(Ok(()), |percent| write!(f, "+credit:{percent}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_read_as_it_is_written() {
        for text in [
            "6.12",
            "7.3",
            "size",
            "khugepaged",
            "patched",
            "exec_read",
            "exec_read:25:75+collapse:50",
            "7.3+idle:50",
            "density:30:2+collapse:50+credit:25",
            "size+credit:0",
        ] {
            let strategy: Strategy = text.parse().unwrap();
            assert_eq!(strategy.to_string(), text);
        }
        assert_eq!("density:30".parse(), "density:30:1".parse::<Strategy>());
        let khugepaged: Strategy = "khugepaged".parse().unwrap();
        let one_page = Collapse {
            percent: 0,
            when: When::Idle,
        };
        assert_eq!(khugepaged.collapse, Some(one_page));
    }

    #[test]
    fn what_is_no_rule_is_named() {
        for (text, part) in [
            ("", "''"),
            ("6.13", "'6.13'"),
            ("density:101", "'density:101'"),
            ("density:30:x", "'density:30:x'"),
            ("exec_read:25", "'exec_read:25'"),
            ("exec_read:25:101", "'exec_read:25:101'"),
            ("7.3+collapse", "'collapse'"),
            ("7.3+collapse:50+idle:50", "'idle:50'"),
            ("7.3+collapse:-1", "'collapse:-1'"),
            ("7.3+credit:1+credit:2", "'credit:2'"),
            ("khugepaged+credit:25", "'khugepaged'"),
        ] {
            let error = text.parse::<Strategy>().unwrap_err();
            assert!(
                error.starts_with(part) && error.contains("want a way"),
                "{error}"
            );
        }
    }
}
