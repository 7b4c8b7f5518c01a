// SPDX-License-Identifier: GPL-2.0-only
//! An encrypted disk in memory, and random writes to it, each byte of which is checked.

use anyhow::{Context, Result, ensure};
use fastrand::Rng;
use std::fmt::Write;
use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use wideleaf_guest::kit::device_mapper::Device;
use wideleaf_guest::kit::mapping::Buffer;

/// The ramdisk that has the ciphertext.
const RAMDISK: &str = "/dev/ram0";

/// Bytes of a write, and of a sector of the encrypted disk, as cryptsetup makes it on a disk of 4K
/// blocks.
const BLOCK: usize = 4096;

/// Bytes by which the disk is filled and checked.
const CHUNK: usize = 1 << 20;

/// Bytes of the key of aes-xts-plain64: two of AES-256, as cryptsetup makes it.
const KEY: usize = 64;

/// The disk.
#[derive(Debug)]
pub struct Disk {
    plain: File,
    raw: File,
    /// By which write each block has its content: 0 is the filling.
    written: Vec<u64>,
    device: Device,
}

impl Disk {
    /// One of `size` bytes, a multiple of 1M. All of it is written once, so that the ramdisk has its
    /// pages.
    pub fn new(size: u64, seed: u64) -> Result<Self> {
        let device = encrypted(size, seed).context(
            "an encrypted disk in memory; the kernel needs the fragment crypt (CONFIG_DM_CRYPT)",
        )?;
        let mut disk = Self {
            plain: open(&device.path)?,
            raw: open(Path::new(RAMDISK))?,
            written: vec![0; size as usize / BLOCK],
            device,
        };
        disk.fill().context("filling the encrypted disk")?;
        Ok(disk)
    }

    /// Its node.
    pub fn path(&self) -> &Path {
        &self.device.path
    }

    /// Its blocks.
    pub fn blocks(&self) -> u64 {
        self.written.len() as u64
    }

    /// Bytes of it.
    pub fn size(&self) -> u64 {
        self.blocks() * BLOCK as u64
    }

    fn fill(&mut self) -> Result<()> {
        let mut buffer = Buffer::new(CHUNK as u64)?;
        for at in (0..self.size()).step_by(CHUNK) {
            for (nth, bytes) in buffer.bytes().chunks_exact_mut(BLOCK).enumerate() {
                put(bytes, at / BLOCK as u64 + nth as u64, 0);
            }
            self.plain.write_all_at(buffer.bytes(), at)?;
        }
        Ok(())
    }

    /// Writes blocks at random.
    pub fn write(&mut self, calls: u64, seed: u64) -> Result<()> {
        let mut rng = Rng::with_seed(seed);
        let mut buffer = Buffer::new(BLOCK as u64)?;
        for number in 1..=calls {
            let block = rng.usize(..self.written.len());
            put(buffer.bytes(), block as u64, number);
            self.plain
                .write_all_at(buffer.bytes(), (block * BLOCK) as u64)?;
            self.written[block] = number;
        }
        Ok(())
    }

    /// Checks each byte: that it reads back, and that the ramdisk has something else.
    pub fn check(&self) -> Result<()> {
        let (mut plain, mut raw) = (Buffer::new(CHUNK as u64)?, Buffer::new(CHUNK as u64)?);
        for (nth, numbers) in self.written.chunks(CHUNK / BLOCK).enumerate() {
            let at = (nth * CHUNK) as u64;
            self.plain.read_exact_at(plain.bytes(), at)?;
            self.raw.read_exact_at(raw.bytes(), at)?;
            let blocks = plain.bytes().chunks_exact(BLOCK);
            let blocks = blocks.zip(raw.bytes().chunks_exact(BLOCK)).zip(numbers);
            for (block, ((plain, raw), &number)) in (at / BLOCK as u64..).zip(blocks) {
                compare(plain, raw, block, number).with_context(|| format!("block {block}"))?;
            }
        }
        Ok(())
    }
}

fn encrypted(size: u64, seed: u64) -> Result<Device> {
    let mut ramdisk = File::open(RAMDISK).context(RAMDISK)?;
    let most = ramdisk.seek(SeekFrom::End(0)).context(RAMDISK)?;
    ensure!(size <= most, "{RAMDISK} has {most} bytes, not {size}");
    let mut rng = Rng::with_seed(seed);
    let mut key = String::new();
    for _ in 0..KEY {
        write!(key, "{:02x}", rng.u8(..))?;
    }
    let arguments = format!("aes-xts-plain64 {key} 0 {RAMDISK} 0 1 sector_size:{BLOCK}");
    Device::new("wideleaf", size, "crypt", &arguments)
}

fn open(path: &Path) -> Result<File> {
    let mut options = File::options();
    let options = options.read(true).write(true).custom_flags(libc::O_DIRECT);
    options
        .open(path)
        .with_context(|| path.display().to_string())
}

fn word_of(block: u64, number: u64, nth: usize) -> u64 {
    let key = block.rotate_left(32) ^ number;
    (key ^ (nth as u64) << 20).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn put(bytes: &mut [u8], block: u64, number: u64) {
    for (nth, word) in bytes.chunks_exact_mut(8).enumerate() {
        word.copy_from_slice(&word_of(block, number, nth).to_ne_bytes());
    }
}

/// Whether `plain` has what was written, and `raw` no word of it at the same place.
fn compare(plain: &[u8], raw: &[u8], block: u64, number: u64) -> Result<()> {
    let words = plain.chunks_exact(8).zip(raw.chunks_exact(8));
    for (nth, (plain, raw)) in words.enumerate() {
        let word = word_of(block, number, nth).to_ne_bytes();
        let at = nth * 8;
        ensure!(plain == word, "byte {at}: read {plain:x?}, not {word:x?}");
        ensure!(raw != word, "byte {at}: the ramdisk has {word:x?} in plain");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_and_what_is_not_encrypted_is_noticed() {
        let (mut plain, raw) = (vec![0; BLOCK], vec![0; BLOCK]);
        put(&mut plain, 7, 3);
        compare(&plain, &raw, 7, 3).unwrap();
        let error = |plain: &[u8], raw: &[u8], block, number| {
            let error = compare(plain, raw, block, number).unwrap_err();
            error.to_string()
        };
        assert!(error(&plain, &raw, 7, 2).starts_with("byte 0: read "));
        assert!(error(&plain, &raw, 6, 3).starts_with("byte 0: read "));
        let mut leaky = raw.clone();
        leaky[4088..].copy_from_slice(&plain[4088..]);
        let leak = error(&plain, &leaky, 7, 3);
        assert!(leak.starts_with("byte 4088: the ramdisk has "), "{leak}");
        plain[777] ^= 1;
        assert!(error(&plain, &raw, 7, 3).starts_with("byte 776: read "));
    }
}
