// SPDX-License-Identifier: GPL-2.0-only
//! The way out of the guest: the virtio serial port that the host reads.

use crate::protocol::{Message, PORT_NAME};
use anyhow::{Context, Result, bail};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long the port may take to appear: its name comes by a message from the host, after the
/// driver has found the device.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where answers go.
#[derive(Debug)]
pub struct Port(Mutex<File>);

impl Port {
    /// Finds the port among those that the kernel knows.
    pub fn find() -> Result<Self> {
        open().map(Mutex::new).map(Self)
    }

    /// Sends one message as one line. A port whose device was taken away and given back is found
    /// again.
    pub fn send(&self, message: &Message) -> io::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match file.write_all(&line) {
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {
                *file = open().map_err(io::Error::other)?;
                file.write_all(&line)
            }
            sent => sent,
        }
    }

    /// Names a phase, 1 to 127, and says that the next thing done is its work.
    pub fn begin(&self, phase: u8, name: &str) -> io::Result<()> {
        self.send(&Message::Phase {
            id: phase,
            name: name.into(),
        })?;
        self.send(&Message::Begin {
            phase,
            text: name.into(),
        })
    }
}

fn open() -> Result<File> {
    let since = Instant::now();
    let path = loop {
        match device(Path::new("/sys/class/virtio-ports")) {
            Some(path) => break path,
            None if since.elapsed() < PATIENCE => std::thread::sleep(Duration::from_millis(5)),
            None => bail!(
                "no virtio serial port named `{PORT_NAME}` in /sys/class/virtio-ports; \
                 is CONFIG_VIRTIO_CONSOLE on and the device on QEMU's command line?"
            ),
        }
    };
    OpenOptions::new()
        .write(true)
        .open(&path)
        .with_context(|| format!("{}: cannot open the answer port", path.display()))
}

/// /dev/vportNpM of the port with our name.
fn device(class: &Path) -> Option<PathBuf> {
    fs::read_dir(class).ok()?.flatten().find_map(|entry| {
        let name = fs::read_to_string(entry.path().join("name")).ok()?;
        (name.trim_end() == PORT_NAME).then(|| Path::new("/dev").join(entry.file_name()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_is_found_by_name_not_by_number() {
        let class = tempfile::tempdir().unwrap();
        for (port, name) in [("vport0p1", "other\n"), ("vport1p3", "wideleaf.answers\n")] {
            fs::create_dir(class.path().join(port)).unwrap();
            fs::write(class.path().join(port).join("name"), name).unwrap();
        }
        assert_eq!(device(class.path()), Some("/dev/vport1p3".into()));
        fs::write(class.path().join("vport1p3/name"), "wideleaf.answers2\n").unwrap();
        assert_eq!(device(class.path()), None);
        assert_eq!(device(Path::new("/no/such/class")), None);
    }
}
