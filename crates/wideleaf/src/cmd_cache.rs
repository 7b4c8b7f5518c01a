// SPDX-License-Identifier: GPL-2.0-only
//! `wideleaf cache`: what the lab keeps, and how to get rid of it.

use crate::stdout::{name, printable_path, say, write_json, write_out};
use anyhow::{Context, Result};
use clap::Subcommand;
use serde_json::json;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};
use wideleaf_cache::{Cache, Listed};
use wideleaf_kit::table::{Table, left, right};

/// Arguments of `wideleaf cache`.
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  wideleaf cache list
  wideleaf cache prune --unused-for 30
  XDG_CACHE_HOME=/data/cache wideleaf cache list --json")]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// List the entries: kind, size in bytes, days since last use, folder
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove entries that were not used for some days
    Prune {
        /// Days without use
        #[arg(long, value_name = "DAYS", default_value_t = 30)]
        unused_for: u64,
    },
}

/// Runs `wideleaf cache`.
pub fn run(args: Args) -> Result<ExitCode> {
    let cache = Cache::open()?;
    let mut entries = cache.list()?;
    entries.sort_by_key(|entry| entry.used);
    match args.action {
        Action::List { json: true } => {
            let rows: Vec<_> = entries.iter().map(row).collect();
            let mut document = json!({ "entries": rows });
            name(&mut document, "root", cache.root());
            write_json(&document)?;
        }
        Action::List { json: false } => {
            let mut table = Table::new([left("KIND"), right("BYTES"), right("DAYS"), left("PATH")]);
            for entry in &entries {
                let days = age(entry).as_secs() / 86_400;
                table.row([
                    &entry.kind,
                    &entry.bytes.to_string(),
                    &days.to_string(),
                    &printable_path(&entry.path),
                ]);
            }
            write_out(&table.render(true))?;
        }
        Action::Prune { unused_for } => {
            let limit = Duration::from_secs(unused_for.saturating_mul(86_400));
            for entry in entries.iter().filter(|entry| age(entry) >= limit) {
                std::fs::remove_dir_all(&entry.path)
                    .with_context(|| format!("cannot remove {}", entry.path.display()))?;
                say!("removed {}", entry.path.display())?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn age(entry: &Listed) -> Duration {
    SystemTime::now()
        .duration_since(entry.used)
        .unwrap_or_default()
}

fn row(entry: &Listed) -> serde_json::Value {
    let mut row = json!({
        "kind": entry.kind,
        "bytes": entry.bytes,
        "unused_seconds": age(entry).as_secs(),
    });
    name(&mut row, "path", &entry.path);
    row
}
