// SPDX-License-Identifier: GPL-2.0-only
//! Writing the report so that a reader sees all of it or none.

use std::fs;
use std::io::Write;
use std::path::Path;
use wideleaf_tlb::report::Report;

/// Writes `report` to `path` through a temporary file beside it.
///
/// # Errors
///
/// A sentence that names the file.
pub fn write(path: &Path, report: &Report) -> Result<(), String> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = Path::new(&name);
    let error = |e: std::io::Error| format!("cannot write the report {}: {e}", path.display());
    let text = serde_json::to_vec_pretty(report).map_err(|e| error(e.into()))?;
    let mut file = fs::File::create(temporary).map_err(error)?;
    let written = file
        .write_all(&text)
        .and_then(|()| file.write_all(b"\n"))
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(temporary, path));
    written.map_err(|e| {
        // The error is what matters; a temporary file left behind is not.
        let _ = fs::remove_file(temporary);
        error(e)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let e = write(Path::new("/nonexistent/r.json"), &Report::default()).unwrap_err();
        assert!(e.contains("/nonexistent/r.json"), "{e}");
    }
}
