// SPDX-License-Identifier: GPL-2.0-only
//! Makes a guest's counts independent of what else the host is doing.
//!
//! QEMU reads the guest's disk in other threads while the guest runs on. If
//! the data is there before the guest's kernel has put the reader to sleep,
//! the kernel saves two context switches and the idle loop's entry, some
//! 3 000 instructions of the 20 000 that a read takes: whether it does so
//! would depend on the host's load. With all threads of QEMU on one CPU, and
//! without preemption on wakeup (`SCHED_BATCH`, sched(7)), the disk answers
//! when the guest has nothing left to do, in every run.

use nix::errno::Errno;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Has `command` run on the `nth` CPU that this process may use, counted
/// around if there are fewer.
pub fn steady(command: &mut Command, nth: usize) -> &mut Command {
    let set = nth_cpu(nth);
    // SAFETY: sched_setaffinity and sched_setscheduler are plain system calls;
    // nothing allocates between fork and exec.
    unsafe {
        command.pre_exec(move || {
            if let Some(set) = set {
                let size = size_of::<libc::cpu_set_t>();
                Errno::result(libc::sched_setaffinity(0, size, &set))?;
            }
            // Not musl's wrapper, which always fails (ENOSYS). struct
            // sched_param is one int, the priority; SCHED_BATCH wants 0.
            let priority: libc::c_int = 0;
            let policy = libc::SCHED_BATCH;
            Errno::result(libc::syscall(
                libc::SYS_sched_setscheduler,
                0,
                policy,
                &priority,
            ))?;
            Ok(())
        })
    }
}

/// The set of that one CPU; `None` if the allowed ones cannot be told.
fn nth_cpu(nth: usize) -> Option<libc::cpu_set_t> {
    let size = size_of::<libc::cpu_set_t>();
    // SAFETY: a set of bits may be all zeros.
    let mut allowed: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes no more than `size` bytes to it.
    let result = unsafe { libc::sched_getaffinity(0, size, &mut allowed) };
    Errno::result(result).ok()?;
    let all = 0..libc::CPU_SETSIZE as usize;
    // SAFETY: `cpu` is below CPU_SETSIZE.
    let cpus: Vec<_> = all
        .filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &allowed) })
        .collect();
    let cpu = *cpus.get(nth.checked_rem(cpus.len())?)?;
    // SAFETY: as above.
    let mut one: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    unsafe { libc::CPU_SET(cpu, &mut one) };
    Some(one)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A child's allowed CPUs, as /proc tells.
    fn cpus_of_child(nth: usize) -> String {
        let mut command = Command::new("grep");
        command.args(["Cpus_allowed_list", "/proc/self/status"]);
        let out = steady(&mut command, nth).output().unwrap();
        let text = String::from_utf8(out.stdout).unwrap();
        text.split_whitespace().nth(1).unwrap().to_string()
    }

    #[test]
    fn a_child_has_one_cpu_and_they_go_around() {
        let count = crate::host::cpus();
        assert!(cpus_of_child(0).parse::<u32>().is_ok());
        assert_eq!(cpus_of_child(0), cpus_of_child(count));
        if count > 1 {
            assert_ne!(cpus_of_child(0), cpus_of_child(1));
        }
    }

    #[test]
    fn a_child_does_not_preempt_on_wakeup() {
        let mut command = Command::new("sh");
        command.args(["-c", "grep '^policy' /proc/self/sched || echo 'policy : 3'"]);
        let out = steady(&mut command, 0).output().unwrap();
        let text = String::from_utf8(out.stdout).unwrap();
        assert_eq!(text.split_whitespace().last(), Some("3"), "{text}");
    }
}
