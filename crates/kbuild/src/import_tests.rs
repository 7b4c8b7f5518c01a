// SPDX-License-Identifier: GPL-2.0-only
//! A small kernel under git, and what is written of its commits.

use super::*;
use crate::Author;
use crate::testing::Lab;
use std::process::Command;

const WIDE: &str = "int wide(void)\n{\n\treturn 4;\n}\n";

/// A repository with the small source as its commit `base`, and the lab whose files are written.
struct Tree {
    lab: Lab,
    dir: tempfile::TempDir,
}

impl Tree {
    fn new() -> Self {
        let lab = Lab::new();
        let dir = tempfile::tempdir().unwrap();
        let original = lab.tree().src();
        let tree = Self { lab, dir };
        let mut copy = Command::new("cp");
        copy.arg("-rT").arg(original).arg(tree.dir.path());
        assert!(copy.status().unwrap().success());
        tree.git(&["init", "-q", "-b", "master"]);
        // What a repository may say of differences, and must not.
        tree.git(&["config", "diff.noprefix", "true"]);
        tree.git(&["config", "format.signOff", "true"]);
        tree.write(".gitattributes", "*.c -diff\n");
        tree.commit("pristine");
        tree.git(&["tag", "base"]);
        tree
    }

    fn git(&self, args: &[&str]) -> String {
        let mut git = scratch::git(self.dir.path());
        for role in ["AUTHOR", "COMMITTER"] {
            git.env(format!("GIT_{role}_NAME"), "Ada Lovelace")
                .env(format!("GIT_{role}_EMAIL"), "ada@example.org")
                .env(format!("GIT_{role}_DATE"), "2026-11-20T12:00:00Z");
        }
        let out = git.args(args).output().unwrap();
        assert!(out.status.success(), "{args:?}: {out:?}");
        String::from_utf8(out.stdout).unwrap()
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn commit(&self, subject: &str) {
        self.git(&["add", "-A"]);
        let message = format!("{subject}\n\nBecause.\n\nSigned-off-by: A <a@b>");
        self.git(&["commit", "-q", "-m", &message]);
    }

    /// Changes a file of the base.
    fn tie_in(&self, word: &str) {
        let path = self.dir.path().join("mm/filemap.c");
        let text = fs::read_to_string(path).unwrap();
        self.write("mm/filemap.c", &format!("{text}\nint {word};\n"));
    }

    /// Three steps; the first adds mm/leaf.c and a script, the last changes the former and a file
    /// of the base.
    fn grow(&self) {
        self.tie_in("one");
        self.write("mm/leaf.c", WIDE);
        self.write("tools/leaf.sh", "#!/bin/sh\n");
        self.git(&["add", "-A"]);
        self.git(&["update-index", "--chmod=+x", "tools/leaf.sh"]);
        self.commit_as_is("mm: one");
        self.git(&["reset", "-q", "--hard"]);
        self.tie_in("two");
        self.commit("mm: two, whose subject is so long that a mail needs more than a line");
        self.tie_in("three");
        self.write("mm/leaf.c", &WIDE.replace('4', "5"));
        self.commit("mm: three");
    }

    fn commit_as_is(&self, subject: &str) {
        self.git(&["commit", "-q", "-m", subject]);
    }

    fn import(&self, change: impl Fn(&mut Import)) -> Result<Imported> {
        let mut asked = Import {
            series: SeriesName::Writes,
            base: Base::V7_3,
            tree: self.dir.path().into(),
            range: "base..HEAD".into(),
            force: false,
        };
        change(&mut asked);
        import(&asked, &self.lab.files)
    }

    fn refusal(&self, change: impl Fn(&mut Import)) -> String {
        let before = self.files();
        let text = format!("{:#}", self.import(change).unwrap_err());
        assert_eq!(self.files(), before, "{text}");
        text
    }

    /// All of our kernel files, by path.
    fn files(&self) -> BTreeMap<PathBuf, String> {
        let mut found = BTreeMap::new();
        let mut folders = vec![self.lab.files.path().to_path_buf()];
        while let Some(folder) = folders.pop() {
            for item in fs::read_dir(folder).unwrap() {
                let path = item.unwrap().path();
                match path.is_dir() {
                    true => folders.push(path),
                    false => {
                        let name = path.strip_prefix(self.lab.files.path()).unwrap();
                        found.insert(name.into(), fs::read_to_string(&path).unwrap());
                    }
                }
            }
        }
        found
    }

    fn file(&self, path: &str) -> String {
        fs::read_to_string(self.lab.files.path().join(path)).unwrap()
    }
}

#[test]
fn commits_become_steps_and_new_files_the_overlay() {
    let tree = Tree::new();
    tree.grow();
    let imported = tree.import(|_| ()).unwrap();
    let names = [
        "0001-mm-one.patch",
        "0002-mm-two-whose-subject-is-so-long-that-a-mail-needs-mo.patch",
        "0003-mm-three.patch",
    ];
    let series = tree.file("writes/7.3/series");
    assert_eq!(
        series,
        format!(
            "# one step\n{} + mm/leaf.c tools/leaf.sh\n{}\n{}\n",
            names[0], names[1], names[2]
        )
    );
    assert_eq!(
        tree.file("writes/overlay/mm/leaf.c"),
        WIDE.replace('4', "5")
    );
    assert!(
        !tree
            .files()
            .contains_key(Path::new("writes/7.3/0001-hook.patch"))
    );
    for path in imported.written {
        assert!(path.is_file(), "{}", path.display());
    }
    let first = tree.file(&format!("writes/7.3/{}", names[0]));
    assert!(!first.contains("leaf"), "{first}");
    let third = tree.file(&format!("writes/7.3/{}", names[2]));
    let start = "From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001\n\
                 Date: Fri, 20 Nov 2026 12:00:00 +0000\n\
                 Subject: [PATCH] mm: three\n\nBecause.\n\n\
                 diff --git a/mm/filemap.c b/mm/filemap.c\nindex ";
    assert!(third.starts_with(start), "{third}");
    assert!(third.contains("\n-\treturn 4;\n+\treturn 5;\n"), "{third}");
    assert_eq!(tree.git(&["status", "--porcelain"]), "");
}

#[test]
fn what_was_exported_and_applied_is_imported_byte_for_byte() {
    let tree = Tree::new();
    tree.grow();
    tree.import(|_| ()).unwrap();
    let files = tree.files();
    let out = tree.dir.path().join(".git/out");
    let series = tree.lab.series();
    let original = tree
        .lab
        .tree()
        .originals(&series.touched().unwrap())
        .unwrap();
    let mails = series
        .export("x", &original, &Author::nobody(), &out)
        .unwrap();
    let tip = tree.git(&["rev-parse", "HEAD^{tree}"]);
    tree.git(&["reset", "-q", "--hard", "base"]);
    for mail in &mails[1..] {
        tree.git(&["am", "-q", mail.to_str().unwrap()]);
    }
    assert_eq!(tree.git(&["rev-parse", "HEAD^{tree}"]), tip);
    let imported = tree.import(|_| ()).unwrap();
    assert_eq!(tree.files(), files);
    assert_eq!(imported.written.len(), 4, "{imported:?}");
    assert!(imported.removed.is_empty(), "{imported:?}");
}

#[test]
fn files_that_do_not_only_change_are_in_the_patches() {
    let tree = Tree::new();
    tree.tie_in("one");
    for path in ["mm/gone.c", "mm/stays.c", "mm/odd name.c", "mm/mode.sh"] {
        tree.write(path, "int x;\n");
    }
    tree.commit("mm: one");
    fs::remove_file(tree.dir.path().join("mm/gone.c")).unwrap();
    tree.git(&["update-index", "--chmod=+x", "mm/mode.sh"]);
    tree.git(&["rm", "-q", "--cached", "mm/gone.c"]);
    tree.commit_as_is("mm: two");
    tree.git(&["reset", "-q", "--hard"]);
    tree.import(|_| ()).unwrap();
    let series = tree.file("writes/7.3/series");
    assert!(
        series.contains("0001-mm-one.patch + mm/stays.c\n"),
        "{series}"
    );
    assert!(series.contains("0002-mm-two.patch\n"), "{series}");
    let patch = tree.file("writes/7.3/0002-mm-two.patch");
    assert!(patch.contains("new mode 100755"), "{patch}");
    // The file of the old series, which nobody has now.
    assert!(
        !tree
            .files()
            .contains_key(Path::new("writes/overlay/mm/leaf.c"))
    );
}

#[test]
fn comments_stay_with_their_steps() {
    let tree = Tree::new();
    tree.grow();
    tree.import(|_| ()).unwrap();
    let text = tree.file("writes/7.3/series");
    let said = text.replace("0003-mm-three.patch\n", "0003-mm-three.patch\n# three\n");
    assert_ne!(said, text);
    tree.lab.write_series(&said);
    // A step more at the front.
    tree.git(&["checkout", "-q", "-b", "more", "base"]);
    tree.write("README", "another kernel\n");
    tree.commit("mm: zero");
    tree.git(&["cherry-pick", "base..master"]);
    tree.import(|_| ()).unwrap();
    let series = tree.file("writes/7.3/series");
    let moved = series.contains("0004-mm-three.patch\n# three\n");
    assert!(moved && series.starts_with("# one step\n"), "{series}");
    // Without its step it is gone.
    tree.git(&["reset", "-q", "--hard", "base"]);
    tree.write("README", "another kernel\n");
    tree.commit("mm: zero");
    tree.import(|_| ()).unwrap();
    let series = tree.file("writes/7.3/series");
    assert!(!series.contains("# three"), "{series}");
}

#[test]
fn a_file_of_two_bases_is_replaced_only_by_force() {
    let tree = Tree::new();
    tree.grow();
    let other = tree.lab.folder().of(Base::V6_12);
    fs::create_dir(&other).unwrap();
    fs::write(other.join("series"), "0001-other.patch + mm/leaf.c\n").unwrap();
    let text = tree.refusal(|_| ());
    for part in ["overlay/mm/leaf.c", "6.12", "--force"] {
        assert!(text.contains(part), "no '{part}' in: {text}");
    }
    tree.import(|asked| asked.force = true).unwrap();
    assert_eq!(
        tree.file("writes/overlay/mm/leaf.c"),
        WIDE.replace('4', "5")
    );
    // The same content is nobody's loss.
    tree.import(|_| ()).unwrap();
}

#[test]
fn what_is_no_series_is_refused_and_named() {
    let tree = Tree::new();
    let text = tree.refusal(|_| ());
    assert!(text.contains("'base..HEAD': no commits"), "{text}");
    tree.grow();
    for (range, part) in [
        ("HEAD", "write BASE..TIP"),
        ("base...HEAD", "write BASE..TIP"),
        ("none..HEAD", "'none..HEAD'"),
        ("--all..", "'--all..'"),
    ] {
        let text = tree.refusal(|asked| asked.range = range.into());
        assert!(text.contains(part), "{range}: {text}");
    }
    let text = tree.refusal(|asked| asked.tree = "/dev/null/x".into());
    assert!(text.contains("/dev/null/x: not a git tree"), "{text}");
    tree.git(&["checkout", "-q", "-b", "side", "base"]);
    tree.write("README", "other\n");
    tree.commit("side");
    tree.git(&["merge", "-q", "-m", "merge", "master"]);
    let text = tree.refusal(|_| ());
    assert!(text.contains("is a merge or beside the others"), "{text}");
    tree.git(&["reset", "-q", "--hard", "master"]);
    tree.write("mm/lonely.c", "");
    tree.commit("mm: lonely");
    let text = tree.refusal(|_| ());
    assert!(
        text.contains("('mm: lonely') does nothing but add files"),
        "{text}"
    );
}

#[test]
fn another_series_is_written_beside_the_first() {
    let tree = Tree::new();
    tree.grow();
    let before = tree.files();
    tree.import(|asked| asked.series = SeriesName::LinearMap)
        .unwrap();
    let mut after = tree.files();
    after.retain(|path, _| !path.starts_with("linear-map"));
    assert_eq!(after, before);
    let series = tree.file("linear-map/7.3/series");
    assert!(series.contains("0001-mm-one.patch + mm/leaf.c"), "{series}");
    assert_eq!(
        tree.file("linear-map/overlay/mm/leaf.c"),
        WIDE.replace('4', "5")
    );
}
