// SPDX-License-Identifier: GPL-2.0-only
//! systemd's `MemoryTHP=` (v260), by which it calls prctl(PR_SET_THP_DISABLE) for what it starts.
//!
//! A process for which huge pages are disabled maps no text by a PMD, however wide the page cache
//! holds it. With `madvise` it does (Linux 6.18), and its other memory stays narrow unless it asks.

use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The name of our drop-ins.
pub const DROP_IN: &str = "50-wideleaf.conf";

/// A value of `MemoryTHP=` with which text of files can be wide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryThp {
    /// Huge pages only by MADV_HUGEPAGE, by MADV_COLLAPSE, and where the page cache has them.
    Madvise,
    /// Huge pages as the kernel's own switches say, whatever systemd was started with.
    System,
}

impl MemoryThp {
    /// As the unit has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Madvise => "madvise",
            Self::System => "system",
        }
    }

    /// The drop-in that sets it.
    pub fn drop_in(self) -> String {
        format!(
            "# Written by `wideleaf enable`: docs/tool/keep.md.\n[Service]\nMemoryTHP={}\n",
            self.name()
        )
    }

    /// The value that lets a service's text be wide, if this machine's systemd has the setting and
    /// something stands in the way.
    pub fn that_helps(service: &str) -> Option<Self> {
        let output = Command::new("systemctl")
            .args(["show", "--property=MemoryTHP", "--value", "--", service])
            .stdin(Stdio::null())
            .output()
            .ok()?;
        let manager = std::fs::read_to_string("/proc/1/status").unwrap_or_default();
        Self::instead_of(&String::from_utf8_lossy(&output.stdout), &manager)
    }

    /// By the setting of the unit, empty if systemd does not know it, and by the status of what
    /// starts it.
    fn instead_of(unit: &str, manager: &str) -> Option<Self> {
        let disabled = manager.lines().any(|line| line == "THP_enabled:\t0");
        match unit.trim() {
            // Its memory stays as it was wanted.
            "disable" => Some(Self::Madvise),
            "inherit" if disabled => Some(Self::System),
            _ => None,
        }
    }
}

/// A service as systemctl(1) takes it: `nginx` is `nginx.service`. A name with the suffix of a unit
/// that has a control group stays as it is, as does a path.
pub fn unit(name: &str) -> String {
    let units = [".service", ".scope", ".slice", ".socket", ".mount", ".swap"];
    let is_whole = name.starts_with('/') || units.iter().any(|unit| name.ends_with(unit));
    match is_whole {
        true => name.to_owned(),
        false => format!("{name}.service"),
    }
}

/// Where the drop-in of a service is, below /; none if that is no service's name.
pub fn drop_in_path(service: &str) -> Option<PathBuf> {
    let known = |c: char| c.is_ascii_alphanumeric() || ":-_.\\@".contains(c);
    let stem = service.strip_suffix(".service")?;
    let sound = !stem.is_empty() && service.len() < 256 && service.chars().all(known);
    sound.then(|| format!("etc/systemd/system/{service}.d/{DROP_IN}").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_disables_huge_pages_is_overridden_and_nothing_else() {
        let (on, off) = ("Name:\tsystemd\nTHP_enabled:\t1\n", "THP_enabled:\t0\n");
        for (unit, manager, value) in [
            ("disable\n", on, Some(MemoryThp::Madvise)),
            ("disable\n", off, Some(MemoryThp::Madvise)),
            ("inherit\n", off, Some(MemoryThp::System)),
            ("inherit\n", on, None),
            ("madvise\n", off, None),
            ("system\n", off, None),
            // systemd before v260.
            ("\n", off, None),
            ("", on, None),
        ] {
            assert_eq!(
                MemoryThp::instead_of(unit, manager),
                value,
                "{unit}{manager}"
            );
        }
    }

    #[test]
    fn a_service_may_be_named_without_its_suffix() {
        assert_eq!(unit("nginx"), "nginx.service");
        assert_eq!(unit("php8.4-fpm"), "php8.4-fpm.service");
        for whole in ["a@b.service", "user.slice", "/system.slice/x", "x.scope"] {
            assert_eq!(unit(whole), whole);
        }
    }

    #[test]
    fn only_services_have_drop_ins() {
        let path = drop_in_path("a@b.service").unwrap();
        assert!(path.ends_with("system/a@b.service.d/50-wideleaf.conf"));
        for name in ["a", ".service", "../x.service", "/system.slice/a.service"] {
            assert_eq!(drop_in_path(name), None, "{name}");
        }
    }
}
