// SPDX-License-Identifier: GPL-2.0-only
//! What all files together have, and could have.

use crate::Found;
use serde::Serialize;
use std::collections::BTreeMap;
use wideleaf_elf::Cause;

/// Sums over what was found.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Summary {
    /// Programs and libraries.
    pub files: u64,
    /// Bytes of text in them.
    pub text: u64,
    /// Bytes of text that 2M leaves can map as the files are.
    pub usable: u64,
    /// Bytes of text that 2M leaves could map in addition.
    pub gain: u64,
    /// ELF files that are not loaded: objects, core dumps, debug files.
    pub not_loadable: u64,
    /// Further names of files that were counted already.
    pub same: u64,
    /// Files and directories that could not be read.
    pub errors: u64,
    /// By cause of the deciding text segment.
    pub causes: BTreeMap<Cause, Share>,
}

/// A cause's share.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Share {
    /// Files.
    pub files: u64,
    /// Bytes of their text.
    pub text: u64,
    /// Bytes of it that 2M leaves could map in addition.
    pub gain: u64,
}

/// Adds up.
pub fn summary(found: &Found) -> Summary {
    let mut sum = Summary {
        files: found.entries.len() as u64,
        not_loadable: found.not_loadable,
        same: found.same,
        errors: found.errors.len() as u64,
        ..Summary::default()
    };
    for entry in &found.entries {
        let verdict = &entry.verdict;
        sum.text += verdict.text;
        sum.usable += verdict.usable;
        sum.gain += verdict.gain;
        if let Some(main) = verdict.main() {
            let share = sum.causes.entry(main.cause).or_default();
            share.files += 1;
            share.text += verdict.text;
            share.gain += verdict.gain;
        }
    }
    sum
}
