// SPDX-License-Identifier: GPL-2.0-only
//! Images in OCI layouts are aligned: the new layer, and all that stays.

#![allow(missing_docs)]

#[allow(dead_code)]
mod common;
#[path = "../../elf/tests/common/image.rs"]
#[allow(dead_code)]
mod image;
#[path = "../../wideleaf/tests/common/library.rs"]
mod library;

use common::{Archive, Layer, Layout, M, config, entries, files, gunzip, sha256};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use wideleaf_elf::Elf;
use wideleaf_oci::report::Outcome;
use wideleaf_oci::{Error, Options, Report};

const LEAF: u64 = 2 * M;

/// Its text gains one leaf or more.
fn gaining(code: u64) -> Vec<u8> {
    library::library(code)
}

fn options() -> Options {
    Options::new(wideleaf_align::Options {
        note: true,
        strippable: true,
        ..wideleaf_align::Options::new(LEAF)
    })
}

fn align(path: &Path) -> Result<Report, Error> {
    wideleaf_oci::align(path, None, &options(), &|_: wideleaf_kit::events::Event<
        '_,
    >| {})
}

fn align_to(path: &Path, output: &Path) -> Result<Report, Error> {
    let observer = |_: wideleaf_kit::events::Event<'_>| {};
    wideleaf_oci::align(path, Some(output), &options(), &observer)
}

fn paths(report: &Report) -> Vec<&str> {
    let files = report.images.iter().flat_map(|image| &image.files);
    files.map(|file| file.path.to_str().unwrap()).collect()
}

/// The archive in the topmost layer of the manifest that this descriptor names.
fn top(layout: &Layout, manifest: &Value) -> Vec<u8> {
    let manifest = layout.json(&manifest["digest"]);
    let layer = manifest["layers"].as_array().unwrap().last().unwrap();
    let bytes = fs::read(layout.blob_path(layer["digest"].as_str().unwrap())).unwrap();
    match layer["mediaType"].as_str().unwrap().ends_with("gzip") {
        true => gunzip(&bytes),
        false => bytes,
    }
}

fn two_layers() -> Vec<Layer> {
    vec![
        Layer::gzip(
            Archive::new()
                .folder("./", 0o755)
                .folder("./usr/", 0o755)
                .folder("./usr/lib/", 0o711)
                .file("./usr/lib/libx.so", &gaining(5 * M))
                .file("./usr/lib/small.so", &gaining(M))
                .symlink("./lib", "usr/lib"),
        ),
        Layer::zstd(
            Archive::new()
                .file("usr/bin/script", b"#!/bin/sh\n")
                .records(&[("SCHILY.xattr.user.note", b"a"), ("mtime", b"1600000000.5")])
                .file("usr/bin/app", &gaining(7 * M)),
        ),
    ]
}

#[test]
fn one_layer_of_the_files_that_gain_is_added_and_all_else_stays() {
    let layout = Layout::of(&two_layers());
    let before = files(&layout.root());
    let old = layout.read_index()["manifests"][0].clone();
    let report = align(&layout.root()).unwrap();
    assert_eq!(paths(&report), ["/usr/bin/app", "/usr/lib/libx.so"]);
    let Outcome::Aligned {
        usable_before,
        usable_after,
        ..
    } = report.images[0].files[0].outcome
    else {
        panic!("it was aligned");
    };
    assert_eq!((usable_before, usable_after), (0, 4 * M));
    assert_eq!(report.images[0].names, ["latest"]);
    assert_eq!(report.images[0].platform, "linux/amd64");

    let after = files(&layout.root());
    for (name, bytes) in &before {
        if name != Path::new("index.json") {
            assert!(after[name] == *bytes, "{} changed", name.display());
        }
    }
    // Layer, configuration, manifest.
    assert_eq!(after.len(), before.len() + 3);
    for (name, bytes) in &after {
        if let Ok(digits) = name.strip_prefix("blobs/sha256") {
            assert_eq!(sha256(bytes), format!("sha256:{}", digits.display()));
        }
    }
    let new = layout.read_index()["manifests"][0].clone();
    assert_eq!(new["annotations"], old["annotations"]);
    assert_eq!(
        report.images[0].manifest_before.as_ref().unwrap(),
        &old["digest"]
    );
    assert_eq!(
        report.images[0].manifest_after.as_ref().unwrap(),
        &new["digest"]
    );
    let size = fs::metadata(layout.blob_path(new["digest"].as_str().unwrap()))
        .unwrap()
        .len();
    assert_eq!(new["size"], size);

    let (old, new) = (layout.json(&old["digest"]), layout.json(&new["digest"]));
    assert_eq!(new["annotations"], old["annotations"]);
    let layers = new["layers"].as_array().unwrap();
    assert_eq!(layers[..2], old["layers"].as_array().unwrap()[..]);
    let kind = "application/vnd.oci.image.layer.v1.tar+gzip";
    assert_eq!((layers.len(), &layers[2]["mediaType"]), (3, &kind.into()));

    let (old, new) = (
        layout.json(&old["config"]["digest"]),
        layout.json(&new["config"]["digest"]),
    );
    for field in ["created", "architecture", "os", "config", "x.unknown"] {
        assert_eq!(old[field], new[field], "{field}");
    }
    let ids = new["rootfs"]["diff_ids"].as_array().unwrap();
    assert_eq!(ids[..2], old["rootfs"]["diff_ids"].as_array().unwrap()[..]);
    let archive = top(&layout, &layout.read_index()["manifests"][0]);
    assert_eq!(ids[2], sha256(&archive));
    let history = new["history"].as_array().unwrap();
    assert_eq!(history[..3], old["history"].as_array().unwrap()[..]);
    let last = json!({
        "created": "2020-01-01T00:00:00Z",
        "created_by": "wideleaf align --oci",
        "comment": "2 files aligned for leaves of 2M",
    });
    assert_eq!((history.len(), &history[3]), (4, &last));

    let found = entries(&archive);
    let names: Vec<&str> = found.iter().map(|entry| &entry.path[..]).collect();
    assert_eq!(
        names,
        ["usr/", "usr/bin/app", "usr/lib/", "usr/lib/libx.so"]
    );
    let [usr, app, lib, library] = &found[..] else {
        panic!("four");
    };
    assert_eq!((usr.mode, lib.mode, lib.uid), (0o755, 0o711, 1000));
    assert_eq!((app.mode, app.uid, app.mtime), (0o755, 1000, 1_600_000_000));
    let records: [(String, Vec<u8>); 2] = [
        ("SCHILY.xattr.user.note".into(), b"a".into()),
        ("mtime".into(), b"1600000000.5".into()),
    ];
    assert_eq!(app.records, records);
    assert_eq!(library.mode, 0o755);
    for entry in [app, library] {
        assert!(wideleaf_align::is_aligned(
            &Elf::read(&&entry.bytes[..]).unwrap(),
            LEAF
        ));
    }
}

#[test]
fn the_same_image_gives_the_same_bytes_and_an_aligned_one_stays() {
    let (one, other) = (Layout::of(&two_layers()), Layout::of(&two_layers()));
    align(&one.root()).unwrap();
    align(&other.root()).unwrap();
    let after = files(&one.root());
    assert!(after == files(&other.root()));
    let report = align(&one.root()).unwrap();
    assert!(report.images[0].manifest_after.is_none() && paths(&report).is_empty());
    assert!(after == files(&one.root()));
}

#[test]
fn an_image_in_which_nothing_gains_and_a_dry_run_leave_every_byte() {
    let layer = Layer::gzip(Archive::new().file("a", b"text").file("b.so", &gaining(M)));
    let layout = Layout::of(&[layer]);
    let before = files(&layout.root());
    assert!(align(&layout.root()).unwrap().images[0].files.is_empty());
    assert!(before == files(&layout.root()));
    let layout = Layout::of(&two_layers());
    let before = files(&layout.root());
    let mut options = options();
    options.align.dry_run = true;
    let observer = |_: wideleaf_kit::events::Event<'_>| {};
    let report = wideleaf_oci::align(&layout.root(), None, &options, &observer).unwrap();
    assert_eq!(paths(&report).len(), 2);
    assert!(report.images[0].layer.is_none());
    assert!(before == files(&layout.root()));
}

#[test]
fn overlay_aligns_no_library_so_one_that_ext4_would_align_gains() {
    let library = library::by_gnu_ld(5 * M);
    let layout = Layout::of(&[Layer::plain(Archive::new().file("lib.so", &library))]);
    let report = align(&layout.root()).unwrap();
    let Outcome::Aligned {
        usable_before,
        usable_after,
        ..
    } = report.images[0].files[0].outcome
    else {
        panic!("{report:?}");
    };
    assert_eq!((usable_before, usable_after), (0, 2 * M));
}

#[test]
fn only_what_containers_see_is_aligned() {
    let library = gaining(5 * M);
    let layout = Layout::of(&[
        Layer::plain(
            Archive::new()
                .file("gone", &library)
                .file("hidden/x", &library)
                .file("replaced", &library)
                .file("usr/lib/a", &library)
                .hard_link("usr/lib/b", "usr/lib/a")
                .symlink("lib", "/usr/lib"),
        ),
        Layer::plain(
            Archive::new()
                .file(".wh.gone", b"")
                .file("hidden/.wh..wh..opq", b"")
                .file("replaced", b"text")
                .hard_link("c", "usr/lib/b")
                .file("lib/new", &library),
        ),
    ]);
    let report = align(&layout.root()).unwrap();
    assert_eq!(paths(&report), ["/c", "/usr/lib/new"]);
    let links = &report.images[0].files[0].links;
    assert_eq!(links, &["/usr/lib/a", "/usr/lib/b"].map(Path::new));
    let found = entries(&top(&layout, &layout.read_index()["manifests"][0]));
    let found: Vec<_> = found.iter().map(|e| (&e.path[..], &e.link[..])).collect();
    let expected = [
        ("c", ""),
        ("usr/lib/a", "c"),
        ("usr/lib/b", "c"),
        ("usr/lib/new", ""),
    ];
    assert_eq!(found, expected);
    // As the other layers, so that archives that hold them stay readable.
    let manifest = layout.json(&layout.read_index()["manifests"][0]["digest"]);
    let kind = &manifest["layers"][2]["mediaType"];
    assert_eq!(kind, "application/vnd.oci.image.layer.v1.tar");
}

#[test]
fn each_platform_of_an_index_is_aligned_and_the_rest_is_left_by_name() {
    let layout = Layout::new();
    let amd64 = layout.image("amd64", &two_layers());
    let arm64 = layout.image("arm64", &two_layers()[..1]);
    let mut windows = config("amd64", &two_layers());
    windows["os"] = "windows".into();
    let windows = layout.image_of(&windows, &two_layers());
    let mut about = layout.manifest(
        &layout.put_json("application/vnd.oci.image.config.v1+json", &json!({})),
        vec![layout.put("application/vnd.in-toto+json", b"{}")],
    );
    about["annotations"] = json!({
        "vnd.docker.reference.digest": amd64["digest"],
        "vnd.docker.reference.type": "attestation-manifest",
    });
    let chart = layout.put_json("application/vnd.cncf.helm.config.v1+json", &json!({}));
    let chart = layout.manifest(&chart, vec![]);
    let mut entries: Vec<Value> = Vec::new();
    for (descriptor, architecture) in [(&amd64, "amd64"), (&arm64, "arm64")] {
        let mut entry = descriptor.clone();
        entry["platform"] = json!({ "architecture": architecture, "os": "linux" });
        entries.push(entry);
    }
    entries.extend([windows, about.clone()]);
    let kind = "application/vnd.oci.image.index.v1+json";
    let nested = json!({ "schemaVersion": 2, "mediaType": kind, "manifests": entries });
    let mut nested = layout.put_json(kind, &nested);
    nested["annotations"] = json!({ "io.containerd.image.name": "docker.io/library/x:1" });
    let unknown = layout.put("text/plain", b"x");
    let mut again = amd64.clone();
    again["annotations"] = json!({ "org.opencontainers.image.ref.name": "again" });
    layout.index(&[nested.clone(), chart, unknown, again]);

    let report = align(&layout.root()).unwrap();
    let platforms: Vec<&str> = report.images.iter().map(|i| &i.platform[..]).collect();
    assert_eq!(platforms, ["linux/amd64", "linux/arm64"]);
    assert_eq!(report.images[0].names, ["again"]);
    assert_eq!(
        report.images[0].about_old,
        [about["digest"].as_str().unwrap()]
    );
    assert!(report.images[1].about_old.is_empty());
    let left: Vec<&str> = report.left.iter().map(|left| &left.reason[..]).collect();
    let expected = [
        "is an image for windows/amd64, not for Linux",
        "is about another manifest",
        "is no image: its config is application/vnd.cncf.helm.config.v1+json",
        "its media type text/plain is no image's",
    ];
    assert_eq!(left, expected);

    let index = layout.read_index();
    let index = index["manifests"].as_array().unwrap();
    assert_eq!(index[0]["annotations"], nested["annotations"]);
    let new = layout.json(&index[0]["digest"]);
    let new = new["manifests"].as_array().unwrap();
    assert_eq!(new[0]["platform"]["architecture"], "amd64");
    assert_eq!(new[1]["platform"]["architecture"], "arm64");
    assert_ne!(new[0]["digest"], amd64["digest"]);
    assert_eq!(new[3], entries[3]);
    assert_eq!(index[3]["digest"], new[0]["digest"]);
    for manifest in &new[..2] {
        let manifest = layout.json(&manifest["digest"]);
        layout.json(&manifest["config"]["digest"]);
    }

    let mut options = options();
    options.platforms = vec!["linux/riscv64".to_owned()];
    let observer = |_: wideleaf_kit::events::Event<'_>| {};
    let error = wideleaf_oci::align(&layout.root(), None, &options, &observer).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("linux/arm64, which was not asked for"),
        "{text}"
    );
}

#[test]
fn docker_s_media_types_stay_docker_s() {
    let layout = Layout::new();
    let layers = two_layers();
    let config = layout.put_json(
        "application/vnd.docker.container.image.v1+json",
        &config("amd64", &layers[..1]),
    );
    let layer = "application/vnd.docker.image.rootfs.diff.tar.gzip";
    let kind = "application/vnd.docker.distribution.manifest.v2+json";
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": kind,
        "config": config,
        "layers": [layout.put(layer, &layers[0].bytes)],
    });
    layout.index(&[layout.put_json(kind, &manifest)]);
    align(&layout.root()).unwrap();
    let entry = layout.read_index()["manifests"][0].clone();
    assert_eq!(entry["mediaType"], kind);
    let manifest = layout.json(&entry["digest"]);
    assert_eq!(manifest["layers"][1]["mediaType"], layer);
}

#[test]
fn an_epoch_bounds_the_times_of_what_is_new() {
    let layout = Layout::of(&two_layers());
    let mut options = options();
    options.epoch = Some(1_500_000_000);
    let observer = |_: wideleaf_kit::events::Event<'_>| {};
    wideleaf_oci::align(&layout.root(), None, &options, &observer).unwrap();
    let manifest = layout.read_index()["manifests"][0].clone();
    for entry in entries(&top(&layout, &manifest)) {
        assert_eq!(entry.mtime, 1_500_000_000, "{}", entry.path);
        assert!(entry.records.iter().all(|(key, _)| key != "mtime"));
    }
    let manifest = layout.json(&manifest["digest"]);
    let config = layout.json(&manifest["config"]["digest"]);
    assert_eq!(config["created"], "2017-07-14T02:40:00Z");
    assert_eq!(config["history"][3]["created"], "2017-07-14T02:40:00Z");
}

#[test]
fn files_that_changing_would_harm_are_refused_by_name_unless_forced() {
    let library = gaining(5 * M);
    let layers = [Layer::gzip(
        Archive::new()
            .moded("su", 0o4755, &library)
            .records(&[("SCHILY.xattr.security.ima", b"\x03")])
            .file("signed", &library)
            .file("usr/lib/libgnutls.so", &library)
            .file("usr/lib/.libgnutls.so.hmac", b"0123"),
    )];
    let layout = Layout::of(&layers);
    let report = align(&layout.root()).unwrap();
    let outcomes: Vec<_> = report.images[0].files.iter().map(|f| &f.outcome).collect();
    let [signed, su, library] = outcomes[..] else {
        panic!("three: {outcomes:?}");
    };
    let refused = |outcome: &Outcome, why: &str| match outcome {
        Outcome::Refused { reason } => assert!(reason.contains(why), "{reason}"),
        other => panic!("{other:?}"),
    };
    refused(su, "is setuid");
    refused(signed, "security.ima");
    let Outcome::Aligned {
        signatures_broken, ..
    } = library
    else {
        panic!("{library:?}");
    };
    assert_eq!(signatures_broken[..], ["/usr/lib/.libgnutls.so.hmac"]);
    let layout = Layout::of(&layers);
    let mut options = options();
    options.align.force = true;
    let observer = |_: wideleaf_kit::events::Event<'_>| {};
    wideleaf_oci::align(&layout.root(), None, &options, &observer).unwrap();
    let found = entries(&top(&layout, &layout.read_index()["manifests"][0]));
    let names: Vec<_> = found
        .iter()
        .map(|e| (&e.path[..], e.mode, e.records.len()))
        .collect();
    let expected = [
        ("signed", 0o755, 0),
        ("su", 0o4755, 0),
        ("usr/lib/libgnutls.so", 0o755, 0),
    ];
    assert_eq!(names, expected);
}

#[test]
fn a_new_layout_is_written_whole_and_the_old_one_not_at_all() {
    let layout = Layout::of(&two_layers());
    let before = files(&layout.root());
    let output = layout.dir.path().join("new");
    align_to(&layout.root(), &output).unwrap();
    assert!(before == files(&layout.root()));
    let in_place = Layout::of(&two_layers());
    align(&in_place.root()).unwrap();
    assert!(files(&output) == files(&in_place.root()));
    let error = align_to(&layout.root(), &output).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("{}: exists already, must be a new name", output.display())
    );
    let names = fs::read_dir(layout.dir.path()).unwrap().count();
    assert_eq!(names, 2, "nothing else is left");
}

#[test]
fn another_process_that_has_it_or_replaces_it_is_respected() {
    let layout = Layout::of(&two_layers());
    let folder = fs::File::open(layout.root()).unwrap();
    let lock = nix::fcntl::Flock::lock(folder, nix::fcntl::FlockArg::LockExclusive).unwrap();
    let error = align(&layout.root()).unwrap_err().to_string();
    assert!(error.contains("is locked by another process"), "{error}");
    drop(lock);
    // Somebody else puts an image while this one is read.
    let index = layout.path("index.json");
    let other = br#"{"schemaVersion":2,"manifests":[]}"#;
    let observer = |_: wideleaf_kit::events::Event<'_>| fs::write(&index, other).unwrap();
    let error = wideleaf_oci::align(&layout.root(), None, &options(), &observer).unwrap_err();
    assert!(matches!(error, Error::Changed(_)), "{error}");
    assert!(fs::read(&index).unwrap() == other);
}
