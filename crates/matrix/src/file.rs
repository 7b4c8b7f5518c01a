// SPDX-License-Identifier: GPL-2.0-only
//! Reads a matrix file and multiplies it out.
//!
//! The file is TOML. At the top stand `jobs`, `bases`, `machines`, `page-sizes`, `variants` and
//! `options`, for all sets; each `[[set]]` has the same keys, which replace those of the top
//! (`options` are merged), and a `name`. A set of rows that show that a fault is noticed has
//! `must-fail-with`: words one of which the run must fail with. Docs: `docs/lab/matrix.md`.

use crate::vocabulary::{Architecture, Values, Vocabulary};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

/// The keys of a set; the top of the file has them too, but `name`.
const KEYS: [&str; 8] = [
    "name",
    "jobs",
    "bases",
    "machines",
    "page-sizes",
    "variants",
    "options",
    "must-fail-with",
];

/// The longest part of a row's name that is made of its options, in bytes.
const LABEL: usize = 80;

/// One `wideleaf lab run`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// `6.12-arm64-64K.exec`: machine, then the set's name or the job's.
    pub name: String,
    /// The base, the architecture and the page size, as columns show them.
    pub machine: [String; 3],
    /// The arguments of `lab run`.
    pub words: Vec<String>,
    /// The run must fail, with one of these in what it prints; empty: it must pass.
    pub must_fail_with: Vec<String>,
    /// The line of the file that its set begins in.
    pub line: usize,
}

/// What is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    path: PathBuf,
    /// 0: the file as a whole.
    line: usize,
    text: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, line, text } = self;
        match line {
            0 => write!(f, "{}: {text}", path.display()),
            _ => write!(f, "{}:{line}: {text}", path.display()),
        }
    }
}

impl std::error::Error for Mistake {}

/// The rows of the file at `path`, in its order. `check` says what `lab run` would refuse in a
/// row's arguments.
///
/// # Errors
///
/// The first mistake, with its line and what would be right.
pub fn read(
    path: &Path,
    vocabulary: &Vocabulary,
    check: &dyn Fn(&[String]) -> Result<(), String>,
) -> Result<Vec<Row>, Mistake> {
    let text = std::fs::read_to_string(path).map_err(|error| Mistake {
        path: path.into(),
        line: 0,
        text: format!("cannot read it: {error}"),
    })?;
    parse(&text, vocabulary, check).map_err(|Wrong { at, text: why }| Mistake {
        path: path.into(),
        line: line(&text, at),
        text: why,
    })
}

/// A mistake at an offset in bytes.
#[derive(Debug)]
struct Wrong {
    at: usize,
    text: String,
}

fn wrong<T>(at: usize, text: impl Into<String>) -> Result<T, Wrong> {
    let text = text.into();
    Err(Wrong { at, text })
}

fn line(text: &str, at: usize) -> usize {
    let end = at.min(text.len());
    1 + text.as_bytes()[..end]
        .iter()
        .filter(|&&byte| byte == b'\n')
        .count()
}

fn parse(
    text: &str,
    vocabulary: &Vocabulary,
    check: &dyn Fn(&[String]) -> Result<(), String>,
) -> Result<Vec<Row>, Wrong> {
    let file = DeTable::parse(text).map_err(|error| Wrong {
        at: error.span().map_or(0, |span| span.start),
        text: error.message().replace('\n', ", "),
    })?;
    let reader = Reader { vocabulary, text };
    let (top, sets) = reader.file(file.get_ref())?;
    let mut rows: Vec<(usize, Row)> = Vec::new();
    for set in &sets {
        for (row, places) in reader.rows(set, &top)? {
            check(&row.words).map_err(|why| places.blame(why))?;
            if let Some((_, other)) = rows.iter().find(|(_, other)| other.name == row.name) {
                return wrong(
                    set.at,
                    format!(
                        "the row {} is already made by the set of line {}: give one of them \
                         another 'name'",
                        row.name, other.line
                    ),
                );
            }
            rows.push((set.at, row));
        }
    }
    if rows.is_empty() {
        return wrong(
            0,
            "lists no rows: it needs 'jobs', at the top or in a [[set]]",
        );
    }
    Ok(rows.into_iter().map(|(_, row)| row).collect())
}

/// A name and where it stands.
#[derive(Clone, Debug)]
struct Name {
    text: String,
    at: usize,
}

/// The words of an option, and where it stands.
#[derive(Clone, Debug)]
struct Given {
    words: Vec<String>,
    at: usize,
}

/// One table of options.
type Options = BTreeMap<String, Given>;

/// What a set says, or the top of the file.
#[derive(Clone, Debug, Default)]
struct Set {
    at: usize,
    name: Option<Name>,
    jobs: Option<Vec<Name>>,
    bases: Option<Vec<Name>>,
    machines: Option<Vec<Name>>,
    page_sizes: Option<Vec<Name>>,
    variants: Option<Vec<Name>>,
    options: Vec<Options>,
    must_fail_with: Option<Vec<String>>,
}

/// Where the parts of a row stand, for what `lab run` says about them.
struct Places {
    set: usize,
    options: BTreeMap<String, usize>,
}

impl Places {
    /// At the option that the sentence names, else at the set.
    fn blame(&self, text: String) -> Wrong {
        let named = |option: &&String| {
            let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
            let dashed = format!("--{option}");
            words
                .enumerate()
                .any(|(number, word)| word == dashed || number == 0 && word == *option)
        };
        let at = self.options.keys().find(named);
        let at = at.map_or(self.set, |option| self.options[option]);
        Wrong { at, text }
    }
}

struct Reader<'a> {
    vocabulary: &'a Vocabulary,
    text: &'a str,
}

impl Reader<'_> {
    fn file(&self, file: &DeTable<'_>) -> Result<(Set, Vec<Set>), Wrong> {
        let mut top = Set::default();
        let mut sets = Vec::new();
        for (key, value) in file {
            match key.get_ref().as_ref() {
                "set" => {
                    let DeValue::Array(tables) = value.get_ref() else {
                        return wrong(key.span().start, "write [[set]], with two brackets");
                    };
                    for table in tables {
                        sets.push(self.set(table)?);
                    }
                }
                name @ ("name" | "must-fail-with") => {
                    return wrong(key.span().start, format!("'{name}' belongs into a [[set]]"));
                }
                _ => self.key(&mut top, key, value, "set, ")?,
            }
        }
        sets.sort_by_key(|set| set.at);
        match (sets.is_empty(), top.options.len()) {
            // The top is the only set.
            (true, _) => sets.push(Set {
                options: std::mem::take(&mut top.options),
                ..Set::default()
            }),
            (false, 2..) => return wrong(0, "a list of 'options' belongs into a [[set]]"),
            _ => {}
        }
        Ok((top, sets))
    }

    fn set(&self, table: &Spanned<DeValue<'_>>) -> Result<Set, Wrong> {
        let at = table.span().start;
        let DeValue::Table(keys) = table.get_ref() else {
            return wrong(at, "write [[set]], with two brackets");
        };
        let mut set = Set {
            at,
            ..Set::default()
        };
        for (key, value) in keys {
            self.key(&mut set, key, value, "")?;
        }
        Ok(set)
    }

    fn key(
        &self,
        set: &mut Set,
        key: &Spanned<DeString<'_>>,
        value: &Spanned<DeValue<'_>>,
        also: &str,
    ) -> Result<(), Wrong> {
        let name: &str = key.get_ref().as_ref();
        let known = |names: Vec<&str>| self.names(name, value, &names);
        let machines = &self.vocabulary.machines;
        match name {
            "name" => set.name = Some(set_name(value)?),
            "jobs" => set.jobs = Some(self.jobs(value)?),
            "must-fail-with" => set.must_fail_with = Some(said(value)?),
            "bases" => set.bases = Some(known(texts(&self.vocabulary.bases))?),
            "machines" => {
                set.machines = Some(known(machines.iter().map(|m| m.name.as_str()).collect())?);
            }
            "page-sizes" => {
                set.page_sizes = Some(known(union(machines, |machine| &machine.page_sizes))?);
            }
            "variants" => set.variants = Some(known(texts(&self.vocabulary.variants))?),
            "options" => set.options = self.options(value)?,
            _ => {
                return wrong(
                    key.span().start,
                    format!("unknown key '{name}': known are {also}{}", KEYS.join(", ")),
                );
            }
        }
        Ok(())
    }

    /// Names of jobs; a hidden one must be named alone.
    fn jobs(&self, value: &Spanned<DeValue<'_>>) -> Result<Vec<Name>, Wrong> {
        let hidden = texts(&self.vocabulary.hidden_jobs);
        match value.get_ref().as_str() {
            Some(name) if hidden.contains(&name) => self.names("jobs", value, &hidden),
            _ => self.names("jobs", value, &texts(&self.vocabulary.jobs)),
        }
    }

    /// One name or several, each one of `known`; "all" is all of them.
    fn names(
        &self,
        key: &str,
        value: &Spanned<DeValue<'_>>,
        known: &[&str],
    ) -> Result<Vec<Name>, Wrong> {
        let items = list(value);
        if items.is_empty() {
            return wrong(value.span().start, format!("'{key}' is empty"));
        }
        let mut names = Vec::new();
        for item in items {
            let at = item.span().start;
            let Some(text) = item.get_ref().as_str() else {
                let written = &self.text[item.span()];
                return wrong(
                    at,
                    format!("'{key}' takes names in quotes: write \"{written}\""),
                );
            };
            let one = |text: &str| Name {
                text: text.into(),
                at,
            };
            match text {
                "all" if !known.contains(&"all") && key != "jobs" => {
                    names.extend(known.iter().map(|text| one(text)));
                }
                text if known.contains(&text) => names.push(one(text)),
                text => {
                    let singular = key.trim_end_matches('s').replace('-', " ");
                    return wrong(
                        at,
                        format!(
                            "unknown {singular} '{text}': known are {}",
                            known.join(", ")
                        ),
                    );
                }
            }
        }
        Ok(names)
    }

    /// A table of options, or a list of them.
    fn options(&self, value: &Spanned<DeValue<'_>>) -> Result<Vec<Options>, Wrong> {
        let mut all = Vec::new();
        for table in list(value) {
            let DeValue::Table(table) = table.get_ref() else {
                return wrong(
                    table.span().start,
                    "'options' takes a table, { size = \"64M\" }, or a list of tables",
                );
            };
            let mut options = Options::new();
            for (key, value) in table {
                let words = self.option(key, value)?;
                let at = key.span().start;
                options.insert(key.get_ref().to_string(), Given { words, at });
            }
            all.push(options);
        }
        Ok(all)
    }

    /// The words of one option; none for a flag that is false.
    fn option(
        &self,
        key: &Spanned<DeString<'_>>,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<Vec<String>, Wrong> {
        let name: &str = key.get_ref().as_ref();
        let Some(option) = self.vocabulary.option(name) else {
            let known: Vec<_> = self
                .vocabulary
                .options
                .iter()
                .map(|o| &o.name[..])
                .collect();
            return wrong(
                key.span().start,
                format!("unknown option '{name}': known are {}", known.join(", ")),
            );
        };
        let at = value.span().start;
        let is_list = matches!(value.get_ref(), DeValue::Array(_));
        if option.values == Values::Flag {
            return match value.get_ref() {
                DeValue::Boolean(true) => Ok(vec![format!("--{name}")]),
                DeValue::Boolean(false) => Ok(Vec::new()),
                _ => wrong(at, format!("'{name}' takes true or false")),
            };
        }
        if is_list && option.values == Values::One {
            return wrong(
                at,
                format!("'{name}' takes one value; for several rows write a list of 'options'"),
            );
        }
        let mut values = Vec::new();
        for item in list(value) {
            values.push(match item.get_ref() {
                DeValue::String(text) => text.to_string(),
                DeValue::Integer(_) | DeValue::Float(_) => self.text[item.span()].to_string(),
                _ => return wrong(at, format!("'{name}' takes a text or a number")),
            });
        }
        if option.values == Values::Commas {
            values = vec![values.join(",")];
        }
        Ok(values.iter().flat_map(|value| words(name, value)).collect())
    }

    /// What a set multiplies out to.
    fn rows(&self, set: &Set, top: &Set) -> Result<Vec<(Row, Places)>, Wrong> {
        let Some(jobs) = set.jobs.as_ref().or(top.jobs.as_ref()) else {
            return wrong(
                set.at,
                "this set has no 'jobs', and the top of the file neither",
            );
        };
        let first = |names: Option<&String>| -> Vec<Name> {
            let text = names.cloned().unwrap_or_default();
            vec![Name { text, at: set.at }]
        };
        let bases = set.bases.clone().or(top.bases.clone());
        let bases = bases.unwrap_or_else(|| first(self.vocabulary.bases.first()));
        let machines = set.machines.clone().or(top.machines.clone());
        let machines =
            machines.unwrap_or_else(|| first(self.vocabulary.machines.first().map(|m| &m.name)));
        let sizes = set.page_sizes.as_ref().or(top.page_sizes.as_ref());
        let variants = set.variants.as_ref().or(top.variants.as_ref());
        let variants: Vec<_> = variants
            .into_iter()
            .flatten()
            .map(|v| v.text.clone())
            .collect();
        let common = top.options.first().cloned().unwrap_or_default();
        let own = match set.options.is_empty() {
            true => vec![Options::new()],
            false => set.options.clone(),
        };
        let mut rows = Vec::new();
        for job in jobs {
            for options in &own {
                let label = label(set, job, jobs.len(), options, own.len());
                let mut all = common.clone();
                all.extend(options.clone());
                for base in &bases {
                    for name in &machines {
                        let Some(machine) = self.vocabulary.machine(&name.text) else {
                            continue;
                        };
                        for size in page_sizes(machine, sizes)? {
                            let place = [base.text.clone(), name.text.clone(), size];
                            rows.push(row(set, &label, job, place, &variants, &all, self.text));
                        }
                    }
                }
            }
        }
        Ok(rows)
    }
}

fn row(
    set: &Set,
    label: &str,
    job: &Name,
    machine: [String; 3],
    variants: &[String],
    options: &Options,
    text: &str,
) -> (Row, Places) {
    let [base, arch, size] = &machine;
    let mut words: Vec<String> = [
        "--job",
        &job.text,
        "--base",
        base,
        "--arch",
        arch,
        "--page-size",
        size,
    ]
    .map(String::from)
    .to_vec();
    if !variants.is_empty() {
        words.extend(["--variants".into(), variants.join(",")]);
    }
    words.extend(options.values().flat_map(|given| given.words.clone()));
    let row = Row {
        name: format!("{base}-{arch}-{size}.{label}"),
        machine,
        words,
        must_fail_with: set.must_fail_with.clone().unwrap_or_default(),
        line: line(text, set.at),
    };
    let options = options.iter().map(|(key, given)| (key.clone(), given.at));
    let places = Places {
        set: set.at,
        options: options.chain([("job".to_string(), job.at)]).collect(),
    };
    (row, places)
}

/// The machine's page sizes among those asked for; its first one unless told. That it lacks some is
/// usual; all of them is a mistake.
fn page_sizes(machine: &Architecture, asked: Option<&Vec<Name>>) -> Result<Vec<String>, Wrong> {
    let has = &machine.page_sizes;
    let Some(asked) = asked else {
        return Ok(has.first().cloned().into_iter().collect());
    };
    let names = asked.iter().map(|name| name.text.clone());
    let there: Vec<_> = names.filter(|name| has.contains(name)).collect();
    match (there.is_empty(), asked.first()) {
        (true, Some(first)) => wrong(
            first.at,
            format!(
                "{} has none of these page sizes: it has {}",
                machine.name,
                has.join(", ")
            ),
        ),
        _ => Ok(there),
    }
}

/// The part of a row's name that tells it from others of the same machine.
fn label(set: &Set, job: &Name, jobs: usize, options: &Options, tables: usize) -> String {
    let mut label = match &set.name {
        Some(name) if jobs == 1 => name.text.clone(),
        Some(name) => format!("{}-{}", name.text, job.text),
        None => job.text.clone(),
    };
    if tables > 1 {
        for word in options.values().flat_map(|given| &given.words) {
            let word = word.trim_start_matches('-');
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '.';
            label.push('-');
            label.extend(word.chars().map(|c| if plain(c) { c } else { '-' }));
        }
    }
    // All of it is ASCII.
    label.truncate(LABEL);
    label
}

/// An option and its value, as a command line has them.
fn words(name: &str, value: &str) -> Vec<String> {
    match value.starts_with('-') {
        true => vec![format!("--{name}={value}")],
        false => vec![format!("--{name}"), value.to_string()],
    }
}

/// The items of a list; what is none is its only item.
fn list<'a, 'b>(value: &'a Spanned<DeValue<'b>>) -> Vec<&'a Spanned<DeValue<'b>>> {
    match value.get_ref() {
        DeValue::Array(items) => items.iter().collect(),
        _ => vec![value],
    }
}

/// A set's name becomes part of file names.
fn set_name(value: &Spanned<DeValue<'_>>) -> Result<Name, Wrong> {
    let at = value.span().start;
    let good = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    match value.get_ref().as_str() {
        Some(text) if !text.is_empty() && text.len() <= LABEL && text.chars().all(good) => {
            Ok(Name {
                text: text.into(),
                at,
            })
        }
        _ => wrong(
            at,
            format!("'name' takes up to {LABEL} letters, digits, '-' and '_' in quotes"),
        ),
    }
}

/// The words that a run must fail with: one text or several, none of them empty.
fn said(value: &Spanned<DeValue<'_>>) -> Result<Vec<String>, Wrong> {
    let text = |item: &Spanned<DeValue<'_>>| {
        let text = item.get_ref().as_str().filter(|text| !text.is_empty());
        text.map(String::from)
    };
    let all: Option<Vec<_>> = list(value).into_iter().map(text).collect();
    match all.filter(|all| !all.is_empty()) {
        Some(all) => Ok(all),
        None => wrong(
            value.span().start,
            "'must-fail-with' takes words in quotes that the run prints, or a list of such words",
        ),
    }
}

fn texts(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}

/// Every name that some machine has, once.
fn union<'a>(
    machines: &'a [Architecture],
    of: fn(&'a Architecture) -> &'a Vec<String>,
) -> Vec<&'a str> {
    let mut all: Vec<&str> = Vec::new();
    for name in machines.iter().flat_map(of) {
        if !all.contains(&name.as_str()) {
            all.push(name);
        }
    }
    all
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
