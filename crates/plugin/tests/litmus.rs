// SPDX-License-Identifier: GPL-2.0-only
//! The litmus tests of `crates/tlb/src/referee/litmus_table.rs` as a bare-metal
//! guest of four CPUs (`guest_litmus.S`), all in one boot. Where the referee
//! speaks of a test's last access, its finding names that instruction.

#[path = "../../tlb/src/referee/litmus_table.rs"]
mod litmus_table;
mod machine;

use litmus_table::{AGREED, DIFFERENT, LISTED_LATER, Test, Verdict};
use machine::{ARM64, Guest};
use std::collections::HashSet;
use std::fmt::Write;

const CPUS: usize = 4;

const LITMUS: Guest = Guest {
    source: "guest_litmus.S",
    ..ARM64
};

/// The assembler text of each CPU, and whose turn it is.
#[derive(Default)]
struct Script {
    cpus: [String; CPUS],
    turn: usize,
}

impl Script {
    /// `cpu` does `lines` in its turn.
    fn segment(&mut self, cpu: usize, lines: &[String]) {
        let lines = lines.join("\n\t");
        let (turn, next) = (self.turn, self.turn + 1);
        let text = format!("\tawait\t{turn}\n\t{lines}\n\tpass\t{next}\n");
        self.cpus[cpu] += &text;
        self.turn = next;
    }

    /// One test, from a clean state. Its accesses have labels, the last one
    /// `judged_N`.
    fn test(&mut self, n: usize, (_, first, steps, _): Test) {
        let mut setup = vec!["clean".to_owned()];
        setup.extend(match first.split_once(' ') {
            Some((va, "hole")) => Some(format!("step_unlink {va}")),
            Some(_) => Some(macro_call(&format!("set {first}"))),
            None => None,
        });
        setup.push("settle".into());
        self.segment(0, &setup);
        for cpu in 1..CPUS {
            self.segment(cpu, &["step_isb".into()]);
        }
        let steps: Vec<(usize, &str)> = steps
            .split(';')
            .map(|step| step.trim().split_once(' ').unwrap())
            .map(|(cpu, step)| (cpu.parse().unwrap(), step))
            .collect();
        let accesses = |step: &str| step.starts_with("read ") || step.starts_with("write ");
        let judged = steps.iter().rposition(|(_, step)| accesses(step)).unwrap();
        let lines = steps.iter().enumerate().map(|(i, (cpu, step))| {
            let line = match accesses(step) {
                true if i == judged => format!("step_{step}, judged_{n}"),
                true => format!("step_{step}, before_{n}_{i}"),
                false => macro_call(step),
            };
            (*cpu, line)
        });
        let lines: Vec<(usize, String)> = lines.collect();
        for run in lines.chunk_by(|a, b| a.0 == b.0) {
            let text: Vec<String> = run.iter().map(|(_, line)| line.clone()).collect();
            self.segment(run[0].0, &text);
        }
    }

    fn text(&self) -> String {
        let mut all = String::new();
        for (cpu, text) in self.cpus.iter().enumerate() {
            let end = if cpu == 0 {
                format!("\tawait\t{}\n\tb\tfinish\n", self.turn)
            } else {
                "\tb\t.\n".into()
            };
            write!(all, "\t.balign 4096\ncpu{cpu}:\n{text}{end}").unwrap();
        }
        all
    }
}

/// `set x a+ro` as the assembler has it: `step_set x, a, RO`.
fn macro_call(step: &str) -> String {
    let words: Vec<&str> = step.split([' ', '+']).collect();
    let arguments = words[1..].join(", ").replace("ro", "RO");
    format!("step_{} {arguments}", words[0])
}

/// Names of the tests of whose last access the referee speaks.
fn spoken_of(tests: &[Test]) -> HashSet<&'static str> {
    let mut script = Script::default();
    for (n, test) in tests.iter().enumerate() {
        script.test(n, *test);
    }
    let turns = ["-smp", "4", "-accel", "tcg,thread=single"];
    let run = LITMUS.run_with(
        "steps.inc",
        &script.text(),
        ",turns=on,referee=strict",
        &turns,
    );
    let findings = run.report.referee.unwrap();
    assert_eq!((findings.left_out, findings.forgotten), (0, 0));
    assert_eq!(run.report.vcpus, CPUS as u32);
    let spoken = |n: usize| {
        let at = run.symbols[&format!("judged_{n}")];
        findings.list.iter().any(|f| f.usage.code.pc == at)
    };
    let tests = tests.iter().enumerate();
    tests
        .filter(|(n, _)| spoken(*n))
        .map(|(_, t)| t.0)
        .collect()
}

#[test]
fn the_referee_judges_a_guest_as_published() {
    if !LITMUS.tools_present() {
        return;
    }
    let mut tests: Vec<Test> = AGREED.into_iter().chain(LISTED_LATER).collect();
    let agreed = tests.len();
    tests.extend(DIFFERENT.map(|(test, _)| test));
    let spoken = spoken_of(&tests);
    let mut wrong = Vec::new();
    for (i, (name, _, _, verdict)) in tests.iter().enumerate() {
        let speaks = spoken.contains(name);
        let agrees = speaks == (*verdict == Verdict::Allowed);
        let words = if speaks { "spoken of" } else { "silent" };
        println!("{name}: {verdict:?}, {words}");
        if agrees != (i < agreed) {
            wrong.push(format!("{name}: {verdict:?}, {words}"));
        }
    }
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn each_block_that_is_zeroed_is_a_change() {
    if !LITMUS.tools_present() {
        return;
    }
    let zeroed = (
        "zeroed",
        "x a",
        "0 zero x; 0 dsb; 1 read x",
        Verdict::Allowed,
    );
    assert_eq!(spoken_of(&[zeroed]), HashSet::from(["zeroed"]));
}
