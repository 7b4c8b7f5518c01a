// SPDX-License-Identifier: GPL-2.0-only
//! The benchmark on the machine that runs the tests.

use wideleaf_bench::exec::{Alone, Phase, Surroundings, Watcher, run};
use wideleaf_bench::file::create;
use wideleaf_bench::options::{Cached, ExecOptions, Stride};
use wideleaf_bench::page_size;
use wideleaf_kit::arch::Arch;

const SIZE: u64 = 8 << 20;

/// A stub file in a folder of its own on the disk that holds the build, for /tmp may be tmpfs.
fn stubs() -> (tempfile::TempDir, ExecOptions) {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let file = dir.path().join("stubs");
    create(&file, Arch::host().unwrap(), SIZE).unwrap();
    (
        dir,
        ExecOptions {
            file,
            ..Default::default()
        },
    )
}

#[derive(Default)]
struct Log(Vec<String>);

impl Watcher for Log {
    fn enter(&mut self, phase: Phase) {
        self.0.push(format!("enter {phase:?}"));
    }
    fn leave(&mut self) {
        self.0.push("leave".into());
    }
    fn look(&mut self, address: u64, len: u64) {
        assert_eq!(address % page_size(), 0);
        self.0.push(format!("look {len}"));
    }
}

#[test]
fn a_cold_sweep_faults_and_reads_and_random_calls_do_not() {
    let (_dir, options) = stubs();
    let report = run(&options, &Surroundings::native(), &mut Alone).unwrap();
    assert_eq!(report.stubs, SIZE / page_size());
    assert_eq!(report.address % report.address_alignment, 0);

    let random = report.random.unwrap();
    assert_eq!(random.calls, 8 * report.stubs);
    assert!(random.nanoseconds > 0);
    // Everything is mapped; reclaim on a busy machine may take a page or two back.
    let warm = random.faults.minor + random.faults.major;
    let cold = report.cold.unwrap();
    let faults = cold.phase.faults.minor + cold.phase.faults.major;
    assert!(
        faults > 0 && warm * 4 < faults,
        "cold {faults}, warm {warm}"
    );
    assert_eq!(report.smaps.unwrap().rss, SIZE);

    if cold.resident_before == 0 {
        assert!(report.warnings.is_empty(), "{:?}", report.warnings);
        assert!(cold.phase.faults.major > 0);
        if let Some(read) = cold.phase.read_bytes.value() {
            assert!(read >= SIZE, "{read}");
        }
    } else {
        assert!(
            report.warnings[0].contains("not cold"),
            "{:?}",
            report.warnings
        );
    }
}

#[test]
fn phases_can_be_left_out_and_are_announced_in_order() {
    let (_dir, both) = stubs();
    let phases = |options: &ExecOptions| {
        let mut log = Log::default();
        let report = run(options, &Surroundings::native(), &mut log).unwrap();
        assert_eq!(
            (report.cold.is_some(), report.random.is_some()),
            (options.cold, options.random)
        );
        // The rehearsal leaves phases that were never entered.
        let first = log
            .0
            .iter()
            .position(|line| line.starts_with("enter"))
            .unwrap();
        log.0[first..].join(", ")
    };
    assert_eq!(
        phases(&both),
        "enter Cold, leave, enter Random, leave, look 8388608"
    );
    let cold = ExecOptions {
        random: false,
        ..both.clone()
    };
    assert_eq!(phases(&cold), "enter Cold, leave, look 8388608");
    let random = ExecOptions {
        cold: false,
        size: Some(1 << 20),
        ..both
    };
    assert_eq!(phases(&random), "enter Random, leave, look 1048576");
}

#[test]
fn options_reach_the_run() {
    let (_dir, options) = stubs();
    let options = ExecOptions {
        stride: Stride::Bytes(2 * page_size()),
        calls: Some(77),
        align: Some(4 << 20),
        seed: 9,
        ..options
    };
    let report = run(&options, &Surroundings::native(), &mut Alone).unwrap();
    assert_eq!(report.stubs, SIZE / page_size() / 2);
    assert_eq!(report.random.unwrap().calls, 77);
    assert!(report.address_alignment >= 4 << 20);
    assert_eq!((report.seed, report.align), (9, Some(4 << 20)));
}

#[test]
fn text_that_was_read_or_written_is_cached_before_the_first_sweep() {
    for cached in Cached::ALL.iter().copied() {
        let (dir, options) = stubs();
        let options = ExecOptions {
            cached: Some(cached),
            size: Some(SIZE),
            file: match cached {
                Cached::Read => options.file,
                Cached::Written => dir.path().join("made"),
            },
            ..options
        };
        let report = run(&options, &Surroundings::native(), &mut Alone).unwrap();
        let cold = report.cold.unwrap();
        // Reclaim on a busy machine may take a page or two back.
        assert!(cold.resident_before > SIZE / 2, "{cached}: {cold:?}");
        assert!(report.warnings.is_empty(), "{:?}", report.warnings);
    }
}

#[test]
fn the_time_to_settle_is_the_first_sweep_s() {
    let (_dir, options) = stubs();
    let options = ExecOptions {
        settle_s: 1,
        ..options
    };
    let report = run(&options, &Surroundings::native(), &mut Alone).unwrap();
    assert!(report.cold.unwrap().phase.nanoseconds >= 1_000_000_000);
}

#[test]
fn what_cannot_run_is_named() {
    let error = |options: &ExecOptions| {
        format!(
            "{:#}",
            run(options, &Surroundings::native(), &mut Alone).unwrap_err()
        )
    };
    let (dir, good) = stubs();
    let missing = ExecOptions {
        file: "/no/such/stubs".into(),
        ..good.clone()
    };
    assert!(error(&missing).contains("/no/such/stubs"));
    let folder = ExecOptions {
        file: dir.path().into(),
        ..good.clone()
    };
    assert!(
        error(&folder).contains("not a regular file"),
        "{}",
        error(&folder)
    );
    let large = ExecOptions {
        size: Some(SIZE * 2),
        ..good
    };
    assert!(error(&large).contains("stubs: size 16M asked for, but the file has 8M"));
}

#[test]
fn tmpfs_is_told_not_to_be_cold() {
    let Ok(dir) = tempfile::tempdir_in("/dev/shm") else {
        eprintln!("SKIPPED: no /dev/shm here");
        return;
    };
    let file = dir.path().join("stubs");
    create(&file, Arch::host().unwrap(), 1 << 20).unwrap();
    let options = ExecOptions {
        file,
        ..Default::default()
    };
    match run(&options, &Surroundings::native(), &mut Alone) {
        Ok(report) => {
            assert_eq!(report.filesystem, "tmpfs");
            assert_eq!(report.cold.unwrap().resident_before, 1 << 20);
            assert!(
                report.warnings[0].contains("tmpfs"),
                "{:?}",
                report.warnings
            );
        }
        // Many systems mount /dev/shm noexec; then that is what must be said.
        Err(error) => assert!(format!("{error:#}").contains("noexec"), "{error:#}"),
    }
}
