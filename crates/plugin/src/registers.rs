// SPDX-License-Identifier: GPL-2.0-only
//! Registers by what the model needs them for. Names are those of QEMU's gdb
//! stub, which the plugin API uses.

use crate::ffi::{self, Handle, RegisterBuffer};
use anyhow::Context;
use wideleaf_kit::arch::Arch;
use wideleaf_tlb::mmu::Mmu;
use wideleaf_tlb::model::Mode;
use wideleaf_tlb::{arm64, x86};

/// Handles of one vCPU, and a buffer to read into.
pub struct Registers {
    buffer: RegisterBuffer,
    general: Vec<Handle>,
    /// arm64: TTBR0_EL1, TTBR1_EL1, TCR_EL1, SCTLR, MAIR_EL1. x86: CR0, CR3, CR4, EFER.
    translation: Vec<Handle>,
    /// arm64: TCR2_EL1, PIR_EL1, PIRE0_EL1, if this QEMU has them.
    permissions: Option<[Handle; 3]>,
    /// SP of the exception level that runs; RSP.
    stack: Handle,
    /// arm64: CPSR, which for AArch64 is PSTATE. x86: CS.
    mode: Handle,
    pc: Handle,
    /// x86: FS and GS base. arm64: none.
    segments: Vec<Handle>,
    /// arm64: FAR_EL1, ESR_EL1, ELR_EL1. x86: none.
    fault: Vec<Handle>,
    arch: Arch,
}

const X86_GENERAL: [&str; 16] = [
    "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13",
    "r14", "r15",
];

/// arm64's registers with the frame record's address and the return address.
const FRAME: u8 = 29;
const LINK: u8 = 30;

/// Registers 0, 1, 2 of the coverage request on x86: rdi, rsi, rdx.
const X86_ARGUMENTS: [usize; 3] = [7, 6, 2];

impl Registers {
    /// Finds the registers of the current vCPU. Only from a vCPU init
    /// callback.
    ///
    /// # Errors
    ///
    /// Names the register that QEMU does not offer.
    pub fn find(arch: Arch) -> anyhow::Result<Self> {
        let all = ffi::registers();
        let one = |name: &str| {
            let found = all.iter().find(|(n, _)| n == name);
            found.map(|(_, h)| *h).with_context(|| {
                format!(
                    "this QEMU gives plugins no register {name:?} ({} others)",
                    all.len()
                )
            })
        };
        let many = |names: &[&str]| {
            names
                .iter()
                .map(|n| one(n))
                .collect::<anyhow::Result<Vec<_>>>()
        };
        Ok(match arch {
            Arch::Arm64 => Registers {
                buffer: RegisterBuffer::new(),
                general: (0..31)
                    .map(|n| one(&format!("x{n}")))
                    .collect::<anyhow::Result<_>>()?,
                translation: many(&["TTBR0_EL1", "TTBR1_EL1", "TCR_EL1", "SCTLR", "MAIR_EL1"])?,
                permissions: many(&["TCR2_EL1", "PIR_EL1", "PIRE0_EL1"])
                    .ok()
                    .and_then(|handles| handles.try_into().ok()),
                stack: one("sp")?,
                mode: one("cpsr")?,
                pc: one("pc")?,
                segments: Vec::new(),
                fault: many(&["FAR_EL1", "ESR_EL1", "ELR_EL1"])?,
                arch,
            },
            Arch::X86_64 => Registers {
                buffer: RegisterBuffer::new(),
                general: many(&X86_GENERAL)?,
                translation: many(&["cr0", "cr3", "cr4", "efer"])?,
                permissions: None,
                stack: one("rsp")?,
                mode: one("cs")?,
                pc: one("rip")?,
                segments: many(&["fs_base", "gs_base"])?,
                fault: Vec::new(),
                arch,
            },
        })
    }

    fn read(&mut self, handle: Handle) -> u64 {
        // Every handle came from the list of readable registers; QEMU fails a
        // read only outside of a callback that may read.
        self.buffer.read(handle).unwrap_or(0)
    }

    /// General register `n`; arm64's 31 is XZR.
    pub fn general(&mut self, n: u8) -> u64 {
        match self.general.get(usize::from(n)) {
            Some(&handle) => self.read(handle),
            None => 0,
        }
    }

    /// The program counter. Right at the start of a block only.
    pub fn pc(&mut self) -> u64 {
        self.read(self.pc)
    }

    /// FAR_EL1, ESR_EL1 and ELR_EL1.
    pub fn fault(&mut self) -> Option<[u64; 3]> {
        let handles: [Handle; 3] = self.fault.clone().try_into().ok()?;
        Some(handles.map(|handle| self.read(handle)))
    }

    /// Base of segment 4 (FS) or 5 (GS).
    pub fn segment_base(&mut self, n: u8) -> u64 {
        let handle = self.segments[usize::from(n) - 4];
        self.read(handle)
    }

    /// The stack pointer.
    pub fn stack(&mut self) -> u64 {
        self.read(self.stack)
    }

    /// Where the function returns to whose first instruction is next. arm64 only: x86 has it in
    /// memory.
    pub fn return_address(&mut self) -> Option<u64> {
        (self.arch == Arch::Arm64).then(|| self.general(LINK))
    }

    /// Where the frame record of the function is that runs. arm64 only: Linux on x86 keeps
    /// none with its usual unwinder (ORC).
    pub fn frame(&mut self) -> Option<u64> {
        (self.arch == Arch::Arm64).then(|| self.general(FRAME))
    }

    /// x86: the stack pointer, if it is the kernel's.
    pub fn kernel_stack(&mut self) -> Option<u64> {
        if self.arch != Arch::X86_64 {
            return None;
        }
        let sp = self.stack();
        (sp >> 63 != 0).then_some(sp)
    }

    /// The three arguments of a coverage request.
    pub fn arguments(&mut self) -> [u64; 3] {
        let numbers = match self.arch {
            Arch::Arm64 => [0, 1, 2],
            Arch::X86_64 => X86_ARGUMENTS,
        };
        numbers.map(|n| self.general(n as u8))
    }

    /// PIR_EL1 and PIRE0_EL1, if entries name permissions by them.
    fn permissions(&mut self) -> Option<[u64; 2]> {
        const PIE: u64 = 1 << 1;
        let [tcr2, pir, pire0] = self.permissions?;
        let on = self.read(tcr2) & PIE != 0;
        on.then(|| [self.read(pir), self.read(pire0)])
    }

    /// The registers that translation depends on.
    pub fn mmu(&mut self) -> Mmu {
        let mut v = [0; 5];
        for (i, value) in v.iter_mut().enumerate().take(self.translation.len()) {
            *value = self.read(self.translation[i]);
        }
        let permissions = self.permissions();
        match self.arch {
            Arch::Arm64 => Mmu::Arm64(arm64::Mmu::new(arm64::Regs {
                ttbr0: v[0],
                ttbr1: v[1],
                tcr: v[2],
                sctlr: v[3],
                mair: v[4],
                permissions,
            })),
            Arch::X86_64 => Mmu::X86(x86::Mmu::new(x86::Regs {
                cr0: v[0],
                cr3: v[1],
                cr4: v[2],
                efer: v[3],
            })),
        }
    }

    /// Who runs: PSTATE.EL is bits 3:2, CPL is the low bits of CS.
    pub fn mode(&mut self) -> Mode {
        let value = self.read(self.mode);
        let user = match self.arch {
            Arch::Arm64 => value & 0xc == 0,
            Arch::X86_64 => value & 3 == 3,
        };
        if user { Mode::User } else { Mode::Kernel }
    }
}
