// SPDX-License-Identifier: GPL-2.0-only
//! `MADV_COLLAPSE` by madvise(2) and process_madvise(2).

use crate::Refusal;
use nix::errno::Errno;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// include/uapi/asm-generic/mman-common.h; the libc crate has it for glibc only.
const MADV_COLLAPSE: libc::c_int = 25;

/// Collapses blocks of this process. `address` is a multiple of the PMD's
/// size, `length` in bytes too.
///
/// The content and the addresses stay; any address may be asked for.
///
/// # Errors
///
/// The kernel's reason, for the last block that it refused.
pub fn own(address: u64, length: u64) -> Result<(), Refusal> {
    // SAFETY: MADV_COLLAPSE changes by what memory is mapped, never what is in
    // it; of addresses that are not ours the kernel says ENOMEM.
    let result =
        unsafe { libc::madvise(address as *mut libc::c_void, length as usize, MADV_COLLAPSE) };
    Ok(Errno::result(result).map(drop)?)
}

/// Another process, held by a descriptor: its number cannot come to mean
/// somebody else meanwhile.
pub struct Other(OwnedFd);

impl Other {
    /// Takes hold of a process.
    ///
    /// # Errors
    ///
    /// If there is none with this number (`ESRCH`), or the kernel is older
    /// than 5.10.
    pub fn open(pid: u32) -> Result<Self, Refusal> {
        // SAFETY: pidfd_open(2) takes two integers and returns a descriptor.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid as libc::pid_t, 0) };
        let fd = Errno::result(fd)?;
        // SAFETY: the descriptor is new and nobody else's.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd as i32) }))
    }

    /// Collapses one block: `address` is a multiple of the PMD's size, which is
    /// `length`, in bytes.
    ///
    /// # Errors
    ///
    /// The kernel's reason.
    pub fn collapse(&self, address: u64, length: u64) -> Result<(), Refusal> {
        let range = libc::iovec {
            iov_base: address as *mut libc::c_void,
            iov_len: length as usize,
        };
        // SAFETY: `range` lives until the call returns; what it names is in the
        // other process, whose content does not change.
        let done = unsafe {
            libc::syscall(
                libc::SYS_process_madvise,
                self.0.as_raw_fd(),
                &range,
                1,
                MADV_COLLAPSE,
                0,
            )
        };
        Ok(Errno::result(done).map(drop)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_is_not_there_is_said_to_be_gone() {
        let gone = Other::open(i32::MAX as u32).err().unwrap();
        assert!(matches!(gone.0, Errno::ESRCH | Errno::EINVAL), "{gone}");
    }

    #[test]
    fn unmapped_memory_is_refused_not_touched() {
        assert!(own(0x10_0000_0000, 2 << 20).is_err());
    }
}
