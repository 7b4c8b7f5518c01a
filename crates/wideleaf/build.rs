// SPDX-License-Identifier: GPL-2.0-only
//! Compiles in which sources of the lab this program is made of, as `WIDELEAF_LAB_SOURCES`.

#[path = "src/cmd_lab/matrix/sources.rs"]
mod sources;

use std::path::Path;

fn main() -> std::io::Result<()> {
    // Cargo runs it in the crate's folder.
    let workspace = Path::new("../..");
    let inputs = sources::inputs(workspace)?;
    let mut hasher = blake3::Hasher::new();
    for (name, content) in &inputs {
        for part in [name.as_bytes(), content] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
    }
    // The folders: a file that is new counts too. `target` is in none of them.
    let mut folders: Vec<_> = inputs
        .keys()
        .filter_map(|name| name.split_once("/src/").map(|(folder, _)| folder))
        .collect();
    folders.dedup();
    for folder in folders.iter().chain(&["Cargo.lock"]) {
        println!(
            "cargo::rerun-if-changed={}",
            workspace.join(folder).display()
        );
    }
    println!(
        "cargo::rustc-env=WIDELEAF_LAB_SOURCES={}",
        hasher.finalize().to_hex()
    );
    Ok(())
}
