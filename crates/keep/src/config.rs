// SPDX-License-Identifier: GPL-2.0-only
//! The file that says what to keep.

use serde::{Deserialize, Deserializer};
use std::path::{Path, PathBuf};
use std::time::Duration;
use wideleaf_kit::size::{parse, short};

/// A way to wide text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Means {
    /// The file itself, read anew by wide folios.
    Fill,
    /// MADV_COLLAPSE in the processes that map it.
    Collapse,
    /// A copy on huge pages over it.
    Stage,
}

impl Means {
    /// As the file has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fill => "fill",
            Self::Collapse => "collapse",
            Self::Stage => "stage",
        }
    }
}

/// The list of texts to keep wide, and how.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Config {
    /// Programs and shared libraries, by absolute paths.
    pub programs: Vec<PathBuf>,
    /// The libraries that the programs load at their start, too.
    pub libs: bool,
    /// Services by name (`nginx.service`), or control groups by path.
    pub services: Vec<String>,
    /// Container images of podman or docker; of another runtime's, what its containers map.
    pub images: Vec<String>,
    /// Containers by name or by the beginning of their ids.
    pub containers: Vec<String>,
    /// Pods by name, or as `NAMESPACE/POD`.
    pub pods: Vec<String>,
    /// Tried in this order.
    pub means: Vec<Means>,
    /// Seconds between two passes.
    pub interval: u64,
    /// Bytes of new folios that a pass may take; if none, a quarter of what is free.
    #[serde(deserialize_with = "size")]
    pub limit: Option<u64>,
    /// Whether the kernel may reclaim and compact for them.
    pub reclaim: bool,
    /// Bytes that may be read in a second; if none, as many as half of the time allows.
    #[serde(deserialize_with = "size")]
    pub rate: Option<u64>,
    /// A file for node_exporter's textfile collector.
    pub metrics: Option<PathBuf>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            programs: Vec::new(),
            libs: false,
            services: Vec::new(),
            images: Vec::new(),
            containers: Vec::new(),
            pods: Vec::new(),
            means: vec![Means::Fill, Means::Collapse],
            interval: 60,
            limit: None,
            reclaim: false,
            rate: None,
            metrics: None,
        }
    }
}

/// A size as people write it.
fn size<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    let text = String::deserialize(from)?;
    parse(&text).map(Some).map_err(serde::de::Error::custom)
}

/// A string of TOML, which escapes as JSON does.
fn quoted(text: &str) -> String {
    serde_json::to_string(text).expect("a string can be written")
}

fn list(words: &[impl AsRef<str>]) -> String {
    let words: Vec<String> = words.iter().map(|word| quoted(word.as_ref())).collect();
    format!("[{}]", words.join(", "))
}

/// Why a file is no configuration.
#[derive(Debug, thiserror::Error)]
#[error("{}: {why}", path.display())]
pub struct ConfigError {
    /// The file.
    pub path: PathBuf,
    /// The error, and a right value.
    pub why: String,
}

impl Config {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// The line and the value that make no sense.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => {
                "is not there: 'wideleaf enable --write' writes one".into()
            }
            _ => error.to_string(),
        });
        text.and_then(|text| Self::parse(&text))
            .map_err(|why| ConfigError {
                path: path.to_owned(),
                why,
            })
    }

    /// Reads a text.
    ///
    /// # Errors
    ///
    /// As [`Config::read`].
    pub fn parse(text: &str) -> Result<Self, String> {
        let config: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        config.wrong().map_or(Ok(config), Err)
    }

    fn wrong(&self) -> Option<String> {
        let named = [
            self.programs.len(),
            self.services.len(),
            self.images.len(),
            self.containers.len(),
            self.pods.len(),
        ];
        if named == [0; 5] {
            return Some(
                "keeps nothing: name programs, services, images, containers or pods".into(),
            );
        }
        if let Some(path) = self.programs.iter().find(|path| !path.is_absolute()) {
            return Some(format!(
                "programs: `{}` is no absolute path",
                path.display()
            ));
        }
        if self.means.is_empty() {
            return Some("means: is empty; fill, collapse and stage are known".into());
        }
        if !(1..=86_400).contains(&self.interval) {
            return Some(format!(
                "interval: {} is not from 1 to 86400 seconds",
                self.interval
            ));
        }
        if self.rate == Some(0) {
            return Some("rate: 0 would read nothing; write for example \"50M\"".into());
        }
        let prom = |path: &PathBuf| path.extension().is_some_and(|e| e == "prom");
        let metrics = self.metrics.as_ref().filter(|path| !prom(path))?;
        Some(format!(
            "metrics: `{}` does not end in .prom, as node_exporter wants it",
            metrics.display()
        ))
    }

    /// As a file has it.
    pub fn text(&self) -> String {
        let mut text = "# `wideleaf keep` keeps this wide: docs/tool/keep.md.\n".to_owned();
        let means: Vec<&str> = self.means.iter().map(|means| means.name()).collect();
        let programs: Vec<_> = self.programs.iter().map(|p| p.to_string_lossy()).collect();
        let mut line = |key: &str, value: String| text += &format!("{key} = {value}\n");
        line("programs", list(&programs));
        line("libs", self.libs.to_string());
        line("services", list(&self.services));
        line("images", list(&self.images));
        for (key, names) in [("containers", &self.containers), ("pods", &self.pods)] {
            if !names.is_empty() {
                line(key, list(names));
            }
        }
        line("means", list(&means));
        line("interval", self.interval.to_string());
        if self.reclaim {
            line("reclaim", "true".into());
        }
        for (key, size) in [("limit", self.limit), ("rate", self.rate)] {
            if let Some(size) = size {
                line(key, quoted(&short(size)));
            }
        }
        if let Some(path) = &self.metrics {
            line("metrics", quoted(&path.to_string_lossy()));
        }
        text
    }

    /// The time between two passes.
    pub fn pause(&self) -> Duration {
        Duration::from_secs(self.interval)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_and_written_without_loss() {
        let text = "programs = [\"/usr/bin/node\"]\nlibs = true\nlimit = \"512M\"\nreclaim = true\nmeans = [\"fill\", \"stage\"]\n";
        let config = Config::parse(text).unwrap();
        assert_eq!((config.limit, config.reclaim), (Some(512 << 20), true));
        assert_eq!(config.means, [Means::Fill, Means::Stage]);
        assert_eq!((config.interval, config.rate), (60, None));
        assert_eq!(Config::parse(&config.text()).unwrap(), config);
        let config = Config::parse("containers = [\"web\"]\npods = [\"shop/db-0\"]\n").unwrap();
        assert_eq!(Config::parse(&config.text()).unwrap(), config);
    }

    #[test]
    fn an_error_names_the_value_and_a_right_one() {
        for (text, why) in [
            ("", "name programs"),
            ("programs = [\"node\"]", "`node` is no absolute path"),
            ("program = [\"/usr/bin/node\"]", "unknown field `program`"),
            (
                "services = [\"x\"]\nlimit = \"a lot\"",
                "`a lot` is not a size",
            ),
            ("services = [\"x\"]\ninterval = 0", "0 is not from 1"),
            ("services = [\"x\"]\nmeans = [\"magic\"]", "magic"),
            ("services = [\"x\"]\nrate = \"0\"", "rate: 0"),
            (
                "services = [\"x\"]\nmetrics = \"/a.txt\"",
                "`/a.txt` does not end in .prom",
            ),
        ] {
            let error = Config::parse(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
        let error = Config::read(Path::new("/no/such")).unwrap_err().to_string();
        assert!(error.starts_with("/no/such: "), "{error}");
    }
}
