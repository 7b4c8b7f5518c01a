// SPDX-License-Identifier: GPL-2.0-only
//! The referee's findings in one kernel as tests: that the guest did what it should, and one for
//! each rule.

use crate::outcome::{Status, Test};
use wideleaf_kit::arch::Arch;
use wideleaf_lab::foreign::Judged;
use wideleaf_lab::referee::describe;
use wideleaf_tlb::referee::finding::Kind;

/// The test that a judged kernel is, with those that it consists of.
pub fn test(judged: &Judged) -> Test {
    let mut tests = vec![boot(judged)];
    if !judged.command.is_empty() {
        tests.push(command(judged));
    }
    tests.extend(Kind::ALL.iter().map(|kind| rule(judged, *kind)));
    Test {
        name: format!("referee {}", judged.arch),
        status: passed(judged.passed()),
        seconds: Some(judged.seconds),
        notes: Vec::new(),
        tests,
    }
}

fn passed(passed: bool) -> Status {
    match passed {
        true => Status::Passed,
        false => Status::Failed,
    }
}

fn part(name: &str, status: Status, notes: Vec<String>) -> Test {
    Test {
        name: name.into(),
        status,
        seconds: None,
        notes,
        tests: Vec::new(),
    }
}

fn boot(judged: &Judged) -> Test {
    let status = match (&judged.failure, judged.findings.forgotten) {
        (Some(failure), _) => Status::Broken(failure.clone()),
        (None, 0) => Status::Passed,
        (None, n) => Status::Broken(format!("{n} old translations found no room in the referee")),
    };
    let writes = judged.findings.table_writes;
    part(
        "boot",
        status,
        vec![format!("{writes} page-table writes were judged")],
    )
}

fn command(judged: &Judged) -> Test {
    let words = judged.command.join(" ");
    match judged.status {
        Some(status) => {
            let note = format!("'{words}' ended with status {status}");
            part("command", passed(status == 0), vec![note])
        }
        None => part(
            "command",
            Status::Skipped("it did not end: see boot".into()),
            Vec::new(),
        ),
    }
}

/// Of a guest that came to no good end nothing is said where nothing was found.
fn rule(judged: &Judged, kind: Kind) -> Test {
    let of_kind = judged
        .findings
        .list
        .iter()
        .filter(|found| found.kind == kind);
    let notes: Vec<String> = of_kind.flat_map(describe).collect();
    let status = if !notes.is_empty() {
        Status::Failed
    } else if judged.arch == Arch::X86_64 && !kind.is_of_x86() {
        Status::Skipped("x86_64 has no such rule".into())
    } else if judged.failure.is_some() {
        Status::Skipped("the guest came to no good end: see boot".into())
    } else {
        Status::Passed
    };
    part(kind.name(), status, notes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ktap::ktap;
    use std::path::PathBuf;
    use wideleaf_lab::foreign::{SCHEMA, SCHEMA_VERSION};
    use wideleaf_lab::vm::emulator::Qemu;
    use wideleaf_tlb::referee::finding::{Finding, Findings, Place};

    fn judged() -> Judged {
        Judged {
            schema: SCHEMA,
            schema_version: SCHEMA_VERSION,
            kernel: PathBuf::from("/k/Image"),
            kernel_hash: "0".into(),
            arch: Arch::Arm64,
            command: Vec::new(),
            qemu: Qemu {
                path: PathBuf::from("/q"),
                version: "10.0.2".into(),
            },
            seconds: 2.5,
            failure: None,
            status: None,
            findings: Findings {
                table_writes: 7,
                ..Findings::default()
            },
        }
    }

    fn finding() -> Finding {
        Finding {
            kind: Kind::NoBreak,
            va: 0x10000,
            asid: Some(3),
            old: "64K at 0x1".into(),
            new: "64K at 0x2".into(),
            change: Place::default(),
            usage: Place::default(),
            count: 2,
        }
    }

    fn lines(judged: &Judged) -> Vec<String> {
        let text = ktap(&[test(judged)]);
        text.lines().map(|line| line.trim().to_owned()).collect()
    }

    #[test]
    fn each_rule_is_a_test_and_a_finding_fails_its_own() {
        let clean = lines(&judged());
        let ok = clean.iter().filter(|line| line.starts_with("ok "));
        assert_eq!(ok.count(), 2 + Kind::ALL.len(), "{clean:#?}");

        let mut bad = judged();
        bad.findings.list.push(finding());
        let bad = lines(&bad);
        let failed: Vec<_> = bad
            .iter()
            .filter(|line| line.starts_with("not ok"))
            .collect();
        assert_eq!(
            failed,
            ["not ok 4 no-break", "not ok 1 referee arm64"],
            "{bad:#?}"
        );
        assert!(
            bad.contains(&"#     no-break at 0x10000 asid 3, 2 times".into()),
            "{bad:#?}"
        );
    }

    #[test]
    fn where_the_guest_failed_silence_is_no_pass() {
        let mut died = judged();
        died.command = vec!["/bin/test".into()];
        died.failure = Some("kernel panic in the guest:\n  | no init".into());
        died.findings.list.push(finding());
        let died = lines(&died);
        for line in [
            "not ok 1 boot # ERROR kernel panic in the guest:",
            "ok 2 command # SKIP it did not end: see boot",
            "ok 3 stale-translation # SKIP the guest came to no good end: see boot",
            "not ok 5 no-break",
        ] {
            assert!(died.contains(&line.into()), "{line}: {died:#?}");
        }
    }

    #[test]
    fn a_command_that_fails_is_a_test_that_fails() {
        let mut failed = judged();
        failed.command = vec!["/bin/test".into(), "-x".into()];
        failed.status = Some(3);
        let failed = lines(&failed);
        assert!(failed.contains(&"not ok 2 command".into()), "{failed:#?}");
        assert!(
            failed.contains(&"# '/bin/test -x' ended with status 3".into()),
            "{failed:#?}"
        );
        assert!(
            failed.contains(&"ok 3 stale-translation".into()),
            "{failed:#?}"
        );
    }

    #[test]
    fn rules_that_x86_does_not_have_are_skipped_there() {
        let mut x86 = judged();
        x86.arch = Arch::X86_64;
        let x86 = lines(&x86);
        assert!(x86.contains(&"ok 2 stale-translation".into()), "{x86:#?}");
        assert!(
            x86.contains(&"ok 4 no-break # SKIP x86_64 has no such rule".into()),
            "{x86:#?}"
        );
    }
}
