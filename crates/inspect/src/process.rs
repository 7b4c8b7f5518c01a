// SPDX-License-Identifier: GPL-2.0-only
//! The files that hold a process's text.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use wideleaf_procmap::Process;

/// Where the files of a process's text can be opened, each once. A process in another mount
/// namespace has its files below /proc/PID/root. Files that were deleted are left out: no process
/// will map them again.
pub fn text_files(proc: &Path, process: &Process) -> Vec<PathBuf> {
    let of = |pid: &str| fs::read_link(proc.join(pid).join("ns/mnt")).ok();
    let pid = process.pid.to_string();
    let same = of(&pid) == of("self");
    let vmas = process.mappings.iter().map(|mapping| &mapping.vma);
    let files = vmas.filter(|vma| vma.executable() && vma.inode != 0 && !vma.deleted);
    let names: BTreeSet<&str> = files.map(|vma| vma.name.as_str()).collect();
    let names = names.into_iter().filter(|name| name.starts_with('/'));
    let path = |name: &str| match same {
        true => PathBuf::from(name),
        false => proc
            .join(&pid)
            .join("root")
            .join(name.trim_start_matches('/')),
    };
    names.map(path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use wideleaf_procmap::{Reader, Scope, Select, sizes};

    #[test]
    fn this_process_has_its_program_and_no_data() {
        let (page, pmd) = sizes("/sys".as_ref());
        let mut reader = Reader::new("/proc".as_ref(), page, pmd, &[]);
        let own = std::process::id();
        let process = reader.read(own, Scope::All, &Select::default(), &mut |_| {});
        let files = text_files("/proc".as_ref(), &process.unwrap().unwrap());
        let program = std::env::current_exe().unwrap();
        assert_eq!(files.iter().filter(|file| **file == program).count(), 1);
        assert!(files.iter().all(|file| file.is_file()), "{files:?}");
    }
}
