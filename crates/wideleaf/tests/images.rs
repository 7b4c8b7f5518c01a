// SPDX-License-Identifier: GPL-2.0-only
//! `wideleaf align` of root file systems and container images, as a user runs it.

#![allow(missing_docs)]

#[path = "../../elf/tests/common/image.rs"]
#[allow(dead_code)]
mod image;
#[path = "common/kill.rs"]
mod kill;
#[path = "common/library.rs"]
mod library;
#[path = "../../oci/tests/common/mod.rs"]
#[allow(dead_code)]
mod oci;
#[path = "common/text.rs"]
mod text;

use kill::killed_after;
use oci::{Archive, Layer, Layout, M, files, sha256};
use serde_json::Value;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use text::text;

fn wideleaf() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wideleaf"));
    command.arg("align").env_remove("SOURCE_DATE_EPOCH");
    command
}

fn run(args: &[&str], path: &Path) -> Output {
    wideleaf().args(args).arg(path).output().unwrap()
}

fn done(args: &[&str], path: &Path) -> String {
    let output = run(args, path);
    assert!(
        output.status.success(),
        "{args:?}: {}",
        text(&output.stderr)
    );
    text(&output.stdout)
}

fn json(output: &str) -> Value {
    serde_json::from_str(output).unwrap()
}

/// With a program that gains, one that is setuid, one that does not, and links.
fn rootfs() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let gaining = library::library(5 * M);
    fs::create_dir_all(at("usr/lib")).unwrap();
    fs::write(at("usr/lib/libx.so.1.2"), &gaining).unwrap();
    symlink("libx.so.1.2", at("usr/lib/libx.so")).unwrap();
    symlink("usr/lib", at("lib")).unwrap();
    symlink("/usr", at("host")).unwrap();
    fs::hard_link(at("usr/lib/libx.so.1.2"), at("other")).unwrap();
    fs::write(at("usr/lib/small.so"), library::library(M)).unwrap();
    fs::write(at("su"), &gaining).unwrap();
    fs::set_permissions(at("su"), Permissions::from_mode(0o4755)).unwrap();
    fs::write(at("script"), "#!/bin/sh\n").unwrap();
    dir
}

#[test]
fn a_library_that_only_a_hosts_file_system_aligns_gains_below_a_root() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("lib.so"), library::by_gnu_ld(5 * M)).unwrap();
    let report = json(&done(&["-r", "--json"], dir.path()));
    let file = &report["files"][0];
    assert_eq!(file["usable_before"], 0, "{report}");
    assert_eq!(file["usable_after"], 2 * M, "{report}");
    let again = json(&done(&["-r", "--json"], dir.path()));
    assert_eq!(again["files"], serde_json::json!([]), "{again}");
}

#[test]
fn a_root_file_system_is_aligned_in_place_and_restored() {
    let dir = rootfs();
    let at = |name: &str| dir.path().join(name);
    let before = files(dir.path());
    let dry = json(&done(
        &["-r", "--only-gaining", "--dry-run", "--json"],
        dir.path(),
    ));
    assert!(files(dir.path()) == before);
    assert_eq!(dry["looked_at"], 3);
    let output = run(&["-r", "--only-gaining"], dir.path());
    assert!(
        output.status.success(),
        "what is refused below a folder is no failure"
    );
    let errors = text(&output.stderr);
    assert!(errors.contains("/su: is setuid: --force"), "{errors}");
    let table = text(&output.stdout);
    assert_eq!(table.lines().count(), 3, "{table}");
    let after = files(dir.path());
    for (name, bytes) in &before {
        let gains = ["usr/lib/libx.so.1.2", "other"].map(Path::new);
        let same = after[name] == *bytes;
        assert!(same != gains.contains(&&**name), "{}", name.display());
    }
    let (one, other) = (at("usr/lib/libx.so.1.2"), at("other"));
    assert_eq!(
        one.metadata().unwrap().ino(),
        other.metadata().unwrap().ino()
    );
    assert!(
        at("usr/lib/libx.so")
            .symlink_metadata()
            .unwrap()
            .is_symlink()
    );
    let again = run(&["-r"], dir.path());
    assert!(again.status.success());
    done(&["-r", "--restore"], dir.path());
    assert!(files(dir.path()) == before);
    let none = run(&["-r", "--restore"], dir.path());
    let said = text(&none.stderr);
    assert!(
        said.contains("of 3 programs and libraries none was aligned"),
        "{said}"
    );
}

#[test]
fn a_folder_that_is_not_there_is_a_failure() {
    let output = run(&["-r"], Path::new("/no/such/folder"));
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("/no/such/folder: cannot open"));
    let output = run(&[], Path::new("/usr/bin/true"));
    assert_eq!(output.status.code(), Some(2), "a file needs -n, -i or -o");
}

fn layout() -> Layout {
    let layer = Layer::gzip(
        Archive::new()
            .file("usr/lib/libx.so", &library::library(5 * M))
            .moded("su", 0o4755, &library::library(5 * M)),
    );
    Layout::of(&[layer])
}

#[test]
fn images_are_aligned_in_a_folder_and_said_in_text_and_json() {
    let layout = layout();
    let root = layout.root();
    let dry = done(&["--oci", "--dry-run"], &root);
    assert!(
        dry.contains("latest linux/amd64: 1 file would be aligned"),
        "{dry}"
    );
    let output = run(&["--oci"], &root);
    assert!(output.status.success());
    assert!(text(&output.stderr).contains("linux/amd64: /su: is setuid"));
    let said = text(&output.stdout);
    let index = layout.read_index();
    let digest = index["manifests"][0]["digest"].as_str().unwrap();
    for part in [
        " latest linux/amd64: 1 file aligned\n",
        "/usr/lib/libx.so\n",
        digest,
    ] {
        assert!(said.contains(part), "{said}");
    }
    let value = json(&done(&["--oci", "--json"], &root));
    assert_eq!(value["schema"], "wideleaf-align-oci-1");
    let image = &value["inputs"][0]["images"][0];
    assert_eq!(
        (&image["manifest_before"], &image["layer"]),
        (&digest.into(), &Value::Null)
    );
    assert_eq!(image["files"][0]["status"], "refused");
    assert_eq!(image["files"][0]["path"], "/su");

    let copy = layout.dir.path().join("copy");
    done(
        &[
            "--oci",
            "--force",
            "--no-note",
            "-o",
            copy.to_str().unwrap(),
        ],
        &root,
    );
    assert!(copy.join("index.json").is_file());
    let output = run(&["--oci", "-o", root.to_str().unwrap()], &copy);
    assert!(output.status.success(), "into the folder that is there");
    assert!(root.join("copy/index.json").is_file());

    let output = run(&["--oci"], &layout.dir.path().join("none"));
    assert_eq!(output.status.code(), Some(1));
    let output = wideleaf()
        .arg("--oci")
        .arg(&root)
        .env("SOURCE_DATE_EPOCH", "soon")
        .output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    assert!(
        said.contains("SOURCE_DATE_EPOCH is 'soon', must be a number"),
        "{said}"
    );
}

/// Everything that index.json leads to is there and is what its name says.
fn valid(layout: &Layout) {
    let index = layout.read_index();
    for entry in index["manifests"].as_array().unwrap() {
        let manifest = layout.json(&entry["digest"]);
        let config = layout.json(&manifest["config"]["digest"]);
        let layers = manifest["layers"].as_array().unwrap();
        assert_eq!(
            config["rootfs"]["diff_ids"].as_array().unwrap().len(),
            layers.len()
        );
        for layer in layers {
            let digest = layer["digest"].as_str().unwrap();
            let bytes = fs::read(layout.blob_path(digest)).unwrap();
            assert_eq!(
                (sha256(&bytes), &layer["size"]),
                (digest.to_owned(), &bytes.len().into())
            );
        }
    }
}

/// Aligns a layout, with a folder for temporary files of its own.
fn quietly(layout: &Layout) -> Command {
    let mut command = wideleaf();
    let temporary = layout.dir.path().join("tmp");
    command
        .arg("--oci")
        .arg(layout.root())
        .env("TMPDIR", temporary);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

#[test]
fn killed_at_any_system_call_a_layout_is_whole_and_the_old_or_the_new_one() {
    let library = library::library(4 * M);
    let layer = [Layer::gzip(Archive::new().file("libx.so", &library))];
    let small = || Layout::of_within(kill::folder(), &layer);
    let old = small();
    let before = files(&old.root());
    let expected = small();
    done(&["--oci"], &expected.root());
    let after = files(&expected.root());
    let killed = |stop: usize| {
        let layout = small();
        fs::create_dir(layout.dir.path().join("tmp")).unwrap();
        (killed_after(stop, &mut quietly(&layout), &[0]), layout)
    };
    // How many there are.
    let start = kill::start();
    let (mut low, mut high) = (start, 2 * start);
    while !killed(high).0 {
        (low, high) = (high, 2 * high);
    }
    while high - low > 1 {
        let middle = (low + high) / 2;
        match killed(middle).0 {
            true => high = middle,
            false => low = middle,
        }
    }
    // Reading and copying in steps; what makes it count one by one.
    let last = high.saturating_sub(48);
    let (mut seen_old, mut seen_new) = (0, 0);
    for stop in (start..last)
        .step_by(23)
        .chain((last..=high).step_by(kill::stride()))
    {
        let (_, layout) = killed(stop);
        valid(&layout);
        let now = files(&layout.root());
        for (name, bytes) in &before {
            let kept = name == Path::new("index.json") || now[name] == *bytes;
            assert!(kept, "stop {stop}: {}", name.display());
        }
        let index = &now[Path::new("index.json")];
        match *index == before[Path::new("index.json")] {
            true => seen_old += 1,
            false => {
                assert!(*index == after[Path::new("index.json")], "stop {stop}");
                seen_new += 1;
            }
        }
        // The next run ends what this one began, and clears up after it.
        if stop % 7 == 0 {
            assert!(quietly(&layout).status().unwrap().success(), "stop {stop}");
            assert!(files(&layout.root()) == after, "stop {stop}");
            let left = fs::read_dir(layout.dir.path().join("tmp")).unwrap().count();
            assert!(left <= 1, "stop {stop}: {left}");
        }
    }
    assert!(seen_old > 10 && seen_new > 0, "{seen_old} {seen_new}");
}
