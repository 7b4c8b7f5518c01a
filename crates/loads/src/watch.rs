// SPDX-License-Identifier: GPL-2.0-only
//! A process of ours beside the program, which the program does not notice: it is no child of it,
//! holds none of its files, and belongs to another session.

use crate::{Memory, Patience, Program, follow};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Pid, chdir, fork, getpid, setsid};

/// Leaves a process that follows this one, which is about to become `program`. This must be its
/// only thread. Whether there is one: not where the program would be the parent of such a process,
/// as the first process of a container is.
pub fn watch(memory: &Memory, program: &Program, pmd: u64) -> bool {
    if is_reaper() {
        return false;
    }
    let target = getpid();
    // SAFETY: there is one thread, so the child may do anything.
    match unsafe { fork() } {
        Ok(ForkResult::Child) => {
            // SAFETY: as above. The grandchild's parent ends at once.
            if let Ok(ForkResult::Child) = unsafe { fork() } {
                detach();
                let pid = target.as_raw() as u32;
                follow(memory, pid, program, pmd, Patience::default());
            }
            // SAFETY: ends this process without what the parent has registered.
            unsafe { libc::_exit(0) }
        }
        Ok(ForkResult::Parent { child }) => waitpid(child, None).is_ok(),
        Err(_) => false,
    }
}

/// Whether orphans become children of this process.
fn is_reaper() -> bool {
    let mut subreaper: libc::c_int = 0;
    // SAFETY: the kernel writes one integer.
    let asked = unsafe { libc::prctl(libc::PR_GET_CHILD_SUBREAPER, &raw mut subreaper) };
    getpid() == Pid::from_raw(1) || (asked == 0 && subreaper != 0)
}

/// Lets go of all that the program could miss: pipes whose end a reader waits for, the terminal,
/// the working folder.
fn detach() {
    let _ = setsid();
    let _ = chdir("/");
    // SAFETY: a string that ends with NUL; open(2), dup2(2) and close(2) take integers. No value
    // here owns any of the descriptors and is used after this.
    unsafe {
        libc::prctl(libc::PR_SET_NAME, c"wideleaf-watch".as_ptr());
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
        for fd in 0..3 {
            libc::dup2(null, fd);
        }
        if libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) != 0 {
            for fd in 3..1024 {
                libc::close(fd);
            }
        }
    }
}
