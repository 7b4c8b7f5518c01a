// SPDX-License-Identifier: GPL-2.0-only
//! Tables that are described by text: heads and lines, in which `<...>` stands for figures.
//!
//! `<ROWS FIGURES KERNELS FORM>` names rows of `results/`, figures of them, and kernels:
//!
//! - *ROWS*: the name of a row; `*` is any text, `{a,b}` either of both. The figures of several
//!   rows are shown by the least and the greatest of them, `2 to 5`.
//! - *FIGURES*: names in the same form. `a+b` is the sum of two figures; those on both sides of a
//!   comma stand side by side. One that ends in `?` may be missing.
//! - *KERNELS*: a variant; or `patched/pristine`, the ratio of two. Without it, all variants.
//! - *FORM*: `.2` digits after the point; `.1M` the same in millions, `.0%` in percent; `max` or
//!   `min`, one end alone.

use crate::cells::{Show, ratio_of, shown, unit, value};
use crate::compact::Row;
use crate::layout::table;
use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Words that a line may name with a `$` before.
type Words = BTreeMap<String, String>;

/// Tables by name.
pub type Templates = BTreeMap<String, Template>;

/// A table whose figures are filled in from rows.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Template {
    /// The heads, between bars.
    head: Option<String>,
    /// For each of these, the last head and the last cell of each line are repeated.
    #[serde(default)]
    columns: Vec<Words>,
    /// For each of these, and each of the next list and so on, all lines are repeated.
    #[serde(default)]
    each: Vec<Vec<Words>>,
    /// The table that has what this one lacks of the three.
    like: Option<String>,
    /// The cells of each line, between bars.
    lines: Vec<String>,
}

impl Template {
    /// The table as Markdown; `all` has those that it is like.
    ///
    /// # Errors
    ///
    /// If it has no heads, is like itself or like none of `all`, or names figures that no row has.
    pub fn markdown(&self, all: &Templates, rows: &[Row]) -> Result<String> {
        let kin = self.kin(all)?;
        let head = kin.iter().find_map(|table| table.head.as_deref());
        let head = head.context("it has no head")?;
        let columns = given(kin.iter().map(|table| &table.columns[..]));
        let mut lines = Vec::new();
        for words in choices(given(kin.iter().map(|table| &table.each[..]))) {
            for line in &self.lines {
                lines.push(cells(line, columns, &words, rows)?);
            }
        }
        let mut heads = cells(head, columns, &Words::new(), rows)?;
        let first = heads.remove(0);
        Ok(table(&first, heads, lines.into_iter()))
    }

    /// The table, the one that it is like, and so on.
    fn kin<'a>(&'a self, all: &'a Templates) -> Result<Vec<&'a Self>> {
        let mut kin = vec![self];
        let mut last = self;
        while let Some(name) = &last.like {
            last = all.get(name).with_context(|| format!("like '{name}'"))?;
            let known = kin.iter().any(|table| std::ptr::eq(*table, last));
            ensure!(!known, "'{name}' is like itself");
            kin.push(last);
        }
        Ok(kin)
    }
}

/// The first list that has something.
fn given<'a, T>(mut lists: impl Iterator<Item = &'a [T]>) -> &'a [T] {
    lists.find(|list| !list.is_empty()).unwrap_or_default()
}

/// The cells of a line, the last one for each of `columns`.
fn cells(line: &str, columns: &[Words], words: &Words, rows: &[Row]) -> Result<Vec<String>> {
    let mut cells: Vec<_> = line.split('|').map(|cell| named(cell, words)).collect();
    if !columns.is_empty() {
        let last = cells.pop().unwrap_or_default();
        cells.extend(columns.iter().map(|column| named(&last, column)));
    }
    cells.iter().map(|cell| filled(cell.trim(), rows)).collect()
}

/// One of each list, in all ways.
fn choices(lists: &[Vec<Words>]) -> Vec<Words> {
    let first = vec![Words::new()];
    lists.iter().fold(first, |chosen, list| {
        let with = |words: &Words| {
            let words = words.clone();
            list.iter()
                .map(move |more| words.clone().into_iter().chain(more.clone()).collect())
        };
        chosen.iter().flat_map(with).collect()
    })
}

fn named(text: &str, words: &Words) -> String {
    let mut text = text.to_string();
    for (name, word) in words {
        text = text.replace(&format!("${name}"), word);
    }
    text
}

/// A cell with its figures.
fn filled(cell: &str, rows: &[Row]) -> Result<String> {
    let Some((before, rest)) = cell.split_once('<') else {
        return Ok(cell.to_string());
    };
    let (inside, after) = rest
        .split_once('>')
        .with_context(|| format!("'{cell}': no '>' behind '<'"))?;
    let text = figures(inside, rows).with_context(|| format!("<{inside}>"))?;
    Ok(format!("{before}{text}{}", filled(after, rows)?))
}

/// A reference, taken apart.
struct Asked<'a> {
    rows: Vec<&'a Row>,
    kernels: Option<&'a str>,
    show: Option<Show>,
    end: Option<&'a str>,
}

fn figures(inside: &str, rows: &[Row]) -> Result<String> {
    let mut words = inside.split_whitespace();
    let (Some(of), Some(figures)) = (words.next(), words.next()) else {
        bail!("rows and figures have to be named");
    };
    let patterns = alternatives(of);
    let is_asked = |row: &&Row| patterns.iter().any(|pattern| matches(pattern, &row.row));
    let mut asked = Asked {
        rows: rows.iter().filter(is_asked).collect(),
        kernels: None,
        show: None,
        end: None,
    };
    ensure!(!asked.rows.is_empty(), "no row is called so");
    for word in words {
        match word.strip_prefix('.') {
            Some(form) => asked.show = Some(show(form)?),
            None if ["min", "max"].contains(&word) => asked.end = Some(word),
            None => asked.kernels = Some(word),
        }
    }
    asked.text(&at_top(figures, ','))
}

fn show(form: &str) -> Result<Show> {
    let digits = form.trim_end_matches(|letter: char| !letter.is_ascii_digit());
    let count = digits
        .parse()
        .with_context(|| format!("'.{form}' has no number of digits"))?;
    Ok(match &form[digits.len()..] {
        "" => Show::In(1.0, count),
        "M" => Show::In(1e6, count),
        "%" => Show::Percent(count),
        unit => bail!("there is no unit '{unit}'"),
    })
}

impl Asked<'_> {
    fn text(&self, figures: &[String]) -> Result<String> {
        let variants = &self.rows[0].variants;
        let kernels: Vec<&str> = match self.kernels {
            Some(one) => vec![one],
            None => variants.iter().map(String::as_str).collect(),
        };
        let mut shown = Vec::new();
        for kernel in kernels {
            let texts: Result<Vec<_>> = figures.iter().map(|f| self.range(f, kernel)).collect();
            let texts: Vec<_> = texts?.into_iter().flatten().collect();
            if !texts.is_empty() {
                shown.push(texts.join(", "));
            }
        }
        let between = if shown.len() == 2 { " → " } else { " / " };
        let unit = self.show.map_or("", |show| unit(show, !shown.is_empty()));
        Ok(shown.join(between) + unit)
    }

    /// The least and the greatest value of a figure; `None`: there is none, and need not be.
    fn range(&self, figure: &str, kernel: &str) -> Result<Option<String>> {
        let name = figure.strip_suffix('?');
        let parts: Vec<_> = at_top(name.unwrap_or(figure), '+')
            .iter()
            .map(|part| alternatives(part))
            .collect();
        let mut values: Vec<f64> = Vec::new();
        for row in &self.rows {
            values.extend(sums(row, &parts, kernel));
        }
        values.sort_by(f64::total_cmp);
        let (Some(least), Some(most)) = (values.first(), values.last()) else {
            ensure!(name.is_some(), "no row has '{figure}' of {kernel}");
            return Ok(None);
        };
        let show = self.show.unwrap_or(match figure {
            _ if kernel.contains('/') => Show::In(1.0, 2),
            // A figure per thousand is no count, though it stands beside counts.
            _ if figure.ends_with("_per_1000") => Show::In(1.0, 3),
            _ => Show::Count,
        });
        let (least, most) = (shown(*least, show), shown(*most, show));
        Ok(Some(match self.end {
            Some("min") => least,
            Some(_) => most,
            None if least == most => most,
            None => format!("{least} to {most}"),
        }))
    }
}

/// The values of a row that a figure's name stands for; several, if it has alternatives.
fn sums(row: &Row, parts: &[Vec<String>], kernel: &str) -> Vec<f64> {
    if let [patterns] = parts {
        let names = patterns.iter().flat_map(|pattern| names(row, pattern));
        return names.filter_map(|name| one(row, &[name], kernel)).collect();
    }
    let of_part = |patterns: &Vec<String>| patterns.iter().flat_map(|p| names(row, p)).collect();
    let names: Vec<Vec<String>> = parts.iter().map(of_part).collect();
    if names.iter().any(Vec::is_empty) {
        return Vec::new();
    }
    one(row, &names.concat(), kernel).into_iter().collect()
}

/// The sum of some figures of a kernel, or the ratio of two kernels' sums.
fn one(row: &Row, names: &[String], kernel: &str) -> Option<f64> {
    let sum = |variant: &str| -> Option<f64> {
        let at = row.variants.iter().position(|known| known == variant)?;
        names.iter().map(|name| value(row, name, at)).sum()
    };
    match (kernel.split_once('/'), names) {
        (None, _) => sum(kernel),
        (Some((of, by)), [name]) => ratio_of(row, name, of, by),
        (Some((of, by)), _) => Some(sum(of)? / sum(by).filter(|by| *by != 0.0)?),
    }
}

/// The figures of a row that a pattern stands for. One without `*` need not be stored: it may
/// follow from others.
fn names(row: &Row, pattern: &str) -> Vec<String> {
    if !pattern.contains('*') {
        return vec![pattern.to_string()];
    }
    let all = row.figures.keys();
    all.filter(|name| matches(pattern, name)).cloned().collect()
}

fn matches(pattern: &str, name: &str) -> bool {
    let Some((before, after)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let rest = name.strip_prefix(before);
    rest.is_some_and(|rest| (0..=rest.len()).any(|at| matches(after, &rest[at..])))
}

/// A text for each of the words that stand between braces in a pattern.
fn alternatives(pattern: &str) -> Vec<String> {
    let braces = pattern.split_once('{');
    let Some((before, (inside, after))) =
        braces.and_then(|(before, rest)| Some((before, rest.split_once('}')?)))
    else {
        return vec![pattern.to_string()];
    };
    let words = inside.split(',');
    words
        .flat_map(|word| alternatives(&format!("{before}{word}{after}")))
        .collect()
}

/// The parts of a text between the marks that are in no braces.
fn at_top(text: &str, mark: char) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut inside = false;
    for letter in text.chars() {
        inside = letter == '{' || (inside && letter != '}');
        match parts.last_mut() {
            Some(part) if inside || letter != mark => part.push(letter),
            _ => parts.push(String::new()),
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{count, source};
    use serde_json::json;

    fn row(name: &str, faults: u64) -> Row {
        let figures = json!({
            "64K.faults": count(faults, 7, 260),
            "2M.faults": count(1000, 1, 10),
            "scans": count(0, 1, 2),
            "text.4K": count(512, 0, 256),
            "text.2M": count(0, 512, 256),
        });
        Row::of(name, &source(1, "exec", &figures).results, "", "").unwrap()
    }

    fn rows() -> [Row; 2] {
        [row("6.12-arm64-4K.s", 100), row("7.3-arm64-4K.s", 300)]
    }

    fn cell(text: &str) -> String {
        filled(text, &rows()).unwrap()
    }

    #[test]
    fn a_reference_is_replaced_by_its_figure() {
        assert_eq!(
            cell("a <7.3-arm64-4K.s 64K.faults pristine>, b"),
            "a 300, b"
        );
        assert_eq!(cell("<7.3-arm64-4K.s 64K.faults>"), "300 / 7 / 260");
        assert_eq!(
            cell("<7.3-arm64-4K.s text.2M_percent patched .1%>"),
            "50.0 %"
        );
        assert_eq!(cell("<7.3-arm64-4K.s 64K.faults,2M.faults reads>"), "7, 1");
    }

    #[test]
    fn figures_of_several_rows_are_a_range() {
        assert_eq!(cell("<*.s 64K.faults pristine>"), "100 to 300");
        assert_eq!(cell("<*.s 64K.faults patched>"), "260");
        assert_eq!(cell("<{6.12,7.3}-*.s *.faults pristine>"), "100 to 1000");
        assert_eq!(cell("<7*.s {64K,2M}.faults patched>"), "10 to 260");
        assert_eq!(cell("up to <*.s 64K.faults pristine max>"), "up to 300");
        assert_eq!(cell("<*.s 64K.faults pristine min .1M>"), "0.0");
    }

    #[test]
    fn ratios_are_of_two_kernels() {
        assert_eq!(cell("<*.s 64K.faults patched/pristine>"), "0.87 to 2.60");
        assert_eq!(
            cell("<7*.s 64K.faults+2M.faults patched/pristine .3>"),
            "0.208"
        );
    }

    #[test]
    fn a_figure_that_is_not_there_is_an_error_unless_it_may_be_missing() {
        assert_eq!(cell("<7*.s 64K.faults,none? reads>"), "7");
        assert_eq!(cell("<7*.s none?>"), "");
        for (text, words) in [
            (
                "<7.3-arm64-4K.t 64K.faults>",
                "<7.3-arm64-4K.t 64K.faults>: no row",
            ),
            ("<*.s none>", "'none' of pristine"),
            ("<*.s x*+64K.faults>", "'x*+64K.faults' of pristine"),
            ("<*.s 64K.faults writes>", "of writes"),
            ("<*.s scans patched/pristine>", "patched/pristine"),
            ("<*.s 64K.faults .x>", "'.x'"),
            ("<*.s 64K.faults .1G>", "'G'"),
            ("<*.s>", "have to be named"),
            ("<*.s", "no '>'"),
        ] {
            let error = format!("{:#}", filled(text, &rows()).unwrap_err());
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    fn templates(more: &str) -> Templates {
        let text = "[a]\n\
            head = 'case | $c'\n\
            columns = [{ c = '6.12', r = '6.12-arm64-4K.s' },\n\
            { c = '7.3', r = '7.3-arm64-4K.s' }]\n\
            each = [[{ s = '64K' }, { s = '2M' }]]\n\
            lines = ['$s | <$r $s.faults pristine>']\n\
            [b]\n\
            lines = ['$s: 2M | <$r 2M.faults reads>']\n";
        toml::from_str(&format!("{text}{more}")).unwrap()
    }

    #[test]
    fn lines_and_columns_are_repeated() {
        let all = templates("");
        assert_eq!(
            all["a"].markdown(&all, &rows()).unwrap(),
            "| case | 6.12 | 7.3 |\n|---|---|---|\n\
             | 64K | 100 | 300 |\n| 2M | 1000 | 1000 |\n\n"
        );
    }

    #[test]
    fn a_table_has_what_is_its_own_and_the_rest_of_another_one() {
        let b = |more: &str| {
            let all = templates(more);
            all["b"].markdown(&all, &rows())
        };
        for (more, head, lines) in [
            ("like = 'a'", "case", ["64K: 2M", "2M: 2M"].as_slice()),
            ("like = 'a'\neach = [[{ s = 'x' }]]", "case", &["x: 2M"]),
            (
                "like = 'c'\n[c]\nlike = 'a'\nhead = 'of c | $c'\nlines = []",
                "of c",
                &["64K: 2M", "2M: 2M"],
            ),
        ] {
            let lines: String = lines.iter().map(|l| format!("| {l} | 1 | 1 |\n")).collect();
            let expected = format!("| {head} | 6.12 | 7.3 |\n|---|---|---|\n{lines}\n");
            assert_eq!(b(more).unwrap(), expected, "{more}");
        }
        for (more, words) in [
            ("", "no head"),
            ("like = 'b'", "like itself"),
            ("like = 'c'\n[c]\nlike = 'b'\nlines = []", "like itself"),
            ("like = 'c'", "like 'c'"),
        ] {
            let error = b(more).unwrap_err().to_string();
            assert!(error.contains(words), "{more}: {error}");
        }
    }
}
