// SPDX-License-Identifier: GPL-2.0-only
//! What host and guest say to each other.
//!
//! The host puts one [`Job`] as JSON into the initramfs at [`JOB_PATH`]. The guest answers with
//! [`Message`]s, one JSON object a line, over the virtio serial port named [`PORT_NAME`], where
//! kernel messages cannot get between. A run that ended well is `hello`, any number of `phase`,
//! `begin`, `progress` and `plug`, one `result`, `done`, and then the machine is off. One that
//! failed in a way that the guest could still tell has an `error` instead of the `result`.
//! Everything else (no `done`, a kernel message of alarm on the console, silence past the time
//! limit) is for the host to notice.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// Both sides come from one build; the number catches a stale initramfs. Raised with every
/// change that an older reader would misread.
pub const VERSION: u32 = 3;

/// Name of the virtio serial port for the answers.
pub const PORT_NAME: &str = "wideleaf.answers";

/// Where the job lies in the initramfs.
pub const JOB_PATH: &str = "/job.json";

/// What a guest is booted for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// [`VERSION`] of the writer.
    pub version: u32,
    /// Seconds after which the guest gives the task up, says where it hung and powers off. The
    /// host should wait a little longer before it ends the machine itself.
    pub time_limit_s: u32,
    /// The disk to mount, if the task needs one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<Disk>,
    /// How scarce memory is.
    #[serde(default)]
    pub memory: MemoryPressure,
    /// Name of the job.
    pub name: String,
    /// What to do, as the job's guest side reads it.
    pub task: Value,
}

/// How scarce memory is while the task runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryPressure {
    /// memory.max of the task's cgroup in bytes; `None`: it has none of its own.
    pub limit: Option<u64>,
    /// Bytes that are free above the high watermarks when the task begins; the rest is taken.
    pub free: Option<u64>,
    /// Whether that is single pages, so that no folio of several can be had.
    #[serde(default)]
    pub fragmented: bool,
}

impl Job {
    /// A job without a disk.
    #[must_use]
    pub fn new(name: &str, task: Value, time_limit_s: u32) -> Self {
        Self {
            version: VERSION,
            time_limit_s,
            disk: None,
            memory: MemoryPressure::default(),
            name: name.into(),
            task,
        }
    }
}

/// A disk and where its file system goes. Runs of one image must not differ by what an earlier one
/// wrote: it is mounted read-only, or QEMU throws away what is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disk {
    /// Name of the block device, without `/dev/`.
    #[serde(default = "default_device")]
    pub device: String,
    /// File system type as mount(2) takes it: `xfs`, `ext4`, `erofs`.
    pub filesystem: String,
    /// Mount options as mount(2) takes them, such as `norecovery`.
    #[serde(default)]
    pub options: String,
    /// Where to mount it; made if it is not there.
    #[serde(default = "default_mount_point")]
    pub mount_point: String,
    /// Readahead window in KiB; `None` leaves the driver's own (virtio's comes out as 8192).
    #[serde(default)]
    pub read_ahead_kb: Option<u32>,
    /// Whether it is mounted for writing.
    #[serde(default)]
    pub writable: bool,
    /// Block device whose content `device` gets first.
    #[serde(default)]
    pub copied_from: Option<String>,
}

fn default_device() -> String {
    "vda".into()
}

fn default_mount_point() -> String {
    "/mnt".into()
}

impl Disk {
    /// `/dev/vda` with this file system on `/mnt`, and a readahead window in KiB.
    #[must_use]
    pub fn new(filesystem: &str, read_ahead_kb: Option<u32>) -> Self {
        Self {
            device: default_device(),
            filesystem: filesystem.into(),
            options: String::new(),
            mount_point: default_mount_point(),
            read_ahead_kb,
            writable: false,
            copied_from: None,
        }
    }

    /// The same, copied to persistent memory, of which files are mapped where they are.
    #[must_use]
    pub fn in_memory(self) -> Self {
        Self {
            copied_from: Some(self.device),
            device: "pmem0".into(),
            options: "dax=always".into(),
            ..self
        }
    }
}

/// One line from the guest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "message", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Message {
    /// The first line: which kernel this is.
    Hello(Hello),
    /// What is being done, for a human.
    Progress {
        /// Without a full stop.
        text: String,
    },
    /// Names a phase that the plugin will know by number. Sent before the phase begins, so that
    /// nothing but the work happens in it.
    Phase {
        /// 1 to 127; 0 is what is outside of these, from the first instruction on.
        id: u8,
        /// `cold`, `random`.
        name: String,
    },
    /// The next thing done is the work of this phase, until the next message.
    Begin {
        /// As [`Message::Phase`] announced it.
        phase: u8,
        /// What is done, for a human.
        text: String,
    },
    /// Asks the host to plug so much memory into the guest, or to take away what is more than that.
    /// The guest sees it come and go; there is no answer.
    Plug {
        /// Bytes, 0 for none; at most what the guest was promised.
        bytes: u64,
    },
    /// What the task found.
    Result {
        /// As the job's host side reads it.
        outcome: Value,
    },
    /// The task or its preparation failed. No result follows.
    Error(Failure),
    /// The last line; power-off follows.
    Done(Farewell),
}

/// Facts of the running kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`VERSION`] of the guest.
    pub version: u32,
    /// As uname(2) says: `6.12.117`.
    pub release: String,
    /// As uname(2) says: number and date of the build.
    pub build: String,
    /// As uname(2) says: `aarch64`, `x86_64`.
    pub machine: String,
    /// Base page size in bytes.
    pub page_size: u64,
    /// The kernel's command line.
    pub cmdline: String,
    /// `MemTotal` in bytes.
    pub memory: u64,
    /// Files of /sys/kernel/mm/transparent_hugepage, with the paths of those in its
    /// `hugepages-*` folders relative to it. Empty on a kernel without THP.
    #[serde(default)]
    pub thp: BTreeMap<String, String>,
}

/// Why there is no result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// What was being done and what failed, outermost first, in one line.
    pub what: String,
    /// More that may help: the hanging task's kernel stack, a panic's place.
    #[serde(default)]
    pub details: Vec<String>,
}

/// State at the end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Farewell {
    /// /proc/sys/kernel/tainted, a bit mask (Documentation/admin-guide/tainted-kernels.rst):
    /// bit 7, the kernel died once; bit 9, there was a WARN; bit 18, KUnit ran, which is no
    /// complaint. `None`: no such file.
    pub tainted: Option<u64>,
    /// Hundredths of a second since boot.
    pub uptime_cs: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_survives_the_way() {
        let task = serde_json::json!({ "file": "/mnt/stubs" });
        let mut job = Job::new("exec", task, 60);
        job.disk = Some(Disk::new("xfs", Some(128)));
        let text = serde_json::to_string(&job).unwrap();
        assert_eq!(serde_json::from_str::<Job>(&text).unwrap(), job);
    }

    #[test]
    fn a_job_may_leave_defaults_out() {
        let job: Job = serde_json::from_str(
            r#"{"version":1,"time_limit_s":60,"disk":{"filesystem":"ext4"},
                "name":"exec","task":{}}"#,
        )
        .unwrap();
        assert_eq!(job.disk, Some(Disk::new("ext4", None)));
    }

    #[test]
    fn messages_are_one_line_each() {
        let message = Message::Error(Failure {
            what: "mount /dev/vda\non /mnt".into(),
            details: vec!["a\nb".into()],
        });
        let text = serde_json::to_string(&message).unwrap();
        assert!(!text.contains('\n'));
        assert!(text.starts_with(r#"{"message":"error""#), "{text}");
        assert_eq!(serde_json::from_str::<Message>(&text).unwrap(), message);
    }
}
