// SPDX-License-Identifier: GPL-2.0-only
//! Makes a distribution's configuration small enough to be built and able to boot in a guest
//! without modules, and says what that changed.
//!
//! Drivers, and modules of other parts, are left out. An option of `mm/`, of the architecture or of
//! a file system that the guest uses stays as it is: what is a module there becomes built-in, and
//! what only a driver selected is selected by a Kconfig file of our own ([`selects`]).

use crate::kconfig::{Home, Homes};
use crate::options::options;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Changes when what is done here changes what comes out.
pub(crate) const RECIPE: &str = "1";

/// Folders of `drivers/` whose built-in options stay: what firmware tells of, buses, interrupts,
/// clocks, consoles, and what hypervisors offer. The guest's machine is made of these.
const PLATFORM: [&str; 28] = [
    "Kconfig",
    "acpi",
    "amba",
    "base",
    "block",
    "char",
    "clocksource",
    "cpufreq",
    "cpuidle",
    "cxl",
    "dax",
    "dma-buf",
    "firmware",
    "hv",
    "iommu",
    "irqchip",
    "nvdimm",
    "of",
    "opp",
    "pci",
    "perf",
    "pnp",
    "ptp",
    "rtc",
    "tty",
    "virt",
    "virtio",
    "xen",
];

/// Options that depend on the compiler and linker, by the beginning of their names.
const OF_COMPILERS: [&str; 5] = [
    "CONFIG_CC_",
    "CONFIG_AS_",
    "CONFIG_LD_",
    "CONFIG_GCC_",
    "CONFIG_RUSTC_",
];

/// Options that need a tool besides: a compiler for 32-bit ARM programs, of which guests have none;
/// a linker that packs relocations.
const NEED_TOOLS: [&str; 3] = [
    "CONFIG_COMPAT_VDSO",
    "CONFIG_THUMB2_COMPAT_VDSO",
    "CONFIG_RELR",
];

/// A distribution's options, and what the guest needs of them.
pub(crate) struct Narrow<'a> {
    homes: &'a Homes,
    theirs: BTreeMap<&'a str, &'a str>,
    needed: BTreeMap<&'a str, &'a str>,
}

/// An option that is not as the distribution has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    name: String,
    theirs: String,
    ours: String,
    /// Where it is defined.
    files: Vec<String>,
    /// Whether it may change what the guest measures.
    forbidden: bool,
}

impl<'a> Narrow<'a> {
    /// Of the distribution's text, and of the fragments with what the guest needs.
    pub(crate) fn new(theirs: &'a str, needed: &[&'a str], homes: &'a Homes) -> Self {
        let needed = needed.iter().flat_map(|text| options(text));
        Self {
            homes,
            theirs: options(theirs),
            needed: needed.collect(),
        }
    }

    /// The text before kconfig completes it; what the guest needs is to be merged into it.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for (&name, &value) in &self.theirs {
            let homes = self.homes.of(name);
            let left_out =
                !homes.is_empty() && homes.iter().all(|home| self.leaves_out(home, value));
            let _ = match (value, left_out) {
                ("n", _) | ("y" | "m", true) => writeln!(text, "# {name} is not set"),
                (_, true) => Ok(()),
                ("m", false) => writeln!(text, "{name}=y"),
                (value, false) => writeln!(text, "{name}={value}"),
            };
        }
        text
    }

    fn leaves_out(&self, home: &Home, value: &str) -> bool {
        let mut parts = home.file.split('/');
        match (parts.next(), parts.next()) {
            (Some("drivers"), Some(below)) => value == "m" || !PLATFORM.contains(&below),
            (Some("sound" | "samples"), _) => true,
            _ => value == "m" && !self.protects(home),
        }
    }

    /// Whether options that are defined there must stay as they are.
    fn protects(&self, home: &Home) -> bool {
        let of_network = |condition: &String| condition.starts_with("NETWORK_FILESYSTEMS");
        let mut parts = home.file.split('/');
        match parts.next() {
            Some("mm") => true,
            // Ciphers are drivers of the crypto API.
            Some("arch") => !parts.any(|part| part == "crypto"),
            Some("fs") => !home.conditions.iter().any(of_network) && self.uses(&home.file),
            _ => false,
        }
    }

    /// Whether the guest has what a Kconfig file below `fs/` is about: all but a file system that
    /// is a module, and that the guest does not need.
    fn uses(&self, file: &str) -> bool {
        let Some(first) = self.homes.first_of(file) else {
            return true;
        };
        self.theirs.get(first) != Some(&"m") || self.needed.get(first) == Some(&"y")
    }

    /// Whether fragments that were asked for state anything that the distribution has otherwise.
    pub(crate) fn is_changed_by(&self, asked: &[&str]) -> bool {
        let asked = asked.iter().flat_map(|text| options(text));
        asked.into_iter().any(|(name, value)| {
            let theirs = self.theirs.get(name).copied().unwrap_or("n");
            theirs != value && (theirs, value) != ("m", "y")
        })
    }

    /// Options that are not as the distribution has them in `ours`, by name.
    pub(crate) fn differences(&self, ours: &str) -> Vec<Difference> {
        let ours = options(ours);
        let mut names: Vec<_> = self.theirs.keys().chain(ours.keys()).copied().collect();
        names.sort_unstable();
        names.dedup();
        names
            .into_iter()
            .filter_map(|name| {
                let theirs = self.theirs.get(name).copied().unwrap_or("n");
                let ours = ours.get(name).copied().unwrap_or("n");
                let homes = self.homes.of(name);
                (theirs != ours && !homes.is_empty()).then(|| Difference {
                    name: name.into(),
                    theirs: theirs.into(),
                    ours: ours.into(),
                    files: homes.iter().map(|home| home.file.clone()).collect(),
                    forbidden: (theirs, ours) != ("m", "y")
                        && !of_tools(name)
                        && homes.iter().any(|home| self.protects(home)),
                })
            })
            .collect()
    }
}

fn of_tools(name: &str) -> bool {
    NEED_TOOLS.contains(&name) || OF_COMPILERS.iter().any(|start| name.starts_with(start))
}

/// The tree's own top Kconfig file, and an option that selects others, named without `CONFIG_`.
pub(crate) fn selects(top: &str, names: &[String]) -> String {
    let mut text = format!("{top}\nconfig WIDELEAF_NARROWED\n\tdef_bool y\n");
    for name in names {
        let _ = writeln!(text, "\tselect {name}");
    }
    text
}

/// Options, without `CONFIG_`, that must stay and are off.
pub(crate) fn lost(differences: &[Difference]) -> Vec<String> {
    let lost = differences.iter().filter(|difference| {
        difference.forbidden
            && difference.ours == "n"
            && ["y", "m"].contains(&&difference.theirs[..])
    });
    lost.map(|difference| difference.name["CONFIG_".len()..].into())
        .collect()
}

/// Those that must not differ, a line each.
pub(crate) fn forbidden(differences: &[Difference]) -> Vec<String> {
    let all = differences.iter().filter(|difference| difference.forbidden);
    all.map(ToString::to_string).collect()
}

/// All differences, a line each, those that must not be first.
pub(crate) fn list(differences: &[Difference]) -> String {
    let line = |forbidden| {
        differences
            .iter()
            .filter(move |difference| difference.forbidden == forbidden)
            .map(|difference| format!("{difference}\n"))
    };
    line(true).chain(line(false)).collect()
}

/// A list of differences in a few lines, for people.
pub(crate) fn summary(list: &str) -> Vec<String> {
    let mut folders: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut built_in, mut others, mut tools) = (Vec::new(), Vec::new(), 0);
    for line in list.lines() {
        let mut words = line.split_whitespace();
        let (Some(name), Some(theirs), Some(_), Some(ours), Some(file)) = (
            words.next(),
            words.next(),
            words.next(),
            words.next(),
            words.next(),
        ) else {
            continue;
        };
        if of_tools(name) {
            tools += 1;
            continue;
        }
        let name = name.trim_start_matches("CONFIG_");
        let folder = file.split('/').next().unwrap_or_default();
        match (theirs, ours, folder) {
            ("m", "y", _) => built_in.push(name),
            (_, _, "drivers" | "net" | "crypto" | "sound") | ("m", "n", _) | (_, "n", "fs") => {
                *folders.entry(folder).or_default() += 1;
            }
            _ => others.push(format!("{name} {theirs} -> {ours}")),
        }
    }
    let folders: Vec<_> = folders
        .iter()
        .map(|(folder, count)| format!("{folder}/ {count}"))
        .collect();
    let mut lines = vec![
        format!("left out by folder: {}", folders.join(", ")),
        format!("modules built in: {}", built_in.join(", ")),
        format!("of compiler and linker: {tools}"),
    ];
    if !others.is_empty() {
        lines.push(format!("other differences: {}", others.join(", ")));
    }
    lines
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            name, theirs, ours, ..
        } = self;
        let (theirs, ours) = (plain(theirs), plain(ours));
        write!(f, "{name} {theirs} -> {ours} {}", self.files.join(" "))
    }
}

/// A value as one word.
fn plain(value: &str) -> String {
    value.replace(' ', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn homes() -> Homes {
        let mut homes = Homes::default();
        for (file, options) in [
            ("mm/Kconfig", "SWAP ZSMALLOC BALLOON"),
            ("arch/arm64/Kconfig", "CONTPTE COMPAT_VDSO NR"),
            ("arch/arm64/crypto/Kconfig", "AES_CE"),
            ("fs/ext4/Kconfig", "EXT4_FS EXT4_ACL"),
            ("fs/nfs/Kconfig", "NFS_FS NFS_V4"),
            ("fs/nls/Kconfig", "NLS NLS_UTF8"),
            ("drivers/virtio/Kconfig", "VIRTIO VIRTIO_BALLOON"),
            ("drivers/gpu/Kconfig", "DRM DRM_SIZE"),
            ("net/Kconfig", "INET TIPC"),
            ("init/Kconfig", "CC_HAS_X"),
        ] {
            let text: String = options
                .split(' ')
                .map(|name| format!("config {name}\n"))
                .collect();
            homes.add(file, &text);
        }
        homes.add(
            "fs/Kconfig",
            "config FS_DAX\nif NETWORK_FILESYSTEMS\nconfig LOCKD\nendif\n",
        );
        homes
    }

    const THEIRS: &str = "\
CONFIG_SWAP=y
CONFIG_ZSMALLOC=m
CONFIG_BALLOON=y
CONFIG_CONTPTE=y
CONFIG_COMPAT_VDSO=y
CONFIG_NR=512
CONFIG_AES_CE=m
CONFIG_EXT4_FS=m
CONFIG_EXT4_ACL=y
CONFIG_NFS_FS=m
CONFIG_NLS=y
CONFIG_NLS_UTF8=m
CONFIG_NFS_V4=y
CONFIG_VIRTIO=y
CONFIG_VIRTIO_BALLOON=m
CONFIG_DRM=y
CONFIG_DRM_SIZE=7
CONFIG_INET=y
CONFIG_TIPC=m
CONFIG_FS_DAX=y
CONFIG_LOCKD=m
";

    const NEEDED: [&str; 1] = ["CONFIG_EXT4_FS=y\n"];

    fn narrowed() -> String {
        Narrow::new(THEIRS, &NEEDED, &homes()).text()
    }

    fn differences(change: &[(&str, &str)]) -> Vec<Difference> {
        let mut ours = narrowed();
        for (from, to) in change {
            assert!(ours.contains(from), "{from}: {ours}");
            ours = ours.replace(from, to);
        }
        Narrow::new(THEIRS, &NEEDED, &homes()).differences(&ours)
    }

    #[test]
    fn drivers_and_modules_go_and_what_the_guest_measures_is_built_in() {
        let text = narrowed();
        for line in [
            "CONFIG_SWAP=y",
            "CONFIG_ZSMALLOC=y",
            "CONFIG_NR=512",
            "CONFIG_EXT4_FS=y",
            "CONFIG_EXT4_ACL=y",
            "CONFIG_VIRTIO=y",
            "CONFIG_INET=y",
            "# CONFIG_AES_CE is not set",
            "# CONFIG_NFS_FS is not set",
            "CONFIG_NLS=y",
            "CONFIG_NLS_UTF8=y",
            "# CONFIG_VIRTIO_BALLOON is not set",
            "# CONFIG_DRM is not set",
            "# CONFIG_TIPC is not set",
            "# CONFIG_LOCKD is not set",
        ] {
            assert!(text.lines().any(|l| l == line), "no '{line}' in:\n{text}");
        }
        assert!(!text.contains("DRM_SIZE"), "{text}");
        assert!(forbidden(&differences(&[])).is_empty());
    }

    #[test]
    fn an_option_of_mm_arch_or_a_used_file_system_must_not_differ() {
        for (from, to, file) in [
            ("CONFIG_SWAP=y", "", "mm/Kconfig"),
            ("CONFIG_ZSMALLOC=y", "", "mm/Kconfig"),
            ("CONFIG_NR=512", "CONFIG_NR=8", "arch/arm64/Kconfig"),
            ("CONFIG_EXT4_ACL=y", "", "fs/ext4/Kconfig"),
            ("CONFIG_FS_DAX=y", "", "fs/Kconfig"),
            ("CONFIG_NLS=y", "", "fs/nls/Kconfig"),
        ] {
            let found = forbidden(&differences(&[(from, to)]));
            assert_eq!(found.len(), 1, "{from}: {found:?}");
            assert!(found[0].ends_with(file), "{found:?}");
        }
        for (from, to) in [
            ("CONFIG_COMPAT_VDSO=y", ""),
            ("CONFIG_NFS_V4=y", ""),
            ("CONFIG_VIRTIO=y", ""),
            ("CONFIG_INET=y", "CONFIG_INET=y\nCONFIG_CC_HAS_X=y"),
        ] {
            let found = differences(&[(from, to)]);
            assert!(forbidden(&found).is_empty(), "{from}: {found:?}");
            assert_eq!(found.len(), differences(&[]).len() + 1, "{from}");
        }
    }

    #[test]
    fn an_option_that_only_a_driver_selected_is_selected_still() {
        let found = differences(&[("CONFIG_BALLOON=y", ""), ("CONFIG_VIRTIO=y", "")]);
        let text = selects("mainmenu \"Linux\"\n", &lost(&found));
        assert!(text.starts_with("mainmenu \"Linux\"\n"), "{text}");
        assert!(text.contains("\tselect BALLOON\n"), "{text}");
        assert!(!text.contains("VIRTIO"), "{text}");
        // A number cannot be selected.
        assert!(lost(&differences(&[("CONFIG_NR=512", "")])).is_empty());
    }

    #[test]
    fn people_are_told_folders_modules_and_each_other_difference() {
        let lines = summary(&list(&differences(&[("CONFIG_SWAP=y", "")])));
        assert!(lines[0].contains("drivers/ 3"), "{lines:?}");
        assert!(lines[1].contains("EXT4_FS"), "{lines:?}");
        assert!(lines[3].contains("SWAP y -> n"), "{lines:?}");
    }
}
