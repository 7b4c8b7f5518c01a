// SPDX-License-Identifier: GPL-2.0-only
//! Swap in a file or in compressed memory, made as mkswap(8) makes it.

use anyhow::{Context, Result, ensure};
use nix::errno::Errno;
use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

/// Where the header's fields begin: a boot sector may stand before it (`union swap_header`,
/// include/linux/swap.h).
const FIELDS: u64 = 1024;

/// The end of the first page.
const MAGIC: &[u8] = b"SWAPSPACE2";

/// Makes a file of `bytes`, a multiple of the page size, and has the kernel swap to it.
///
/// # Errors
///
/// If the disk has no room, its file system takes no swap files, or the kernel no swap.
pub fn on(path: &str, bytes: u64) -> Result<()> {
    let page = wideleaf_bench::page_size();
    ensure!(
        bytes.is_multiple_of(page) && bytes > page,
        "{path}: {bytes} bytes are not some pages of {page}"
    );
    let file = File::create_new(path).with_context(|| path.to_owned())?;
    let len = bytes.cast_signed();
    // SAFETY: a plain system call on a descriptor of ours.
    Errno::result(unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, len) })
        .with_context(|| format!("{path}: no room for {bytes} bytes"))?;
    start(path, &file, bytes)
}

/// Has the kernel swap to `bytes` of memory, a multiple of the page size, in which it compresses
/// what it swaps out (zram).
///
/// # Errors
///
/// If the kernel has no zram, its first device is in use, or it has no swap.
pub fn on_zram(bytes: u64) -> Result<()> {
    const SIZE: &str = "/sys/block/zram0/disksize";
    const DEVICE: &str = "/dev/zram0";
    fs::write(SIZE, bytes.to_string()).context(SIZE)?;
    let device = OpenOptions::new().write(true).open(DEVICE);
    start(DEVICE, &device.context(DEVICE)?, bytes)
}

/// Writes the header, and has the kernel swap there.
fn start(path: &str, file: &File, bytes: u64) -> Result<()> {
    file.write_all_at(&header(wideleaf_bench::page_size(), bytes), 0)?;
    file.sync_all().with_context(|| path.to_owned())?;
    let name = CString::new(path)?;
    // SAFETY: a valid string for the duration of the call.
    Errno::result(unsafe { libc::swapon(name.as_ptr(), 0) })
        .with_context(|| format!("swapon {path}"))?;
    Ok(())
}

/// The first page: version, last page, no bad ones.
fn header(page: u64, bytes: u64) -> Vec<u8> {
    let mut header = vec![0; page as usize];
    let last = (bytes / page - 1) as u32;
    for (place, value) in (FIELDS as usize..).step_by(4).zip([1, last, 0]) {
        header[place..place + 4].copy_from_slice(&value.to_ne_bytes());
    }
    let magic = header.len() - MAGIC.len();
    header[magic..].copy_from_slice(MAGIC);
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_what_mkswap_writes() {
        let header = header(4096, 1 << 20);
        assert_eq!(header[1024..1036], [1, 0, 0, 0, 255, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(&header[4086..], b"SWAPSPACE2");
        assert!(header[..1024].iter().all(|byte| *byte == 0));
    }
}
