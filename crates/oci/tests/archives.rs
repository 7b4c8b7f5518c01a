// SPDX-License-Identifier: GPL-2.0-only
//! Images in tar archives are aligned: OCI layouts, and archives of `docker save`.

#![allow(missing_docs)]

#[allow(dead_code)]
mod common;
#[path = "../../elf/tests/common/image.rs"]
#[allow(dead_code)]
mod image;
#[path = "../../wideleaf/tests/common/library.rs"]
mod library;

use common::{Archive, Layer, Layout, M, config, entries, files, gzip, sha256};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use wideleaf_oci::{Error, Options, Report};

fn align(path: &Path, output: Option<&Path>) -> Result<Report, Error> {
    let options = Options::new(wideleaf_align::Options::new(2 * M));
    let observer = |_: wideleaf_kit::events::Event<'_>| {};
    wideleaf_oci::align(path, output, &options, &observer)
}

fn layers() -> Vec<Layer> {
    let library = library::library(5 * M);
    vec![
        Layer::plain(
            Archive::new()
                .folder("usr/lib/", 0o755)
                .file("usr/lib/libx.so", &library),
        ),
        Layer::plain(Archive::new().file("etc/passwd", b"root")),
    ]
}

/// The files of a layout in an archive.
fn packed(layout: &Layout) -> Vec<u8> {
    let mut archive = Archive::new();
    for (name, bytes) in files(&layout.root()) {
        archive = archive.file(name.to_str().unwrap(), &bytes);
    }
    archive.bytes()
}

fn contents(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let found = entries(&fs::read(path).unwrap());
    found
        .into_iter()
        .map(|entry| (entry.path, entry.bytes))
        .collect()
}

fn written(dir: &Path, bytes: &[u8]) -> PathBuf {
    let path = dir.join("image.tar");
    fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn an_archive_of_a_layout_becomes_what_the_layout_becomes() {
    let layout = Layout::of(&layers());
    let dir = tempfile::tempdir().unwrap();
    let old = packed(&layout);
    let path = written(dir.path(), &old);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let output = dir.path().join("new.tar");
    align(&path, Some(&output)).unwrap();
    assert!(fs::read(&path).unwrap() == old);
    align(&path, None).unwrap();
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o640);
    assert!(fs::read(&path).unwrap() == fs::read(&output).unwrap());
    align(&layout.root(), None).unwrap();
    let expected = files(&layout.root());
    let expected = expected
        .into_iter()
        .map(|(name, bytes)| (name.to_str().unwrap().to_owned(), bytes));
    assert!(contents(&path) == expected.collect());
    // Nothing to gain any more: a copy of it is the same.
    let new = fs::read(&path).unwrap();
    align(&path, None).unwrap();
    assert!(fs::read(&path).unwrap() == new);
    align(&path, Some(&output)).unwrap();
    assert!(fs::read(&output).unwrap() == new);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    let error = align(&path, Some(&path)).unwrap_err().to_string();
    assert!(error.contains("is the archive itself"), "{error}");
}

/// As `docker save` wrote until version 24: a folder for each layer, equal ones as links.
fn docker_archive(layers: &[Layer]) -> Vec<u8> {
    let config = serde_json::to_vec(&config("amd64", layers)).unwrap();
    let name = format!("{}.json", &sha256(&config)[7..]);
    let manifest = json!([{
        "Config": name,
        "RepoTags": ["web:1", "web:latest"],
        "Layers": ["one/layer.tar", "two/layer.tar"],
    }]);
    Archive::new()
        .file(&name, &config)
        .folder("one/", 0o755)
        .file("one/layer.tar", &layers[0].bytes)
        .folder("two/", 0o755)
        .file("three/layer.tar", &layers[1].bytes)
        .symlink("two/layer.tar", "../three/layer.tar")
        .file("manifest.json", &serde_json::to_vec(&manifest).unwrap())
        .bytes()
}

#[test]
fn an_archive_of_docker_save_gets_a_layer_and_keeps_its_names() {
    let dir = tempfile::tempdir().unwrap();
    let path = written(dir.path(), &docker_archive(&layers()));
    let before = contents(&path);
    let report = align(&path, None).unwrap();
    assert_eq!(report.images[0].names, ["web:1", "web:latest"]);
    let after = contents(&path);
    for (name, bytes) in &before {
        assert!(name == "manifest.json" || after[name] == *bytes, "{name}");
    }
    let manifest: Value = serde_json::from_slice(&after["manifest.json"]).unwrap();
    let image = &manifest[0];
    assert_eq!(image["RepoTags"], json!(["web:1", "web:latest"]));
    let config = &after[image["Config"].as_str().unwrap()];
    assert_eq!(image["Config"], format!("{}.json", &sha256(config)[7..]));
    let config: Value = serde_json::from_slice(config).unwrap();
    let names = image["Layers"].as_array().unwrap();
    assert_eq!(
        (names.len(), &names[0], &names[1]),
        (3, &"one/layer.tar".into(), &"two/layer.tar".into())
    );
    let layer = &after[names[2].as_str().unwrap()];
    assert_eq!(config["rootfs"]["diff_ids"][2], sha256(layer));
    assert_eq!(config["history"].as_array().unwrap().len(), 4);
    let found = entries(layer);
    let names: Vec<&str> = found.iter().map(|entry| &entry.path[..]).collect();
    assert_eq!(names, ["usr/lib/", "usr/lib/libx.so"]);
}

#[test]
fn an_archive_of_both_kinds_stays_one() {
    let layout = Layout::of(&layers());
    let manifest = layout.read_index()["manifests"][0]["digest"].clone();
    let manifest = layout.json(&manifest);
    let blob = |value: &Value| {
        format!(
            "blobs/{}",
            value["digest"].as_str().unwrap().replace(':', "/")
        )
    };
    let layers = manifest["layers"].as_array().unwrap();
    let sources: serde_json::Map<String, Value> = layers
        .iter()
        .map(|layer| (layer["digest"].as_str().unwrap().to_owned(), layer.clone()))
        .collect();
    let docker = json!([{
        "Config": blob(&manifest["config"]),
        "RepoTags": ["web:1"],
        "Layers": layers.iter().map(blob).collect::<Vec<_>>(),
        "LayerSources": sources,
    }]);
    fs::write(
        layout.path("manifest.json"),
        serde_json::to_vec(&docker).unwrap(),
    )
    .unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = written(dir.path(), &packed(&layout));
    let report = align(&path, None).unwrap();
    assert_eq!(report.images.len(), 1, "it is one image, not two");
    let after = contents(&path);
    let index: Value = serde_json::from_slice(&after["index.json"]).unwrap();
    let manifest: Value = serde_json::from_slice(&after[&blob(&index["manifests"][0])]).unwrap();
    let docker: Value = serde_json::from_slice(&after["manifest.json"]).unwrap();
    let image = &docker[0];
    assert_eq!(image["Config"], blob(&manifest["config"]));
    let layers = manifest["layers"].as_array().unwrap();
    assert_eq!(layers.len(), 3);
    let names: Vec<Value> = layers.iter().map(|layer| blob(layer).into()).collect();
    assert_eq!(image["Layers"], Value::Array(names));
    let digest = layers[2]["digest"].as_str().unwrap();
    assert_eq!(image["LayerSources"][digest], layers[2]);
    let again = align(&path, None).unwrap();
    assert!(again.images[0].layer.is_none());
}

const NO_ARCHIVE: &str =
    "image.tar: is no tar archive: name an OCI layout, or an archive of docker save";

#[test]
fn what_is_no_archive_of_images_is_refused_by_what_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let docker = docker_archive(&layers());
    let mut odd = layers();
    odd[1].diff_id = sha256(b"other");
    let cases: [(Vec<u8>, &str); 6] = [
        (gzip(&docker), "is compressed: `gunzip` it first"),
        (
            Archive::new().file("usr/bin/x", b"x").bytes(),
            "is no archive of images",
        ),
        (b"text".to_vec(), NO_ARCHIVE),
        (vec![b'x'; 5000], NO_ARCHIVE),
        (docker[..docker.len() / 2].to_vec(), "is cut short"),
        (
            docker_archive(&odd),
            "image.tar: two/layer.tar: its digest is",
        ),
    ];
    for (bytes, why) in cases {
        let path = written(dir.path(), &bytes);
        let text = align(&path, None).unwrap_err().to_string();
        assert!(
            text.contains("image.tar") && text.contains(why),
            "'{text}' lacks '{why}'"
        );
        assert!(fs::read(&path).unwrap() == bytes);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
    let manifest = br#"[{"Config":"c.json","Layers":["gone.tar"]}]"#;
    let config = serde_json::to_vec(&config("amd64", &layers()[..1])).unwrap();
    let archive = Archive::new()
        .file("manifest.json", manifest)
        .file("c.json", &config);
    let path = written(dir.path(), &archive.bytes());
    let text = align(&path, None).unwrap_err().to_string();
    assert!(
        text.contains("image.tar: gone.tar: is missing, but"),
        "{text}"
    );
}
