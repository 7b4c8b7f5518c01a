// SPDX-License-Identifier: GPL-2.0-only
//! A function of the kernel whose calls are counted, with all that it calls.
//!
//! A call begins where a block begins at the function's address, and ends where one begins at the
//! return address with the same stack pointer. Between, what runs elsewhere than on the caller's
//! stack is none of it: other tasks, and interrupts but for the few instructions before they go to
//! a stack of their own.

/// Bytes of stack that a call uses at most. Linux' stacks are no smaller, and no other begins right
/// below one.
const STACK: u64 = 16 << 10;

/// None, or one.
#[derive(Debug, Default)]
pub struct Function {
    address: Option<u64>,
    call: Option<Call>,
}

/// A call that has not ended.
#[derive(Debug)]
struct Call {
    return_address: u64,
    /// The caller's stack pointer.
    sp: u64,
    /// Whether what runs now is part of it.
    runs: bool,
}

impl Function {
    /// The one at `address`.
    pub fn at(address: u64) -> Self {
        Self {
            address: Some(address),
            call: None,
        }
    }

    /// Whether [`Function::block`] must be told of each block in the page of `pc`: during a call,
    /// and in the function's own page, where somebody may call it.
    pub fn wants(&self, pc: u64) -> bool {
        self.call.is_some()
            || self
                .address
                .is_some_and(|address| (address ^ pc) >> 12 == 0)
    }

    /// Whether what runs now is part of a call.
    pub fn runs(&self) -> bool {
        self.call.as_ref().is_some_and(|call| call.runs)
    }

    /// A block begins at `pc` with this stack pointer. True if a call begins with it; then the
    /// return address is asked for.
    pub fn block(
        &mut self,
        pc: u64,
        sp: u64,
        return_address: impl FnOnce() -> Option<u64>,
    ) -> bool {
        if let Some(call) = &mut self.call {
            if (pc, sp) == (call.return_address, call.sp) {
                self.call = None;
            } else {
                call.runs = call.sp.wrapping_sub(sp) < STACK;
            }
            return false;
        }
        if self.address != Some(pc) {
            return false;
        }
        self.call = return_address().map(|return_address| Call {
            return_address,
            sp,
            runs: true,
        });
        self.call.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESS: u64 = 0xffff_8000_0801_2340;
    const BACK: u64 = 0xffff_8000_0804_0004;
    const SP: u64 = 0xffff_8000_8000_3f00;

    fn called() -> Function {
        let mut function = Function::at(ADDRESS);
        assert!(function.block(ADDRESS, SP, || Some(BACK)));
        assert!(function.runs());
        function
    }

    #[test]
    fn a_call_lasts_until_its_return() {
        let mut function = called();
        assert!(function.wants(0), "all blocks of a call");
        assert!(!function.block(0xffff_8000_0900_0000, SP - 0x80, || None));
        assert!(function.runs(), "what it calls");
        // Recursion is part of the call, and what returns there with another stack pointer is not
        // its end.
        assert!(!function.block(ADDRESS, SP - 0x80, || Some(1)));
        assert!(!function.block(BACK, SP - 0x80, || None));
        assert!(function.runs());
        assert!(!function.block(BACK, SP, || None));
        assert!(!function.runs());
        assert!(function.block(ADDRESS, SP, || Some(BACK)), "again");
    }

    #[test]
    fn other_stacks_are_none_of_it() {
        let mut function = called();
        for sp in [0x7fff_0000, SP + 16, SP - (32 << 10), u64::MAX] {
            assert!(!function.block(0xffff_8000_0900_0000, sp, || None));
            assert!(!function.runs(), "{sp:x}");
        }
        function.block(ADDRESS + 8, SP - 16, || None);
        assert!(function.runs(), "back on its own");
    }

    #[test]
    fn only_its_own_page_is_of_interest_without_a_call() {
        let mut function = Function::at(ADDRESS);
        assert!(function.wants(ADDRESS & !0xfff) && !function.wants(ADDRESS + 0x1000));
        assert!(!function.block(ADDRESS + 4, SP, || Some(BACK)));
        assert!(!function.block(ADDRESS, SP, || None), "who returns where?");
        assert!(!Function::default().wants(0) && !Function::default().runs());
    }
}
