// SPDX-License-Identifier: GPL-2.0-only
//! Traces of a few touches, whose reads, faults and leaves can be worked out on paper.

use wideleaf_policy::Table;
use wideleaf_policy::replay::{Conditions, Outcome, replay};
use wideleaf_policy::trace::{File, Text, Touch, Trace};

const K: u64 = 1 << 10;
const M: u64 = 1 << 20;

/// A file of 8M whose text is the bytes from `offset` on, mapped as far off as `shift` says.
fn file(offset: u64, size: u64, shift: u64) -> File {
    File {
        path: "/x".into(),
        size: 8 * M,
        text: vec![Text {
            offset,
            size,
            address: 0x4000_0000 + offset + shift,
        }],
    }
}

fn whole() -> File {
    file(0, 8 * M, 0)
}

fn run_on(arch: &str, page_shift: u8, file: File, rule: &str, touches: &[u64]) -> Outcome {
    let touch = |at: &u64| Touch {
        file: 0,
        page: (at / (4 * K)) as u32,
    };
    let trace = Trace {
        files: vec![file],
        touches: touches.iter().map(touch).collect(),
        ..Trace::default()
    };
    let on = Conditions {
        table: Table::find(arch, page_shift).unwrap(),
        window: 128 * K,
    };
    replay(&trace, rule.parse().unwrap(), &on)
}

fn run(file: File, rule: &str, touches: &[u64]) -> Outcome {
    run_on("x86_64", 12, file, rule, touches)
}

/// Bytes read, faults that read, faults that found, 2M leaves.
fn short(outcome: Outcome) -> (u64, u64, u64, u64) {
    (outcome.read, outcome.major, outcome.minor, outcome.wide)
}

#[test]
fn patched_reads_more_of_a_block_that_is_gone_straight_through_and_the_next_one_whole() {
    let straight = [0, 128 * K, 256 * K, 768 * K, 2 * M];
    assert_eq!(short(run(whole(), "patched", &straight)), (4 * M, 5, 0, 2));
    // The window, and a block that is half full by other ways.
    let here_and_there = [M, 512 * K];
    assert_eq!(
        short(run(whole(), "patched", &here_and_there)),
        (256 * K, 2, 0, 0)
    );
    let half = (0..8).map(|at| (15 - at) * 128 * K).collect::<Vec<_>>();
    assert_eq!(short(run(whole(), "patched", &half)), (2 * M, 8, 0, 1));
}

#[test]
fn a_fault_that_reads_at_a_multiple_of_128k_maps_what_is_cached_of_the_block() {
    let sweep: Vec<_> = (0..32).map(|at| at * 64 * K).collect();
    assert_eq!(short(run(whole(), "exec_read", &sweep)), (2 * M, 4, 0, 0));
    // One page further, all but the last 64K have a fault of their own.
    let within: Vec<_> = (0..32).map(|at| at * 64 * K + 4 * K).collect();
    let (read, major, minor, _) = short(run(whole(), "exec_read", &within));
    assert_eq!((read, major + minor), (2 * M - 4 * K, 32));
}

#[test]
fn a_window_may_begin_before_the_fault_but_not_before_the_block() {
    let rule = "exec_read:25:75";
    // The window's first quarter; then the page before that.
    let before = [M, M - 32 * K, M - 36 * K];
    let outcome = run(whole(), rule, &before);
    assert_eq!((outcome.read, outcome.major), (128 * K + 36 * K, 2));
    let first = [2 * M, 2 * M + 92 * K, 2 * M + 96 * K];
    let outcome = run(whole(), rule, &first);
    assert_eq!((outcome.read, outcome.major), (96 * K + 96 * K, 2));
}

#[test]
fn linux_7_3_reads_a_window_from_the_fault_on_inside_of_the_text() {
    assert_eq!(short(run(whole(), "7.3", &[M])), (128 * K, 1, 0, 0));
    // Before the first read; then in its second 64K, which fault-around has not mapped.
    let three = [M, M - 4 * K, M + 100 * K];
    assert_eq!(short(run(whole(), "7.3", &three)), (132 * K, 2, 1, 0));
    let end = file(M, M + 8 * K, 0);
    assert_eq!(short(run(end, "7.3", &[2 * M])), (8 * K, 1, 0, 0));
}

#[test]
fn linux_6_12_reads_around_and_on_where_its_marker_is_touched() {
    let at = |page: u64| page * 4 * K;
    assert_eq!(short(run(whole(), "6.12", &[at(100)])), (128 * K, 1, 0, 0));
    // Pages 84 to 115; the folio of page 108 is marked, and not mapped around page 100.
    let marked = [at(100), at(107), at(108)];
    assert_eq!(short(run(whole(), "6.12", &marked)), (256 * K, 1, 1, 0));
    // It does read what is no text.
    let late = file(at(100), M, 0);
    assert_eq!(run(late, "6.12", &[at(100)]).read, 128 * K);
}

#[test]
fn a_hundred_misses_stop_6_12_from_reading_around() {
    let far: Vec<_> = (0..60).map(|n| n * 128 * K).collect();
    let few = run(whole(), "6.12", &far);
    assert_eq!(few.major, 60);
    // With 64K pages nothing is mapped around, so that no hit makes up for a miss.
    let mut huge = whole();
    huge.size = 64 * M;
    huge.text[0].size = 64 * M;
    let far: Vec<_> = (1..111).map(|n| n * 512 * K).collect();
    let many = run_on("arm64", 16, huge, "6.12", &far);
    assert_eq!((many.major, many.read), (110, (100 * 128 + 10 * 64) * K));
}

#[test]
fn khugepaged_fills_a_block_of_which_a_page_is_there() {
    let outcome = run(whole(), "khugepaged", &[M, 5 * M]);
    assert_eq!(short(outcome), (4 * M, 2, 0, 2));
    assert_eq!((outcome.wide_touched, outcome.copied), (8 * K, 256 * K));
    // No leaf of 2M can map it: shifted by a page, or less than a block.
    assert_eq!(run(file(0, 8 * M, 4 * K), "khugepaged", &[M]).read, 128 * K);
    assert_eq!(run(file(0, M, 0), "khugepaged", &[0]).read, 128 * K);
}

#[test]
fn reads_by_size_bring_a_whole_block_that_the_text_holds() {
    let touches = [M, M + 512 * K, 0, 7 * M];
    let outcome = run(file(0, 7 * M, 0), "size", &touches[..3]);
    assert_eq!(short(outcome), (2 * M, 1, 0, 1));
    let outcome = run(file(0, 7 * M + 64 * K, 0), "size", &touches);
    assert_eq!(short(outcome), (2 * M + 64 * K, 2, 0, 1));
    assert_eq!((outcome.touched, outcome.held_touched), (16 * K, 12 * K));
    assert_eq!(outcome.entries, 2);
}

/// The first `n` windows of the file.
fn windows(n: u64) -> Vec<u64> {
    (0..n).map(|window| window * 128 * K).collect()
}

#[test]
fn a_block_is_collapsed_once_so_much_of_it_is_there() {
    let rule = "7.3+collapse:50";
    assert_eq!(short(run(whole(), rule, &windows(7))), (896 * K, 7, 0, 0));
    let half = run(whole(), rule, &windows(8));
    assert_eq!((short(half), half.copied), ((2 * M, 8, 0, 1), M));
    // What follows in the block is mapped already.
    assert_eq!(short(run(whole(), rule, &windows(16))), (2 * M, 8, 0, 1));
    // Later is too late for the faults, and says nothing of a block that is less full.
    let idle = "7.3+idle:50";
    assert_eq!(short(run(whole(), idle, &windows(16))), (2 * M, 16, 0, 1));
    assert_eq!(short(run(whole(), idle, &windows(7))), (896 * K, 7, 0, 0));
}

#[test]
fn dense_blocks_make_the_next_one_be_read_whole() {
    let mut touches = windows(8);
    touches.push(3 * M);
    assert_eq!(
        short(run(whole(), "density:50", &touches)),
        (3 * M, 9, 0, 1)
    );
    let narrow = (M + 128 * K, 9, 0, 0);
    assert_eq!(short(run(whole(), "density:51", &touches)), narrow);
    assert_eq!(short(run(whole(), "density:50:2", &touches)), narrow);
    // A block that was read whole says nothing; nor does what a collapse read.
    touches.push(5 * M);
    assert_eq!(run(whole(), "density:50", &touches).read, 5 * M);
    let collapsed = run(whole(), "density:51+collapse:50", &touches);
    assert_eq!(collapsed.read, 2 * M + 256 * K);
}

#[test]
fn credit_bounds_what_is_read_in_vain() {
    let blocks = [0, 2 * M, 4 * M];
    assert_eq!(run(whole(), "size", &blocks).read, 6 * M);
    // 2M less a window each, of a loan of 2M.
    assert_eq!(run(whole(), "size+credit:0", &blocks).read, 2 * M + 256 * K);
    // The fullest block first: with its 1M, the 1.5M that the other lacks are more than the loan.
    let mut touches = windows(4);
    touches.extend(windows(8).iter().map(|at| at + 4 * M));
    let idle = run(whole(), "7.3+idle:0+credit:0", &touches);
    assert_eq!((idle.wide, idle.read), (1, 2 * M + 512 * K));
}

#[test]
fn wider_pages_take_touches_together() {
    let touches = [0, 4 * K, 60 * K, 64 * K];
    let of = |page_shift| run_on("arm64", page_shift, whole(), "7.3", &touches);
    assert_eq!(of(16).touched, 128 * K);
    // One read of two pages; the second is mapped by a fault of its own.
    assert_eq!(short(of(16)), (128 * K, 1, 1, 0));
    assert_eq!(of(14).touched, 48 * K);
    assert_eq!(of(12).touched, 16 * K);
    // 64K at a time by contpte.
    assert_eq!((of(12).entries, of(14).entries), (2, 3));
}

#[test]
fn files_have_page_caches_of_their_own() {
    let mut trace = Trace {
        files: vec![whole(), whole()],
        ..Trace::default()
    };
    trace.touches = [0, 1, 0, 1]
        .iter()
        .zip([0, 100, 9, 109])
        .map(|(&file, page)| Touch { file, page })
        .collect();
    let on = Conditions {
        table: Table::find("x86_64", 12).unwrap(),
        window: 128 * K,
    };
    let outcome = replay(&trace, "7.3".parse().unwrap(), &on);
    assert_eq!(short(outcome), (256 * K, 2, 0, 0));
}

#[test]
fn every_trace_of_the_repository_is_read_and_is_small() {
    for entry in std::fs::read_dir("traces").into_iter().flatten() {
        let path = entry.unwrap().path();
        let trace = Trace::read(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
        let name = format!("{}.{}.trace", trace.program, trace.arch);
        assert_eq!(path.file_name().unwrap().to_str(), Some(name.as_str()));
        let written = trace.text();
        assert!(written.len() < 100 << 10, "{name}: {} bytes", written.len());
        assert_eq!(written, std::fs::read_to_string(&path).unwrap());
    }
}
