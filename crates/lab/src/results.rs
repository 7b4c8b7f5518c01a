// SPDX-License-Identifier: GPL-2.0-only
//! Everything a lab run found, as `--json` writes it.
//!
//! Documented in `docs/lab-schema.md`; a test holds the two together.

use crate::common::Common;
use crate::host::Host;
pub mod figures;
pub mod row;

use crate::vm::emulator::Qemu;
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use wideleaf_guest::protocol::{Farewell, Hello};
use wideleaf_kbuild::{Arch, Base, Commit, PageSize, Variant};
use wideleaf_kit::replace::replace;
use wideleaf_tlb::referee::finding::Findings;
use wideleaf_tlb::report::{Counts, Coverage, ProfileInfo, Touched};

/// Counts of a variant of the model.
pub use wideleaf_tlb::report::Model as ModelCounts;

/// What identifies the format.
pub const SCHEMA: &str = "wideleaf-lab-results";

/// Raised when a field changes its meaning or goes away; added fields leave it.
pub const SCHEMA_VERSION: u32 = 2;

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
    /// Counts of the processor of `host`, without a guest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hardware: Vec<Counted>,
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
            hardware: Vec::new(),
        }
    }

    /// Counts that the processor of this machine made just now.
    pub fn of_hardware(counted: Counted) -> Self {
        Self {
            hardware: vec![counted],
            ..Self::new(Vec::new(), Vec::new())
        }
    }

    /// Those that [`Results::write`] wrote to `path`.
    ///
    /// # Errors
    ///
    /// If it cannot be read, is something else, or is of another [`SCHEMA_VERSION`].
    pub fn read(path: &Path) -> Result<Self> {
        let what = || path.display().to_string();
        let text = std::fs::read_to_string(path).with_context(what)?;
        let no_json = || {
            format!(
                "{}: no JSON: 'wideleaf lab run --json FILE' writes it",
                what()
            )
        };
        let value: serde_json::Value = serde_json::from_str(&text).with_context(no_json)?;
        ensure!(
            value["schema"] == SCHEMA,
            "{}: not a results file of the lab: 'wideleaf lab run --json FILE' writes one",
            what()
        );
        ensure!(
            value["schema_version"] == SCHEMA_VERSION,
            "{}: its schema_version is {}, this wideleaf reads {SCHEMA_VERSION}: \
             measure again, or use the wideleaf that wrote it ({})",
            what(),
            value["schema_version"],
            value["wideleaf"],
        );
        serde_json::from_value(value).with_context(what)
    }

    /// Writes them as JSON to `path`, which appears whole or not at all.
    ///
    /// # Errors
    ///
    /// If the folder cannot be written to.
    pub fn write(&self, path: &Path) -> Result<()> {
        replace(path, self.to_json()? + "\n")
            .with_context(|| format!("cannot write {}", path.display()))
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
    /// What was asked of kernels and guest: what every job takes.
    pub common: Common,
    /// What was asked of the job: its own options, as it defines them.
    pub options: Value,
    /// Guest memory in bytes.
    pub memory_bytes: u64,
    /// The QEMU that ran it.
    pub qemu: Qemu,
    /// The CPU that was modelled; absent where nothing was counted.
    pub profile: Option<ProfileInfo>,
    /// The kernels, pristine first.
    pub kernels: Vec<KernelInfo>,
    /// Every boot, in order.
    pub runs: Vec<BootResult>,
    /// The comparable counts by name.
    pub figures: BTreeMap<String, Compared>,
    /// Of those that depend on the model, how far; empty if no variants of it counted.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sweep: BTreeMap<String, Swept>,
}

impl Comparison {
    /// The first run of a variant.
    pub fn run(&self, variant: Variant) -> Option<&BootResult> {
        self.runs.iter().find(|run| run.variant == variant)
    }

    /// Base, architecture and page size: `6.12 arm64 64K`.
    pub fn machine(&self) -> String {
        format!("{} {} {}", self.base, self.arch, self.page_size)
    }

    /// One of the job's own options; `None`: it has no such option, or none was given.
    pub fn option(&self, name: &str) -> Option<&Value> {
        self.options.get(name).filter(|value| !value.is_null())
    }

    /// The variants that were compared, pristine first.
    pub fn variants(&self) -> Vec<Variant> {
        self.kernels.iter().map(|kernel| kernel.variant).collect()
    }
}

/// One figure of all kernels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Compared {
    /// Unit of the values.
    pub unit: String,
    /// The last variant's by pristine's; absent where either is, or pristine is 0.
    pub ratio: Option<f64>,
    /// The largest difference between runs of one variant, as a fraction of
    /// the smallest of them; absent without repetition.
    pub spread: Option<f64>,
    /// Of the first run of each variant.
    #[serde(flatten)]
    pub values: BTreeMap<Variant, u64>,
}

impl Compared {
    /// The value with this variant's kernel.
    pub fn of(&self, variant: Variant) -> Option<u64> {
        self.values.get(&variant).copied()
    }
}

/// How far a figure's change depends on the model. Ratios are [`Compared::ratio`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Swept {
    /// By the profile.
    pub ratio: f64,
    /// The variant of the model with the lowest ratio.
    pub lowest: String,
    /// The one with the highest.
    pub highest: String,
    /// Variants that say the contrary of the profile: their change has the other sign and is more
    /// than 1 % of pristine's.
    pub turned_by: Vec<String>,
    /// By each variant that has one.
    pub ratios: BTreeMap<String, f64>,
}

/// A processor's counts of work that a job of the lab does too.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Counted {
    /// The job.
    pub job: String,
    /// The machine's architecture.
    pub arch: Arch,
    /// Its base page size.
    pub page_size: PageSize,
    /// Its counts by the names of the job's figures; counts of the processor are of user mode alone.
    pub figures: BTreeMap<String, u64>,
    /// Why others are missing.
    pub missing: BTreeMap<String, String>,
    /// Elapsed time of each phase in ns.
    pub nanoseconds: BTreeMap<String, u64>,
    /// All that the work's program found, as it defines it.
    pub outcome: Value,
}

/// How an expectation went.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The expectation as it was given.
    pub expectation: String,
    /// Of which comparison: `6.12 arm64 64K`.
    pub comparison: String,
    /// The measured value: a ratio for limits in percent, else a count.
    /// Absent if there is none, which fails.
    pub measured: Option<f64>,
    /// Whether it held.
    pub passed: bool,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.passed { "pass" } else { "FAIL" };
        write!(f, "{word}  {}: {}: ", self.comparison, self.expectation)?;
        match self.measured {
            None => {
                f.write_str("no such figure in this run, or none to compare with (pristine is 0)")
            }
            Some(value) if self.expectation.ends_with('%') => write!(f, "{:.3}%", value * 100.0),
            Some(value) => write!(f, "{value}"),
        }
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
    /// Debian's version of the source; absent for another one's.
    pub package_version: Option<String>,
    /// The commit of somebody's own git tree that it was built from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<Commit>,
    /// Hash over its configuration's options; absent for a given kernel.
    pub config_hash: Option<String>,
    /// The compiler; absent for a given kernel.
    pub compiler: Option<String>,
}

/// One boot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BootResult {
    /// Whose kernel.
    pub variant: Variant,
    /// 1 for the first boot of this variant.
    pub repeat: u32,
    /// Seconds from QEMU's start to its end. Not speed of anything but the
    /// emulation.
    pub wall_s: f64,
    /// The kernel as the guest saw it.
    pub guest: Hello,
    /// What the job found, as it defines it.
    pub outcome: Value,
    /// The guest's last words.
    pub farewell: Farewell,
    /// What the plugin counted.
    pub phases: Vec<PhaseCounts>,
    /// The same for each CPU, if the guest had several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<CpuCounts>,
    /// Counts of variants of the model, if they were asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<ModelCounts>,
    /// Which leaves mapped what.
    pub coverage: Vec<Coverage>,
    /// Which pages were executed from; a job writes them to files of their own.
    #[serde(skip)]
    pub touched: Vec<Touched>,
    /// What a reader of the figures must know.
    pub warnings: Vec<String>,
    /// What the referee found; absent where it was not asked to look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub referee: Option<Findings>,
}

/// What the plugin counted on one CPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CpuCounts {
    /// The CPU's number.
    pub cpu: u32,
    /// Phases in which it did anything.
    pub phases: Vec<PhaseCounts>,
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
mod tests {
    use super::*;
    use crate::sample::{comparison, hardware};
    use wideleaf_tlb::report::MissedPhase;

    fn results() -> Results {
        let mut comparison = comparison(1000, 100);
        comparison.runs[0].warnings.push("w".into());
        let phase = MissedPhase {
            phase: 1,
            ..MissedPhase::default()
        };
        comparison.runs[0].models.push(ModelCounts {
            phases: vec![phase],
            ..ModelCounts::default()
        });
        let swept = Swept {
            ratio: 0.5,
            lowest: "random".into(),
            highest: "random".into(),
            turned_by: Vec::new(),
            ratios: [("random".into(), 0.25)].into(),
        };
        comparison.sweep.insert("cold.walks".into(), swept);
        let verdict = Verdict {
            expectation: "cold.faults<=5%".into(),
            comparison: "6.12 arm64 64K".into(),
            measured: Some(1.0),
            passed: false,
        };
        Results {
            hardware: vec![hardware()],
            ..Results::new(vec![comparison], vec![verdict])
        }
    }

    #[test]
    fn written_whole_and_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out.json");
        std::fs::write(&path, "old").unwrap();
        let results = results();
        results.write(&path).unwrap();
        assert_eq!(Results::read(&path).unwrap(), results);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_cannot_be_read_is_refused_with_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("results.json");
        let newer = |version| Results {
            schema_version: version,
            ..results()
        };
        for (text, word) in [
            ("{".to_string(), "EOF"),
            ("root:x:0".into(), "lab run --json"),
            ("{}".into(), "lab run --json"),
            (newer(1).to_json().unwrap(), "its schema_version is 1"),
            (
                newer(SCHEMA_VERSION + 1).to_json().unwrap(),
                "measure again",
            ),
            (
                newer(SCHEMA_VERSION)
                    .to_json()
                    .unwrap()
                    .replace("\"runs\"", "\"ruins\""),
                "runs",
            ),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = format!("{:#}", Results::read(&path).unwrap_err());
            assert!(
                error.contains("results.json") && error.contains(word),
                "{error}"
            );
        }
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let error = results()
            .write(Path::new("/dev/null/out.json"))
            .unwrap_err();
        assert!(
            format!("{error:#}").contains("/dev/null/out.json"),
            "{error:#}"
        );
    }

    /// Every field name below `value`, but not the keys of maps.
    fn names(value: &serde_json::Value, into: &mut std::collections::BTreeSet<String>) {
        const MAPS: [&str; 8] = [
            "leaves",
            "by_leaf",
            "thp",
            "figures",
            "sweep",
            "ratios",
            "missing",
            "nanoseconds",
        ];
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
        let doc = std::fs::read_to_string("../../docs/lab-schema.md").unwrap();
        let results = results();
        let mut fields = std::collections::BTreeSet::new();
        names(&serde_json::to_value(&results).unwrap(), &mut fields);
        let figures = results.comparisons[0].figures.keys();
        let short = figures.map(|name| name.rsplit('.').next().unwrap().to_string());
        fields.extend(short.filter(|name| name != "64K"));
        let missing: Vec<_> = fields
            .iter()
            // A count of a phase is a figure too, which has the phase in front. Variants are names of
            // a figure's values, and values elsewhere.
            .filter(|name| {
                let forms = [
                    format!("`{name}`"),
                    format!("<phase>.{name}`"),
                    format!("`\"{name}\"`"),
                ];
                !forms.iter().any(|form| doc.contains(form))
            })
            .collect();
        assert!(missing.is_empty(), "docs/lab-schema.md lacks {missing:?}");
    }
}
