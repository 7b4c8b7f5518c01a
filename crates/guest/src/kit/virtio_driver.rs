// SPDX-License-Identifier: GPL-2.0-only
//! Drivers of virtio devices, and how to take a device away from one for a while.

use anyhow::{Context, Result};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const DRIVERS: &str = "/sys/bus/virtio/drivers";

/// A driver without its device.
#[derive(Debug)]
#[must_use]
pub struct Driver {
    folder: PathBuf,
    device: String,
}

impl Driver {
    /// Takes its only device away from the driver of this name.
    pub fn without(name: &str) -> Result<Self> {
        let folder = Path::new(DRIVERS).join(name);
        let device = device(&folder)?;
        let path = folder.join("unbind");
        fs::write(&path, &device).with_context(|| path.display().to_string())?;
        Ok(Self { folder, device })
    }

    /// Gives it back.
    pub fn again(self) -> Result<()> {
        let path = self.folder.join("bind");
        fs::write(&path, self.device).with_context(|| path.display().to_string())
    }
}

/// The name of its only device.
fn device(driver: &Path) -> Result<String> {
    let entries = fs::read_dir(driver).with_context(|| driver.display().to_string())?;
    let mut names = entries.flatten().map(|entry| entry.file_name());
    let name = names.find(|name| {
        let number = name.as_bytes().strip_prefix(b"virtio");
        number.is_some_and(|number| number.iter().all(u8::is_ascii_digit))
    });
    let name = name.with_context(|| format!("{}: no device", driver.display()))?;
    Ok(name.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_drivers_device_is_found_among_its_files() {
        let driver = tempfile::tempdir().unwrap();
        for name in ["bind", "module", "uevent", "virtio_mem"] {
            fs::write(driver.path().join(name), "").unwrap();
        }
        let error = device(driver.path()).unwrap_err().to_string();
        assert!(error.ends_with(": no device"), "{error}");
        fs::write(driver.path().join("virtio3"), "").unwrap();
        assert_eq!(device(driver.path()).unwrap(), "virtio3");
    }
}
