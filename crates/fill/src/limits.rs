// SPDX-License-Identifier: GPL-2.0-only
//! How much may be taken and read, and for how long.

use crate::{Geometry, Why};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use wideleaf_collapse::{Source, make_blocks};

/// Limits as they were asked for.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of new folios.
    pub memory: u64,
    /// Bytes that may be read, if that is limited.
    pub read: Option<u64>,
    /// Bytes that may be read in a second, if that is limited.
    pub rate: Option<u64>,
    /// How long it may take.
    pub time: Option<Duration>,
    /// Whether what is cached in smaller folios may be dropped.
    pub evict: bool,
    /// Whether a file's other blocks are left when one of them stays as it is.
    pub all_or_none: bool,
    /// Whether others get as much time as each block took.
    pub gently: bool,
    /// Whether the kernel may reclaim and compact for it.
    pub reclaim: bool,
}

/// The limits, and how much of them is used.
pub struct Budget {
    /// The limits.
    pub limits: Limits,
    /// Bytes of new folios.
    pub taken: u64,
    /// Bytes of blocks that were read.
    pub read: u64,
    start: Instant,
    proc: PathBuf,
}

impl Budget {
    /// Nothing is taken yet; the time begins.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            taken: 0,
            read: 0,
            start: Instant::now(),
            proc: "/proc".into(),
        }
    }

    /// Why a block must not be read, if so.
    pub(crate) fn forbids(&self, sizes: &Geometry) -> Option<Why> {
        let over = |used: u64, limit: u64| used + sizes.pmd > limit;
        if self
            .limits
            .time
            .is_some_and(|time| self.start.elapsed() >= time)
        {
            return Some(Why::Time);
        }
        if over(self.taken, self.limits.memory) {
            return Some(Why::Limit);
        }
        if self.limits.read.is_some_and(|limit| over(self.read, limit)) {
            return Some(Why::ReadLimit);
        }
        let source = self.source(sizes);
        if !source.has_block() {
            return Some(Why::NoMemory);
        }
        (!source.fits(std::process::id())).then_some(Why::NoHeadroom)
    }

    fn source(&self, sizes: &Geometry) -> Source {
        Source {
            proc: self.proc.clone(),
            page: sizes.page,
            pmd: sizes.pmd,
            reclaim: self.limits.reclaim,
        }
    }

    /// A block is read next. Readahead takes smaller folios rather than reclaim for a large one.
    pub(crate) fn before(&self, sizes: &Geometry) {
        if self.limits.reclaim {
            make_blocks(sizes.pmd, sizes.pmd);
        }
    }

    /// A block was read; `took` is how long that was. Waits until the next may be.
    pub(crate) fn after(&mut self, pmd: u64, became_one: bool, took: Duration) {
        self.read += pmd;
        if became_one {
            self.taken += pmd;
        }
        let rest = self.rest(pmd, took);
        let left = self
            .limits
            .time
            .map(|t| t.saturating_sub(self.start.elapsed()));
        std::thread::sleep(left.map_or(rest, |left| rest.min(left)));
    }

    fn rest(&self, pmd: u64, took: Duration) -> Duration {
        let gently = if self.limits.gently {
            took
        } else {
            Duration::ZERO
        };
        let at_rate = self.limits.rate.map_or(Duration::ZERO, |rate| {
            let whole = Duration::from_secs_f64(pmd as f64 / rate.max(1) as f64);
            whole.saturating_sub(took)
        });
        gently.max(at_rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Limits {
        Limits {
            memory: u64::MAX / 2,
            read: None,
            rate: None,
            time: None,
            evict: true,
            all_or_none: false,
            gently: false,
            reclaim: false,
        }
    }

    /// The answer for a block on a machine with this many free pieces of 2M.
    fn forbidden(limits: Limits, pieces: u64, read: u64) -> Option<Why> {
        let sizes = Geometry::here().unwrap();
        let proc = tempfile::tempdir().unwrap();
        let file = |name: &str, text: String| std::fs::write(proc.path().join(name), text).unwrap();
        file(
            "buddyinfo",
            format!("Node 0, zone Normal 9 9 9 9 9 9 9 9 9 {pieces} 0\n"),
        );
        file(
            "zoneinfo",
            "Node 0, zone   Normal\n  pages free 1000000\n        high     100\n".into(),
        );
        let mut budget = Budget::new(limits);
        budget.proc = proc.path().to_owned();
        (budget.taken, budget.read) = (read, read);
        budget.forbids(&sizes)
    }

    #[test]
    fn each_limit_has_a_name_of_its_own() {
        let pmd = Geometry::here().unwrap().pmd;
        assert_eq!(forbidden(limits(), 3, 0), None);
        assert_eq!(forbidden(limits(), 2, 0), Some(Why::NoMemory));
        let memory = Limits {
            memory: 2 * pmd,
            ..limits()
        };
        assert_eq!(forbidden(memory, 3, pmd), None);
        assert_eq!(forbidden(memory, 3, 2 * pmd), Some(Why::Limit));
        let read = Limits {
            read: Some(2 * pmd - 1),
            ..limits()
        };
        assert_eq!(forbidden(read, 3, 0), None);
        assert_eq!(forbidden(read, 3, pmd), Some(Why::ReadLimit));
        let time = Limits {
            time: Some(Duration::ZERO),
            ..limits()
        };
        assert_eq!(forbidden(time, 3, 0), Some(Why::Time));
    }

    #[test]
    fn others_get_their_share_of_the_disk() {
        let rest = |limits: Limits, took: u64| {
            Budget::new(limits)
                .rest(1 << 20, Duration::from_millis(took))
                .as_millis()
        };
        assert_eq!(rest(limits(), 10), 0);
        let gently = Limits {
            gently: true,
            ..limits()
        };
        assert_eq!(rest(gently, 10), 10);
        let rate = Limits {
            rate: Some(10 << 20),
            ..gently
        };
        assert_eq!(rest(rate, 10), 90);
        assert_eq!(rest(rate, 70), 70);
    }
}
