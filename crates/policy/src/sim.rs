// SPDX-License-Identifier: GPL-2.0-only
//! What a stream of faults makes each kernel read and map.
//!
//! A page cache and one page table, driven by touches of text. The pristine
//! variants follow `do_sync_mmap_readahead()`, `page_cache_ra_order()`,
//! `filemap_map_pages()` and `finish_fault()` of their base; the others decide
//! by a fixed order or by the policy core. No reclaim, no second process, no
//! timing: the lab measures those, this predicts bytes, faults and leaves.

use crate::{Account, Advice, Ground, Read, SCAN, Table, Thp, UNIT, WIDEST_SHIFT};
use serde::Serialize;

/// Who decides what a fault reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Variant {
    /// Linux 6.12 as Debian ships it.
    #[serde(rename = "6.12")]
    Pristine612,
    /// Linux 7.3 as Debian ships it.
    #[serde(rename = "7.3")]
    Pristine73,
    /// Linux 7.3 with the exec order set to 2M, whatever the fault.
    Fixed2M,
    /// The policy core, if nothing could form 2M leaves by copying.
    NoCollapse,
    /// The policy core, as the series asks it.
    Policy,
}

impl Variant {
    /// All variants, in the order in which tables show them.
    pub const ALL: [Variant; 5] = [
        Variant::Pristine612,
        Variant::Pristine73,
        Variant::Fixed2M,
        Variant::NoCollapse,
        Variant::Policy,
    ];

    /// Name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Variant::Pristine612 => "6.12",
            Variant::Pristine73 => "7.3",
            Variant::Fixed2M => "fixed-2M",
            Variant::NoCollapse => "no-collapse",
            Variant::Policy => "policy",
        }
    }
}

/// A mapping of a file's text, in bytes. It starts at file offset 0 and at an
/// address that is a multiple of 2M.
#[derive(Clone, Copy)]
pub struct Text {
    /// Leaves of the machine.
    pub table: Table,
    /// Bytes of text.
    pub size: u64,
    /// Readahead window.
    pub window: u64,
    /// Memory that may be taken before anybody has to reclaim.
    pub spare: u64,
}

/// What a run cost and what it left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// Distinct bytes touched, by whole base pages.
    pub touched: u64,
    /// Bytes read from the file.
    pub read: u64,
    /// Bytes copied to form wide leaves from narrow folios.
    pub copied: u64,
    /// Faults that found their page in the page cache.
    pub minor: u64,
    /// Faults that had to read.
    pub major: u64,
    /// 2M leaves in the page table at the end.
    pub wide: u64,
    /// TLB entries that the touched text needs at the end.
    pub entries: u64,
}

/// No folio.
const MISSING: u8 = u8::MAX;
/// `MMAP_LOTSAMISS` of mm/filemap.c.
const LOTSAMISS: u64 = 100;

struct Simulation {
    text: Text,
    variant: Variant,
    page_shift: u8,
    /// Order of the folio that holds each page.
    folio: Vec<u8>,
    mapped: Vec<bool>,
    touched: Vec<bool>,
    mmap_miss: u64,
    last: (usize, usize),
    account: Account,
    outcome: Outcome,
}

/// Runs `touches` (byte offsets into the text) under `variant`.
pub fn run(variant: Variant, text: Text, touches: &[u64]) -> Outcome {
    let page_shift = text.table.page_shift();
    let pages = (text.size >> page_shift) as usize;
    let mut machine = Simulation {
        text,
        variant,
        page_shift,
        folio: vec![MISSING; pages],
        mapped: vec![false; pages],
        touched: vec![false; pages],
        mmap_miss: 0,
        last: (0, 0),
        account: Account::default(),
        outcome: Outcome::default(),
    };
    for touch in touches {
        machine.touch((touch >> page_shift) as usize);
    }
    machine.finish()
}

impl Simulation {
    fn touch(&mut self, page: usize) {
        self.touched[page] = true;
        if self.mapped[page] {
            return;
        }
        let present = self.folio[page] != MISSING;
        if present {
            self.outcome.minor += 1;
        } else {
            self.outcome.major += 1;
            match self.variant {
                Variant::Pristine612 => self.read_612(page),
                Variant::Pristine73 => self.read_73(page, self.exec_order_73()),
                Variant::Fixed2M => self.read_73(page, 21 - self.page_shift),
                Variant::NoCollapse => self.read_policy(page, 0),
                Variant::Policy => self.read_policy(page, WIDEST_SHIFT),
            }
        }
        self.map(page, present);
    }

    fn window(&self) -> usize {
        (self.text.window >> self.page_shift) as usize
    }

    /// 7.3's exec_folio_order(): arm64 asks for 64K, x86 for nothing.
    fn exec_order_73(&self) -> u8 {
        if self.text.table.arch() == "arm64" {
            16 - self.page_shift
        } else {
            0
        }
    }

    fn read_612(&mut self, page: usize) {
        self.mmap_miss = (self.mmap_miss + 1).min(LOTSAMISS * 10);
        if self.mmap_miss > LOTSAMISS {
            self.add(page, 0);
            return;
        }
        let start = page.saturating_sub(self.window() / 2);
        let window = self.window();
        // 6.12 asks for order 0 here and page_cache_ra_order() adds two, where
        // the window has room for it.
        let order = if window < 4 { 0 } else { 2 };
        self.readahead(start, window, order);
    }

    fn read_73(&mut self, page: usize, order: u8) {
        let mask = (1usize << order) - 1;
        let start = page & !mask;
        let end = ((start + self.window() + mask) & !mask).min(self.folio.len());
        self.readahead(start, end - start, order);
    }

    fn read_policy(&mut self, page: usize, collapse: u8) {
        let page_shift = self.page_shift;
        let bytes = |pages: usize| (pages as u64) << page_shift;
        let scan = (SCAN >> self.page_shift) as usize;
        let hole = self.folio[page.saturating_sub(scan)..page]
            .iter()
            .rev()
            .take_while(|order| **order == MISSING)
            .count();
        let edge = page - hole;
        let run = self.folio[page.saturating_sub(scan)..edge]
            .iter()
            .rev()
            .take_while(|order| **order != MISSING)
            .count();
        let gap = self.folio[page..]
            .iter()
            .take(scan.max(self.window()))
            .take_while(|order| **order == MISSING)
            .count();
        let last = if self.last.0 + self.last.1 == edge {
            self.last.1
        } else {
            0
        };
        let block = page / scan * scan..(page / scan * scan + scan).min(self.folio.len());
        let filled = self.folio[block.clone()]
            .iter()
            .filter(|order| **order != MISSING)
            .count();
        let base = 1 << 40;
        let answer = crate::read(&Read {
            ground: Ground {
                table: self.text.table,
                file_size: self.text.size,
                min_order: 0,
                max_order: 21 - self.page_shift,
                thp: Thp::Always,
                enabled: true,
            },
            start: base,
            end: base + self.text.size,
            offset: 0,
            fault: base + bytes(page),
            window: self.text.window,
            spare: self.text.spare,
            hole: bytes(hole),
            run: bytes(run),
            gap: bytes(gap),
            last_size: bytes(last),
            collapse,
            filled: bytes(filled),
            // This machine has memory enough.
            evicted: false,
            advice: Advice::None,
            account: self.account,
        });
        assert!(answer.size != 0, "policy gave no answer: {answer:?}");
        self.account = answer.account;
        self.last = (
            (answer.offset >> self.page_shift) as usize,
            (answer.size >> self.page_shift) as usize,
        );
        self.readahead(self.last.0, self.last.1, answer.order);
        if answer.collapse != 0 {
            let missing = self.folio[block.clone()]
                .iter()
                .filter(|o| **o == MISSING)
                .count();
            self.outcome.read += bytes(missing);
            self.outcome.copied += bytes(block.len() - missing);
            self.folio[block.clone()].fill(WIDEST_SHIFT - self.page_shift);
            self.mapped[block].fill(true);
        }
    }

    /// `page_cache_ra_order()`: natural alignment first, then `order`; where a
    /// page is resident already, the rest page by page.
    fn readahead(&mut self, start: usize, size: usize, order: u8) {
        let end = (start + size).min(self.folio.len());
        let order = order.min(size.ilog2() as u8);
        let mut index = start;
        while index < end {
            let mut order = order;
            if index & ((1 << order) - 1) != 0 {
                order = index.trailing_zeros() as u8;
            }
            while index + (1 << order) > end {
                order -= 1;
            }
            let block = index..index + (1 << order);
            if self.folio[block.clone()]
                .iter()
                .any(|order| *order != MISSING)
            {
                break;
            }
            self.add(index, order);
            index = block.end;
        }
        for index in index..end {
            if self.folio[index] == MISSING {
                self.add(index, 0);
            }
        }
    }

    fn add(&mut self, index: usize, order: u8) {
        self.folio[index..index + (1 << order)].fill(order);
        self.outcome.read += 1u64 << (order + self.page_shift);
    }

    /// Maps what the kernel maps along with `page`.
    fn map(&mut self, page: usize, present: bool) {
        let order = self.folio[page];
        let folio = |page: usize| {
            let start = page >> order << order;
            start..start + (1 << order)
        };
        let around = (UNIT >> self.page_shift) as usize;
        let window = page / around * around..(page / around + 1) * around;
        let mut range = match self.variant {
            // All that one read brought; a page that came otherwise, with its
            // neighbours.
            Variant::NoCollapse | Variant::Policy if !present => {
                self.last.0..self.last.0 + self.last.1
            }
            Variant::NoCollapse | Variant::Policy | Variant::Fixed2M | Variant::Pristine73
                if around == 1 =>
            {
                folio(page)
            }
            // A folio of 2M is a PMD with 4K pages, and mapped as such.
            _ if self.page_shift == 12 && order + 12 == WIDEST_SHIFT => folio(page),
            _ => window,
        };
        range.end = range.end.min(self.folio.len());
        let mut hits = 0;
        for index in range {
            if self.folio[index] != MISSING {
                self.mapped[index] = true;
                hits += 1;
            }
        }
        if self.variant == Variant::Pristine612 {
            // filemap_map_pages() runs on the retry after a read as well; with
            // 64K pages it never runs, and only a hit without a read counts.
            let hits = if around > 1 { hits } else { u64::from(present) };
            self.mmap_miss = self.mmap_miss.saturating_sub(hits);
        }
    }

    fn finish(mut self) -> Outcome {
        let leaves: Vec<u8> = self
            .text
            .table
            .leaves()
            .iter()
            .map(|leaf| leaf.shift)
            .filter(|s| *s <= 21)
            .collect();
        let mut page = 0;
        while page < self.folio.len() {
            let mut leaf = self.page_shift;
            for shift in leaves.iter().rev() {
                let pages = 1usize << (shift - self.page_shift);
                let block = page..page + pages;
                if page % pages == 0
                    && block.end <= self.folio.len()
                    && self.folio[page] != MISSING
                    && self.folio[page] + self.page_shift >= *shift
                    && self.mapped[block].iter().all(|mapped| *mapped)
                {
                    leaf = *shift;
                    break;
                }
            }
            let pages = 1usize << (leaf - self.page_shift);
            let touched = self.touched[page..page + pages]
                .iter()
                .filter(|t| **t)
                .count() as u64;
            self.outcome.touched += touched << self.page_shift;
            self.outcome.entries += u64::from(touched > 0);
            self.outcome.wide += u64::from(leaf == 21);
            page += pages;
        }
        self.outcome
    }
}

/// A way of touching text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Every 4K, first to last.
    Sweep,
    /// Single 4K pieces at random, this many per mille of the text.
    Random(u64),
    /// Whole pieces of this many bytes at random places, each swept, this many
    /// per mille of the text.
    Clusters(u64, u64),
    /// A piece of 4K every so many bytes.
    Stride(u64),
    /// Single base pages of this shift at random, this many per mille.
    Pages(u8, u64),
}

/// The touches of `pattern` in `size` bytes of text, as offsets. The same seed
/// gives the same touches.
pub fn touches(pattern: Pattern, size: u64, seed: u64) -> Vec<u64> {
    const PIECE: u64 = 4096;
    let mut random = Random(seed.wrapping_mul(2).wrapping_add(1));
    match pattern {
        Pattern::Sweep => (0..size / PIECE).map(|piece| piece * PIECE).collect(),
        Pattern::Stride(stride) => (0..size / stride).map(|step| step * stride).collect(),
        Pattern::Random(permille) => touches(Pattern::Pages(12, permille), size, seed),
        Pattern::Pages(shift, permille) => {
            let mut pieces: Vec<u64> = (0..size >> shift).collect();
            let want = pieces.len() as u64 * permille / 1000;
            (0..want as usize)
                .map(|done| {
                    let rest = (pieces.len() - done) as u64;
                    pieces.swap(done, done + (random.next() % rest) as usize);
                    pieces[done] << shift
                })
                .collect()
        }
        Pattern::Clusters(length, permille) => (0..size / length * permille / 1000)
            .flat_map(|_| {
                let start = random.next() % ((size - length) / PIECE) * PIECE;
                (start..start + length).step_by(PIECE as usize)
            })
            .collect(),
    }
}

/// Steele, Lea and Flood's SplitMix64: touches must not change with a crate's
/// version.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
