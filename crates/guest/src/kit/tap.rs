// SPDX-License-Identifier: GPL-2.0-only
//! Lines of the Test Anything Protocol, as the kernel's tests write them
//! (Documentation/dev-tools/ktap.rst): KUnit's suites and the selftests' programs.

use serde::{Deserialize, Serialize};
use wideleaf_kit::named;

/// One test of KUnit, or of a selftest's program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Test {
    /// As the kernel names it.
    pub name: String,
    /// How it ended.
    pub status: Status,
    /// The reason of a skip or, where it is told, of a failure.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

named!(
    /// How a test ended.
    Status, "status of a test", {
        /// `ok`
        Pass = "pass",
        /// `not ok`
        Fail = "fail",
        /// `ok … # SKIP`
        Skip = "skip",
    }
);

/// A test's line: `ok 3 name`, `not ok 3 - name`, `ok 3 name # SKIP reason`, and as kselftest.h
/// has it, `ok 3 # SKIP name`.
pub fn result_line(line: &str) -> Option<Test> {
    let (ok, rest) = match line.strip_prefix("not ok ") {
        Some(rest) => (false, rest),
        None => (true, line.strip_prefix("ok ")?),
    };
    let (number, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    number.parse::<u32>().ok()?;
    let rest = rest.strip_prefix("- ").unwrap_or(rest);
    let (name, directive) = match rest.strip_prefix("# ") {
        Some(directive) => ("", directive),
        None => rest.split_once(" # ").unwrap_or((rest, "")),
    };
    let skip = directive.strip_prefix("SKIP");
    let status = match (ok, skip) {
        (false, _) => Status::Fail,
        (true, Some(_)) => Status::Skip,
        (true, None) => Status::Pass,
    };
    let reason = skip.unwrap_or(if ok { "" } else { directive });
    let name = match directive.split_once(' ') {
        Some((_, told)) if name.is_empty() => told,
        _ => name,
    };
    Some(Test {
        name: name.trim().to_owned(),
        status,
        reason: reason.trim().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_forms_of_a_result() {
        use Status::{Fail, Pass, Skip};
        for (line, name, status, reason) in [
            ("ok 3 smallest", "smallest", Pass, ""),
            ("not ok 3 - smallest", "smallest", Fail, ""),
            (
                "ok 3 ranges # SKIP needs 52 bits",
                "ranges",
                Skip,
                "needs 52 bits",
            ),
            (
                "ok 3 # SKIP no huge pages",
                "no huge pages",
                Skip,
                "no huge pages",
            ),
            ("ok 3 # XFAIL misaligned", "misaligned", Pass, ""),
            ("not ok 3 cow # exit=139", "cow", Fail, "exit=139"),
            ("ok 3", "", Pass, ""),
        ] {
            let test = result_line(line).unwrap();
            let found = (test.name.as_str(), test.status, test.reason.as_str());
            assert_eq!(found, (name, status, reason), "{line}");
        }
        for line in ["okay", "ok", "ok then", "not ok", "# ok 1 x", "1..3"] {
            assert_eq!(result_line(line), None, "{line}");
        }
    }
}
