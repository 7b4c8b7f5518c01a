// SPDX-License-Identifier: GPL-2.0-only
//! Circles of C files, in kernel style: enough of C to tell which file defines
//! a function and which files name it.

use crate::search;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The files on a circle below `folder`, each using the next, the first again at
/// the end; `None` if there is none.
///
/// A file uses the headers that it includes and the files whose functions it
/// names. What a header's inline functions and macros name is used by the files
/// that name those. Files that are not below `folder` are on no circle.
///
/// # Errors
///
/// A sentence that names a folder or file that cannot be read.
pub fn circle_of_c(folder: &Path) -> Result<Option<Vec<PathBuf>>, String> {
    let mut files = Vec::new();
    find(folder, &mut files)?;
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok((path, File::read(&text)))
    };
    let files: Result<BTreeMap<_, _>, String> = files.into_iter().map(read).collect();
    Ok(search::circle(&uses(&files?)))
}

fn find(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), String> {
    let error = |e| format!("{}: {e}", folder.display());
    for entry in fs::read_dir(folder).map_err(error)? {
        let path = entry.map_err(error)?.path();
        if path.is_dir() {
            find(&path, files)?;
        } else if path.extension().is_some_and(|e| e == "c" || e == "h") {
            files.push(path);
        }
    }
    Ok(())
}

type Names = BTreeSet<String>;

/// What one file says.
#[derive(Default)]
struct File {
    includes: Vec<String>,
    /// Functions and macros of this file, with the names in them.
    own: BTreeMap<String, Names>,
    /// Those functions that other files can call.
    global: Names,
    /// All names that may be functions.
    names: Names,
}

fn uses(files: &BTreeMap<PathBuf, File>) -> BTreeMap<PathBuf, BTreeSet<PathBuf>> {
    let is_header = |path: &Path| path.extension().is_some_and(|e| e == "h");
    let mut defined: BTreeMap<&str, &PathBuf> = BTreeMap::new();
    let mut inlined: BTreeMap<&str, Vec<&Names>> = BTreeMap::new();
    for (path, file) in files {
        if is_header(path) {
            for (name, names) in &file.own {
                inlined.entry(name).or_default().push(names);
            }
        } else {
            defined.extend(file.global.iter().map(|name| (name.as_str(), path)));
        }
    }

    let of = |(path, file): (&PathBuf, &File)| {
        let includes = file
            .includes
            .iter()
            .filter_map(|name| included(files, name));
        let mut used: BTreeSet<PathBuf> = includes.cloned().collect();
        if !is_header(path) {
            let names = expanded(file, &inlined);
            used.extend(
                names
                    .iter()
                    .filter_map(|n| defined.get(n))
                    .map(|&p| p.clone()),
            );
        }
        used.remove(path);
        (path.clone(), used)
    };
    files.iter().map(of).collect()
}

/// `linux/x.h`, or `../x.h`, as one of the files.
fn included<'a>(files: &'a BTreeMap<PathBuf, File>, name: &str) -> Option<&'a PathBuf> {
    let name = name.trim_start_matches("../");
    files.keys().find(|path| path.ends_with(name))
}

/// The names in a file that are not its own, and those in what headers make of
/// them.
fn expanded<'a>(file: &'a File, inlined: &BTreeMap<&str, Vec<&'a Names>>) -> BTreeSet<&'a str> {
    let mut all = BTreeSet::new();
    let mut new: Vec<&str> = file.names.iter().map(String::as_str).collect();
    while let Some(name) = new.pop() {
        if !file.own.contains_key(name) && all.insert(name) {
            let inside = inlined.get(name).into_iter().flatten();
            new.extend(inside.flat_map(|names| names.iter().map(String::as_str)));
        }
    }
    all
}

impl File {
    fn read(text: &str) -> Self {
        let mut file = Self::default();
        let mut code = String::new();
        // A line that ends with a backslash goes on.
        for line in without_comments(text).replace("\\\n", " ").lines() {
            match line.trim_start().strip_prefix('#') {
                Some(directive) => file.directive(directive.trim()),
                None => code.extend([line, "\n"]),
            }
        }
        file.code(&words(&code));
        file
    }

    fn directive(&mut self, text: &str) {
        if let Some(include) = text.strip_prefix("include") {
            let name = include.trim().trim_matches(['<', '>', '"']);
            self.includes.push(name.to_string());
        } else if let Some(define) = text.strip_prefix("define") {
            let words = words(define);
            if let Some((name, body)) = words.split_first() {
                self.own
                    .entry(name.clone())
                    .or_default()
                    .extend(functions(body));
                self.names.extend(functions(body));
            }
        }
    }

    /// Finds definitions: what stands before the braces at file level.
    fn code(&mut self, words: &[String]) {
        self.names.extend(functions(words));
        let (mut depth, mut head, mut body) = (0, 0, 0);
        for (at, word) in words.iter().enumerate() {
            match word.as_str() {
                "{" => {
                    if depth == 0 {
                        body = at;
                    }
                    depth += 1;
                }
                "}" => {
                    depth -= 1;
                    if depth == 0 {
                        self.definition(&words[head..body], &words[body..at]);
                        head = at + 1;
                    }
                }
                ";" if depth == 0 => head = at + 1,
                _ => {}
            }
        }
    }

    fn definition(&mut self, head: &[String], body: &[String]) {
        let is = |word: &str| head.iter().any(|other| other == word);
        let Some(open) = head.iter().position(|word| word == "(") else {
            return;
        };
        if open == 0 || is("=") {
            return;
        }
        let name = &head[open - 1];
        self.own
            .entry(name.clone())
            .or_default()
            .extend(functions(body));
        if !is("static") {
            self.global.insert(name.clone());
        }
    }
}

/// Comments as blanks, and strings and characters empty.
fn without_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (end, instead) = if rest.starts_with("/*") {
            (rest.find("*/").map_or(rest.len(), |at| at + 2), " ")
        } else if rest.starts_with("//") {
            (rest.find('\n').unwrap_or(rest.len()), " ")
        } else if first == '"' && !is_include(&out) || first == '\'' {
            (end_of_quoted(rest, first), "0")
        } else {
            out.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        };
        out.push_str(instead);
        rest = &rest[end..];
    }
    out
}

/// Whether a quote behind this text begins the name of a header.
fn is_include(before: &str) -> bool {
    before
        .rsplit('\n')
        .next()
        .is_some_and(|line| line.trim_start().starts_with('#') && line.contains("include"))
}

fn end_of_quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        if c == quote && !escaped {
            return at + 1;
        }
        escaped = c == '\\' && !escaped;
    }
    text.len()
}

/// Identifiers and numbers, `->`, and single characters of all else.
fn words(text: &str) -> Vec<String> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut words: Vec<String> = Vec::new();
    let mut joins = false;
    for c in text.chars() {
        let arrow = c == '>' && words.last().is_some_and(|last| last == "-");
        match words.last_mut() {
            Some(last) if joins && is_word(c) || arrow => last.push(c),
            _ if c.is_whitespace() => {}
            _ => words.push(c.to_string()),
        }
        joins = is_word(c);
    }
    words
}

/// The words that may name a function: a type or a member does not.
fn functions(words: &[String]) -> impl Iterator<Item = String> + '_ {
    let other = ["struct", "union", "enum", ".", "->"];
    words.iter().enumerate().filter_map(move |(at, word)| {
        let before = at.checked_sub(1).map_or("", |at| words[at].as_str());
        let named = word.starts_with(|c: char| c.is_alphabetic() || c == '_');
        (named && !other.contains(&before)).then(|| word.clone())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The circle among these files, by name.
    fn planted(files: &[(&str, &str)]) -> Option<Vec<String>> {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let found = circle_of_c(dir.path()).unwrap()?;
        let name = |path: &PathBuf| path.strip_prefix(dir.path()).unwrap().display().to_string();
        Some(found.iter().map(name).collect())
    }

    const UP: (&str, &str) = ("mm/up.c", "int up(void)\n{\n\treturn down();\n}\n");

    #[test]
    fn files_that_call_each_other_are_named() {
        let down = "int down(void)\n{\n\treturn 0;\n}\n";
        assert_eq!(planted(&[UP, ("mm/down.c", down)]), None);
        for call in [
            "int down(void)\n{\n\treturn up();\n}\n",
            "int down(void) { return 0; }\nstatic int (*f)(void) = up;\n",
            "int down(void) { return 0; }\n#define UP() \\\n\tup()\n",
            "struct s { int a; };\nint __init down(int a)\n{\n\tif (a) {\n\t\tup();\n\t}\n}\n",
        ] {
            let circle = planted(&[UP, ("mm/down.c", call)]);
            assert_eq!(circle.as_deref().map(<[_]>::len), Some(3), "{call}");
        }
    }

    #[test]
    fn the_inline_functions_of_a_header_belong_to_their_callers() {
        let header = "int up(void);\nstatic inline int between(void)\n{\n\treturn up();\n}\n";
        let header = ("include/linux/h.h", header);
        let alone = ("mm/down.c", "#include <linux/h.h>\nint down(void)\n{\n}\n");
        assert_eq!(planted(&[UP, header, alone]), None);
        let calls = ("mm/down.c", "int down(void)\n{\n\treturn between();\n}\n");
        assert!(planted(&[UP, header, calls]).is_some());
    }

    #[test]
    fn names_that_are_no_calls_do_not_count() {
        for text in [
            "int down(void) { /* up() */ return 0; } // up()\n",
            "int down(void) { printk(\"up() \\\" up()\"); return 'u'; }\n",
            "struct up;\nint down(struct up *a) { return a->up + (*a).up; }\n",
            "static int up(void) { return 0; }\nint down(void) { return up(); }\n",
        ] {
            assert_eq!(planted(&[UP, ("mm/down.c", text)]), None, "{text}");
        }
    }

    #[test]
    fn headers_that_include_each_other_are_a_circle() {
        let a = ("include/linux/a.h", "#include <linux/b.h>\n");
        let b = ("include/linux/b.h", "#include <linux/other.h>\n");
        assert_eq!(planted(&[a, b]), None);
        for up in ["#include <linux/a.h>\n", "# include \"a.h\"\n"] {
            assert!(planted(&[a, ("include/linux/b.h", up)]).is_some(), "{up}");
        }
    }
}
