// SPDX-License-Identifier: GPL-2.0-only
//! Machines that are not there.

use crate::{Check, Host, Status, examine};
use std::collections::HashMap;
use std::path::Path;
use wideleaf_cpu::named;

const THP: &str = "sys/kernel/mm/transparent_hugepage";

fn write(root: &Path, path: &str, text: &str) {
    let file = root.join(path);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, text).unwrap();
}

/// A machine with these files; programs answer as given.
fn examined(files: &[(&str, &str)], answers: &[(&str, &str)]) -> Vec<Check> {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in files {
        write(root.path(), path, text);
    }
    let answers: HashMap<String, String> = answers
        .iter()
        .map(|(c, a)| ((*c).to_owned(), (*a).to_owned()))
        .collect();
    examine(
        &Host::at(root.path(), answers),
        &named("neoverse-v2", 4096).unwrap(),
    )
}

fn find<'a>(checks: &'a [Check], id: &str) -> &'a Check {
    checks
        .iter()
        .find(|c| c.id == id)
        .unwrap_or_else(|| panic!("no check {id}"))
}

#[test]
fn an_empty_machine_is_unknown_not_good() {
    let checks = examined(&[], &[]);
    for id in [
        "kernel",
        "thp",
        "filesystems",
        "read-only-thp",
        "madv-collapse",
        "glibc-thp",
    ] {
        assert_eq!(find(&checks, id).status, Status::Unknown, "{id}");
    }
}

#[test]
fn memory_that_only_page_cache_has_is_named_with_the_way_to_it() {
    let machine = |blocks: u64| {
        let buddy = format!("Node 0, zone Normal 0 0 0 0 0 0 0 0 0 {blocks} 0\n");
        let zones = "Node 0, zone   Normal\n  pages free 100000\n        high     100\n";
        let files = [
            (&*format!("{THP}/hpage_pmd_size"), "2097152\n"),
            ("proc/buddyinfo", &*buddy),
            ("proc/zoneinfo", zones),
            ("proc/meminfo", "MemAvailable:  2097152 kB\n"),
        ];
        let checks = examined(&files, &[]);
        let check = find(&checks, "memory");
        (check.status, check.found.clone())
    };
    let (status, found) = machine(2);
    assert_eq!(status, Status::Improve);
    assert_eq!(
        found,
        "4M free in blocks of 2M, 2G with page cache that the kernel can reclaim"
    );
    assert_eq!(machine(64).0, Status::Note);
}

#[test]
fn the_linear_map_is_told_widest_share_first() {
    let meminfo = "DirectMap4k:  1024 kB\nDirectMap2M:  3072 kB\nDirectMap1G:  0 kB\n";
    let vmstat = "direct_map_level2_splits 7\ndirect_map_level3_splits 0\n";
    let checks = examined(&[("proc/meminfo", meminfo), ("proc/vmstat", vmstat)], &[]);
    let check = find(&checks, "linear-map");
    assert_eq!(check.status, Status::Note);
    assert_eq!(
        check.found,
        "mapped by 2M 75.0 %, 4K 25.0 %; since boot: level2 splits 7"
    );
    let checks = examined(&[("proc/meminfo", "MemTotal: 1 kB\n")], &[]);
    assert_eq!(find(&checks, "linear-map").status, Status::Unknown);
}

#[test]
fn an_old_kernel_on_ext4_with_thp_never() {
    let thp = format!("{THP}/enabled");
    let shmem = format!("{THP}/shmem_enabled");
    let checks = examined(
        &[
            ("proc/sys/kernel/osrelease", "5.10.0-28-amd64\n"),
            (
                "boot/config-5.10.0-28-amd64",
                "CONFIG_TRANSPARENT_HUGEPAGE=y\n# CONFIG_READ_ONLY_THP_FOR_FS is not set\n",
            ),
            (&thp, "always madvise [never]\n"),
            (&shmem, "always within_size advise never [deny] force\n"),
            (
                "proc/self/mounts",
                "/dev/sda1 / ext4 rw 0 0\ntmpfs /opt tmpfs rw,huge=always 0 0\n",
            ),
        ],
        &[],
    );
    for id in [
        "kernel",
        "thp",
        "shmem",
        "filesystems",
        "read-only-thp",
        "madv-collapse",
    ] {
        let check = find(&checks, id);
        assert_eq!(check.status, Status::Improve, "{id}: {}", check.found);
        assert!(
            !check.change.is_empty() && !check.persist.is_empty(),
            "{id} says no remedy"
        );
    }
    assert!(find(&checks, "shmem").found.contains("overrules"));
    assert!(find(&checks, "thp").change.contains("echo madvise > /sys/"));
    assert_eq!(find(&checks, "tmpfs").status, Status::Good);
}

#[test]
fn a_modern_machine_is_good() {
    let thp = format!("{THP}/enabled");
    let shmem = format!("{THP}/shmem_enabled");
    let pmd = format!("{THP}/hpage_pmd_size");
    let checks = examined(
        &[
            ("proc/sys/kernel/osrelease", "7.3.4-1-arm64\n"),
            (
                "boot/config-7.3.4-1-arm64",
                "CONFIG_TRANSPARENT_HUGEPAGE=y\nCONFIG_ARM64_CONTPTE=y\n",
            ),
            (&thp, "always [madvise] never\n"),
            (&shmem, "always within_size [advise] never deny force\n"),
            (&pmd, "2097152\n"),
            ("proc/meminfo", "DirectMap64k:  64 kB\n"),
            ("sys/block/nvme0n1/queue/read_ahead_kb", "128\n"),
            (
                "proc/self/mounts",
                "/dev/sda1 / xfs rw 0 0\n/dev/sda2 /usr ext4 rw 0 0\n",
            ),
        ],
        &[
            ("collapse /", "ok"),
            ("collapse /usr", "ok"),
            (
                "/lib/ld-linux-aarch64.so.1 --version",
                "ld.so (Debian GLIBC 2.44-1) stable release version 2.44.\n",
            ),
            (
                "/lib/ld-linux-aarch64.so.1 --list-tunables",
                "glibc.malloc.check: 0x0\nglibc.elf.thp: 0x1 (min: 0x0, max: 0x1)\n",
            ),
        ],
    );
    let bad: Vec<&Check> = checks
        .iter()
        .filter(|c| matches!(c.status, Status::Improve | Status::Unknown))
        .collect();
    // The only things not there: khugepaged's folder, and files of memory.
    let known = |c: &&Check| matches!(c.id, "khugepaged" | "memory");
    assert!(bad.iter().all(known), "{bad:?}");
    assert_eq!(find(&checks, "read-only-thp").status, Status::Note);
}

#[test]
fn the_loader_is_asked_for_its_tunable() {
    let ask = |value: &str| {
        let tunables = format!("glibc.elf.thp: {value} (min: 0x0, max: 0x1)\n");
        let version = "ld.so (GNU libc) stable release version 2.44.\n";
        let program = "/lib64/ld-linux-x86-64.so.2";
        let checks = examined(
            &[],
            &[
                (&format!("{program} --version"), version),
                (&format!("{program} --list-tunables"), &tunables),
            ],
        );
        find(&checks, "glibc-thp").status
    };
    assert_eq!(ask("0x0"), Status::Improve);
    assert_eq!(ask("0"), Status::Improve);
    assert_eq!(ask("0x1"), Status::Good);
}

#[test]
fn linkers_are_asked_and_their_defaults_told() {
    let gnu = "  -z separate-code            Create separate code program header (default)\n  -z noseparate-code          Don't\n";
    let lld = "  --no-rosegment          Do not put\n  --rosegment             Put read-only in their own segment (default)\n";
    let gold = "  --rosegment                 Put read-only\n  --no-rosegment              Do not put read-only sections\n                              in their own segment (default)\n";
    let checks = examined(
        &[],
        &[
            ("ld.bfd --help", gnu),
            ("ld.lld --help", lld),
            ("ld.gold --help", gold),
            ("ld.bfd --version", "GNU ld 2.40\nCopyright\n"),
        ],
    );
    assert!(
        find(&checks, "linker-gnu")
            .found
            .starts_with("GNU ld 2.40: default: separate-code;")
    );
    assert!(
        find(&checks, "linker-lld")
            .found
            .contains("default: --rosegment;")
    );
    let found = &find(&checks, "linker-gold").found;
    assert!(found.contains("default: --no-rosegment;"), "{found}");
    assert!(
        checks.iter().all(|c| c.id != "linker-mold"),
        "mold is not installed there"
    );
}

#[test]
fn mount_points_may_hold_spaces_and_be_hidden_by_later_ones() {
    let checks = examined(
        &[
            ("proc/sys/kernel/osrelease", "6.12.0\n"),
            (
                "proc/self/mounts",
                "a / ext4 rw 0 0\nb /my\\040disk ext4 rw 0 0\nc / overlay rw 0 0\nd /usr xfs rw 0 0\n",
            ),
        ],
        &[],
    );
    let check = find(&checks, "filesystems");
    assert!(
        check.found.contains("/ (overlay)") && !check.found.contains("ext4"),
        "{}",
        check.found
    );
    assert_eq!(check.status, Status::Good);
}

#[test]
fn an_overlay_aligns_nothing_and_collapses_what_its_layers_do() {
    let checks = examined(&[("proc/self/mounts", "o / overlay rw 0 0\n")], &[]);
    let found = &find(&checks, "filesystems").found;
    assert!(found.contains("its mmap aligns nothing"), "{found}");
    assert!(found.contains("EINVAL"), "{found}");
    // It is no reason by itself: text that is congruent is collapsed as its layer's file is.
    assert!(found.contains("as for the layer's file"), "{found}");
}

#[test]
fn the_readahead_of_real_disks_is_told() {
    let checks = examined(
        &[
            ("sys/block/vda/queue/read_ahead_kb", "8192\n"),
            ("sys/block/nvme0n1/queue/read_ahead_kb", "128\n"),
            ("sys/block/loop0/queue/read_ahead_kb", "128\n"),
        ],
        &[],
    );
    let check = find(&checks, "read-ahead");
    assert_eq!(check.status, Status::Note);
    assert_eq!(check.found, "nvme0n1: 128, vda: 8192");
    assert_eq!(
        find(&examined(&[], &[]), "read-ahead").status,
        Status::Unknown
    );
}

#[test]
fn wsl_1_is_told_that_aligned_programs_do_not_start() {
    let kernel = |release: &str| {
        let checks = examined(&[("proc/sys/kernel/osrelease", release)], &[]);
        find(&checks, "kernel").clone()
    };
    let check = kernel("4.4.0-19041-Microsoft\n");
    assert_eq!(check.status, Status::Improve);
    assert!(check.found.contains("p_align above 4K"), "{}", check.found);
    let check = kernel("6.6.87.2-microsoft-standard-WSL2\n");
    assert!(!check.found.contains("WSL 1"), "{}", check.found);
}

/// Linux 6.18 on ext4, as far as MADV_COLLAPSE goes.
fn collapsing(answers: &[(&str, &str)]) -> Vec<Check> {
    let pmd = format!("{THP}/hpage_pmd_size");
    examined(
        &[
            ("proc/sys/kernel/osrelease", "6.18.44\n"),
            (
                "boot/config-6.18.44",
                "# CONFIG_READ_ONLY_THP_FOR_FS is not set\n",
            ),
            (&pmd, "2097152\n"),
            ("proc/self/mounts", "/dev/sda1 / ext4 rw 0 0\n"),
        ],
        answers,
    )
}

#[test]
fn a_collapse_is_called_good_only_where_it_was_tried_and_works() {
    let checks = collapsing(&[
        ("collapse shared-memory", "ok"),
        ("collapse own", "EINVAL: no"),
        ("collapse /", "EINVAL: no"),
    ]);
    let check = find(&checks, "madv-collapse");
    assert_eq!(check.status, Status::Improve, "{}", check.found);
    assert!(
        check.found.contains("shared memory: works"),
        "{}",
        check.found
    );
    assert!(
        check.found.contains("/ (ext4): EINVAL. EINVAL: no"),
        "{}",
        check.found
    );
    assert!(check.change.contains("huge=always"), "{}", check.change);
    let option = find(&checks, "read-only-thp");
    assert_eq!(option.status, Status::Improve);
    assert!(
        option.found.contains("tried and refused"),
        "{}",
        option.found
    );

    let checks = collapsing(&[("collapse own", "ok"), ("collapse /", "ok")]);
    assert_eq!(find(&checks, "madv-collapse").status, Status::Good);
    assert_eq!(find(&checks, "read-only-thp").status, Status::Note);

    let checks = collapsing(&[]);
    assert_eq!(find(&checks, "madv-collapse").status, Status::Unknown);
}

#[test]
fn sizes_of_anonymous_folios_are_those_enabled_in_the_order_of_numbers() {
    let found = |thp: &str, sizes: &[(u64, &str)]| {
        let mut files = vec![
            (
                "proc/sys/kernel/osrelease".to_owned(),
                "6.18.0\n".to_owned(),
            ),
            (format!("{THP}/enabled"), thp.to_owned()),
        ];
        for (kib, mode) in sizes {
            files.push((
                format!("{THP}/hugepages-{kib}kB/enabled"),
                (*mode).to_owned(),
            ));
        }
        let files: Vec<(&str, &str)> = files.iter().map(|(p, t)| (&p[..], &t[..])).collect();
        find(&examined(&files, &[]), "folio-sizes").found.clone()
    };
    let never = "always inherit madvise [never]";
    let inherit = "always [inherit] madvise never";
    let sizes = [
        (2048, inherit),
        (64, never),
        (16, "[always] inherit madvise never"),
        (128, never),
    ];
    let text = found("always [madvise] never", &sizes);
    assert!(
        text.starts_with(
            "anonymous memory may use 2 of 4 sizes: 16K (always) 2M (madvise); the others (64K 128K) are off;"
        ),
        "{text}"
    );
    // What is inherited may be never, too.
    let text = found("always madvise [never]", &[(64, never), (2048, inherit)]);
    assert!(
        text.starts_with("anonymous memory may use none of the 2 sizes (64K 2M);"),
        "{text}"
    );
}

/// The linkers that there are: what they do is in no help.
#[test]
fn linkers_are_tried_out() {
    let checks = crate::toolchain::checks(&Host::local());
    let linkers: Vec<&Check> = checks
        .iter()
        .filter(|c| c.id.starts_with("linker-"))
        .collect();
    assert!(!linkers.is_empty(), "binutils are not installed");
    for check in linkers {
        let expected = match check.id {
            "linker-lld" | "linker-mold" => "is: page shift;",
            _ => "is: max-page-size;",
        };
        assert!(
            check.found.contains(expected),
            "{}: {}",
            check.id,
            check.found
        );
        assert!(
            check.found.ends_with("max-page-size=0x200000: good"),
            "{}",
            check.found
        );
        assert!(
            !check.change.contains("separate-code"),
            "docs/tool/align.md reserves it for small code: {}",
            check.change
        );
    }
}

/// On this kernel the answer is what a program gets that asks itself.
#[test]
fn what_doctor_says_of_collapse_is_what_the_kernel_does() {
    let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE);
    let page = page.ok().flatten().map_or(4096, |p| p as u64);
    let cpu = named("neoverse-v2", page).unwrap();
    let checks = examine(&Host::local(), &cpu);
    let check = find(&checks, "madv-collapse");
    if !check.found.starts_with("tried: ") {
        eprintln!("SKIPPED: {}", check.found);
        return;
    }
    let file = std::fs::File::open("/proc/self/exe").unwrap();
    let answer = match wideleaf_collapse::probe(&file, 2 << 20) {
        Ok(()) => "works".to_owned(),
        Err(why) => why.to_string(),
    };
    let own = check
        .found
        .split("; ")
        .find(|t| t.contains("own text"))
        .unwrap();
    assert!(
        own.contains(&answer[..6.min(answer.len())]),
        "{own} / {answer}"
    );
}

/// The check `means` of a machine with these mounts, where a collapse was answered so.
fn means(release: &str, shmem: &str, mounts: &str, answers: &[(&str, &str)]) -> String {
    let pmd = format!("{THP}/hpage_pmd_size");
    let shmem_enabled = format!("{THP}/shmem_enabled");
    let files = [
        ("proc/sys/kernel/osrelease", release),
        (&pmd, "2097152\n"),
        (&shmem_enabled, shmem),
        ("proc/self/mounts", mounts),
    ];
    find(&examined(&files, answers), "means").found.clone()
}

const SHMEM_NEVER: &str = "always within_size advise [never] deny force\n";

#[test]
fn each_file_system_is_told_which_means_work_on_it() {
    let mounts = "a / ext4 rw 0 0\nb /opt xfs rw 0 0\n";
    assert_eq!(
        means(
            "6.12.118\n",
            SHMEM_NEVER,
            mounts,
            &[("collapse /", "EINVAL: no")]
        ),
        "/opt (xfs): fill yes, collapse unknown, stage yes, run yes; \
         / (ext4): fill no, collapse no, stage yes, run yes"
    );
    assert_eq!(
        means(
            "7.3.4\n",
            SHMEM_NEVER,
            "a / ext4 rw 0 0\n",
            &[("collapse /", "ok")]
        ),
        "/ (ext4): fill yes, collapse yes, stage yes, run yes"
    );
    // Pages that were busy at that moment say nothing of ext4.
    assert!(
        means(
            "7.3.4\n",
            SHMEM_NEVER,
            "a / ext4 rw 0 0\n",
            &[("collapse /", "EAGAIN: busy")]
        )
        .contains("collapse unknown")
    );
}

#[test]
fn folios_below_2m_and_versions_that_were_tried_without_are_told() {
    let fill = |release: &str, kind: &str| {
        let told = means(release, SHMEM_NEVER, &format!("a / {kind} rw 0 0\n"), &[]);
        told.split_once("fill ")
            .unwrap()
            .1
            .split(',')
            .next()
            .unwrap()
            .to_owned()
    };
    assert_eq!(fill("7.3.4\n", "btrfs"), "no");
    assert_eq!(fill("6.1.192\n", "erofs"), "no");
    assert_eq!(fill("6.6.0\n", "erofs"), "unknown");
    assert_eq!(fill("6.12.118\n", "erofs"), "yes");
    assert_eq!(fill("6.1.192\n", "squashfs"), "no");
}

#[test]
fn copies_are_no_means_where_shmem_enabled_is_deny() {
    let deny = "always within_size advise never [deny] force\n";
    assert_eq!(
        means(
            "6.12.118\n",
            deny,
            "a / ext4 rw 0 0\n",
            &[("collapse /", "EINVAL: no")]
        ),
        "/ (ext4): fill no, collapse no, stage no, run no"
    );
    // A collapse that was not tried may be one that works.
    assert!(means("6.12.118\n", deny, "a / ext4 rw 0 0\n", &[]).ends_with("run unknown"));
}

#[test]
fn fill_on_an_overlay_works_as_on_its_uppermost_layer() {
    let overlay = |options: &str, below: &str| {
        let mounts = format!("{below}\no / overlay rw,{options} 0 0\n");
        let told = means("6.12.118\n", SHMEM_NEVER, &mounts, &[]);
        told.split(',').next().unwrap().to_owned()
    };
    let layers = "a /lower ext4 rw 0 0\nb /lower/a\\040b xfs rw 0 0";
    let fill = |word: &str| format!("/ (overlay): fill {word}");
    assert_eq!(overlay("lowerdir=/lower/x:/lower/a", layers), fill("no"));
    // A later mount on the same point hides the one before.
    let hidden = "a /lower ext4 rw 0 0\nb /lower xfs rw 0 0";
    assert_eq!(overlay("lowerdir=/lower/x", hidden), fill("yes"));
    // In a container the layers are not mounted.
    assert_eq!(overlay("lowerdir=/elsewhere", layers), fill("unknown"));
    assert_eq!(overlay("xino=off", layers), fill("unknown"));
}

#[test]
fn ids_are_unique() {
    let checks = examined(&[], &[]);
    for (i, check) in checks.iter().enumerate() {
        assert!(
            checks[i + 1..].iter().all(|c| c.id != check.id),
            "{}",
            check.id
        );
    }
}
