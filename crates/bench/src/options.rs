// SPDX-License-Identifier: GPL-2.0-only
//! What the benchmark can be asked for, and what makes a request impossible.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use wideleaf_kit::named;
use wideleaf_kit::size::short;

/// Every stub file has a stub at each multiple of this, whatever the page size.
pub const STUB_SPACING: u64 = 4096;

/// The seed's benchmark: 512 MiB.
pub const DEFAULT_SIZE: u64 = 512 << 20;

/// Random calls per stub, unless told. Enough for the warm-up of the largest TLBs to vanish.
pub const CALLS_PER_STUB: u64 = 8;

/// Distance between two called stubs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stride {
    /// The base page size of the kernel that runs the benchmark.
    #[default]
    Page,
    /// So many bytes; a multiple of [`STUB_SPACING`].
    Bytes(u64),
}

impl Stride {
    /// The stride in bytes on a kernel with this page size (bytes).
    #[must_use]
    pub fn bytes(self, page_size: u64) -> u64 {
        match self {
            Stride::Page => page_size,
            Stride::Bytes(bytes) => bytes,
        }
    }
}

impl fmt::Display for Stride {
    /// As [`FromStr`] takes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stride::Page => f.write_str("page"),
            Stride::Bytes(bytes) => f.write_str(&short(*bytes)),
        }
    }
}

impl FromStr for Stride {
    type Err = String;

    /// Takes `page` or a size.
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "page" {
            return Ok(Stride::Page);
        }
        wideleaf_kit::size::parse(text)
            .map(Stride::Bytes)
            .map_err(|e| format!("{e}, or `page`"))
    }
}

named!(
    /// How all of the file came into the page cache before the first sweep.
    Cached, "way into the page cache", {
        /// By read(2).
        Read = "read",
        /// By write(2): the run makes the file.
        Written = "written",
    }
);

/// One run of the benchmark.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExecOptions {
    /// The stub file, made by [`crate::file`].
    pub file: PathBuf,
    /// Bytes to map, from the start of the file. `None`: all of it.
    pub size: Option<u64>,
    /// Distance between two called stubs.
    pub stride: Stride,
    /// Random calls. `None`: [`CALLS_PER_STUB`] times the number of stubs.
    pub calls: Option<u64>,
    /// Seed of the random sequence.
    pub seed: u64,
    /// Whether to measure the first sweep, from an empty page cache unless `cached` says otherwise.
    pub cold: bool,
    /// How that is filled first; `None`: it stays empty.
    pub cached: Option<Cached>,
    /// Threads that do the first sweep at once, each all of it.
    pub threads: u32,
    /// Seconds of sleep at the end of the first sweep, in which the kernel's threads may go on.
    pub settle_s: u32,
    /// Whether to measure random calls after a full sweep.
    pub random: bool,
    /// Alignment of the mapping's address in bytes. `None`: the kernel chooses, which is the
    /// point of the benchmark; a value is for comparison.
    pub align: Option<u64>,
}

impl Default for ExecOptions {
    fn default() -> Self {
        Self {
            file: PathBuf::new(),
            size: None,
            stride: Stride::Page,
            calls: None,
            seed: 1,
            cold: true,
            cached: None,
            threads: 1,
            settle_s: 0,
            random: true,
            align: None,
        }
    }
}

/// The request, checked against a file and a page size. All sizes in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Bytes mapped.
    pub size: u64,
    /// Distance between two called stubs.
    pub stride: u64,
    /// Number of stubs called by a sweep.
    pub stubs: u64,
    /// Number of random calls.
    pub calls: u64,
    /// Seed of the random sequence, never 0.
    pub seed: u64,
    /// Alignment asked for.
    pub align: Option<u64>,
}

/// A request that cannot be run. Each says the value and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages are the documentation")]
pub enum BadOptions {
    #[error("size 0: nothing to call; give at least one page, {}", short(*page))]
    EmptySize { page: u64 },
    #[error("stride 0 would call one stub forever; give `page` or a multiple of 4K")]
    ZeroStride,
    #[error("stride {0}: stubs stand at every 4K, so the stride must be a multiple of 4096")]
    Stride(u64),
    #[error(
        "size {size} is not a multiple of the stride {}; the nearest below is {}, above {}",
        short(*stride), short(size / stride * stride), short((size / stride + 1) * stride)
    )]
    NotMultiple { size: u64, stride: u64 },
    #[error("size {size} is not a multiple of the page size {}", short(*page))]
    NotPages { size: u64, page: u64 },
    #[error(
        "{}: size {} asked for, but the file has {}; make a larger one or ask for less",
        file.display(), short(*size), short(*have)
    )]
    FileTooSmall { file: PathBuf, size: u64, have: u64 },
    #[error("0 random calls measure nothing; leave the number out or switch the phase off")]
    NoCalls,
    #[error("neither the cold nor the random phase is on; nothing to measure")]
    NoPhase,
    #[error("alignment {align}: must be a power of two and at least the page size {}", short(*page))]
    Align { align: u64, page: u64 },
    #[error("a stub file of 0 bytes has no stub; the smallest is 4K")]
    EmptyFile,
    #[error(
        "stub file size {size} is not a multiple of 4096; the nearest are {} and {}",
        short(size / STUB_SPACING * STUB_SPACING), short((size / STUB_SPACING + 1) * STUB_SPACING)
    )]
    FileSize { size: u64 },
}

impl ExecOptions {
    /// Checks the request against the file's length and the page size, both in bytes.
    ///
    /// # Errors
    ///
    /// [`BadOptions`], the first that applies.
    pub fn plan(&self, file_len: u64, page: u64) -> Result<Plan, BadOptions> {
        if !self.cold && !self.random {
            return Err(BadOptions::NoPhase);
        }
        let size = self.size.unwrap_or(file_len);
        let stride = self.stride.bytes(page);
        self.check_sizes(size, stride, file_len, page)?;
        if let Some(align) = self.align
            && (!align.is_power_of_two() || align < page)
        {
            return Err(BadOptions::Align { align, page });
        }
        let stubs = size / stride;
        let calls = self.calls.unwrap_or(stubs.saturating_mul(CALLS_PER_STUB));
        if self.random && calls == 0 {
            return Err(BadOptions::NoCalls);
        }
        Ok(Plan {
            size,
            stride,
            stubs,
            calls,
            // xorshift never leaves 0.
            seed: if self.seed == 0 { u64::MAX } else { self.seed },
            align: self.align,
        })
    }

    fn check_sizes(
        &self,
        size: u64,
        stride: u64,
        file_len: u64,
        page: u64,
    ) -> Result<(), BadOptions> {
        match () {
            () if size == 0 => Err(BadOptions::EmptySize { page }),
            () if stride == 0 => Err(BadOptions::ZeroStride),
            () if !stride.is_multiple_of(STUB_SPACING) => Err(BadOptions::Stride(stride)),
            () if !size.is_multiple_of(stride) => Err(BadOptions::NotMultiple { size, stride }),
            () if !size.is_multiple_of(page) => Err(BadOptions::NotPages { size, page }),
            () if size > file_len => Err(BadOptions::FileTooSmall {
                file: self.file.clone(),
                size,
                have: file_len,
            }),
            () => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const K: u64 = 1024;

    fn options() -> ExecOptions {
        ExecOptions {
            file: "/x/stubs".into(),
            ..Default::default()
        }
    }

    #[test]
    fn defaults_follow_the_page_size() {
        let plan = options().plan(512 << 20, 64 * K).unwrap();
        assert_eq!(
            (plan.stubs, plan.calls, plan.stride),
            (8192, 65_536, 64 * K)
        );
        let plan = options().plan(512 << 20, 4 * K).unwrap();
        assert_eq!((plan.stubs, plan.calls), (131_072, 1_048_576));
    }

    #[test]
    fn four_k_stride_on_large_pages() {
        let options = ExecOptions {
            stride: Stride::Bytes(4 * K),
            ..options()
        };
        assert_eq!(options.plan(1 << 20, 64 * K).unwrap().stubs, 256);
    }

    #[test]
    fn impossible_requests_say_what_would_be_right() {
        let check = |change: fn(&mut ExecOptions), words: &[&str]| {
            let mut options = options();
            change(&mut options);
            let error = options.plan(1 << 20, 64 * K).unwrap_err().to_string();
            for word in words {
                assert!(error.contains(word), "`{error}` lacks `{word}`");
            }
        };
        check(|o| o.size = Some(0), &["size 0", "64K"]);
        check(|o| o.size = Some(100 * K), &["102400", "64K", "128K"]);
        check(|o| o.size = Some(2 << 20), &["/x/stubs", "2M", "1M"]);
        check(|o| o.stride = Stride::Bytes(0), &["stride 0", "page"]);
        check(|o| o.stride = Stride::Bytes(1000), &["1000", "4096"]);
        check(
            |o| (o.stride, o.size) = (Stride::Bytes(4096), Some(4096)),
            &["4096", "page size 64K"],
        );
        check(|o| o.calls = Some(0), &["0 random calls"]);
        check(|o| (o.cold, o.random) = (false, false), &["neither"]);
        check(
            |o| o.align = Some(3 << 20),
            &["3145728", "power of two", "64K"],
        );
        check(|o| o.align = Some(4096), &["4096", "64K"]);
    }

    #[test]
    fn seed_zero_still_gives_a_sequence() {
        let options = ExecOptions {
            seed: 0,
            ..options()
        };
        assert_ne!(options.plan(1 << 20, 4 * K).unwrap().seed, 0);
    }

    #[test]
    fn stride_reads_page_and_sizes() {
        assert_eq!("page".parse(), Ok(Stride::Page));
        assert_eq!("4K".parse(), Ok(Stride::Bytes(4096)));
        assert!("pages".parse::<Stride>().unwrap_err().contains("`page`"));
    }
}
