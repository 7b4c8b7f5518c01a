// SPDX-License-Identifier: GPL-2.0-only
//! Which mounted file systems keep their files in large folios.

use crate::kernel::{Config, Release};
use crate::trial::{self, Trial};
use crate::{Check, Host, Status};
use std::path::Path;

/// From which version on a file system is known to have large folios for
/// regular files, and where that can be seen: the calls of
/// mapping_set_large_folios() and its kin in the sources of 6.12 and 7.3. Only
/// XFS and ext4 are known from their release; of the others, what was before
/// the version given was not checked.
const SINCE: &[(&str, (u32, u32), &str)] = &[
    ("xfs", (5, 18), "fs/xfs/xfs_icache.c"),
    (
        "ext4",
        (6, 16),
        "fs/ext4/inode.c, except with data=journal or encryption",
    ),
    ("erofs", (6, 12), "fs/erofs/inode.c"),
    ("afs", (6, 12), "fs/afs/inode.c"),
    ("nfs", (6, 12), "fs/nfs/inode.c"),
    ("nfs4", (6, 12), "fs/nfs/inode.c"),
    ("cifs", (6, 12), "fs/smb/client/inode.c"),
    ("bcachefs", (6, 12), "fs/bcachefs/fs.c"),
    ("zonefs", (6, 12), "fs/zonefs/super.c"),
];

/// Up to which version a file system had none when that was tried (docs/results/means.md).
const NONE_IN: &[(&str, (u32, u32))] = &[("erofs", (6, 1))];

/// Where programs and libraries lie.
const TEXT: &[&str] = &[
    "/usr/lib",
    "/usr/bin",
    "/usr",
    "/opt",
    "/srv",
    "/home",
    "/var/lib/containers",
    "/",
];

pub(crate) struct Mount {
    pub point: String,
    pub kind: String,
    options: String,
}

impl Mount {
    /// As it is named where something was tried on it.
    pub(crate) fn place(&self) -> String {
        format!("{} ({})", self.point, self.kind)
    }

    /// The uppermost of an overlay's lower layers, where its files are unless they were changed.
    fn layer(&self) -> Option<&str> {
        let layers = option(&self.options, "lowerdir")?;
        layers.split(':').next()
    }
}

pub(crate) fn mounts(host: &Host) -> Vec<Mount> {
    let text = host
        .read("/proc/self/mounts")
        .or_else(|| host.read("/proc/mounts"))
        .unwrap_or_default();
    text.lines()
        .filter_map(|line| {
            let mut fields = line.split(' ').skip(1).map(|f| f.replace("\\040", " "));
            Some(Mount {
                point: fields.next()?,
                kind: fields.next()?,
                options: fields.next()?,
            })
        })
        .collect()
}

/// Those that hold text. The last mount on a point hides the ones before.
pub(crate) fn of_text(mounts: &[Mount]) -> Vec<&Mount> {
    TEXT.iter()
        .filter_map(|point| mounts.iter().rev().find(|m| m.point == *point))
        .collect()
}

/// What the kernel says to a collapse on each of them, and elsewhere.
pub(crate) fn trials(host: &Host) -> Vec<Trial> {
    let mounts = mounts(host);
    let mounted = of_text(&mounts).into_iter().filter_map(|mount| {
        trial::mounted(host, &mount.place(), &mount.point, mount.kind == "overlay")
    });
    let mounted: Vec<Trial> = mounted.collect();
    trial::own(host).into_iter().chain(mounted).collect()
}

/// The file systems that hold text.
pub(crate) fn text(host: &Host, release: &Release, config: &Config) -> Check {
    let check = Check::new(
        "filesystems",
        "large folios of the file systems that hold programs",
        "the page cache can only map wide what the file system lets it keep in large folios",
    );
    let mounts = mounts(host);
    let found = of_text(&mounts);
    if found.is_empty() {
        return check.unknown("/proc/self/mounts cannot be read or has no root");
    }
    let mut without = Vec::new();
    let lines: Vec<String> = found
        .iter()
        .map(|mount| {
            let (has, what) = verdict(mount, release);
            if has == Some(false) {
                without.push(mount.kind.clone());
            }
            format!("{} ({}): {what}", mount.point, mount.kind)
        })
        .collect();
    let found = lines.join("; ");
    if without.is_empty() {
        return check.good(found);
    }
    let collapse = match config.get("READ_ONLY_THP_FOR_FS") {
        Some("y") => "; until then MADV_COLLAPSE and khugepaged work on it (READ_ONLY_THP_FOR_FS)",
        _ => "",
    };
    check.improve(
        found,
        format!("put hot programs on XFS, uncompressed EROFS or a tmpfs with huge=always, or use a kernel whose {} has large folios{collapse}", without[0]),
        "fstab for the new file system; a later kernel of the distribution",
    )
}

fn verdict(mount: &Mount, release: &Release) -> (Option<bool>, String) {
    if mount.kind == "overlay" {
        let what = "large folios as the file systems of its layers; its mmap aligns nothing, so a \
                    library whose p_align is 4K (`wideleaf align` raises it) is loaded at any page, \
                    where MADV_COLLAPSE is EINVAL; else the kernel answers as for the layer's file";
        return (None, what.to_owned());
    }
    if mount.kind == "tmpfs" {
        let huge = option(&mount.options, "huge").unwrap_or("never");
        return (Some(huge != "never"), format!("huge={huge}"));
    }
    if mount.kind == "btrfs" {
        let what =
            "none of 2M: at most 64 blocks, 256K with blocks of 4K (7.3, fs/btrfs/disk-io.c)";
        return (Some(false), what.to_owned());
    }
    let Some((_, (major, minor), source)) = SINCE.iter().find(|s| s.0 == mount.kind) else {
        return (Some(false), "none known".to_owned());
    };
    match release.at_least(*major, *minor) {
        Some(true) => (
            Some(true),
            format!("yes, {major}.{minor} or later has them ({source})"),
        ),
        Some(false) if matches!(mount.kind.as_str(), "xfs" | "ext4") => {
            (Some(false), format!("not before {major}.{minor}"))
        }
        Some(false) if none_in(&mount.kind, release) => (
            Some(false),
            format!("not in this version; in {major}.{minor}"),
        ),
        Some(false) => (
            None,
            format!("in {major}.{minor}; versions before it were not checked"),
        ),
        None => (
            None,
            format!("since {major}.{minor}; this kernel's version is unknown"),
        ),
    }
}

/// Whether it is known to have none in this version.
fn none_in(kind: &str, release: &Release) -> bool {
    let known = NONE_IN.iter().find(|none| none.0 == kind);
    known.is_some_and(|(_, last)| release.number.is_some_and(|number| number <= *last))
}

fn option<'a>(options: &'a str, name: &str) -> Option<&'a str> {
    options
        .split(',')
        .find_map(|o| o.strip_prefix(name)?.strip_prefix('='))
}

/// Whether the page cache holds files there in folios of 2M, as far as that is known. Those of an
/// overlay are its layers'.
pub(crate) fn wide_folios(release: &Release, mounts: &[Mount], mount: &Mount) -> Option<bool> {
    if mount.kind != "overlay" {
        return verdict(mount, release).0;
    }
    let layer = Path::new(mount.layer()?);
    let below = mounts.iter().filter(|m| layer.starts_with(&m.point));
    let below = below.max_by_key(|m| m.point.len())?;
    // Of an overlay on an overlay nothing is known.
    verdict(below, release).0
}

/// How much the kernel reads ahead.
pub(crate) fn read_ahead(host: &Host) -> Check {
    let check = Check::new(
        "read-ahead",
        "read_ahead_kb of the disks",
        "readahead makes folios no larger than its window, so text that is read page by page gets wide ones only with a \
         wide window",
    );
    let window = |disk: &String| {
        let kib = host.read(&format!("/sys/block/{disk}/queue/read_ahead_kb"))?;
        let kib: u64 = kib.parse().ok()?;
        let real = !["loop", "ram", "zram"]
            .iter()
            .any(|kind| disk.starts_with(kind));
        real.then(|| format!("{disk}: {kib}"))
    };
    let windows: Vec<String> = host.list("/sys/block").iter().filter_map(window).collect();
    match windows.is_empty() {
        true => check.unknown("/sys/block names no disk"),
        false => check.note(windows.join(", ")),
    }
}

/// A tmpfs that gives text PMD leaves at once.
pub(crate) fn tmpfs(host: &Host) -> Check {
    let check = Check::new(
        "tmpfs",
        "a tmpfs with huge pages",
        "text on a tmpfs mounted huge=always is mapped by PMD leaves on the first fault, whatever the global settings, and \
         shared by all processes",
    );
    let mounts = mounts(host);
    let huge: Vec<String> = mounts
        .iter()
        .filter(|m| m.kind == "tmpfs")
        .filter_map(|m| Some((m, option(&m.options, "huge").filter(|h| *h != "never")?)))
        .map(|(m, huge)| format!("{}: huge={huge}", m.point))
        .collect();
    if !huge.is_empty() {
        return check.good(huge.join(", "));
    }
    Check {
        status: Status::Note,
        ..check.improve(
        "none is mounted with huge=",
        "mount -t tmpfs -o huge=always,size=1G,mode=755 tmpfs /opt/wide, and copy the program there; `wideleaf inspect` tells whether its layout can use it",
        "/etc/fstab: tmpfs /opt/wide tmpfs huge=always,size=1G,mode=755 0 0, and a systemd unit that copies the program before its service starts",
    ) }
}
