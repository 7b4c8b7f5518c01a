// SPDX-License-Identifier: GPL-2.0-only
//! Accounts for each byte of a program's text: it is wide, or something holds it narrow. Says too
//! which mappings have other whole blocks than `wideleaf inspect` predicts.

use super::{Predicted, Reach, Worked};
use std::collections::BTreeMap;
use wideleaf_guest::kit::trace::Mapped;
use wideleaf_kbuild::SeriesName;
use wideleaf_kit::size::{parse, short};
use wideleaf_lab::results::BootResult;
use wideleaf_lab::results::figures::{Figure, Figures, figure};
use wideleaf_lab::results::row;
use wideleaf_outlook::Kernel;

/// Mapped by the widest leaf that its address and offset allow, and that is wider than a page.
const WIDE: &str = "wide";

/// No entry maps it: its process has not touched it, nor has a fault close by mapped it.
const UNTOUCHED: &str = "untouched";

/// In a whole block, which the kernel maps by narrower leaves.
const KERNEL: &str = "kernel";

/// In a mapping with whole blocks, before the first or behind the last.
const ENDS: &str = "ends";

/// In a mapping without a whole block of a file that allows one: it is loaded at another address.
const ADDRESS: &str = "address";

/// Of a file that is not ELF, or gone.
const NOT_ELF: &str = "not ELF";

/// The figures of each program.
pub(super) fn figures() -> Vec<Figure> {
    vec![
        figure(
            "<program>.account.<reason>",
            "bytes",
            "of text at the end, in all processes, that are `wide`; `untouched`; in whole blocks \
             that the `kernel` maps narrower; at the `ends` of a mapping that has whole blocks; or \
             in a mapping without any, for the reason that `inspect` gives",
        ),
        figure(
            "<program>.mappings",
            "mappings",
            "of text at the end with whole blocks, by `inspect` or by their addresses",
        ),
        figure(
            "<program>.disagreements",
            "mappings",
            "of these, whose whole blocks are not those that `inspect` predicts",
        ),
    ]
}

/// The account of a program's text.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Account {
    /// Bytes by what holds them narrow.
    reasons: BTreeMap<String, u64>,
    /// Mappings that were held against a prediction.
    mappings: u64,
    /// A sentence for each that differs from it.
    differing: Vec<String>,
}

/// That of a program in a run.
pub(super) fn account(run: &BootResult, worked: &Worked) -> Account {
    let (page, kernel) = (run.guest.page_size, kernel(run));
    let coverage = run.coverage.iter().map(|coverage| (coverage.id, coverage));
    let coverage: BTreeMap<_, _> = coverage.collect();
    let mut account = Account::default();
    let text = worked.text.iter().filter(|part| part.block > 0);
    let text: Vec<_> = text.cloned().collect();
    for mapping in text.chunk_by(|one, next| one.mapping == next.mapping) {
        let predicted = predicted(worked, mapping);
        let reason = reason(mapping, page, predicted);
        for part in mapping {
            if let Some(coverage) = coverage.get(&part.id) {
                account.add(part, page, reason, &coverage.leaves);
            }
        }
        let segment = predicted.zip(kernel);
        if let Some(reach) = segment.and_then(|(segment, kernel)| reach(segment, mapping, kernel)) {
            account.compare(mapping, reach, page);
        }
    }
    account
}

/// The kernel, as `inspect` names it. The series align text only where huge pages are for all.
fn kernel(run: &BootResult) -> Option<Kernel> {
    let aligns = run.variant.series().contains(&SeriesName::Align);
    let always = run.guest.thp.get("enabled");
    let always = always.is_some_and(|enabled| enabled.contains("[always]"));
    match aligns {
        true => always.then_some(Kernel::Patched),
        // Both pristine kernels can reach the same.
        false => Some(Kernel::Pristine73),
    }
}

fn predicted<'w>(worked: &'w Worked, mapping: &[Mapped]) -> Option<&'w Predicted> {
    let first = mapping.first()?;
    let segments = worked
        .predicted
        .iter()
        .filter(|segment| segment.file == first.file);
    // Two segments may share a page of the file.
    let begins = segments
        .clone()
        .find(|segment| segment.offset == first.offset);
    begins.or_else(|| {
        let mut segments = segments;
        segments
            .find(|segment| (segment.offset..segment.offset + segment.len).contains(&first.offset))
    })
}

/// How wide a kernel can make a mapping, if that is the whole segment.
fn reach<'w>(segment: &'w Predicted, mapping: &[Mapped], kernel: Kernel) -> Option<&'w Reach> {
    let len: u64 = mapping.iter().map(|part| part.len).sum();
    let whole = mapping.first()?.offset == segment.offset && len == segment.len;
    whole.then(|| segment.kernels.get(kernel.name())).flatten()
}

/// Why what is in no block of a wide leaf is not.
fn reason<'w>(mapping: &[Mapped], page: u64, predicted: Option<&'w Predicted>) -> &'w str {
    let verdict = predicted.map(|predicted| predicted.verdict.as_str());
    match verdict {
        _ if mapping.iter().any(|part| part.block > page) => ENDS,
        None => NOT_ELF,
        Some("good" | "good (mmap)") => ADDRESS,
        Some(verdict) => verdict,
    }
}

impl Account {
    /// Adds a part of a mapping, `leaves` of which map so many bytes each, and `unmapped`.
    fn add(&mut self, part: &Mapped, page: u64, reason: &str, leaves: &BTreeMap<String, u64>) {
        for (leaf, bytes) in leaves.iter().filter(|(_, bytes)| **bytes > 0) {
            let why = match parse(leaf) {
                Err(_) => UNTOUCHED,
                Ok(_) if part.block <= page => reason,
                Ok(leaf) if leaf < part.block => KERNEL,
                Ok(_) => WIDE,
            };
            *self.reasons.entry(why.into()).or_default() += bytes;
        }
    }

    /// Holds a mapping against what a kernel can make of it. A file that nothing aligns may be
    /// loaded at a better address by chance, so blocks may be more than predicted at sizes to which
    /// the file is not sure to be aligned.
    fn compare(&mut self, mapping: &[Mapped], reach: &Reach, page: u64) {
        let mut blocks = BTreeMap::<u64, u64>::new();
        for part in mapping {
            *blocks.entry(part.block).or_default() += part.len;
        }
        let sizes = blocks.keys().chain(reach.leaves.keys());
        let sizes: Vec<_> = sizes.copied().filter(|size| *size > page).collect();
        self.mappings += u64::from(!sizes.is_empty());
        // In blocks of this size, or larger ones.
        let from =
            |of: &BTreeMap<u64, u64>, size| of.range(size..).map(|(_, len)| len).sum::<u64>();
        let differs = sizes.into_iter().find(|&size| {
            let (is, should) = (from(&blocks, size), from(&reach.leaves, size));
            is < should || (is > should && size <= reach.aligned)
        });
        if let (Some(size), Some(first)) = (differs, mapping.first()) {
            self.differing.push(format!(
                "{} at {:#x}: {} in blocks of {} or more, not {}",
                first.file,
                first.start,
                short(from(&blocks, size)),
                short(size),
                short(from(&reach.leaves, size))
            ));
        }
    }

    /// Its figures, for the program `name`.
    pub(super) fn measure(&self, name: &str, figures: &mut Figures) {
        for (reason, bytes) in &self.reasons {
            figures.put(
                format!("{name}.account.{}", reason.replace(' ', "-")),
                *bytes,
            );
        }
        figures.put(format!("{name}.mappings"), self.mappings);
        figures.put(format!("{name}.disagreements"), self.disagreements());
    }

    /// Mappings that are not as `inspect` predicts.
    pub(super) fn disagreements(&self) -> u64 {
        self.differing.len() as u64
    }

    /// Shares of all text by reason, the largest first.
    pub(super) fn shares(&self) -> String {
        match self.reasons.is_empty() {
            true => "-".into(),
            false => row::shares(&self.reasons, self.reasons.values().sum()),
        }
    }

    /// Whether whole blocks are as `inspect` predicts.
    pub(super) fn agreement(&self) -> String {
        match self.differing.first() {
            None if self.mappings == 0 => "-".into(),
            None => format!("{0} of {0} mappings agree", self.mappings),
            Some(first) => format!(
                "{} of {} mappings differ: {first}",
                self.differing.len(),
                self.mappings
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const K4: u64 = 4 << 10;
    const M2: u64 = 2 << 20;

    /// Parts of a file with these lengths and blocks, from `start` on.
    fn parts(start: u64, offset: u64, parts: &[(u64, u64)]) -> Vec<Mapped> {
        let mut at = 0;
        let mut part = |len: u64, block: u64| {
            let part = Mapped {
                id: 0,
                file: "/x".into(),
                start: start + at,
                len,
                offset: offset + at,
                block,
                mapping: start,
            };
            at += len;
            part
        };
        parts.iter().map(|&(len, block)| part(len, block)).collect()
    }

    fn reach(aligned: u64, leaves: &[(u64, u64)]) -> Reach {
        let leaves = leaves.iter().copied().collect();
        Reach { aligned, leaves }
    }

    fn with(verdict: &str) -> Predicted {
        Predicted {
            verdict: verdict.into(),
            ..Predicted::default()
        }
    }

    #[test]
    fn each_byte_is_wide_or_has_a_reason() {
        let mut account = Account::default();
        let text = parts(M2 - K4, M2 - K4, &[(K4, K4), (2 * M2, M2)]);
        let leaves =
            |of: &[(&str, u64)]| of.iter().map(|&(leaf, len)| (leaf.into(), len)).collect();
        let ends = reason(&text, K4, None);
        account.add(&text[0], K4, ends, &leaves(&[("4K", K4), ("unmapped", 0)]));
        let blocks = leaves(&[("2M", M2), ("64K", 64 << 10), ("unmapped", M2 - (64 << 10))]);
        account.add(&text[1], K4, ends, &blocks);
        let expected = [
            (ENDS, K4),
            (KERNEL, 64 << 10),
            (UNTOUCHED, M2 - (64 << 10)),
            (WIDE, M2),
        ];
        let expected = expected.map(|(why, len)| (why.to_string(), len));
        assert_eq!(account.reasons, BTreeMap::from(expected));
        assert_eq!(account.reasons.values().sum::<u64>(), 2 * M2 + K4);
    }

    #[test]
    fn a_mapping_without_blocks_is_narrow_for_what_inspect_says() {
        let text = parts(M2, K4, &[(3 * M2, K4)]);
        let shifted = with("page shift");
        assert_eq!(reason(&text, K4, Some(&shifted)), "page shift");
        assert_eq!(reason(&text, K4, Some(&with("good (mmap)"))), ADDRESS);
        assert_eq!(reason(&text, K4, None), NOT_ELF);
        // It has a block of 64K, though none of 2M.
        let text = parts(M2, M2, &[(64 << 10, 64 << 10), (K4, K4)]);
        assert_eq!(reason(&text, K4, Some(&with("straddles"))), ENDS);
    }

    #[test]
    fn of_segments_that_share_a_page_the_one_that_begins_there_is_meant() {
        let segment = |offset, verdict| Predicted {
            file: "/x".into(),
            offset,
            len: M2,
            ..with(verdict)
        };
        let worked = Worked {
            predicted: vec![segment(0, "good"), segment(M2 - K4, "straddles")],
            ..Worked::default()
        };
        let found = |offset| predicted(&worked, &parts(0, offset, &[(K4, K4)])).cloned();
        assert_eq!(found(M2 - K4).unwrap().verdict, "straddles");
        assert_eq!(found(K4).unwrap().verdict, "good");
        assert_eq!(found(2 * M2), None);
    }

    #[test]
    fn blocks_that_differ_from_what_was_predicted_are_named() {
        let compare = |parts: &[Mapped], reach: &Reach| {
            let mut account = Account::default();
            account.compare(parts, reach, K4);
            account.differing
        };
        let wide = parts(M2, M2, &[(M2, M2), (K4, K4)]);
        let narrow = parts(M2 + K4, M2, &[(M2 + K4, K4)]);
        let sure = reach(M2, &[(M2, M2), (K4, K4)]);
        assert!(compare(&wide, &sure).is_empty());
        let differing = compare(&narrow, &sure);
        assert_eq!(
            differing,
            ["/x at 0x201000: 0 in blocks of 2M or more, not 2M"]
        );
        // Luck is no disagreement, where nothing aligns the file.
        let any = reach(K4, &[(K4, M2 + K4)]);
        assert!(compare(&wide, &any).is_empty());
        assert_eq!(compare(&wide, &Reach { aligned: M2, ..any }).len(), 1);
    }

    #[test]
    fn a_mapping_that_no_wide_leaf_fits_counts_for_nothing() {
        let mut account = Account::default();
        account.compare(&parts(M2, 0, &[(K4, K4)]), &reach(M2, &[(K4, K4)]), K4);
        assert_eq!((account.mappings, account.agreement()), (0, "-".into()));
    }
}
