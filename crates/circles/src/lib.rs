// SPDX-License-Identifier: GPL-2.0-only
//! Finds which files of a crate use which, and those that use each other in a
//! circle: a file that, by however many others, uses itself.
//!
//! What counts is a file's `use` items and paths, also those in macro calls.
//! What does not: declaring a module, a crate's root passing on names of its
//! modules (`pub use`), and tests. The workspace's own crates are looked at by
//! `tests/workspace.rs`, and so are the kernel's files, by a [small reader of
//! C](circle_of_c).

mod c;
mod search;

pub use c::circle_of_c;

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemMod, ItemUse, UseTree, Visibility};

/// Why a crate cannot be looked at.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file that cannot be read.
    #[error("{}: {error}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// The system's reason.
        error: std::io::Error,
    },
    /// One that is not Rust.
    #[error("{}: {error}", path.display())]
    Syntax {
        /// Which.
        path: PathBuf,
        /// The parser's reason.
        error: syn::Error,
    },
}

/// The files on a circle of the crate whose root is `root`, each using the next,
/// the first again at the end; `None` if there is none.
///
/// # Errors
///
/// If a file cannot be read or is not Rust.
pub fn circle(root: &Path) -> Result<Option<Vec<PathBuf>>, Error> {
    Ok(Crate::read(root)?.circle())
}

/// Which files of the crate whose root is `root` each of its files uses.
///
/// # Errors
///
/// As above.
pub fn uses(root: &Path) -> Result<BTreeMap<PathBuf, BTreeSet<PathBuf>>, Error> {
    let this = Crate::read(root)?;
    let path = |name: &Name| this.files[name].clone();
    let uses = this.uses().into_iter();
    Ok(uses
        .map(|(file, used)| (path(&file), used.iter().map(path).collect()))
        .collect())
}

/// A module's path from the crate's root.
type Name = Vec<String>;

/// Where a path begins and how it goes on: `["super", "table", "Row"]`.
type Words = Vec<String>;

/// The modules of one crate that have files of their own.
#[derive(Default)]
struct Crate {
    files: BTreeMap<Name, PathBuf>,
    /// What each mentions, from which (inline) module.
    mentions: BTreeMap<Name, Vec<(Name, Words)>>,
    /// Names that a module passes on.
    exports: BTreeMap<(Name, String), Words>,
}

impl Crate {
    fn read(root: &Path) -> Result<Self, Error> {
        let mut this = Self::default();
        let folder = root.parent().unwrap_or(Path::new("."));
        this.add(Vec::new(), root, folder)?;
        Ok(this)
    }

    /// Reads a module's file, and those of the modules that it declares, which
    /// are in `folder`.
    fn add(&mut self, name: Name, path: &Path, folder: &Path) -> Result<(), Error> {
        let named = || path.to_owned();
        let text = fs::read_to_string(path).map_err(|error| Error::Read {
            path: named(),
            error,
        })?;
        let file = syn::parse_file(&text).map_err(|error| Error::Syntax {
            path: named(),
            error,
        })?;
        let mut reader = Reader {
            file: name.clone(),
            here: name.clone(),
            mentions: Vec::new(),
            exports: Vec::new(),
            declared: Vec::new(),
        };
        reader.visit_file(&file);
        self.files.insert(name.clone(), path.to_owned());
        self.mentions.insert(name.clone(), reader.mentions);
        for (export, words) in reader.exports {
            self.exports.insert((name.clone(), export), words);
        }
        for child in reader.declared {
            let flat = folder.join(format!("{child}.rs"));
            let deep = folder.join(&child).join("mod.rs");
            let path = if flat.exists() { flat } else { deep };
            let name = [name.as_slice(), std::slice::from_ref(&child)].concat();
            self.add(name, &path, &folder.join(child))?;
        }
        Ok(())
    }

    /// The module with a file that `words`, read in the module `from`, leads to.
    fn target(&self, from: &Name, words: &[String], depth: usize) -> Option<Name> {
        let mut at = from.clone();
        let mut rest = words;
        match rest.first()?.as_str() {
            "crate" => at.clear(),
            "self" => {}
            "super" => {}
            child => {
                let inside = [at.as_slice(), &[child.to_string()]].concat();
                if !self.files.contains_key(&inside) {
                    return None;
                }
            }
        }
        while let Some(word) = rest.first() {
            match word.as_str() {
                "crate" | "self" => {}
                "super" => drop(at.pop()?),
                child => {
                    let inside = [at.as_slice(), &[child.to_string()]].concat();
                    if !self.files.contains_key(&inside) {
                        break;
                    }
                    at = inside;
                }
            }
            rest = &rest[1..];
        }
        // An inline module is in its file.
        while !self.files.contains_key(&at) {
            at.pop()?;
        }
        let passed_on = rest
            .first()
            .and_then(|word| self.exports.get(&(at.clone(), word.clone())));
        match passed_on {
            Some(words) if depth > 0 => self.target(&at, words, depth - 1).or(Some(at)),
            _ => Some(at),
        }
    }

    fn uses(&self) -> BTreeMap<Name, BTreeSet<Name>> {
        let of = |(file, mentions): (&Name, &Vec<(Name, Words)>)| {
            let targets = mentions
                .iter()
                .filter_map(|(from, words)| self.target(from, words, 8));
            let targets = targets.filter(|target| target != file).collect();
            (file.clone(), targets)
        };
        self.mentions.iter().map(of).collect()
    }

    /// A circle as the files on it, the first again at the end.
    fn circle(&self) -> Option<Vec<PathBuf>> {
        let circle = search::circle(&self.uses())?;
        Some(circle.iter().map(|name| self.files[name].clone()).collect())
    }
}

/// Collects what one file mentions.
struct Reader {
    file: Name,
    /// The module that is read: the file's or an inline one.
    here: Name,
    mentions: Vec<(Name, Words)>,
    exports: Vec<(String, Words)>,
    declared: Vec<String>,
}

fn is_for_tests(attributes: &[Attribute]) -> bool {
    let of_tests = |a: &Attribute| {
        a.path().is_ident("cfg") && a.to_token_stream().to_string().contains("(test)")
    };
    attributes.iter().any(of_tests)
}

impl Reader {
    fn mention(&mut self, words: Words) {
        self.mentions.push((self.here.clone(), words));
    }

    fn tree(&self, tree: &UseTree, before: &Words, found: &mut Vec<(String, Words)>) {
        let with = |word: String| [before.as_slice(), &[word]].concat();
        match tree {
            UseTree::Path(path) => self.tree(&path.tree, &with(path.ident.to_string()), found),
            UseTree::Name(name) => {
                found.push((name.ident.to_string(), with(name.ident.to_string())))
            }
            UseTree::Rename(name) => {
                found.push((name.rename.to_string(), with(name.ident.to_string())))
            }
            UseTree::Glob(_) => found.push(("*".into(), before.clone())),
            UseTree::Group(group) => {
                group
                    .items
                    .iter()
                    .for_each(|tree| self.tree(tree, before, found));
            }
        }
    }

    /// Paths in a macro's call, which is not parsed.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut words: Words = Vec::new();
        let mut colons = 2;
        for token in tokens {
            match token {
                TokenTree::Ident(word) if colons == 2 => {
                    words.push(word.to_string());
                    colons = 0;
                    continue;
                }
                TokenTree::Punct(p) if p.as_char() == ':' && colons < 2 && !words.is_empty() => {
                    colons += 1;
                    continue;
                }
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Ident(word) => {
                    self.mention(std::mem::replace(&mut words, vec![word.to_string()]));
                    colons = 0;
                    continue;
                }
                _ => {}
            }
            self.mention(std::mem::take(&mut words));
            colons = 2;
        }
        self.mention(words);
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item(&mut self, item: &'ast Item) {
        let attributes = match item {
            Item::Mod(item) => &item.attrs,
            Item::Fn(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            Item::Use(item) => &item.attrs,
            Item::Const(item) => &item.attrs,
            _ => return visit::visit_item(self, item),
        };
        if !is_for_tests(attributes) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        let name = item.ident.to_string();
        match &item.content {
            None => self.declared.push(name),
            Some(_) => {
                self.here.push(name);
                visit::visit_item_mod(self, item);
                self.here.pop();
            }
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        let mut found = Vec::new();
        self.tree(&item.tree, &Vec::new(), &mut found);
        if !matches!(item.vis, Visibility::Inherited) {
            self.exports.extend(found.iter().cloned());
            if self.file.is_empty() {
                return;
            }
        }
        for (_, words) in found {
            self.mention(words);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.segments.len() > 1 {
            self.mention(path.segments.iter().map(|s| s.ident.to_string()).collect());
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.tokens(call.tokens.clone());
        visit::visit_macro(self, call);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The circle in a crate of these files, by name.
    fn planted(files: &[(&str, &str)]) -> Option<Vec<String>> {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let found = circle(&dir.path().join("lib.rs")).unwrap()?;
        let name = |path: &PathBuf| path.strip_prefix(dir.path()).unwrap().display().to_string();
        Some(found.iter().map(name).collect())
    }

    #[test]
    fn a_circle_is_named() {
        let lib = ("lib.rs", "mod a; mod b; mod c;");
        let down = [
            lib,
            ("a.rs", "use crate::b::B; fn f() { crate::c::g() }"),
            ("b.rs", "pub struct B; use crate::c;"),
            ("c.rs", "pub fn g() {}"),
        ];
        assert_eq!(planted(&down), None);
        let mut round = down;
        for up in [
            "use super::a::f;",
            "use crate::{a::{f, X}, b};",
            "pub fn g() { crate::a::f() }",
            "pub fn g() { println!(\"{}\", crate::a::f()) }",
            "use super::*; fn h(_: super::b::B) {} use crate::a as other;",
        ] {
            round[3] = ("c.rs", up);
            let circle = planted(&round).unwrap_or_else(|| panic!("{up}"));
            assert_eq!(circle.first(), circle.last());
            assert!(circle.contains(&"c.rs".into()), "{circle:?}");
        }
    }

    #[test]
    fn a_folder_and_its_parent() {
        let lib = ("lib.rs", "pub mod a;");
        let child = ("a/b.rs", "use super::A; pub struct B(A);");
        let alone = ("a.rs", "mod b; pub struct A;");
        assert_eq!(planted(&[lib, alone, child]), None);
        for both in [
            "mod b; pub struct A; fn f(_: b::B) {}",
            "mod b; pub use b::B; pub struct A;",
            "mod b; pub struct A; mod inner { fn f(_: super::b::B) {} }",
        ] {
            assert!(planted(&[lib, ("a.rs", both), child]).is_some(), "{both}");
        }
    }

    #[test]
    fn a_root_passes_names_on_and_tests_may_look_anywhere() {
        let files = [
            ("lib.rs", "mod a; mod b; pub use a::A; #[cfg(test)] mod t;"),
            (
                "a.rs",
                "pub struct A; #[cfg(test)] mod tests { use crate::b; }",
            ),
            ("b.rs", "use crate::A;"),
            ("t.rs", "use crate::a; not even Rust"),
        ];
        assert_eq!(planted(&files), None);
        let mut round = files;
        round[1] = ("a.rs", "pub struct A; use crate::b;");
        assert!(planted(&round).is_some());
    }
}
