// SPDX-License-Identifier: GPL-2.0-only
//! Tries one means after the other.

use crate::program::{Image, beside, find, libraries};
use crate::{Error, Means, Refused, Unfit, cache, fill, namespace, tunable};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::Duration;
use wideleaf_collapse::{Source, headroom};
use wideleaf_stage::Copies;

/// What is to be started, and how.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The program, searched for in PATH.
    pub program: &'a OsStr,
    /// Programs that it starts.
    pub with: &'a [OsString],
    /// The libraries of all of them, too.
    pub libs: bool,
    /// Only these means, in this order; if none, the usual ones.
    pub means: &'a [Means],
    /// Bytes of memory that may be taken; if none, a quarter of what is free.
    pub limit: Option<u64>,
    /// Whether the kernel may reclaim and compact for it.
    pub reclaim: bool,
}

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// Nothing, as was asked for.
    AsIs,
    /// Nothing: no such program can be started, which says so itself.
    NotThere,
    /// Nothing: copies of all that could be wide lie over it.
    Staged,
    /// The tunable is set.
    Tunable,
    /// Text is wide.
    Wide(Wide),
}

/// Text that is wide, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wide {
    /// By which means.
    pub by: By,
    /// That leaves of a PMD's size map.
    pub wide: u64,
    /// In whole blocks.
    pub possible: u64,
    /// Of all files.
    pub text: u64,
    /// Of one leaf.
    pub pmd: u64,
    /// CPU time that it took.
    pub cpu: Duration,
}

/// Where the wide text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The file's own folios in the page cache, of which so many bytes were read anew.
    Filled {
        /// Of the text.
        read: u64,
    },
    /// Copies in a mount namespace, which may have needed a user namespace.
    Copies {
        /// It did.
        user: bool,
    },
    /// The page cache.
    Cache,
}

/// Does what can be done for a program that this process is about to become. This must be its only
/// thread.
///
/// # Errors
///
/// Why nothing could be done; the program can be started all the same.
pub fn widen(request: &Request) -> Result<Done, Error> {
    if request.means == [Means::None] {
        return Ok(Done::AsIs);
    }
    let Some(path) = find(request.program) else {
        return Ok(Done::NotThere);
    };
    let (page, pmd) = wideleaf_procmap::sizes("/sys".as_ref());
    let images = wanted(&path, request, pmd)?;
    if images.is_empty() {
        return Ok(Done::Staged);
    }
    let sizes = namespace::Sizes {
        page,
        pmd,
        limit: limit(request, page, pmd),
        reclaim: request.reclaim,
    };
    let means = match request.means.is_empty() {
        true => &Means::USUAL[..],
        false => request.means,
    };
    let mut refusals = Vec::new();
    for means in means {
        match by(*means, &path, &images, sizes) {
            Ok(done) => return Ok(done),
            Err(why) => refusals.push((*means, why)),
        }
    }
    Err(Error::Refused(refusals))
}

/// What may be taken. Beyond what is free the kernel kills in the control group, and not only what
/// fills the copies.
fn limit(request: &Request, page: u64, pmd: u64) -> u64 {
    let source = Source {
        proc: "/proc".into(),
        page,
        pmd,
        reclaim: request.reclaim,
    };
    let left = headroom(&source.proc, "/sys/fs/cgroup".as_ref(), std::process::id());
    let free = source.bytes().unwrap_or(0).min(left);
    request.limit.unwrap_or(free / 4).min(free)
}

fn by(
    means: Means,
    program: &Path,
    images: &[Image],
    sizes: namespace::Sizes,
) -> Result<Done, Refused> {
    let before = cpu();
    let wide = |by, wide| {
        Done::Wide(Wide {
            by,
            wide,
            possible: images.iter().map(Image::possible).sum(),
            text: images.iter().map(|i| i.verdict.text).sum(),
            pmd: sizes.pmd,
            cpu: cpu().saturating_sub(before),
        })
    };
    match means {
        Means::Fill => {
            let filled = fill::fill(images, sizes.limit, sizes.reclaim)?;
            Ok(wide(By::Filled { read: filled.read }, filled.wide))
        }
        Means::Namespace => {
            let take = images.iter().map(|i| i.size.next_multiple_of(sizes.pmd));
            let (take, limit) = (take.sum(), sizes.limit);
            if take > limit {
                return Err(Refused::TooLarge { take, limit });
            }
            let entered = namespace::enter(images, sizes)?;
            Ok(wide(By::Copies { user: entered.user }, entered.wide))
        }
        Means::Collapse => {
            let done = cache::collapse(images, sizes.pmd, sizes.limit)?;
            Ok(wide(By::Cache, done))
        }
        Means::Tunable => tunable::set(program).map(|()| Done::Tunable),
        Means::None => Ok(Done::AsIs),
    }
}

/// CPU time of this process and of the children that it has waited for.
fn cpu() -> Duration {
    let of = |who| getrusage(who).map(|usage| [usage.user_time(), usage.system_time()]);
    let times = [UsageWho::RUSAGE_SELF, UsageWho::RUSAGE_CHILDREN].map(of);
    let times = times.into_iter().flatten().flatten();
    times
        .map(|time: TimeVal| Duration::new(time.tv_sec() as u64, time.tv_usec() as u32 * 1000))
        .sum()
}

/// The files whose text holds a block that could be wide and is not yet: none if all are staged.
fn wanted(path: &Path, request: &Request, pmd: u64) -> Result<Vec<Image>, Error> {
    let mut images = images(path, request)?;
    let fits = |image: &Image| image.possible() >= pmd;
    if !images.iter().any(fits) {
        return Err(none_fits(path, &images, request, pmd));
    }
    images.retain(fits);
    let copies = Copies::look();
    images.retain(|image| !copies.cover(&image.path));
    // Two names of one file are one.
    images.sort_by(|a, b| a.path.cmp(&b.path));
    images.dedup_by(|a, b| a.path == b.path);
    Ok(images)
}

/// The programs, and the libraries if they are wanted.
fn images(path: &Path, request: &Request) -> Result<Vec<Image>, Error> {
    let mut images = Vec::new();
    match Image::read(path) {
        Ok(program) => images.push(program),
        // make, and whatever else starts the programs that matter.
        Err(Unfit::Script) if !request.with.is_empty() => {}
        Err(why) => return Err(why.into()),
    }
    for name in request.with {
        let image = match beside(name) {
            Some(path) => Image::read(&path),
            None => Err(Unfit::Missing),
        };
        images.push(image.map_err(|why| Error::With {
            name: name.clone(),
            why,
        })?);
    }
    if request.libs {
        let of_programs: Vec<_> = images.iter().flat_map(|i| libraries(&i.path)).collect();
        images.extend(of_programs.iter().filter_map(|path| Image::read(path).ok()));
    }
    Ok(images)
}

/// Why no file has a block: it is linked so, or it is too small, and then its libraries may do.
fn none_fits(path: &Path, images: &[Image], request: &Request, pmd: u64) -> Error {
    let relinked = |image: &Image| image.verdict.usable + image.verdict.gain;
    if images.iter().any(|image| relinked(image) >= pmd) {
        return Error::NoBlock { pmd };
    }
    let libs = match request.libs {
        true => Vec::new(),
        false => libraries(path),
    };
    let libs = libs.iter().filter_map(|path| Image::read(path).ok());
    Error::TooSmall {
        files: images.len(),
        text: images.iter().map(|i| i.verdict.text).max().unwrap_or(0),
        pmd,
        libs: libs.map(|i| i.possible()).filter(|p| *p >= pmd).sum(),
    }
}
