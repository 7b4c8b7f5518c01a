// SPDX-License-Identifier: GPL-2.0-only
//! Mounts, the kernel's own file systems and the disk of a job.

use crate::protocol::Disk;
use anyhow::{Context, Result, ensure};
use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};
use wideleaf_bench::system::filesystem_options;

/// File system, mount point, and whether a guest can do without it.
const PSEUDO: [(&str, &str, bool); 6] = [
    ("devtmpfs", "/dev", false),
    ("proc", "/proc", false),
    ("sysfs", "/sys", false),
    ("tmpfs", "/tmp", true),
    ("debugfs", "/sys/kernel/debug", true),
    ("cgroup2", "/sys/fs/cgroup", true),
];

/// Mounts the kernel's own file systems. Those that only some jobs need may be missing from the
/// kernel; the job that misses one says so.
pub fn pseudo_filesystems() -> Result<()> {
    for (kind, place, optional) in PSEUDO {
        // In sysfs nothing can be made: there the folder exists, or the feature does not.
        if fs::create_dir_all(place).is_err() && optional {
            continue;
        }
        match mount(
            Some(kind),
            place,
            Some(kind),
            MsFlags::empty(),
            None::<&str>,
        ) {
            // CONFIG_DEVTMPFS_MOUNT or an earlier stage was faster.
            Ok(()) | Err(Errno::EBUSY) => {}
            Err(_) if optional => {}
            Err(e) => return Err(e).with_context(|| format!("mount {kind} on {place}")),
        }
    }
    Ok(())
}

/// Sets the disk's readahead window and mounts it. Returns the window in KiB as the kernel has it.
pub fn disk(disk: &Disk) -> Result<u32> {
    let Disk {
        device,
        filesystem,
        options,
        mount_point,
        read_ahead_kb,
        writable,
        copied_from,
    } = disk;
    let node = format!("/dev/{device}");
    wait_for(&node)?;
    if let Some(from) = copied_from {
        copy(&format!("/dev/{from}"), &node)?;
    }
    // Before the mount: a file takes its window from the device when it is opened.
    let window = read_ahead(device, *read_ahead_kb)?;
    fs::create_dir_all(mount_point).with_context(|| format!("{mount_point}: cannot make"))?;
    let flags = if *writable {
        MsFlags::empty()
    } else {
        MsFlags::MS_RDONLY
    };
    let data = (!options.is_empty()).then_some(options.as_str());
    mount(
        Some(node.as_str()),
        mount_point.as_str(),
        Some(filesystem.as_str()),
        flags,
        data,
    )
    .map_err(|error| explain(error, filesystem))
    .with_context(|| {
        format!("mount {node} ({filesystem}, {flags:?}, `{options}`) on {mount_point}")
    })?;
    ensure_kept(options, mount_point)?;
    Ok(window)
}

/// Some file systems drop with a message what the device cannot do, and mount all the same.
fn ensure_kept(options: &str, mount_point: &str) -> Result<()> {
    let found = filesystem_options(Path::new(mount_point))?.unwrap_or_default();
    for option in options.split(',').filter(|option| !option.is_empty()) {
        let (name, value) = match option.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (option, None),
        };
        ensure!(
            found.get(name).map(Option::as_deref) == Some(value),
            "{mount_point}: its file system has dropped `{option}`: see the console for why"
        );
    }
    Ok(())
}

fn copy(from: &str, to: &str) -> Result<()> {
    wait_for(from)?;
    let copied = || {
        let mut target = File::options().write(true).open(to)?;
        io::copy(&mut File::open(from)?, &mut target)?;
        target.sync_all()
    };
    copied().with_context(|| format!("cannot copy {from} to {to}"))
}

fn wait_for(node: &str) -> Result<()> {
    let since = Instant::now();
    while !Path::new(node).exists() {
        ensure!(
            since.elapsed() < Duration::from_secs(5),
            "{node}: no such disk; is it on QEMU's command line, and its driver in the kernel?"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

fn read_ahead(device: &str, kb: Option<u32>) -> Result<u32> {
    let path = format!("/sys/block/{device}/queue/read_ahead_kb");
    if let Some(kb) = kb {
        fs::write(&path, kb.to_string()).with_context(|| format!("{path}: cannot write {kb}"))?;
    }
    let text = fs::read_to_string(&path).with_context(|| path.clone())?;
    let found = text
        .trim()
        .parse()
        .with_context(|| format!("{path}: `{}`", text.trim()))?;
    // The kernel rounds down to whole pages without a word.
    ensure!(
        kb.is_none_or(|kb| kb == found),
        "{path}: asked for {}, got {found}; give a multiple of the page size",
        kb.unwrap_or_default()
    );
    Ok(found)
}

/// What mount's errors mean for a disk image.
fn explain(error: Errno, filesystem: &str) -> anyhow::Error {
    let hint = match error {
        Errno::ENODEV => format!("this kernel has no {filesystem}"),
        Errno::EINVAL => format!("not {filesystem}, or made with features this kernel lacks"),
        Errno::ENOSYS => "the file system's blocks are larger than this kernel's pages".into(),
        _ => return error.into(),
    };
    anyhow::Error::new(error).context(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_that_the_file_system_drops_is_seen() {
        ensure_kept("", "/proc").unwrap();
        ensure_kept("rw", "/proc").unwrap();
        let error = ensure_kept("rw,dax=always", "/proc").unwrap_err();
        assert!(error.to_string().contains("has dropped `dax=always`"));
    }
}
