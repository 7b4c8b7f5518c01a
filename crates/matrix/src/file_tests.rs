// SPDX-License-Identifier: GPL-2.0-only
//! Files that are right, and what is said of those that are not.

use super::*;
use crate::vocabulary::RowOption;

fn vocabulary() -> Vocabulary {
    let strings = |names: &[&str]| names.iter().map(|name| name.to_string()).collect();
    let machine = |name: &str, sizes: &[&str]| Architecture {
        name: name.into(),
        page_sizes: strings(sizes),
    };
    let options = [
        ("size", Values::One),
        ("sizes", Values::Commas),
        ("seed", Values::One),
        ("expect", Values::Repeated),
        ("fragmented", Values::Flag),
    ];
    Vocabulary {
        jobs: strings(&["exec", "boot"]),
        hidden_jobs: strings(&["selftest-panic", "selftest-hang"]),
        bases: strings(&["6.12", "7.3"]),
        machines: vec![machine("arm64", &["64K", "4K"]), machine("x86_64", &["4K"])],
        variants: strings(&["pristine", "reads", "patched"]),
        options: options
            .map(|(name, values)| RowOption {
                name: name.into(),
                values,
            })
            .to_vec(),
    }
}

/// Stands for `lab run`: refuses a size of 0.
fn check(words: &[String]) -> Result<(), String> {
    match words.windows(2).any(|pair| pair == ["--size", "0"]) {
        true => Err("--size 0: must be more".into()),
        false => Ok(()),
    }
}

fn rows(text: &str) -> Vec<Row> {
    parse(text, &vocabulary(), &check).unwrap()
}

fn names(text: &str) -> Vec<String> {
    rows(text).into_iter().map(|row| row.name).collect()
}

#[test]
fn one_line_is_one_row_on_the_first_machine() {
    let rows = rows("jobs = 'exec'");
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].name, "6.12-arm64-64K.exec");
    assert_eq!(
        rows[0].words.join(" "),
        "--job exec --base 6.12 --arch arm64 --page-size 64K"
    );
}

#[test]
fn everything_is_multiplied_where_it_exists() {
    let all = "bases = 'all'\nmachines = 'all'\npage-sizes = 'all'\n\
               variants = ['pristine', 'reads', 'patched']\njobs = ['exec', 'boot']\n";
    let rows = rows(all);
    // Two jobs, two bases; three machines, as x86-64 has one page size.
    assert_eq!(rows.len(), 2 * 2 * 3);
    for row in rows {
        assert_eq!(row.words.last().unwrap(), "pristine,reads,patched");
    }
}

#[test]
fn a_set_replaces_names_and_merges_options() {
    let text = "jobs = 'exec'\nbases = '7.3'\noptions = { seed = 7, size = '64M' }\n\
                [[set]]\n[[set]]\nname = 'big'\nbases = '6.12'\n\
                options = { size = '512M', fragmented = true, sizes = ['1M', 2] }\n";
    let rows = rows(text);
    assert_eq!(rows[0].name, "7.3-arm64-64K.exec");
    assert_eq!(rows[0].words[8..], ["--seed", "7", "--size", "64M"]);
    assert_eq!(rows[1].name, "6.12-arm64-64K.big");
    assert_eq!(
        rows[1].words[8..],
        [
            "--fragmented",
            "--seed",
            "7",
            "--size",
            "512M",
            "--sizes",
            "1M,2"
        ]
    );
    assert_eq!((rows[0].line, rows[1].line), (4, 5));
}

#[test]
fn a_list_of_options_is_several_rows() {
    let text =
        "[[set]]\njobs = 'exec'\noptions = [{}, { size = '64M', expect = ['a<=1', 'b<=2'] }]";
    assert_eq!(
        names(text),
        [
            "6.12-arm64-64K.exec",
            "6.12-arm64-64K.exec-expect-a--1-expect-b--2-size-64M"
        ]
    );
    assert_eq!(
        rows(text)[1].words[8..],
        ["--expect", "a<=1", "--expect", "b<=2", "--size", "64M"]
    );
}

#[test]
fn a_list_of_options_at_the_top_is_rows_of_the_only_set() {
    let text = "jobs = 'exec'\noptions = [{}, { seed = -1 }]";
    assert_eq!(names(text)[1], "6.12-arm64-64K.exec-seed--1");
    assert_eq!(rows(text)[1].words[8..], ["--seed=-1"]);
}

#[test]
fn every_mistake_names_its_line_and_what_would_be_right() {
    for (text, at, part) in [
        (
            "jobs = 'exec'\njbos = 'boot'",
            2,
            "unknown key 'jbos': known are set, name, jobs",
        ),
        (
            "jobs = 'exec'\n\n[[set]]\nbase = '7.3'",
            4,
            "unknown key 'base': known are name, jobs, bases",
        ),
        (
            "jobs = [\n  'exec',\n  'exce',\n]",
            3,
            "unknown job 'exce': known are exec, boot",
        ),
        (
            "jobs = 'exec'\nbases = ['6.13']",
            2,
            "unknown base '6.13': known are 6.12, 7.3",
        ),
        (
            "jobs = 'exec'\nbases = [6.12]",
            2,
            "in quotes: write \"6.12\"",
        ),
        (
            "jobs = 'exec'\nmachines = 'arm'",
            2,
            "unknown machine 'arm': known are arm64, x86_64",
        ),
        (
            "jobs = 'exec'\npage-sizes = '8K'",
            2,
            "unknown page size '8K': known are 64K, 4K",
        ),
        (
            "machines = 'x86_64'\njobs = 'exec'\npage-sizes = '64K'",
            3,
            "x86_64 has none of these page sizes: it has 4K",
        ),
        (
            "jobs = 'exec'\nvariants = 'fixed'",
            2,
            "unknown variant 'fixed': known are pristine, reads, patched",
        ),
        (
            "jobs = 'exec'\noptions = { siez = '1M' }",
            2,
            "unknown option 'siez': known are size, sizes, seed",
        ),
        (
            "jobs = 'exec'\noptions = { fragmented = 1 }",
            2,
            "'fragmented' takes true or false",
        ),
        (
            "jobs = 'exec'\noptions = { size = ['1M', '2M'] }",
            2,
            "a list of 'options'",
        ),
        (
            "jobs = 'exec'\noptions = { size = true }",
            2,
            "a text or a number",
        ),
        ("jobs = 'exec'\noptions = 'size'", 2, "takes a table"),
        (
            "jobs = 'exec'\n[[set]]\noptions.seed = 1\noptions.size = 0",
            4,
            "--size 0: must be more",
        ),
        ("bases = '6.12'", 1, "no 'jobs'"),
        ("jobs = []", 1, "'jobs' is empty"),
        (
            "jobs = 'exec'\n[[set]]\n[[set]]",
            3,
            "already made by the set of line 2",
        ),
        ("jobs = 'exec'\nname = 'x'", 2, "belongs into a [[set]]"),
        ("jobs = 'exec'\n[[set]]\nname = 'a/b'", 3, "letters, digits"),
        ("jobs = 'exec'\n[set]", 2, "two brackets"),
        ("jobs = 'exec'\nbases = '6.12", 2, "string"),
        ("jobs = 'exec'\njobs = 'boot'", 2, "duplicate"),
    ] {
        let error = parse(text, &vocabulary(), &check).expect_err(text);
        assert_eq!(line(text, error.at), at, "{text}: {}", error.text);
        assert!(error.text.contains(part), "{text}: {}", error.text);
    }
}

#[test]
fn a_mistake_is_printed_as_compilers_do() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.toml");
    let error = read(&path, &vocabulary(), &check).unwrap_err().to_string();
    assert!(error.contains("m.toml: cannot read it"), "{error}");
    std::fs::write(&path, "\njob = 'exec'").unwrap();
    let error = read(&path, &vocabulary(), &check).unwrap_err().to_string();
    assert!(error.contains("m.toml:2: unknown key 'job'"), "{error}");
}

#[test]
fn a_set_may_have_to_fail() {
    let rows = rows(
        "bases = 'all'\n[[set]]\njobs = 'exec'\n\
         [[set]]\nname = 'bad'\njobs = 'boot'\nmust-fail-with = ['panic', 'oops']",
    );
    let with: Vec<_> = rows
        .iter()
        .map(|row| row.must_fail_with.join("|"))
        .collect();
    assert_eq!(with, ["", "", "panic|oops", "panic|oops"]);
    for text in [
        "jobs = 'exec'\nmust-fail-with = ''",
        "[[set]]\njobs = 'exec'\nmust-fail-with = []",
        "[[set]]\njobs = 'exec'\nmust-fail-with = 3",
    ] {
        let error = parse(text, &vocabulary(), &check).unwrap_err().text;
        assert!(error.contains("'must-fail-with'"), "{error}");
    }
}

#[test]
fn a_hidden_job_is_taken_and_not_listed() {
    assert_eq!(
        names("jobs = 'selftest-panic'"),
        ["6.12-arm64-64K.selftest-panic"]
    );
    let error = parse("jobs = 'selftest-pani'", &vocabulary(), &check).unwrap_err();
    assert_eq!(
        error.text,
        "unknown job 'selftest-pani': known are exec, boot"
    );
}
