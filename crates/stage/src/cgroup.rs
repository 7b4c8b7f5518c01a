// SPDX-License-Identifier: GPL-2.0-only
//! A control group that the copies are charged to: pages of a tmpfs belong to
//! the group of the process that wrote them, also after that has left.

use crate::Error;
use crate::mounts::{self, Mount};
use procfs::process::Process;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// With the device and the inode number of the folder whose copies are charged to it: a container
/// has a /run/wideleaf of its own.
const NAME: &str = "wideleaf-stage";

/// This process, moved into the group until this value goes.
pub(crate) struct Inside {
    back: PathBuf,
}

impl Drop for Inside {
    fn drop(&mut self) {
        // Fails only if the group that it came from is gone.
        let _ = fs::write(self.back.join("cgroup.procs"), "0");
    }
}

/// Where memory is controlled: the hierarchy's root, its limit's file, and this process's group.
struct Hierarchy {
    root: PathBuf,
    limit: &'static str,
    mine: PathBuf,
}

fn hierarchy() -> Result<Hierarchy, Error> {
    let wrong = |error: procfs::ProcError| Error::Cgroup(error.to_string());
    let me = Process::myself().map_err(wrong)?;
    let mounts = mounts::all()?;
    let groups = me.cgroups().map_err(wrong)?.0;
    let memory = |m: &Mount| {
        m.options
            .as_bytes()
            .split(|b| *b == b',')
            .any(|o| o == b"memory")
    };
    let v1 = |m: &&Mount| m.kind == "cgroup" && memory(m);
    let v2 = |m: &&Mount| m.kind == "cgroup2" && has_memory(&m.point);
    let (mount, limit, group) = match (mounts.iter().find(v2), mounts.iter().find(v1)) {
        (Some(mount), _) => (
            mount,
            "memory.max",
            groups.iter().find(|g| g.hierarchy == 0),
        ),
        (None, Some(mount)) => {
            let memory = |c: &String| c == "memory";
            let group = groups.iter().find(|g| g.controllers.iter().any(memory));
            (mount, "memory.limit_in_bytes", group)
        }
        (None, None) => {
            return Err(Error::Cgroup(
                "no hierarchy with the memory controller is mounted".into(),
            ));
        }
    };
    let path = group.map_or("/", |g| &g.pathname);
    Ok(Hierarchy {
        root: mount.point.clone(),
        limit,
        mine: mount.point.join(path.trim_start_matches('/')),
    })
}

fn has_memory(root: &Path) -> bool {
    let text = fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
    text.split_whitespace()
        .any(|controller| controller == "memory")
}

/// Where the group of the copies in `folder` will be: known before it is made, so that it can be
/// written down first.
pub(crate) fn path(folder: &Path) -> Result<PathBuf, Error> {
    let meta = fs::metadata(folder).map_err(Error::io(folder.display().to_string()))?;
    let name = format!("{NAME}-{:x}-{}", meta.dev(), meta.ino());
    Ok(hierarchy()?.root.join(name))
}

/// Makes the group, sets its limit in bytes and moves this process into it.
pub(crate) fn enter(group: &Path, limit: u64) -> Result<Inside, Error> {
    let hierarchy = hierarchy()?;
    let wrong = |what: &Path| {
        let what = what.display().to_string();
        move |error| Error::Cgroup(format!("{what}: {error}"))
    };
    if hierarchy.limit == "memory.max" {
        // Often on already; if not and refused, the limit's file is missing below.
        let _ = fs::write(hierarchy.root.join("cgroup.subtree_control"), "+memory");
    }
    if !group.is_dir() {
        fs::create_dir(group).map_err(wrong(group))?;
    }
    let file = group.join(hierarchy.limit);
    fs::write(&file, limit.to_string()).map_err(wrong(&file))?;
    let procs = group.join("cgroup.procs");
    fs::write(&procs, "0").map_err(wrong(&procs))?;
    Ok(Inside {
        back: hierarchy.mine,
    })
}

/// Removes the group; one whose pages are still in use goes with the next try.
pub(crate) fn remove(group: &Path) {
    let _ = fs::remove_dir(group);
}
