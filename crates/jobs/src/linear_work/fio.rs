// SPDX-License-Identifier: GPL-2.0-only
//! Debian's fio writes a block device at random, and reads back whether what it wrote is there.

use anyhow::{Context, Result, ensure};
use nix::mount::{MsFlags, mount};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use wideleaf_guest::kit::spawn;

/// Of the kernel's own file systems those that it looks into.
const PLACES: [&str; 3] = ["/dev", "/proc", "/sys"];

/// What it says, in memory.
const OUTPUT: &str = "/tmp/fio.json";
const COMPLAINT: &str = "/tmp/fio.err";

/// The job but for the disk and how much of it: as in fio's manual an asynchronous engine is not
/// needed for one write at a time. Each block gets the number of its write and a checksum. Nothing
/// is asked of the page cache, and nothing is left in the folder from which it runs.
const JOB: &str = "--name=encrypt --rw=randwrite --bs=4k --direct=1 --ioengine=psync --thread \
                   --verify=crc32c --verify_fatal=1 --verify_state_save=0 --invalidate=0 \
                   --disk_util=0 --output-format=json";

/// One job of fio, to be run and checked.
#[derive(Debug)]
pub struct Fio {
    root: String,
    line: String,
    writes: u64,
}

/// Of fio's JSON what is asked here.
#[derive(Debug, Deserialize)]
struct Report {
    jobs: Vec<Job>,
}

#[derive(Debug, Deserialize)]
struct Job {
    error: i32,
    read: Calls,
    write: Calls,
}

#[derive(Debug, Deserialize)]
struct Calls {
    total_ios: u64,
}

impl Fio {
    /// One that writes `writes` of the blocks of `disk`, each at most once; fio is in the user land
    /// below `root`. It is run once so that its text is in the page cache.
    pub fn new(root: &str, disk: &Path, writes: u64, seed: u64) -> Result<Self> {
        for place in PLACES {
            let target = format!("{root}{place}");
            let (kind, flags) = (None::<&str>, MsFlags::MS_BIND);
            mount(Some(place), target.as_str(), kind, flags, kind).context(target)?;
        }
        let disk = disk.display();
        let line = format!("{JOB} --filename={disk} --number_ios={writes} --randseed={seed}");
        let fio = Self {
            root: root.into(),
            line,
            writes,
        };
        fio.run("--version")?;
        Ok(fio)
    }

    /// Writes.
    pub fn write(&self) -> Result<()> {
        let job = self.job("--do_verify=0")?;
        ensure!(
            job.write.total_ios == self.writes,
            "fio wrote {} blocks, not {}",
            job.write.total_ios,
            self.writes
        );
        Ok(())
    }

    /// Reads what [`Self::write`] wrote, and has fio compare it.
    pub fn check(&self) -> Result<()> {
        let job = self.job("--verify_only=1")?;
        ensure!(
            job.read.total_ios == self.writes,
            "fio read {} blocks again, not {}",
            job.read.total_ios,
            self.writes
        );
        Ok(())
    }

    fn job(&self, option: &str) -> Result<Job> {
        self.run(&format!("{} {option}", self.line))?;
        one_job(&fs::read_to_string(OUTPUT).context(OUTPUT)?)
    }

    fn run(&self, options: &str) -> Result<()> {
        let line = format!("/usr/bin/fio {options}");
        let mut command = spawn::command(&self.root, &line, &BTreeMap::new())?;
        command
            .stdout(File::create(OUTPUT).context(OUTPUT)?)
            .stderr(File::create(COMPLAINT).context(COMPLAINT)?);
        let child = command.spawn().context("fio")?;
        let (status, _) = spawn::wait(&child)?;
        if status != 0 {
            let said = fs::read_to_string(COMPLAINT)? + &fs::read_to_string(OUTPUT)?;
            let said: Vec<_> = said.lines().take(5).collect();
            anyhow::bail!("fio {options}: status {status:#x}: {}", said.join("; "));
        }
        Ok(())
    }
}

/// The only job of what fio said; warnings stand before the JSON.
fn one_job(said: &str) -> Result<Job> {
    let json = said.find('{').map_or("", |at| &said[at..]);
    let report: Report = serde_json::from_str(json).with_context(|| format!("fio said {said}"))?;
    let [job] = <[Job; 1]>::try_from(report.jobs)
        .map_err(|jobs| anyhow::anyhow!("fio reports {} jobs", jobs.len()))?;
    ensure!(job.error == 0, "fio reports error {}", job.error);
    Ok(job)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(error: i32, jobs: usize) -> String {
        let job = format!(
            r#"{{"jobname": "encrypt", "error": {error}, "read": {{"total_ios": 3}},
                "write": {{"total_ios": 7}}}}"#
        );
        let jobs = vec![job; jobs].join(", ");
        format!("fio: a warning\n{{\"fio version\": \"fio-3.39\", \"jobs\": [{jobs}]}}\n")
    }

    #[test]
    fn what_fio_says_is_read() {
        let job = one_job(&said(0, 1)).unwrap();
        assert_eq!((job.read.total_ios, job.write.total_ios), (3, 7));
    }

    #[test]
    fn errors_of_fio_are_errors() {
        let error = |said: &str| one_job(said).unwrap_err().to_string();
        assert_eq!(error(&said(84, 1)), "fio reports error 84");
        assert_eq!(error(&said(0, 2)), "fio reports 2 jobs");
        assert_eq!(error("fio: killed"), "fio said fio: killed");
    }
}
