// SPDX-License-Identifier: GPL-2.0-only
//! The CPU profiles as the lab's user names them.

use wideleaf_kbuild::Arch;
use wideleaf_tlb::profile::{PROFILES, Profile};

/// The profile used unless another is asked for.
pub const fn default_profile(arch: Arch) -> &'static str {
    match arch {
        Arch::Arm64 => "neoverse-v2",
        Arch::X86_64 => "zen4",
    }
}

/// All names.
pub fn names() -> Vec<&'static str> {
    PROFILES.iter().map(|profile| profile.name).collect()
}

/// The names of an architecture's.
pub fn of(arch: Arch) -> Vec<&'static str> {
    Profile::names(arch)
}

/// Whether `name` is a CPU of this architecture.
pub fn fits(name: &str, arch: Arch) -> bool {
    Profile::by_name(name).is_ok_and(|profile| profile.arch == arch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_default_fits_its_architecture_and_no_other() {
        assert!(fits(default_profile(Arch::Arm64), Arch::Arm64));
        assert!(fits(default_profile(Arch::X86_64), Arch::X86_64));
        assert!(!fits(default_profile(Arch::X86_64), Arch::Arm64));
        assert!(!fits("no such", Arch::Arm64));
    }
}
