// SPDX-License-Identifier: GPL-2.0-only
//! Pages whose tables of figures are written from the committed figures.
//!
//! A page says where: between the lines `<!-- figures: NAME -->` and `<!-- end -->` stands what
//! `tables.rs` calls NAME. All else on the page is left alone.

use crate::compact::Row;
use crate::tables;
use anyhow::{Result, bail};

const BEGIN: &str = "<!-- figures: ";
const END: &str = "<!-- end -->";

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

/// A page with its tables as `rows` have them, and those that were not so.
///
/// # Errors
///
/// If its marks do not pair, or name what there is not.
pub fn fill(page: &str, rows: &[Row]) -> Result<(String, Vec<Stale>)> {
    let (mut text, mut stale) = (String::with_capacity(page.len()), Vec::new());
    for part in parts(page)? {
        match part {
            Part::Own(line) => text.push_str(line),
            Part::Block { name, line, body } => {
                let right = format!("\n{}\n", tables::markdown(name, rows)?.trim_end());
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
    use crate::sample::{count, source};
    use serde_json::json;

    fn rows() -> Vec<Row> {
        let figures = json!({ "cold.faults": count(8192, 256, 260) });
        let results = source(1, "exec", &figures).results;
        vec![Row::of("7.3-arm64-4K.exec", &results, "", "").unwrap()]
    }

    const PAGE: &str = "# Page\n\n<!-- figures: exec -->\nold\n<!-- end -->\n\n    code\nlast";

    #[test]
    fn a_block_is_replaced_and_the_rest_is_left() {
        let (text, stale) = fill(PAGE, &rows()).unwrap();
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
        assert_eq!(fill(&text, &rows()).unwrap(), (text, Vec::new()));
    }

    #[test]
    fn one_digit_that_differs_is_found() {
        let (text, _) = fill(PAGE, &rows()).unwrap();
        let edited = text.replace("256", "257");
        let (again, stale) = fill(&edited, &rows()).unwrap();
        assert_eq!((again, stale.len()), (text, 1));
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
            let error = format!("{:#}", fill(page, &rows()).unwrap_err());
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn the_pages_of_this_project_are_as_the_figures_say() {
        let rows = Row::read_all(std::path::Path::new("../../results")).unwrap();
        let docs = std::fs::read_dir("../../docs")
            .unwrap()
            .map(|item| item.unwrap().path());
        let pages = docs.filter(|path| path.extension().is_some_and(|ending| ending == "md"));
        let mut blocks = 0;
        for page in pages.chain(["../../README.md".into()]) {
            let text = std::fs::read_to_string(&page).unwrap();
            blocks += text.lines().filter(|line| line.starts_with(BEGIN)).count();
            let (_, stale) = fill(&text, &rows).unwrap();
            assert_eq!(stale, [], "{}", page.display());
        }
        assert!(blocks > 10, "{blocks}");
    }
}
