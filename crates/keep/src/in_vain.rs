// SPDX-License-Identifier: GPL-2.0-only
//! Files whose file system seems to have no wide folios: a block of each, read in each pass, would
//! be read in vain.

use std::collections::HashMap;

/// By device and inode. A process that starts while a block is read has the kernel read it in small
/// folios, too, so each file is tried again, ever more seldom.
#[derive(Debug, Default)]
pub struct InVain(HashMap<(u64, u64), Pause>);

#[derive(Debug, Default)]
struct Pause {
    /// Passes that leave the file out from now on.
    left: u32,
    /// The length of the pause before this one.
    last: u32,
}

/// Passes without a try at most: seventeen hours at the usual interval.
const MOST: u32 = 1024;

impl InVain {
    /// Whether this pass leaves the file out.
    pub(crate) fn leaves_out(&mut self, file: (u64, u64)) -> bool {
        let Some(pause) = self.0.get_mut(&file).filter(|pause| pause.left > 0) else {
            return false;
        };
        pause.left -= 1;
        true
    }

    /// Notes whether a block of it has become a wide folio.
    pub(crate) fn tried(&mut self, file: (u64, u64), wide: bool) {
        if wide {
            self.0.remove(&file);
            return;
        }
        let pause = self.0.entry(file).or_default();
        pause.last = (pause.last * 2).clamp(1, MOST);
        pause.left = pause.last;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_tried_again_ever_more_seldom_until_it_is_wide() {
        let file = (8, 1);
        let mut in_vain = InVain::default();
        let mut tries = Vec::new();
        for pass in 0..4000 {
            if !in_vain.leaves_out(file) {
                tries.push(pass);
                in_vain.tried(file, false);
            }
        }
        assert_eq!(tries[..6], [0, 2, 5, 10, 19, 36]);
        assert_eq!(tries.last().unwrap() - tries[tries.len() - 2], 1025);
        assert!(!in_vain.leaves_out((8, 2)));
        in_vain.tried(file, true);
        assert!(!in_vain.leaves_out(file));
    }
}
