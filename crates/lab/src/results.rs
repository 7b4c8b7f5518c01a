// SPDX-License-Identifier: GPL-2.0-only
//! Everything a lab run found, as `--json` writes it.
//!
//! Documented in `docs/lab-schema.md`; a test holds the two together.

use crate::expect::Verdict;
use crate::figures::{self, Compared};
use crate::host::Host;
use crate::job::{self, Job, Options};
use crate::tools::Qemu;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use wideleaf_guest::protocol::{Farewell, Hello, Outcome};
use wideleaf_kernel::{Arch, Base, PageSize, Variant};
use wideleaf_tlb::report::{Counts, Coverage, ProfileInfo};

/// What identifies the format.
pub const SCHEMA: &str = "wideleaf-lab-results";

/// Raised when a field changes its meaning or goes away; added fields leave it.
pub const SCHEMA_VERSION: u32 = 1;

/// One invocation of `wideleaf lab run`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// [`SCHEMA`].
    pub schema: String,
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Wideleaf's version.
    pub wideleaf: String,
    /// When it ended, in seconds since 1970-01-01 UTC.
    pub created_unix_s: u64,
    /// The machine it ran on.
    pub host: Host,
    /// One per base, architecture and page size.
    pub comparisons: Vec<Comparison>,
    /// What was expected of the figures.
    pub expectations: Vec<Verdict>,
}

impl Results {
    /// Results of this program on this machine, now.
    pub fn new(comparisons: Vec<Comparison>, expectations: Vec<Verdict>) -> Self {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Self {
            schema: SCHEMA.into(),
            schema_version: SCHEMA_VERSION,
            wideleaf: env!("CARGO_PKG_VERSION").into(),
            created_unix_s: now.unwrap_or_default().as_secs(),
            host: Host::this(),
            comparisons,
            expectations,
        }
    }

    /// Writes them as JSON to `path`, which appears whole or not at all.
    ///
    /// # Errors
    ///
    /// If the folder cannot be written to.
    pub fn write(&self, path: &Path) -> Result<()> {
        let what = || format!("cannot write {}", path.display());
        let folder = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let mut file = tempfile::Builder::new()
            .prefix(".wideleaf-lab-")
            .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
            .tempfile_in(folder)
            .with_context(what)?;
        writeln!(file, "{}", self.to_json()?).with_context(what)?;
        file.persist(path).with_context(what)?;
        Ok(())
    }

    /// The JSON text, without a newline at its end.
    ///
    /// # Errors
    ///
    /// Never in practice.
    pub fn to_json(&self) -> Result<String> {
        Ok(serde_json::to_string_pretty(self)?)
    }
}

/// The same work on both kernels of one base, architecture and page size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The job's name.
    pub job: String,
    /// The base.
    pub base: Base,
    /// The guest's architecture.
    pub arch: Arch,
    /// The guest's base page size.
    pub page_size: PageSize,
    /// What the guest was asked to do.
    pub options: Options,
    /// Guest memory in bytes.
    pub memory_bytes: u64,
    /// The QEMU that ran it.
    pub qemu: Qemu,
    /// The CPU that was modelled; absent where nothing was counted.
    pub profile: Option<ProfileInfo>,
    /// The kernels, pristine first.
    pub kernels: Vec<KernelInfo>,
    /// Every boot, in order.
    pub runs: Vec<Run>,
    /// The comparable counts by name.
    pub figures: BTreeMap<String, Compared>,
}

impl Comparison {
    /// The first run of a variant.
    pub fn run(&self, variant: Variant) -> Option<&Run> {
        self.runs.iter().find(|run| run.variant == variant)
    }

    /// Fills in what follows from the runs.
    pub fn conclude(mut self) -> Self {
        self.figures = figures::compare(self.job(), &self.runs);
        self
    }

    /// The job.
    pub fn job(&self) -> Option<&'static dyn Job> {
        job::find(&self.job).ok()
    }

    /// The variants that were compared, pristine first.
    pub fn variants(&self) -> Vec<Variant> {
        self.kernels.iter().map(|kernel| kernel.variant).collect()
    }
}

/// Where a kernel came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelInfo {
    /// Pristine or patched.
    pub variant: Variant,
    /// The file that booted.
    pub image: PathBuf,
    /// Hash of its content.
    pub image_hash: String,
    /// Debian's version of the source; absent for a kernel given by `--kernel`.
    pub package_version: Option<String>,
    /// Hash over its configuration's options; absent for a given kernel.
    pub config_hash: Option<String>,
    /// The compiler; absent for a given kernel.
    pub compiler: Option<String>,
}

/// One boot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Whose kernel.
    pub variant: Variant,
    /// 1 for the first boot of this variant.
    pub repeat: u32,
    /// Seconds from QEMU's start to its end. Not speed of anything but the
    /// emulation.
    pub wall_s: f64,
    /// The kernel as the guest saw it.
    pub guest: Hello,
    /// What the job found.
    pub outcome: Outcome,
    /// The guest's last words.
    pub farewell: Farewell,
    /// What the plugin counted.
    pub phases: Vec<PhaseCounts>,
    /// Which leaves mapped what.
    pub coverage: Vec<Coverage>,
    /// What a reader of the figures must know.
    pub warnings: Vec<String>,
}

/// What the plugin counted in one phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseCounts {
    /// The phase's number.
    pub id: u8,
    /// Its name.
    pub name: String,
    /// Seconds it took under emulation, if the guest told of its beginning.
    pub wall_s: Option<f64>,
    /// While the guest ran in user mode.
    pub user: Counts,
    /// While it ran in kernel mode.
    pub kernel: Counts,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::image::Filesystem;
    use crate::job_exec::Exec;
    use wideleaf_bench::report::{ColdReport, ExecReport, Faults, Figure, PhaseReport, Smaps};
    use wideleaf_tlb::report::{LeafCounts, Tlb};

    /// A run with a cold phase of `instructions` in user mode.
    pub(crate) fn run(variant: Variant, instructions: u64) -> Run {
        Run {
            variant,
            repeat: 1,
            wall_s: 2.5,
            guest: Hello {
                version: 1,
                release: "6.12.117".into(),
                page_size: 65536,
                thp: [("enabled".to_string(), "[always] madvise never".to_string())].into(),
                ..Hello::default()
            },
            outcome: Outcome::Exec {
                report: exec_report(),
                read_ahead_kb: Some(128),
            },
            farewell: Farewell {
                tainted: Some(0),
                uptime_cs: 100,
            },
            phases: vec![PhaseCounts {
                id: 1,
                name: "cold".into(),
                wall_s: Some(0.5),
                user: counts(instructions, 5, 2),
                kernel: counts(500, 1, 1),
            }],
            coverage: vec![Coverage {
                id: 1,
                phase: 0,
                start: 0x10000,
                len: 1 << 20,
                leaves: [("64K".to_string(), 1 << 20)].into(),
            }],
            warnings: Vec::new(),
        }
    }

    fn counts(instructions: u64, itlb: u64, dtlb: u64) -> Counts {
        let side = |l2_misses| {
            let mut tlb = Tlb::default();
            tlb.add(
                "64K",
                LeafCounts {
                    accesses: 20,
                    l1_misses: 10,
                    l2_misses,
                },
            );
            tlb
        };
        Counts {
            instructions,
            itlb: side(itlb),
            dtlb: side(dtlb),
            walks: itlb + dtlb,
            walk_reads: 3,
        }
    }

    fn exec_report() -> ExecReport {
        let phase = PhaseReport {
            calls: 16,
            faults: Faults { minor: 3, major: 4 },
            read_bytes: Figure::Value(1 << 20),
            nanoseconds: 1,
            events: BTreeMap::new(),
            reclaim: BTreeMap::new(),
        };
        ExecReport {
            file: "/mnt/stubs".into(),
            filesystem: "xfs".into(),
            arch: wideleaf_bench::file::Arch::Arm64,
            page_size: 65536,
            size: 1 << 20,
            stride: 65536,
            stubs: 16,
            seed: 1,
            address: 1 << 30,
            address_alignment: 1 << 30,
            align: None,
            cold: Some(ColdReport {
                phase: phase.clone(),
                resident_before: 0,
            }),
            random: Some(phase),
            smaps: Some(Smaps {
                rss: 1 << 20,
                file_pmd_mapped: Figure::Value(0),
                shmem_pmd_mapped: Figure::missing("no such line"),
            }),
            warnings: Vec::new(),
        }
    }

    /// A comparison of two such runs.
    pub(crate) fn comparison(pristine: u64, patched: u64) -> Comparison {
        let kernel = |variant| KernelInfo {
            variant,
            image: "/k/Image".into(),
            image_hash: "00".into(),
            package_version: Some("6.12.117-1".into()),
            config_hash: Some("11".into()),
            compiler: Some("gcc 12".into()),
        };
        Comparison {
            job: "exec".into(),
            base: Base::V6_12,
            arch: Arch::Arm64,
            page_size: PageSize::K64,
            options: Options {
                filesystem: Filesystem::Xfs,
                ..Options::new(&Exec, Arch::Arm64)
            },
            memory_bytes: 2 << 30,
            qemu: Qemu {
                path: "/usr/bin/qemu-system-aarch64".into(),
                version: "10.0.2".into(),
            },
            profile: wideleaf_tlb::profile::Profile::by_name("neoverse-v2")
                .ok()
                .map(Into::into),
            kernels: vec![kernel(Variant::Pristine), kernel(Variant::Patched)],
            runs: vec![
                run(Variant::Pristine, pristine),
                run(Variant::Patched, patched),
            ],
            figures: BTreeMap::new(),
        }
        .conclude()
    }

    fn results() -> Results {
        let mut comparison = comparison(1000, 100);
        comparison.runs[0].warnings.push("w".into());
        let verdicts = crate::expect::Expectation::parse("cold.faults<=5%")
            .unwrap()
            .judge(&comparison);
        Results::new(vec![comparison], vec![verdicts])
    }

    #[test]
    fn written_whole_and_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out.json");
        std::fs::write(&path, "old").unwrap();
        let results = results();
        results.write(&path).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let back: Results = serde_json::from_str(&text).unwrap();
        assert_eq!(back, results);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let error = results()
            .write(Path::new("/nonexistent/out.json"))
            .unwrap_err();
        assert!(
            format!("{error:#}").contains("/nonexistent/out.json"),
            "{error:#}"
        );
    }

    /// Every field name below `value`, but not the keys of maps.
    fn names(value: &serde_json::Value, into: &mut std::collections::BTreeSet<String>) {
        const MAPS: [&str; 4] = ["leaves", "by_leaf", "thp", "figures"];
        match value {
            serde_json::Value::Object(object) => {
                for (name, value) in object {
                    into.insert(name.clone());
                    if MAPS.contains(&name.as_str()) {
                        let values = value.as_object().into_iter().flat_map(|map| map.values());
                        values.for_each(|value| names(value, into));
                    } else {
                        names(value, into);
                    }
                }
            }
            serde_json::Value::Array(array) => array.iter().for_each(|value| names(value, into)),
            _ => {}
        }
    }

    #[test]
    fn every_field_and_figure_is_documented() {
        let doc = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/lab-schema.md");
        let doc = std::fs::read_to_string(doc).unwrap();
        let results = results();
        let mut fields = std::collections::BTreeSet::new();
        names(&serde_json::to_value(&results).unwrap(), &mut fields);
        let figures = results.comparisons[0].figures.keys();
        let short = figures.map(|name| name.rsplit('.').next().unwrap().to_string());
        fields.extend(short.filter(|name| name != "64K"));
        let missing: Vec<_> = fields
            .iter()
            .filter(|name| !doc.contains(&format!("`{name}`")))
            .collect();
        assert!(missing.is_empty(), "docs/lab-schema.md lacks {missing:?}");
    }
}
