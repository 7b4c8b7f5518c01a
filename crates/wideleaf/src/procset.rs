// SPDX-License-Identifier: GPL-2.0-only
//! The command line that `ps`, `top`, `metrics` and `collapse` share: the options that
//! choose a CPU and processes, and the CPU in words.

use crate::stdout::printable_path;
use crate::usage::{Usage, misuse};
use anyhow::{Result, anyhow};
use std::fs;
use std::path::{Path, PathBuf};
use wideleaf_containers::{Containers, Wanted};
use wideleaf_kit::size::short;
use wideleaf_procmap::{Select, Within};
pub use wideleaf_procset::{Machinery, Pressure, Seen};

/// Options that say what the leaves are measured against.
#[derive(clap::Args, Clone, Debug)]
pub struct MachineArgs {
    /// Count for this CPU instead of the one at hand: a name (an unknown one
    /// lists all) or the sizes that it coalesces, like 16K,32K or none
    #[arg(long, value_name = "CPU")]
    pub cpu: Option<String>,
    /// Where the proc file system to look at is mounted
    #[arg(
        long,
        value_name = "DIR",
        default_value = "/proc",
        hide_short_help = true
    )]
    pub proc: PathBuf,
}

impl MachineArgs {
    /// The choice that they make.
    ///
    /// # Errors
    ///
    /// If there is no such CPU, or no such folder.
    pub fn machinery(&self) -> Result<Machinery> {
        if !self.proc.is_dir() {
            misuse!(
                "--proc {}: no such folder: name a mounted proc",
                printable_path(&self.proc)
            );
        }
        let machine = Machinery::new(&self.proc, self.cpu.as_deref());
        Ok(machine.map_err(|error| Usage(error.to_string()))?)
    }
}

/// Options that choose processes.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Choice {
    /// Only processes in this control group or below it, as a path in
    /// /sys/fs/cgroup or as /proc/PID/cgroup shows it
    #[arg(long, value_name = "PATH")]
    pub cgroup: Option<String>,
    /// Only processes whose command or executable has this name; `*` stands
    /// for any characters
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Only processes in containers of this pod, by its name or as NAMESPACE/POD
    #[arg(long, value_name = "POD")]
    pub pod: Option<String>,
    /// Only processes in this container, by its name or the beginning of its id
    #[arg(long, value_name = "NAME")]
    pub container: Option<String>,
}

/// The option that chooses processes by what they were made from.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Image {
    /// Only processes in containers of this image, as `node:22` or by its whole name
    #[arg(long, value_name = "NAME")]
    pub image: Option<String>,
}

/// Where runtimes keep what they know.
const ROOT: &str = "/";

/// Where control groups are mounted.
const GROUPS: &str = "/sys/fs/cgroup";

impl Choice {
    /// Whether it chooses any.
    pub fn any(&self) -> bool {
        let given = [&self.cgroup, &self.name, &self.pod, &self.container];
        given.iter().any(|given| given.is_some())
    }

    /// As the reader wants it; of containers of `image`, if one is given.
    ///
    /// # Errors
    ///
    /// If no container is known by such a name.
    pub fn select(&self, image: Option<&str>) -> Result<Select> {
        let mut select = wideleaf_procset::select(self.name.as_deref(), self.cgroup.as_deref());
        let wanted = Wanted {
            pod: self.pod.clone(),
            container: self.container.clone(),
            image: image.map(str::to_owned),
        };
        if wanted.any() {
            let known = containers();
            if let Err(error) = known.check(&wanted) {
                // A runtime that could not be asked may be the reason.
                let why = known.errors.iter().map(|error| format!("; {error}"));
                return Err(anyhow!("{error}{}", why.collect::<String>()));
            }
            select.within = Some(Within::new(known.takes(wanted, ROOT.into())));
        }
        Ok(select)
    }

    /// Why a pass has found no process, for a human; of containers of `image`, if one is given.
    pub fn unmatched(&self, image: Option<&str>, seen: &Seen) -> String {
        if let Some(given) = self.cgroup.as_deref().filter(|given| is_no_group(given)) {
            return format!("--cgroup {given}: there is no such control group below {GROUPS}");
        }
        let options = self.options(image);
        let hidden = !seen.denied.is_empty() || !seen.failed.is_empty();
        match () {
            () if seen.processes > 0 => "no process that matched has text".to_owned(),
            () if options.is_empty() => "no process could be read".to_owned(),
            () if hidden => format!("no process that can be read matched {options}"),
            () => format!("no process matched {options}: `wideleaf ps` lists all"),
        }
    }

    /// As it was given.
    fn options(&self, image: Option<&str>) -> String {
        let given = [
            ("--name", self.name.as_deref()),
            ("--cgroup", self.cgroup.as_deref()),
            ("--pod", self.pod.as_deref()),
            ("--container", self.container.as_deref()),
            ("--image", image),
        ];
        let given = given
            .into_iter()
            .filter_map(|(option, value)| Some(format!("{option} {}", value?)));
        given.collect::<Vec<_>>().join(" ")
    }
}

/// Whether no control group has this path, as `--cgroup` takes it. Where none are mounted that
/// cannot be told.
pub fn is_no_group(given: &str) -> bool {
    let select = wideleaf_procset::select(None, Some(given));
    select
        .cgroup
        .is_some_and(|path| lacks(Path::new(GROUPS), &path))
}

/// Whether control groups are mounted at `root`, and none of them has this path.
fn lacks(root: &Path, path: &str) -> bool {
    let mut hierarchies = vec![root.to_owned()];
    // v1 has a folder for each hierarchy.
    if !root.join("cgroup.controllers").exists() {
        let entries = fs::read_dir(root).into_iter().flatten().flatten();
        hierarchies = entries.map(|entry| entry.path()).collect();
    }
    let path = path.trim_start_matches('/');
    let mut groups = hierarchies.iter().map(|root| root.join(path));
    !hierarchies.is_empty() && !groups.any(|group| group.is_dir())
}

/// The containers of this machine.
pub fn containers() -> Containers {
    Containers::look(Path::new(ROOT))
}

/// The CPU and leaves of the figures, in three lines for a human.
pub fn describe(machine: &Machinery) -> String {
    let cpu = &machine.cpu;
    let sizes: Vec<String> = machine.leaves().iter().map(|s| short(*s)).collect();
    let tlb = cpu.tlb.as_ref().map_or_else(
        || "TLB sizes are unknown for this CPU".to_owned(),
        |tlb| {
            let last = tlb.last_level().unwrap_or(1);
            let second = if last > 1 {
                format!(" and {} (level {last})", tlb.entries(last))
            } else {
                String::new()
            };
            format!(
                "TLB entries for instructions: {} (level 1){second}; from {}",
                tlb.entries(1),
                tlb.source
            )
        },
    );
    format!(
        "CPU: {} ({})\nleaves: {}; {}\n{tlb}",
        cpu.name,
        cpu.origin,
        sizes.join(", "),
        cpu.coalesce.why
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_missing_only_where_groups_are_mounted() {
        let (v2, v1, none) = (folder(), folder(), folder());
        fs::write(v2.path().join("cgroup.controllers"), "cpu").unwrap();
        fs::create_dir_all(v2.path().join("a.slice/x.service")).unwrap();
        fs::create_dir_all(v1.path().join("memory/a.slice")).unwrap();
        for (root, path, missing) in [
            (&v2, "/", false),
            (&v2, "/a.slice/x.service", false),
            (&v2, "/x.service", true),
            (&v1, "/a.slice", false),
            (&v1, "a.slice", false),
            (&v1, "/memory", true),
            (&none, "/a.slice", false),
        ] {
            assert_eq!(lacks(root.path(), path), missing, "{path}");
        }
    }

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    #[test]
    fn processes_that_were_not_found_are_said_to_be_so_with_the_options() {
        let by_name = Choice {
            name: Some("x".into()),
            container: Some("web".into()),
            ..Choice::default()
        };
        let denied = Seen {
            denied: vec![1],
            ..Seen::default()
        };
        let without_text = Seen {
            processes: 1,
            ..Seen::default()
        };
        for (choice, image, seen, said) in [
            (
                &by_name,
                None,
                &Seen::default(),
                "no process matched --name x --container web: `wideleaf ps` lists all",
            ),
            (
                &by_name,
                Some("node"),
                &denied,
                "no process that can be read matched --name x --container web --image node",
            ),
            (
                &by_name,
                None,
                &without_text,
                "no process that matched has text",
            ),
            (
                &Choice::default(),
                None,
                &denied,
                "no process could be read",
            ),
        ] {
            assert_eq!(choice.unmatched(image, seen), said);
        }
    }
}
