// SPDX-License-Identifier: GPL-2.0-only
//! Writing the report so that a reader sees all of it or none.

use anyhow::{Result, anyhow};
use std::path::Path;
use wideleaf_kit::replace::replace;
use wideleaf_tlb::report::Report;

/// Writes `report` to `path` in one step.
///
/// # Errors
///
/// A sentence that names the file.
pub fn write(path: &Path, report: &Report) -> Result<()> {
    let error = |e: std::io::Error| anyhow!("cannot write the report {}: {e}", path.display());
    let mut text = serde_json::to_vec_pretty(report).map_err(|e| error(e.into()))?;
    text.push(b'\n');
    replace(path, text).map_err(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_report_arrives_whole_and_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.json");
        fs::write(&path, "old").unwrap();
        let report = Report {
            schema: 1,
            ..Report::default()
        };
        write(&path, &report).unwrap();
        let back: Report = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        assert_eq!(back, report);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn errors_name_the_file() {
        let e = write(Path::new("/dev/null/r.json"), &Report::default())
            .unwrap_err()
            .to_string();
        assert!(e.contains("/dev/null/r.json"), "{e}");
    }
}
