// SPDX-License-Identifier: GPL-2.0-only
//! A row of a matrix in a form that is small enough to commit: where its figures come from, and
//! all of them, one on a line.
//!
//! The file is JSON. Its first field is the hash of all that follows, so that figures which were
//! changed by hand are not taken for measured ones. `docs/lab-schema.md` has the fields.

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use serde_json::{Number, Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use wideleaf_kit::replace::replace;
use wideleaf_lab::results::{Comparison, Results};

/// The name of the format.
pub const SCHEMA: &str = "wideleaf-figures";

/// Raised when a field changes its meaning or goes away.
pub const SCHEMA_VERSION: u32 = 1;

/// The figures of one row, and where they come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// [`SCHEMA`].
    pub schema: String,
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// `<base>-<arch>-<page size>.<set>`, as the matrix calls its results file.
    pub row: String,
    /// The job's name.
    pub job: String,
    /// The base.
    pub base: String,
    /// The guest's architecture.
    pub arch: String,
    /// The guest's base page size.
    pub page_size: String,
    /// What the guest was asked to do.
    pub options: Value,
    /// The command that makes the row again.
    pub command: String,
    /// The day on which it was taken, in UTC; absent if that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub date: Option<String>,
    /// Wideleaf's commit: that of the series, and of the lab.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// Debian's version of the kernel's source; absent for another source, or if not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// QEMU's version; absent if that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qemu: Option<String>,
    /// The CPU that was modelled; absent where nothing was counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Another place than results of the lab that the figures were taken from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_from: Option<String>,
    /// The kernels that were compared, in the order of [`Figure::values`].
    pub variants: Vec<String>,
    /// The figures by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub figures: BTreeMap<String, Figure>,
}

/// One figure of all kernels.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// Unit of the values.
    pub unit: String,
    /// One for each variant; null where a kernel has none.
    pub values: Vec<Option<Number>>,
    /// The values are counted in so many units, and rounded; what they were exactly is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounded_in: Option<f64>,
    /// The last variant's by pristine's, where rounded values do not tell it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
    /// The largest difference between runs of one variant, as a fraction of the smallest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread: Option<f64>,
}

impl Figure {
    /// The value of the variant at this place.
    pub fn value(&self, at: usize) -> Option<f64> {
        let value = self.values.get(at)?.as_ref()?.as_f64()?;
        Some(value * self.rounded_in.unwrap_or(1.0))
    }
}

impl Row {
    /// The row called `row`, from the comparison of its results file.
    ///
    /// # Errors
    ///
    /// If the results are not those of one row.
    pub fn of(row: &str, results: &Results, command: &str, commit: &str) -> Result<Self> {
        let [comparison] = results.comparisons.as_slice() else {
            bail!(
                "{} comparisons, where a row is one: let 'wideleaf lab matrix' run them",
                results.comparisons.len()
            );
        };
        let variants = comparison.variants();
        let figures = comparison.figures.iter().map(|(name, compared)| {
            let values = variants.iter().map(|v| compared.of(*v).map(Number::from));
            let figure = Figure {
                unit: compared.unit.clone(),
                values: values.collect(),
                spread: compared.spread,
                ..Figure::default()
            };
            (name.clone(), figure)
        });
        Ok(Self {
            schema: SCHEMA.into(),
            schema_version: SCHEMA_VERSION,
            row: row.into(),
            job: comparison.job.clone(),
            base: comparison.base.to_string(),
            arch: comparison.arch.to_string(),
            page_size: comparison.page_size.to_string(),
            options: asked(comparison)?,
            command: command.into(),
            date: Some(day(results.created_unix_s)?),
            commit: Some(commit.into()),
            source: source(comparison),
            qemu: Some(comparison.qemu.version.clone()),
            profile: comparison.profile.as_ref().map(|p| p.name.to_string()),
            taken_from: None,
            variants: variants.iter().map(ToString::to_string).collect(),
            figures: figures.collect(),
        })
    }

    /// The row that [`Row::write`] wrote to `path`.
    ///
    /// # Errors
    ///
    /// If it cannot be read, was changed since, or is of another [`SCHEMA_VERSION`].
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        let row = Self::parse(&text).with_context(|| path.display().to_string())?;
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        ensure!(
            stem == Some(&row.row),
            "{}: this is the row '{}': call the file {}.json",
            path.display(),
            row.row,
            row.row
        );
        Ok(row)
    }

    /// Writes the row to its file in `folder`, which appears whole or not at all.
    ///
    /// # Errors
    ///
    /// If the folder cannot be written to.
    pub fn write(&self, folder: &Path) -> Result<PathBuf> {
        let path = folder.join(format!("{}.json", self.row));
        replace(&path, self.text()?).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }

    fn parse(text: &str) -> Result<Self> {
        let value: Value = serde_json::from_str(text)?;
        ensure!(
            value["schema"] == SCHEMA,
            "not figures of a row: 'wideleaf lab report RESULTS --compact FOLDER' writes them"
        );
        ensure!(
            value["schema_version"] == SCHEMA_VERSION,
            "its schema_version is {}, this wideleaf reads {SCHEMA_VERSION}",
            value["schema_version"]
        );
        let (hash, rest) = split(text).unwrap_or_default();
        ensure!(
            hash == self::hash(rest),
            "the content is not what the lab wrote, as its hash tells: take the edit back \
             ('git checkout' has the file as it was), or measure the row again"
        );
        let row: Self = serde_json::from_str(&format!("{{{rest}"))?;
        let short = row
            .figures
            .iter()
            .find(|(_, f)| f.values.len() != row.variants.len());
        if let Some((name, figure)) = short {
            bail!(
                "figure '{name}' has {} values for {} variants",
                figure.values.len(),
                row.variants.len()
            );
        }
        Ok(row)
    }

    /// The file's content.
    fn text(&self) -> Result<String> {
        let head = Self {
            figures: BTreeMap::new(),
            ..self.clone()
        };
        let head = serde_json::to_string_pretty(&head)?;
        let head = head.trim_start_matches('{').trim_end_matches("\n}");
        let mut rest = format!("{head},\n  \"figures\": {{");
        for (n, (name, figure)) in self.figures.iter().enumerate() {
            let (name, figure) = (serde_json::to_string(name)?, serde_json::to_string(figure)?);
            let comma = if n == 0 { "" } else { "," };
            write!(rest, "{comma}\n    {name}: {figure}")?;
        }
        rest.push_str("\n  }\n}\n");
        Ok(format!("{FIRST}{}\",{rest}", hash(&rest)))
    }

    /// The figure of this name.
    pub fn figure(&self, name: &str) -> Option<&Figure> {
        self.figures.get(name)
    }

    /// An option of the run, wherever among the job's options it stands.
    pub fn option(&self, name: &str) -> Option<&Value> {
        below(&self.options, name)
    }

    /// What comes after the machine in the row's name.
    pub fn set(&self) -> &str {
        self.row
            .split_once(&self.machine())
            .map_or("", |(_, rest)| rest.strip_prefix('.').unwrap_or(rest))
    }

    /// `6.12-arm64-4K`, as rows are called.
    pub fn machine(&self) -> String {
        format!("{}-{}-{}", self.base, self.arch, self.page_size)
    }

    /// `6.12, arm64 4K`, `7.3, x86-64`.
    pub fn title(&self) -> String {
        match self.arch.as_str() {
            "x86_64" => format!("{}, x86-64", self.base),
            arch => format!("{}, {arch} {}", self.base, self.page_size),
        }
    }
}

/// The beginning of a file, before the hash.
const FIRST: &str = "{\n  \"hash\": \"";

/// The hash that a file's text states, and what it has to be the hash of.
fn split(text: &str) -> Option<(&str, &str)> {
    text.strip_prefix(FIRST)?.split_once("\",")
}

/// The hash that seals a file of figures, of all that follows it.
pub(crate) fn hash(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex().to_string()
}

fn below<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    let object = value.as_object()?;
    let deeper = || object.values().find_map(|value| below(value, name));
    object.get(name).or_else(deeper)
}

/// What was asked of every job, if the results tell it apart, and what of this one.
fn asked(comparison: &Comparison) -> Result<Value> {
    let comparison = serde_json::to_value(comparison)?;
    let own = comparison["options"].clone();
    Ok(match comparison.get("common") {
        Some(common) => json!({ "common": common, "own": own }),
        None => own,
    })
}

/// Debian's version of the source, if all kernels come from one.
fn source(comparison: &Comparison) -> Option<String> {
    let mut sources = comparison.kernels.iter().map(|k| k.package_version.clone());
    let first = sources.next()??;
    sources
        .all(|other| other.as_ref() == Some(&first))
        .then_some(first)
}

fn day(unix_s: u64) -> Result<String> {
    let time = jiff::Timestamp::from_second(i64::try_from(unix_s)?)?;
    Ok(time.strftime("%Y-%m-%d").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{count, source};

    fn row() -> Row {
        let figures = json!({
            "cold.faults": count(8192, 256, 260),
            "random.walks": count(49394, 0, 0),
        });
        let results = source(20_000, "exec", &figures).results;
        Row::of("7.3-arm64-4K.exec", &results, "wideleaf lab run", "ca70046").unwrap()
    }

    #[test]
    fn a_row_has_all_figures_and_comes_back() {
        let folder = tempfile::tempdir().unwrap();
        let row = row();
        assert_eq!(row.variants, ["pristine", "reads", "patched"]);
        assert_eq!(row.figure("cold.faults").unwrap().value(2), Some(260.0));
        assert_eq!(row.date.as_deref(), Some("2024-10-04"));
        assert_eq!((row.set(), row.title().as_str()), ("exec", "7.3, arm64 4K"));
        let path = row.write(folder.path()).unwrap();
        assert_eq!(Row::read(&path).unwrap(), row);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(serde_json::from_str::<Value>(&text).is_ok(), "{text}");
        assert!(text.contains("\n    \"cold.faults\": {"), "{text}");
    }

    #[test]
    fn a_file_that_was_edited_by_hand_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = row().write(folder.path()).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        for (old, new) in [
            ("49394", "49395"),
            ("ca70046", "ca70047"),
            ("\n  }\n}", "\n}}"),
            ("\"hash\": \"", "\"hash\": \"0"),
            ("\"hash\"", "\"hush\""),
        ] {
            let edited = text.replace(old, new);
            assert_ne!(edited, text);
            std::fs::write(&path, edited).unwrap();
            let error = format!("{:#}", Row::read(&path).unwrap_err());
            assert!(
                error.contains("7.3-arm64-4K.exec.json") && error.contains("git checkout"),
                "{error}"
            );
        }
    }

    #[test]
    fn other_files_are_refused_with_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.json");
        let newer = Row {
            schema_version: SCHEMA_VERSION + 1,
            ..row()
        };
        for (text, word) in [
            ("{".to_string(), "EOF"),
            ("{}".into(), "--compact"),
            (newer.text().unwrap(), "schema_version is 2"),
            (
                row().text().unwrap(),
                "call the file 7.3-arm64-4K.exec.json",
            ),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = format!("{:#}", Row::read(&path).unwrap_err());
            assert!(error.contains("x.json") && error.contains(word), "{error}");
        }
    }

    #[test]
    fn results_of_several_machines_are_no_row() {
        let mut results = source(1, "exec", &json!({})).results;
        results.comparisons.push(results.comparisons[0].clone());
        let error = Row::of("x", &results, "", "").unwrap_err().to_string();
        assert!(error.contains("lab matrix"), "{error}");
    }

    #[test]
    fn an_option_is_found_wherever_it_stands() {
        let row = Row {
            options: json!({"size": 1, "own": {"loads": 200}}),
            ..row()
        };
        assert_eq!(row.option("loads"), Some(&json!(200)));
        assert_eq!(row.option("size"), Some(&json!(1)));
        assert_eq!(row.option("none"), None);
    }

    #[test]
    fn every_field_is_documented() {
        let doc = std::fs::read_to_string("../../docs/lab-schema.md").unwrap();
        let (_, doc) = doc.split_once("## Committed figures").unwrap();
        let mut row = row();
        row.taken_from = Some("a page".into());
        row.profile = Some("zen4".into());
        let figure = row.figures.get_mut("cold.faults").unwrap();
        (figure.rounded_in, figure.ratio) = (Some(1e6), Some(0.5));
        let figure = serde_json::to_value(&*figure).unwrap();
        let row = serde_json::to_value(row).unwrap();
        let fields = [row, figure].map(|value| value.as_object().unwrap().clone());
        for name in fields.iter().flat_map(|fields| fields.keys()) {
            assert!(doc.contains(&format!("`{name}`")), "{name}");
        }
    }
}
