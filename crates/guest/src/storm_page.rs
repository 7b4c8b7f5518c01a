// SPDX-License-Identifier: GPL-2.0-only
//! What a storm's files hold: every 4096 bytes tell which of which file they are.
//!
//! First comes a function that returns it, so that it can be executed; then the same word over
//! and over, with a generation that a writer may raise. A reader may see a hole (zeroes), or a
//! write that is half done; but no word of another page or file.

/// Bytes of a piece; every page is one or some of them.
pub const PIECE: u64 = 4096;

/// Bytes of the function.
const CODE: usize = 16;

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
    /// What the function returns. The top bit keeps it from being a pointer to anything.
    pub const fn id(self) -> u64 {
        (1 << 31 | self.file << BITS | self.number) as u64
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
        out[..CODE].copy_from_slice(&code(self.id() as u32));
        for word in out[CODE..].chunks_exact_mut(8) {
            word.copy_from_slice(&self.word(generation).to_ne_bytes());
        }
    }

    /// Whether `seen` is this piece, a hole, or part of both.
    pub fn check(self, seen: &[u8]) -> Result<(), String> {
        let code = code(self.id() as u32);
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
        (CODE + 8 * (n % ((PIECE as usize - CODE) / 8))) as u64
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

/// A function that returns `id`: only the first instructions, then a return.
#[cfg(target_arch = "aarch64")]
fn code(id: u32) -> [u8; CODE] {
    // movz w0, #low; movk w0, #high, lsl #16; ret; nop
    let words = [
        0x5280_0000 | (id & 0xffff) << 5,
        0x72a0_0000 | (id >> 16) << 5,
        0xd65f_03c0,
        0xd503_201f,
    ];
    let mut code = [0; CODE];
    for (at, word) in code.chunks_exact_mut(4).zip(words) {
        at.copy_from_slice(&word.to_le_bytes());
    }
    code
}

#[cfg(target_arch = "x86_64")]
fn code(id: u32) -> [u8; CODE] {
    // mov $id, %eax; ret; nops
    let mut code = [0x90; CODE];
    code[0] = 0xb8;
    code[1..5].copy_from_slice(&id.to_le_bytes());
    code[5] = 0xc3;
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
        assert_eq!(Piece::offset(0), 16);
        assert_eq!(Piece::offset(509), 4088);
        assert_eq!(Piece::offset(510), 16);
    }
}
