// SPDX-License-Identifier: GPL-2.0-only
//! Finds the kernel's complaints in a console log.
//!
//! A run that "worked" on a kernel that complained is not a result, so every
//! console is searched, also that of a run which answered all questions.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Lines kept of one splat: enough for registers, two backtraces and a KASAN
/// shadow dump.
const SPLAT_LINES: usize = 120;

/// Lines kept of a complaint that the kernel ends without a marker.
const UNMARKED_LINES: usize = 40;

/// What the kernel complained about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// `panic()`.
    Panic,
    /// A fault in kernel mode: Oops, `BUG()`, general protection.
    Oops,
    /// KASAN, KCSAN, KFENCE, UBSAN or KMSAN report.
    Sanitizer,
    /// `WARN*()`, lockdep, refcount and list debugging, failed allocations.
    Warning,
    /// Soft or hard lockup, RCU stall, task blocked for too long.
    Stall,
    /// The OOM killer ran.
    OutOfMemory,
    /// The disk or its file system failed.
    Io,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Panic => "kernel panic",
            Self::Oops => "kernel oops",
            Self::Sanitizer => "sanitizer report",
            Self::Warning => "kernel warning",
            Self::Stall => "stall",
            Self::OutOfMemory => "out of memory",
            Self::Io => "I/O error",
        })
    }
}

/// One complaint with the kernel's own lines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Splat {
    /// What it is about; the gravest of what its lines say.
    pub kind: Kind,
    /// The kernel's lines, first to last, as printed.
    pub lines: Vec<String>,
}

/// Texts that begin a message of that kind. In the order of the table: a
/// KASAN report starts with "BUG: " like an oops, so it comes first.
const STARTS: &[(&str, Kind)] = &[
    ("Kernel panic - not syncing", Kind::Panic),
    ("BUG: KASAN:", Kind::Sanitizer),
    ("BUG: KCSAN:", Kind::Sanitizer),
    ("BUG: KFENCE:", Kind::Sanitizer),
    ("BUG: KMSAN:", Kind::Sanitizer),
    ("KASAN:", Kind::Sanitizer),
    ("UBSAN:", Kind::Sanitizer),
    ("watchdog: BUG:", Kind::Stall),
    ("watchdog: Watchdog detected hard LOCKUP", Kind::Stall),
    ("watchdog: CPU", Kind::Stall),
    ("rcu: INFO: rcu_", Kind::Stall),
    ("INFO: rcu_", Kind::Stall),
    ("INFO: task ", Kind::Stall),
    ("BUG: workqueue lockup", Kind::Stall),
    ("Internal error: ", Kind::Oops),
    ("Unable to handle kernel ", Kind::Oops),
    ("kernel BUG at ", Kind::Oops),
    ("BUG: ", Kind::Oops),
    ("Oops: ", Kind::Oops),
    ("general protection fault", Kind::Oops),
    ("double fault: ", Kind::Oops),
    ("stack segment: ", Kind::Oops),
    ("Bad mode in ", Kind::Oops),
    ("Kernel stack overflow", Kind::Oops),
    ("Insufficient stack space to handle exception", Kind::Oops),
    ("SError Interrupt on CPU", Kind::Oops),
    ("WARNING: ", Kind::Warning),
    ("INFO: possible recursive locking detected", Kind::Warning),
    ("INFO: inconsistent lock state", Kind::Warning),
    ("INFO: suspicious RCU usage", Kind::Warning),
    ("refcount_t: ", Kind::Warning),
    ("list_add corruption", Kind::Warning),
    ("list_del corruption", Kind::Warning),
    ("Out of memory: Killed process", Kind::OutOfMemory),
    ("Memory cgroup out of memory: Killed", Kind::OutOfMemory),
    ("I/O error, dev ", Kind::Io),
    ("blk_update_request: I/O error", Kind::Io),
    ("Buffer I/O error on dev", Kind::Io),
    ("EXT4-fs error ", Kind::Io),
];

/// Texts that mean trouble wherever they stand in a message.
const ANYWHERE: &[(&str, Kind)] = &[
    (" invoked oom-killer: ", Kind::OutOfMemory),
    (": page allocation failure: order:", Kind::Warning),
    ("page dumped because: ", Kind::Oops),
    ("XFS_WANT_CORRUPTED", Kind::Io),
    (": Corruption detected", Kind::Io),
    (": Metadata corruption detected", Kind::Io),
];

/// What `printk` puts before a splat.
const CUT: &str = "------------[ cut here ]------------";

/// Every complaint in the console text, in order.
pub fn splats(console: &str) -> Vec<Splat> {
    let mut found: Vec<Splat> = Vec::new();
    let mut open: Option<Splat> = None;
    let mut after_cut: Option<&str> = None;
    let mut marked = false;
    for line in console.lines().map(|line| line.trim_end_matches('\r')) {
        let message = message(line);
        let kind = classify(message);
        let ends = message.starts_with("---[ end ");
        let starts_new = message.contains(CUT) || kind == Some(Kind::Panic);
        if starts_new && let Some(splat) = open.take() {
            found.push(splat);
        }
        if message.contains(CUT) {
            after_cut = Some(line);
            marked = true;
            continue;
        }
        match &mut open {
            Some(splat) => {
                let limit = if marked { SPLAT_LINES } else { UNMARKED_LINES };
                if splat.lines.len() < limit {
                    splat.lines.push(line.to_string());
                }
                splat.kind = kind.map_or(splat.kind, |kind| kind.min(splat.kind));
                marked |= kind.is_some_and(has_end_marker);
            }
            None => {
                if let Some(kind) = kind {
                    marked = has_end_marker(kind) || after_cut.is_some();
                    let lines = after_cut.take().into_iter().chain([line]);
                    open = Some(Splat {
                        kind,
                        lines: lines.map(str::to_string).collect(),
                    });
                } else if after_cut.is_some() && message.is_empty() {
                    after_cut = None;
                }
            }
        }
        if ends && let Some(splat) = open.take() {
            found.push(splat);
        }
    }
    found.extend(open);
    found
}

/// The last `count` lines, for failures about which the kernel said nothing.
pub fn tail(console: &str, count: usize) -> Vec<String> {
    let lines: Vec<_> = console
        .lines()
        .map(|line| line.trim_end_matches('\r'))
        .filter(|line| !line.is_empty())
        .collect();
    let from = lines.len().saturating_sub(count);
    lines[from..].iter().map(|line| line.to_string()).collect()
}

fn has_end_marker(kind: Kind) -> bool {
    matches!(kind, Kind::Panic | Kind::Oops)
}

fn classify(message: &str) -> Option<Kind> {
    let starts = STARTS.iter().find(|(text, _)| message.starts_with(text));
    let hit = starts.or_else(|| ANYWHERE.iter().find(|(text, _)| message.contains(text)));
    hit.map(|(_, kind)| *kind)
}

/// A console line without `printk`'s level, time and caller:
/// `<4>[    1.234567][    T1] text`.
fn message(line: &str) -> &str {
    let mut rest = line.trim_start();
    if let Some(level) = rest.strip_prefix('<')
        && let Some((digits, after)) = level.split_once('>')
        && !digits.is_empty()
        && digits.bytes().all(|byte| byte.is_ascii_digit())
    {
        rest = after;
    }
    while let Some(inner) = rest.strip_prefix('[')
        && let Some((bracket, after)) = inner.split_once(']')
        && is_stamp(bracket.trim())
    {
        rest = after;
    }
    rest.trim_start()
}

/// `1.234567`, or the caller of CONFIG_PRINTK_CALLER: `T17`, `C0`.
fn is_stamp(text: &str) -> bool {
    let digits = text.strip_prefix(['T', 'C']).unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit() || b == b'.')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(console: &str) -> Splat {
        let mut found = splats(console);
        assert_eq!(found.len(), 1, "{found:#?}");
        found.remove(0)
    }

    #[test]
    fn a_quiet_boot_is_quiet() {
        let console = "\
[    0.000000] Linux version 6.12.117 (gcc 12.2.0) #1 SMP PREEMPT
[    0.000000] Kernel command line: panic=-1 oops=panic panic_on_warn=1
[    0.000000] rcu: Hierarchical RCU implementation.
[    0.010000] Spectre V2 : WARNING: Unprivileged eBPF is enabled
[    0.011000] kunit: BUG: is only a word here
[    0.520000] XFS (vda): Mounting V5 Filesystem 1a2b
[    0.531000] XFS (vda): Ending clean mount
[    1.000000] reboot: Power down
";
        // The last two must not be taken for splats: their words stand inside.
        assert_eq!(splats(console), []);
    }

    #[test]
    fn a_warning_with_its_whole_splat() {
        let console = "\
[    0.900000] before
[    1.000000] ------------[ cut here ]------------\r
[    1.000100] WARNING: CPU: 0 PID: 1 at mm/filemap.c:3190 do_sync_mmap_readahead+0x1a/0x2c\r
[    1.000200] Modules linked in:\r
[    1.000300] Call trace:\r
[    1.000400]  do_sync_mmap_readahead+0x1a/0x2c\r
[    1.000500] ---[ end trace 0000000000000000 ]---\r
[    1.000600] after
";
        let splat = one(console);
        assert_eq!(splat.kind, Kind::Warning);
        assert_eq!(splat.lines.len(), 6);
        assert!(splat.lines[0].ends_with(CUT));
        assert!(splat.lines[1].contains("mm/filemap.c:3190"));
        assert!(splat.lines[5].contains("end trace"));
    }

    #[test]
    fn warning_as_7_3_words_it_without_time() {
        let splat = one(
            "------------[ cut here ]------------\nWARNING: mm/readahead.c:47 at page_cache_ra_order+0x10/0x20, CPU#0: init/1\n---[ end trace 0000000000000000 ]---\n",
        );
        assert_eq!(splat.kind, Kind::Warning);
    }

    #[test]
    fn an_oops_and_the_panic_it_ends_in() {
        let console = "\
[    2.000000] Unable to handle kernel NULL pointer dereference at virtual address 0000000000000000
[    2.000100] Mem abort info:
[    2.000200] Internal error: Oops: 0000000096000044 [#1] SMP
[    2.000300] pc : lkdtm_oops+0x8/0x10
[    2.000400] ---[ end trace 0000000000000000 ]---
[    2.000500] Kernel panic - not syncing: Oops: Fatal exception
[    2.000600] ---[ end Kernel panic - not syncing: Oops: Fatal exception ]---
";
        let found = splats(console);
        let kinds: Vec<_> = found.iter().map(|splat| splat.kind).collect();
        assert_eq!(kinds, [Kind::Oops, Kind::Panic]);
        assert!(found[0].lines[3].contains("lkdtm_oops"));
    }

    #[test]
    fn a_panic_cut_off_by_the_reboot() {
        let splat = one(
            "[    1.0] Kernel panic - not syncing: VFS: Unable to mount root fs\n[    1.1] CPU: 0 UID: 0 PID: 1 Comm: swapper/0\n[    1.2] Call trace:\n",
        );
        assert_eq!(splat.kind, Kind::Panic);
        assert_eq!(splat.lines.len(), 3);
    }

    #[test]
    fn x86_null_dereference() {
        let splat = one(
            "[    1.0] BUG: kernel NULL pointer dereference, address: 0000000000000000\n[    1.1] #PF: supervisor write access in kernel mode\n[    1.2] Oops: Oops: 0002 [#1] SMP\n[    1.3] RIP: 0010:f+0x1/0x2\n[    1.4] ---[ end trace 0000000000000000 ]---\n",
        );
        assert_eq!(splat.kind, Kind::Oops);
        assert_eq!(splat.lines.len(), 5);
    }

    #[test]
    fn bug_on_inside_a_cut() {
        let splat = one(
            "[    1.0] ------------[ cut here ]------------\n[    1.0] kernel BUG at mm/huge_memory.c:12!\n[    1.0] Internal error: Oops - BUG: 00000000f2000800 [#1] SMP\n[    1.1] ---[ end trace 0000000000000000 ]---\n",
        );
        assert_eq!(splat.kind, Kind::Oops);
        assert_eq!(splat.lines.len(), 4);
    }

    #[test]
    fn the_other_kinds() {
        for (line, kind) in [
            (
                "[ 21.0][    C0] rcu: INFO: rcu_sched self-detected stall on CPU",
                Kind::Stall,
            ),
            (
                "[ 26.0] watchdog: BUG: soft lockup - CPU#0 stuck for 26s! [init:1]",
                Kind::Stall,
            ),
            (
                "[243.0] INFO: task kworker/0:1:12 blocked for more than 120 seconds.",
                Kind::Stall,
            ),
            (
                "[  2.0] BUG: KASAN: slab-out-of-bounds in f+0x8/0x10",
                Kind::Sanitizer,
            ),
            (
                "[  2.0] UBSAN: array-index-out-of-bounds in mm/x.c:1:2",
                Kind::Sanitizer,
            ),
            (
                "[  2.0] BUG: KFENCE: use-after-free read in f+0x8/0x10",
                Kind::Sanitizer,
            ),
            (
                "[  2.0] BUG: scheduling while atomic: init/1/0x00000002",
                Kind::Oops,
            ),
            (
                "[  2.0] BUG: Bad page state in process init  pfn:4a000",
                Kind::Oops,
            ),
            (
                "[  3.0] init invoked oom-killer: gfp_mask=0x140cca, order=0",
                Kind::OutOfMemory,
            ),
            (
                "[  3.0] init: page allocation failure: order:5, mode:0x40cc0",
                Kind::Warning,
            ),
            (
                "[  3.0] WARNING: possible circular locking dependency detected",
                Kind::Warning,
            ),
            (
                "[  3.0] XFS (vda): Metadata corruption detected at xfs_agf_read",
                Kind::Io,
            ),
            (
                "<3>[  3.0] I/O error, dev vda, sector 2048 op 0x0:(READ)",
                Kind::Io,
            ),
        ] {
            let console = format!("[    0.1] quiet\n{line}\n[   99.0] what follows\n");
            let splat = one(&console);
            assert_eq!(splat.kind, kind, "{line}");
            assert_eq!(splat.lines[0], line);
        }
    }

    #[test]
    fn an_endless_splat_is_cut() {
        let mut console = "[  2.0] BUG: KASAN: use-after-free in f\n".to_string();
        for n in 0..1000 {
            console += &format!("[  3.0] line {n}\n");
        }
        assert_eq!(one(&console).lines.len(), UNMARKED_LINES);
    }

    #[test]
    fn the_tail_has_the_last_lines() {
        assert_eq!(tail("a\r\nb\n\nc\n", 2), ["b", "c"]);
        assert_eq!(tail("", 2), [] as [&str; 0]);
    }
}
