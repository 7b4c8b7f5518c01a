// SPDX-License-Identifier: GPL-2.0-only
//! Asks for coverage records in other processes, at the moment they want to exit.
//!
//! The plugin walks the page tables of the process that executes the marker, so each process has to
//! do it itself. The tracer follows the first process, all that descend from it, and their threads.
//! The thread that enters exit_group(2) is made to call mmap(2) instead, the marker is put there, and
//! the thread is sent there once for each mapping. Then it makes its exit_group(2) again, so that its
//! parent sees the status that it expects. Signals go where they were meant to go: a load may need
//! them to end.

use crate::kit::marker;
use anyhow::{Context, Result, bail, ensure};
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_long;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use wideleaf_procmap::mappings;

/// An executable mapping of a file, or the part of one that leaves of one size could map.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mapped {
    /// Number of its coverage record.
    pub id: u64,
    /// The file's path as init sees it, which is outside the program's root.
    pub file: String,
    /// First address.
    pub start: u64,
    /// Bytes.
    pub len: u64,
    /// Where in the file it begins, in bytes.
    pub offset: u64,
    /// Bytes of the widest leaf of which it is whole blocks by address and offset; 0 if that was not
    /// asked.
    #[serde(default)]
    pub block: u64,
    /// Number of the record of the mapping's first part.
    #[serde(default)]
    pub mapping: u64,
}

/// Where the registers that matter stand in the NT_PRSTATUS set of 64-bit words.
#[cfg(target_arch = "aarch64")]
mod layout {
    pub const WORDS: usize = 34;
    pub const ARGUMENTS: [usize; 6] = [0, 1, 2, 3, 4, 5];
    pub const RESULT: usize = 0;
    pub const CALL: usize = 8;
    pub const PC: usize = 32;
    /// Bytes of the instruction that makes a system call.
    pub const STEP: u64 = 4;
}

/// As above: struct user_regs_struct.
#[cfg(target_arch = "x86_64")]
mod layout {
    pub const WORDS: usize = 27;
    pub const ARGUMENTS: [usize; 6] = [14, 13, 12, 7, 9, 8];
    pub const RESULT: usize = 10;
    pub const CALL: usize = 15;
    pub const PC: usize = 16;
    pub const STEP: u64 = 2;
}

use layout::{ARGUMENTS, CALL, PC, RESULT, STEP, WORDS};

const NT_PRSTATUS: c_long = 1;

// Requests, whose type differs between libcs.
const SETOPTIONS: c_long = libc::PTRACE_SETOPTIONS as c_long;
const SYSCALL: c_long = libc::PTRACE_SYSCALL as c_long;
const CONT: c_long = libc::PTRACE_CONT as c_long;
const GETREGSET: c_long = libc::PTRACE_GETREGSET as c_long;
const SETREGSET: c_long = libc::PTRACE_SETREGSET as c_long;

/// PTRACE_O_TRACESYSGOOD: stops at system calls differ from other SIGTRAPs by this bit.
const SYSCALL_STOP: i32 = libc::SIGTRAP | 0x80;

/// Stops at system calls are told from others, children and threads are followed, and nothing
/// outlives the tracer.
const OPTIONS: i32 = libc::PTRACE_O_TRACESYSGOOD
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEEXEC
    | libc::PTRACE_O_EXITKILL;

/// The states of a command and all its descendants when they ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// Executable mappings of files, process by process.
    pub text: Vec<Mapped>,
    /// Processes that ended.
    pub processes: u64,
    /// Of these, those that could not be asked: a signal ended them, or there was no room left.
    pub unseen: u64,
    /// Bytes of page tables of the process that had most.
    pub page_tables: u64,
    /// How the command itself ended, as wait(2) tells it.
    pub status: i32,
}

/// Runs `command` to its end, and asks each process for the coverage of its text when it wants to
/// exit. The records have the numbers from `first` on, at most `room` of them. There is one for each
/// part of a mapping that is whole blocks of one of `leaves`, sizes in bytes, the widest first and the
/// page last; without `leaves` one for each mapping.
///
/// # Errors
///
/// If the command cannot be started or traced.
pub fn text_at_exit(mut command: Command, first: u64, room: u64, leaves: &[u64]) -> Result<Ended> {
    // SAFETY: ptrace(PTRACE_TRACEME) is a plain system call.
    unsafe {
        command.pre_exec(|| {
            let result = libc::syscall(libc::SYS_ptrace, libc::PTRACE_TRACEME, 0, 0, 0);
            Errno::result(result).map(drop).map_err(Into::into)
        });
    }
    let child = command.spawn()?;
    let mut tracer = Tracer {
        command: Pid::from_raw(child.id().cast_signed()),
        threads: BTreeMap::new(),
        asked: BTreeSet::new(),
        next: first,
        end: first + room,
        leaves,
        ended: Ended::default(),
    };
    let result = tracer.follow();
    if result.is_err() {
        tracer.kill();
    }
    result.map(|()| tracer.ended)
}

/// How a thread's stop or a process' end is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    /// It ended, with this status.
    Ended(i32),
    /// It entered or left a system call.
    Call,
    /// It did one of what [`OPTIONS`] ask for.
    Event,
    /// This signal came for it.
    Signal(i32),
}

fn told(status: i32) -> Told {
    if !libc::WIFSTOPPED(status) {
        return Told::Ended(status);
    }
    match (libc::WSTOPSIG(status), status >> 16) {
        (SYSCALL_STOP, _) => Told::Call,
        (_, event) if event != 0 => Told::Event,
        (signal, _) => Told::Signal(signal),
    }
}

/// The next stop or end of `pid`, or for -1 of any that this thread traces; threads included.
fn wait(pid: i32) -> nix::Result<(Pid, Told)> {
    let options = libc::__WALL | libc::__WNOTHREAD;
    let mut status = 0;
    loop {
        // SAFETY: a valid pointer for the duration of the call.
        let result = unsafe { libc::waitpid(pid, &raw mut status, options) };
        match Errno::result(result) {
            Ok(pid) => return Ok((Pid::from_raw(pid), told(status))),
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error),
        }
    }
}

struct Tracer<'a> {
    /// The command's own process.
    command: Pid,
    /// Threads that have begun to be traced, and their processes.
    threads: BTreeMap<Pid, Pid>,
    /// Processes that have been asked.
    asked: BTreeSet<Pid>,
    /// Number of the next record, and the first that is not to be used.
    next: u64,
    end: u64,
    /// Sizes of leaves by which mappings are cut.
    leaves: &'a [u64],
    ended: Ended,
}

impl Tracer<'_> {
    /// Follows all of them to their ends.
    fn follow(&mut self) -> Result<()> {
        let (_, stop) = wait(self.command.as_raw())?;
        ensure!(
            stop == Told::Signal(libc::SIGTRAP),
            "no stop after its execve: {stop:?}"
        );
        let thread = Thread(self.command);
        thread.ptrace(SETOPTIONS, 0, OPTIONS.into())?;
        self.threads.insert(self.command, self.command);
        thread.go_on(SYSCALL, 0)?;
        loop {
            match wait(-1) {
                Ok((pid, Told::Ended(status))) => self.gone(pid, status),
                Ok((pid, told)) => self.stopped(Thread(pid), told)?,
                Err(Errno::ECHILD) => return Ok(()),
                Err(error) => return Err(error).context("waitpid"),
            }
        }
    }

    /// A thread has ended; the first of a process is told when all of it has.
    fn gone(&mut self, pid: Pid, status: i32) {
        if pid == self.command {
            self.ended.status = status;
        }
        if self.threads.remove(&pid) == Some(pid) {
            self.ended.processes += 1;
            self.ended.unseen += u64::from(!self.asked.remove(&pid));
        }
    }

    fn stopped(&mut self, thread: Thread, told: Told) -> Result<()> {
        let signal = match told {
            // With it a new thread or process begins to be traced.
            Told::Signal(libc::SIGSTOP) if !self.threads.contains_key(&thread.0) => {
                self.threads.insert(thread.0, thread.process()?);
                0
            }
            Told::Signal(signal) => signal,
            Told::Call if self.wants_to_exit(thread) => {
                self.look(thread)?;
                return thread.go_on(CONT, 0);
            }
            Told::Call | Told::Event | Told::Ended(_) => 0,
        };
        thread.go_on(SYSCALL, signal)
    }

    /// Whether it makes the first exit_group(2) of its process.
    fn wants_to_exit(&self, thread: Thread) -> bool {
        let call = thread.registers().map(|registers| registers[CALL]);
        let exits = call.is_ok_and(|call| call.cast_signed() == libc::SYS_exit_group);
        let process = self.threads.get(&thread.0);
        exits && process.is_some_and(|process| !self.asked.contains(process))
    }

    /// Asks for the text of the process that `thread`, which has entered exit_group(2), is of.
    fn look(&mut self, thread: Thread) -> Result<()> {
        let text = thread.text(self.next, self.leaves)?;
        let next = self.next + text.len() as u64;
        if next > self.end {
            return Ok(());
        }
        let page_tables = thread.page_tables()?;
        self.ended.page_tables = self.ended.page_tables.max(page_tables);
        let before = thread.registers()?;
        let page = thread.map_page()?;
        thread.write(page, &marker::coverage_code())?;
        for mapping in &text {
            thread.ask(page, mapping)?;
        }
        thread.call_again(before)?;
        self.asked.extend(self.threads.get(&thread.0));
        self.next = next;
        self.ended.text.extend(text);
        Ok(())
    }

    /// Ends all that is left.
    fn kill(&self) {
        for &pid in self.threads.keys() {
            let _ = kill(pid, Signal::SIGKILL);
        }
        while wait(-1).is_ok() {}
    }
}

/// A thread that is stopped.
#[derive(Clone, Copy)]
struct Thread(Pid);

impl Thread {
    /// Makes it call mmap(2) instead of what it has just entered.
    fn map_page(self) -> Result<u64> {
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
        self.go_on(SYSCALL, 0)?;
        self.stop_by(Told::Call).context("in mmap")?;
        let address = self.registers()?[RESULT];
        ensure!(
            address.is_multiple_of(size),
            "its mmap failed: {address:#x}"
        );
        Ok(address)
    }

    /// Sends it back to the instruction by which it entered the call that `registers` are of.
    fn call_again(self, mut registers: [u64; WORDS]) -> Result<()> {
        registers[PC] -= STEP;
        if cfg!(target_arch = "x86_64") {
            registers[RESULT] = registers[CALL];
            registers[CALL] = u64::MAX;
        }
        self.set_registers(&registers)
    }

    /// On arm64 the number of the call that was entered is not a register any more.
    #[cfg(target_arch = "aarch64")]
    fn set_call(self, mut number: i32) -> Result<()> {
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
    fn set_call(self, _number: i32) -> Result<()> {
        Ok(())
    }

    fn write(self, address: u64, bytes: &[u8]) -> Result<()> {
        let path = format!("/proc/{}/mem", self.0);
        let memory = OpenOptions::new().write(true).open(&path);
        memory
            .and_then(|memory| memory.write_all_at(bytes, address))
            .context(path)
    }

    /// Sends it to the marker at `page`, and through to the breakpoint behind.
    fn ask(self, page: u64, mapping: &Mapped) -> Result<()> {
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
        self.go_on(CONT, 0)?;
        self.stop_by(Told::Signal(libc::SIGTRAP))
            .context("at the marker")
    }

    /// Executable mappings of files.
    fn text(self, first: u64, leaves: &[u64]) -> Result<Vec<Mapped>> {
        let path = format!("/proc/{}/maps", self.0);
        let maps = fs::read(&path).context(path)?;
        Ok(executable(&maps, first, leaves))
    }

    /// The process that it is of.
    fn process(self) -> Result<Pid> {
        let number = self.status("Tgid:")?.parse();
        number.map(Pid::from_raw).context("Tgid")
    }

    /// Bytes of its process' page tables.
    fn page_tables(self) -> Result<u64> {
        let kib = self.status("VmPTE:")?;
        let kib = kib.trim_end_matches(" kB").parse::<u64>();
        Ok(kib.context("VmPTE")? << 10)
    }

    /// A line of its `status` in /proc.
    fn status(self, name: &str) -> Result<String> {
        let path = format!("/proc/{}/status", self.0);
        let text = fs::read_to_string(&path).with_context(|| path.clone())?;
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let value = line.with_context(|| format!("{path} has no {name}"))?;
        Ok(value.trim().into())
    }

    /// Waits for a stop of this kind. Signals that come before it are not delivered: a process at
    /// its exit waits for none.
    fn stop_by(self, wanted: Told) -> Result<()> {
        loop {
            match wait(self.0.as_raw())?.1 {
                Told::Ended(status) => bail!("it ended before its exit: status {status:#x}"),
                told if told == wanted => return Ok(()),
                _ => self.go_on(CONT, 0)?,
            }
        }
    }

    /// Lets it run to its next stop, with this signal unless it is 0. One that was killed meanwhile
    /// is no error: its end is told next.
    fn go_on(self, how: c_long, signal: i32) -> Result<()> {
        match self.ptrace(how, 0, signal.into()) {
            Err(error) if error.downcast_ref() == Some(&Errno::ESRCH) => Ok(()),
            result => result,
        }
    }

    fn registers(self) -> Result<[u64; WORDS]> {
        let mut registers = [0; WORDS];
        self.register_set(GETREGSET, &mut registers)?;
        Ok(registers)
    }

    fn set_registers(self, registers: &[u64; WORDS]) -> Result<()> {
        self.register_set(SETREGSET, &mut registers.clone())
    }

    fn register_set(self, request: c_long, registers: &mut [u64; WORDS]) -> Result<()> {
        let mut place = libc::iovec {
            iov_base: registers.as_mut_ptr().cast(),
            iov_len: size_of_val(registers),
        };
        self.ptrace(request, NT_PRSTATUS, (&raw mut place).addr() as c_long)
    }

    fn ptrace(self, request: c_long, address: c_long, data: c_long) -> Result<()> {
        // SAFETY: whatever `data` points to lives in the caller, and has the size that the
        // request wants.
        let result =
            unsafe { libc::syscall(libc::SYS_ptrace, request, self.0.as_raw(), address, data) };
        Errno::result(result)
            .map(drop)
            .with_context(|| format!("ptrace request {request:#x}"))
    }
}

/// Numbered from `first` on, and cut by `leaves`.
fn executable(maps: &[u8], first: u64, leaves: &[u64]) -> Vec<Mapped> {
    let text = mappings(maps).filter(|vma| vma.executable() && vma.name.starts_with('/'));
    let mut all = Vec::new();
    for vma in text {
        let whole = Mapped {
            id: 0,
            start: vma.start,
            len: vma.len(),
            offset: vma.offset,
            file: vma.name,
            block: 0,
            mapping: first + all.len() as u64,
        };
        for part in whole.cut(leaves) {
            let id = first + all.len() as u64;
            all.push(Mapped { id, ..part });
        }
    }
    all
}

impl Mapped {
    /// Its parts: what is whole blocks of the first leaf by address and offset, and what is left at
    /// both sides, cut by the next ones.
    fn cut(self, leaves: &[u64]) -> Vec<Self> {
        let Some((&leaf, narrower)) = leaves.split_first() else {
            return vec![self];
        };
        let end = self.start + self.len;
        let (first, last) = (self.start.next_multiple_of(leaf), end / leaf * leaf);
        let congruent = self.start.wrapping_sub(self.offset).is_multiple_of(leaf);
        if !congruent || first >= last {
            return self.cut(narrower);
        }
        let part = |from: u64, to: u64| Self {
            start: from,
            len: to - from,
            offset: self.offset + (from - self.start),
            ..self.clone()
        };
        let side = |from, to| match from == to {
            true => Vec::new(),
            false => part(from, to).cut(narrower),
        };
        let blocks = Self {
            block: leaf,
            ..part(first, last)
        };
        [side(self.start, first), vec![blocks], side(last, end)].concat()
    }
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
            block: 0,
            mapping: 3000,
        };
        assert_eq!(executable(maps, 3000, &[]), [perl]);
    }

    #[test]
    fn a_mapping_is_cut_where_blocks_of_leaves_begin_and_end() {
        let cut = |line: &str| {
            let maps = format!("{line} fe:00 131   /usr/bin/x\n");
            let parts = executable(maps.as_bytes(), 7, &[2 << 20, 64 << 10, 4096]);
            let parts = parts.into_iter();
            parts
                .inspect(|part| assert_eq!(part.mapping, 7))
                .map(|part| (part.id, part.start, part.len, part.offset, part.block))
                .collect::<Vec<_>>()
        };
        let (k4, k64, m2) = (0x1000, 0x1_0000, 0x20_0000);
        let parts = cut("3ef000-801000 r-xp 001ef000");
        let expected = [
            (7, 0x3e_f000, k4, 0x1e_f000, k4),
            (8, 0x3f_0000, k64, 0x1f_0000, k64),
            (9, 0x40_0000, 2 * m2, m2, m2),
            (10, 0x80_0000, k4, 3 * m2, k4),
        ];
        assert_eq!(parts, expected);
        // Congruent at 64K, and at a page only.
        let parts = cut("400000-800000 r-xp 00010000");
        assert_eq!(parts, [(7, 2 * m2, 2 * m2, k64, k64)]);
        let parts = cut("400000-800000 r-xp 00001000");
        assert_eq!(parts, [(7, 2 * m2, 2 * m2, k4, k4)]);
    }

    /// The states of `script` and all that it starts, at their ends.
    fn of(script: &str) -> Ended {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", script]);
        text_at_exit(shell, 7, 1000, &[]).unwrap()
    }

    #[test]
    fn a_program_is_looked_at_when_it_ends() {
        let ended = text_at_exit(Command::new("/bin/true"), 7, 1000, &[]).unwrap();
        let text = &ended.text;
        assert!(text[0].len > 0 && text[0].id == 7, "{ended:?}");
        assert!(text.iter().any(|m| m.file.ends_with("/true")), "{ended:?}");
        assert_eq!((ended.processes, ended.unseen, ended.status), (1, 0, 0));
        assert!(ended.page_tables > 0);
    }

    #[test]
    fn children_are_looked_at_too_and_their_parents_see_their_status() {
        let ended = of("/bin/true; /bin/false || exit 3");
        assert_eq!(libc::WEXITSTATUS(ended.status), 3);
        for name in ["/true", "/false"] {
            let has = ended.text.iter().any(|m| m.file.ends_with(name));
            assert!(has, "{name}: {ended:?}");
        }
        assert_eq!((ended.processes, ended.unseen), (3, 0));
        let ids: Vec<_> = ended.text.iter().map(|m| m.id).collect();
        assert_eq!(ids, (7..7 + ids.len() as u64).collect::<Vec<_>>());
    }

    #[test]
    fn a_signal_reaches_the_process_that_waits_for_it() {
        let ended = of("trap 'exit 5' TERM; kill -TERM $$; while :; do :; done");
        assert_eq!(libc::WEXITSTATUS(ended.status), 5);
    }

    #[test]
    fn a_process_that_a_signal_ends_is_counted_as_unseen() {
        let ended = of("/bin/sh -c 'kill -KILL $$'; exit 0");
        assert_eq!((ended.processes, ended.unseen, ended.status), (2, 1, 0));
    }

    #[test]
    fn a_process_without_room_for_its_records_is_counted_as_unseen() {
        let ended = text_at_exit(Command::new("/bin/true"), 7, 1, &[]).unwrap();
        assert_eq!((ended.processes, ended.unseen, ended.status), (1, 1, 0));
        assert!(ended.text.is_empty(), "{ended:?}");
    }

    /// Not a test by itself: what the next one traces.
    #[test]
    #[ignore = "no test: the next one starts it as a process of its own"]
    fn as_threads() {
        std::thread::spawn(std::thread::park);
        let exits = std::thread::spawn(|| std::process::exit(9));
        let _ = exits.join();
    }

    #[test]
    fn a_process_that_another_thread_than_the_first_ends_is_looked_at() {
        let this = std::env::current_exe().unwrap();
        let mut command = Command::new(&this);
        command.args(["--exact", "kit::trace::tests::as_threads", "--ignored"]);
        command.stdout(std::process::Stdio::null());
        let ended = text_at_exit(command, 1, 1000, &[]).unwrap();
        assert_eq!((ended.processes, ended.unseen), (1, 0));
        assert_eq!(libc::WEXITSTATUS(ended.status), 9);
        let name = this.file_name().unwrap().to_str().unwrap();
        assert!(ended.text.iter().any(|m| m.file.ends_with(name)));
    }
}
