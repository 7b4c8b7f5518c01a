// SPDX-License-Identifier: GPL-2.0-only
//! `wideleaf inspect` as a user runs it.

#![allow(missing_docs)]

#[path = "common/dir.rs"]
mod dir;
#[path = "../../elf/tests/common/image.rs"]
#[allow(dead_code)]
mod image;
#[path = "common/text.rs"]
mod text;
#[path = "common/unshared.rs"]
mod unshared;

use dir::Dir;
use image::{ET_DYN, ET_EXEC, Image, PT_INTERP, Program, R, W, X, load};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};
use text::text;
use unshared::{both, unshared};

const M: u64 = 1 << 20;
const ARM64: u16 = 183;
const S390X: u16 = 22;

fn inspect(args: &[&str], files: &[&Path]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_wideleaf"))
        .arg("inspect")
        .args(args)
        .args(files)
        .output()
        .unwrap()
}

fn json(args: &[&str], files: &[&Path]) -> Value {
    let output = inspect(&[&["--json"], args].concat(), files);
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A PIE with 5M of code at this distance between address and offset.
fn pie(machine: u16, shift: u64, align: u64) -> Image {
    let interp = Program {
        kind: PT_INTERP,
        ..Program::default()
    };
    let programs = vec![
        interp,
        load(R, 0, 0, M, align),
        load(R | X, M, M + shift, 5 * M, align),
        load(R | W, 6 * M, 8 * M, 4096, align),
    ];
    let mut image = Image::new(true, false, ET_DYN, programs);
    image.machine = machine;
    image
}

/// `{kernel, page size} -> bytes of text by leaf`, as in the JSON.
fn coverage(file: &Value, kernel: &str, page: u64) -> Vec<(u64, u64)> {
    let rows = file["kernels"].as_array().unwrap();
    let row = rows
        .iter()
        .find(|row| row["kernel"] == kernel && row["page"] == page)
        .unwrap_or_else(|| panic!("no {kernel} with {page}: {rows:?}"));
    let text = row["segments"][1]["coverage"].as_array().unwrap();
    let part = |c: &Value| (c["leaf"].as_u64().unwrap(), c["bytes"].as_u64().unwrap());
    text.iter().map(part).collect()
}

#[test]
fn each_kernel_maps_text_as_its_source_says() {
    let dir = Dir::new();
    let path = dir.file("arm64", pie(ARM64, 0, 64 << 10).bytes());
    let file = &json(&[], &[&path])["files"][0];
    let (k4, k16, k64) = (4 << 10, 16 << 10, 64 << 10);
    let text = 5 * M;
    // 1M to 6M holds the blocks at 2M and 4M.
    let wide = (2 * M, 4 * M);
    assert_eq!(coverage(file, "6.12 pristine", k4), [(k4, text)]);
    assert_eq!(coverage(file, "7.3 pristine", k4), [(k64, text)]);
    assert_eq!(coverage(file, "patched", k4), [wide, (k64, M)]);
    assert_eq!(coverage(file, "7.3 pristine", k16), [(k16, text)]);
    assert_eq!(coverage(file, "patched", k16), [wide, (k16, M)]);
    assert_eq!(coverage(file, "7.3 pristine", k64), [(k64, text)]);
    assert_eq!(coverage(file, "patched", k64), [wide, (k64, M)]);

    // Shifted by a page, no kernel can do anything; by 64K, 64K leaves fit.
    let path = dir.file("shifted", pie(ARM64, 4096, 4096).bytes());
    let file = &json(&[], &[&path])["files"][0];
    assert_eq!(coverage(file, "patched", k4), [(k4, text)]);
    let path = dir.file("by64k", pie(ARM64, k64, k64).bytes());
    let file = &json(&[], &[&path])["files"][0];
    assert_eq!(coverage(file, "patched", k4), [(k64, text)]);

    let path = dir.file("x86", pie(62, 0, 4096).bytes());
    let file = &json(&[], &[&path])["files"][0];
    assert_eq!(coverage(file, "7.3 pristine", k4), [(k4, text)]);
    assert_eq!(coverage(file, "patched", k4), [wide, (k4, M)]);
    let pages: Vec<&Value> = file["kernels"].as_array().unwrap().iter().collect();
    assert!(pages.iter().all(|row| row["page"] == k4), "x86 has 4K only");
}

#[test]
fn kernels_that_cannot_load_a_file_are_named_not_predicted() {
    let dir = Dir::new();
    let path = dir.file("arm64-4k", pie(ARM64, 4096, 4096).bytes());
    let output = inspect(&[], &[&path]);
    let text = text(&output.stdout);
    assert!(
        text.contains("not loadable with 16K and 64K pages: segment 2: address"),
        "{text}"
    );
    let rows: Vec<&str> = text
        .lines()
        .filter(|l| l.contains("pristine") || l.contains("patched"))
        .collect();
    assert_eq!(rows.len(), 3, "{text}");
    assert!(rows.iter().all(|row| row.starts_with("  4K ")), "{text}");
    let file = &json(&[], &[&path])["files"][0];
    for row in file["kernels"].as_array().unwrap() {
        let page = row["page"].as_u64().unwrap();
        assert_eq!(row["not_loadable"].is_string(), page > 4096, "{row}");
        assert_eq!(row["segments"] == serde_json::json!([]), page > 4096);
    }
}

#[test]
fn a_position_dependent_program_is_fixed() {
    let dir = Dir::new();
    let programs = vec![load(R | X, 0, 0x40_0000, 5 * M, 4096)];
    let path = dir.file("fixed", Image::new(true, false, ET_EXEC, programs).bytes());
    let placement = &json(&[], &[&path])["files"][0]["kernels"][2]["placement"];
    assert_eq!(placement, "fixed");
}

#[test]
fn the_json_document_has_what_the_manual_promises() {
    let dir = Dir::new();
    let path = dir.file("pie", pie(62, 0, 4096).bytes());
    let document = json(&[], &[&path]);
    assert_eq!(document["schema"], 1);
    let file = &document["files"][0];
    assert_eq!(file["path"], path.to_str().unwrap());
    assert_eq!(
        (&file["text"], &file["usable"], &file["gain"]),
        (&Value::from(5 * M), &Value::from(0), &Value::from(4 * M))
    );
    let text = &file["segments"][1];
    assert_eq!(text["verdict"]["cause"], "max-page-size");
    assert_eq!(text["verdict"]["blocks"], serde_json::json!([80, 2, 0]));
    assert!(
        text["explanation"]
            .as_str()
            .unwrap()
            .contains("p_align is 4K")
    );
    let flags = text["fix"]["flags"].as_array().unwrap();
    assert_eq!(flags.len(), 4, "the linker is unknown: {flags:?}");
    assert_eq!(document["summary"]["causes"]["max-page-size"]["files"], 1);
    assert_eq!(document["errors"], serde_json::json!([]));
}

#[test]
fn a_machine_without_a_table_is_judged_but_not_predicted() {
    let dir = Dir::new();
    let programs = vec![load(R | X, 0, 4 * M, 4 * M, 0x1000)];
    let mut image = Image::new(true, true, ET_EXEC, programs);
    image.machine = S390X;
    let path = dir.file("s390x", image.bytes());
    let output = inspect(&[], &[&path]);
    assert!(output.status.success());
    let text = text(&output.stdout);
    assert!(text.contains("s390x, 64-bit, big-endian"), "{text}");
    assert!(
        text.contains("no need to change it") && text.contains("no prediction"),
        "{text}"
    );
}

#[test]
fn the_table_ranks_by_gain_and_its_columns_can_be_chosen() {
    let dir = Dir::new();
    dir.file("less", pie(62, 0, 4096).bytes());
    let mut large = pie(62, 0, 4096);
    large.programs[2].file_size = 20 * M;
    large.programs[2].memory_size = 20 * M;
    large.programs[3].offset = 21 * M;
    large.programs[3].address = 40 * M;
    large.size = (22 * M) as usize;
    dir.file("more", large.bytes());
    dir.file("good", pie(62, 0, 2 * M).bytes());
    dir.file("text", "no ELF file");
    let columns = ["-r", "-n", "-b", "-o", "gain,cause,file"];
    let rows = |extra: &[&str]| {
        let output = inspect(&[&columns, extra].concat(), &[dir.0.path()]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let name = |line: &str| line.rsplit('/').next().unwrap().to_string();
        let text = text(&output.stdout);
        (text.lines().map(name).collect::<Vec<_>>(), text)
    };
    let (names, table) = rows(&[]);
    assert_eq!(names, ["more", "less"], "only what has something to gain");
    assert!(
        table
            .trim_start()
            .starts_with(&format!("{} max-page-size ", 18 * M)),
        "{table}"
    );
    assert_eq!(rows(&["--all"]).0, ["more", "less", "good"]);
    assert_eq!(
        rows(&["--all", "--sort", "file"]).0,
        ["good", "less", "more"]
    );
    assert_eq!(rows(&["--reverse"]).0, ["less", "more"]);
    let summary = text(&inspect(&["-r"], &[dir.0.path()]).stdout);
    assert!(
        summary.contains("3 programs and libraries with 30M of text"),
        "{summary}"
    );
    assert!(summary.contains("not listed: 1 files"), "{summary}");
}

#[test]
fn one_bad_file_does_not_hide_the_others_and_the_status_tells() {
    let dir = Dir::new();
    let good = dir.file("good", pie(62, 0, 4096).bytes());
    let cut = dir.file("cut", &pie(62, 0, 4096).bytes()[..70000]);
    let fifo = dir.0.path().join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    // A FIFO that nobody writes to would keep it waiting.
    let output = inspect(&[], &[&cut, &fifo, &good]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stdout).contains("max-page-size"),
        "the good file is reported"
    );
    let said = text(&output.stderr);
    assert!(
        said.contains("cut: truncated: segment 1 is at 0x0+0x100000"),
        "{said}"
    );
    assert!(said.contains("fifo: is a FIFO"), "{said}");
    assert_eq!(inspect(&["-r"], &[dir.0.path()]).status.code(), Some(1));
    assert_eq!(
        inspect(&["--sort", "nonsense"], &[&good]).status.code(),
        Some(2)
    );
    assert_eq!(inspect(&[], &[]).status.code(), Some(2));
    assert_eq!(inspect(&[], &[&good]).status.code(), Some(0));
}

#[test]
fn the_pictures_show_usable_and_wasted_blocks() {
    let dir = Dir::new();
    let path = dir.file("a<b", pie(62, 0x1000, 4096).bytes());
    let svg = dir.0.path().join("out.svg");
    let output = inspect(&["--map", "--svg", svg.to_str().unwrap()], &[&path]);
    let map = text(&output.stdout);
    assert!(
        map.contains('█') && map.contains('□') && !map.contains("  2M ■"),
        "{map}"
    );
    let svg = std::fs::read_to_string(svg).unwrap();
    assert!(svg.contains("a&lt;b") && svg.ends_with("</svg>\n"), "{svg}");
    assert!(svg.contains("2 × 2M, not usable as the file is"), "{svg}");
    let nowhere = Path::new("/dev/null/x.svg");
    let output = inspect(&["--svg", nowhere.to_str().unwrap()], &[&path]);
    assert!(text(&output.stderr).contains("cannot write /dev/null/x.svg"));
    assert!(!output.status.success());
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    // More lines than a pipe holds.
    let dir = tempfile::tempdir().unwrap();
    let library = Image::new(true, false, ET_DYN, vec![load(R | X, 0, 0, 4096, 4096)]).bytes();
    for n in 0..2000 {
        std::fs::write(dir.path().join(format!("library{n:060}")), &library).unwrap();
    }
    let command = r#"set -o pipefail; "$0" inspect -r --all "$1" | head -n 1"#;
    let output = Command::new("bash")
        .args(["-c", command, env!("CARGO_BIN_EXE_wideleaf")])
        .arg(dir.path())
        .output()
        .unwrap();
    // Ended by SIGPIPE, as C programs are.
    assert_eq!(output.status.code(), Some(128 + 13), "{output:?}");
    assert_eq!(text(&output.stderr), "");
    assert_eq!(text(&output.stdout).lines().count(), 1);
}

/// As libjvm is: large, congruent, with a p_align of 4K. Only mmap could place it.
#[test]
fn a_file_system_that_aligns_nothing_is_not_good_by_mmap() {
    let programs = vec![
        load(R | X, 0, 0, 8 * M, 4096),
        load(R | W, 8 * M, 8 * M, 4096, 4096),
    ];
    let dir = Dir::new();
    dir.file("lib", Image::new(true, false, ET_DYN, programs).bytes());
    let script = r#"
mkdir plain huge && mount -t tmpfs none plain && mount -t tmpfs -o huge=always none huge || exit 9
cp lib plain && cp lib huge && "$W" inspect -n -o CAUSE,FILE plain/lib huge/lib
"$W" inspect plain/lib"#;
    let Some(output) = unshared(script, |command| {
        command
            .current_dir(dir.0.path())
            .env("W", env!("CARGO_BIN_EXE_wideleaf"));
    }) else {
        return;
    };
    let said = both(&output);
    if output.status.code() == Some(9) {
        eprintln!("SKIPPED: no huge pages on a tmpfs here: {said}");
        return;
    }
    let cause = |file: &str| {
        let line = said.lines().find(|line| line.ends_with(file)).unwrap();
        line.trim_end_matches(file).trim().to_owned()
    };
    assert_eq!(cause("plain/lib"), "max-page-size", "{said}");
    assert_eq!(cause("huge/lib"), "good (mmap)", "{said}");
    // Lines are broken to the terminal's width.
    let words: Vec<&str> = said.split_whitespace().collect();
    let words = words.join(" ");
    assert!(words.contains("tmpfs does not align mmap"), "{said}");
}
