// SPDX-License-Identifier: GPL-2.0-only
//! Which mappings hold text that was made at run time: executable ones without a file that has a
//! name. The code of the kernel in a process (vdso) is none.

use wideleaf_procmap::{Process, Vma};

/// Whether a mapping holds such text.
pub fn is_made(vma: &Vma) -> bool {
    vma.executable() && (is_private(vma) || is_shared(vma))
}

/// Anonymous memory, which may have a name of its own (PR_SET_VMA_ANON_NAME).
fn is_private(vma: &Vma) -> bool {
    let named = vma.name.starts_with("[anon:") || ["[heap]", "[stack]"].contains(&&*vma.name);
    vma.inode == 0 && (vma.name.is_empty() || named)
}

/// Memory of no file system that anybody mounts: what the kernel calls memfd_create(2), shared
/// anonymous memory and System V's.
pub(crate) fn is_shared(vma: &Vma) -> bool {
    let shared = ["/memfd:", "/dev/zero", "/SYSV", "[anon_shmem:"];
    shared.iter().any(|name| vma.name.starts_with(name))
}

/// Bytes of address space that hold such text, of a process with its mappings.
pub fn made(process: &Process) -> u64 {
    let mappings = process.mappings.iter().map(|mapping| &mapping.vma);
    mappings.filter(|vma| is_made(vma)).map(Vma::len).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_of_no_file_is_made_at_run_time() {
        let is = |line: &str| is_made(&wideleaf_procmap::mappings(line.as_bytes()).next().unwrap());
        for line in [
            "1000-9000 rwxp 0 00:00 0",
            "1000-9000 r-xp 0 00:00 0 [anon:jit]",
            "1000-9000 rwxp 0 00:00 0 [heap]",
            "1000-9000 r-xs 0 00:01 7 /memfd:doublemapper (deleted)",
            "1000-9000 r-xs 0 00:01 7 /dev/zero (deleted)",
        ] {
            assert!(is(line), "{line}");
        }
        for line in [
            "1000-9000 rw-p 0 00:00 0",
            "1000-9000 r-xp 0 00:00 0 [vdso]",
            "1000-9000 r-xp 0 08:01 7 /usr/lib/libx.so",
            "1000-9000 r-xp 0 08:01 7 /usr/lib/libx.so (deleted)",
        ] {
            assert!(!is(line), "{line}");
        }
    }
}
