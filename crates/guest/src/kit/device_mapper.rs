// SPDX-License-Identifier: GPL-2.0-only
//! Block devices that the kernel maps to others, made by the ioctls of /dev/mapper/control
//! (include/uapi/linux/dm-ioctl.h).

use anyhow::{Context, Result, ensure};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::PathBuf;

const CONTROL: &str = "/dev/mapper/control";

/// Bytes of a sector, in which the kernel counts.
const SECTOR: u64 = 512;

/// The interface that this speaks; kernels refuse another major number only.
const VERSION: [u32; 3] = [4, 0, 0];

/// `struct dm_ioctl`
#[repr(C)]
pub struct Head {
    version: [u32; 3],
    data_size: u32,
    data_start: u32,
    target_count: u32,
    open_count: i32,
    flags: u32,
    event_nr: u32,
    padding: u32,
    dev: u64,
    name: [u8; 128],
    uuid: [u8; 129],
    data: [u8; 7],
}

/// `struct dm_target_spec`
#[repr(C)]
struct Target {
    sector_start: u64,
    length: u64,
    status: i32,
    next: u32,
    target_type: [u8; 16],
}

/// A head with a table of one target behind it, of which not every command takes notice.
#[repr(C)]
struct Request {
    head: Head,
    target: Target,
    arguments: [u8; 512],
}

const _: () = assert!(size_of::<Head>() == 312 && size_of::<Target>() == 40);

mod ioctl {
    use super::Head;

    nix::ioctl_readwrite!(dev_create, 0xfd, 3, Head);
    nix::ioctl_readwrite!(dev_remove, 0xfd, 4, Head);
    nix::ioctl_readwrite!(dev_suspend, 0xfd, 6, Head);
    nix::ioctl_readwrite!(table_load, 0xfd, 9, Head);
}

use ioctl::{dev_create, dev_remove, dev_suspend, table_load};

type Command = unsafe fn(libc::c_int, *mut Head) -> nix::Result<libc::c_int>;

impl Request {
    fn new(name: &str) -> Result<Self> {
        Ok(Self {
            head: Head {
                version: VERSION,
                data_size: size_of::<Self>() as u32,
                data_start: size_of::<Head>() as u32,
                target_count: 0,
                open_count: 0,
                flags: 0,
                event_nr: 0,
                padding: 0,
                dev: 0,
                name: text(name)?,
                uuid: [0; 129],
                data: [0; 7],
            },
            target: Target {
                sector_start: 0,
                length: 0,
                status: 0,
                next: 0,
                target_type: [0; 16],
            },
            arguments: [0; 512],
        })
    }

    fn send(&mut self, control: &File, command: Command) -> nix::Result<()> {
        let request = (&raw mut *self).cast();
        // SAFETY: the request begins with a head that says how long it is.
        unsafe { command(control.as_raw_fd(), request) }.map(drop)
    }
}

/// As the kernel takes strings: with a zero behind them.
fn text<const N: usize>(text: &str) -> Result<[u8; N]> {
    ensure!(text.len() < N, "{text}: more than {} bytes", N - 1);
    let mut bytes = [0; N];
    bytes[..text.len()].copy_from_slice(text.as_bytes());
    Ok(bytes)
}

/// A mapped device. Dropping it removes it, if nobody has it open.
#[derive(Debug)]
pub struct Device {
    control: File,
    name: String,
    /// Its node, which devtmpfs makes.
    pub path: PathBuf,
}

impl Device {
    /// One of `bytes`, all mapped by the target `kind` with these arguments.
    pub fn new(name: &str, bytes: u64, kind: &str, arguments: &str) -> Result<Self> {
        let control = File::options().read(true).write(true).open(CONTROL);
        let control = control.context(CONTROL)?;
        let mut request = Request::new(name)?;
        request
            .send(&control, dev_create)
            .context("DM_DEV_CREATE")?;
        let minor = libc::minor(request.head.dev);
        let device = Self {
            control,
            name: name.into(),
            path: format!("/dev/dm-{minor}").into(),
        };
        device.load(bytes, kind, arguments)?;
        // With no flag set this resumes, and the table comes into use.
        let mut request = Request::new(name)?;
        let resumed = request.send(&device.control, dev_suspend);
        resumed.context("DM_DEV_SUSPEND")?;
        Ok(device)
    }

    fn load(&self, bytes: u64, kind: &str, arguments: &str) -> Result<()> {
        let mut request = Request::new(&self.name)?;
        request.head.target_count = 1;
        request.target.length = bytes / SECTOR;
        request.target.target_type = text(kind)?;
        request.arguments = text(arguments)?;
        let loaded = request.send(&self.control, table_load);
        loaded.with_context(|| format!("DM_TABLE_LOAD of {kind}; the kernel's log says why"))
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        if let Ok(mut request) = Request::new(&self.name) {
            let _ = request.send(&self.control, dev_remove);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_end_with_a_zero() {
        assert_eq!(text::<4>("abc").unwrap(), *b"abc\0");
        assert_eq!(text::<4>("").unwrap(), [0; 4]);
        let error = text::<4>("abcd").unwrap_err().to_string();
        assert_eq!(error, "abcd: more than 3 bytes");
    }

    #[test]
    fn a_request_says_where_its_table_is() {
        let head = Request::new("disk").unwrap().head;
        assert_eq!(
            head.data_start as usize,
            std::mem::offset_of!(Request, target)
        );
        assert_eq!(head.data_size as usize, size_of::<Request>());
        assert!(head.name.starts_with(b"disk\0"));
    }
}
