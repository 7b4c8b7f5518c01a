// SPDX-License-Identifier: GPL-2.0-only
//! Tells the plugin which files the pages of memory are of that it has recorded.
//!
//! Each program or library of the disk that has pages in the page cache is mapped here, and its
//! pages with it, so that this process' page tables lead to them. The page is the same for
//! all processes that executed from it, and for those that ended by execve or a signal too.

use super::Executable;
use anyhow::{Context, Result};
use object::LittleEndian;
use object::elf::{FileHeader64, PF_X, PT_LOAD};
use object::read::elf::{FileHeader, ProgramHeader};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use wideleaf_bench::mapping::Mapping;
use wideleaf_bench::page_size;
use wideleaf_guest::kit::marker;
use wideleaf_policy::trace::Text;

/// The programs and libraries below `root` that have pages in the page cache, with the numbers from
/// `first` on. Other file systems that are mounted there are left out.
pub(super) fn identify(root: &str, first: u64) -> Result<Vec<Executable>> {
    let device = fs::metadata(root).with_context(|| root.to_string())?.dev();
    let mut paths = Vec::new();
    walk(Path::new(root), device, &mut BTreeSet::new(), &mut paths)?;
    let mut found = Vec::new();
    for path in paths {
        let id = first + found.len() as u64;
        let file = File::open(&path).with_context(|| path.display().to_string())?;
        let told = tell(&file, id).with_context(|| path.display().to_string())?;
        let path = format!("/{}", path.strip_prefix(root)?.display());
        found.extend(told.map(|executable| Executable { path, ..executable }));
    }
    Ok(found)
}

/// Regular files of `device`, those with several names once, in the order of their names.
fn walk(
    folder: &Path,
    device: u64,
    inodes: &mut BTreeSet<u64>,
    found: &mut Vec<PathBuf>,
) -> Result<()> {
    let what = || folder.display().to_string();
    let entries = fs::read_dir(folder).with_context(what)?;
    let paths = entries.map(|entry| Ok(entry?.path()));
    let mut paths = paths.collect::<Result<Vec<_>>>().with_context(what)?;
    paths.sort();
    for path in paths {
        let meta = path
            .symlink_metadata()
            .with_context(|| path.display().to_string())?;
        if meta.dev() != device {
            continue;
        }
        if meta.is_dir() {
            walk(&path, device, inodes, found)?;
        } else if meta.is_file() && meta.len() > 0 && inodes.insert(meta.ino()) {
            found.push(path);
        }
    }
    Ok(())
}

/// Tells the plugin of a file, unless it has no executable segment, or no page in the page cache.
fn tell(file: &File, id: u64) -> Result<Option<Executable>> {
    let (page, size) = (page_size(), file.metadata()?.len());
    let mapping = Mapping::of_data(file, size)?;
    let in_cache = mapping.in_cache(page)?;
    if !in_cache.contains(&true) {
        return Ok(None);
    }
    // SAFETY: the mapping is of the whole file, lives as long, and the disk is not written to.
    let bytes = unsafe {
        std::slice::from_raw_parts(mapping.address() as *const u8, usize::try_from(size)?)
    };
    let text = executable_segments(bytes);
    if text.is_empty() {
        return Ok(None);
    }
    for (number, _) in in_cache.iter().enumerate().filter(|(_, there)| **there) {
        std::hint::black_box(bytes[number * page as usize]);
    }
    marker::identify(mapping.address(), size, id);
    Ok(Some(Executable {
        id,
        path: String::new(),
        size,
        text,
    }))
}

/// Those of a 64-bit ELF file; of anything else, none.
fn executable_segments(bytes: &[u8]) -> Vec<Text> {
    let parsed = FileHeader64::<LittleEndian>::parse(bytes)
        .and_then(|header| header.program_headers(LittleEndian, bytes));
    let segments = parsed.unwrap_or_default().iter();
    let executable = segments.filter(|segment| {
        segment.p_type(LittleEndian) == PT_LOAD && segment.p_flags(LittleEndian) & PF_X == PF_X
    });
    let text = executable.map(|segment| Text {
        offset: segment.p_offset(LittleEndian),
        size: segment.p_filesz(LittleEndian),
        address: segment.p_vaddr(LittleEndian),
    });
    text.filter(|text| text.size > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_in_the_page_cache_is_found_once_with_its_text() {
        let root = tempfile::tempdir().unwrap();
        let program = root.path().join("b/program");
        fs::create_dir(root.path().join("b")).unwrap();
        fs::copy("/proc/self/exe", &program).unwrap();
        fs::hard_link(&program, root.path().join("b/same")).unwrap();
        std::os::unix::fs::symlink("program", root.path().join("b/link")).unwrap();
        fs::write(root.path().join("a"), "no program").unwrap();
        fs::write(root.path().join("empty"), "").unwrap();
        let found = identify(root.path().to_str().unwrap(), 20).unwrap();
        let [executable] = &found[..] else {
            panic!("{found:?}");
        };
        assert_eq!(
            (executable.id, executable.path.as_str()),
            (20, "/b/program")
        );
        assert_eq!(executable.size, fs::metadata(&program).unwrap().len());
        let [text] = executable.text[..] else {
            panic!("{executable:?}");
        };
        assert!(text.size > 1 << 16 && text.offset + text.size <= executable.size);
        let page = page_size();
        assert_eq!(text.address % page, text.offset % page);
    }
}
