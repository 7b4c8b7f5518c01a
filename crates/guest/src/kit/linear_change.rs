// SPDX-License-Identifier: GPL-2.0-only
//! What a process can ask for that makes the kernel change permissions of its linear map.

use crate::kit::mapping::{Mapping, RW};
use anyhow::{Context, Result, bail, ensure};
use nix::errno::Errno;
use std::fs::{self, File};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::net::UnixDatagram;

/// Whether the kernel compiles filters: 0 or 1.
const JIT: &str = "/proc/sys/net/core/bpf_jit_enable";

/// BPF_LD | BPF_IMM and BPF_RET | BPF_K (include/uapi/linux/bpf_common.h).
const LOAD: u16 = 0x00;
const RETURN: u16 = 0x06;

/// Most instructions of a filter (BPF_MAXINSNS).
pub const LONGEST: u16 = 4096;

/// The longest filter; its last instructions are the shorter ones. Not made when it is needed: a
/// process whose own allocations fail is ended by Rust.
static STEPS: [libc::sock_filter; LONGEST as usize] = {
    let mut steps = [step(LOAD, 0); LONGEST as usize];
    steps[LONGEST as usize - 1] = step(RETURN, u32::MAX);
    steps
};

const fn step(code: u16, k: u32) -> libc::sock_filter {
    libc::sock_filter {
        code,
        jt: 0,
        jf: 0,
        k,
    }
}

/// A socket with a filter. An interpreted program is read-only memory of its own, a compiled one
/// lies in executable memory that several share.
#[derive(Debug)]
pub struct Filter {
    _socket: UnixDatagram,
}

impl Filter {
    /// One of `length` instructions, 1 to [`LONGEST`]; `None` if there is no memory for it.
    pub fn new(length: u16) -> Result<Option<Self>> {
        let socket = match UnixDatagram::unbound() {
            Err(error) if is_scarce(&error) => return Ok(None),
            socket => socket.context("socket")?,
        };
        let steps = &STEPS[usize::from(LONGEST - length)..];
        let program = libc::sock_fprog {
            len: length,
            filter: steps.as_ptr().cast_mut(),
        };
        // SAFETY: the kernel copies the program and keeps nothing of it.
        let result = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_ATTACH_FILTER,
                (&raw const program).cast(),
                size_of_val(&program) as u32,
            )
        };
        match Errno::result(result) {
            Ok(_) => Ok(Some(Self { _socket: socket })),
            Err(Errno::ENOMEM) => Ok(None),
            Err(error) => bail!("a filter of {length} instructions: {error}"),
        }
    }
}

/// Has new filters compiled or interpreted; a kernel that cannot compile interprets.
pub fn compile(yes: bool) {
    let _ = fs::write(JIT, if yes { "1" } else { "0" });
}

/// Lets this process and those that it starts have as much secret memory as they want: 7.3 counts
/// it for each user against a limit of 8M, and answers with SIGBUS beyond.
pub fn allow_secrets() -> Result<()> {
    use nix::sys::resource::{RLIM_INFINITY, Resource, setrlimit};
    let limit = Resource::RLIMIT_MEMLOCK;
    setrlimit(limit, RLIM_INFINITY, RLIM_INFINITY).context("RLIMIT_MEMLOCK")
}

/// Memory that the kernel takes out of its linear map, and puts back when it is dropped.
#[derive(Debug)]
pub struct Secret {
    memory: Mapping,
    word: u64,
}

impl Secret {
    /// Whether the kernel has such memory: not if it never changes permissions of single pages, as
    /// under `rodata=on`.
    pub fn is_possible() -> bool {
        // SAFETY: a plain system call; flags that no kernel knows make nothing.
        let made = unsafe { libc::syscall(libc::SYS_memfd_secret, !0) };
        Errno::result(made) != Err(Errno::ENOSYS)
    }

    /// `len` bytes, each page written with `word` and its number; `None` if there is no memory.
    ///
    /// # Errors
    ///
    /// If the kernel has no such memory, or a page has not what was written.
    pub fn new(len: usize, word: u64) -> Result<Option<Self>> {
        // SAFETY: a plain system call.
        let file = match Errno::result(unsafe { libc::syscall(libc::SYS_memfd_secret, 0) }) {
            // Which of these depends on what found no memory.
            Err(Errno::ENOMEM | Errno::ENFILE | Errno::EMFILE) => return Ok(None),
            // SAFETY: a descriptor that nobody else has.
            Ok(file) => unsafe { File::from_raw_fd(file as i32) },
            Err(error) => bail!(
                "memfd_secret: {error}; the kernel needs the fragment linear (CONFIG_SECRETMEM)"
            ),
        };
        nix::unistd::ftruncate(&file, len as i64).context("secret memory")?;
        let memory = Mapping::attempt(None, len as u64, RW, libc::MAP_SHARED, Some((&file, 0)));
        let memory = match memory {
            Err(Errno::ENOMEM) => return Ok(None),
            memory => memory.with_context(|| format!("secret memory of {len} bytes"))?,
        };
        let secret = Self { memory, word };
        for (nth, at) in secret.pages().enumerate() {
            if !has_memory(at)? {
                return Ok(None);
            }
            // SAFETY: inside of the mapping.
            unsafe { at.write_volatile(word ^ nth as u64) };
        }
        Ok(Some(secret))
    }

    fn pages(&self) -> impl Iterator<Item = *mut u64> + use<> {
        let (Mapping { start, len }, page) = (self.memory, wideleaf_bench::page_size());
        (0..len / page).map(move |nth| (start + nth * page) as *mut u64)
    }

    /// Checks that every page has what was written.
    pub fn check(&self) -> Result<()> {
        for (nth, at) in self.pages().enumerate() {
            // SAFETY: inside of the mapping.
            let found = unsafe { at.read_volatile() };
            let word = self.word ^ nth as u64;
            ensure!(
                found == word,
                "secret page {nth}: {found:#x}, not {word:#x}"
            );
        }
        Ok(())
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        let _ = self.memory.unmap();
    }
}

/// Has the kernel write to a page of secret memory first. Where there is no memory for the page, or
/// for the table that its leaf of the linear map is split to, the kernel's own access is an error.
/// That of a process would be its end.
fn has_memory(page: *mut u64) -> Result<bool> {
    // SAFETY: the word is inside of the caller's mapping, and is written again afterwards.
    let written = unsafe { libc::getrandom(page.cast(), size_of::<u64>(), libc::GRND_INSECURE) };
    match Errno::result(written) {
        Ok(_) => Ok(true),
        Err(Errno::EFAULT) => Ok(false),
        Err(error) => bail!("a page of secret memory: {error}"),
    }
}

fn is_scarce(error: &std::io::Error) -> bool {
    let scarce = [libc::ENOMEM, libc::ENOBUFS, libc::ENFILE];
    error
        .raw_os_error()
        .is_some_and(|code| scarce.contains(&code))
}
