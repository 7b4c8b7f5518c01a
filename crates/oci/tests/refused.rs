// SPDX-License-Identifier: GPL-2.0-only
//! Images that are wrong: each is refused with the file and the value that are, and no byte of it
//! changes.

#![allow(missing_docs)]

#[allow(dead_code)]
mod common;
#[path = "../../elf/tests/common/image.rs"]
#[allow(dead_code)]
mod image;
#[path = "../../wideleaf/tests/common/library.rs"]
mod library;

use common::{Archive, Layer, Layout, M, config, files, gzip, sha256, zstd};
use serde_json::{Value, json};
use std::fs;
use wideleaf_oci::{Error, Options, align};

fn good() -> Layer {
    Layer::gzip(Archive::new().file("usr/lib/libx.so", &library::library(5 * M)))
}

fn refused(layout: &Layout) -> Error {
    let before = files(&layout.root());
    let options = Options::new(wideleaf_align::Options::new(2 * M));
    let observer = |_: wideleaf_kit::events::Event<'_>| {};
    let error = align(&layout.root(), None, &options, &observer).unwrap_err();
    assert!(
        before == files(&layout.root()),
        "nothing may change: {error}"
    );
    error
}

/// The message holds all of it.
fn says(error: &Error, words: &[&str]) {
    let text = error.to_string();
    for word in words {
        assert!(text.contains(word), "'{text}' lacks '{word}'");
    }
}

/// A layout whose manifest was changed by `change`.
fn with_manifest(change: impl FnOnce(&mut Value)) -> Layout {
    let layout = Layout::new();
    let descriptor = layout.image("amd64", &[good()]);
    let mut manifest = layout.json(&descriptor["digest"]);
    change(&mut manifest);
    let kind = descriptor["mediaType"].as_str().unwrap();
    layout.index(&[layout.put_json(kind, &manifest)]);
    layout
}

/// A layout whose configuration was changed by `change`.
fn with_config(change: impl FnOnce(&mut Value)) -> Layout {
    let layout = Layout::new();
    let layers = [good()];
    let mut config = config("amd64", &layers);
    change(&mut config);
    layout.index(&[layout.image_of(&config, &layers)]);
    layout
}

/// The digests of manifest, configuration and first layer.
fn digests(layout: &Layout) -> [String; 3] {
    let manifest = layout.read_index()["manifests"][0]["digest"].clone();
    let value = layout.json(&manifest);
    [
        &manifest,
        &value["config"]["digest"],
        &value["layers"][0]["digest"],
    ]
    .map(|digest| digest.as_str().unwrap().to_owned())
}

#[test]
fn a_blob_with_another_digest_than_its_name() {
    for which in 0..3 {
        let layout = Layout::of(&[good()]);
        let digest = &digests(&layout)[which];
        let path = layout.blob_path(digest);
        let mut bytes = fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&path, &bytes).unwrap();
        let error = refused(&layout);
        assert!(matches!(error, Error::Digest { .. }), "{error}");
        says(
            &error,
            &[&path.display().to_string(), digest, &sha256(&bytes)],
        );
    }
}

#[test]
fn a_blob_that_is_missing_or_has_another_size() {
    for which in 0..3 {
        let layout = Layout::of(&[good()]);
        let path = layout.blob_path(&digests(&layout)[which]);
        let shown = path.display().to_string();
        let size = fs::metadata(&path).unwrap().len();
        fs::OpenOptions::new()
            .append(true)
            .open(&path)
            .unwrap()
            .set_len(size - 1)
            .unwrap();
        let error = refused(&layout);
        assert!(matches!(error, Error::Size { .. }), "{error}");
        says(
            &error,
            &[&shown, &size.to_string(), &(size - 1).to_string()],
        );
        fs::remove_file(&path).unwrap();
        let error = refused(&layout);
        says(&error, &[&format!("{shown}: is missing")]);
        // Nothing waits for a writer.
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let options = Options::new(wideleaf_align::Options::new(2 * M));
        let observer = |_: wideleaf_kit::events::Event<'_>| {};
        let error = align(&layout.root(), None, &options, &observer).unwrap_err();
        says(&error, &[&shown, "is no regular file"]);
    }
}

#[test]
fn an_archive_with_a_name_that_leads_out() {
    let cases = [
        (
            Archive::new().file("../etc/passwd", b"x"),
            "entry '../etc/passwd': its name leads out",
        ),
        (
            Archive::new().file("usr/../../x", b"x"),
            "entry 'usr/../../x'",
        ),
        (Archive::new().folder("a/../..", 0o755), "entry 'a/../..'"),
        (
            Archive::new().hard_link("x", "../../etc/shadow"),
            "entry 'x': is a hard link to ../../etc/shadow, which leads out",
        ),
        (
            Archive::new().hard_link("x", "etc/shadow"),
            "a hard link to etc/shadow, which is not there",
        ),
        (
            Archive::new().file("a/.wh.", b""),
            "entry 'a/.wh.': is a whiteout of no name",
        ),
        (
            Archive::new().file("a/.wh...", b""),
            "is a whiteout of no name",
        ),
        (
            Archive::new().typed("x", b'M'),
            "entry 'x': has the type 'M'",
        ),
        (
            Archive::new().file("a", b"").file("a/b", b""),
            "entry 'a/b': its folder is a file",
        ),
        (
            Archive::new().symlink("a", "a").file("a/b", b""),
            "symbolic links that lead nowhere",
        ),
    ];
    for (archive, why) in cases {
        let layer = Layer::gzip(archive);
        let layout = Layout::of(&[good(), layer.clone()]);
        let error = refused(&layout);
        let path = layout.blob_path(&sha256(&layer.bytes));
        says(&error, &[&path.display().to_string(), why]);
    }
}

#[test]
fn a_layer_of_an_unknown_type_or_with_another_content_than_its_type() {
    let kind = "application/vnd.oci.image.layer.v1.tar+gzip+encrypted";
    let layout = with_manifest(|manifest| manifest["layers"][0]["mediaType"] = kind.into());
    let at = layout.blob_path(&digests(&layout)[0]).display().to_string();
    says(&refused(&layout), &[&at, "layers[0].mediaType is", kind]);
    for (kind, how) in [
        (
            "application/vnd.oci.image.layer.v1.tar",
            "is no tar archive: the header at byte 0",
        ),
        (
            "application/vnd.oci.image.layer.v1.tar+zstd",
            "its zstd stream is damaged",
        ),
    ] {
        let layout = with_manifest(|manifest| manifest["layers"][0]["mediaType"] = kind.into());
        let at = layout.blob_path(&digests(&layout)[2]).display().to_string();
        says(&refused(&layout), &[&at, how]);
    }
}

#[test]
fn a_layer_that_was_cut_short_before_its_digest_was_taken() {
    let whole = Archive::new()
        .file("usr/lib/libx.so", &library::library(5 * M))
        .bytes();
    type Compress = fn(&[u8]) -> Vec<u8>;
    let compress: [(&str, Compress, &str); 3] = [
        (
            "+gzip",
            gzip,
            "is cut short: its gzip stream ends too early",
        ),
        (
            "+zstd",
            zstd,
            "is cut short: its zstd stream ends too early",
        ),
        ("", <[u8]>::to_vec, "is cut short: it ends within an entry"),
    ];
    for (suffix, compress, how) in compress {
        let bytes = compress(&whole);
        let layer = Layer {
            media_type: format!("application/vnd.oci.image.layer.v1.tar{suffix}"),
            diff_id: sha256(&whole),
            bytes: bytes[..bytes.len() / 2].to_vec(),
        };
        let layout = Layout::of(std::slice::from_ref(&layer));
        let at = layout
            .blob_path(&sha256(&layer.bytes))
            .display()
            .to_string();
        says(&refused(&layout), &[&format!("{at}: {how}")]);
    }
}

#[test]
fn a_configuration_that_does_not_fit_the_layers() {
    let other = sha256(b"other");
    let layout = with_config(|config| config["rootfs"]["diff_ids"][0] = other.clone().into());
    let [_, config, layer] = digests(&layout).map(|d| layout.blob_path(&d).display().to_string());
    says(
        &refused(&layout),
        &[
            &layer,
            &config,
            "rootfs.diff_ids[0]",
            &other,
            &good().diff_id,
        ],
    );
    let layout = with_config(|config| config["rootfs"]["diff_ids"] = json!([]));
    says(
        &refused(&layout),
        &["the number of rootfs.diff_ids is 0, must be 1"],
    );
    let layout = with_config(|config| config["rootfs"] = json!(null));
    says(
        &refused(&layout),
        &["rootfs.diff_ids is missing, must be a list"],
    );
    let layout = with_config(|config| config["history"][0]["empty_layer"] = true.into());
    says(
        &refused(&layout),
        &["entries of history with a layer is 0, must be 1"],
    );
    let layout = with_config(|config| config["rootfs"]["diff_ids"][0] = "md5:0".into());
    says(
        &refused(&layout),
        &["rootfs.diff_ids[0] is 'md5:0', must be a digest of sha256 or sha512"],
    );
}

#[test]
fn documents_that_are_damaged() {
    let layout = with_manifest(|manifest| manifest["schemaVersion"] = 1.into());
    says(&refused(&layout), &["schemaVersion is 1, must be 2"]);
    let layout = with_manifest(|manifest| manifest["config"]["size"] = "big".into());
    says(
        &refused(&layout),
        &["config.size is \"big\", must be a number"],
    );
    let layout = with_manifest(|manifest| manifest["layers"][0]["digest"] = "sha256:..".into());
    says(&refused(&layout), &["layers[0].digest is 'sha256:..'"]);
    let layout = Layout::of(&[good()]);
    let index = layout.path("index.json");
    let shown = index.display().to_string();
    fs::write(&index, b"{\"schemaVersion\": 2, ").unwrap();
    says(&refused(&layout), &[&shown, "is no valid JSON", "line 1"]);
    fs::write(&index, vec![b' '; 17 << 20]).unwrap();
    says(
        &refused(&layout),
        &[&shown, "its size is 17825792 bytes, must be at most 16M"],
    );
    layout.index(&[]);
    says(&refused(&layout), &[&shown, "holds no image"]);
    fs::remove_file(&index).unwrap();
    says(&refused(&layout), &[&shown, "is missing", "oci-layout"]);
    fs::write(layout.path("oci-layout"), r#"{"imageLayoutVersion":"2.0"}"#).unwrap();
    says(
        &refused(&layout),
        &["imageLayoutVersion is \"2.0\", must be 1.0.0"],
    );
    fs::remove_file(layout.path("oci-layout")).unwrap();
    says(
        &refused(&layout),
        &["is no OCI layout: it has no file oci-layout"],
    );
    fs::create_dir(layout.path("usr")).unwrap();
    says(&refused(&layout), &["a root file system: align it by -r"]);
    fs::write(layout.path("manifest.json"), "").unwrap();
    fs::write(layout.path("version"), "").unwrap();
    says(&refused(&layout), &["skopeo copy dir:OLD oci:NEW:TAG"]);
}

#[test]
fn indexes_that_lead_on_and_on() {
    let layout = Layout::new();
    let kind = "application/vnd.oci.image.index.v1+json";
    let mut inner = layout.image("amd64", &[good()]);
    for _ in 0..9 {
        let index = json!({ "schemaVersion": 2, "manifests": [inner] });
        inner = layout.put_json(kind, &index);
    }
    layout.index(&[inner]);
    says(
        &refused(&layout),
        &["an index in an index, must be at most 8 indexes deep"],
    );
}
