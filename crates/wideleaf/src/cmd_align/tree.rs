// SPDX-License-Identifier: GPL-2.0-only
//! `wideleaf align -r`: what is below folders.

use super::args::Args;
use super::files::{one, show};
use crate::screen::Late;
use crate::stdout::{printable_path, tell};
use anyhow::Result;
use std::path::PathBuf;
use std::process::ExitCode;
use wideleaf_align::{HardLinks, Options, Wanted, find};

/// Aligns, or restores, what is below the folders that are named.
///
/// # Errors
///
/// If standard output cannot be written.
pub(super) fn run(args: &Args) -> Result<ExitCode> {
    let options = args.options();
    let wanted = match () {
        () if args.restore => Wanted::Aligned,
        () if options.only_gaining && options.merge => Wanted::GainingMerged,
        () if options.only_gaining => Wanted::Gaining,
        () => Wanted::All,
    };
    let mut failed = false;
    let (mut files, mut looked_at): (Vec<Vec<PathBuf>>, usize) = (Vec::new(), 0);
    for path in &args.files {
        if !path.is_dir() {
            files.push(vec![path.clone()]);
            continue;
        }
        let found = find(path, wanted, options.overlay);
        for (path, error) in &found.errors {
            tell!("wideleaf: align: {}: {error}", printable_path(path));
            failed = true;
        }
        for mount in &found.mounts {
            tell!(
                "wideleaf: align: {}: is another file system, passed over",
                printable_path(mount)
            );
        }
        looked_at += found.looked_at;
        files.extend(found.files);
    }
    let mut late = Late::new();
    let mut results = Vec::new();
    for (index, names) in files.iter().enumerate() {
        late.show(|| format!("{index} of {} files", files.len()));
        let options = Options {
            hard_links: HardLinks::All,
            names: names.clone(),
            ..options.clone()
        };
        let result = one(&names[0], args, None, &options);
        // A file that was named is to be aligned; one of many may have its reasons.
        let named = args.files.contains(&names[0]);
        let refused = |result: &Result<_, wideleaf_align::Refusal>| {
            result.as_ref().is_err_and(|why| named || why.is_failure())
        };
        failed |= refused(&result);
        results.push((&names[0], result));
    }
    drop(late);
    show(args, &results, Some(looked_at))?;
    if results.is_empty() && !args.json {
        let what = match wanted {
            Wanted::Gaining | Wanted::GainingMerged => "gains by it",
            Wanted::All => "is there",
            Wanted::Aligned => "was aligned",
        };
        tell!("wideleaf: align: of {looked_at} programs and libraries none {what}");
    }
    Ok(match failed {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    })
}
