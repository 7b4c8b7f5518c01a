// SPDX-License-Identifier: GPL-2.0-only
//! Makes small images, byte for byte, and looks at what became of them.

use flate2::write::GzEncoder;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use tar::{Builder, EntryType, Header};
use tempfile::TempDir;

pub const M: u64 = 1 << 20;

pub fn sha256(bytes: &[u8]) -> String {
    let digits = Sha256::digest(bytes);
    let digits = digits.iter().map(|b| format!("{b:02x}"));
    format!("sha256:{}", digits.collect::<String>())
}

/// An archive, entry by entry.
pub struct Archive(Builder<Vec<u8>>);

impl Archive {
    pub fn new() -> Archive {
        Archive(Builder::new(Vec::new()))
    }

    fn add(mut self, path: &str, kind: EntryType, mode: u32, link: &str, bytes: &[u8]) -> Archive {
        let mut header = Header::new_ustar();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_uid(1000);
        header.set_gid(100);
        header.set_mtime(1_600_000_000);
        header.set_size(bytes.len() as u64);
        // As it stands: the library would refuse names that lead out.
        header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
        header.as_old_mut().linkname[..link.len()].copy_from_slice(link.as_bytes());
        header.set_cksum();
        self.0.append(&header, bytes).unwrap();
        self
    }

    pub fn folder(self, path: &str, mode: u32) -> Archive {
        self.add(path, EntryType::Directory, mode, "", b"")
    }

    pub fn file(self, path: &str, bytes: &[u8]) -> Archive {
        self.add(path, EntryType::Regular, 0o755, "", bytes)
    }

    pub fn moded(self, path: &str, mode: u32, bytes: &[u8]) -> Archive {
        self.add(path, EntryType::Regular, mode, "", bytes)
    }

    pub fn typed(self, path: &str, kind: u8) -> Archive {
        self.add(path, EntryType::new(kind), 0o644, "", b"")
    }

    pub fn symlink(self, path: &str, target: &str) -> Archive {
        self.add(path, EntryType::Symlink, 0o777, target, b"")
    }

    pub fn hard_link(self, path: &str, target: &str) -> Archive {
        self.add(path, EntryType::Link, 0o755, target, b"")
    }

    pub fn records(mut self, records: &[(&str, &[u8])]) -> Archive {
        self.0
            .append_pax_extensions(records.iter().copied())
            .unwrap();
        self
    }

    pub fn bytes(self) -> Vec<u8> {
        self.0.into_inner().unwrap()
    }
}

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub fn zstd(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
}

/// A layer as it is stored.
#[derive(Clone)]
pub struct Layer {
    pub media_type: String,
    pub bytes: Vec<u8>,
    pub diff_id: String,
}

const OCI_LAYER: &str = "application/vnd.oci.image.layer.v1.tar";

impl Layer {
    pub fn plain(archive: Archive) -> Layer {
        let bytes = archive.bytes();
        Layer {
            media_type: OCI_LAYER.to_owned(),
            diff_id: sha256(&bytes),
            bytes,
        }
    }

    pub fn gzip(archive: Archive) -> Layer {
        let plain = Layer::plain(archive);
        Layer {
            media_type: format!("{OCI_LAYER}+gzip"),
            bytes: gzip(&plain.bytes),
            ..plain
        }
    }

    pub fn zstd(archive: Archive) -> Layer {
        let plain = Layer::plain(archive);
        Layer {
            media_type: format!("{OCI_LAYER}+zstd"),
            bytes: zstd(&plain.bytes),
            ..plain
        }
    }
}

/// A configuration of Debian's kind.
pub fn config(architecture: &str, layers: &[Layer]) -> Value {
    let history: Vec<Value> = layers
        .iter()
        .map(|_| json!({ "created": "2020-01-01T00:00:00Z", "created_by": "a step" }))
        .chain([json!({ "created_by": "ENV", "empty_layer": true })])
        .collect();
    let ids: Vec<&str> = layers.iter().map(|layer| &layer.diff_id[..]).collect();
    json!({
        "created": "2020-01-01T00:00:00Z",
        "architecture": architecture,
        "os": "linux",
        "config": { "Entrypoint": ["/usr/bin/app"], "Env": ["PATH=/usr/bin"] },
        "rootfs": { "type": "layers", "diff_ids": ids },
        "history": history,
        "x.unknown": { "kept": true },
    })
}

/// A folder in the OCI layout.
pub struct Layout {
    pub dir: TempDir,
}

impl Layout {
    pub fn new() -> Layout {
        Layout::within(tempfile::tempdir().unwrap())
    }

    /// In a folder that is empty.
    fn within(dir: TempDir) -> Layout {
        let layout = Layout { dir };
        fs::create_dir_all(layout.path("blobs/sha256")).unwrap();
        fs::write(
            layout.path("oci-layout"),
            r#"{"imageLayoutVersion":"1.0.0"}"#,
        )
        .unwrap();
        layout
    }

    /// With one image, called `latest`.
    pub fn of(layers: &[Layer]) -> Layout {
        Layout::of_within(tempfile::tempdir().unwrap(), layers)
    }

    /// The same in a folder that is empty.
    pub fn of_within(dir: TempDir, layers: &[Layer]) -> Layout {
        let layout = Layout::within(dir);
        let mut manifest = layout.image("amd64", layers);
        manifest["annotations"] = json!({ "org.opencontainers.image.ref.name": "latest" });
        layout.index(&[manifest]);
        layout
    }

    pub fn root(&self) -> PathBuf {
        self.dir.path().join("layout")
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    pub fn blob(&self, bytes: &[u8]) -> String {
        let digest = sha256(bytes);
        fs::write(self.blob_path(&digest), bytes).unwrap();
        digest
    }

    pub fn blob_path(&self, digest: &str) -> PathBuf {
        self.path("blobs").join(digest.replace(':', "/"))
    }

    /// A descriptor of new content.
    pub fn put(&self, media_type: &str, bytes: &[u8]) -> Value {
        let digest = self.blob(bytes);
        json!({ "mediaType": media_type, "digest": digest, "size": bytes.len() })
    }

    pub fn put_json(&self, media_type: &str, value: &Value) -> Value {
        self.put(media_type, &serde_json::to_vec_pretty(value).unwrap())
    }

    /// A manifest's descriptor.
    pub fn image(&self, architecture: &str, layers: &[Layer]) -> Value {
        self.image_of(&config(architecture, layers), layers)
    }

    pub fn image_of(&self, config: &Value, layers: &[Layer]) -> Value {
        let config = self.put_json("application/vnd.oci.image.config.v1+json", config);
        let layers = layers
            .iter()
            .map(|layer| self.put(&layer.media_type, &layer.bytes));
        self.manifest(&config, layers.collect())
    }

    pub fn manifest(&self, config: &Value, layers: Vec<Value>) -> Value {
        let kind = "application/vnd.oci.image.manifest.v1+json";
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": kind,
            "config": config,
            "layers": layers,
            "annotations": { "a": "kept" },
        });
        self.put_json(kind, &manifest)
    }

    pub fn index(&self, manifests: &[Value]) {
        let index = json!({ "schemaVersion": 2, "manifests": manifests });
        fs::write(self.path("index.json"), serde_json::to_vec(&index).unwrap()).unwrap();
    }

    pub fn json(&self, digest: &Value) -> Value {
        let digest = digest.as_str().unwrap();
        let bytes = fs::read(self.blob_path(digest)).unwrap();
        assert_eq!(sha256(&bytes), digest);
        serde_json::from_slice(&bytes).unwrap()
    }

    pub fn read_index(&self) -> Value {
        serde_json::from_slice(&fs::read(self.path("index.json")).unwrap()).unwrap()
    }
}

/// All files below a folder, with their content; of links, where they lead.
pub fn files(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let (path, kind) = (entry.path(), entry.file_type().unwrap());
            if kind.is_dir() {
                folders.push(path);
                continue;
            }
            let content = match kind.is_symlink() {
                true => fs::read_link(&path)
                    .unwrap()
                    .into_os_string()
                    .into_encoded_bytes(),
                false => fs::read(&path).unwrap(),
            };
            found.insert(path.strip_prefix(root).unwrap().to_owned(), content);
        }
    }
    found
}

/// An entry of an archive as a library reads it.
#[derive(Debug)]
pub struct Entry {
    pub path: String,
    pub kind: EntryType,
    pub mode: u32,
    pub uid: u64,
    pub mtime: u64,
    pub link: String,
    pub bytes: Vec<u8>,
    pub records: Vec<(String, Vec<u8>)>,
}

pub fn entries(archive: &[u8]) -> Vec<Entry> {
    let mut archive = tar::Archive::new(archive);
    let read = archive.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        let records = entry.pax_extensions().unwrap().map(|all| {
            all.filter_map(Result::ok)
                .map(|r| (r.key().unwrap().to_owned(), r.value_bytes().to_vec()))
                .collect()
        });
        let header = entry.header();
        Entry {
            path: String::from_utf8_lossy(&entry.path_bytes()).into_owned(),
            kind: header.entry_type(),
            mode: header.mode().unwrap(),
            uid: header.uid().unwrap(),
            mtime: header.mtime().unwrap(),
            link: entry
                .link_name_bytes()
                .map(|link| String::from_utf8_lossy(&link).into_owned())
                .unwrap_or_default(),
            bytes,
            records: records.unwrap_or_default(),
        }
    });
    read.collect()
}

pub fn gunzip(bytes: &[u8]) -> Vec<u8> {
    let mut all = Vec::new();
    flate2::read::GzDecoder::new(bytes)
        .read_to_end(&mut all)
        .unwrap();
    all
}
