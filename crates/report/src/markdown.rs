// SPDX-License-Identifier: GPL-2.0-only
//! Pages whose tables of figures are written from the committed figures.
//!
//! A page says where: between the lines `<!-- figures: NAME -->` and `<!-- end -->` stands what
//! `tables.rs` calls NAME. All else on the page is left alone.

use crate::committed::Figures;
use crate::tables;
use anyhow::{Result, bail};

const BEGIN: &str = "<!-- figures: ";
const END: &str = "<!-- end -->";
const NOT_MEASURED: &str = "<!-- not measured -->";

/// A part of a page.
enum Part<'a> {
    /// Lines that are somebody's own.
    Own(&'a str),
    /// What stands between two marks.
    Block {
        name: &'a str,
        line: usize,
        body: String,
    },
}

/// A block that is not what the figures say.
#[derive(Debug, PartialEq)]
pub struct Stale {
    /// Its name.
    pub name: String,
    /// The line of its mark.
    pub line: usize,
}

/// A page with its tables as the figures have them, and those that were not so.
///
/// # Errors
///
/// If its marks do not pair, or name what there is not.
pub fn fill(page: &str, figures: &Figures) -> Result<(String, Vec<Stale>)> {
    let (mut text, mut stale) = (String::with_capacity(page.len()), Vec::new());
    for part in parts(page)? {
        match part {
            Part::Own(line) => text.push_str(line),
            Part::Block { name, line, body } => {
                let right = format!("\n{}\n", tables::markdown(name, figures)?.trim_end());
                let right = format!("{right}\n");
                if right != body {
                    let name = name.to_string();
                    stale.push(Stale { name, line });
                }
                text.push_str(&format!("{BEGIN}{name} -->\n{right}{END}\n"));
            }
        }
    }
    Ok((text, stale))
}

/// The lines at which tables begin that have figures, and are neither made nor marked
/// `<!-- not measured -->`.
pub fn loose(page: &str) -> Vec<usize> {
    let mut found = Vec::new();
    let (mut made, mut marked, mut code) = (false, false, false);
    let mut begun = None;
    for (at, line) in page.lines().enumerate() {
        code ^= line.starts_with("```");
        if line.starts_with(BEGIN) || line.starts_with("<!-- made by ") {
            made = true;
        } else if line.starts_with("<!-- end") {
            made = false;
        }
        marked |= line.trim_end() == NOT_MEASURED;
        let row = line.starts_with('|') && !made && !code;
        match (row, begun) {
            (true, None) => begun = Some(at + 1),
            (true, Some(line_1)) if !marked && has_figures(line) => {
                found.push(line_1);
                marked = true;
            }
            (false, Some(_)) => (begun, marked) = (None, line.trim_end() == NOT_MEASURED),
            _ => {}
        }
    }
    found
}

/// Whether a cell of this row, the first aside, begins with a number that is no kernel's.
fn has_figures(row: &str) -> bool {
    let number = |cell: &str| {
        let word = cell.split_whitespace().next().unwrap_or_default();
        let word = word.trim_matches(|letter: char| ".,;:()*~+-−×%".contains(letter));
        let digits = |letter: char| letter.is_ascii_digit() || letter == '.';
        !word.is_empty() && word.chars().all(digits) && !["6.12", "7.3"].contains(&word)
    };
    row.trim_matches('|').split('|').skip(1).any(number)
}

fn parts(page: &str) -> Result<Vec<Part<'_>>> {
    let mut parts = Vec::new();
    let mut open: Option<(&str, usize, String)> = None;
    for (at, line) in page.split_inclusive('\n').enumerate() {
        let mark = line.trim_end();
        let begins = mark.strip_prefix(BEGIN);
        let begins = begins.and_then(|rest| rest.strip_suffix(" -->"));
        open = match (open, begins) {
            (None, Some(name)) => Some((name, at + 1, String::new())),
            (Some((name, line, _)), Some(_)) => {
                bail!(
                    "line {line}: the table '{name}' has no '{END}' before line {}",
                    at + 1
                )
            }
            (None, None) if mark == END => bail!("line {}: '{END}' ends no table", at + 1),
            (Some((name, line, body)), None) if mark == END => {
                parts.push(Part::Block { name, line, body });
                None
            }
            (Some((name, begun, body)), None) => Some((name, begun, body + line)),
            (None, None) => {
                parts.push(Part::Own(line));
                None
            }
        };
    }
    match open {
        Some((name, line, _)) => bail!("line {line}: the table '{name}' has no '{END}'"),
        None => Ok(parts),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compact::Row;
    use crate::sample::{count, source};
    use serde_json::json;

    fn figures() -> Figures {
        let figures = json!({ "cold.faults": count(8192, 256, 260) });
        let results = source(1, "exec", &figures).results;
        let rows = vec![Row::of("7.3-arm64-4K.exec", &results, "", "").unwrap()];
        Figures {
            rows,
            ..Figures::default()
        }
    }

    const PAGE: &str = "# Page\n\n<!-- figures: exec -->\nold\n<!-- end -->\n\n    code\nlast";

    #[test]
    fn a_block_is_replaced_and_the_rest_is_left() {
        let (text, stale) = fill(PAGE, &figures()).unwrap();
        assert_eq!(stale[0].name, "exec");
        assert_eq!(stale[0].line, 3);
        assert!(
            text.starts_with("# Page\n\n<!-- figures: exec -->\n\n| machine |"),
            "{text}"
        );
        assert!(
            text.ends_with(" |\n\n<!-- end -->\n\n    code\nlast"),
            "{text}"
        );
        assert!(
            text.contains("| 7.3, arm64 4K | 8192 / 256 / 260 |"),
            "{text}"
        );
        assert_eq!(fill(&text, &figures()).unwrap(), (text, Vec::new()));
    }

    #[test]
    fn one_digit_that_differs_is_found() {
        let (text, _) = fill(PAGE, &figures()).unwrap();
        let edited = text.replace("256", "257");
        let (again, stale) = fill(&edited, &figures()).unwrap();
        assert_eq!((again, stale.len()), (text, 1));
    }

    #[test]
    fn a_table_of_figures_that_is_nobodys_is_found() {
        let table = "| a | b |\n|---|---|\n| 1 | **1.29** / 1.07 |\n| 2 | 5 |\n";
        assert_eq!(loose(&format!("# Page\n\n{table}\n{table}")), [3, 8]);
        let marked = format!("<!-- not measured -->\n\n{table}\n");
        assert!(loose(&marked).is_empty());
        assert_eq!(loose(&format!("{marked}{table}")), [8]);
        for (begin, end) in [
            ("<!-- figures: exec -->", END),
            ("<!-- made by 'x' -->", "<!-- end of what is made -->"),
            ("```", "```"),
        ] {
            let own = format!("{begin}\n{table}{end}\n");
            assert!(loose(&own).is_empty());
            assert_eq!(loose(&format!("{own}{table}")), [7]);
        }
        for cell in ["4K", "6.12 | 7.3", "ext4", "one of 5", "x86-64", "64K, 2"] {
            let page = format!("| a | b | c |\n| 1 | {cell} |\n");
            assert!(loose(&page).is_empty(), "{cell}");
        }
    }

    #[test]
    fn marks_that_do_not_pair_are_named_with_their_line() {
        for (page, words) in [
            (
                "<!-- figures: exec -->\n",
                "line 1: the table 'exec' has no",
            ),
            ("\n<!-- end -->\n", "line 2"),
            (
                "<!-- figures: exec -->\n<!-- figures: limit -->\n",
                "before line 2",
            ),
            ("<!-- figures: exce -->\n<!-- end -->\n", "'exce'"),
            ("<!-- figures: limit -->\n<!-- end -->\n", "'limit'"),
        ] {
            let error = format!("{:#}", fill(page, &figures()).unwrap_err());
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn the_pages_of_this_project_are_as_the_figures_say() {
        let figures = Figures::read(&["../../results".into()]).unwrap();
        let mut asked = std::collections::BTreeSet::new();
        let folders = ["", "/jobs", "/lab", "/results", "/tool", "/walkthroughs"];
        let folders = folders.map(|folder| format!("../../docs{folder}"));
        let docs = folders.iter().flat_map(|folder| {
            let items = std::fs::read_dir(folder).unwrap();
            items.map(|item| item.unwrap().path())
        });
        let pages = docs.filter(|path| path.extension().is_some_and(|ending| ending == "md"));
        for page in pages.chain(["../../README.md".into()]) {
            let text = std::fs::read_to_string(&page).unwrap();
            let marks = text.lines().filter_map(|line| line.strip_prefix(BEGIN));
            asked.extend(marks.map(|name| name.trim_end_matches(" -->").to_string()));
            let (_, stale) = fill(&text, &figures).unwrap();
            assert_eq!(stale, [], "{}", page.display());
            assert!(loose(&text).is_empty(), "{}", page.display());
        }
        let tables = crate::tables::names().map(String::from);
        let sheets = figures.sheets.iter().map(|sheet| sheet.table.clone());
        let unused: Vec<_> = tables
            .chain(sheets)
            .filter(|name| !asked.contains(name))
            .collect();
        assert!(unused.is_empty(), "no page asks for {unused:?}");
    }
}
