// SPDX-License-Identifier: GPL-2.0-only
//! Memory for copies, on a machine that has done much else.

use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap_anonymous, munmap};
use std::num::NonZeroUsize;
use std::path::Path;

const BLOCK: usize = 2 << 20;
const SIZE: NonZeroUsize = NonZeroUsize::new(128 * BLOCK).unwrap();

/// Has the kernel free memory in whole blocks: copies take a quarter of what is free so, and page
/// cache alone leaves none.
pub fn make() {
    let spare = wideleaf_collapse::spare(Path::new("/proc"), 4096, BLOCK as u64);
    if spare.is_ok_and(|spare| spare.bytes() >= 2 * SIZE.get() as u64) {
        return;
    }
    // Free pages become blocks, and nobody loses any. Only root may ask for it.
    let _ = std::fs::write("/proc/sys/vm/compact_memory", "1");
    let all = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    // SAFETY: a new mapping, which nothing else knows; it is written to within its size, and
    // unmapped.
    unsafe {
        let start = mmap_anonymous(None, SIZE, all, MapFlags::MAP_PRIVATE).unwrap();
        let _ = madvise(start, SIZE.get(), MmapAdvise::MADV_HUGEPAGE);
        for at in (0..SIZE.get()).step_by(BLOCK) {
            start.cast::<u8>().add(at).write_volatile(1);
        }
        munmap(start, SIZE.get()).unwrap();
    }
}
