// SPDX-License-Identifier: GPL-2.0-only
//! What the kernel says no with.

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
            Errno::EINVAL => {
                "the kernel does not collapse this: its file system has no such folios for text, \
                 the file is open for writing, or address and offset are not congruent"
            }
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
