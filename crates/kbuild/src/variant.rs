// SPDX-License-Identifier: GPL-2.0-only
//! The series that there are, and the kernels that they and their parts make.

use wideleaf_kit::named;

named!(
    /// A patch series: the folder `kernel/<series>`. Each applies and builds without the others, but
    /// for those that it stands on.
    SeriesName, "series", {
        /// Bugs of the base are mended.
        Fixes = "fixes",
        /// Mappings and programs are placed where wide leaves of text fit.
        Align = "align",
        /// Text is read and mapped by blocks that the TLB holds in one entry.
        Reads = "reads",
        /// Blocks of text that faults find in narrow folios are collapsed.
        Khugepaged = "khugepaged",
        /// Write faults on shared mappings map what fits of a folio.
        Writes = "writes",
        /// The linear map is wide, split where needed, and wide again.
        LinearMap = "linear-map",
    }
);

named!(
    /// The base without any series, or with whole ones. Of those on text, each holds the ones before.
    Variant, "variant", {
        /// The base as Debian ships it.
        Pristine = "pristine",
        /// The series of fixes, and nothing else.
        Fixes = "fixes",
        /// Mappings and programs are placed where wide leaves of text fit.
        Aligned = "aligned",
        /// Text is read and mapped by blocks that the TLB holds in one entry.
        Reads = "reads",
        /// Blocks of text that faults find in narrow folios are collapsed.
        Khugepaged = "khugepaged",
        /// All series on text: write faults on shared mappings map what fits of a folio as well.
        Patched = "patched",
        /// The series on the linear map: what was split is collapsed as well, and counted.
        LinearMap = "linear-map",
        /// All series on text, then the one on the linear map.
        Both = "both",
    }
);

impl SeriesName {
    /// The series that must be applied right before it; that one may stand on another.
    pub fn ground(self) -> Option<Self> {
        match self {
            Self::Align => Some(Self::Fixes),
            Self::Reads => Some(Self::Align),
            Self::Khugepaged => Some(Self::Reads),
            Self::Writes => Some(Self::Khugepaged),
            Self::Fixes | Self::LinearMap => None,
        }
    }
}

/// All series in the order in which they are applied: what each stands on is before it.
const ALL: [SeriesName; 6] = [
    SeriesName::Fixes,
    SeriesName::Align,
    SeriesName::Reads,
    SeriesName::Khugepaged,
    SeriesName::Writes,
    SeriesName::LinearMap,
];

impl Variant {
    /// The series that it has, in the order in which they are applied.
    pub fn series(self) -> &'static [SeriesName] {
        match self {
            Self::Pristine => &[],
            Self::Fixes => &ALL[..1],
            Self::Aligned => &ALL[..2],
            Self::Reads => &ALL[..3],
            Self::Khugepaged => &ALL[..4],
            Self::Patched => &ALL[..5],
            Self::LinearMap => &ALL[5..],
            Self::Both => &ALL,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_series_of_a_variant_finds_the_one_that_it_stands_on() {
        for variant in Variant::ALL {
            let all = variant.series();
            for (number, name) in all.iter().enumerate() {
                let ground = name.ground();
                assert!(
                    ground.is_none_or(|ground| all[..number].contains(&ground)),
                    "{variant}: {name}"
                );
            }
        }
    }
}
