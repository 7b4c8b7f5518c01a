// SPDX-License-Identifier: GPL-2.0-only
//! An image as a container sees it: its layers, one over the other. Names only: nothing of an image
//! is unpacked, so that no link in it leads anywhere but here.
//!
//! As runtimes do it, the folders of a name are followed through symbolic links, as under chroot;
//! whiteouts of a layer hide what is below it, wherever in the layer they stand.

use crate::members::Records;
use std::collections::{BTreeMap, VecDeque};
use tar::Header;

/// Symbolic links that one name may lead through, as in Linux.
const MAX_LINKS: usize = 40;

/// A layer's description of a file or folder, without its content.
#[derive(Clone)]
pub(crate) struct Meta {
    pub(crate) header: Header,
    pub(crate) records: Records,
}

/// The effect of a layer at a name.
pub(crate) enum What {
    Folder(Box<Meta>),
    /// A file, with its number if it is one of those that count here.
    File(Option<usize>),
    /// A symbolic link.
    Link(Vec<u8>),
    /// Another name of a file.
    Same(Vec<u8>),
    /// A device or FIFO.
    Other,
    /// Hides whatever layers below have at this name.
    Gone,
    /// Hides whatever layers below have in this folder.
    Opaque,
}

/// A name of a layer, without `.` and `..`, and what the layer does there.
pub(crate) struct Item {
    pub(crate) path: Vec<u8>,
    pub(crate) what: What,
}

/// The image's files and folders.
pub(crate) struct Tree {
    nodes: Vec<Node>,
}

enum Node {
    Folder {
        meta: Option<Box<Meta>>,
        names: BTreeMap<Vec<u8>, usize>,
    },
    File(Option<usize>),
    Link(Vec<u8>),
    Other,
}

const ROOT: usize = 0;

/// Why a name cannot be used.
type Why = String;

impl Tree {
    /// An image without layers.
    pub(crate) fn new() -> Tree {
        let mut tree = Tree { nodes: Vec::new() };
        tree.add(Node::folder());
        tree
    }

    /// Puts a layer on top.
    ///
    /// # Errors
    ///
    /// With the name that cannot be used, and why.
    pub(crate) fn apply(&mut self, items: Vec<Item>) -> Result<(), (Vec<u8>, Why)> {
        let hides = |item: &Item| matches!(item.what, What::Gone | What::Opaque);
        let (hiding, others): (Vec<_>, Vec<_>) = items.into_iter().partition(hides);
        for item in hiding {
            self.hide(&item.path, &item.what);
        }
        for item in others {
            self.put(&item.path, item.what)
                .map_err(|why| (item.path, why))?;
        }
        Ok(())
    }

    /// All names of each file that counts, by its number; names in order.
    pub(crate) fn counted(&self) -> BTreeMap<usize, Vec<Vec<u8>>> {
        let mut found: BTreeMap<usize, Vec<Vec<u8>>> = BTreeMap::new();
        let mut folders = vec![(Vec::new(), ROOT)];
        while let Some((path, folder)) = folders.pop() {
            for (name, node) in self.names(folder) {
                let path = joined(&path, name);
                match &self.nodes[*node] {
                    Node::Folder { .. } => folders.push((path, *node)),
                    Node::File(Some(number)) => found.entry(*number).or_default().push(path),
                    _ => {}
                }
            }
        }
        for names in found.values_mut() {
            names.sort();
        }
        found
    }

    /// The folders that a name of [`Tree::counted`] is in, the topmost first, as far as layers
    /// have entries for them.
    pub(crate) fn folders(&self, path: &[u8]) -> Vec<(Vec<u8>, &Meta)> {
        let mut found = Vec::new();
        let (mut at, mut so_far) = (ROOT, Vec::new());
        for part in parts(path) {
            let Some(node) = self.names(at).get(part) else {
                break;
            };
            let Node::Folder { meta, .. } = &self.nodes[*node] else {
                break;
            };
            so_far = joined(&so_far, part);
            at = *node;
            if let Some(meta) = meta {
                found.push((so_far.clone(), &**meta));
            }
        }
        found
    }

    /// Whether there is something at a name without links in it.
    pub(crate) fn has(&self, path: &[u8]) -> bool {
        let mut at = Some(ROOT);
        for part in parts(path) {
            at = at.and_then(|at| self.names(at).get(part).copied());
        }
        at.is_some()
    }

    fn add(&mut self, node: Node) -> usize {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    /// The names in a folder; none in all else.
    fn names(&self, node: usize) -> &BTreeMap<Vec<u8>, usize> {
        static NONE: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
        match &self.nodes[node] {
            Node::Folder { names, .. } => names,
            _ => &NONE,
        }
    }

    fn names_mut(&mut self, node: usize) -> Option<&mut BTreeMap<Vec<u8>, usize>> {
        match &mut self.nodes[node] {
            Node::Folder { names, .. } => Some(names),
            _ => None,
        }
    }

    fn hide(&mut self, path: &[u8], what: &What) {
        let (folder, name) = split(path);
        match what {
            What::Opaque => {
                let names = self.find(path).and_then(|at| self.names_mut(at));
                if let Some(names) = names {
                    names.clear();
                }
            }
            _ => {
                let names = self.find(folder).and_then(|at| self.names_mut(at));
                if let Some(names) = names {
                    names.remove(name);
                }
            }
        }
    }

    fn put(&mut self, path: &[u8], what: What) -> Result<(), Why> {
        let (folder, name) = split(path);
        if name.is_empty() {
            // The root itself.
            if let (What::Folder(new), Node::Folder { meta, .. }) = (what, &mut self.nodes[ROOT]) {
                *meta = Some(new);
            }
            return Ok(());
        }
        let folder = self.walk(folder, true)?;
        let node = match what {
            What::Folder(new) => {
                let here = self.names(folder).get(name).copied();
                if let Some(here) = here
                    && let Node::Folder { meta, .. } = &mut self.nodes[here]
                {
                    *meta = Some(new);
                    return Ok(());
                }
                self.add(Node::Folder {
                    meta: Some(new),
                    names: BTreeMap::new(),
                })
            }
            What::File(number) => self.add(Node::File(number)),
            What::Link(target) => self.add(Node::Link(target)),
            What::Same(target) => self.same(&target)?,
            _ => self.add(Node::Other),
        };
        let names = self.names_mut(folder);
        let names = names.ok_or("its folder is a file")?;
        names.insert(name.to_vec(), node);
        Ok(())
    }

    /// The file that a hard link is another name of.
    fn same(&mut self, target: &[u8]) -> Result<usize, Why> {
        let (folder, name) = split(target);
        let shown = || String::from_utf8_lossy(target).into_owned();
        let folder = self.find(folder);
        let node = folder.and_then(|folder| self.names(folder).get(name).copied());
        let node =
            node.ok_or_else(|| format!("is a hard link to {}, which is not there", shown()))?;
        match self.nodes[node] {
            Node::Folder { .. } => Err(format!("is a hard link to {}, a folder", shown())),
            _ => Ok(node),
        }
    }

    /// A folder that is there, by a name that may lead through links.
    fn find(&mut self, path: &[u8]) -> Option<usize> {
        self.walk(path, false).ok()
    }

    /// The folder of this name; made, if that is asked for, where no layer has it.
    fn walk(&mut self, path: &[u8], make: bool) -> Result<usize, Why> {
        let mut pending: VecDeque<Vec<u8>> = parts(path).map(<[u8]>::to_vec).collect();
        let mut at = vec![ROOT];
        let mut links = 0;
        while let Some(part) = pending.pop_front() {
            let here = *at.last().unwrap_or(&ROOT);
            if part == b".." {
                // Above the root is the root.
                if at.len() > 1 {
                    at.pop();
                }
                continue;
            }
            let node = match self.names(here).get(&part) {
                Some(node) => *node,
                None if make => {
                    let node = self.add(Node::folder());
                    let names = self.names_mut(here).ok_or("its folder is a file")?;
                    names.insert(part, node);
                    node
                }
                None => return Err("its folder is not there".to_owned()),
            };
            match &self.nodes[node] {
                Node::Folder { .. } => at.push(node),
                Node::Link(target) => {
                    links += 1;
                    if links > MAX_LINKS {
                        return Err("its folders are symbolic links that lead nowhere".to_owned());
                    }
                    if target.starts_with(b"/") {
                        at.truncate(1);
                    }
                    let parts: Vec<Vec<u8>> = parts(target).map(<[u8]>::to_vec).collect();
                    for part in parts.into_iter().rev() {
                        pending.push_front(part);
                    }
                }
                _ => return Err("its folder is a file".to_owned()),
            }
        }
        Ok(*at.last().unwrap_or(&ROOT))
    }
}

impl Node {
    fn folder() -> Node {
        Node::Folder {
            meta: None,
            names: BTreeMap::new(),
        }
    }
}

/// The parts of a name that mean something.
pub(crate) fn parts(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let parts = path.split(|byte| *byte == b'/');
    parts.filter(|part| !part.is_empty() && *part != b".")
}

/// Folder and last part of a name.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (b"", path),
    }
}

/// A name in a folder.
pub(crate) fn joined(folder: &[u8], name: &[u8]) -> Vec<u8> {
    match folder.is_empty() {
        true => name.to_vec(),
        false => [folder, b"/", name].concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta(mode: u32) -> Box<Meta> {
        let mut header = Header::new_ustar();
        header.set_mode(mode);
        Box::new(Meta {
            header,
            records: Records::new(),
        })
    }

    fn tree(layers: Vec<Vec<(&str, What)>>) -> Tree {
        let mut tree = Tree::new();
        for layer in layers {
            let items = layer.into_iter().map(|(path, what)| Item {
                path: path.as_bytes().to_vec(),
                what,
            });
            if let Err((path, why)) = tree.apply(items.collect()) {
                panic!("{}: {why}", String::from_utf8_lossy(&path));
            }
        }
        tree
    }

    fn file(number: usize) -> What {
        What::File(Some(number))
    }

    fn counted(tree: &Tree) -> Vec<(usize, Vec<String>)> {
        let text = |path: Vec<u8>| String::from_utf8(path).unwrap();
        let names = |names: Vec<Vec<u8>>| names.into_iter().map(text).collect();
        tree.counted()
            .into_iter()
            .map(|(n, all)| (n, names(all)))
            .collect()
    }

    fn is(found: &Tree, expected: &[(usize, &[&str])]) {
        let expected: Vec<(usize, Vec<String>)> = expected
            .iter()
            .map(|(n, names)| (*n, names.iter().map(|n| (*n).to_owned()).collect()))
            .collect();
        assert_eq!(counted(found), expected);
    }

    #[test]
    fn the_topmost_layer_that_has_a_name_counts() {
        let found = tree(vec![
            vec![
                ("usr/bin/a", file(0)),
                ("usr/bin/b", file(1)),
                ("usr/bin/c", file(2)),
            ],
            vec![("usr/bin/a", file(3)), ("usr/bin/b", What::File(None))],
        ]);
        is(&found, &[(2, &["usr/bin/c"]), (3, &["usr/bin/a"])]);
        // A file in the place of a folder hides what was in it.
        let found = tree(vec![vec![("a/b", file(0))], vec![("a", file(1))]]);
        is(&found, &[(1, &["a"])]);
    }

    #[test]
    fn whiteouts_hide_what_is_below_them_and_nothing_of_their_own_layer() {
        let found = tree(vec![
            vec![
                ("a/x", file(0)),
                ("b/x", file(1)),
                ("c/x", file(2)),
                ("c/d/y", file(3)),
            ],
            vec![
                ("c/d/z", file(4)),
                ("c", What::Opaque),
                ("a/x", file(5)),
                ("a/x", What::Gone),
                ("b", What::Gone),
                ("none/x", What::Gone),
            ],
        ]);
        is(&found, &[(4, &["c/d/z"]), (5, &["a/x"])]);
    }

    #[test]
    fn hard_links_are_names_of_one_file_across_layers() {
        let found = tree(vec![
            vec![("a", file(0)), ("b/c", What::Same(b"a".to_vec()))],
            vec![("d", What::Same(b"b/c".to_vec())), ("a", file(1))],
        ]);
        is(&found, &[(0, &["b/c", "d"]), (1, &["a"])]);
        let mut tree = Tree::new();
        let item = Item {
            path: b"x".to_vec(),
            what: What::Same(b"y".to_vec()),
        };
        let (path, why) = tree.apply(vec![item]).unwrap_err();
        assert!(path == b"x" && why.contains("hard link to y"), "{why}");
    }

    #[test]
    fn folders_are_followed_through_links_and_stay_in_the_image() {
        let link = |target: &str| What::Link(target.as_bytes().to_vec());
        let found = tree(vec![
            vec![
                ("lib", link("usr/lib")),
                ("usr/lib/x", file(0)),
                ("up", link("../../../etc")),
                ("round", link("round")),
            ],
            vec![("lib/x", file(1)), ("up/passwd", file(2))],
        ]);
        is(&found, &[(1, &["usr/lib/x"]), (2, &["etc/passwd"])]);
        let mut found = found;
        for (path, expected) in [("round/x", "lead nowhere"), ("usr/lib/x/y", "is a file")] {
            let item = Item {
                path: path.as_bytes().to_vec(),
                what: file(9),
            };
            let (_, why) = found.apply(vec![item]).unwrap_err();
            assert!(why.contains(expected), "{why}");
        }
    }

    #[test]
    fn a_folder_keeps_what_is_in_it_and_takes_what_the_last_layer_says_of_it() {
        let found = tree(vec![
            vec![("usr", What::Folder(meta(0o755))), ("usr/bin/a", file(0))],
            vec![("usr", What::Folder(meta(0o700)))],
        ]);
        let folders = found.folders(b"usr/bin/a");
        let [(path, meta)] = &folders[..] else {
            panic!("one folder has an entry");
        };
        assert_eq!(
            (&path[..], meta.header.mode().unwrap()),
            (&b"usr"[..], 0o700)
        );
        assert!(found.has(b"usr/bin/a") && found.has(b"usr") && !found.has(b"usr/lib"));
    }
}
