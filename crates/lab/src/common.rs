// SPDX-License-Identifier: GPL-2.0-only
//! What every job can be asked for.
//!
//! An option is a field here, of a group in [`crate::options`], or of a job's own options: its name,
//! help, default and values are there and nowhere else. Options are kept as the command line has
//! them, so that a comparison's JSON says what to ask for again.

use clap::builder::PossibleValuesParser;
use serde::{Deserialize, Serialize};
use wideleaf_kit::arch::Arch;
use wideleaf_kit::named;
use wideleaf_tlb::variant::{ALL, names};

named!(
    /// The make that a guest's CPUs claim to be: of arm64, but for `max` and `zen`.
    CpuModel, "CPU model", {
        /// All that QEMU can emulate.
        Max = "max",
        /// The same, and of a make that kernels know to change the size of leaves live.
        Bbm = "bbm",
        /// Such, but with addresses of 48 bits where pages have less than 64K: no FEAT_LPA2.
        BbmNoLpa2 = "bbm-no-lpa2",
        /// Such, on a machine whose memory has tags (FEAT_MTE2).
        BbmMte = "bbm-mte",
        /// The first, of which the referee takes no FEAT_ETS2 for granted.
        NoEts2 = "no-ets2",
        /// The first on x86-64, and of a make that kernels know to hold neighbouring pages as one
        /// entry of a TLB: AMD's family 19h, model 11h.
        Zen = "zen",
    }
);

impl CpuModel {
    /// Whether QEMU has CPUs of this architecture that say so.
    pub fn fits(self, arch: Arch) -> bool {
        match self {
            Self::Max => true,
            Self::Zen => arch == Arch::X86_64,
            Self::Bbm | Self::BbmNoLpa2 | Self::BbmMte | Self::NoEts2 => arch == Arch::Arm64,
        }
    }
}

/// Reads one of the values that a type with `ALL` and `name()` has; help and errors list them.
#[macro_export]
macro_rules! choices {
    ($kind:ty) => {{
        use clap::builder::{PossibleValuesParser, TypedValueParser};
        let names = <$kind>::ALL.iter().map(|value| value.name());
        PossibleValuesParser::new(names)
            .map(|name| name.parse::<$kind>().expect("one of the possible values"))
    }};
}

/// What every job takes: it is about the kernels, the guest or who looks on, not about the work.
#[derive(clap::Args, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Common {
    /// CPUs of the guest
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=8))]
    pub cpus: u32,
    /// The model of the guest's CPUs: max; on arm64 bbm, whose kernels may change the size of leaves
    /// live; bbm-no-lpa2, such with 48 bits of address; bbm-mte, such with tagged memory; or no-ets2,
    /// where a load may be translated before a barrier; on x86_64 zen, whose kernels read and align
    /// text by what such CPUs may hold in one TLB entry
    #[arg(long, value_name = "MODEL", default_value = "max", value_parser = choices!(CpuModel))]
    pub cpu_model: CpuModel,
    /// CPU whose TLBs are modelled [default: neoverse-v2 on arm64, zen4 on x86_64]
    #[arg(long, value_parser = PossibleValuesParser::new(crate::profiles::names()))]
    pub profile: Option<String>,
    /// Watch over the guest's TLB maintenance: stale use, changes without
    /// break-before-make, size conflicts; anything found fails the run
    #[arg(long)]
    pub referee: bool,
    /// Count the same runs by variants of the modelled CPU too, with one property changed each,
    /// and show how far each change depends on them: by these, or by all
    #[arg(
        long,
        value_name = "VARIANTS",
        value_delimiter = ',',
        num_args = 0..=1,
        default_missing_value = ALL,
        value_parser = PossibleValuesParser::new(names().chain([ALL]))
    )]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sweep_model: Vec<String>,
    /// The kernels' configuration: debian, debian-cloud or debian-16k, Debian's of the source's
    /// version, or a file with a .config; drivers are left out, and what differs is told
    /// [default: the lab's own, of fragments]
    #[arg(long, value_name = "CONFIGURATION")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
    /// A further fragment of kernel/config for the kernels, such as debug or
    /// storm; may be repeated
    #[arg(long, value_name = "FRAGMENT")]
    pub extra: Vec<String>,
    /// A fault that the kernel gets, or the last of several ('wideleaf lab list'),
    /// which the job is to notice
    #[arg(long, value_name = "NAME")]
    pub plant: Option<String>,
    /// More kernel parameters for the guest
    #[arg(
        long,
        value_name = "PARAMETERS",
        default_value = "",
        hide_default_value = true,
        allow_hyphen_values = true
    )]
    pub append: String,
    /// Seconds that one guest may take [default: what the job needs on a slow machine]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    pub timeout: Option<u32>,
}

impl Common {
    /// Whether the kernels have this further fragment.
    pub fn has_extra(&self, fragment: &str) -> bool {
        self.extra.iter().any(|extra| extra == fragment)
    }
}
