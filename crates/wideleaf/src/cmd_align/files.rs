// SPDX-License-Identifier: GPL-2.0-only
//! `wideleaf align FILE...`, and how files are shown.

use super::args::Args;
use crate::screen::Late;
use crate::stdout::{name, printable_path, tell, write_json, write_out};
use anyhow::{Result, bail};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use wideleaf_align::{Options, Refusal, Report, Status, Target};
use wideleaf_kit::size::bytes;
use wideleaf_kit::table::{Table, left, right};

/// Aligns or restores the files that are named.
///
/// # Errors
///
/// If standard output cannot be written, or several files are to go to what is
/// no folder. Files that are refused are named on standard error and in the
/// exit status.
pub(super) fn run(args: &Args) -> Result<ExitCode> {
    let options = args.options();
    let folder = args.output.as_deref().filter(|out| out.is_dir());
    if let (Some(out), None, true) = (&args.output, folder, args.files.len() > 1) {
        bail!(
            "{}: must be a folder, for several files",
            printable_path(out)
        );
    }
    let mut late = Late::new();
    let mut results = Vec::new();
    for (index, file) in args.files.iter().enumerate() {
        late.show(|| format!("{index} of {} files", args.files.len()));
        results.push((file, one(file, args, folder, &options)));
    }
    drop(late);
    show(args, &results, None)?;
    Ok(match results.iter().all(|(_, result)| result.is_ok()) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// Prints what became of each file; and of how many that were looked at, if more than these were.
pub(super) fn show(args: &Args, results: &Results, looked_at: Option<usize>) -> Result<()> {
    match args.json {
        true => write_json(&to_json(args, results, looked_at))?,
        false => write_out(&to_table(args, results))?,
    }
    for (file, result) in results {
        match result {
            Err(refusal) => tell!("wideleaf: align: {}: {refusal}", printable_path(file)),
            Ok(report) => {
                broken(file, &report.signatures_broken);
                merged(args, file, report);
            }
        }
    }
    Ok(())
}

/// Says what joined segments cost.
fn merged(args: &Args, file: &Path, report: &Report) {
    let Some(join) = &report.merged else {
        return;
    };
    let size = |value| bytes(value, args.bytes);
    let indices: Vec<String> = join.segments.iter().map(ToString::to_string).collect();
    let between = match join.between {
        0 => String::new(),
        between => format!(", and {} between them are mapped", size(between)),
    };
    let can = if args.dry_run { "would be" } else { "are" };
    tell!(
        "wideleaf: align: {}: segments {} {can} one: {} of constants can be executed{between}",
        printable_path(file),
        indices.join(", "),
        size(join.constants)
    );
}

/// Says which checksums do not fit any more.
pub(super) fn broken(file: &Path, signatures: &[String]) {
    for other in signatures {
        tell!(
            "wideleaf: align: {}: its checksum or signature in {other} fits the old bytes only",
            printable_path(file)
        );
    }
}

/// Aligns or restores one file.
pub(super) fn one(
    file: &Path,
    args: &Args,
    folder: Option<&Path>,
    options: &Options,
) -> Result<Report, Refusal> {
    let inside = folder.map(|folder| folder.join(file.file_name().unwrap_or_default()));
    let target = match (&inside, &args.output) {
        (Some(inside), _) => Target::File(inside),
        (None, Some(out)) => Target::File(out),
        (None, None) => Target::InPlace,
    };
    match args.restore {
        true => wideleaf_align::restore(file, target, options),
        false => wideleaf_align::align(file, target, options),
    }
}

fn word(report: &Report) -> &'static str {
    match report.status {
        Status::Aligned => "aligned",
        Status::Good => "good",
        Status::NoGain => "no gain",
        Status::Restored => "restored",
    }
}

/// Files, and what became of them.
pub(super) type Results<'a> = [(&'a PathBuf, Result<Report, Refusal>)];

fn to_table(args: &Args, results: &Results) -> String {
    let mut table = Table::new([
        left("RESULT"),
        right("SIZE"),
        right("NEW"),
        right("DISK"),
        right("NEW"),
        right("2M-TEXT"),
        right("NEW"),
        left("FILE"),
    ]);
    let mut segments = String::new();
    for (file, result) in results {
        let Ok(report) = result else {
            let dash = || "-".to_string();
            let mut row = vec!["refused".to_string()];
            row.extend((0..6).map(|_| dash()));
            row.push(printable_path(file));
            table.row(row);
            continue;
        };
        let sizes = [
            report.size_before,
            report.size_after,
            report.disk_before,
            report.disk_after,
            report.usable_before,
            report.usable_after,
        ];
        let mut row = vec![word(report).to_string()];
        row.extend(sizes.map(|size| bytes(size, args.bytes)));
        row.push(printable_path(file));
        table.row(row);
        if args.verbose {
            segments.push_str(&verbose(file, report));
        }
    }
    table.render(true) + &segments
}

fn verbose(file: &Path, report: &Report) -> String {
    let titles = ["SEG", "ADDRESS", "OFFSET", "NEW", "P_ALIGN", "NEW"];
    let mut table = Table::new(titles.map(right));
    for moved in &report.segments {
        table.row([
            moved.index.to_string(),
            format!("{:#x}", moved.address),
            format!("{:#x}", moved.offset_before),
            format!("{:#x}", moved.offset_after),
            format!("{:#x}", moved.align_before),
            format!("{:#x}", moved.align_after),
        ]);
    }
    let mut text = String::new();
    if !report.segments.is_empty() {
        text = format!("\n{}\n{}", printable_path(file), table.render(true));
    }
    for name in &report.names {
        text += &format!("also known as {}\n", printable_path(name));
    }
    if let Some(backup) = &report.backup {
        text += &format!("the original is {}\n", printable_path(backup));
    }
    text
}

fn to_json(args: &Args, results: &Results, looked_at: Option<usize>) -> serde_json::Value {
    let files = results.iter().map(|(file, result)| {
        let mut value = match result {
            Ok(report) => serde_json::to_value(report).expect("plain data"),
            Err(refusal) => json!({ "status": "refused", "reason": refusal.to_string() }),
        };
        name(&mut value, "path", file);
        value
    });
    let mut document = json!({
        "schema": "wideleaf-align-1",
        "dry_run": args.dry_run,
        "leaf": args.leaf,
        "files": files.collect::<Vec<_>>(),
    });
    if let Some(count) = looked_at {
        document["looked_at"] = count.into();
    }
    document
}
