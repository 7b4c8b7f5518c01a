// SPDX-License-Identifier: GPL-2.0-only
//! The series that there are, and the kernels that they and their parts make.

use wideleaf_kit::named;

named!(
    /// A patch series: the folder `kernel/<series>`. Each applies and builds without the others.
    SeriesName, "series", {
        /// Executable text is mapped by wide leaves.
        Text = "text",
        /// The same with less code, for real programs.
        Lean = "lean",
        /// The linear map is wide, split where needed, and wide again.
        LinearMap = "linear-map",
    }
);

named!(
    /// Without any series, with all of one, with its steps up to the line in
    /// `kernel/<series>/<base>/series` that names the variant, or with all of both. Of one series,
    /// each holds the ones before.
    Variant, "variant", {
        /// The base as Debian ships it.
        Pristine = "pristine",
        /// Bugs of the base are mended.
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
        /// The whole lean series on text.
        Lean = "lean",
        /// The whole series on the linear map: what was split is collapsed as well, and counted.
        LinearMap = "linear-map",
        /// The whole series on text, then the whole one on the linear map.
        Both = "both",
    }
);

impl Variant {
    /// The series of which it has something, in the order in which they are applied.
    pub fn series(self) -> &'static [SeriesName] {
        match self {
            Self::Pristine => &[],
            Self::Fixes
            | Self::Aligned
            | Self::Reads
            | Self::Writes
            | Self::Evidence
            | Self::Patched => &[SeriesName::Text],
            Self::Lean => &[SeriesName::Lean],
            Self::LinearMap => &[SeriesName::LinearMap],
            Self::Both => &[SeriesName::Text, SeriesName::LinearMap],
        }
    }

    /// Whether it ends before the last step of its series, at the line that names it.
    pub fn is_part(self) -> bool {
        match self {
            Self::Pristine | Self::Patched | Self::Lean | Self::LinearMap | Self::Both => false,
            Self::Fixes | Self::Aligned | Self::Reads | Self::Writes | Self::Evidence => true,
        }
    }
}
