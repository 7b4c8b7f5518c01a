// SPDX-License-Identifier: GPL-2.0-only
//! Which means give program text 2M leaves, on each file system that holds programs: the findings of
//! other checks, in the words of the commands.

use crate::filesystems::{self, Mount};
use crate::kernel::Release;
use crate::trial::Trial;
use crate::{Check, Host};

const THP: &str = "/sys/kernel/mm/transparent_hugepage";

/// Refusals that say nothing of the kernel or the file system.
const PASSING: [&str; 3] = ["EAGAIN", "EBUSY", "ENOMEM"];

/// Whether a means works, as far as that is known.
type Works = Option<bool>;

pub(crate) fn check(host: &Host, release: &Release, trials: &[Trial]) -> Check {
    let check = Check::new(
        "means",
        "means that give program text 2M leaves",
        "which command works depends on the kernel and on the program's file system; \
         docs/results/means.md has what was tried on Debian's kernels",
    );
    if host.read(&format!("{THP}/hpage_pmd_size")).is_none() {
        return check.note("the kernel has no transparent huge pages: none");
    }
    let mounts = filesystems::mounts(host);
    let found = filesystems::of_text(&mounts);
    if found.is_empty() {
        return check.unknown("/proc/self/mounts cannot be read or has no root");
    }
    let copies = copies(host);
    let line = |mount: &&Mount| {
        let fill = fill(release, &mounts, mount);
        let collapse = collapse(trials, mount);
        // It takes the first that works.
        let run = any(&[fill, Some(copies), collapse]);
        format!(
            "{}: fill {}, collapse {}, stage {}, run {}",
            mount.place(),
            word(fill),
            word(collapse),
            word(Some(copies)),
            word(run)
        )
    };
    let lines: Vec<String> = found.iter().map(line).collect();
    check.note(lines.join("; "))
}

/// `fill` reads into folios of the file system, and asks for them by MADV_POPULATE_READ.
fn fill(release: &Release, mounts: &[Mount], mount: &Mount) -> Works {
    match release.at_least(5, 14)? {
        true => filesystems::wide_folios(release, mounts, mount),
        false => Some(false),
    }
}

fn collapse(trials: &[Trial], mount: &Mount) -> Works {
    let place = mount.place();
    let trial = trials.iter().find(|trial| trial.place == place)?;
    match &trial.answer {
        Ok(()) => Some(true),
        // Of this moment: busy pages, no memory.
        Err(why) if PASSING.iter().any(|errno| why.starts_with(errno)) => None,
        Err(_) => Some(false),
    }
}

/// `stage` and `run` copy to a tmpfs mounted huge=always, whose pages are 2M where those of the
/// kernel are 4K.
fn copies(host: &Host) -> bool {
    let pmd = host.read(&format!("{THP}/hpage_pmd_size"));
    let shmem = host.chosen(&format!("{THP}/shmem_enabled"));
    pmd.as_deref() == Some("2097152") && shmem.is_some_and(|choice| choice != "deny")
}

/// One that works is enough; all have to be known not to.
fn any(means: &[Works]) -> Works {
    if means.contains(&Some(true)) {
        return Some(true);
    }
    means.iter().all(Option::is_some).then_some(false)
}

fn word(works: Works) -> &'static str {
    match works {
        Some(true) => "yes",
        Some(false) => "no",
        None => "unknown",
    }
}
