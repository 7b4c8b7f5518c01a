// SPDX-License-Identifier: GPL-2.0-only
//! The files of a container image, in the folders of its layers: what podman or docker says of it.
//! All containers of the image map these files, through an overlay.

use crate::Chosen;
use serde_json::Value;
use std::collections::HashSet;
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The programs that are asked, in this order.
const TOOLS: [&str; 2] = ["podman", "docker"];

/// Why an image's layers are not known.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// Neither tool is here.
    #[error(
        "neither podman nor docker is in PATH, which would say where its layers are: name files of \
         its layers, or its containers' processes by --cgroup or --pid"
    )]
    NoTool,
    /// The tool's own words.
    #[error("{tool} image inspect: {said}")]
    Tool {
        /// Which tool.
        tool: &'static str,
        /// Its last words.
        said: String,
    },
    /// An answer without layers.
    #[error(
        "{tool} keeps it by {driver}, whose layers are not folders: name its containers' processes \
         by --cgroup or --pid"
    )]
    Driver {
        /// Which tool.
        tool: &'static str,
        /// The storage driver.
        driver: String,
    },
    /// A layer that cannot be read.
    #[error("{}: {error}", path.display())]
    Layer {
        /// Which.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
}

/// The folders of an image's layers, the topmost first.
///
/// # Errors
///
/// If no tool knows the image, or its layers are no folders.
pub fn layers(image: &str) -> Result<Vec<PathBuf>, ImageError> {
    let mut refusal = ImageError::NoTool;
    for tool in TOOLS {
        let output = Command::new(tool)
            .args(["image", "inspect", "--", image])
            .stdin(Stdio::null())
            .output();
        let Ok(output) = output else { continue };
        if output.status.success() {
            return folders(tool, &output.stdout);
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.trim().lines().last().unwrap_or("failed").to_owned();
        refusal = ImageError::Tool { tool, said };
    }
    Err(refusal)
}

fn folders(tool: &'static str, json: &[u8]) -> Result<Vec<PathBuf>, ImageError> {
    let answer: Value = serde_json::from_slice(json).unwrap_or_default();
    let driver = &answer[0]["GraphDriver"];
    let folder = |key: &str| driver["Data"][key].as_str().unwrap_or_default();
    let all = [folder("UpperDir"), folder("LowerDir")].join(":");
    let folders: Vec<PathBuf> = all
        .split(':')
        .filter(|path| !path.is_empty())
        .map(PathBuf::from)
        .collect();
    match folders.is_empty() {
        false => Ok(folders),
        true => Err(ImageError::Driver {
            tool,
            driver: driver["Name"].as_str().unwrap_or("no driver").to_owned(),
        }),
    }
}

/// The files of `layers` that containers see and that could hold a block of `pmd` bytes, shown by
/// their paths in the image. Folders that this user may not read are left out.
///
/// # Errors
///
/// If a layer cannot be read.
pub fn of_image(layers: &[PathBuf], pmd: u64) -> Result<Vec<Chosen>, ImageError> {
    let mut above = Above::default();
    let mut files = Vec::new();
    for layer in layers {
        let mut here = Above::default();
        walk(layer, Path::new(""), pmd, &above, &mut here, &mut files).map_err(|error| {
            ImageError::Layer {
                path: layer.clone(),
                error,
            }
        })?;
        above.names.extend(here.names);
        above.opaque.extend(here.opaque);
    }
    Ok(files)
}

/// Names that layers above have, by paths in the image.
#[derive(Default)]
struct Above {
    /// Files, and whiteouts of files and folders.
    names: HashSet<PathBuf>,
    /// Folders that hide what layers below have in them.
    opaque: HashSet<PathBuf>,
}

impl Above {
    fn hides(&self, path: &Path) -> bool {
        let folder = path.parent().unwrap_or(Path::new(""));
        self.names.contains(path) || folder.ancestors().any(|f| self.opaque.contains(f))
    }
}

fn walk(
    layer: &Path,
    folder: &Path,
    pmd: u64,
    above: &Above,
    here: &mut Above,
    files: &mut Vec<Chosen>,
) -> io::Result<()> {
    if opaque(&layer.join(folder)) {
        here.opaque.insert(folder.to_owned());
    }
    for entry in fs::read_dir(layer.join(folder))? {
        let entry = entry?;
        let path = folder.join(entry.file_name());
        if above.hides(&path) {
            continue;
        }
        let metadata = entry.metadata()?;
        let kind = metadata.file_type();
        if kind.is_dir() {
            match walk(layer, &path, pmd, above, here, files) {
                // Of another user of the container, and this one is not root.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
                done => done?,
            }
            continue;
        }
        if kind.is_file() && metadata.size() >= pmd || kind.is_char_device() {
            here.names.insert(path.clone());
        }
        if kind.is_file() && metadata.size() >= pmd {
            files.push(Chosen {
                name: Path::new("/").join(&path),
                path: entry.path(),
            });
        }
    }
    Ok(())
}

/// Whether a folder of a layer hides what is below (Documentation/filesystems/overlayfs.rst).
fn opaque(folder: &Path) -> bool {
    let Ok(folder) = CString::new(folder.as_os_str().as_bytes()) else {
        return false;
    };
    [c"trusted.overlay.opaque", c"user.overlay.opaque"]
        .iter()
        .any(|name| {
            let mut value = [0u8; 1];
            // SAFETY: two strings that end with NUL, and room for one byte.
            let size = unsafe {
                libc::getxattr(
                    folder.as_ptr(),
                    name.as_ptr(),
                    value.as_mut_ptr().cast(),
                    value.len(),
                )
            };
            size == 1 && matches!(value[0], b'y' | b'x')
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{Permissions, create_dir_all, write};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn layers_are_taken_from_the_answer_topmost_first() {
        let answer = br#"[{"GraphDriver":{"Name":"overlay",
            "Data":{"UpperDir":"/s/c/diff","LowerDir":"/s/b/diff:/s/a/diff"}}}]"#;
        let expected = ["/s/c/diff", "/s/b/diff", "/s/a/diff"].map(PathBuf::from);
        assert_eq!(folders("podman", answer).unwrap(), expected);
        let answer = br#"[{"GraphDriver":{"Name":"zfs","Data":{"Mountpoint":"/x"}}}]"#;
        let error = folders("docker", answer).unwrap_err().to_string();
        assert!(error.contains("docker") && error.contains("zfs"), "{error}");
        assert!(folders("docker", b"nonsense").is_err());
    }

    #[test]
    fn a_file_that_a_layer_above_has_is_not_taken_from_below() {
        let root = tempfile::tempdir().unwrap();
        let (top, low) = (root.path().join("top"), root.path().join("low"));
        for layer in [&top, &low] {
            create_dir_all(layer.join("bin")).unwrap();
            write(layer.join("bin/a"), [0; 64]).unwrap();
        }
        write(low.join("bin/b"), [0; 64]).unwrap();
        write(low.join("bin/tiny"), [0; 9]).unwrap();
        let files = of_image(&[top.clone(), low.clone()], 64).unwrap();
        let mut found: Vec<_> = files.iter().map(|f| (&*f.name, &*f.path)).collect();
        found.sort();
        let expected = [
            (Path::new("/bin/a"), &*top.join("bin/a")),
            (Path::new("/bin/b"), &*low.join("bin/b")),
        ];
        assert_eq!(found, expected);
        assert!(of_image(&[root.path().join("none")], 64).is_err());
    }

    #[test]
    fn a_folder_that_only_another_user_may_read_is_left_out() {
        let root = tempfile::tempdir().unwrap();
        let mode = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode));
        mode(root.path(), 0o755).unwrap();
        create_dir_all(root.path().join("private")).unwrap();
        write(root.path().join("a"), [0; 64]).unwrap();
        write(root.path().join("private/b"), [0; 64]).unwrap();
        mode(&root.path().join("private"), 0).unwrap();
        let layers = [root.path().to_owned()];
        let files = std::thread::spawn(move || {
            // SAFETY: a system call without pointers; of this thread, which ends, and only root's
            // has another user then.
            unsafe { libc::setfsuid(65_534) };
            of_image(&layers, 64)
        });
        let files = files.join().unwrap().unwrap();
        mode(&root.path().join("private"), 0o700).unwrap();
        assert_eq!(files.len(), 1);
        assert_eq!(files[0].name, Path::new("/a"));
    }
}
