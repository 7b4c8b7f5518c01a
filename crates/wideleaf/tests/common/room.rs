// SPDX-License-Identifier: GPL-2.0-only
//! Memory for copies, on a machine that has done much else.

use std::path::Path;
use std::sync::Once;

const BLOCK: u64 = 2 << 20;
const SIZE: u64 = 256 * BLOCK;

/// Has the kernel free memory in whole blocks, once for all tests of a file: page cache that fills
/// the machine leaves none, and MADV_COLLAPSE then fails now and then, too. Only root can do more
/// than ask. The last step takes clean page cache from everybody, who read it again.
pub fn make() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let set = |name: &str| drop(std::fs::write(Path::new("/proc/sys/vm").join(name), "1"));
        let steps: [&dyn Fn(); 3] = [
            &|| wideleaf_collapse::make_blocks(SIZE, BLOCK),
            &|| set("compact_memory"),
            &|| set("drop_caches"),
        ];
        for step in steps {
            let spare = wideleaf_collapse::spare(Path::new("/proc"), 4096, BLOCK);
            if spare.is_ok_and(|spare| spare.bytes() >= SIZE) {
                return;
            }
            step();
        }
    });
}
