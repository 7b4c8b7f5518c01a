// SPDX-License-Identifier: GPL-2.0-only
//! The rule of the series reads: how much of the text around a fault is read. Numbers of pages
//! only; `kernel/reads/overlay/mm/exec_read.h` is the C that the kernel runs.

/// A fault on text that is not cached.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Fault {
    /// Pages of the block around the fault; 0 if there is none.
    pub block: u32,
    /// The faulting page in the block.
    pub at: u32,
    /// Cached pages of the block before the fault; if that is at the first page, of the block
    /// before.
    pub before: u32,
    /// Pages of the block that are cached.
    pub cached: u32,
    /// Pages that readahead takes.
    pub window: u32,
    /// Reclaim took pages of the block, and they were not read again.
    pub short_of_memory: bool,
}

/// What to do about it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Pages to read from the fault on, unless `whole`.
    pub pages: u32,
    /// Read the block in one folio.
    pub whole: bool,
    /// Begin to read the rest of the block too: it is worth being one folio.
    pub rest: bool,
}

unsafe extern "C" {
    fn exec_read_export(read: *const Fault, answer: *mut Answer);
}

/// How much to read for a fault.
pub fn exec_read(fault: &Fault) -> Answer {
    let mut answer = Answer::default();
    // SAFETY: both structs have the layout of those in exec_read.h, and C keeps neither.
    unsafe { exec_read_export(fault, &mut answer) };
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: usize = 512;
    const BLOCKS: usize = 64;
    const WINDOW: u32 = 32;

    /// A file of text that one program touches, read by the rule.
    struct Text {
        cached: Vec<bool>,
        wide: Vec<bool>,
        faults: usize,
    }

    impl Text {
        fn touched(pages: impl Iterator<Item = usize>) -> Self {
            let mut text = Self {
                cached: vec![false; BLOCK * BLOCKS],
                wide: vec![false; BLOCKS],
                faults: 0,
            };
            for page in pages {
                if !text.cached[page] {
                    text.fault(page);
                }
            }
            text
        }

        fn fault(&mut self, page: usize) {
            let block = page / BLOCK * BLOCK..page / BLOCK * BLOCK + BLOCK;
            let cached = |pages: std::ops::Range<usize>| {
                self.cached[pages].iter().filter(|&&is| is).count() as u32
            };
            let at = page - block.start;
            let answer = exec_read(&Fault {
                block: BLOCK as u32,
                at: at as u32,
                before: match at {
                    0 => cached(page.saturating_sub(BLOCK)..page),
                    _ => cached(block.start..page),
                },
                cached: cached(block.clone()),
                window: WINDOW,
                short_of_memory: false,
            });
            self.faults += 1;
            let read = match answer.whole {
                true => block.clone(),
                false => page..page + answer.pages as usize,
            };
            self.cached[read].fill(true);
            if answer.whole || answer.rest {
                self.wide[page / BLOCK] = true;
                self.cached[block].fill(true);
            }
        }

        fn pages(&self) -> usize {
            self.cached.iter().filter(|&&is| is).count()
        }

        fn wide(&self) -> usize {
            self.wide.iter().filter(|&&is| is).count()
        }
    }

    /// The same numbers in each run, in no order.
    fn shuffled(count: usize) -> Vec<usize> {
        let mut pages: Vec<usize> = (0..BLOCK * BLOCKS).collect();
        let mut state = 1u64;
        for last in (1..pages.len()).rev() {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
            pages.swap(last, (state >> 33) as usize % (last + 1));
        }
        pages.truncate(count);
        pages
    }

    /// Pages that the window alone would read, as pristine kernels do.
    fn by_window(pages: &[usize]) -> usize {
        let mut cached = vec![false; BLOCK * BLOCKS];
        for &page in pages {
            if !cached[page] {
                let end = (page + WINDOW as usize).min(cached.len());
                cached[page..end].fill(true);
            }
        }
        cached.iter().filter(|&&is| is).count()
    }

    #[test]
    fn a_sweep_takes_a_fault_for_each_block() {
        let text = Text::touched(0..BLOCK * BLOCKS);
        assert_eq!(text.wide(), BLOCKS);
        assert!(text.faults <= BLOCKS + 4, "{}", text.faults);
    }

    #[test]
    fn dense_text_that_is_touched_at_random_becomes_wide() {
        assert_eq!(
            Text::touched(shuffled(BLOCK * BLOCKS).into_iter()).wide(),
            BLOCKS
        );
    }

    #[test]
    fn sparse_text_is_read_by_the_window() {
        let pages = shuffled(BLOCK * BLOCKS / 100);
        let text = Text::touched(pages.iter().copied());
        assert!(
            text.pages() * 4 <= by_window(&pages) * 5,
            "{} against {}",
            text.pages(),
            by_window(&pages)
        );
    }

    #[test]
    fn text_without_a_block_is_read_by_the_window() {
        let answer = exec_read(&Fault {
            before: BLOCK as u32,
            window: WINDOW,
            ..Fault::default()
        });
        assert_eq!((answer.pages, answer.whole), (WINDOW, false));
    }
}
