// SPDX-License-Identifier: GPL-2.0-only
//! Text that processes have made while they run, in words: `ps` and `inspect` show it.

use std::collections::BTreeMap;
use wideleaf_jit::{Account, Made, Why};
use wideleaf_kit::names::printable;
use wideleaf_kit::size::{bytes, short};
use wideleaf_kit::table::{Table, left, right};

/// Sums over mappings that are as they are for one reason.
#[derive(Default)]
struct Sum {
    mappings: u64,
    size: u64,
    resident: u64,
    wide: u64,
    blocks: u64,
    populated: Option<u64>,
}

/// One process: a table by reason, what the reasons mean, the runtime's switch and what can be done
/// now. `pmd` in bytes; `width` in columns; `exact`: bytes as plain numbers.
pub fn report(account: &Account, pmd: u64, width: usize, exact: bool) -> String {
    let by = account.runtime.map_or("a program", |runtime| runtime.name);
    let head = format!("{} {}: text that {by} has made", account.pid, account.name);
    let mut text = format!("{}\n", printable(&head));
    text += &table(account, pmd, exact);
    let reasons = sums(account);
    for why in reasons.keys() {
        text += &paragraph(&format!("{}: {}", why.name(), why.meaning()), width);
    }
    if let Some(runtime) = account.runtime {
        text += &paragraph(
            &format!("switch of {}: {}", runtime.name, runtime.switch),
            width,
        );
    }
    let collapsible = account.made.iter().filter(|made| made.why.collapses());
    let blocks: u64 = collapsible.map(narrow).sum();
    if blocks > 0 {
        text += &paragraph(
            &format!(
                "without a restart: wideleaf collapse {} makes up to {} of it wide; addresses stay, \
                 and with them perf's map files",
                account.pid,
                bytes(blocks * pmd, exact)
            ),
            width,
        );
    }
    text
}

/// Blocks that hold something and are not wide.
fn narrow(made: &Made) -> u64 {
    made.populated.unwrap_or(0).saturating_sub(made.wide)
}

fn sums(account: &Account) -> BTreeMap<Why, Sum> {
    let mut sums: BTreeMap<Why, Sum> = BTreeMap::new();
    for made in &account.made {
        let sum = sums.entry(made.why).or_default();
        sum.mappings += 1;
        sum.size += made.coverage.size;
        sum.resident += made.coverage.resident;
        sum.wide += made.wide;
        sum.blocks += made.blocks;
        if let Some(populated) = made.populated {
            *sum.populated.get_or_insert(0) += populated;
        }
    }
    sums
}

fn table(account: &Account, pmd: u64, exact: bool) -> String {
    let unknown = || "?".to_owned();
    let mut table = Table::new([
        left("REASON"),
        right("MAPPINGS"),
        right("SIZE"),
        right("RESIDENT"),
        right(short(pmd)),
        right("BLOCKS"),
        right("IN-USE"),
    ])
    .indent("  ");
    for (why, sum) in sums(account) {
        let seen = |text: String| sum.populated.map_or_else(unknown, |_| text);
        table.row([
            why.name().to_owned(),
            sum.mappings.to_string(),
            bytes(sum.size, exact),
            seen(bytes(sum.resident, exact)),
            seen(bytes(sum.wide * pmd, exact)),
            sum.blocks.to_string(),
            sum.populated
                .map_or_else(unknown, |blocks| blocks.to_string()),
        ]);
    }
    table.render(true)
}

fn paragraph(text: &str, width: usize) -> String {
    let options = textwrap::Options::new(width)
        .initial_indent("  ")
        .subsequent_indent("    ")
        .word_splitter(textwrap::WordSplitter::NoHyphenation);
    textwrap::fill(text, options) + "\n"
}
