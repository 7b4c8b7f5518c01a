// SPDX-License-Identifier: GPL-2.0-only
//! Overlay files that begin small and that later steps change.

use super::tests::{export, git};
use super::*;
use crate::step::is_built;
use crate::testing::{Lab, hook};
use crate::{Stack, Variant};

const FIRST: &str = "/* Leaves */\n\nint wide(void)\n{\n\treturn 4;\n}\n";
const SECOND: &str = "/* Leaves */\n\nint wide(void)\n{\n\treturn 5;\n}\n";
const LAST: &str =
    "/* Leaves */\n\nint wide(void)\n{\n\treturn 5;\n}\n\nint narrow(void)\n{\n\treturn 0;\n}\n";

const WIDER: &str = "\
@@ -2,5 +2,5 @@
 
 int wide(void)
 {
-\treturn 4;
+\treturn 5;
 }
";

const NARROW: &str = "\
@@ -4,3 +4,8 @@ int wide(void)
 {
 \treturn 5;
 }
+
+int narrow(void)
+{
+\treturn 0;
+}
";

const STEPS: &str = "\
0001-hook.patch + mm/leaf.c
0002-wider.patch
0003-narrow.patch
";

/// A mail that changes mm/leaf.c.
fn mail(subject: &str, hunks: &str) -> String {
    format!(
        "From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001\n\
         Date: Fri, 20 Nov 2026 12:00:00 +0000\n\
         Subject: [PATCH] mm: {subject}\n\nText.\n\n\
         diff --git a/mm/leaf.c b/mm/leaf.c\n--- a/mm/leaf.c\n+++ b/mm/leaf.c\n{hunks}"
    )
}

fn growing() -> Lab {
    let lab = Lab::new();
    lab.overlay("mm/leaf.c", LAST);
    lab.further("0002-wider.patch", &mail("wider", WIDER));
    lab.further("0003-narrow.patch", &mail("narrow", NARROW));
    lab.write_series(STEPS);
    lab
}

/// mm/leaf.c as the series leaves it.
fn leaf(lab: &Lab, series: &Series) -> Result<String> {
    let original = lab.tree().originals(&series.touched()?)?;
    let mut files = series.apply("the source", &original)?;
    let leaf = files.remove("mm/leaf.c").flatten();
    Ok(String::from_utf8(leaf.context("no mm/leaf.c")?)?)
}

fn refusal(lab: &Lab) -> String {
    let series = Series::load(Base::V7_3, &lab.folder());
    let error = series.and_then(|series| leaf(lab, &series)).unwrap_err();
    format!("{error:#}")
}

#[test]
fn a_file_begins_small_and_ends_as_the_overlay_has_it() {
    let lab = growing();
    assert_eq!(leaf(&lab, &lab.series()).unwrap(), LAST);
    assert_eq!(
        lab.series().first("mm/leaf.c").unwrap(),
        Some(FIRST.as_bytes())
    );
    let mut tree = lab.tree();
    let file = tree.src().join("mm/leaf.c");
    tree.switch(&lab.series().into()).unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), LAST);
    tree.switch(&Stack::default()).unwrap();
    assert!(!file.exists());
}

#[test]
fn git_am_makes_each_step_of_it() {
    let lab = growing();
    let dir = tempfile::tempdir().unwrap();
    let mails = export(&lab, &dir.path().join("out"));
    let repo = lab.tree().src();
    git(&repo, &["init", "-q"]);
    git(&repo, &["add", "."]);
    git(&repo, &["commit", "-qm", "pristine"]);
    for (mail, content) in mails[1..].iter().zip([FIRST, SECOND, LAST]) {
        git(&repo, &["am", "-q", mail.to_str().unwrap()]);
        assert_eq!(git(&repo, &["show", "HEAD:mm/leaf.c"]), content);
    }
    assert_eq!(mails.len(), 4);
}

#[test]
fn a_planted_fault_changes_what_the_series_ends_with() {
    let lab = growing();
    let planted = lab.files.path().join("planted/7.3");
    fs::create_dir_all(&planted).unwrap();
    let fault = mail("planted", &WIDER.replace('5', "7").replace("4;", "5;"));
    let fault = fault.replace("@@ -2,7 +2,7 @@", "@@ -2,5 +2,5 @@");
    fs::write(planted.join("fault.patch"), fault).unwrap();
    let mut tree = lab.tree();
    let stack = |fault| Stack::of(Base::V7_3, Variant::Patched, fault, &lab.files).unwrap();
    let faulty = stack(Some("fault"));
    assert_ne!(faulty.hash().unwrap(), stack(None).hash().unwrap());
    tree.switch(&faulty).unwrap();
    let leaf = fs::read_to_string(tree.src().join("mm/leaf.c")).unwrap();
    assert_eq!(leaf, LAST.replace("return 5", "return 7"));
}

#[test]
fn an_edit_beside_the_hunks_moves_them() {
    let lab = growing();
    let head = "/* SPDX */\n/* Wide */\n";
    lab.overlay("mm/leaf.c", &format!("{head}{LAST}"));
    let all = |text: &str| format!("{head}{text}");
    assert_eq!(
        lab.series().first("mm/leaf.c").unwrap(),
        Some(all(FIRST).as_bytes())
    );
    assert_eq!(leaf(&lab, &lab.series()).unwrap(), all(LAST));
}

#[test]
fn an_edit_within_a_hunk_names_patch_and_file() {
    let lab = growing();
    lab.overlay("mm/leaf.c", &LAST.replace("return 5", "return 6"));
    let series = lab.series();
    for text in [
        refusal(&lab),
        format!("{:#}", super::hash(&[series], is_built).unwrap_err()),
    ] {
        for part in [
            "7.3/0003-narrow.patch: a hunk does not reverse",
            "overlay/mm/leaf.c was edited where 0003-narrow.patch changes it",
            "mm/leaf.c:4",
            "wideleaf kernel import",
        ] {
            assert!(text.contains(part), "no '{part}' in: {text}");
        }
    }
    // It is the last step's hunk that fits, the one before it does not.
    lab.overlay("mm/leaf.c", &LAST.replace("wide(void)", "wide(int x)"));
    let text = refusal(&lab);
    assert!(text.contains("7.3/0002-wider.patch: a hunk"), "{text}");
}

#[test]
fn only_later_steps_change_an_overlay_file() {
    let lab = growing();
    let hunks = |lab: &Lab, text: String| lab.further("0002-wider.patch", &text);
    lab.write_series("0002-wider.patch\n0001-hook.patch + mm/leaf.c\n0003-narrow.patch\n");
    let text = refusal(&lab);
    assert!(
        text.contains("0002-wider.patch: touches mm/leaf.c before 0001-hook.patch adds it"),
        "{text}"
    );
    lab.write_series("0002-wider.patch + mm/leaf.c\n0003-narrow.patch\n");
    let text = refusal(&lab);
    assert!(text.contains("which the same step adds"), "{text}");
    lab.write_series(STEPS);
    let adds = "@@ -0,0 +1 @@\n+/* Leaves */\n";
    hunks(
        &lab,
        mail("add", adds).replace("--- a/mm/leaf.c", "--- /dev/null"),
    );
    let text = refusal(&lab);
    assert!(text.contains("0002-wider.patch: adds mm/leaf.c"), "{text}");
    let removes = "@@ -1 +0,0 @@\n-/* Leaves */\n";
    hunks(
        &lab,
        mail("remove", removes).replace("+++ b/mm/leaf.c", "+++ /dev/null"),
    );
    let text = refusal(&lab);
    assert!(
        text.contains("0002-wider.patch: removes mm/leaf.c"),
        "{text}"
    );
}

#[test]
fn hunks_that_come_back_at_another_place_are_noticed() {
    let lab = Lab::new();
    // On the way back the hunk fits where it says; on the way there an earlier place fits better.
    let block = "a\nb\nc\nd\n";
    lab.patch(hook());
    let hunk = "@@ -1,4 +5,5 @@\n a\n b\n+x\n c\n d\n";
    lab.overlay("mm/leaf.c", &format!("{block}a\nb\nx\nc\nd\n"));
    lab.further("0002-wider.patch", &mail("wider", hunk));
    lab.write_series("0001-hook.patch + mm/leaf.c\n0002-wider.patch\n");
    let text = refusal(&lab);
    assert!(text.contains("do not end with it"), "{text}");
}
