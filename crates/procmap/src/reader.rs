// SPDX-License-Identifier: GPL-2.0-only
//! From a process number to its coverage.

use crate::Error;
use crate::classify::{Classifier, Geometry, Page, Sink};
use crate::coverage::{Coverage, Folios, Mapping, Process, Sight};
use crate::flags::{Flags, PageFlags};
use crate::maps::{Vma, parse_line};
use crate::pagemap::{self, By, CHUNK, Region};
use crate::process::{Folder, service};
use crate::smaps::{self, PmdMapped};
use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use wideleaf_kit::names;

/// Which mappings to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Those that can be executed.
    Text,
    /// All that can be accessed.
    All,
}

/// Says of a control group, by its path in /proc/PID/cgroup, whether its processes are meant.
#[derive(Clone)]
pub struct Within(Arc<dyn Fn(&str) -> bool + Send + Sync>);

impl Within {
    /// As `takes` says.
    pub fn new(takes: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(takes))
    }
}

impl fmt::Debug for Within {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Within")
    }
}

/// Which processes to look at; everything given must match.
#[derive(Clone, Debug, Default)]
pub struct Select {
    /// The command name or the executable's file name; `*` stands for any
    /// characters.
    pub name: Option<String>,
    /// A control group and those below it, as in /proc/PID/cgroup.
    pub cgroup: Option<String>,
    /// Control groups, by what somebody else knows of them.
    pub within: Option<Within>,
}

/// Reads processes.
pub struct Reader {
    root: PathBuf,
    geometry: Geometry,
    flags: Option<PageFlags>,
    flags_error: Option<String>,
    /// Whether PAGEMAP_SCAN works; assumed until it does not.
    scan: bool,
    regions: Vec<Region>,
    bytes: Vec<u8>,
    frames: Vec<u64>,
}

/// Base page size and the size that a PMD maps, in bytes, of this machine.
///
/// `sys` is where sysfs is mounted. A kernel without THP does not tell the
/// PMD size; it follows from the page size, as one page of 8-byte entries.
pub fn sizes(sys: &Path) -> (u64, u64) {
    let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE)
        .ok()
        .flatten()
        .map_or(4096, |p| p as u64);
    let pmd = std::fs::read_to_string(sys.join("kernel/mm/transparent_hugepage/hpage_pmd_size"))
        .ok()
        .and_then(|text| text.trim().parse::<u64>().ok())
        .filter(|pmd| pmd.is_power_of_two() && *pmd > page);
    (page, pmd.unwrap_or(page * (page / 8)))
}

impl Reader {
    /// Prepares to read processes below `root` (`/proc`).
    ///
    /// `page` and `pmd` are the kernel's sizes in bytes ([`sizes`]), `coalesce`
    /// the sizes between them that the CPU caches as one entry. Never fails:
    /// what cannot be opened is told by [`Reader::loss`] and every
    /// [`Process::sight`].
    pub fn new(root: &Path, page: u64, pmd: u64, coalesce: &[u64]) -> Self {
        let mut coalesce: Vec<u64> = coalesce
            .iter()
            .copied()
            .filter(|s| *s > page && *s < pmd)
            .collect();
        coalesce.sort_unstable_by(|a, b| b.cmp(a));
        let (flags, flags_error) = match PageFlags::open(root) {
            Ok(flags) => (Some(flags), None),
            Err(e) => (
                None,
                Some(format!("{}: {e}", root.join("kpageflags").display())),
            ),
        };
        Self {
            root: root.to_owned(),
            geometry: Geometry {
                page,
                pmd,
                coalesce,
            },
            flags,
            flags_error,
            scan: true,
            regions: Vec::new(),
            bytes: Vec::new(),
            frames: Vec::new(),
        }
    }

    /// As on a kernel before 6.7.
    #[cfg(test)]
    pub(crate) fn without_scan(mut self) -> Self {
        self.scan = false;
        self
    }

    /// Why folios cannot be seen, if they cannot: the file and the reason.
    pub fn loss(&self) -> Option<&str> {
        self.flags_error.as_deref()
    }

    /// Whether the kernel tells which pages a PMD maps (PAGEMAP_SCAN, Linux
    /// 6.7). Known after the first process with a mapping of PMD size.
    pub fn scans(&self) -> bool {
        self.scan
    }

    /// Starts a new pass: page flags read before are not trusted any more.
    pub fn refresh(&mut self) {
        if let Some(flags) = &mut self.flags {
            flags.forget();
        }
    }

    /// The processes there are, ascending.
    pub fn pids(&self) -> Result<Vec<u32>, Error> {
        let error = |e| Error::Read {
            path: self.root.clone(),
            source: e,
        };
        let mut pids = Vec::new();
        for entry in std::fs::read_dir(&self.root).map_err(error)? {
            pids.extend(
                entry
                    .map_err(error)?
                    .file_name()
                    .to_str()
                    .and_then(|n| n.parse::<u32>().ok()),
            );
        }
        pids.sort_unstable();
        Ok(pids)
    }

    /// Reads a process. `Ok(None)` if `select` does not match it.
    ///
    /// `sink` sees every stretch of mapped addresses, in address order.
    pub fn read(
        &mut self,
        pid: u32,
        scope: Scope,
        select: &Select,
        sink: &mut Sink,
    ) -> Result<Option<Process>, Error> {
        let folder = Folder::open(&self.root, pid)?;
        let (name, name_bytes) = folder.name()?;
        if let Some(pattern) = &select.name
            && !matches(pattern, &name)
            && !folder.executable().is_some_and(|e| matches(pattern, &e))
        {
            return Ok(None);
        }
        let cgroups = folder.cgroups().or_else(absent)?;
        if let Some(wanted) = &select.cgroup
            && !cgroups
                .iter()
                .any(|(_, path)| below(wanted, &names::lossy(path)))
        {
            return Ok(None);
        }
        if let Some(Within(takes)) = &select.within
            && !cgroups.iter().any(|(_, path)| takes(&names::lossy(path)))
        {
            return Ok(None);
        }
        let vmas = read_maps(&folder, scope)?;
        let mut process = Process {
            pid,
            name,
            name_bytes,
            cgroup: names::lossy(service(&cgroups)),
            cgroup_bytes: names::hex(service(&cgroups)),
            sight: Sight::Full,
            total: Coverage::default(),
            folios: Folios::default(),
            mappings: Vec::with_capacity(vmas.len()),
        };
        self.mappings(&folder, vmas, &mut process, sink)?;
        Ok(Some(process))
    }

    fn mappings(
        &mut self,
        folder: &Folder,
        vmas: Vec<Vma>,
        process: &mut Process,
        sink: &mut Sink,
    ) -> Result<(), Error> {
        if vmas.is_empty() {
            return Ok(());
        }
        let pagemap = match folder.file("pagemap") {
            Ok(file) => Some(file),
            Err(Error::Denied { .. }) => None,
            // A kernel without CONFIG_PROC_PAGE_MONITOR, unless it has ended.
            Err(Error::Gone { .. }) if folder.name().is_ok() => None,
            Err(e) => return Err(e),
        };
        let mut smaps = None;
        for vma in vmas {
            let (coverage, folios, sight) = match &pagemap {
                Some(file) => self.mapping(folder, file, &vma, &mut smaps, sink)?,
                None => (
                    Coverage {
                        size: vma.len(),
                        ..Coverage::default()
                    },
                    Folios::default(),
                    Sight::Maps,
                ),
            };
            process.sight = process.sight.min(sight);
            process.total.add(&coverage);
            process.folios.anon.add(&folios.anon);
            process.folios.file.add(&folios.file);
            process.mappings.push(Mapping {
                vma,
                coverage,
                folios,
            });
        }
        Ok(())
    }

    fn mapping(
        &mut self,
        folder: &Folder,
        file: &File,
        vma: &Vma,
        smaps: &mut Option<PmdMapped>,
        sink: &mut Sink,
    ) -> Result<(Coverage, Folios, Sight), Error> {
        let error = |e| folder.error("pagemap", e);
        // Without room for a PMD there is nothing that a scan could add.
        let wide = vma.can_hold(self.geometry.pmd);
        let (regions, bytes, frames) = (&mut self.regions, &mut self.bytes, &mut self.frames);
        let mut classifier = Classifier::new(&self.geometry, self.flags.as_mut(), sink, vma.len());
        classifier.below_pmd(true);
        let mut sight = Sight::Full;
        let mut feed = |classifier: &mut Classifier, region: Region| {
            pages(&self.geometry, vma, classifier, file, region, bytes, frames)
        };
        let mut next = vma.start;
        while wide && self.scan && next < vma.end {
            self.scan = pagemap::scan(file, &mut next, vma.end, regions).map_err(error)?;
            for region in regions.iter() {
                sight = sight.min(feed(&mut classifier, *region).map_err(error)?);
            }
        }
        let unsure = wide && !self.scan;
        // smaps does not tell which pages, and is silent about hugetlb.
        classifier.below_pmd(!unsure);
        if !wide || unsure {
            let (start, end) = (vma.start, vma.end);
            let by = By::Pte;
            sight = sight.min(feed(&mut classifier, Region { start, end, by }).map_err(error)?);
        }
        if unsure && smaps.is_none() {
            *smaps = Some(smaps::pmd_mapped(folder).or_else(absent)?);
        }
        let by_smaps = unsure.then(|| {
            smaps
                .as_ref()
                .and_then(|s| s.get(&vma.start))
                .copied()
                .unwrap_or_default()
        });
        let (coverage, folios) = classifier.finish(by_smaps).map_err(error)?;
        if coverage.resident == 0 {
            // A scan finds nothing where the address space has gone.
            pagemap::read(file, vma.start / self.geometry.page, 1, &mut self.bytes)
                .map_err(error)?;
            if self.bytes.is_empty() {
                return Err(error(std::io::ErrorKind::NotFound.into()));
            }
        }
        Ok((coverage, folios, sight))
    }
}

/// Feeds the mapped pages of a region to the classifier.
fn pages(
    geometry: &Geometry,
    vma: &Vma,
    classifier: &mut Classifier,
    file: &File,
    region: Region,
    bytes: &mut Vec<u8>,
    frames: &mut Vec<u64>,
) -> std::io::Result<Sight> {
    let (mut next, end) = (region.start / geometry.page, region.end / geometry.page);
    let mut sight = Sight::Full;
    if region.by == By::Pmd {
        let first = flags_of(classifier, file, next, bytes)?;
        if !first.is_some_and(|f| f.has(Flags::HUGE)) {
            // All is said: no need to look at 512 entries of each.
            let anon = first.map_or(vma.inode == 0, |f| f.has(Flags::ANON));
            classifier.pmd(next, end - next, anon)?;
            return Ok(sight);
        }
    }
    while next < end {
        let count = CHUNK.min(end - next);
        pagemap::read(file, next, count, bytes)?;
        if bytes.is_empty() {
            // The address space is gone: exec or exit while we read.
            return Err(std::io::Error::from(std::io::ErrorKind::NotFound));
        }
        frames.clear();
        frames.extend(
            pagemap::entries(bytes)
                .filter_map(pagemap::frame)
                .filter(|f| *f != 0),
        );
        if let Some(flags) = classifier.flags() {
            flags.prefetch(frames)?;
        }
        for (virt, entry) in (next..).zip(pagemap::entries(bytes)) {
            let Some(frame) = pagemap::frame(entry) else {
                continue;
            };
            let flags = match classifier.flags() {
                Some(flags) if frame != 0 => Some(flags.get(frame)?),
                _ => None,
            };
            if flags.is_none() {
                sight = Sight::Pmd;
            }
            classifier.page(Page { virt, frame, flags })?;
        }
        next += count;
    }
    Ok(sight)
}

/// The flags of the page that is mapped at `virt`, if they can be seen.
fn flags_of(
    classifier: &mut Classifier,
    file: &File,
    virt: u64,
    bytes: &mut Vec<u8>,
) -> std::io::Result<Option<Flags>> {
    pagemap::read(file, virt, 1, bytes)?;
    let frame = pagemap::entries(bytes)
        .find_map(pagemap::frame)
        .filter(|f| *f != 0);
    match (frame, classifier.flags()) {
        (Some(frame), Some(flags)) => flags.get(frame).map(Some),
        _ => Ok(None),
    }
}

fn read_maps(folder: &Folder, scope: Scope) -> Result<Vec<Vma>, Error> {
    let mut input = BufReader::with_capacity(64 << 10, folder.file("maps")?);
    let mut vmas = Vec::new();
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        if input
            .read_until(b'\n', &mut line)
            .map_err(|e| folder.error("maps", e))?
            == 0
        {
            break;
        }
        let text = line.trim_ascii_end();
        // Cheap refusal first: most lines are neither text nor wanted.
        if scope == Scope::Text
            && text
                .iter()
                .position(|b| *b == b' ')
                .and_then(|at| text.get(at + 3))
                != Some(&b'x')
        {
            continue;
        }
        let Some(vma) = parse_line(text) else {
            let text = names::lossy(&text[..text.len().min(80)]);
            return Err(Error::Malformed {
                path: folder.path("maps"),
                line: number,
                text,
            });
        };
        if vma.accessible() && !vma.in_kernel_half() && !vma.is_empty() {
            vmas.push(vma);
        }
    }
    Ok(vmas)
}

/// What may not be read, or is not there on this kernel, counts as empty.
fn absent<T: Default>(error: Error) -> Result<T, Error> {
    match error {
        Error::Denied { .. } | Error::Gone { .. } => Ok(T::default()),
        other => Err(other),
    }
}

/// Whether `path` is the control group `wanted` or below it.
fn below(wanted: &str, path: &str) -> bool {
    let wanted = wanted.trim_end_matches('/');
    path.strip_prefix(wanted)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether `name` fits `pattern`, in which `*` stands for any characters.
fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else {
        return false;
    };
    let Some(last) = parts.next_back() else {
        return rest.is_empty();
    };
    for part in parts {
        let Some(at) = rest.find(part) else {
            return false;
        };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_whole_or_by_stars() {
        for (pattern, name) in [
            ("node", "node"),
            ("n*e", "node"),
            ("*", ""),
            ("*od*", "node"),
            ("a*b*c", "aXbbYc"),
        ] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [("nod", "node"), ("*x", "node"), ("a*a", "a"), ("", "node")] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn a_control_group_holds_those_below() {
        assert!(below("/a", "/a") && below("/a/", "/a/b") && below("/", "/x"));
        assert!(!below("/a", "/ab") && !below("/a/b", "/a"));
    }
}
