// SPDX-License-Identifier: GPL-2.0-only
//! The plugin's arguments.

use anyhow::{Result, anyhow, bail};
use std::path::PathBuf;
use wideleaf_kit::arch::Arch;
use wideleaf_tlb::profile::Profile;
use wideleaf_tlb::variant::{Variant, chosen};

/// Arguments, checked.
#[derive(Debug)]
pub struct Args {
    /// CPU to model.
    pub profile: &'static Profile,
    /// File behind the guest's RAM.
    pub ram: PathBuf,
    /// Guest physical address of the RAM file's first byte.
    pub ram_base: u64,
    /// Where the report goes.
    pub out: PathBuf,
    /// Whether the referee looks on.
    pub referee: Referee,
    /// Level of FEAT_BBM that the CPUs promise without conflict aborts, 0 to 2.
    pub bbm: u8,
    /// Whether the CPUs promise FEAT_ETS2.
    pub ets2: bool,
    /// Whether vCPUs run in turn in one thread, if there are several.
    pub turns: bool,
    /// Variants of the profile that count the same accesses.
    pub sweep: Vec<Variant>,
}

/// Whether the referee looks on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Referee {
    /// It does not.
    Off,
    /// It does, for a kernel.
    On,
    /// It reports each access that could be stale, and at once: for litmus
    /// tests.
    Strict,
}

const USAGE: &str = "known arguments are profile=NAME, ram=FILE, out=FILE, and optional ram_base=ADDRESS, referee=on or referee=strict, bbm=LEVEL, ets2=on, turns=on, sweep=all or sweep=NAME+NAME";

/// Parses `args`, of the form `name=value`.
///
/// # Errors
///
/// A sentence that names the argument, its value and what would be right.
pub fn parse<'a>(arch: Arch, args: impl Iterator<Item = &'a str>) -> Result<Args> {
    let (mut profile, mut ram, mut out) = (None, None, None);
    let (mut referee, mut turns, mut bbm, mut ets2) = (Referee::Off, false, None, false);
    let mut sweep = Vec::new();
    let mut ram_base = match arch {
        Arch::Arm64 => 0x4000_0000,
        Arch::X86_64 => 0,
    };
    for arg in args {
        let Some((name, value)) = arg.split_once('=') else {
            bail!("argument {arg:?} has no value; {USAGE}");
        };
        match name {
            "profile" => profile = Some(profile_for(arch, value)?),
            "ram" => ram = Some(PathBuf::from(value)),
            "out" => out = Some(PathBuf::from(value)),
            "ram_base" => ram_base = address(value)?,
            "referee" => referee = referee_of(value)?,
            "bbm" => bbm = Some(level(value)?),
            "ets2" => ets2 = on_or_off(name, value)?,
            "turns" => turns = on_or_off(name, value)?,
            "sweep" => sweep = value.split('+').collect(),
            _ => bail!("argument {name:?} is not known; {USAGE}"),
        }
    }
    let missing = |name| anyhow!("argument {name}= is missing; {USAGE}");
    let profile = profile.ok_or_else(|| {
        let names = Profile::names(arch).join(", ");
        anyhow!("{}; profiles for {arch}: {names}", missing("profile"))
    })?;
    let sweep = chosen(profile, &sweep).map_err(|why| anyhow!("sweep=: {why}"))?;
    Ok(Args {
        profile,
        bbm: bbm.unwrap_or(profile.bbm),
        ets2,
        ram: ram.ok_or_else(|| missing("ram"))?,
        ram_base,
        out: out.ok_or_else(|| missing("out"))?,
        referee,
        turns,
        sweep,
    })
}

fn referee_of(value: &str) -> Result<Referee> {
    match value {
        "off" => Ok(Referee::Off),
        "on" => Ok(Referee::On),
        "strict" => Ok(Referee::Strict),
        _ => Err(anyhow!("referee={value}: expected on, off or strict")),
    }
}

fn level(value: &str) -> Result<u8> {
    match value {
        "0" => Ok(0),
        "1" => Ok(1),
        "2" => Ok(2),
        _ => Err(anyhow!("bbm={value}: expected 0, 1 or 2")),
    }
}

fn on_or_off(name: &str, value: &str) -> Result<bool> {
    match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(anyhow!("{name}={value}: expected on or off")),
    }
}

fn profile_for(arch: Arch, name: &str) -> Result<&'static Profile> {
    let profile = Profile::by_name(name).map_err(|e| anyhow!("profile={name}: {e}"))?;
    if profile.arch != arch {
        let names = Profile::names(arch).join(", ");
        bail!(
            "profile={name} is for {}, the guest is {arch}; profiles for it: {names}",
            profile.arch
        );
    }
    Ok(profile)
}

fn address(value: &str) -> Result<u64> {
    let parsed = match value.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => value.parse(),
    };
    parsed.map_err(|e| anyhow!("ram_base={value}: {e}; expected a number such as 0x40000000"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(arch: Arch, args: &[&str]) -> String {
        parse(arch, args.iter().copied()).unwrap_err().to_string()
    }

    #[test]
    fn defaults_follow_the_architecture() {
        let args = ["profile=zen4", "ram=/tmp/ram", "out=/tmp/o.json"];
        let got = parse(Arch::X86_64, args.into_iter()).unwrap();
        assert_eq!((got.profile.name, got.ram_base), ("zen4", 0));
        let args = [
            "profile=cortex-a53",
            "ram=a",
            "out=b",
            "ram_base=0x80000000",
        ];
        let got = parse(Arch::Arm64, args.into_iter()).unwrap();
        assert_eq!((got.ram_base, got.bbm, got.ets2), (0x8000_0000, 0, false));
        // What the guest's CPUs say of themselves counts, not what the modelled one does.
        let asked = args.into_iter().chain(["bbm=2", "ets2=on"]);
        let got = parse(Arch::Arm64, asked).unwrap();
        assert_eq!((got.bbm, got.ets2), (2, true));
    }

    #[test]
    fn errors_name_the_value_and_what_would_be_right() {
        let e = error(Arch::Arm64, &["profile=m1"]);
        assert!(e.contains("\"m1\"") && e.contains("neoverse-v2"), "{e}");
        let e = error(Arch::Arm64, &["profile=zen4"]);
        assert!(e.contains("x86_64") && e.contains("cortex-a53"), "{e}");
        let e = error(Arch::X86_64, &["ram=x", "out=y"]);
        assert!(
            e.contains("profile=") && e.contains("sapphire-rapids"),
            "{e}"
        );
        let e = error(Arch::Arm64, &["profile=neoverse-n1", "out=y"]);
        assert!(e.contains("ram= is missing"), "{e}");
        let e = error(Arch::Arm64, &["ram_base=4G"]);
        assert!(e.contains("ram_base=4G") && e.contains("0x40000000"), "{e}");
        let e = error(Arch::Arm64, &["speed=11"]);
        assert!(e.contains("speed") && e.contains("ram_base="), "{e}");
        let e = error(Arch::Arm64, &["referee=yes"]);
        assert!(
            e.contains("referee=yes") && e.contains("on, off or strict"),
            "{e}"
        );
        let e = error(Arch::Arm64, &["bbm=3"]);
        assert!(e.contains("bbm=3") && e.contains("0, 1 or 2"), "{e}");
        let e = error(Arch::Arm64, &["ets2=1"]);
        assert!(e.contains("ets2=1") && e.contains("on or off"), "{e}");
        let e = error(Arch::Arm64, &["turns=yes"]);
        assert!(e.contains("turns=yes") && e.contains("on or off"), "{e}");
        let needed = ["profile=neoverse-v2", "ram=x", "out=y"];
        let e = error(Arch::Arm64, &[&needed[..], &["sweep=random+no"]].concat());
        assert!(e.contains("no variant no: it has tree-plru"), "{e}");
        let e = error(Arch::Arm64, &["fast"]);
        assert!(e.contains("\"fast\""), "{e}");
    }
}
