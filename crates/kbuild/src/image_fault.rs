// SPDX-License-Identifier: GPL-2.0-only
//! Faults that a finished kernel image gets: instructions of one kind, in one function, turned into
//! NOPs, or TLBIs that reach all CPUs into those for one. The kernel is one that forgot them, and
//! nothing is built.

use crate::Arch;
use anyhow::{Context, Result, bail};
use object::{Object, ObjectSegment};

/// Changes when what is done to an image changes.
pub(crate) const RECIPE: &str = "1";

/// A fault of a finished image.
#[derive(Clone, Debug)]
pub(crate) struct ImageFault {
    /// Its name.
    pub name: String,
    /// A sentence.
    pub about: String,
    /// The architecture whose instructions it knows.
    pub arch: Arch,
    forgets: Forgets,
    place: Place,
}

/// The function that forgets; all if none is named.
#[derive(Clone, Copy, Debug)]
struct Place {
    function: Option<&'static str>,
    /// Several files have one of this name: it is that of this function's file.
    near: Option<&'static str>,
}

/// Instructions of one kind.
#[derive(Clone, Copy, Debug)]
enum Forgets {
    /// TLBIs of EL1.
    Flush,
    /// DSBs for stores, which stand before TLBIs.
    FirstBarrier,
    /// Full DSBs, which stand behind.
    LastBarrier,
    /// ISBs.
    Isb,
    /// ISBs behind a DSB for stores, as where a new kernel entry is made.
    IsbAfterStore,
    /// That a TLBI reaches all CPUs.
    OtherCpus,
    /// These three bytes of x86-64.
    Bytes([u8; 3]),
}

/// Name, function, whose copy of it, what flushes there.
const PLACES: [(&str, &str, Option<&str>, &str); 5] = [
    ("gather", "tlb_flush", None, "munmap and mprotect"),
    ("cow", "ptep_clear_flush", None, "copy on write"),
    ("fork", "dup_mmap", None, "fork, which write-protects"),
    (
        "contpte",
        "__flush_tlb_range",
        Some("contpte_convert"),
        "folding and unfolding contiguous groups",
    ),
    (
        "mremap",
        "__flush_tlb_range",
        Some("move_page_tables"),
        "mremap",
    ),
];

const OMISSIONS: [(&str, Forgets, &str); 3] = [
    ("no-flush", Forgets::Flush, "nothing is flushed by"),
    (
        "no-first-barrier",
        Forgets::FirstBarrier,
        "stores may not be visible before the flush by",
    ),
    (
        "no-last-barrier",
        Forgets::LastBarrier,
        "nothing waits for the flush by",
    ),
];

/// Name, architecture, what is forgotten, function, sentence.
const OTHERS: [(&str, Arch, Forgets, Option<&str>, &str); 5] = [
    (
        "gather-one-cpu",
        Arch::Arm64,
        Forgets::OtherCpus,
        Some("tlb_flush"),
        "munmap and mprotect flush one CPU only",
    ),
    (
        "set-no-isb",
        Arch::Arm64,
        Forgets::IsbAfterStore,
        None,
        "new kernel entries are not synchronised with (undoes d0b7a302d58a)",
    ),
    (
        "fixmap-no-isb",
        Arch::Arm64,
        Forgets::Isb,
        Some("__set_fixmap"),
        "a fixed mapping is not synchronised with",
    ),
    (
        "x86-no-invlpg",
        Arch::X86_64,
        Forgets::Bytes([0x0f, 0x01, 0x3f]),
        Some("native_flush_tlb_one_user"),
        "pages are flushed by nothing",
    ),
    (
        "x86-no-cr3",
        Arch::X86_64,
        Forgets::Bytes([0x0f, 0x22, 0xd8]),
        Some("flush_tlb_func"),
        "address spaces are flushed by nothing",
    ),
];

/// All of them.
pub(crate) fn all() -> Vec<ImageFault> {
    let omitted = PLACES.iter().flat_map(|&(place, function, near, by)| {
        OMISSIONS.map(|(what, forgets, what_happens)| ImageFault {
            name: format!("{place}-{what}"),
            about: format!("{what_happens} {by}"),
            arch: Arch::Arm64,
            forgets,
            place: Place {
                function: Some(function),
                near,
            },
        })
    });
    let others = OTHERS.map(|(name, arch, forgets, function, about)| ImageFault {
        name: name.into(),
        about: about.into(),
        arch,
        forgets,
        place: Place {
            function,
            near: None,
        },
    });
    omitted.chain(others).collect()
}

impl ImageFault {
    /// Changes `image`, whose symbols are in `system_map`; says how many instructions it had.
    ///
    /// # Errors
    ///
    /// If it has none of the kind, because the compiler put the function into another.
    pub(crate) fn plant(&self, image: &mut [u8], system_map: &str) -> Result<usize> {
        let functions = Functions::parse(system_map)?;
        let mut count = 0;
        for (start, end) in functions.copies(self.place) {
            let code = match self.arch {
                Arch::Arm64 => in_image(image, start - functions.text, end - functions.text),
                Arch::X86_64 => in_elf(image, start, end)?,
            };
            count += self.forgets.turn(code);
        }
        if count == 0 {
            bail!(
                "{}: nothing of the kind in {}: the compiler has put it elsewhere; take another \
                 base, page size or fault",
                self.name,
                self.place.function.unwrap_or("any function")
            );
        }
        Ok(count)
    }
}

/// The code of a raw image.
fn in_image(image: &mut [u8], from: u64, to: u64) -> &mut [u8] {
    let end = image.len();
    let (from, to) = (from as usize, (to as usize).min(end));
    &mut image[from.min(to)..to]
}

/// The code of an ELF file.
fn in_elf(image: &mut [u8], start: u64, end: u64) -> Result<&mut [u8]> {
    let file = object::File::parse(&*image).context("the kernel is no ELF file")?;
    let mut segments = file.segments();
    let within = |s: &object::Segment| (s.address()..s.address() + s.size()).contains(&start);
    let segment = segments
        .find(within)
        .with_context(|| format!("{start:#x} is in no segment of the kernel"))?;
    let from = segment.file_range().0 + (start - segment.address());
    let range = from as usize..(from + (end - start)) as usize;
    image
        .get_mut(range)
        .with_context(|| format!("the kernel ends before {end:#x}"))
}

impl Forgets {
    /// Turns all such instructions in `code` into NOPs; says how many there were.
    fn turn(self, code: &mut [u8]) -> usize {
        if let Forgets::Bytes(wanted) = self {
            return turn_bytes(code, wanted);
        }
        let (mut count, mut before) = (0, 0);
        for bytes in code.as_chunks_mut::<4>().0 {
            let word = u32::from_le_bytes(*bytes);
            if let Some(instead) = self.instead(word, before) {
                *bytes = instead.to_le_bytes();
                count += 1;
            }
            before = word;
        }
        count
    }

    /// The replacement of `word`, which stands behind `before`; `None`: itself.
    fn instead(self, word: u32, before: u32) -> Option<u32> {
        const NOP: u32 = 0xd503_201f;
        const DSB_ISHST: u32 = 0xd503_3a9f;
        // CRm: bits 3:2 the domain, 1:0 the kind, 2 for stores and 3 for all.
        let crm = word >> 8 & 15;
        let is_isb = word & 0xffff_f0ff == 0xd503_30df;
        let is_dsb = |kind| word & 0xffff_f0ff == 0xd503_309f && crm & 3 == kind;
        // SYS, op1 0, CRn 8. CRm 3 is Inner Shareable, of ranges 2; 7 and 6 are the same for one
        // CPU.
        let is_tlbi = word & 0xffff_f000 == 0xd508_8000;
        let nop = |yes: bool| yes.then_some(NOP);
        match self {
            Forgets::Flush => nop(is_tlbi),
            Forgets::FirstBarrier => nop(is_dsb(2)),
            Forgets::LastBarrier => nop(is_dsb(3)),
            Forgets::Isb => nop(is_isb),
            Forgets::IsbAfterStore => nop(is_isb && before == DSB_ISHST),
            Forgets::OtherCpus => (is_tlbi && matches!(crm, 2 | 3)).then_some(word | 4 << 8),
            Forgets::Bytes(_) => None,
        }
    }
}

fn turn_bytes(code: &mut [u8], wanted: [u8; 3]) -> usize {
    const NOP: [u8; 3] = [0x0f, 0x1f, 0x00];
    let (mut count, mut at) = (0, 0);
    while at + 3 <= code.len() {
        if code[at..at + 3] == wanted {
            code[at..at + 3].copy_from_slice(&NOP);
            (count, at) = (count + 1, at + 2);
        }
        at += 1;
    }
    count
}

/// First address, the one behind the last, and name of each function, by address.
struct Functions<'a> {
    all: Vec<(u64, u64, &'a str)>,
    /// Where a raw image begins.
    text: u64,
}

impl<'a> Functions<'a> {
    fn parse(system_map: &'a str) -> Result<Self> {
        let mut symbols = Vec::new();
        for line in system_map.lines() {
            let mut words = line.split_whitespace();
            let (Some(address), Some(kind), Some(name)) =
                (words.next(), words.next(), words.next())
            else {
                bail!("System.map: no symbol: {line}");
            };
            let address = u64::from_str_radix(address, 16)
                .with_context(|| format!("System.map: no address: {line}"))?;
            // $x and $d mark code and data.
            if !name.starts_with('$') {
                symbols.push((address, kind, name));
            }
        }
        symbols.sort();
        let text = symbols.iter().find(|(.., name)| *name == "_text");
        let text = text.context("System.map: no _text")?.0;
        let pairs = symbols.iter().zip(symbols.iter().skip(1));
        let all = pairs
            .filter(|((start, kind, _), (end, ..))| {
                matches!(*kind, "t" | "T" | "w" | "W") && end > start && *start >= text
            })
            .map(|((start, _, name), (end, ..))| (*start, *end, *name))
            .collect();
        Ok(Self { all, text })
    }

    /// Where the functions of `place` are.
    fn copies(&self, place: Place) -> Vec<(u64, u64)> {
        let wanted = |name: &str| {
            place
                .function
                .is_none_or(|function| is_copy(name, function))
        };
        let mut copies: Vec<_> = self
            .all
            .iter()
            .filter(|(.., name)| wanted(name))
            .map(|(start, end, _)| (*start, *end))
            .collect();
        if let Some(near) = place.near {
            // One of its own file is the last before it.
            let user = self.all.iter().find(|(.., name)| *name == near);
            copies.retain(|(start, _)| user.is_some_and(|(user, ..)| start < user));
            copies = copies.split_off(copies.len().saturating_sub(1));
        }
        copies
    }
}

/// Is `name` that of `function`, or of what the compiler made of it (`tlb_flush.isra.0`)?
fn is_copy(name: &str, function: &str) -> bool {
    let Some(rest) = name.strip_prefix(function) else {
        return false;
    };
    let mut words = rest.split('.');
    if words.next() != Some("") {
        return false;
    }
    let words: Vec<_> = words.collect();
    words.chunks(2).all(|pair| {
        matches!(pair, [kind, number] if ["constprop", "isra", "part"].contains(kind)
            && !number.is_empty()
            && number.bytes().all(|b| b.is_ascii_digit()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOP: u32 = 0xd503_201f;
    const DSB_ISHST: u32 = 0xd503_3a9f;
    const DSB_ISH: u32 = 0xd503_3b9f;
    const ISB: u32 = 0xd503_3fdf;
    /// TLBI VAE1IS, X0, and the same for one CPU.
    const TLBI: u32 = 0xd508_8320;
    const TLBI_LOCAL: u32 = 0xd508_8720;

    const MAP: &str = "\
        ffff800080000000 T _text\n\
        ffff800080000000 t $x\n\
        ffff800080000010 t __flush_tlb_range.constprop.0\n\
        ffff800080000020 T contpte_convert\n\
        ffff800080000030 t __flush_tlb_range.isra.0\n\
        ffff800080000040 T move_page_tables\n\
        ffff800080000050 t tlb_flush\n\
        ffff800080000060 t tlb_flush_mmu\n\
        ffff800080000070 D data\n";

    /// Each function, of 16 bytes, has the same four instructions.
    fn planted(name: &str) -> Result<(usize, Vec<u32>)> {
        let words = [DSB_ISHST, TLBI, DSB_ISH, ISB].repeat(7);
        let mut image: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let fault = all().into_iter().find(|f| f.name == name).unwrap();
        let count = fault.plant(&mut image, MAP)?;
        let words = image.as_chunks::<4>().0;
        Ok((
            count,
            words.iter().map(|word| u32::from_le_bytes(*word)).collect(),
        ))
    }

    /// Where what was planted differs.
    fn changed(name: &str) -> Vec<(usize, u32)> {
        let (count, words) = planted(name).unwrap();
        let before = [DSB_ISHST, TLBI, DSB_ISH, ISB];
        let changed: Vec<_> = words
            .into_iter()
            .enumerate()
            .filter(|(i, word)| *word != before[i % 4])
            .collect();
        assert_eq!(changed.len(), count);
        changed
    }

    #[test]
    fn each_kind_of_instruction_is_taken_out_of_its_function_only() {
        assert_eq!(changed("gather-no-first-barrier"), [(20, NOP)]);
        assert_eq!(changed("gather-no-flush"), [(21, NOP)]);
        assert_eq!(changed("gather-no-last-barrier"), [(22, NOP)]);
        assert_eq!(changed("gather-one-cpu"), [(21, TLBI_LOCAL)]);
    }

    #[test]
    fn of_several_functions_of_a_name_that_of_the_file_is_taken() {
        assert_eq!(changed("contpte-no-flush"), [(5, NOP)]);
        assert_eq!(changed("mremap-no-flush"), [(13, NOP)]);
    }

    #[test]
    fn an_isb_counts_where_it_follows_a_store_barrier() {
        let mut code = [DSB_ISHST, ISB, DSB_ISH, ISB]
            .map(u32::to_le_bytes)
            .concat();
        assert_eq!(Forgets::IsbAfterStore.turn(&mut code), 1);
        assert_eq!(code[4..8], NOP.to_le_bytes());
        assert_eq!(code[12..], ISB.to_le_bytes());
    }

    #[test]
    fn a_kernel_without_the_function_is_refused() {
        let error = planted("cow-no-flush").unwrap_err().to_string();
        for part in ["cow-no-flush", "ptep_clear_flush", "take another base"] {
            assert!(error.contains(part), "no '{part}' in: {error}");
        }
    }

    #[test]
    fn a_system_map_that_is_none_is_refused() {
        let fault = &all()[0];
        let error = |map| format!("{:#}", fault.plant(&mut [], map).unwrap_err());
        assert!(error("what is this").contains("no address: what is this"));
        assert!(error("").contains("no _text"));
    }

    #[test]
    fn an_x86_kernel_is_an_elf_file() {
        let fault = all().into_iter().find(|f| f.name == "x86-no-invlpg");
        let fault = fault.unwrap();
        let map = "ffffffff81000000 T _text\n\
            ffffffff81000004 T native_flush_tlb_one_user\n\
            ffffffff8100000c T next\n\
            ffffffff81000010 D data\n";
        let mut image = elf(0xffff_ffff_8100_0000, &[0x0f, 0x01, 0x3f, 0x90].repeat(4));
        let before = image.clone();
        assert_eq!(fault.plant(&mut image, map).unwrap(), 2);
        let differ: Vec<_> = (0..image.len())
            .filter(|&i| image[i] != before[i])
            .collect();
        assert_eq!(differ, [0x105, 0x106, 0x109, 0x10a]);
        let error = fault.plant(&mut [1, 2, 3], map).unwrap_err();
        assert!(format!("{error:#}").contains("no ELF file"), "{error:#}");
    }

    /// An ELF file with one segment, at 0x100.
    fn elf(address: u64, code: &[u8]) -> Vec<u8> {
        let mut file = vec![0; 0x100];
        file[..8].copy_from_slice(b"\x7fELF\x02\x01\x01\0");
        let mut put = |at: usize, bytes: &[u8]| file[at..at + bytes.len()].copy_from_slice(bytes);
        put(16, &2u16.to_le_bytes());
        put(18, &62u16.to_le_bytes());
        put(20, &1u32.to_le_bytes());
        put(32, &64u64.to_le_bytes());
        put(52, &64u16.to_le_bytes());
        put(54, &56u16.to_le_bytes());
        put(56, &1u16.to_le_bytes());
        put(64, &1u32.to_le_bytes());
        put(68, &5u32.to_le_bytes());
        put(72, &0x100u64.to_le_bytes());
        put(80, &address.to_le_bytes());
        put(88, &address.to_le_bytes());
        put(96, &(code.len() as u64).to_le_bytes());
        put(104, &(code.len() as u64).to_le_bytes());
        file.extend(code);
        file
    }

    #[test]
    fn names_of_what_the_compiler_makes_of_a_function_are_known() {
        assert!(is_copy("tlb_flush", "tlb_flush"));
        assert!(is_copy("tlb_flush.constprop.0.isra.12", "tlb_flush"));
        for other in ["tlb_flush_mmu", "tlb_flush.cold", "tlb_flush.isra", "tlb"] {
            assert!(!is_copy(other, "tlb_flush"), "{other}");
        }
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = all().into_iter().map(|f| f.name).collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!((names.len(), count), (20, 20));
    }
}
