// SPDX-License-Identifier: GPL-2.0-only
//! Asks for coverage records in another process, at the moment it wants to exit.
//!
//! The plugin walks the page tables of whoever executes the marker, so the other process has to:
//! at its entry to exit_group(2) it is made to call mmap(2) instead, the marker is put there,
//! and it is sent there once for each mapping. Its own mappings stay as they were.

use crate::kit::marker;
use anyhow::{Context, Result, bail, ensure};
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use std::ffi::c_long;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use wideleaf_procmap::mappings;

/// An executable mapping of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mapped {
    /// Number of its coverage record.
    pub id: u64,
    /// The file's path as the program sees it.
    pub file: String,
    /// First address.
    pub start: u64,
    /// Bytes.
    pub len: u64,
    /// Where in the file it begins, in bytes.
    pub offset: u64,
}

/// Where the registers that matter stand in the NT_PRSTATUS set of 64-bit words.
#[cfg(target_arch = "aarch64")]
mod layout {
    pub const WORDS: usize = 34;
    pub const ARGUMENTS: [usize; 6] = [0, 1, 2, 3, 4, 5];
    pub const RESULT: usize = 0;
    pub const CALL: usize = 8;
    pub const PC: usize = 32;
}

/// As above: struct user_regs_struct.
#[cfg(target_arch = "x86_64")]
mod layout {
    pub const WORDS: usize = 27;
    pub const ARGUMENTS: [usize; 6] = [14, 13, 12, 7, 9, 8];
    pub const RESULT: usize = 10;
    pub const CALL: usize = 15;
    pub const PC: usize = 16;
}

use layout::{ARGUMENTS, CALL, PC, RESULT, WORDS};

const NT_PRSTATUS: c_long = 1;

// Requests, whose type differs between libcs.
const SETOPTIONS: c_long = libc::PTRACE_SETOPTIONS as c_long;
const SYSCALL: c_long = libc::PTRACE_SYSCALL as c_long;
const CONT: c_long = libc::PTRACE_CONT as c_long;
const GETREGSET: c_long = libc::PTRACE_GETREGSET as c_long;
const SETREGSET: c_long = libc::PTRACE_SETREGSET as c_long;

/// PTRACE_O_TRACESYSGOOD: stops at system calls differ from other SIGTRAPs by this bit.
const SYSCALL_STOP: i32 = libc::SIGTRAP | 0x80;

/// Starts `command`, and gives its executable mappings of files at its exit. Their coverage
/// records have the numbers from `first` on. The process is killed in place of its exit.
pub fn text_at_exit(mut command: Command, first: u64) -> Result<Vec<Mapped>> {
    // SAFETY: ptrace(PTRACE_TRACEME) is a plain system call.
    unsafe {
        command.pre_exec(|| {
            let result = libc::syscall(libc::SYS_ptrace, libc::PTRACE_TRACEME, 0, 0, 0);
            Errno::result(result).map(drop).map_err(Into::into)
        });
    }
    let child = command.spawn()?;
    let tracee = Tracee(Pid::from_raw(child.id().cast_signed()));
    let result = tracee.look(first);
    let _ = kill(tracee.0, Signal::SIGKILL);
    while !matches!(
        waitpid(tracee.0, None),
        Ok(WaitStatus::Signaled(..) | WaitStatus::Exited(..)) | Err(_)
    ) {}
    result
}

struct Tracee(Pid);

impl Tracee {
    fn look(&self, first: u64) -> Result<Vec<Mapped>> {
        // The stop after its execve().
        waitpid(self.0, None)?;
        let options = libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_EXITKILL;
        self.ptrace(SETOPTIONS, 0, options.into())?;
        self.run_to_exit()?;
        let mappings = self.text(first)?;
        let page = self.map_page()?;
        self.write(page, &marker::coverage_code())?;
        for mapping in &mappings {
            self.ask(page, mapping)?;
        }
        Ok(mappings)
    }

    /// Lets it run until it enters exit_group(2).
    fn run_to_exit(&self) -> Result<()> {
        loop {
            if self.resume(SYSCALL)? == SYSCALL_STOP
                && self.registers()?[CALL].cast_signed() == libc::SYS_exit_group
            {
                return Ok(());
            }
        }
    }

    /// Makes it call mmap(2) instead of what it has just entered.
    fn map_page(&self) -> Result<u64> {
        let size = wideleaf_bench::page_size();
        let access = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let arguments = [0, size, access as u64, flags as u64, u64::MAX, 0];
        let mut registers = self.registers()?;
        for (register, value) in ARGUMENTS.into_iter().zip(arguments) {
            registers[register] = value;
        }
        registers[CALL] = libc::SYS_mmap.cast_unsigned();
        self.set_registers(&registers)?;
        self.set_call(libc::SYS_mmap as i32)?;
        let stop = self.resume(SYSCALL)?;
        ensure!(stop == SYSCALL_STOP, "stopped by signal {stop} in mmap");
        let address = self.registers()?[RESULT];
        ensure!(
            address.is_multiple_of(size),
            "its mmap failed: {address:#x}"
        );
        Ok(address)
    }

    /// On arm64 the number of the call that was entered is not a register any more.
    #[cfg(target_arch = "aarch64")]
    fn set_call(&self, mut number: i32) -> Result<()> {
        const NT_ARM_SYSTEM_CALL: c_long = 0x404;
        let mut place = libc::iovec {
            iov_base: (&raw mut number).cast(),
            iov_len: size_of::<i32>(),
        };
        self.ptrace(
            SETREGSET,
            NT_ARM_SYSTEM_CALL,
            (&raw mut place).addr() as c_long,
        )
    }

    /// On x86 the register is all there is.
    #[cfg(target_arch = "x86_64")]
    fn set_call(&self, _number: i32) -> Result<()> {
        Ok(())
    }

    fn write(&self, address: u64, bytes: &[u8]) -> Result<()> {
        let path = format!("/proc/{}/mem", self.0);
        let memory = OpenOptions::new().write(true).open(&path);
        memory
            .and_then(|memory| memory.write_all_at(bytes, address))
            .context(path)
    }

    /// Sends it to the marker at `page`, and through to the breakpoint behind.
    fn ask(&self, page: u64, mapping: &Mapped) -> Result<()> {
        let mut registers = self.registers()?;
        registers[PC] = page;
        // No call to restart.
        if cfg!(target_arch = "x86_64") {
            registers[CALL] = u64::MAX;
        }
        let arguments = [mapping.start, mapping.len, mapping.id];
        for (register, value) in ARGUMENTS.into_iter().zip(arguments) {
            registers[register] = value;
        }
        self.set_registers(&registers)?;
        let signal = self.resume(CONT)?;
        ensure!(signal == libc::SIGTRAP, "signal {signal} at the marker");
        Ok(())
    }

    /// Executable mappings of files.
    fn text(&self, first: u64) -> Result<Vec<Mapped>> {
        let path = format!("/proc/{}/maps", self.0);
        let maps = fs::read(&path).context(path)?;
        Ok(executable(&maps, first))
    }

    /// Lets it run to its next stop, and gives the stop's signal. A signal that stopped it is
    /// not delivered: at its exit nothing waits for one.
    fn resume(&self, how: c_long) -> Result<i32> {
        self.ptrace(how, 0, 0)?;
        match waitpid(self.0, None)? {
            WaitStatus::Stopped(_, signal) => Ok(signal as i32),
            WaitStatus::PtraceSyscall(_) => Ok(SYSCALL_STOP),
            other => bail!("it ended before its exit: {other:?}"),
        }
    }

    fn registers(&self) -> Result<[u64; WORDS]> {
        let mut registers = [0; WORDS];
        self.register_set(GETREGSET, &mut registers)?;
        Ok(registers)
    }

    fn set_registers(&self, registers: &[u64; WORDS]) -> Result<()> {
        self.register_set(SETREGSET, &mut registers.clone())
    }

    fn register_set(&self, request: c_long, registers: &mut [u64; WORDS]) -> Result<()> {
        let mut place = libc::iovec {
            iov_base: registers.as_mut_ptr().cast(),
            iov_len: size_of_val(registers),
        };
        self.ptrace(request, NT_PRSTATUS, (&raw mut place).addr() as c_long)
    }

    fn ptrace(&self, request: c_long, address: c_long, data: c_long) -> Result<()> {
        // SAFETY: whatever `data` points to lives in the caller, and has the size that the
        // request wants.
        let result =
            unsafe { libc::syscall(libc::SYS_ptrace, request, self.0.as_raw(), address, data) };
        Errno::result(result)
            .map(drop)
            .with_context(|| format!("ptrace request {request:#x}"))
    }
}

/// Numbered from `first` on.
fn executable(maps: &[u8], first: u64) -> Vec<Mapped> {
    let text = mappings(maps).filter(|vma| vma.executable() && vma.name.starts_with('/'));
    text.zip(first..)
        .map(|(vma, id)| Mapped {
            id,
            start: vma.start,
            len: vma.len(),
            offset: vma.offset,
            file: vma.name,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executable_mappings_of_files_alone() {
        let maps = b"400000-600000 r-xp 00010000 fe:00 131   /usr/bin/perl\n\
                    600000-601000 r--p 00210000 fe:00 131   /usr/bin/perl\n\
                    700000-701000 rwxp 00000000 00:00 0 \n\
                    7ff000-800000 r-xp 00000000 00:00 0     [vdso]\n";
        let perl = Mapped {
            id: 3000,
            file: "/usr/bin/perl".into(),
            start: 0x40_0000,
            len: 0x20_0000,
            offset: 0x1_0000,
        };
        assert_eq!(executable(maps, 3000), [perl]);
    }

    #[test]
    fn a_program_is_looked_at_when_it_ends() {
        let text = text_at_exit(Command::new("/bin/true"), 7).unwrap();
        assert!(text[0].len > 0 && text[0].id == 7, "{text:?}");
        assert!(text.iter().any(|m| m.file.ends_with("/true")), "{text:?}");
    }
}
