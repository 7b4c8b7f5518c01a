// SPDX-License-Identifier: GPL-2.0-only
//! The plugin in a real QEMU, under guests of a few instructions whose counts
//! can be worked out on paper: `guest_arm64.S`, `guest_x86.S`.
//!
//! Needs qemu-system-* and an assembler for the guest; without them a test
//! says so on stderr and passes, unless `WIDELEAF_REQUIRE_QEMU` is set.

mod machine;

use machine::{ARM64, X86};
use wideleaf_tlb::report::{Counts, Report, Tlb};

fn counts(r: &Report, phase: u8) -> (&Counts, &Counts) {
    let p = r.phases.iter().find(|p| p.phase == phase);
    let p = p.unwrap_or_else(|| panic!("no phase {phase}"));
    (&p.user, &p.kernel)
}

fn tlb(t: &Tlb) -> (u64, u64, u64) {
    (t.accesses, t.l1_misses, t.l2_misses)
}

/// (phase, instructions, blocks entered, data side, walk reads)
type Row = (u8, u64, u64, (u64, u64, u64), u64);

fn assert_user(r: &Report, rows: &[Row]) {
    for &(phase, instructions, blocks, data, reads) in rows {
        let (user, kernel) = counts(r, phase);
        let what = format!("phase {phase}: {user:#?}");
        assert_eq!(tlb(&user.dtlb), data, "{what}");
        assert_eq!(tlb(&user.itlb), (blocks, 0, 0), "{what}");
        assert_eq!(user.instructions, instructions, "{what}");
        assert_eq!((user.walks, user.walk_reads), (data.2, reads), "{what}");
        if *kernel != Counts::default() {
            assert!(user.instructions == 3, "only the empty system call");
        }
    }
}

/// The user part. A `touch n` is two instructions and n rounds of four; its
/// first block runs on from what came before, the others are entered by the
/// branch back, and the last branch falls through into one more.
#[test]
fn arm64_counts_are_as_worked_out_on_paper() {
    if !ARM64.tools_present() {
        return;
    }
    let r = ARM64.report("neoverse-v2");
    assert_eq!(r.warnings, [""; 0]);
    assert_eq!(r.vcpus, 1);
    assert_user(
        &r,
        &[
            // 2 + 10 * (2 + 32 + 2) instructions. Blocks: 7 branches back a
            // round, 10 falls through, 9 outer branches back, 1 fall out.
            (1, 362, 7 * 10 + 10 + 9 + 1, (80, 8, 8), 24),
            // 64 pages in a cycle do not fit 48 entries: eight are still there
            // from phase 1, in L1 the first time round only, in L2 always.
            (2, 1 + 2 * 258, 2 * 64, (128, 120, 56), 3 * 56),
            // A contiguous group: one entry, three reads. A block: two.
            (3, 67, 16, (16, 1, 1), 3),
            (4, 19, 4, (4, 1, 1), 2),
            // VAE1 takes one page, ASIDE1 of another ASID none, of this one
            // all, VMALLE1 all, RVAE1 its four.
            (5, 35, 8, (8, 1, 1), 3),
            (6, 35, 8, (8, 0, 0), 0),
            (7, 35, 8, (8, 8, 8), 24),
            (8, 35, 8, (8, 8, 8), 24),
            (9, 35, 8, (8, 4, 4), 12),
            // Another ASID finds nothing; back in the first all is there.
            (10, 35, 8, (8, 8, 8), 24),
            (11, 35, 8, (8, 0, 0), 0),
            // VAE1 of one page of the group took all of it.
            (12, 67, 16, (16, 1, 1), 3),
            // One load, two pages, both known.
            (13, 4, 0, (2, 0, 0), 0),
            (14, 3, 1, (0, 0, 0), 0),
            // Bulk operations count per instruction (DC ZVA) or per page; the
            // copy's source is new: pages 8 to 11, evicted from L1 by phase 2.
            (15, 3, 0, (2, 0, 0), 0),
        ],
    );
    let (user, _) = counts(&r, 16);
    assert_eq!(user.dtlb.accesses, 4 + 4 + 4);
    let leaf = |phase| {
        counts(&r, phase)
            .0
            .dtlb
            .by_leaf
            .keys()
            .cloned()
            .collect::<Vec<_>>()
    };
    assert_eq!(leaf(2), ["4K"]);
    assert_eq!(leaf(3), ["64K"]);
    assert_eq!(leaf(4), ["2M"]);
}

/// In turn nothing is counted inline; the second CPU stays off.
#[test]
fn in_turn_the_counts_are_the_same() {
    for (guest, profile) in [(ARM64, "neoverse-v2"), (X86, "zen4")] {
        if !guest.tools_present() {
            return;
        }
        let alone = guest.report(profile);
        let turns = ["-smp", "2", "-accel", "tcg,thread=single"];
        let both = guest.report_of(profile, ",turns=on", &turns);
        assert_eq!(both.vcpus, 2);
        assert_eq!(both.warnings, [""; 0]);
        // The first is the firmware's, which looks for CPUs.
        assert_eq!(both.phases[1..], alone.phases[1..]);
        assert_eq!(both.cpus[0].phases[1..], alone.phases[1..]);
        assert!(alone.cpus.is_empty());
    }
}

/// Phase 3 loads from each page of a contiguous group.
#[test]
fn variants_count_beside_the_profile_and_change_none_of_its_counts() {
    for (guest, profile) in [(ARM64, "neoverse-v2"), (X86, "zen4")] {
        if !guest.tools_present() {
            return;
        }
        let alone = guest.report(profile);
        assert!(alone.models.is_empty());
        let swept = guest.report_of(profile, ",sweep=all", &[]);
        // The first is the firmware's, in which time is the host's.
        assert_eq!(swept.phases[1..], alone.phases[1..]);
        assert!(swept.models.len() > 10);
        let walks = |name| {
            let model = swept.models.iter().find(|model| model.name == name)?;
            let phase = model.phases.iter().find(|phase| phase.phase == 3)?;
            Some(phase.user.dtlb_l2_misses)
        };
        if guest.source == ARM64.source {
            assert_eq!(counts(&swept, 3).0.dtlb.l2_misses, 1);
            assert_eq!(walks("half-entries"), Some(1));
            assert_eq!(walks("no-contiguous"), Some(16));
        }
    }
}

#[test]
fn arm64_kernel_part_and_coverage() {
    if !ARM64.tools_present() {
        return;
    }
    let r = ARM64.report("neoverse-v2");
    // The exception: a branch, seven comparisons with theirs, ERET; a block
    // after each branch.
    let (_, kernel) = counts(&r, 14);
    assert_eq!(kernel.instructions, 1 + 7 * 2 + 1);
    assert_eq!(tlb(&kernel.itlb), (1 + 7 + 1, 0, 0));
    // Outside phases the kernel's code is looked up at 0x40000000, at its
    // alias in the upper half, and again after VMALLE1: at other addresses
    // than those that QEMU translated its blocks for, nothing would be found.
    let (user, kernel) = counts(&r, 0);
    let by_leaf = &kernel.itlb.by_leaf;
    assert_eq!(by_leaf.keys().collect::<Vec<_>>(), ["1G"]);
    assert_eq!((by_leaf["1G"].l1_misses, by_leaf["1G"].l2_misses), (3, 3));
    // Two literals, one before and one after VMALLE1.
    assert_eq!(tlb(&kernel.dtlb), (2, 2, 0));
    // The user page: at the start, after ASIDE1 of ASID 1, after VMALLE1, in
    // ASID 2.
    assert_eq!(user.itlb.l2_misses, 4);
    // Before translation is on nothing is looked up: of the 200 blocks of
    // the two spins half count.
    assert!((100..200).contains(&kernel.itlb.accesses), "{kernel:?}");

    let [c] = &r.coverage[..] else {
        panic!("{:?}", r.coverage);
    };
    assert_eq!((c.id, c.start, c.len), (77, 0x8001_0000, 0x3f_0000));
    let want = [
        ("2M", 2 << 20),
        ("4K", 64 << 12),
        ("64K", 64 << 10),
        (
            "unmapped",
            (0x3f << 16) - (2 << 20) - (64 << 12) - (64 << 10),
        ),
    ];
    assert_eq!(c.leaves, want.map(|(k, v)| (k.to_owned(), v)).into());
}

/// In the page of its caller, and with a part on another stack.
#[test]
fn calls_of_a_named_function_are_counted() {
    if !ARM64.tools_present() {
        return;
    }
    let turns = ["-smp", "2", "-accel", "tcg,thread=single"];
    for r in [
        ARM64.report("neoverse-v2"),
        ARM64.report_of("neoverse-v2", ",turns=on", &turns),
    ] {
        let of = |phase| {
            let (user, kernel) = counts(&r, phase);
            assert_eq!((user.function_calls, user.function_instructions), (0, 0));
            (kernel.function_calls, kernel.function_instructions)
        };
        assert_eq!(of(17), (0, 0));
        assert_eq!(of(18), (2, 2 * 8));
    }
}

/// By memory, not by address: the second function was called by its second address.
#[test]
fn pages_that_are_executed_from_are_recorded_in_order() {
    let turns = ["-smp", "2", "-accel", "tcg,thread=single"];
    for (guest, profile, want) in [
        (
            ARM64,
            "neoverse-v2",
            (7, 4, vec![(1, 0), (2, 1), (3, 2), (0, 3), (3, 4)]),
        ),
        // An instruction over the end of a page is in both.
        (X86, "zen4", (78, 2, vec![(0, 0), (1, 1)])),
    ] {
        if !guest.tools_present() {
            return;
        }
        for r in [
            guest.report(profile),
            guest.report_of(profile, ",turns=on", &turns),
        ] {
            let [touched] = &r.touched[..] else {
                panic!("{:?}", r.touched);
            };
            let got = (touched.id, touched.recorded, touched.pages.clone());
            assert_eq!(got, want);
        }
    }
}

#[test]
fn arm64_runs_repeat_exactly() {
    if ARM64.tools_present() {
        assert_eq!(ARM64.report("cortex-a53"), ARM64.report("cortex-a53"));
    }
}

/// Another core, other counts: ten entries in L1.
#[test]
fn arm64_profiles_differ_where_they_should() {
    if !ARM64.tools_present() {
        return;
    }
    let r = ARM64.report("cortex-a53");
    assert_eq!(tlb(&counts(&r, 1).0.dtlb), (80, 8, 8));
    // Every access of the cycle misses ten entries; of the eight left from
    // phase 1 the first eight accesses find theirs.
    assert_eq!(tlb(&counts(&r, 2).0.dtlb), (128, 120, 56));
    assert_eq!(r.profile.name, "cortex-a53");
}

#[test]
fn x86_counts_are_as_worked_out_on_paper() {
    if !X86.tools_present() {
        return;
    }
    let r = X86.report("zen4");
    assert_eq!(r.warnings, [""; 0]);
    assert_user(
        &r,
        &[
            (1, 362, 7 * 10 + 10 + 9 + 1, (80, 8, 8), 32),
            // 64 pages fit 72 entries; eight are there already.
            (2, 1 + 2 * 258, 2 * 64, (128, 56, 56), 4 * 56),
            (3, 19, 4, (4, 1, 1), 3),
            (4, 19, 4, (4, 1, 1), 2),
            // INVLPG takes one page; a CR3 load what is not global; a change
            // of CR4.PGE the rest.
            (5, 35, 8, (8, 1, 1), 4),
            (6, 35, 8, (8, 8, 8), 32),
            (7, 67, 16, (16, 0, 0), 0),
            (8, 67, 16, (16, 16, 16), 64),
            (9, 2, 0, (2, 0, 0), 0),
            (11, 3, 1, (0, 0, 0), 0),
        ],
    );
    // The straddling instruction looks both its pages up; the second is new,
    // and the jump back from it another block.
    let (user, _) = counts(&r, 10);
    assert_eq!((user.instructions, tlb(&user.itlb)), (4, (4, 1, 1)));
    // The empty system call: four comparisons with their branches, SYSRET.
    let (_, kernel) = counts(&r, 11);
    assert_eq!(kernel.instructions, 9);
    assert_eq!(tlb(&kernel.itlb), (5, 0, 0));

    let want = [
        ("2M", 2 << 20),
        ("4K", (64 + 16) << 12),
        ("unmapped", (0x3f << 16) - (2 << 20) - ((64 + 16) << 12)),
    ];
    assert_eq!(
        r.coverage[0].leaves,
        want.map(|(k, v)| (k.to_owned(), v)).into()
    );
}

/// However QEMU repeats it: in the block, or, when it counts instructions, by leaving it.
#[test]
fn a_string_instruction_counts_once() {
    if !X86.tools_present() {
        return;
    }
    let turns = ["-accel", "tcg,thread=single"];
    for (plugin, qemu) in [
        ("", &["-accel", "tcg"][..]),
        ("", &["-accel", "tcg", "-icount", "shift=0"]),
        (",turns=on", &turns),
        (",turns=on", &[&turns[..], &["-icount", "shift=0"]].concat()),
    ] {
        let r = X86.report_of("zen4", plugin, qemu);
        // Three of them, four others, the marker. Each begins or ends a block but the first.
        assert_user(&r, &[(12, 8, 3, (2 * 1000 + 10, 0, 0), 0)]);
    }
}

#[test]
fn x86_user_counts_repeat_exactly() {
    if !X86.tools_present() {
        return;
    }
    // Phase 0 includes the firmware, which polls real time.
    let user = |r: Report| r.phases.into_iter().map(|p| p.user).collect::<Vec<_>>();
    let [a, b] = [0, 1].map(|_| user(X86.report("sapphire-rapids")));
    assert_eq!(a, b);
    assert_eq!(a.len(), 13);
}

#[test]
fn bad_arguments_stop_qemu_with_a_sentence() {
    if !ARM64.tools_present() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for (args, want) in [
        ("profile=m1,ram=x,out=y", "neoverse-v2"),
        ("profile=zen4,ram=x,out=y", "is for x86_64"),
        (
            "profile=neoverse-v2,ram=/nonexistent/ram,out=y",
            "/nonexistent/ram",
        ),
    ] {
        let output = ARM64.command(dir.path(), args).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{args}: {stderr}");
        assert!(stderr.contains(want), "{args}: {stderr}");
    }
}
