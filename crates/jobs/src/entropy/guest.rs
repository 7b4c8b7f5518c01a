// SPDX-License-Identifier: GPL-2.0-only
//! Where programs and libraries come to lie, over many loads.

use super::{Case, NAME, Report, Spread, Task};
use anyhow::{Context, Result, ensure};
use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use wideleaf_guest::kit::spawn;
use wideleaf_guest::place::Place;
use wideleaf_guest::port::Port;
use wideleaf_guest::protocol::Message;
use wideleaf_guest::work::Work;

/// How many bits of an address mmap() draws at random.
const RANDOM_BITS: &str = "/proc/sys/vm/mmap_rnd_bits";

/// The job's guest side.
pub struct Entropy;

/// The registry's entry.
pub const WORK: Entropy = Entropy;

impl Work for Entropy {
    const NAME: &'static str = NAME;
    type Task = Task;
    type Report = Report;

    fn run(&self, task: &Task, _: &Place<'_>, port: &Port) -> Result<Report> {
        let bits = task.random_bits;
        fs::write(RANDOM_BITS, bits.to_string())
            .with_context(|| format!("{RANDOM_BITS} does not take {bits}"))?;
        let spreads = job(&task.root, task.loads, &task.cases, port)?;
        Ok(Report { spreads })
    }
}

/// Loads each case that often.
fn job(root: &str, loads: u32, cases: &[Case], port: &Port) -> Result<Vec<Spread>> {
    let mut spreads = Vec::new();
    for case in cases {
        let text = format!("loading {}", case.name);
        port.send(&Message::Progress { text })?;
        let addresses: Vec<u64> = (0..loads)
            .map(|_| load(root, case))
            .collect::<Result<_>>()
            .with_context(|| case.name.clone())?;
        spreads.push(spread(&case.name, &addresses));
    }
    Ok(spreads)
}

/// One load: the address that it tells.
fn load(root: &str, case: &Case) -> Result<u64> {
    let mut command = spawn::command(root, &case.command, &case.env)?;
    command.stdout(Stdio::piped());
    take(&mut command, case.persona, case.word)
}

fn take(command: &mut Command, persona: u32, word: usize) -> Result<u64> {
    if persona != 0 {
        // SAFETY: personality is a plain system call.
        unsafe {
            command.pre_exec(move || {
                libc::personality(persona.into());
                Ok(())
            });
        }
    }
    let mut child = command.spawn()?;
    let mut said = Vec::new();
    let mut pipe = child.stdout.take().context("no pipe")?;
    pipe.read_to_end(&mut said)?;
    let (status, _) = spawn::wait(&child)?;
    ensure!(status == 0, "it ended with wait status {status:#x}");
    let address = said.chunks_exact(8).nth(word);
    let address: [u8; 8] = address
        .with_context(|| format!("it wrote {} bytes", said.len()))?
        .try_into()?;
    Ok(u64::from_le_bytes(address))
}

fn spread(name: &str, addresses: &[u64]) -> Spread {
    let first = addresses.first().copied().unwrap_or_default();
    Spread {
        name: name.into(),
        loads: addresses.len() as u32,
        varying: addresses.iter().fold(0, |bits, a| bits | (a ^ first)),
        min: addresses.iter().copied().min().unwrap_or_default(),
        max: addresses.iter().copied().max().unwrap_or_default(),
        distinct: addresses.iter().collect::<BTreeSet<_>>().len() as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_that_differ_anywhere_vary() {
        let spread = spread("x", &[0x7000_1000, 0x7000_3000, 0x7004_1000]);
        assert_eq!(spread.varying, 0x4_2000);
        assert_eq!((spread.min, spread.max), (0x7000_1000, 0x7004_1000));
        assert_eq!((spread.loads, spread.distinct), (3, 3));
    }

    #[test]
    fn the_word_that_is_asked_for_is_read() {
        let mut command = Command::new("printf");
        command.args(["aaaaaaaa\\001\\000\\000\\000\\000\\000\\000\\000"]);
        command.stdout(Stdio::piped());
        assert_eq!(take(&mut command, 0, 1).unwrap(), 1);
        let error = take(&mut command, 0, 2).unwrap_err().to_string();
        assert!(error.contains("16 bytes"), "{error}");
    }
}
