// SPDX-License-Identifier: GPL-2.0-only
//! A small repository whose make stands for kbuild.

use super::*;
use crate::testing::{Lab, MAKEFILE, MERGE, quiet};
use crate::{Spec, Variant, ensure, key};

/// A git tree with a kernel, and a lab with fragments for it.
struct Tree {
    dir: tempfile::TempDir,
    lab: Lab,
}

impl Tree {
    /// Its first commit is tagged `old`, its second one, which changes a file and adds one, `new`.
    fn new() -> Self {
        let tree = Self {
            dir: tempfile::tempdir().unwrap(),
            lab: Lab::new(),
        };
        tree.git(&["init", "-q"]);
        let makefile =
            format!("VERSION = 7\nPATCHLEVEL = 4\nSUBLEVEL = 0\nEXTRAVERSION = -rc2\n{MAKEFILE}");
        tree.write("Makefile", &makefile);
        tree.write("scripts/kconfig/merge_config.sh", MERGE);
        tree.write("mm/filemap.c", "old\n");
        tree.write("mm/same.c", "same\n");
        tree.commit("old");
        tree.write("mm/filemap.c", "new\n");
        tree.write("mm/leaf.c", "leaf\n");
        tree.commit("new");
        tree
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn git(&self, args: &[&str]) -> String {
        let mut git = git();
        for role in ["AUTHOR", "COMMITTER"] {
            git.env(format!("GIT_{role}_NAME"), "A")
                .env(format!("GIT_{role}_EMAIL"), "a@b");
        }
        tool::stdout(git.arg("-C").arg(self.path()).args(args)).unwrap()
    }

    fn commit(&self, tag: &str) {
        self.git(&["add", "."]);
        self.git(&["commit", "-q", "-m", tag]);
        self.git(&["tag", tag]);
    }

    fn spec(&self, variant: Variant, name: &str) -> Spec {
        let mut spec = self.lab.spec(variant);
        spec.version = None;
        spec.commit = Some(Commit::find(self.path(), name).unwrap());
        spec
    }

    fn build(&self, name: &str) -> String {
        let kernel = ensure(&self.spec(Variant::Pristine, name), &self.lab.cache, &quiet);
        fs::read_to_string(kernel.unwrap().image).unwrap()
    }

    fn key(&self, variant: Variant, name: &str) -> String {
        key(&self.spec(variant, name)).unwrap()
    }
}

#[test]
fn a_commit_is_found_with_its_version_and_base() {
    let tree = Tree::new();
    let commit = Commit::find(tree.path(), "new").unwrap();
    assert_eq!(commit.id, tree.git(&["rev-parse", "HEAD"]).trim());
    assert_eq!(commit.version, "7.4.0-rc2");
    assert_eq!(commit.base(), Base::V7_3);
    let older = |version: &str| Commit {
        version: version.into(),
        ..commit.clone()
    };
    assert_eq!(older("6.18.1").base(), Base::V6_12);
    assert_eq!(older("6.1.9").base(), Base::V6_12);
}

#[test]
fn what_cannot_be_built_names_tree_and_commit() {
    let tree = Tree::new();
    let refusal = |dir: &Path, name: &str| format!("{:#}", Commit::find(dir, name).unwrap_err());
    let text = refusal(tree.path(), "newer");
    assert!(
        text.contains("'newer'") && text.contains("no such commit"),
        "{text}"
    );
    assert!(refusal(tree.path(), "--help").contains("no such commit"));
    assert!(refusal(Path::new("/dev/null/tree"), "new").contains("/dev/null/tree: no git tree"));
    let empty = tempfile::tempdir().unwrap();
    assert!(refusal(empty.path(), "new").contains("not a git tree"));
    tree.git(&["rm", "-q", "scripts/kconfig/merge_config.sh"]);
    tree.commit("less");
    assert!(refusal(tree.path(), "less").contains("it has no scripts/kconfig"));
    tree.git(&["checkout", "-q", "old"]);
    tree.write("Makefile", "all:\n");
    tree.commit("odd");
    assert!(refusal(tree.path(), "odd").contains("names no VERSION"));
}

#[test]
fn both_commits_are_built_and_the_users_tree_is_left_alone() {
    let tree = Tree::new();
    tree.write("mm/same.c", "not committed\n");
    tree.write("mm/untracked.c", "nor this\n");
    let before = tree.git(&["status", "--porcelain"]);
    assert_eq!(tree.build("new"), "new\nleaf\nsame\n");
    assert_eq!(tree.build("old"), "old\nsame\n");
    assert_eq!(tree.git(&["status", "--porcelain"]), before);
    assert!(!tree.path().join(".git/index.lock").exists());
}

#[test]
fn a_checkout_that_was_cut_off_is_repaired() {
    let tree = Tree::new();
    tree.build("old");
    let commit = Commit::find(tree.path(), "new").unwrap();
    let place = commit.check_out(&tree.lab.cache, &quiet).unwrap();
    fs::write(place.dir().join("index.lock"), "").unwrap();
    fs::write(place.src().join("mm/same.c"), "half").unwrap();
    fs::write(place.src().join("mm/more.c"), "of another commit").unwrap();
    fs::remove_file(place.src().join("mm/leaf.c")).unwrap();
    drop(place);
    assert_eq!(tree.build("new"), "new\nleaf\nsame\n");
}

#[test]
fn the_key_is_of_content_and_configuration() {
    let tree = Tree::new();
    let (old, new) = (
        tree.key(Variant::Pristine, "old"),
        tree.key(Variant::Pristine, "new"),
    );
    assert_ne!(old, new);
    assert_eq!(tree.key(Variant::Patched, "new"), new);
    tree.git(&["commit", "-q", "--allow-empty", "-m", "other words"]);
    assert_eq!(tree.key(Variant::Pristine, "HEAD"), new);
    tree.lab.fragment("reads", "CONFIG_OURS=y\n");
    assert_eq!(
        tree.key(Variant::Patched, "new"),
        new,
        "our series' options went in"
    );
    tree.lab.fragment("base", "CONFIG_B=y\n");
    assert_ne!(tree.key(Variant::Pristine, "new"), new);
}
