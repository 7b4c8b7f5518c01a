// SPDX-License-Identifier: GPL-2.0-only
//! What a storm's files hold: every 4096 bytes tell which of which file they are.
//!
//! First comes a function that returns it, so that it can be executed; then the same word over
//! and over, with a generation that a writer may raise. A reader may see a hole (zeroes), or a
//! write that is half done; but no word of another page or file.
//!
//! Instructions may be seen half zeroed: where a page holds translated code, QEMU's memory set
//! instructions (FEAT_MOPS, which Linux 7.3 zeroes with) store the first byte alone. So the function
//! returns the number and its complement, and zeroed bits cannot turn one piece into another.

/// Bytes of a piece; every page is one or some of them.
pub const PIECE: u64 = 4096;

/// Bytes of the function.
const CODE: usize = 24;

/// Words after the function.
pub const WORDS: usize = (PIECE as usize - CODE) / 8;

/// Bits of a piece's number, and of a generation.
const BITS: u32 = 24;

/// Which piece of which file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The file, below 32.
    pub file: u32,
    /// Number of the piece in the file, below 2^24.
    pub number: u32,
}

impl Piece {
    /// Its number among all. The top bit keeps it from being a pointer to anything.
    pub const fn id(self) -> u64 {
        (1 << 31 | self.file << BITS | self.number) as u64
    }

    /// What the function returns: the number, and above it its complement.
    pub const fn returned(self) -> u64 {
        self.id() | (!self.id() & 0xffff_ffff) << 32
    }

    /// Whether `returned` is what the function returns, or may with some of its bytes zeroed.
    pub const fn admits_returned(self, returned: u64) -> bool {
        returned & !self.returned() == 0
    }

    /// The word of this generation, below 2^24.
    pub const fn word(self, generation: u32) -> u64 {
        self.id() << BITS | generation as u64
    }

    /// Whether a reader may see this word at any time.
    pub const fn admits(self, word: u64) -> bool {
        word == 0 || word >> BITS == self.id()
    }

    /// Writes the piece into `out`, which has [`PIECE`] bytes.
    pub fn write(self, generation: u32, out: &mut [u8]) {
        out[..CODE].copy_from_slice(&code(self.returned()));
        for word in out[CODE..].chunks_exact_mut(8) {
            word.copy_from_slice(&self.word(generation).to_ne_bytes());
        }
    }

    /// Whether `seen` is this piece, a hole, or part of both.
    pub fn check(self, seen: &[u8]) -> Result<(), String> {
        let code = code(self.returned());
        if let Some(at) = (0..CODE).find(|&at| seen[at] != 0 && seen[at] != code[at]) {
            return Err(format!("{self}: byte {at} of its code is {:#x}", seen[at]));
        }
        for (n, word) in seen[CODE..].chunks_exact(8).enumerate() {
            let word = u64::from_ne_bytes(word.try_into().unwrap_or_default());
            self.check_word(n, word)?;
        }
        Ok(())
    }

    /// The same for the `n`th word after the code.
    pub fn check_word(self, n: usize, word: u64) -> Result<(), String> {
        if self.admits(word) {
            return Ok(());
        }
        Err(format!(
            "{self}: at byte {} there is {}",
            CODE + 8 * n,
            whose(word)
        ))
    }

    /// Where the `n`th word lies in the piece; wraps at its end.
    pub const fn offset(n: usize) -> u64 {
        (CODE + 8 * (n % WORDS)) as u64
    }
}

impl std::fmt::Display for Piece {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "file {} piece {}", self.file, self.number)
    }
}

/// To whom a word belongs that should not be there.
fn whose(word: u64) -> String {
    match of_id(word >> BITS) {
        Some(piece) => format!("{piece}"),
        None => format!("{word:#x}, of no page"),
    }
}

/// The piece with this id.
pub fn of_id(id: u64) -> Option<Piece> {
    let low = id as u32;
    let piece = Piece {
        file: low << 1 >> (BITS + 1),
        number: low & ((1 << BITS) - 1),
    };
    (piece.id() == id).then_some(piece)
}

/// The piece whose function returns this.
pub fn of_returned(returned: u64) -> Option<Piece> {
    of_id(returned & 0xffff_ffff).filter(|piece| piece.returned() == returned)
}

/// A function that returns `value`.
#[cfg(target_arch = "aarch64")]
fn code(value: u64) -> [u8; CODE] {
    let part = |n: u32| ((value >> (16 * n)) as u32 & 0xffff) << 5;
    // movz x0; movk x0, lsl #16, #32, #48; nop; ret. Files are cut at multiples of 8, and a `ret`
    // whose first byte is zeroed would go somewhere else: so it is not at one.
    let words = [
        0xd280_0000 | part(0),
        0xf2a0_0000 | part(1),
        0xf2c0_0000 | part(2),
        0xf2e0_0000 | part(3),
        0xd503_201f,
        0xd65f_03c0,
    ];
    let mut code = [0; CODE];
    for (at, word) in code.chunks_exact_mut(4).zip(words) {
        at.copy_from_slice(&u32::to_le_bytes(word));
    }
    code
}

#[cfg(target_arch = "x86_64")]
fn code(value: u64) -> [u8; CODE] {
    // movabs $value, %rax; ret; nops
    let mut code = [0x90; CODE];
    code[..2].copy_from_slice(&[0x48, 0xb8]);
    code[2..10].copy_from_slice(&value.to_le_bytes());
    code[10] = 0xc3;
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Piece = Piece {
        file: 3,
        number: 0x0004_5678,
    };

    #[test]
    fn a_piece_and_a_hole_are_admitted_and_any_generation() {
        let mut page = [0; PIECE as usize];
        assert_eq!(HERE.check(&page), Ok(()));
        HERE.write(7, &mut page);
        assert_eq!(HERE.check(&page), Ok(()));
        page[2048..].fill(0);
        assert_eq!(HERE.check(&page), Ok(()));
    }

    #[test]
    fn another_page_is_named() {
        let mut page = [0; PIECE as usize];
        let other = Piece { number: 9, ..HERE };
        other.write(0, &mut page);
        page[..CODE].fill(0);
        let error = HERE.check(&page).unwrap_err();
        assert!(error.contains("there is file 3 piece 9"), "{error}");
        let last = PIECE as usize - 8;
        page.fill(0);
        page[last..].copy_from_slice(&5_u64.to_ne_bytes());
        assert!(HERE.check(&page).unwrap_err().contains("of no page"));
    }

    #[test]
    fn code_of_another_page_is_found() {
        let mut page = [0; PIECE as usize];
        Piece { file: 4, ..HERE }.write(0, &mut page);
        page[CODE..].fill(0);
        assert!(HERE.check(&page).is_err());
    }

    #[test]
    fn ids_round_trip() {
        assert_eq!(of_id(HERE.id()), Some(HERE));
        assert_eq!(of_id(HERE.id() & 0xffff), None);
        assert_eq!(of_returned(HERE.returned()), Some(HERE));
        assert_eq!(of_returned(HERE.id()), None);
        assert_eq!(Piece::offset(0), 24);
        assert_eq!(Piece::offset(WORDS - 1), 4088);
        assert_eq!(Piece::offset(WORDS), 24);
    }

    #[test]
    fn zeroed_bytes_make_no_other_piece() {
        let (returned, low) = (HERE.returned(), 0xffff_ffff_ffff_ff00);
        assert!(HERE.admits_returned(returned));
        assert!(HERE.admits_returned(returned & low));
        assert_eq!(of_returned(returned & low), None);
        for number in [HERE.number & !0xff, HERE.number | 7, 0] {
            let other = Piece { number, ..HERE };
            assert!(!HERE.admits_returned(other.returned()), "{other}");
        }
    }
}
