// SPDX-License-Identifier: GPL-2.0-only
//! Guest RAM, read through the file behind QEMU's `memory-backend-file`.

use anyhow::{Result, anyhow, bail};
use memmap2::{MmapOptions, MmapRaw};
use std::fs::File;
use std::path::Path;
use wideleaf_kit::arch::Arch;
use wideleaf_tlb::walk::PhysMem;

/// x86 machines keep 3G to 4G for devices: RAM above goes on at 4G. QEMU's
/// microvm splits at 3G (`hw/i386/microvm.c`, `microvm_memory_init`).
const X86_LOW: u64 = 3 << 30;
const X86_HIGH_BASE: u64 = 4 << 30;

/// A shared, read-only view of guest RAM.
pub struct Ram {
    map: MmapRaw,
    base: u64,
    /// Bytes from `base` on; the rest of the file is at `high_base`.
    low: u64,
    high_base: u64,
}

impl Ram {
    /// Maps the file at `path`, whose first byte is physical address `base`.
    ///
    /// # Errors
    ///
    /// A sentence that names the file.
    pub fn map(path: &Path, base: u64, arch: Arch) -> Result<Self> {
        let hint = "give the mem-path of a memory-backend-file with share=on";
        let file = File::open(path)
            .map_err(|e| anyhow!("cannot open guest RAM {}: {e}; {hint}", path.display()))?;
        let map = MmapOptions::new()
            .map_raw_read_only(&file)
            .map_err(|e| anyhow!("cannot map guest RAM {}: {e}; {hint}", path.display()))?;
        if map.len() < 4096 {
            bail!(
                "guest RAM {} has {} bytes; {hint}",
                path.display(),
                map.len()
            );
        }
        Ok(Self::new(map, base, arch))
    }

    fn new(map: MmapRaw, base: u64, arch: Arch) -> Self {
        let len = map.len() as u64;
        let low = match arch {
            Arch::X86_64 => len.min(X86_LOW),
            Arch::Arm64 => len,
        };
        Ram {
            map,
            base,
            low,
            high_base: X86_HIGH_BASE,
        }
    }

    fn offset(&self, pa: u64) -> Option<usize> {
        let low = pa.wrapping_sub(self.base);
        let offset = if low < self.low {
            low
        } else {
            pa.checked_sub(self.high_base)?.checked_add(self.low)?
        };
        (offset.checked_add(8)? <= self.map.len() as u64).then_some(offset as usize)
    }
}

impl PhysMem for &'static Ram {
    fn read_u64(&self, pa: u64) -> Option<u64> {
        let offset = self.offset(pa & !7)?;
        // SAFETY: offset + 8 is inside the mapping, which lives as long as
        // self, and offset is a multiple of eight as bases and splits are
        // page-aligned. Volatile, because the guest writes this memory.
        let word = unsafe { self.map.as_ptr().add(offset).cast::<u64>().read_volatile() };
        Some(u64::from_le(word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn ram(len: u64, base: u64, arch: Arch, words: &[(u64, u64)]) -> &'static Ram {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(len).unwrap();
        for (offset, word) in words {
            use std::io::{Seek, SeekFrom};
            file.seek(SeekFrom::Start(*offset)).unwrap();
            file.write_all(&word.to_le_bytes()).unwrap();
        }
        Box::leak(Box::new(Ram::map(file.path(), base, arch).unwrap()))
    }

    #[test]
    fn reads_inside_and_nowhere_else() {
        let r = ram(8192, 0x4000_0000, Arch::Arm64, &[(0, 1), (8184, 2)]);
        assert_eq!(r.read_u64(0x4000_0000), Some(1));
        assert_eq!(r.read_u64(0x4000_1ff8), Some(2));
        assert_eq!(r.read_u64(0x4000_2000), None);
        assert_eq!(r.read_u64(0x3fff_fff8), None);
        assert_eq!(r.read_u64(u64::MAX), None);
    }

    #[test]
    fn x86_ram_above_3g_goes_on_at_4g() {
        let r = ram((3 << 30) + 4096, 0, Arch::X86_64, &[(3 << 30, 7)]);
        assert_eq!(r.read_u64(4 << 30), Some(7));
        assert_eq!(r.read_u64(3 << 30), None, "the device hole");
        assert_eq!(r.read_u64((3 << 30) - 8), Some(0));
        assert_eq!(r.read_u64((4 << 30) + 4096), None);
    }

    #[test]
    fn errors_name_the_file() {
        let e = Ram::map(Path::new("/nonexistent/ram"), 0, Arch::Arm64)
            .err()
            .unwrap()
            .to_string();
        assert!(
            e.contains("/nonexistent/ram") && e.contains("share=on"),
            "{e}"
        );
    }
}
