// SPDX-License-Identifier: GPL-2.0-only
//! Reads traces as Casemate's manual describes them ("Trace format"), fields
//! by name, and tells the referee of them.
//!
//! The regime is taken for EL1&0: `ttbr0_el2` and, where a trace asks for
//! nothing of stage 2, `vttbr_el2` name the tables, their bits 63:48 the ASID.
//! Casemate counts identifiers from 0. ASID 0 is Linux' own for tables that
//! come and go, so they count from 1 here. Access flags are hardware's
//! (TCR_EL1.HA), as Casemate knows none. Locks are nothing that a TLB knows.

use std::collections::{HashMap, HashSet};
use wideleaf_tlb::arm64::{self, Mmu as Arm64};
use wideleaf_tlb::mmu::Mmu;
use wideleaf_tlb::referee::{At, Dsb, Flush, Referee, Regime};
use wideleaf_tlb::tlb::Invalidate;
use wideleaf_tlb::walk::PhysMem;

/// What is found in a trace, by name; `freed` is memory that a TLB may still
/// walk when it is given away.
pub fn judge(text: &str) -> Result<Vec<String>, String> {
    let mut world = World::default();
    for line in text.lines().map(str::trim) {
        if line.starts_with('(') {
            world
                .step(&Record::parse(line)?)
                .map_err(|e| format!("{e}: {line}"))?;
        }
    }
    let findings = world.referee.findings();
    let mut names: Vec<String> = findings.list.iter().map(|f| f.kind.name().into()).collect();
    names.extend(world.freed.then(|| "freed".to_owned()));
    Ok(names)
}

/// One line: its name, what stands without a name (`isb`, `vae2is`), and the
/// fields.
struct Record<'a> {
    name: &'a str,
    words: Vec<&'a str>,
    fields: HashMap<&'a str, &'a str>,
}

impl<'a> Record<'a> {
    /// Fields have no fields of their own, so parentheses part them.
    fn parse(line: &'a str) -> Result<Self, String> {
        let inner = line.strip_prefix('(').and_then(|l| l.strip_suffix(')'));
        let inner = inner.ok_or_else(|| format!("no record in parentheses: {line}"))?;
        let mut record = Record {
            name: "",
            words: Vec::new(),
            fields: HashMap::new(),
        };
        for part in inner.split(['(', ')']).map(str::trim).enumerate() {
            match part {
                // Outside of parentheses.
                (i, text) if i % 2 == 0 => record.words.extend(text.split_whitespace()),
                (_, text) => {
                    let field = text.split_once(char::is_whitespace);
                    let (key, value) =
                        field.ok_or_else(|| format!("a field without value: {line}"))?;
                    record.fields.insert(key, value.trim());
                }
            }
        }
        if record.words.is_empty() {
            return Err(format!("a record without name: {line}"));
        }
        record.name = record.words.remove(0);
        Ok(record)
    }

    fn text(&self, field: &str) -> Result<&'a str, String> {
        let found = self.fields.get(field).copied();
        found.ok_or_else(|| format!("no field {field}"))
    }

    /// Numbers are hexadecimal, with or without `0x`.
    fn number(&self, field: &str) -> Result<u64, String> {
        let text = self.text(field)?;
        let digits = text.strip_prefix("0x").unwrap_or(text);
        u64::from_str_radix(digits, 16).map_err(|e| format!("{field} {text}: {e}"))
    }
}

#[derive(Default)]
struct Memory {
    words: HashMap<u64, u64>,
    known: HashSet<u64>,
}

impl PhysMem for Memory {
    fn read_u64(&self, pa: u64) -> Option<u64> {
        let known = self.known.contains(&(pa >> 12));
        known.then(|| self.words.get(&pa).copied().unwrap_or(0))
    }
}

struct World {
    referee: Referee,
    memory: Memory,
    /// Where each page of the trace's lies: examples run as programs, whose
    /// addresses are larger than any machine's memory.
    pages: HashMap<u64, u64>,
    /// TTBR0 of each CPU, as the trace wrote it.
    roots: HashMap<usize, u64>,
    on: bool,
    pc: u64,
    freed: bool,
}

impl Default for World {
    fn default() -> Self {
        World {
            referee: Referee::new(8, Regime::arm64(0)),
            memory: Memory::default(),
            pages: HashMap::new(),
            roots: HashMap::new(),
            on: true,
            pc: 0,
            freed: false,
        }
    }
}

const PAGE: u64 = 0x1000;
const ADDRESS: u64 = 0x0000_ffff_ffff_f000;
/// 48-bit addresses, 4K granule, upper half off, 48-bit output, 16-bit ASIDs,
/// hardware sets access flags.
const TCR: u64 = 16 | 1 << 23 | 5 << 32 | 1 << 36 | 1 << 39;

impl World {
    /// A word with the address in it put where the page lies here.
    fn place(&self, word: u64) -> u64 {
        match self.pages.get(&(word & ADDRESS)) {
            Some(page) => word & !ADDRESS | page,
            None => word,
        }
    }

    fn at(&mut self, cpu: usize) -> At {
        self.pc += 4;
        At {
            cpu,
            pc: self.pc,
            task: cpu as u64,
            ..At::default()
        }
    }

    fn step(&mut self, r: &Record) -> Result<(), String> {
        let cpu: usize = r.text("tid")?.parse().map_err(|e| format!("tid: {e}"))?;
        if cpu >= 8 {
            return Err(format!("tid {cpu}: at most 8 threads"));
        }
        match r.name {
            "mem-init" => self.init(r.number("address")?, r.number("size")?),
            "mem-free" => self.release(r.number("address")?),
            "mem-write" => {
                let (pa, value) = (r.number("address")?, r.number("value")?);
                self.write(cpu, pa, value);
            }
            "mem-set" => {
                let (pa, len) = (r.number("address")?, r.number("size")?);
                let value = r.number("value")? * 0x0101_0101_0101_0101;
                (pa..pa + len)
                    .step_by(8)
                    .for_each(|pa| self.write(cpu, pa, value));
            }
            "mem-read" => {
                let pa = self.place(r.number("address")?);
                self.referee.loaded(cpu, pa);
            }
            "barrier" => self.barrier(cpu, r)?,
            "tlbi" => self.tlbi(cpu, r)?,
            "sysreg-write" | "msr" => self.register(cpu, r)?,
            "hint" if r.text("kind")? == "release_table" => self.release(r.number("location")?),
            "hint" | "lock" | "trylock" | "unlock" => {}
            other => return Err(format!("record {other:?} is not known")),
        }
        Ok(())
    }

    fn init(&mut self, start: u64, len: u64) {
        for page in (start & ADDRESS..start + len).step_by(PAGE as usize) {
            let next = 0x10_0000 + self.pages.len() as u64 * PAGE;
            let here = *self.pages.entry(page).or_insert(next);
            self.memory.known.insert(here >> 12);
        }
    }

    /// The memory's owner gives it away: a TLB must not walk it any more.
    fn release(&mut self, pa: u64) {
        self.freed |= self.referee.is_walked(self.place(pa));
    }

    fn write(&mut self, cpu: usize, pa: u64, value: u64) {
        let pa = self.place(pa & ADDRESS) | pa & (PAGE - 1);
        let value = self.place(value);
        self.memory.words.insert(pa, value);
        let at = self.at(cpu);
        if self.referee.is_table(pa) {
            self.referee.stored(at, pa, 8, &self.memory);
        }
    }

    fn barrier(&mut self, cpu: usize, r: &Record) -> Result<(), String> {
        match r.words[..] {
            ["isb"] => self.referee.synchronise(cpu),
            ["dsb"] => {
                let kind = r.text("kind")?;
                let dsb = Dsb {
                    full: !kind.ends_with("st"),
                    stores: true,
                    shareable: !kind.starts_with("nsh"),
                };
                let at = self.at(cpu);
                self.referee.dsb(at, dsb);
            }
            _ => return Err("neither isb nor dsb".into()),
        }
        Ok(())
    }

    fn tlbi(&mut self, cpu: usize, r: &Record) -> Result<(), String> {
        let [name] = r.words[..] else {
            return Err("not one name of a TLBI".into());
        };
        let kind = name.strip_suffix("is").unwrap_or(name);
        let (what, level) = match kind {
            "vmalle1" | "alle1" | "alle2" | "vmalls12e1" => (Invalidate::All, None),
            "vae2" | "vale2" | "vae1" | "vale1" => {
                let value = r.number("value")?;
                // The TTL hint: of 4K tables from 4 on.
                let ttl = value >> 44 & 15;
                let va = (value & 0xfff_ffff_ffff) << 12;
                let level = (ttl >= 4).then_some((ttl & 3) as i8);
                (Invalidate::va(va, None), level)
            }
            other => return Err(format!("TLBI {other} is not of stage 1")),
        };
        let flush = Flush {
            what,
            leaves_only: kind.starts_with("vale"),
            level,
            broadcast: name != kind,
        };
        self.referee.flush(cpu, &flush);
        Ok(())
    }

    fn register(&mut self, cpu: usize, r: &Record) -> Result<(), String> {
        let value = r.number("value")?;
        match r.text("sysreg")? {
            "ttbr0_el2" | "vttbr_el2" => {
                self.roots.insert(cpu, self.place(value) + (1 << 48));
            }
            "sctlr_el2" | "hcr_el2" => self.on = value & 1 != 0,
            // What every example sets them to is in TCR.
            "tcr_el2" | "vtcr_el2" | "mair_el2" => return Ok(()),
            other => return Err(format!("register {other} is not known")),
        }
        if let Some(&ttbr0) = self.roots.get(&cpu) {
            let at = self.at(cpu);
            let mmu = Mmu::Arm64(Arm64::new(arm64::Regs {
                ttbr0,
                ttbr1: 0,
                tcr: TCR,
                sctlr: u64::from(self.on),
                mair: 0xff,
                permissions: None,
            }));
            self.referee.set_registers(at, mmu, &self.memory);
        }
        Ok(())
    }
}
