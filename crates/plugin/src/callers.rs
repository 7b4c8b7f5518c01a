// SPDX-License-Identifier: GPL-2.0-only
//! The callers of the kernel's function that runs, by its frame records.
//!
//! Linux on arm64 is always built with frame pointers. x29 points to a frame record, two words on the
//! stack: where the caller's record is, and where the call returns to (Procedure Call Standard for the
//! Arm 64-bit Architecture, "The Frame Pointer"). A function that calls none has no record, and hides
//! its caller.

use wideleaf_tlb::referee::Callers;

/// With pointer authentication a return address carries a code where the address of the kernel's
/// text has ones (Arm ARM DDI 0487, "Pointer authentication").
const SIGNED: u64 = 0xffff << 48;

/// The calls that `frame`, x29, leads to, the innermost first. `read` gives the word at an address.
pub fn callers(mut frame: u64, read: impl Fn(u64) -> Option<u64>) -> Callers {
    let mut callers = Callers::default();
    for caller in &mut callers {
        // User space's, or the end, which is 0.
        if frame >> 63 == 0 || frame & 7 != 0 {
            break;
        }
        let (Some(next), Some(returns)) = (read(frame), read(frame.wrapping_add(8))) else {
            break;
        };
        if returns == 0 {
            break;
        }
        *caller = returns | SIGNED;
        // Callers' are above, but for those on another stack: of interrupts, which change no tables.
        if next <= frame {
            break;
        }
        frame = next;
    }
    callers
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The return addresses that a stack at this address leads to from its first word on.
    fn of(words: &[u64]) -> Vec<u64> {
        let read = |va: u64| words.get(((va - STACK) / 8) as usize).copied();
        let found = callers(STACK, read);
        found.into_iter().take_while(|pc| *pc != 0).collect()
    }

    const STACK: u64 = 0xffff_8000_8200_0000;
    const TEXT: u64 = 0xffff_8000_8001_0000;

    #[test]
    fn callers_are_found_from_the_innermost_to_the_last_record() {
        let words = [STACK + 24, TEXT, 7, STACK + 40, TEXT + 4, 0, TEXT + 8];
        assert_eq!(of(&words), [TEXT, TEXT + 4, TEXT + 8]);
        assert_eq!(of(&[STACK + 16, TEXT, 0, 0]), [TEXT]);
    }

    #[test]
    fn the_code_of_pointer_authentication_is_no_part_of_the_address() {
        assert_eq!(of(&[0, 0x003a_8000_8001_0000]), [TEXT]);
    }

    #[test]
    fn a_record_that_leads_back_or_nowhere_ends_it() {
        assert_eq!(of(&[STACK, TEXT]), [TEXT]);
        assert_eq!(of(&[STACK + 80, TEXT]), [TEXT]);
        assert_eq!(of(&[STACK + 1, TEXT, 0]), [TEXT]);
        assert_eq!(of(&[]), [0; 0]);
        let deep: Vec<u64> = (0..40u64)
            .map(|n| [STACK + 8 * n + 16, TEXT][n as usize % 2])
            .collect();
        assert_eq!(of(&deep).len(), Callers::default().len());
    }
}
