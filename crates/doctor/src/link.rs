// SPDX-License-Identifier: GPL-2.0-only
//! Links a program with a linker's defaults, and judges what came out: what a
//! linker does is not in its help.

use object::write::{Object, StandardSection, Symbol, SymbolSection};
use object::{Architecture, BinaryFormat, Endianness, SymbolFlags, SymbolKind, SymbolScope};
use std::path::Path;
use std::process::{Command, Stdio};
use wideleaf_elf::{Cause, Elf, FileSource, FileVerdict, fix, judge};

/// Code and constants of the program, in bytes: large enough for whole blocks
/// of 2M at any place.
pub(crate) const TEXT: u64 = 5 << 20;
const CONSTANTS: usize = 300_000;

/// What a linker makes of it.
pub(crate) struct Linked {
    /// With its defaults.
    pub cause: Cause,
    /// The flags that inspect would name, as for the compiler driver, and what
    /// comes of them; `None` if nothing is to be repaired.
    pub repaired: Option<(String, Cause)>,
}

/// Links a position-independent program, again with the flags that remove what
/// stands in the way.
///
/// Fails with a message if the linker does.
pub(crate) fn link(program: &str) -> Result<Linked, String> {
    let dir = tempfile::tempdir().map_err(|e| format!("no temporary folder: {e}"))?;
    let input = dir.path().join("program.o");
    let object = object().ok_or("no object file for this machine")?;
    std::fs::write(&input, object).map_err(|e| format!("{}: {e}", input.display()))?;
    let (elf, verdict) = run(program, &[], &input)?;
    let main = verdict.main().ok_or("the linked program has no text")?;
    let fix = fix(&elf, main).and_then(|fix| {
        let mine = fix.flags.iter().find(|(name, _)| *name == elf.linker.name);
        mine.map(|(_, flags)| flags.clone())
    });
    let repaired = fix
        .map(|flags| {
            let options: Vec<&str> = flags
                .split(' ')
                .filter_map(|flag| flag.strip_prefix("-Wl,"))
                .flat_map(|flag| flag.split(','))
                .collect();
            let (_, after) = run(program, &options, &input)?;
            let cause = after.main().map_or(Cause::TooSmall, |v| v.cause);
            Ok::<_, String>((flags.clone(), cause))
        })
        .transpose()?;
    Ok(Linked {
        cause: main.cause,
        repaired,
    })
}

fn run(program: &str, options: &[&str], input: &Path) -> Result<(Elf, FileVerdict), String> {
    let output = input.with_extension("out");
    let result = Command::new(program)
        .args(["-pie", "-dynamic-linker", "/lib/ld.so"])
        .args(options)
        .arg(input)
        .arg("-o")
        .arg(&output)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("{program}: {e}"))?;
    if !result.status.success() {
        let said = String::from_utf8_lossy(&result.stderr);
        return Err(format!(
            "{program}: {}",
            said.lines().next().unwrap_or("failed")
        ));
    }
    let file = std::fs::File::open(&output).map_err(|e| format!("{program}: {e}"))?;
    let source = FileSource::new(file).map_err(|e| format!("{program}: {e}"))?;
    let elf = Elf::read(&source).map_err(|e| format!("{program}: {e}"))?;
    let verdict = judge(&elf);
    Ok((elf, verdict))
}

/// An object file of this machine; `None` for one that is not known.
fn object() -> Option<Vec<u8>> {
    let arch = match std::env::consts::ARCH {
        "x86_64" => Architecture::X86_64,
        "aarch64" => Architecture::Aarch64,
        _ => return None,
    };
    let mut object = Object::new(BinaryFormat::Elf, arch, Endianness::Little);
    let code = object.section_id(StandardSection::Text);
    object.append_section_data(code, &vec![0; TEXT as usize], 16);
    let constants = object.section_id(StandardSection::ReadOnlyData);
    object.append_section_data(constants, &vec![1; CONSTANTS], 16);
    object.add_symbol(Symbol {
        name: b"_start".to_vec(),
        value: 0,
        size: TEXT,
        kind: SymbolKind::Text,
        scope: SymbolScope::Dynamic,
        weak: false,
        section: SymbolSection::Section(code),
        flags: SymbolFlags::None,
    });
    object.write().ok()
}
