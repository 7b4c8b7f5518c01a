// SPDX-License-Identifier: GPL-2.0-only
//! A core's TLBs as the model builds them: what a [`Profile`] says, and what no vendor states.

use crate::leaf;
use crate::profile::{ArraySpec, Level2, Profile};
use crate::replacement::Replacement;

/// All that a model of a core's TLBs depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Design {
    /// Are the pages of a contiguous group (arm64) held as one entry?
    pub contiguous: bool,
    /// The groups that are one entry without a contiguous bit.
    pub coalescing: Coalescing,
    /// Which entry of a full set goes.
    pub replacement: Replacement,
    /// Whether the second level finds its sets by the page number's low bits XOR the next ones.
    pub hashed: bool,
    /// Whether the leaf after one that a walk was made for comes into the second level with it.
    pub prefetch: bool,
    /// Table entries that are cached for each level of tables; 0: each walk begins at the top.
    pub walk_cache: usize,
    /// First level, by [`crate::model::Side`].
    pub l1: [Vec<Geometry>; 2],
    /// Second level: one if unified, else one per side.
    pub l2: Vec<Vec<Geometry>>,
}

/// Which pages are held as one entry without a contiguous bit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coalescing {
    /// log2 of the pages of a group; 0: each by itself.
    pub log2_pages: u8,
    /// Whether the first level holds groups, or the second only.
    pub first_level: bool,
}

/// An array of entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Number of entries.
    pub entries: usize,
    /// Entries a set.
    pub ways: usize,
    /// Sizes an entry can have, log2 of bytes, ascending.
    pub sizes: Vec<u8>,
}

impl From<&ArraySpec> for Geometry {
    fn from(spec: &ArraySpec) -> Self {
        Geometry {
            entries: spec.entries,
            ways: spec.ways,
            sizes: spec.sizes.to_vec(),
        }
    }
}

impl From<&Profile> for Design {
    fn from(profile: &Profile) -> Self {
        let level = |arrays: &[ArraySpec]| arrays.iter().map(Geometry::from).collect();
        let l2 = match profile.l2 {
            Level2::Unified(arrays) => vec![level(arrays)],
            Level2::Split { instruction, data } => vec![level(instruction), level(data)],
        };
        let coalescing = profile.coalesce.map(|c| Coalescing {
            log2_pages: c.pages.ilog2() as u8,
            first_level: c.first_level,
        });
        Design {
            contiguous: profile.contiguous,
            coalescing: coalescing.unwrap_or_default(),
            replacement: Replacement::Lru,
            hashed: false,
            prefetch: false,
            walk_cache: 0,
            l1: [level(profile.l1i), level(profile.l1d)],
            l2,
        }
    }
}

impl Design {
    /// The same with each array changed.
    #[must_use]
    pub fn with_arrays(mut self, change: impl Fn(&mut Geometry)) -> Self {
        let levels = self.l1.iter_mut().chain(&mut self.l2);
        levels.flatten().for_each(change);
        self
    }
}

impl Geometry {
    /// Sets; a power of two.
    pub fn sets(&self) -> usize {
        self.entries / self.ways
    }

    /// The sizes with those of groups of `1 << log2_pages` pages, which an array of pages of a
    /// granule holds too.
    pub(crate) fn sizes_with_groups(&self, log2_pages: u8) -> Vec<u8> {
        let mut sizes = self.sizes.clone();
        if log2_pages > 0 {
            let pages = self.sizes.iter().filter(|&s| leaf::PAGES.contains(s));
            sizes.extend(pages.map(|page| page + log2_pages));
            sizes.sort_unstable();
            sizes.dedup();
        }
        sizes
    }
}
