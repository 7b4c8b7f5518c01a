// SPDX-License-Identifier: GPL-2.0-only
//! Which pages of memory user mode has executed from, in the order of their first fetch.
//!
//! Pages are 4K of physical memory, whatever the guest's page: all processes that map a file's page
//! share it. Which file that is, the guest tells afterwards: it maps the file, and the page tables
//! lead to the same memory.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use wideleaf_tlb::report::Touched;

/// The record, and the answers to questions about it.
#[derive(Default)]
pub struct Touches {
    on: AtomicBool,
    record: Mutex<Record>,
    identified: Mutex<Vec<Touched>>,
}

#[derive(Default)]
struct Record {
    /// QEMU's own pages that need no walk any more.
    host_pages: HashSet<u64>,
    /// Places in the order, by number of the 4K page of memory.
    places: HashMap<u64, u32>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Touches {
    /// Begins a record, or ends the one that there is.
    pub fn switch(&self, on: bool) {
        if on {
            *lock(&self.record) = Record::default();
        }
        self.on.store(on, Relaxed);
    }

    /// Whether fetches are to be told.
    pub fn wanted(&self) -> bool {
        self.on.load(Relaxed)
    }

    /// Whether nothing was fetched from this page of QEMU's memory yet.
    pub fn is_new(&self, host_page: u64) -> bool {
        lock(&self.record).host_pages.insert(host_page)
    }

    /// User mode fetches from the byte at `pa`.
    pub fn fetch(&self, pa: u64) {
        let places = &mut lock(&self.record).places;
        let place = places.len() as u32;
        places.entry(pa >> 12).or_insert(place);
    }

    /// The guest has mapped a file and calls it `id`: of each page of the mapping, `pages` has the
    /// number and the byte of memory at which it begins.
    pub fn identify(&self, id: u64, pages: impl Iterator<Item = (u64, u64)>) {
        let record = lock(&self.record);
        let place = |(page, pa): (u64, u64)| Some((*record.places.get(&(pa >> 12))?, page as u32));
        let touched = Touched {
            id,
            recorded: record.places.len() as u32,
            pages: pages.filter_map(place).collect(),
        };
        lock(&self.identified).push(touched);
    }

    /// The answers so far, which are gone then.
    pub fn take(&self) -> Vec<Touched> {
        std::mem::take(&mut *lock(&self.identified))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_keep_the_place_of_their_first_fetch_since_the_record_began() {
        let touches = Touches::default();
        touches.fetch(0x9000);
        touches.switch(true);
        for pa in [0x5004, 0x3000, 0x5ffc, 0x4000] {
            touches.fetch(pa);
        }
        touches.identify(
            7,
            [(0, 0x3000), (1, 0x4000), (2, 0x9000), (8, 0x5000)].into_iter(),
        );
        let taken = touches.take();
        assert_eq!((taken[0].id, taken[0].recorded), (7, 3));
        assert_eq!(taken[0].pages, [(1, 0), (2, 1), (0, 8)]);
        assert!(touches.take().is_empty());
    }

    #[test]
    fn a_page_of_qemus_memory_is_new_once_in_each_record() {
        let touches = Touches::default();
        touches.switch(true);
        assert!(touches.is_new(1) && !touches.is_new(1));
        touches.switch(true);
        assert!(touches.is_new(1) && touches.wanted());
        touches.switch(false);
        assert!(!touches.wanted());
    }
}
