// SPDX-License-Identifier: GPL-2.0-only
//! Each allocation that a change of the linear map makes is made to fail once, those for split
//! leaves among them.

use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use wideleaf_guest::kit::inject::Nth;
use wideleaf_guest::kit::linear;
use wideleaf_guest::kit::linear::LinearReport;
use wideleaf_guest::kit::linear_change::{Filter, LONGEST, Secret, compile};

/// Allocations of one change, at most.
const MOST: u32 = 200;

/// How long the map may take to be wide before the next change, so that it has something to split.
const WIDE: Duration = Duration::from_secs(10);

/// What is made. True if there was memory for it; it is dropped at once.
type Change = fn() -> Result<bool>;

const CHANGES: [(&str, Change); 4] = [
    ("a page of secret memory", || secret(1)),
    ("seven pages of secret memory", || secret(7)),
    ("an interpreted filter", || filter(false)),
    ("a compiled filter", || filter(true)),
];

fn secret(pages: usize) -> Result<bool> {
    let len = pages * wideleaf_bench::page_size() as usize;
    let secret = Secret::new(len, 7)?;
    secret.as_ref().map_or(Ok(()), Secret::check)?;
    Ok(secret.is_some())
}

fn filter(compiled: bool) -> Result<bool> {
    compile(compiled);
    Ok(Filter::new(LONGEST)?.is_some())
}

/// Does each change again and again, with its first, its second allocation failing, until it has
/// no more. Each comes to a result or says that there is no memory.
pub fn each(report: &mut LinearReport) -> Result<()> {
    let boot = report.moments[0].leaves.clone();
    let nth = Nth::new()?;
    let (mut failed, mut refused) = (0, 0);
    for (name, change) in CHANGES {
        for number in 1.. {
            ensure!(number <= MOST, "{name}: no end of its allocations");
            until_wide(&boot);
            let (made, reached) = nth.fails(number, change)?;
            let made = made.with_context(|| format!("{name}, without allocation {number}"))?;
            if !reached {
                ensure!(made, "{name}: refused, though no allocation failed");
                break;
            }
            failed += 1;
            refused += u64::from(!made);
        }
    }
    report.counts.insert("failed_one_by_one".into(), failed);
    report.counts.insert("refused_one_by_one".into(), refused);
    Ok(())
}

fn until_wide(boot: &BTreeMap<String, u64>) {
    let begun = Instant::now();
    while linear::narrower(boot, &linear::leaves()) > 0 && begun.elapsed() < WIDE {
        std::thread::sleep(Duration::from_millis(50));
    }
}
