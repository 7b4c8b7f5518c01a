// SPDX-License-Identifier: GPL-2.0-only
//! Hibernation without going off: the kernel writes its image to swap space, reads it again and
//! goes on from it (`test_resume`, Documentation/admin-guide/pm/sleep-states.rst).

use anyhow::{Context, Result, ensure};
use nix::errno::Errno;
use nix::mount::umount;
use std::ffi::CString;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use wideleaf_guest::kit::virtio_driver::Driver;

/// The job's disk and where it is mounted. What is written to it is thrown away.
const DISK: &str = "/dev/vda";
const MOUNT_POINT: &str = "/mnt";

/// Drivers whose devices are taken away meanwhile. virtio-mem refuses to hibernate, for it could have
/// memory. The port for answers would be dead on 7.3: `virtcons_restore()` asks whether the host is
/// there before it has a buffer for the answer.
const WITHOUT: [&str; 2] = ["virtio_mem", "virtio_console"];

/// How large the kernel tries to keep the image, in bytes, by reclaim.
const IMAGE_SIZE: &str = "/sys/power/image_size";

const MODE: &str = "/sys/power/disk";
const STATE: &str = "/sys/power/state";

/// The disk as swap space.
#[derive(Debug)]
pub struct Swap {
    disk: CString,
}

impl Swap {
    /// Makes the disk that.
    pub fn on() -> Result<Self> {
        umount(MOUNT_POINT).context(MOUNT_POINT)?;
        make(DISK).with_context(|| format!("{DISK}: swap space"))?;
        // Reclaim would write what the image has anyway, a page at a time.
        fs::write(IMAGE_SIZE, i64::MAX.to_string()).context(IMAGE_SIZE)?;
        let disk = CString::new(DISK)?;
        // SAFETY: a plain system call with a string.
        Errno::result(unsafe { libc::swapon(disk.as_ptr(), 0) }).context("swapon")?;
        Ok(Self { disk })
    }

    /// Writes all memory to it and goes on from what was written, without the devices of
    /// [`WITHOUT`].
    pub fn hibernate(&self) -> Result<()> {
        let drivers: Vec<_> = WITHOUT
            .iter()
            .map(|name| Driver::without(name))
            .collect::<Result<_>>()?;
        fs::write(MODE, "test_resume").context(MODE)?;
        let slept = fs::write(STATE, "disk").context(STATE);
        drivers.into_iter().try_for_each(Driver::again)?;
        slept
    }

    /// Ends that.
    pub fn off(self) -> Result<()> {
        // SAFETY: a plain system call with a string.
        Errno::result(unsafe { libc::swapoff(self.disk.as_ptr()) }).context("swapoff")?;
        Ok(())
    }
}

/// Writes what mkswap writes (`union swap_header`, include/linux/swap.h).
fn make(path: &str) -> Result<()> {
    let disk = File::options().read(true).write(true).open(path)?;
    let bytes = nix::unistd::lseek(&disk, 0, nix::unistd::Whence::SeekEnd)?;
    disk.write_all_at(&header(bytes as u64, wideleaf_bench::page_size())?, 0)?;
    disk.sync_all()?;
    Ok(())
}

/// The first page of swap space of so many bytes.
fn header(bytes: u64, page: u64) -> Result<Vec<u8>> {
    let pages = bytes / page;
    ensure!(pages > 1, "{bytes} bytes are too few");
    let mut header = vec![0; page as usize];
    let (version, last) = (1_u32, u32::try_from(pages - 1)?);
    header[1024..1028].copy_from_slice(&version.to_ne_bytes());
    header[1028..1032].copy_from_slice(&last.to_ne_bytes());
    let magic = b"SWAPSPACE2";
    let at = header.len() - magic.len();
    header[at..].copy_from_slice(magic);
    Ok(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swap_space_is_as_mkswap_makes_it() {
        let page = header(1 << 20, 4096).unwrap();
        assert_eq!(page.len(), 4096);
        assert_eq!(
            page[1024..1032],
            [1_u32.to_ne_bytes(), 255_u32.to_ne_bytes()].concat()
        );
        assert!(page.ends_with(b"SWAPSPACE2"));
        let error = header(4096, 4096).unwrap_err().to_string();
        assert_eq!(error, "4096 bytes are too few");
    }
}
