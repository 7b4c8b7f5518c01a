// SPDX-License-Identifier: GPL-2.0-only
//! What the kernel says no with.

use crate::kernel::{TextOfFiles, text_of_files};
use nix::errno::Errno;
use std::fmt;

/// The kernel's reason not to collapse a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal(pub Errno);

impl Refusal {
    /// The errno's name: `EINVAL`.
    pub fn name(self) -> String {
        format!("{:?}", self.0)
    }

    /// In words, by mm/khugepaged.c, `madvise_collapse_errno()`, and
    /// mm/madvise.c.
    pub fn meaning(self) -> &'static str {
        match self.0 {
            Errno::EINVAL => invalid(text_of_files()),
            Errno::ENOMEM => "no free memory in one piece, or nothing is mapped there any more",
            Errno::EBUSY => "the limit of its memory control group is reached",
            Errno::EAGAIN => "some of its pages are locked, dirty or in use; later it may work",
            Errno::EPERM => "not permitted: CAP_SYS_NICE is needed, as root has it",
            Errno::EACCES => "not permitted: its memory may not be looked at (ptrace)",
            Errno::ESRCH => "the process has ended",
            Errno::ENOSYS => "this kernel has no process_madvise()",
            Errno::EINTR => "interrupted by a signal",
            _ => "a reason that this program does not know",
        }
    }

    /// Trying the same again may help.
    pub fn passes(self) -> bool {
        matches!(self.0, Errno::EAGAIN | Errno::EINTR)
    }
}

/// EINVAL has many reasons; the kernel's own comes first.
fn invalid(kernel: TextOfFiles) -> &'static str {
    match kernel {
        TextOfFiles::None => {
            "this kernel was built without CONFIG_READ_ONLY_THP_FOR_FS, which it needs (before 7.2) to \
             collapse text of files, whatever folios their file system has; text on a tmpfs it \
             collapses where address and offset are congruent"
        }
        TextOfFiles::Unknown => {
            "the kernel does not collapse this: it was built without CONFIG_READ_ONLY_THP_FOR_FS \
             (needed before 7.2), the file is open for writing, or address and offset are not \
             congruent"
        }
        TextOfFiles::All => {
            "the kernel does not collapse this: the file is open for writing, or address and \
             offset are not congruent"
        }
        TextOfFiles::AsTheFileSystem => {
            "the kernel does not collapse this: its file system has no such folios for text, the \
             file is open for writing, or address and offset are not congruent"
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name(), self.meaning())
    }
}

impl std::error::Error for Refusal {}

impl From<Errno> for Refusal {
    fn from(errno: Errno) -> Self {
        Self(errno)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_system_is_blamed_only_where_the_kernel_asks_it() {
        let blamed = |kernel| invalid(kernel).contains("its file system has no such folios");
        assert!(blamed(TextOfFiles::AsTheFileSystem));
        for kernel in [TextOfFiles::None, TextOfFiles::All, TextOfFiles::Unknown] {
            assert!(!blamed(kernel), "{kernel:?}");
        }
        assert!(invalid(TextOfFiles::None).contains("CONFIG_READ_ONLY_THP_FOR_FS"));
    }
}
