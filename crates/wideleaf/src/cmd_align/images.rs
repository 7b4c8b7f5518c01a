// SPDX-License-Identifier: GPL-2.0-only
//! `wideleaf align --oci`: container images as files.

use super::args::Args;
use super::files::broken;
use crate::screen::Late;
use crate::stdout::{name, printable_path, tell, write_json, write_out};
use crate::usage::misuse;
use anyhow::{Result, bail};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use wideleaf_kit::events::Event;
use wideleaf_kit::size::bytes;
use wideleaf_kit::table::{Table, left, right};
use wideleaf_oci::report::{File, Image, Outcome};
use wideleaf_oci::{Error, Options, Report, align};

/// Bounds the times of what is new (reproducible-builds.org).
const EPOCH: &str = "SOURCE_DATE_EPOCH";

/// Aligns the images of each layout and archive.
///
/// # Errors
///
/// If standard output cannot be written, several results are to go to what is
/// no folder, or `SOURCE_DATE_EPOCH` is no time.
pub(super) fn run(args: &Args) -> Result<ExitCode> {
    let mut options = Options::new(args.options());
    options.platforms = args.platform.clone();
    if let Some(text) = std::env::var_os(EPOCH) {
        let number = text.to_str().and_then(|text| text.parse().ok());
        options.epoch = number;
        if number.is_none() {
            let text = text.to_string_lossy();
            misuse!("{EPOCH} is '{text}', must be a number: seconds since 1970");
        }
    }
    if let (Some(out), true) = (&args.output, args.files.len() > 1)
        && !out.is_dir()
    {
        bail!(
            "{}: must be a folder, for several images",
            printable_path(out)
        );
    }
    let late = Mutex::new(Late::new());
    let observer = |event: Event<'_>| {
        if let Event::Step(text) = event {
            let mut late = late.lock().expect("no worker panics");
            late.show(|| text.to_owned());
        }
    };
    let mut results = Vec::new();
    for path in &args.files {
        let output = args.output.as_ref().map(|out| match out.is_dir() {
            true => out.join(path.file_name().unwrap_or_default()),
            false => out.clone(),
        });
        let result = align(path, output.as_deref(), &options, &observer);
        results.push((path, output, result));
    }
    drop(late.into_inner());
    match args.json {
        true => write_json(&document(args, &results))?,
        false => {
            for (path, output, result) in &results {
                if let Ok(report) = result {
                    write_out(&text(args, output.as_ref().unwrap_or(path), report))?;
                }
            }
        }
    }
    for (_, _, result) in &results {
        match result {
            Err(error) => tell!("wideleaf: align: {error}"),
            Ok(report) => notes(report),
        }
    }
    Ok(match results.iter().all(|(_, _, result)| result.is_ok()) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// One image as a line and a table of its files.
fn text(args: &Args, path: &Path, report: &Report) -> String {
    let mut text = String::new();
    for image in &report.images {
        let aligned = |file: &&File| matches!(file.outcome, Outcome::Aligned { .. });
        let count = image.files.iter().filter(aligned).count();
        let names = match image.names.is_empty() {
            true => String::new(),
            false => format!(" {}", image.names.join(", ")),
        };
        let what = match (count, args.dry_run) {
            (0, _) => "nothing gains".to_owned(),
            (1, true) => "1 file would be aligned".to_owned(),
            (1, false) => "1 file aligned".to_owned(),
            (_, true) => format!("{count} files would be aligned"),
            (_, false) => format!("{count} files aligned"),
        };
        text += &format!("{}:{names} {}: {what}\n", path.display(), image.platform);
        if !image.files.is_empty() {
            text += &table(args, &image.files);
        }
        if let Some(layer) = &image.layer {
            text += &format!(
                "new layer {}, {}, {} unpacked\n",
                layer.digest,
                bytes(layer.size, args.bytes),
                bytes(layer.unpacked, args.bytes)
            );
        }
        if let (Some(before), Some(after)) = (&image.manifest_before, &image.manifest_after) {
            text += &format!("manifest {after}, was {before}\n");
        }
    }
    text
}

fn table(args: &Args, files: &[File]) -> String {
    let mut table = Table::new([
        left("RESULT"),
        right("SIZE"),
        right("NEW"),
        right("2M-TEXT"),
        right("NEW"),
        left("FILE"),
    ]);
    for file in files {
        let (word, sizes) = match &file.outcome {
            Outcome::Aligned {
                size_before,
                size_after,
                usable_before,
                usable_after,
                ..
            } => {
                let sizes = [size_before, size_after, usable_before, usable_after];
                ("aligned", sizes.map(|size| bytes(*size, args.bytes)))
            }
            Outcome::Refused { .. } => ("refused", std::array::from_fn(|_| "-".to_owned())),
        };
        let [size, new, usable, new_usable] = sizes;
        let path = printable_path(&file.path);
        table.row([word.to_owned(), size, new, usable, new_usable, path]);
    }
    table.render(true)
}

/// Notes that the tables lack.
fn notes(report: &Report) {
    for image in &report.images {
        for file in &image.files {
            match &file.outcome {
                Outcome::Refused { reason } => {
                    let path = printable_path(&file.path);
                    tell!("wideleaf: align: {}: {path}: {reason}", image.platform);
                }
                Outcome::Aligned {
                    signatures_broken, ..
                } => broken(&file.path, signatures_broken),
            }
        }
        for about in &image.about_old {
            tell!(
                "wideleaf: align: {}: {about} stays, and is about the old manifest only",
                image.platform
            );
        }
    }
    for left in &report.left {
        tell!("wideleaf: align: {}: left: {}", left.digest, left.reason);
    }
}

type Results<'a> = [(&'a PathBuf, Option<PathBuf>, Result<Report, Error>)];

fn document(args: &Args, results: &Results) -> Value {
    let inputs = results.iter().map(|(path, output, result)| {
        let mut value = match result {
            Ok(report) => json!({
                "images": report.images.iter().map(image).collect::<Vec<_>>(),
                "left": report.left,
            }),
            Err(error) => json!({ "error": error.to_string() }),
        };
        name(&mut value, "path", path);
        if let Some(output) = output {
            name(&mut value, "output", output);
        }
        value
    });
    json!({
        "schema": "wideleaf-align-oci-1",
        "dry_run": args.dry_run,
        "leaf": args.leaf,
        "inputs": inputs.collect::<Vec<_>>(),
    })
}

fn image(image: &Image) -> Value {
    let mut value = serde_json::to_value(image).expect("plain data");
    let files = image.files.iter().map(|file| {
        let mut value = serde_json::to_value(file).expect("plain data");
        name(&mut value, "path", &file.path);
        let links = file.links.iter().map(|path| path.to_string_lossy());
        value["links"] = links.collect();
        value
    });
    value["files"] = files.collect();
    value
}
