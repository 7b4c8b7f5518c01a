// SPDX-License-Identifier: GPL-2.0-only
//! One folder of /proc, held open: every file read through it belongs to the
//! same process even if its number is given to another one meanwhile.

use crate::Error;
use nix::fcntl::{OFlag, open, openat, readlinkat};
use nix::sys::stat::Mode;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use wideleaf_kit::names::{hex, lossy};

/// A process's folder.
pub(crate) struct Folder {
    fd: OwnedFd,
    path: PathBuf,
}

impl Folder {
    pub(crate) fn open(root: &Path, pid: u32) -> Result<Self, Error> {
        let path = root.join(pid.to_string());
        match open(
            &path,
            OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC,
            Mode::empty(),
        ) {
            Ok(fd) => Ok(Self { fd, path }),
            Err(e) => Err(Error::from_io(&path, e.into())),
        }
    }

    /// Where `name` is, for messages.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub(crate) fn file(&self, name: &str) -> Result<File, Error> {
        openat(
            &self.fd,
            name,
            OFlag::O_RDONLY | OFlag::O_CLOEXEC,
            Mode::empty(),
        )
        .map(File::from)
        .map_err(|e| self.error(name, e.into()))
    }

    pub(crate) fn error(&self, name: &str, error: io::Error) -> Error {
        Error::from_io(&self.path(name), error)
    }

    /// A small file's content; at most 64 KiB of it.
    fn text(&self, name: &str) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        self.file(name)?
            .take(64 << 10)
            .read_to_end(&mut bytes)
            .map_err(|e| self.error(name, e))?;
        Ok(bytes)
    }

    /// The command name, which the process may set to anything, and its bytes
    /// if it is not UTF-8.
    pub(crate) fn name(&self) -> Result<(String, Option<String>), Error> {
        let bytes = self.text("comm")?;
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
        Ok((lossy(bytes), hex(bytes)))
    }

    /// Every control group it is in: `(controllers, path)`; the v2 hierarchy
    /// has no controllers here (cgroups(7)).
    pub(crate) fn cgroups(&self) -> Result<Vec<(String, Vec<u8>)>, Error> {
        let bytes = self.text("cgroup")?;
        Ok(bytes
            .split(|b| *b == b'\n')
            .filter_map(|line| {
                let mut fields = line.splitn(3, |b| *b == b':').skip(1);
                Some((lossy(fields.next()?), fields.next()?.to_vec()))
            })
            .collect())
    }

    /// The file name of the executable, where the link may be read.
    pub(crate) fn executable(&self) -> Option<String> {
        let link = readlinkat(&self.fd, "exe").ok()?.into_vec();
        let link = link.strip_suffix(b" (deleted)").unwrap_or(&link);
        Some(lossy(link.rsplit(|b| *b == b'/').next()?))
    }
}

/// The one control group to show: the v2 path; where that is the root (a
/// hybrid setup), systemd's own hierarchy, then the memory controller's.
pub(crate) fn service(cgroups: &[(String, Vec<u8>)]) -> &[u8] {
    ["", "name=systemd", "memory"]
        .iter()
        .filter_map(|wanted| {
            cgroups.iter().find(|(c, _)| {
                c == wanted || (!wanted.is_empty() && c.split(',').any(|one| one == *wanted))
            })
        })
        .map(|(_, path)| path.as_slice())
        .find(|path| *path != b"/")
        .unwrap_or(b"/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(list: &[(&str, &str)]) -> Vec<(String, Vec<u8>)> {
        list.iter()
            .map(|(c, p)| ((*c).to_owned(), p.as_bytes().to_vec()))
            .collect()
    }

    #[test]
    fn the_service_is_found_on_v2_v1_and_hybrid() {
        assert_eq!(
            service(&groups(&[("", "/system.slice/sshd.service")])),
            b"/system.slice/sshd.service"
        );
        assert_eq!(
            service(&groups(&[
                ("name=systemd", "/a"),
                ("cpu,memory", "/b"),
                ("", "/")
            ])),
            b"/a"
        );
        assert_eq!(
            service(&groups(&[
                ("name=systemd", "/"),
                ("cpu,memory", "/b"),
                ("", "/")
            ])),
            b"/b"
        );
        assert_eq!(service(&[]), b"/");
    }
}
