// SPDX-License-Identifier: GPL-2.0-only
//! KTAP, version 1: Documentation/dev-tools/ktap.rst of the kernel.

use crate::outcome::{Status, Test};
use std::fmt::Write;
use wideleaf_kit::names::printable;

/// The tests as KTAP.
pub fn ktap(tests: &[Test]) -> String {
    let mut out = "KTAP version 1\n".to_string();
    all(&mut out, tests, "");
    out
}

fn all(out: &mut String, tests: &[Test], indent: &str) {
    let _ = writeln!(out, "{indent}1..{}", tests.len());
    for (at, test) in tests.iter().enumerate() {
        one(out, test, at + 1, indent);
    }
}

fn one(out: &mut String, test: &Test, number: usize, indent: &str) {
    let name = description(&test.name);
    if !test.tests.is_empty() {
        let deeper = format!("{indent}  ");
        let _ = writeln!(out, "{deeper}KTAP version 1\n{deeper}# Subtest: {name}");
        all(out, &test.tests, &deeper);
    }
    let lines = test.notes.iter().map(String::as_str);
    let reason = match &test.status {
        Status::Broken(reason) => reason.as_str(),
        _ => "",
    };
    for line in lines.chain(reason.lines()) {
        let _ = writeln!(out, "{indent}# {}", printable(line));
    }
    let (result, directive) = match &test.status {
        Status::Passed => ("ok", String::new()),
        Status::Failed => ("not ok", String::new()),
        Status::Broken(reason) => {
            let first = reason.lines().next().unwrap_or_default();
            ("not ok", format!(" # ERROR {}", description(first)))
        }
        Status::Skipped(reason) => ("ok", format!(" # SKIP {}", description(reason))),
    };
    let _ = writeln!(out, "{indent}{result} {number} {name}{directive}");
}

/// Text that a result line can hold: a hash sign would begin a directive.
fn description(text: &str) -> String {
    printable(text).replace('#', "_").trim().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::sample;

    #[test]
    fn a_run_as_a_whole() {
        let text = ktap(&sample::all());
        let right = "\
KTAP version 1
1..3
  KTAP version 1
  # Subtest: exec 7.3 arm64 4K
  1..3
  # warning: w
  ok 1 pristine boot 1
  # pass  7.3 arm64 4K: cold.faults<=90%: 50.000%
  ok 2 cold.faults<=90%
  # FAIL  7.3 arm64 4K: walks # <&>\\x1b[2J<=1%: 50.000%
  not ok 3 walks _ <&>\\x1b[2J<=1%
not ok 1 exec 7.3 arm64 4K
# pristine: it panics
# Oops # 1
not ok 2 exec 7.3 arm64 16K # ERROR pristine: it panics
ok 3 exec 7.3 arm64 64K # SKIP a comparison before it failed
";
        assert_eq!(text, right, "\n{text}");
    }

    /// Reads tests of one level of indentation: result lines by number, with their subtests.
    fn parse<'a>(
        lines: &mut std::iter::Peekable<std::str::Lines<'a>>,
        indent: &str,
    ) -> Vec<Parsed> {
        assert_eq!(lines.next().unwrap(), format!("{indent}KTAP version 1"));
        let deeper = format!("{indent}  ");
        let (mut parsed, mut plan, mut inner) = (Vec::new(), None, Vec::new());
        while let Some(line) = lines.peek() {
            if *line == format!("{deeper}KTAP version 1") {
                inner = parse(lines, &deeper);
                continue;
            }
            let Some(line) = line
                .strip_prefix(indent)
                .filter(|line| !line.starts_with(' '))
            else {
                break;
            };
            lines.next();
            if let Some(count) = line.strip_prefix("1..") {
                assert_eq!(
                    plan.replace(count.parse::<usize>().unwrap()),
                    None,
                    "two plans"
                );
            } else if !line.starts_with('#') {
                let (passed, rest) = match line.strip_prefix("not ok ") {
                    Some(rest) => (false, rest),
                    None => (true, line.strip_prefix("ok ").expect(line)),
                };
                let (number, rest) = rest.split_once(' ').unwrap();
                let (name, directive) = rest.split_once(" # ").unwrap_or((rest, ""));
                assert_eq!(number.parse::<usize>().unwrap(), parsed.len() + 1);
                let tests = std::mem::take(&mut inner);
                let directive = directive.split(' ').next().unwrap().to_string();
                parsed.push(Parsed {
                    name: name.into(),
                    passed,
                    directive,
                    tests,
                });
            }
        }
        assert_eq!(plan, Some(parsed.len()), "the plan");
        parsed
    }

    struct Parsed {
        name: String,
        passed: bool,
        directive: String,
        tests: Vec<Parsed>,
    }

    fn same(parsed: &[Parsed], tests: &[Test]) {
        assert_eq!(parsed.len(), tests.len());
        for (parsed, test) in parsed.iter().zip(tests) {
            assert_eq!(parsed.name, description(&test.name));
            let (passed, directive) = match test.status {
                Status::Passed => (true, ""),
                Status::Failed => (false, ""),
                Status::Broken(_) => (false, "ERROR"),
                Status::Skipped(_) => (true, "SKIP"),
            };
            assert_eq!(
                (parsed.passed, parsed.directive.as_str()),
                (passed, directive)
            );
            same(&parsed.tests, &test.tests);
        }
    }

    #[test]
    fn what_is_read_back_is_what_was_written() {
        let tests = sample::all();
        let text = ktap(&tests);
        let mut lines = text.lines().peekable();
        same(&parse(&mut lines, ""), &tests);
        assert_eq!(lines.next(), None);
    }
}
