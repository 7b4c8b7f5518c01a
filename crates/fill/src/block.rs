// SPDX-License-Identifier: GPL-2.0-only
//! One block: what it is in the page cache, and how it becomes one folio.

use crate::cache::{View, dirty, drop_pages};
use crate::{Text, Why};
use nix::errno::Errno;
use std::time::Duration;
use wideleaf_procmap::{Own, sizes};

/// A block is dropped again this often if the kernel keeps pages of it.
const TRIES: u32 = 5;
/// Time for the disk to take what is dirty.
const BUSY: Duration = Duration::from_millis(40);

/// Sizes in bytes, and this process's page tables, by which a folio's size shows.
pub struct Geometry {
    /// A base page.
    pub page: u64,
    /// A block.
    pub pmd: u64,
    own: Own,
}

impl Geometry {
    /// Those of this machine.
    ///
    /// # Errors
    ///
    /// If /proc is not readable.
    pub fn here() -> Result<Self, wideleaf_procmap::Error> {
        let (page, pmd) = sizes("/sys".as_ref());
        let own = Own::open(page)?;
        Ok(Self { page, pmd, own })
    }
}

/// The page cache's part of a block, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// One folio.
    Wide,
    /// Nothing.
    Absent,
    /// Smaller folios.
    Narrow {
        /// Bytes that are cached.
        cached: u64,
        /// Of these, what other processes map.
        used: u64,
    },
    /// The kernel does not tell this user.
    Unknown,
}

/// Looks at a block and reads nothing.
pub(crate) fn look(text: &Text, offset: u64, sizes: &Geometry) -> Result<Found, Errno> {
    match text.tells {
        true => seen(text, offset, sizes),
        false => Ok(Found::Unknown),
    }
}

fn seen(text: &Text, offset: u64, sizes: &Geometry) -> Result<Found, Errno> {
    let view = View::new(&text.file, offset, sizes.page, sizes.pmd)?;
    let cached = view.cached()?;
    if !cached.contains(&true) {
        return Ok(Found::Absent);
    }
    view.map(&cached)?;
    if wide(&view, sizes)? {
        return Ok(Found::Wide);
    }
    Ok(narrow(&view, &cached, sizes))
}

fn narrow(view: &View, cached: &[bool], sizes: &Geometry) -> Found {
    let (start, end) = view.addresses();
    // Pages that cannot be told from others' are taken for others'.
    let used = sizes.own.shared(start, end).unwrap_or(u64::MAX);
    let cached = cached.iter().filter(|cached| **cached).count() as u64;
    Found::Narrow {
        cached: cached * sizes.page,
        used: used.saturating_mul(sizes.page).min(cached * sizes.page),
    }
}

fn wide(view: &View, sizes: &Geometry) -> Result<bool, Errno> {
    let (start, end) = view.addresses();
    let wide = sizes.own.wide(start, end).map_err(|_| Errno::EIO)?;
    Ok(wide == sizes.pmd)
}

/// The outcome for a block that was to be one folio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Made {
    /// Bytes of the page cache that were dropped first.
    pub dropped: u64,
    /// Of these, bytes that were not read again.
    pub lost: u64,
    /// Why it is not one folio, if so, and how many bytes stand in the way.
    pub left: Option<(Why, u64)>,
}

impl Made {
    fn nothing(left: Option<(Why, u64)>) -> Self {
        Self {
            dropped: 0,
            lost: 0,
            left,
        }
    }
}

/// Reads a block into one folio; `found` is what it was. With `evict`, what is cached in smaller
/// folios is dropped first, unless other processes map it.
pub(crate) fn make(text: &Text, offset: u64, found: Found, evict: bool, sizes: &Geometry) -> Made {
    let made = || match found {
        Found::Wide => Ok(Made::nothing(None)),
        Found::Absent => read(text, offset, sizes).map(Made::nothing),
        Found::Narrow { used, .. } if used > 0 => Ok(Made::nothing(Some((Why::InUse, used)))),
        Found::Narrow { cached, .. } if !evict => Ok(Made::nothing(Some((Why::Cached, cached)))),
        Found::Narrow { cached, .. } => again(text, offset, cached, sizes),
        Found::Unknown => unseen(text, offset, evict, sizes),
    };
    made().unwrap_or_else(|errno| Made::nothing(Some((Why::Call(errno), 0))))
}

/// Reads a block of which nothing is cached.
fn read(text: &Text, offset: u64, sizes: &Geometry) -> Result<Option<(Why, u64)>, Errno> {
    let view = View::new(&text.file, offset, sizes.page, sizes.pmd)?;
    view.populate(0..sizes.page)?;
    Ok(match wide(&view, sizes)? {
        true => None,
        false => Some((Why::NoFolio, 0)),
    })
}

/// Drops a block and reads it again. It is read whatever was dropped: what programs had cached
/// they find cached.
fn again(text: &Text, offset: u64, cached: u64, sizes: &Geometry) -> Result<Made, Errno> {
    let bytes = |pages: Vec<bool>| pages.iter().filter(|p| **p).count() as u64 * sizes.page;
    let mut tries = 0;
    loop {
        tries += 1;
        drop_pages(&text.file, offset, sizes.pmd)?;
        let view = View::new(&text.file, offset, sizes.page, sizes.pmd)?;
        let kept = match text.tells {
            true => bytes(view.cached()?),
            false => 0,
        };
        if kept > 0 && tries < TRIES {
            // The call has begun to write what is dirty.
            std::thread::sleep(BUSY);
            continue;
        }
        view.populate(0..sizes.page)?;
        let wide = wide(&view, sizes)?;
        if !wide {
            view.populate(0..sizes.pmd)?;
        }
        return Ok(Made {
            dropped: cached.saturating_sub(kept),
            lost: cached.saturating_sub(bytes(view.cached()?)),
            left: (!wide).then(|| match kept {
                0 if text.tells => (Why::NoFolio, 0),
                0 => (Why::Untold, 0),
                _ if dirty(&text.file, offset, sizes.pmd) => (Why::Dirty, kept),
                _ => (Why::Kept, kept),
            }),
        });
    }
}

/// The same without knowing what is cached: all of the block is read first, in whatever folios.
fn unseen(text: &Text, offset: u64, evict: bool, sizes: &Geometry) -> Result<Made, Errno> {
    let view = View::new(&text.file, offset, sizes.page, sizes.pmd)?;
    view.populate(0..sizes.page)?;
    if wide(&view, sizes)? {
        return Ok(Made::nothing(None));
    }
    view.populate(0..sizes.pmd)?;
    let Found::Narrow { cached, used } = narrow(&view, &view.cached()?, sizes) else {
        return Ok(Made::nothing(None));
    };
    drop(view);
    match (used, evict) {
        (1.., _) => Ok(Made::nothing(Some((Why::InUse, used)))),
        (0, false) => Ok(Made::nothing(Some((Why::Cached, cached)))),
        (0, true) => again(text, offset, cached, sizes),
    }
}
