// SPDX-License-Identifier: GPL-2.0-only
//! Reads and mappings that faults in the text of one file lead to.
//!
//! A page cache and one page table, driven by touches. The pristine ways follow
//! `do_sync_mmap_readahead()`, `page_cache_ra_order()`, `filemap_map_pages()` and `finish_fault()`
//! of their base; the others decide by a rule of [`Strategy`]. No reclaim, no
//! second process, no timing: the lab measures those, this predicts bytes, faults and leaves.

use crate::exec_read::{Fault, exec_read};
use crate::strategy::{Collapse, Reading, Strategy, When};
use crate::{Table, WIDEST_SHIFT};
use serde::Serialize;
use std::ops::{AddAssign, Range};

/// A file that is mapped, on a machine.
#[derive(Clone)]
pub(crate) struct Machine {
    /// Leaves of the machine.
    pub table: Table,
    /// Bytes in the file.
    pub file_size: u64,
    /// The mappings of its text.
    pub texts: Vec<Mapped>,
    /// Readahead window.
    pub window: u64,
    /// Whether 6.12 reads ahead where its marker in the page cache is touched.
    pub markers: bool,
}

/// A mapping of text, as the series aligns it.
#[derive(Clone)]
pub(crate) struct Mapped {
    /// Bytes of the file.
    pub range: Range<u64>,
    /// Log2 of the widest power of two that divides address − offset.
    pub congruent: u8,
}

/// Costs of a run, and the leaves that it left.
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
    /// Bytes touched, by whole base pages, that 2M leaves map at the end.
    pub wide_touched: u64,
    /// Bytes touched in blocks of 2M that their mapping holds: more than these can never be wide.
    pub held_touched: u64,
    /// TLB entries that the touched text needs at the end.
    pub entries: u64,
}

impl AddAssign for Outcome {
    fn add_assign(&mut self, other: Self) {
        self.touched += other.touched;
        self.read += other.read;
        self.copied += other.copied;
        self.minor += other.minor;
        self.major += other.major;
        self.wide += other.wide;
        self.wide_touched += other.wide_touched;
        self.held_touched += other.held_touched;
        self.entries += other.entries;
    }
}

/// Bytes that a fault maps around itself: the default of `fault_around_bytes`.
const AROUND: u64 = 1 << 16;
/// Bytes of a block that one folio may hold.
const BLOCK: u64 = 1 << WIDEST_SHIFT;
/// No folio.
const MISSING: u8 = u8::MAX;
/// `MMAP_LOTSAMISS` of mm/filemap.c.
const LOTSAMISS: u64 = 100;

/// A block of 2M that narrow reads have visited.
struct Visited {
    start: usize,
    /// Its resident pages when it was collapsed, if it was.
    collapsed: Option<usize>,
}

struct Simulation {
    machine: Machine,
    strategy: Strategy,
    page_shift: u8,
    /// Order of the folio that holds each page.
    folio: Vec<u8>,
    mapped: Vec<bool>,
    touched: Vec<bool>,
    /// Pages in folios with PG_readahead.
    marked: Vec<bool>,
    /// struct file_ra_state: start, size and how much of that was read ahead.
    ahead: (usize, usize, usize),
    mmap_miss: u64,
    /// The last read: start and size.
    last: (usize, usize),
    /// Blocks of 2M that narrow reads have visited.
    visited: Vec<Visited>,
    /// Bytes that a narrow read would have read, and those read beyond that.
    demand: u64,
    extra: u64,
    outcome: Outcome,
}

/// Runs `touches` (byte offsets into the file) under `strategy`.
pub(crate) fn run(strategy: Strategy, machine: &Machine, touches: &[u64]) -> Outcome {
    let page_shift = machine.table.page_shift();
    let pages = machine.file_size.div_ceil(1 << page_shift) as usize;
    let mut simulation = Simulation {
        machine: machine.clone(),
        strategy,
        page_shift,
        folio: vec![MISSING; pages],
        mapped: vec![false; pages],
        touched: vec![false; pages],
        marked: vec![false; pages],
        ahead: (0, 0, 0),
        mmap_miss: 0,
        last: (0, 0),
        visited: Vec::new(),
        demand: 0,
        extra: 0,
        outcome: Outcome::default(),
    };
    for touch in touches {
        simulation.touch((touch >> page_shift) as usize);
    }
    simulation.finish()
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
            if self.marked[page] {
                self.read_on(page);
            }
        } else {
            self.outcome.major += 1;
            self.read(page);
        }
        self.map(page, present);
        if let Some(
            collapse @ Collapse {
                when: When::Fault, ..
            },
        ) = self.strategy.collapse
            && let Some(block) = self.block(page)
        {
            self.collapse(&block, collapse);
        }
    }

    fn read(&mut self, page: usize) {
        let before = self.outcome.read;
        match self.strategy.read {
            Reading::Pristine612 => self.read_612(page),
            Reading::Pristine73 => self.read_73(page, self.exec_order_73()),
            Reading::Fixed2M => self.read_73(page, WIDEST_SHIFT - self.page_shift),
            Reading::Exec { before, after } => self.read_exec(page, before, after),
            Reading::Size => self.read_block_if(page, |_, _| true),
            Reading::Density { percent, blocks } => {
                self.read_block_if(page, |this, block| this.is_dense(block, percent, blocks));
            }
        }
        self.demand += (self.outcome.read - before).min(self.machine.window);
    }

    fn bytes(&self, pages: usize) -> u64 {
        (pages as u64) << self.page_shift
    }

    fn pages(&self, bytes: u64) -> usize {
        (bytes >> self.page_shift) as usize
    }

    fn window(&self) -> usize {
        self.pages(self.machine.window)
    }

    /// Pages of the mapping that `page` is in.
    fn text(&self, page: usize) -> (Range<usize>, u8) {
        let in_pages = |text: &Mapped| {
            let last = self.pages(text.range.end - 1).min(self.folio.len() - 1);
            self.pages(text.range.start)..last + 1
        };
        let mut texts = self.machine.texts.iter();
        let text = texts.find(|text| in_pages(text).contains(&page));
        text.map_or((0..self.folio.len(), self.page_shift), |text| {
            (in_pages(text), text.congruent)
        })
    }

    /// The block of 2M around a page, if its mapping holds it.
    fn block(&self, page: usize) -> Option<Range<usize>> {
        let pages = self.pages(BLOCK);
        let block = page / pages * pages..page / pages * pages + pages;
        let (text, congruent) = self.text(page);
        let held = text.start <= block.start && block.end <= text.end;
        (held && congruent >= WIDEST_SHIFT).then_some(block)
    }

    fn resident(&self, block: &Range<usize>) -> usize {
        let folios = self.folio[block.clone()].iter();
        folios.filter(|order| **order != MISSING).count()
    }

    /// 7.3's exec_folio_order(): arm64 asks for 64K, x86 for nothing.
    fn exec_order_73(&self) -> u8 {
        if self.machine.table.arch() == "arm64" {
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
        self.read_ahead(start, window, window / 4, order);
    }

    /// Reads, and marks the folio from whose touch on 6.12 reads more.
    fn read_ahead(&mut self, start: usize, size: usize, ahead: usize, order: u8) {
        self.ahead = (start, size, ahead);
        self.readahead(start, size, order);
        let mark = start + size - ahead;
        if self.machine.markers && ahead > 0 && mark < self.folio.len() {
            let order = self.folio[mark];
            if order != MISSING {
                self.marked[mark >> order << order] = true;
            }
        }
    }

    /// `page_cache_async_ra()` of 6.12, for a fault on a marked page.
    fn read_on(&mut self, page: usize) {
        self.marked[page] = false;
        let (start, size, ahead) = self.ahead;
        let order = self.folio[page];
        let window = self.window();
        if page == (start + size - ahead) >> order << order {
            self.read_ahead(start + size, window, window, order + 2);
            return;
        }
        let behind = &self.folio[page + 1..];
        let miss = behind
            .iter()
            .take(window)
            .position(|order| *order == MISSING);
        if let Some(miss) = miss {
            self.read_ahead(page + 1 + miss, window, window, order + 2);
        }
    }

    /// Not before the mapping, nor behind it.
    fn read_73(&mut self, page: usize, order: u8) {
        let (text, _) = self.text(page);
        let mask = (1usize << order) - 1;
        let start = (page & !mask).max(text.start);
        let end = ((start + self.window() + mask) & !mask).min(text.end);
        self.readahead(start, end - start, order);
        self.last = (start, end - start);
    }

    /// Reads the block of 2M that the fault is in as a whole if nothing of it is there and `wanted`
    /// says so, and else as 7.3 does.
    fn read_block_if(&mut self, page: usize, wanted: impl Fn(&Self, &Range<usize>) -> bool) {
        if let Some(block) = self.block(page)
            && self.resident(&block) == 0
            && wanted(self, &block)
            && self.can_spend(self.beyond_window(&block))
        {
            self.extra += self.beyond_window(&block);
            self.readahead(block.start, block.len(), WIDEST_SHIFT - self.page_shift);
            self.last = (block.start, block.len());
            return;
        }
        if let Some(block) = self.block(page)
            && !self.visited.iter().any(|seen| seen.start == block.start)
        {
            self.visited.push(Visited {
                start: block.start,
                collapsed: None,
            });
        }
        self.read_73(page, self.exec_order_73());
    }

    /// As the series reads does, `exec_mmap_readahead()`, with `back` percent of the window before
    /// the fault and `after` percent from it on. Blocks that fill up are another's business.
    fn read_exec(&mut self, page: usize, back: u8, after: u8) {
        let Some(block) = self.block(page) else {
            return self.read_73(page, self.exec_order_73());
        };
        let at = page - block.start;
        let before = page - if at > 0 { at } else { block.len().min(page) };
        let answer = exec_read(&Fault {
            block: block.len() as u32,
            at: at as u32,
            before: self.resident(&(before..page)) as u32,
            cached: self.resident(&block) as u32,
            window: self.window() as u32,
            // This machine has memory enough.
            short_of_memory: false,
        });
        let (text, _) = self.text(page);
        if answer.whole {
            let mut size = 0;
            while size == 0
                || size + block.len() <= self.window()
                    && block.start + size + block.len() <= text.end
            {
                let order = WIDEST_SHIFT - self.page_shift;
                self.readahead(block.start + size, block.len(), order);
                size += block.len();
            }
            self.last = (block.start, size);
            return;
        }
        let order = self.exec_order_73();
        let mask = (1usize << order) - 1;
        let share = |percent: u8| self.window() * usize::from(percent) / 100;
        let first = page.saturating_sub(share(back)).max(block.start);
        let start = (first & !mask).max(text.start);
        let last = (page & !mask).max(text.start) + answer.pages as usize - share(100 - after);
        let mut end = ((last.max(page + 1) + mask) & !mask).min(text.end);
        if self.window() < block.len() {
            end = end.min(block.end);
        }
        self.readahead(start, end - start, order);
        self.last = (start, end - start);
    }

    /// Bytes beyond a window that a read of all of a block brings.
    fn beyond_window(&self, block: &Range<usize>) -> u64 {
        self.bytes(block.len()).saturating_sub(self.machine.window)
    }

    /// Whether so many bytes beyond demand may be read.
    fn can_spend(&self, bytes: u64) -> bool {
        self.strategy.credit.is_none_or(|percent| {
            self.extra + bytes <= BLOCK + self.demand * u64::from(percent) / 100
        })
    }

    /// Whether at least `percent` of the blocks that narrow reads have visited is resident, and these
    /// are at least `blocks`. Pages that a collapse read do not count.
    fn is_dense(&self, block: &Range<usize>, percent: u8, blocks: u32) -> bool {
        let resident = |seen: &Visited| {
            let whole = seen.start..seen.start + block.len();
            seen.collapsed.unwrap_or_else(|| self.resident(&whole))
        };
        let resident: usize = self.visited.iter().map(resident).sum();
        let count = self.visited.len();
        count >= blocks as usize && resident * 100 >= usize::from(percent) * count * block.len()
    }

    /// Copies a block into one folio, and reads what is missing of it.
    fn collapse(&mut self, block: &Range<usize>, collapse: Collapse) {
        let wide = WIDEST_SHIFT - self.page_shift;
        let resident = self.resident(block);
        let missing = block.len() - resident;
        let enough = resident > 0 && resident * 100 >= usize::from(collapse.percent) * block.len();
        if self.folio[block.start] == wide || !enough || !self.can_spend(self.bytes(missing)) {
            return;
        }
        self.extra += self.bytes(missing);
        self.make_wide(block);
    }

    fn make_wide(&mut self, block: &Range<usize>) {
        let resident = self.resident(block);
        if let Some(seen) = self
            .visited
            .iter_mut()
            .find(|seen| seen.start == block.start)
        {
            seen.collapsed = Some(resident);
        }
        self.outcome.read += self.bytes(block.len() - resident);
        self.outcome.copied += self.bytes(resident);
        self.folio[block.clone()].fill(WIDEST_SHIFT - self.page_shift);
        self.mapped[block.clone()].fill(true);
        self.marked[block.clone()].fill(false);
    }

    /// `page_cache_ra_order()`: natural alignment first, then `order`; where a
    /// page is resident already, the rest page by page.
    fn readahead(&mut self, start: usize, size: usize, order: u8) {
        let end = (start + size).min(self.folio.len());
        let order = order.min(size.max(1).ilog2() as u8);
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
            if self.resident(&block) > 0 {
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
        let around = self.pages(AROUND);
        let window = page / around * around..(page / around + 1) * around;
        let patched = self.strategy.read.is_patched();
        let whole = self.block(page);
        let mut range = match self.strategy.read {
            // All that one read brought; a page that came otherwise, with its
            // neighbours.
            _ if patched && !present => self.last.0..self.last.0 + self.last.1,
            // All of what the contiguous bit maps, where that is 2M; and with 4K pages for a program
            // that seems to go straight through the block.
            Reading::Exec { .. }
                if whole.is_some()
                    && (self.page_shift > 12 || !present && page.is_multiple_of(2 * around)) =>
            {
                whole.unwrap_or(window)
            }
            Reading::Fixed2M | Reading::Pristine73 | Reading::Exec { .. } if around == 1 => {
                folio(page)
            }
            _ if patched && around == 1 => folio(page),
            // A folio of 2M is a PMD with 4K pages, and mapped as such.
            _ if self.page_shift == 12 && order + 12 == WIDEST_SHIFT => folio(page),
            _ => window,
        };
        let (text, _) = self.text(page);
        range = range.start.max(text.start)..range.end.min(text.end);
        let mut hits = 0;
        for index in range {
            // A marked page is left out, so that its fault is seen.
            if self.folio[index] != MISSING && (!self.marked[index] || index == page) {
                self.mapped[index] = true;
                hits += 1;
            }
        }
        if self.strategy.read == Reading::Pristine612 {
            // filemap_map_pages() runs on the retry after a read as well; with
            // 64K pages it never runs, and only a hit without a read counts.
            let hits = if around > 1 { hits } else { u64::from(present) };
            self.mmap_miss = self.mmap_miss.saturating_sub(hits);
        }
    }

    fn finish(mut self) -> Outcome {
        if let Some(
            collapse @ Collapse {
                when: When::Idle, ..
            },
        ) = self.strategy.collapse
        {
            self.collapse_the_fullest(collapse);
        }
        let mut page = 0;
        while page < self.folio.len() {
            let leaf = self.leaf(page);
            let pages = 1usize << (leaf - self.page_shift);
            let end = (page + pages).min(self.folio.len());
            let touched = self.touched[page..end].iter().filter(|t| **t).count();
            let touched = self.bytes(touched);
            self.outcome.touched += touched;
            self.outcome.entries += u64::from(touched > 0);
            if leaf == WIDEST_SHIFT {
                self.outcome.wide += 1;
                self.outcome.wide_touched += touched;
            }
            page = end;
        }
        let touched = self
            .touched
            .iter()
            .enumerate()
            .filter(|(_, touched)| **touched);
        let held = touched
            .filter(|(page, _)| self.block(*page).is_some())
            .count();
        self.outcome.held_touched = self.bytes(held);
        self.outcome
    }

    /// All blocks of which something is there, those first of which most is.
    fn collapse_the_fullest(&mut self, collapse: Collapse) {
        let pages = self.pages(BLOCK);
        let blocks = (0..self.folio.len()).step_by(pages);
        let mut blocks: Vec<_> = blocks.filter_map(|page| self.block(page)).collect();
        blocks.sort_by_key(|block| std::cmp::Reverse(self.resident(block)));
        for block in blocks {
            self.collapse(&block, collapse);
        }
    }

    /// Log2 of the leaf that maps what begins at `page`.
    fn leaf(&self, page: usize) -> u8 {
        let (text, congruent) = self.text(page);
        let leaves = self.machine.table.leaves().iter().rev();
        let shifts = leaves.map(|leaf| leaf.shift);
        let fits = |shift: &u8| {
            let block = page..page + (1usize << (shift - self.page_shift));
            page.is_multiple_of(block.len())
                && *shift <= congruent
                && text.start <= block.start
                && block.end <= text.end
                && self.folio[page] != MISSING
                && self.folio[page] + self.page_shift >= *shift
                && self.mapped[block].iter().all(|mapped| *mapped)
        };
        let mut shifts = shifts.filter(|shift| (self.page_shift..=WIDEST_SHIFT).contains(shift));
        shifts.find(fits).unwrap_or(self.page_shift)
    }
}
