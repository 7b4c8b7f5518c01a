// SPDX-License-Identifier: GPL-2.0-only
//! Why text that was made at run time is mapped as it is.

use crate::advice::Advice;
use crate::settings::Setting;
use serde::Serialize;

/// Why a mapping is not mapped wide, or that it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    /// All whole blocks that hold anything are wide.
    Wide,
    /// There is no whole block.
    NoBlock,
    /// No whole block holds anything.
    Unpopulated,
    /// Its page tables cannot be seen.
    Unseen,
    /// The process forbids it for all of its memory.
    Disabled,
    /// The process forbids it for this mapping.
    Refused,
    /// The kernel is set to make no such folios.
    Off,
    /// The kernel makes them where it is asked, and was not.
    NotAsked,
    /// The kernel may, and has not.
    NotYet,
}

/// All that decides about a mapping.
pub(crate) struct State {
    /// Whole blocks.
    pub(crate) blocks: u64,
    /// Those of which something is in memory; none if that cannot be seen.
    pub(crate) populated: Option<u64>,
    /// Those that a PMD maps.
    pub(crate) wide: u64,
    pub(crate) disabled: bool,
    pub(crate) advice: Advice,
    pub(crate) setting: Setting,
}

impl State {
    pub(crate) fn why(&self) -> Why {
        match (self.blocks, self.populated) {
            (0, _) => return Why::NoBlock,
            (_, None) => return Why::Unseen,
            (_, Some(0)) => return Why::Unpopulated,
            (_, Some(populated)) if self.wide >= populated => return Why::Wide,
            _ => {}
        }
        match (self.disabled, self.advice, self.setting) {
            (true, ..) => Why::Disabled,
            (_, Advice::Narrow, _) => Why::Refused,
            (_, _, Setting::Never) => Why::Off,
            (_, Advice::None, Setting::Advised) => Why::NotAsked,
            _ => Why::NotYet,
        }
    }
}

impl Why {
    /// A short name that does not change, for scripts.
    pub fn name(self) -> &'static str {
        match self {
            Self::Wide => "wide",
            Self::NoBlock => "no-block",
            Self::Unpopulated => "unpopulated",
            Self::Unseen => "unseen",
            Self::Disabled => "disabled",
            Self::Refused => "refused",
            Self::Off => "off",
            Self::NotAsked => "not-asked",
            Self::NotYet => "not-yet",
        }
    }

    /// The same in words.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Wide => "leaves of a PMD's size map each whole block that is in use",
            Self::NoBlock => {
                "holds no whole, aligned block of a PMD's size, so no such leaf can map any of it"
            }
            Self::Unpopulated => {
                "is reserved: nothing is in its whole blocks yet, and collapse leaves them so"
            }
            Self::Unseen => "the leaves that map it cannot be seen without root",
            Self::Disabled => {
                "the process, or what started it, forbids such folios for all its memory \
                 (PR_SET_THP_DISABLE)"
            }
            Self::Refused => "the program forbids it for this memory (MADV_NOHUGEPAGE)",
            Self::Off => {
                "the kernel is set to never: transparent_hugepage/enabled for private memory, \
                 shmem_enabled for shared"
            }
            Self::NotAsked => {
                "the kernel makes such folios where it is asked (MADV_HUGEPAGE), and the program \
                 has not asked"
            }
            Self::NotYet => {
                "the kernel may, and has not: pages came one by one, and khugepaged has not come \
                 by; collapse does it now"
            }
        }
    }

    /// Whether `wideleaf collapse` can make it wide.
    pub fn collapses(self) -> bool {
        matches!(self, Self::Off | Self::NotAsked | Self::NotYet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_obstacle_is_named() {
        let state = |blocks, populated, wide, disabled, advice, setting| {
            let state = State {
                blocks,
                populated,
                wide,
                disabled,
                advice,
                setting,
            };
            state.why()
        };
        use {Advice as A, Setting as S};
        let cases = [
            (state(0, Some(0), 0, true, A::None, S::Never), Why::NoBlock),
            (state(2, None, 0, false, A::None, S::Always), Why::Unseen),
            (
                state(2, Some(0), 0, false, A::None, S::Never),
                Why::Unpopulated,
            ),
            (state(2, Some(1), 1, false, A::None, S::Never), Why::Wide),
            (
                state(2, Some(2), 1, true, A::Wide, S::Always),
                Why::Disabled,
            ),
            (
                state(2, Some(2), 0, false, A::Narrow, S::Always),
                Why::Refused,
            ),
            (state(2, Some(2), 0, false, A::Wide, S::Never), Why::Off),
            (
                state(2, Some(2), 0, false, A::None, S::Advised),
                Why::NotAsked,
            ),
            (
                state(2, Some(2), 0, false, A::Wide, S::Advised),
                Why::NotYet,
            ),
            (state(2, Some(2), 0, false, A::None, S::Always), Why::NotYet),
        ];
        for (found, expected) in cases {
            assert_eq!(found, expected);
        }
    }
}
