// SPDX-License-Identifier: GPL-2.0-only
//! Which processes are meant.

use std::path::Path;
use wideleaf_procmap::Select;

/// Those whose command or executable has this name, and that are in this control group or below
/// it, as a path in /sys/fs/cgroup or as /proc/PID/cgroup shows it.
pub fn select(name: Option<&str>, cgroup: Option<&str>) -> Select {
    Select {
        name: name.map(str::to_owned),
        cgroup: cgroup.map(cgroup_path),
        within: None,
    }
}

/// `/sys/fs/cgroup/system.slice` and, for v1, `/sys/fs/cgroup/memory/x` as
/// /proc/PID/cgroup has them.
fn cgroup_path(given: &str) -> String {
    let Some(inside) = given.strip_prefix("/sys/fs/cgroup") else {
        return given.to_owned();
    };
    if Path::new("/sys/fs/cgroup/cgroup.controllers").exists() {
        return if inside.is_empty() {
            "/".to_owned()
        } else {
            inside.to_owned()
        };
    }
    // v1 or hybrid: the first part is the hierarchy.
    let path = inside
        .trim_start_matches('/')
        .split_once('/')
        .map_or("", |(_, path)| path);
    format!("/{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_group_may_be_given_as_it_stands_in_proc() {
        assert_eq!(cgroup_path("/system.slice/x"), "/system.slice/x");
    }
}
