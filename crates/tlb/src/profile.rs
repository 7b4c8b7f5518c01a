// SPDX-License-Identifier: GPL-2.0-only
//! The CPUs that can be modelled: one table, each figure with its source.
//!
//! Every array is modelled with true LRU replacement. No vendor documents
//! its TLBs' replacement policy; LRU is the model's choice, because it is the
//! one that needs no further invented figures. [`crate::variant`] changes it,
//! and what else no vendor states.
//!
//! FEAT_BBM is of Armv8.4: Cortex-A53 (8.0) and Neoverse N1 (8.2) do not have it.
//! Neoverse V2 is not on Linux's list of CPUs that have level 2 and raise no
//! conflict aborts (7.3, `cpu_supports_bbml2_noabort`, not checked against a TRM).
//!
//! "Not checked" in a source means that the document was not at hand when the
//! table was written and the figure comes from the place named instead.

use std::fmt;
use wideleaf_kit::arch::Arch;

/// Geometry of one array of entries.
#[derive(Clone, Copy, Debug)]
pub struct ArraySpec {
    /// Number of entries.
    pub entries: usize,
    /// Entries a set; equal to `entries` if fully associative.
    pub ways: usize,
    /// Sizes an entry can have, log2 of bytes, ascending. A larger leaf is
    /// held in fragments of the largest size here that fits into it.
    pub sizes: &'static [u8],
    /// Where the figures are from.
    pub source: &'static str,
}

/// The second level.
#[derive(Clone, Copy, Debug)]
pub enum Level2 {
    /// One for instructions and data.
    Unified(&'static [ArraySpec]),
    /// One each.
    Split {
        /// Instruction side.
        instruction: &'static [ArraySpec],
        /// Data side.
        data: &'static [ArraySpec],
    },
}

/// Aligned groups of pages that are held as one entry although no contiguous
/// bit says so, where the page tables map them to memory that lies side by side,
/// with equal attributes.
#[derive(Clone, Copy, Debug)]
pub struct Coalesce {
    /// Pages of a group; a power of two.
    pub pages: u8,
    /// Whether the first level holds groups too.
    pub first_level: bool,
    /// Where that is from.
    pub source: &'static str,
}

/// A CPU core's TLBs. A level is a list of arrays looked up in parallel; a
/// leaf goes to the array that can hold it largest.
#[derive(Clone, Copy, Debug)]
pub struct Profile {
    /// Name on the command line.
    pub name: &'static str,
    /// Instruction set.
    pub arch: Arch,
    /// Are the pages of a contiguous group (arm64) held as one entry?
    pub contiguous: bool,
    /// The pages that are one entry without such a group; `None` where the vendor states nothing.
    pub coalesce: Option<Coalesce>,
    /// Level of FEAT_BBM that the CPU promises without ever raising a conflict
    /// abort, so that software may change the size of a live entry: 2, or 0.
    pub bbm: u8,
    /// First level, instruction side.
    pub l1i: &'static [ArraySpec],
    /// First level, data side.
    pub l1d: &'static [ArraySpec],
    /// Second level.
    pub l2: Level2,
    /// What else there is to know.
    pub notes: &'static str,
}

const A76_L1I: &[u8] = &[12, 14, 16, 21, 25];
const A76_L1D: &[u8] = &[12, 14, 16, 21, 29];
const ARM_L2: &[u8] = &[12, 14, 16, 21, 25, 29, 30];
const X86_ALL: &[u8] = &[12, 21, 30];

/// All profiles.
pub const PROFILES: &[Profile] = &[
    Profile {
        name: "neoverse-v2",
        arch: Arch::Arm64,
        contiguous: true,
        coalesce: None,
        bbm: 0,
        l1i: &[ArraySpec {
            entries: 48,
            ways: 48,
            sizes: A76_L1I,
            source: "entries, fully associative: Neoverse V2 TRM 102375, MMU chapter, as quoted in Wideleaf's facts, text not checked; sizes: not checked, Cortex-A76 TRM 100798 A5.2.1",
        }],
        l1d: &[ArraySpec {
            entries: 48,
            ways: 48,
            sizes: A76_L1D,
            source: "entries, fully associative: Neoverse V2 TRM 102375, MMU chapter, text not checked; sizes: not checked, Cortex-A76 TRM 100798 A5.2.2",
        }],
        l2: Level2::Unified(&[ArraySpec {
            entries: 2048,
            ways: 8,
            sizes: ARM_L2,
            source: "entries, ways: Neoverse V2 TRM 102375, MMU chapter, as quoted in Wideleaf's facts, text not checked; sizes: not checked, Cortex-A76 TRM 100798 A5.2.3",
        }]),
        notes: "contiguous groups held as one entry: what the published exec-folio benchmarks on this core show; not stated in a document at hand",
    },
    Profile {
        name: "neoverse-n1",
        arch: Arch::Arm64,
        contiguous: true,
        coalesce: Some(Coalesce {
            pages: 4,
            first_level: false,
            source: "Cortex-A76 TRM 100798 table A6-31: an L2 entry \"is coalesced and holds translations for four contiguous pages\"; when it is, and whether the first level has such, is not stated; N1 TRM 100616 not checked",
        }),
        bbm: 0,
        l1i: &[ArraySpec {
            entries: 48,
            ways: 48,
            sizes: A76_L1I,
            source: "Cortex-A76 TRM 100798 A5.2.1 (Neoverse N1 is built on the A76; its own TRM 100616 A5.2 not checked)",
        }],
        l1d: &[ArraySpec {
            entries: 48,
            ways: 48,
            sizes: A76_L1D,
            source: "Cortex-A76 TRM 100798 A5.2.2 (N1 TRM 100616 A5.2 not checked)",
        }],
        l2: Level2::Unified(&[ArraySpec {
            entries: 1280,
            ways: 5,
            sizes: ARM_L2,
            source: "Cortex-A76 TRM 100798 A5.2.3 and table A5-3 (N1 TRM 100616 A5.2 not checked)",
        }]),
        notes: "four adjacent pages are one L2 entry without a contiguous bit if physically contiguous, aligned, and equal in all attributes: the model's reading of TRM 100798 table A6-31",
    },
    Profile {
        name: "cortex-a53",
        arch: Arch::Arm64,
        contiguous: true,
        coalesce: None,
        bbm: 0,
        l1i: &[ArraySpec {
            entries: 10,
            ways: 10,
            sizes: &[12, 14, 16, 21, 25, 29],
            source: "Cortex-A53 TRM DDI 0500 5.1 (10-entry fully associative instruction micro TLB); sizes not documented, taken from the main TLB",
        }],
        l1d: &[ArraySpec {
            entries: 10,
            ways: 10,
            sizes: &[12, 14, 16, 21, 25, 29],
            source: "Cortex-A53 TRM DDI 0500 5.1 (10-entry fully associative data micro TLB); sizes not documented, taken from the main TLB",
        }],
        l2: Level2::Unified(&[ArraySpec {
            entries: 512,
            ways: 4,
            sizes: &[12, 14, 16, 21, 25, 29],
            source: "Cortex-A53 TRM DDI 0500 5.2.2: 512 entries, 4-way, all block sizes except 1GB, which is split into 512MB",
        }]),
        notes: "the real core has no 16K granule (TRM 5.1); the model does not forbid it. Contiguous groups as one entry: from published counts with contpte text on this core, not stated in the TRM",
    },
    Profile {
        name: "zen4",
        arch: Arch::X86_64,
        contiguous: false,
        coalesce: None,
        bbm: 0,
        l1i: &[ArraySpec {
            entries: 64,
            ways: 64,
            sizes: X86_ALL,
            source: "Software Optimization Guide for the AMD Zen4 Microarchitecture 57647, section on the L1 ITLB, not checked; same figures for Zen 2 at 7-cpu.com",
        }],
        l1d: &[ArraySpec {
            entries: 72,
            ways: 72,
            sizes: X86_ALL,
            source: "72 entries: chipsandcheese.com on Zen 4's memory subsystem; fully associative, all sizes: as Zen 2 (wikichip.org)",
        }],
        l2: Level2::Split {
            instruction: &[ArraySpec {
                entries: 512,
                ways: 8,
                sizes: &[12, 21],
                source: "AMD 57647, not checked; 7-cpu.com on Zen 2: 512 entries, 8-way, 4K and 2M, 1G kept as 2M",
            }],
            data: &[ArraySpec {
                entries: 3072,
                ways: 24,
                sizes: &[12, 21],
                source: "3072 entries: chipsandcheese.com on Zen 4; 24 ways: not documented in a source at hand, the model's choice (128 sets, as Zen 2 and 3); 4K and 2M, 1G smashed into 2M: wikichip.org on Zen 2",
            }],
        },
        notes: "coalescing of adjacent 4K pages into 16K or 32K entries is not stated in a document at hand and not modelled; CPUs with it miss less on 4K pages than counted here",
    },
    Profile {
        name: "zen2",
        arch: Arch::X86_64,
        contiguous: false,
        coalesce: Some(Coalesce {
            pages: 8,
            first_level: true,
            source: "no document of AMD's at hand; said on linux-mm when exec_folio_order() was reviewed (2025): PTE coalescing \"at 16KB or 32KB level\"; which level holds it is the model's choice",
        }),
        bbm: 0,
        l1i: &[ArraySpec {
            entries: 64,
            ways: 64,
            sizes: X86_ALL,
            source: "7-cpu.com on Zen 2: 64 entries, fully associative, all page sizes",
        }],
        l1d: &[ArraySpec {
            entries: 64,
            ways: 64,
            sizes: X86_ALL,
            source: "wikichip.org on Zen 2: 64 entries, fully associative, 4K, 2M and 1G",
        }],
        l2: Level2::Split {
            instruction: &[ArraySpec {
                entries: 512,
                ways: 8,
                sizes: &[12, 21],
                source: "7-cpu.com on Zen 2: 512 entries, 8-way, 4K and 2M, 1G kept as 2M",
            }],
            data: &[ArraySpec {
                entries: 2048,
                ways: 16,
                sizes: &[12, 21],
                source: "2048 entries, 4K and 2M, 1G smashed into 2M: wikichip.org on Zen 2, which has 12 ways for them; 16 are the model's choice",
            }],
        },
        notes: "the profile for how much depends on coalescing: zen4 has none",
    },
    Profile {
        name: "sapphire-rapids",
        arch: Arch::X86_64,
        contiguous: false,
        coalesce: None,
        bbm: 0,
        l1i: &[
            ArraySpec {
                entries: 256,
                ways: 8,
                sizes: &[12],
                source: "Golden Cove: 256 entries for 4K (Hennessy and Patterson, Golden Cove notes); 8-way: Intel optimization manual 248966, Golden Cove TLB table, not checked",
            },
            ArraySpec {
                entries: 32,
                ways: 8,
                sizes: &[21],
                source: "Golden Cove: 32 entries for 2M/4M (same); 8-way: Intel 248966, not checked; 1G text as 2M fragments: not documented, the model's choice",
            },
        ],
        l1d: &[
            ArraySpec {
                entries: 96,
                ways: 6,
                sizes: &[12],
                source: "Intel 248966, Golden Cove DTLB for loads, not checked",
            },
            ArraySpec {
                entries: 32,
                ways: 4,
                sizes: &[21],
                source: "Intel 248966, Golden Cove DTLB for loads, not checked",
            },
            ArraySpec {
                entries: 8,
                ways: 8,
                sizes: &[30],
                source: "Intel 248966, Golden Cove DTLB for loads, not checked",
            },
        ],
        l2: Level2::Unified(&[ArraySpec {
            entries: 2048,
            ways: 16,
            sizes: X86_ALL,
            source: "2048 entries: chipsandcheese.com on Golden Cove; 16 ways: Intel 248966, not checked",
        }]),
        notes: "the 16-entry store DTLB is left out, stores look up the load DTLB; that 2M and 1G pages may only use part of the STLB's ways is left out",
    },
];

impl Profile {
    /// The profile called `name`.
    ///
    /// # Errors
    ///
    /// Names the profiles there are.
    pub fn by_name(name: &str) -> Result<&'static Profile, UnknownProfile> {
        PROFILES
            .iter()
            .find(|p| p.name == name)
            .ok_or_else(|| UnknownProfile(name.to_owned()))
    }

    /// Names of all profiles for `arch`.
    pub fn names(arch: Arch) -> Vec<&'static str> {
        let of_arch = PROFILES.iter().filter(|p| p.arch == arch);
        of_arch.map(|p| p.name).collect()
    }

    /// All arrays with the name of their place: `"L1I"`, `"L1D"`, `"L2"`,
    /// `"L2I"`, `"L2D"`.
    pub fn arrays(&self) -> Vec<(&'static str, &'static ArraySpec)> {
        let mut all: Vec<_> = self.l1i.iter().map(|a| ("L1I", a)).collect();
        all.extend(self.l1d.iter().map(|a| ("L1D", a)));
        match self.l2 {
            Level2::Unified(arrays) => all.extend(arrays.iter().map(|a| ("L2", a))),
            Level2::Split { instruction, data } => {
                all.extend(instruction.iter().map(|a| ("L2I", a)));
                all.extend(data.iter().map(|a| ("L2D", a)));
            }
        }
        all
    }
}

/// No profile has this name.
#[derive(Debug, PartialEq, Eq)]
pub struct UnknownProfile(pub String);

impl fmt::Display for UnknownProfile {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let names: Vec<_> = PROFILES
            .iter()
            .map(|p| format!("{} ({})", p.name, p.arch))
            .collect();
        write!(
            f,
            "no CPU profile is called {:?}; there are {}",
            self.0,
            names.join(", ")
        )
    }
}

impl std::error::Error for UnknownProfile {}
