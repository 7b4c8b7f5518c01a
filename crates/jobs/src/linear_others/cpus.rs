// SPDX-License-Identifier: GPL-2.0-only
//! CPUs that go and come back, and some that come for the first time.

use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};

const CPUS: &str = "/sys/devices/system/cpu";

/// A CPU that can be switched off.
#[derive(Debug)]
struct Cpu {
    online: PathBuf,
}

/// What became of CPUs that boot had left out (`maxcpus=`).
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Late {
    /// They run.
    pub came: u64,
    /// The kernel refused them: they lack what all others have.
    pub refused: u64,
}

/// Switches on each CPU that boot left out.
pub fn late() -> Result<Late> {
    late_in(CPUS.as_ref())
}

fn late_in(folder: &Path) -> Result<Late> {
    let mut late = Late::default();
    for cpu in all(folder)? {
        if cpu.is_online()? {
            continue;
        }
        match fs::write(&cpu.online, "1") {
            Ok(()) => late.came += 1,
            Err(_) => late.refused += 1,
        }
    }
    Ok(late)
}

/// Switches each CPU that runs off and on again, one after the other. Returns how many there were;
/// a single one cannot be switched off.
pub fn switch() -> Result<u64> {
    let mut running = all(CPUS.as_ref())?;
    running.retain(|cpu| cpu.is_online().unwrap_or(false));
    if running.len() < 2 {
        return Ok(0);
    }
    for cpu in &running {
        for state in ["0", "1"] {
            let path = cpu.online.display();
            fs::write(&cpu.online, state).with_context(|| format!("{path}: {state}"))?;
        }
    }
    Ok(running.len() as u64)
}

fn all(folder: &Path) -> Result<Vec<Cpu>> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let files = entries.flatten().map(|entry| entry.path().join("online"));
    let mut cpus: Vec<_> = files
        .filter(|online| online.exists())
        .map(|online| Cpu { online })
        .collect();
    ensure!(
        !cpus.is_empty(),
        "{}: no CPU can be switched off",
        folder.display()
    );
    cpus.sort_by(|one, other| one.online.cmp(&other.online));
    Ok(cpus)
}

impl Cpu {
    fn is_online(&self) -> Result<bool> {
        let text = fs::read_to_string(&self.online);
        let text = text.with_context(|| self.online.display().to_string())?;
        Ok(text.trim() == "1")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_boot_left_out_comes_late() {
        let folder = tempfile::tempdir().unwrap();
        assert!(late_in(folder.path()).is_err());
        // On some machines the first CPU has no such file.
        for (name, state) in [("cpu0", None), ("cpu1", Some("1")), ("cpu2", Some("0"))] {
            fs::create_dir(folder.path().join(name)).unwrap();
            if let Some(state) = state {
                fs::write(folder.path().join(name).join("online"), state).unwrap();
            }
        }
        let (came, refused) = (1, 0);
        assert_eq!(late_in(folder.path()).unwrap(), Late { came, refused });
        assert_eq!(late_in(folder.path()).unwrap(), Late::default());
    }
}
