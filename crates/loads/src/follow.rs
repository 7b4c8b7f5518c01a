// SPDX-License-Identifier: GPL-2.0-only
//! One process, looked at more and more seldom until it ends.

use crate::{Memory, Program};
use nix::errno::Errno;
use std::collections::BTreeSet;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use wideleaf_procmap::Vma;

/// How long a process is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Until the second look. After that, a quarter of the time that has passed.
    pub first: Duration,
    /// No look comes later than that.
    pub last: Duration,
}

impl Default for Patience {
    /// Some fifty looks in ten minutes.
    fn default() -> Self {
        Self {
            first: Duration::from_millis(10),
            last: Duration::from_secs(600),
        }
    }
}

/// Looks at a process until it ends, or `patience` does, and remembers the libraries of `program`
/// whose text may hold a block of `pmd` bytes. While it is another program nothing is remembered.
///
/// A failure to remember is dropped: there is no caller left who could be told.
pub fn follow(memory: &Memory, pid: u32, program: &Program, pmd: u64, patience: Patience) {
    let Ok(process) = Held::open(pid) else {
        return;
    };
    let start = Instant::now();
    let mut known: Option<BTreeSet<PathBuf>> = None;
    while start.elapsed() < patience.last {
        if process.ended_within(patience.first.max(start.elapsed() / 4)) {
            break;
        }
        let Some(found) = loaded(pid, &program.path, pmd) else {
            continue;
        };
        if known.as_ref() != Some(&found) {
            let _ = memory.remember(program, found.iter().map(PathBuf::as_path));
            known = Some(found);
        }
    }
}

/// The libraries that a process has mapped, if it is `program`.
fn loaded(pid: u32, program: &Path, pmd: u64) -> Option<BTreeSet<PathBuf>> {
    let file = |name: &str| format!("/proc/{pid}/{name}");
    let is_program = || std::fs::read_link(file("exe")).is_ok_and(|exe| exe == program);
    let maps = is_program().then(|| std::fs::read(file("maps")).ok())??;
    // It may have become another one meanwhile.
    is_program().then(|| libraries(&maps, program, pmd))
}

/// The files that the text of `maps` is mapped from, without the program.
fn libraries(maps: &[u8], program: &Path, pmd: u64) -> BTreeSet<PathBuf> {
    let of_file = |vma: &Vma| {
        let named = vma.inode != 0 && vma.name.starts_with('/') && vma.name_bytes.is_none();
        named && !vma.deleted && vma.executable() && vma.len() >= pmd
    };
    let vmas = wideleaf_procmap::mappings(maps).filter(of_file);
    vmas.map(|vma| PathBuf::from(vma.name))
        .filter(|path| path != program)
        .collect()
}

/// A process by a descriptor, which can be waited for though it is no child.
struct Held(OwnedFd);

impl Held {
    fn open(pid: u32) -> nix::Result<Self> {
        // SAFETY: pidfd_open(2) takes two integers and returns a descriptor.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid as libc::pid_t, 0) };
        let fd = Errno::result(fd)?;
        // SAFETY: the descriptor is new and nobody else's.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd as i32) }))
    }

    fn ended_within(&self, time: Duration) -> bool {
        let mut poll = libc::pollfd {
            fd: self.0.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let time = time.as_millis().min(i32::MAX as u128) as i32;
        // SAFETY: one structure, which lives until the call returns.
        unsafe { libc::poll(&mut poll, 1, time) > 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Known;
    use std::process::{Command, Stdio};

    const M2: u64 = 2 << 20;

    #[test]
    fn large_text_of_libraries_is_found_and_nothing_else() {
        let maps = b"\
400000-800000 r-xp 0 08:01 7  /usr/bin/a
7f0000000000-7f0000400000 r-xp 0 08:01 8  /usr/lib/jvm/libjvm.so
7f0001000000-7f0001400000 r--p 0 08:01 9  /usr/share/data
7f0002000000-7f0002100000 r-xp 0 08:01 10 /usr/lib/small.so
7f0003000000-7f0003400000 r-xp 0 08:01 11 /usr/lib/old.so (deleted)
7f0004000000-7f0004400000 rwxp 0 00:00 0
7f0005000000-7f0005400000 r-xp 0 00:01 12 /memfd:code (deleted)
";
        let found = libraries(maps, Path::new("/usr/bin/a"), M2);
        assert_eq!(found, [PathBuf::from("/usr/lib/jvm/libjvm.so")].into());
    }

    #[test]
    fn a_program_is_followed_to_its_end_and_another_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let memory = Memory::at(dir.path().join("loads.json"));
        let shell = Program::read(Path::new("/bin/sh")).unwrap();
        let patience = Patience::default();
        let follow_it = |program: &Program| {
            let mut command = Command::new("/bin/sh");
            let command = command.args(["-c", "read x"]);
            let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
            let pid = child.id();
            std::thread::scope(|scope| {
                let followed = scope.spawn(|| follow(&memory, pid, program, 4096, patience));
                std::thread::sleep(Duration::from_millis(300));
                drop(child.stdin.take());
                child.wait().unwrap();
                followed.join().unwrap();
            });
        };
        let other = Program::read(&std::env::current_exe().unwrap()).unwrap();
        follow_it(&other);
        assert_eq!(memory.known(&other).unwrap(), Known::Nothing);
        follow_it(&shell);
        let Known::Libraries(found) = memory.known(&shell).unwrap() else {
            panic!("a run of the shell was watched");
        };
        let named = |path: &PathBuf| path.to_string_lossy().contains("libc");
        assert!(found.iter().any(named), "{found:?}");
        assert!(!found.contains(&shell.path));
    }
}
