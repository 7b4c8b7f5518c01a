// SPDX-License-Identifier: GPL-2.0-only
//! The series that there are, and the kernels that they and their parts make.

use wideleaf_kit::named;

named!(
    /// A patch series: the folder `kernel/<series>`. Each applies and builds without the others, but
    /// for those that it stands on.
    SeriesName, "series", {
        /// Bugs of the base are mended.
        Fixes = "fixes",
        /// Executable text is mapped by wide leaves.
        Text = "text",
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
    /// Without any series, with all of some, or with the last one's steps up to the line in
    /// `kernel/<series>/<base>/series` that names the variant. Of one series, each holds the ones
    /// before.
    Variant, "variant", {
        /// The base as Debian ships it.
        Pristine = "pristine",
        /// The whole series of fixes, and nothing else.
        Fixes = "fixes",
        /// Mappings and programs are placed where wide leaves fit.
        Aligned = "aligned",
        /// Text is read and mapped by the widest leaf that its mapping holds.
        Reads = "reads",
        /// Write faults on shared mappings map what fits of a folio.
        Writes = "writes",
        /// Text is read so only where faults gave evidence that it pays.
        Evidence = "evidence",
        /// The whole series on text: text that was read narrow is collapsed as well.
        Patched = "patched",
        /// The four series that have the aim of the one on text with less code.
        Lean = "lean",
        /// The whole series on the linear map: what was split is collapsed as well, and counted.
        LinearMap = "linear-map",
        /// The whole series on text, then the whole one on the linear map.
        Both = "both",
    }
);

impl SeriesName {
    /// The series that must be applied right before it; that one may stand on another.
    pub fn ground(self) -> Option<Self> {
        match self {
            Self::Text | Self::Align => Some(Self::Fixes),
            Self::Reads => Some(Self::Align),
            Self::Khugepaged => Some(Self::Reads),
            Self::Writes => Some(Self::Khugepaged),
            Self::Fixes | Self::LinearMap => None,
        }
    }
}

impl Variant {
    /// The series of which it has something, in the order in which they are applied.
    pub fn series(self) -> &'static [SeriesName] {
        match self {
            Self::Pristine => &[],
            Self::Fixes => &[SeriesName::Fixes],
            Self::Aligned | Self::Reads | Self::Writes | Self::Evidence | Self::Patched => {
                &[SeriesName::Fixes, SeriesName::Text]
            }
            Self::Lean => &[
                SeriesName::Fixes,
                SeriesName::Align,
                SeriesName::Reads,
                SeriesName::Khugepaged,
                SeriesName::Writes,
            ],
            Self::LinearMap => &[SeriesName::LinearMap],
            Self::Both => &[SeriesName::Fixes, SeriesName::Text, SeriesName::LinearMap],
        }
    }

    /// The series that it ends within, at the line that names it.
    pub fn part_of(self) -> Option<SeriesName> {
        match self {
            Self::Pristine
            | Self::Fixes
            | Self::Patched
            | Self::Lean
            | Self::LinearMap
            | Self::Both => None,
            Self::Aligned | Self::Reads | Self::Writes | Self::Evidence => Some(SeriesName::Text),
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
