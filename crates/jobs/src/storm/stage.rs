// SPDX-License-Identifier: GPL-2.0-only
//! What all of a storm's crew know: files, memory, counts, the time.

use super::page::{PIECE, Piece, of_returned};
use super::probe::FAULTED;
use super::{Report, Task};
use anyhow::{Context, Result, anyhow, bail};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use wideleaf_guest::kit::counts::Counts;
use wideleaf_guest::kit::crew::Crew;
use wideleaf_guest::kit::mapping::{Buffer, Mapping};

/// What is written and read at once where it does not matter.
const CHUNK: u64 = 1 << 20;

/// Readable and executable.
pub const RX: i32 = libc::PROT_READ | libc::PROT_EXEC;

/// The widest leaf that a text of a few megabytes can have.
pub const BLOCK: u64 = 2 << 20;

macro_rules! counts {
    ($($name:ident = $text:literal,)*) => {
        /// What is counted.
        #[derive(Clone, Copy, Debug)]
        pub enum Count { $(#[doc = $text] $name,)* }
        impl From<Count> for usize {
            fn from(count: Count) -> Self {
                count as Self
            }
        }
        const NAMES: &[&str] = &[$($text),*];
    };
}

counts! {
    Executed = "executed",
    Checked = "checked",
    Holes = "holes",
    Advised = "advised",
    Collapsed = "collapsed",
    Remapped = "remapped",
    Protected = "protected",
    Locked = "locked",
    Forked = "forked",
    Copied = "copied_on_write",
    Written = "written",
    WrittenDirectly = "written_directly",
    Truncated = "truncated",
    Punched = "punched",
    Spliced = "spliced",
    Dropped = "dropped",
    Killed = "killed",
    FailedAllocations = "failed_allocations",
    LongestWaitMs = "longest_wait_ms",
    Verified = "verified",
    CopiedUp = "copied_up",
    Ahead = "ahead",
    Filled = "filled",
}

/// What all of a crew know.
#[derive(Debug)]
pub struct Stage {
    /// What was asked for.
    pub options: Task,
    /// When all must have ended.
    pub deadline: Instant,
    /// Bytes of the kernel's pages.
    pub page: u64,
    counts: Counts,
}

impl Stage {
    /// A stage for what was asked, from now on.
    pub fn new(options: &Task) -> Result<Self> {
        Ok(Self {
            options: options.clone(),
            deadline: Instant::now() + Duration::from_secs(options.seconds.into()),
            page: wideleaf_bench::page_size(),
            counts: Counts::new(NAMES.len())?,
        })
    }

    /// Begins to count the time, after what preparation took.
    pub fn begin(&mut self) {
        self.deadline = Instant::now() + Duration::from_secs(self.options.seconds.into());
    }

    /// Nobody yet; no task may hang for longer than was asked.
    pub fn crew(&self) -> Result<Crew> {
        Crew::watched(self.patience())
    }

    /// How long a task may hang.
    pub fn patience(&self) -> Duration {
        Duration::from_secs(self.options.hung_s.into())
    }

    /// Waits until all of a crew have ended, which must be soon after the deadline.
    pub fn finish(&self, crew: Crew) -> Result<()> {
        crew.finish_by(self.deadline + 2 * self.patience())
    }

    /// How often, so far.
    pub fn counted(&self, count: Count) -> u64 {
        self.counts.get(count)
    }

    /// What was counted.
    pub fn report(&self) -> Report {
        let all = NAMES.iter().enumerate();
        Report {
            counts: all
                .map(|(n, name)| (name.to_string(), self.counts.get(n)))
                .collect(),
        }
    }

    /// Whether it goes on.
    pub fn goes_on(&self) -> bool {
        Instant::now() < self.deadline
    }

    /// Counts something.
    pub fn count(&self, what: Count, by: u64) {
        self.counts.add(what, by);
    }

    /// Counts what executing `piece` returned: it must be that one, or a hole.
    pub fn executed(&self, piece: Piece, returned: u64) -> Result<()> {
        if returned == piece.returned() {
            self.count(Count::Executed, 1);
        } else if returned == FAULTED || piece.admits_returned(returned) {
            self.count(Count::Holes, 1);
        } else {
            let other = of_returned(returned);
            let other = other.map_or(format!("{returned:#x}"), |piece| piece.to_string());
            bail!("{piece}: executing it gives {other}");
        }
        Ok(())
    }

    /// Keeps the largest.
    pub fn most(&self, what: Count, value: u64) {
        self.counts.most(what, value);
    }

    /// A generator of its own for the `nth` of a crew.
    pub fn random(&self, nth: u64) -> fastrand::Rng {
        fastrand::Rng::with_seed(self.options.seed.wrapping_mul(1 << 20).wrapping_add(nth))
    }

    /// The path of a file.
    pub fn path(&self, file: u32) -> PathBuf {
        self.options.folder.join(format!("text-{file}"))
    }

    /// Opens a file with these flags besides the access mode.
    pub fn open(&self, file: u32, writable: bool, flags: i32) -> Result<File> {
        let path = self.path(file);
        OpenOptions::new()
            .read(true)
            .write(writable)
            .custom_flags(flags)
            .open(&path)
            .with_context(|| path.display().to_string())
    }

    /// Makes a file of `size` bytes, each piece telling where it is.
    pub fn make(&self, file: u32, size: u64) -> Result<()> {
        let path = self.path(file);
        let out = File::create(&path).with_context(|| path.display().to_string())?;
        for at in (0..size).step_by(CHUNK as usize) {
            out.write_all_at(&text(file, at, CHUNK.min(size - at), 0), at)
                .with_context(|| format!("{}: writing", path.display()))?;
        }
        out.sync_all().context("fsync")
    }

    /// Compares what is in the page cache with what is on the disk.
    /// Nobody may write any more.
    pub fn verify(&self, file: u32) -> Result<()> {
        let (cached, direct) = (
            self.open(file, false, 0)?,
            self.open(file, false, libc::O_DIRECT)?,
        );
        let size = cached.metadata()?.len();
        let (mut soft, mut hard) = (Buffer::new(CHUNK)?, Buffer::new(CHUNK)?);
        for at in (0..size).step_by(CHUNK as usize) {
            let len = CHUNK.min(size - at) as usize;
            cached
                .read_exact_at(&mut soft.bytes()[..len], at)
                .context("read")?;
            direct
                .read_exact_at(&mut hard.bytes()[..len], at)
                .context("direct read")?;
            let pieces = soft.bytes()[..len]
                .chunks(PIECE as usize)
                .zip(hard.bytes().chunks(PIECE as usize));
            for (n, (soft, hard)) in pieces.enumerate() {
                let number = (at / PIECE) as u32 + n as u32;
                let piece = Piece { file, number };
                if soft != hard {
                    bail!(
                        "{piece}: the page cache has {}, the disk {}: stale",
                        word(soft),
                        word(hard)
                    );
                }
                piece
                    .check(hard)
                    .map_err(|wrong| anyhow!("on the disk: {wrong}"))?;
                self.count(Count::Verified, 1);
            }
        }
        Ok(())
    }
}

/// The second word of a piece's data, for messages.
fn word(piece: &[u8]) -> String {
    let word: [u8; 8] = piece[24..32].try_into().unwrap_or_default();
    format!("{:#x}", u64::from_ne_bytes(word))
}

/// `len` bytes of a file from `at` on.
pub fn text(file: u32, at: u64, len: u64, generation: u32) -> Vec<u8> {
    let mut bytes = vec![0; len as usize];
    for (n, out) in bytes.chunks_exact_mut(PIECE as usize).enumerate() {
        let number = (at / PIECE) as u32 + n as u32;
        Piece { file, number }.write(generation, out);
    }
    bytes
}

/// A mapping of a file, executable, at an address that is congruent to its offset by [`BLOCK`].
pub fn map_text(file: &File, offset: u64, len: u64, flags: i32) -> Result<Mapping> {
    let room = Mapping::room(len + 2 * BLOCK)?.start;
    let at = room.next_multiple_of(BLOCK) + offset % BLOCK;
    Mapping::new(Some(at), len, RX, flags, Some((file, offset)))
}
