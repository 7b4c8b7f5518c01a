// SPDX-License-Identifier: GPL-2.0-only
//! x86-64 instructions that the model must know of, from their encodings
//! (Intel SDM volume 2, chapters 2 and 3).

use crate::tlb::Invalidate;

/// What an instruction means to the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// Wideleaf's marker, a 7-byte NOP: `nopl 0x574c00NN(%rax)`.
    Marker(u8),
    /// MOV to CR3 from this general register.
    MovCr3(u8),
    /// MOV to CR0 or CR4, LMSW, or WRMSR, which may write EFER. The new value
    /// counts from the next instruction on.
    TranslationRegister,
    /// May change the privilege level without leaving the code's half of the
    /// address space: SYSCALL, SYSRET, SYSENTER, SYSEXIT, INT, IRET.
    PrivilegeLevel,
    /// INVLPG of this operand.
    Invlpg(Operand),
    /// INVPCID: type in a general register, descriptor in memory.
    Invpcid {
        /// Number of the register with the type.
        kind: u8,
        /// The 16-byte descriptor.
        descriptor: Operand,
    },
}

/// A memory operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Operand {
    /// Base register.
    pub base: Option<u8>,
    /// Index register and log2 of its scale.
    pub index: Option<(u8, u8)>,
    /// Displacement; for RIP-relative operands the whole address.
    pub disp: u64,
    /// FS (4) or GS (5) override.
    pub segment: Option<u8>,
}

impl Operand {
    /// The address, given general registers and segment bases by number.
    pub fn address(&self, register: impl Fn(u8) -> u64, segment: impl Fn(u8) -> u64) -> u64 {
        let mut address = self.disp;
        if let Some(base) = self.base {
            address = address.wrapping_add(register(base));
        }
        if let Some((index, scale)) = self.index {
            address = address.wrapping_add(register(index) << scale);
        }
        if let Some(s) = self.segment {
            address = address.wrapping_add(segment(s));
        }
        address
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn byte(&mut self) -> Option<u8> {
        let b = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(b)
    }

    fn i32(&mut self) -> Option<u64> {
        let b = self.bytes.get(self.at..self.at + 4)?;
        self.at += 4;
        Some(i64::from(i32::from_le_bytes([b[0], b[1], b[2], b[3]])) as u64)
    }
}

#[derive(Default)]
struct Prefixes {
    rex: u8,
    operand16: bool,
    repeat: bool,
    segment: Option<u8>,
}

impl Prefixes {
    /// Extends a register number by REX bit `bit` (0 = B, 1 = X, 2 = R).
    fn extend(&self, low: u8, bit: u8) -> u8 {
        low | ((self.rex >> bit) & 1) << 3
    }
}

/// The prefixes and the first byte of the opcode.
fn start(r: &mut Reader) -> Option<(Prefixes, u8)> {
    let mut p = Prefixes::default();
    loop {
        match r.byte()? {
            0x66 => p.operand16 = true,
            0x64 => p.segment = Some(4),
            0x65 => p.segment = Some(5),
            0xf2 | 0xf3 => p.repeat = true,
            0x26 | 0x2e | 0x36 | 0x3e | 0x67 | 0xf0 => {}
            rex @ 0x40..=0x4f => {
                p.rex = rex;
                return Some((p, r.byte()?));
            }
            opcode => return Some((p, opcode)),
        }
    }
}

/// Decodes the instruction `bytes` at address `rip`.
pub fn decode(bytes: &[u8], rip: u64) -> Option<Event> {
    let r = &mut Reader { bytes, at: 0 };
    let (p, opcode) = start(r)?;
    match opcode {
        0x0f => two_byte(r, &p, rip),
        0xcc | 0xcd | 0xcf => Some(Event::PrivilegeLevel),
        _ => None,
    }
}

/// Is it a string instruction with a repeat prefix (SDM volume 2, "REP/REPE/REPZ/REPNE/REPNZ"):
/// INS, OUTS, MOVS, CMPS, STOS, LODS or SCAS? A processor retires it once, however often it repeats.
pub fn repeats(bytes: &[u8]) -> bool {
    let started = start(&mut Reader { bytes, at: 0 });
    started.is_some_and(|(p, opcode)| {
        p.repeat && matches!(opcode, 0x6c..=0x6f | 0xa4..=0xa7 | 0xaa..=0xaf)
    })
}

fn two_byte(r: &mut Reader, p: &Prefixes, rip: u64) -> Option<Event> {
    match r.byte()? {
        0x01 => {
            let modrm = r.byte()?;
            match ((modrm >> 3) & 7, modrm >> 6) {
                (7, 0..=2) => Some(Event::Invlpg(operand(r, p, modrm, rip)?)),
                (6, _) => Some(Event::TranslationRegister), // LMSW
                _ => None,
            }
        }
        0x05 | 0x07 | 0x34 | 0x35 => Some(Event::PrivilegeLevel),
        0x1f => marker(r),
        0x22 => {
            let modrm = r.byte()?;
            match p.extend((modrm >> 3) & 7, 2) {
                0 | 4 => Some(Event::TranslationRegister),
                3 => Some(Event::MovCr3(p.extend(modrm & 7, 0))),
                _ => None,
            }
        }
        0x30 => Some(Event::TranslationRegister), // WRMSR
        0x38 if p.operand16 && r.byte()? == 0x82 => {
            let modrm = r.byte()?;
            Some(Event::Invpcid {
                kind: p.extend((modrm >> 3) & 7, 2),
                descriptor: operand(r, p, modrm, rip)?,
            })
        }
        _ => None,
    }
}

/// After 0F 1F: ModRM 80 (disp32(%rax)) and the marker's displacement.
fn marker(r: &mut Reader) -> Option<Event> {
    let prefixed = r.at != 2;
    let modrm = r.byte()?;
    let disp = r.i32()?;
    let ours = !prefixed && modrm == 0x80 && disp >> 8 == 0x57_4c00;
    ours.then_some(Event::Marker(disp as u8))
}

/// The memory operand that `modrm` starts (SDM volume 2, 2.1.5 and 2.2.1.6).
fn operand(r: &mut Reader, p: &Prefixes, modrm: u8, rip: u64) -> Option<Operand> {
    let (mode, rm) = (modrm >> 6, modrm & 7);
    let mut op = Operand {
        base: None,
        index: None,
        disp: 0,
        segment: p.segment,
    };
    if mode == 0 && rm == 5 {
        let disp = r.i32()?;
        op.disp = rip.wrapping_add(r.at as u64).wrapping_add(disp);
        return Some(op);
    }
    let mut base = rm;
    if rm == 4 {
        let sib = r.byte()?;
        base = sib & 7;
        let index = p.extend((sib >> 3) & 7, 1);
        op.index = (index != 4).then_some((index, sib >> 6));
    }
    if rm == 4 && base == 5 && mode == 0 {
        op.disp = r.i32()?;
        return Some(op);
    }
    op.base = Some(p.extend(base, 0));
    op.disp = match mode {
        1 => i64::from(r.byte()? as i8) as u64,
        2 => r.i32()?,
        _ => 0,
    };
    Some(op)
}

/// What MOV to CR3 of `value` removes (SDM 4.10.4.1); nothing if PCIDs are on
/// and bit 63 is set.
pub fn mov_cr3(value: u64, pcid_enabled: bool) -> Option<Invalidate> {
    match (pcid_enabled, value >> 63) {
        (false, _) => Some(Invalidate::NonGlobal),
        (true, 0) => Some(Invalidate::Asid((value & 0xfff) as u16)),
        (true, _) => None,
    }
}

/// What INVPCID of type `kind` with this descriptor removes; `None` for types
/// that fault.
pub fn invpcid(kind: u64, descriptor: [u64; 2]) -> Option<Invalidate> {
    let pcid = (descriptor[0] & 0xfff) as u16;
    match kind {
        0 => Some(Invalidate::Range {
            start: descriptor[1],
            last: descriptor[1],
            asid: Some(pcid),
            globals: false,
        }),
        1 => Some(Invalidate::Asid(pcid)),
        2 => Some(Invalidate::All),
        3 => Some(Invalidate::NonGlobal),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RIP: u64 = 0xffff_ffff_8100_0000;

    fn op(base: Option<u8>, index: Option<(u8, u8)>, disp: i64) -> Operand {
        Operand {
            base,
            index,
            disp: disp as u64,
            segment: None,
        }
    }

    /// Encodings as `as` makes them.
    #[test]
    fn recognises_what_the_assembler_makes() {
        let invlpg = |o| Some(Event::Invlpg(o));
        let cases: &[(&[u8], Option<Event>, &str)] = &[
            (
                &[0x0f, 0x1f, 0x80, 0x01, 0x00, 0x4c, 0x57],
                Some(Event::Marker(1)),
                "nopl 0x574c0001(%rax)",
            ),
            (
                &[0x0f, 0x1f, 0x80, 0xc8, 0x00, 0x4c, 0x57],
                Some(Event::Marker(200)),
                "coverage",
            ),
            (
                &[0x0f, 0x1f, 0x80, 0x00, 0x00, 0x00, 0x00],
                None,
                "plain nopl",
            ),
            (
                &[0x66, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0],
                None,
                "nopw 0(%rax,%rax)",
            ),
            (
                &[0x0f, 0x22, 0xd8],
                Some(Event::MovCr3(0)),
                "mov %rax, %cr3",
            ),
            (
                &[0x41, 0x0f, 0x22, 0xdc],
                Some(Event::MovCr3(12)),
                "mov %r12, %cr3",
            ),
            (
                &[0x0f, 0x22, 0xe1],
                Some(Event::TranslationRegister),
                "mov %rcx, %cr4",
            ),
            (
                &[0x0f, 0x22, 0xc0],
                Some(Event::TranslationRegister),
                "mov %rax, %cr0",
            ),
            (&[0x44, 0x0f, 0x22, 0xc0], None, "mov %rax, %cr8"),
            (&[0x0f, 0x20, 0xd8], None, "mov %cr3, %rax"),
            (&[0x0f, 0x30], Some(Event::TranslationRegister), "wrmsr"),
            (&[0x0f, 0x05], Some(Event::PrivilegeLevel), "syscall"),
            (&[0x48, 0x0f, 0x07], Some(Event::PrivilegeLevel), "sysretq"),
            (&[0x48, 0xcf], Some(Event::PrivilegeLevel), "iretq"),
            (
                &[0x0f, 0x01, 0x3f],
                invlpg(op(Some(7), None, 0)),
                "invlpg (%rdi)",
            ),
            (
                &[0x41, 0x0f, 0x01, 0x7c, 0x24, 0x10],
                invlpg(op(Some(12), None, 16)),
                "invlpg 16(%r12)",
            ),
            (
                &[0x0f, 0x01, 0x7c, 0xd8, 0xf8],
                invlpg(op(Some(0), Some((3, 3)), -8)),
                "invlpg -8(%rax,%rbx,8)",
            ),
            (
                &[0x0f, 0x01, 0x3d, 0x10, 0, 0, 0],
                invlpg(op(None, None, (RIP + 7 + 16) as i64)),
                "invlpg 16(%rip)",
            ),
            (&[0x0f, 0x01, 0xf8], None, "swapgs"),
            (
                &[0x66, 0x0f, 0x38, 0x82, 0x04, 0x24],
                Some(Event::Invpcid {
                    kind: 0,
                    descriptor: op(Some(4), None, 0),
                }),
                "invpcid (%rsp), %rax",
            ),
            (&[0x90], None, "nop"),
            (&[0x0f], None, "cut off"),
        ];
        for (bytes, want, text) in cases {
            assert_eq!(decode(bytes, RIP), *want, "{text}");
        }
    }

    #[test]
    fn what_repeats() {
        let cases: &[(&[u8], bool, &str)] = &[
            (&[0xf3, 0xa4], true, "rep movsb"),
            (&[0xf3, 0x48, 0xab], true, "rep stosq"),
            (&[0x66, 0xf2, 0xaf], true, "repne scasw"),
            (&[0xf3, 0x6c], true, "rep insb"),
            (&[0xa4], false, "movsb"),
            (&[0xf3, 0x90], false, "pause"),
            (&[0xf3, 0x0f, 0xb8, 0xc0], false, "popcnt"),
            (&[0xf3, 0xc3], false, "repz ret"),
            (&[0xf3], false, "cut off"),
        ];
        for (bytes, want, text) in cases {
            assert_eq!(repeats(bytes), *want, "{text}");
        }
    }

    #[test]
    fn addresses() {
        let register = |n: u8| u64::from(n) << 32;
        let segment = |n: u8| u64::from(n) << 56;
        let mut o = op(Some(7), Some((3, 3)), -8);
        assert_eq!(o.address(register, segment), ((7 + 24) << 32) - 8);
        o.segment = Some(5);
        assert_eq!(o.address(register, segment), (5 << 56) + (31 << 32) - 8);
    }

    #[test]
    fn pcid_rules() {
        assert_eq!(mov_cr3(0x1000, false), Some(Invalidate::NonGlobal));
        assert_eq!(mov_cr3(0x1003, true), Some(Invalidate::Asid(3)));
        assert_eq!(mov_cr3(1 << 63 | 0x1003, true), None);
        assert_eq!(invpcid(1, [9, 0]), Some(Invalidate::Asid(9)));
        assert_eq!(invpcid(2, [9, 0]), Some(Invalidate::All));
        assert_eq!(invpcid(3, [9, 0]), Some(Invalidate::NonGlobal));
        assert_eq!(invpcid(4, [9, 0]), None);
        let Some(Invalidate::Range {
            globals,
            asid,
            start,
            ..
        }) = invpcid(0, [9, 0x5000])
        else {
            panic!();
        };
        assert_eq!((globals, asid, start), (false, Some(9), 0x5000));
    }
}
