// SPDX-License-Identifier: GPL-2.0-only
//! What is missing is told before any work begins.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use wideleaf_cache::Cache;
use wideleaf_jobs::registry;
use wideleaf_kbuild::{Arch, Base, KernelDir, Variant};
use wideleaf_kit::events::{Event, Observer};
use wideleaf_kit::script::script;
use wideleaf_lab::job::usual;
use wideleaf_lab::run::Lab;
use wideleaf_lab::target::{Kernels, Target};

/// Makes [`as_a_run`] be one; its value is the job.
const JOB: &str = "WIDELEAF_TEST_JOB";

/// The folder that such a run finds programs and parts in.
const FOLDER: &str = "WIDELEAF_TEST_FOLDER";

const ARCH: Arch = Arch::X86_64;

struct Silent;

impl Observer for Silent {
    fn event(&self, event: Event<'_>) {
        panic!("work began: {event:?}");
    }
}

/// Not a test by itself: what the test starts as a process of its own, because
/// programs are searched for in its `PATH`.
#[test]
#[ignore = "no test: the tests here start it as a process of its own"]
fn as_a_run() {
    let given = |variable| std::env::var(variable).expect("started by a test");
    let (name, folder) = (given(JOB), given(FOLDER));
    let folder = Path::new(&folder);
    let job = registry::find(&name).unwrap();
    let cache = Cache::at(folder.join("cache")).unwrap();
    let lab = Lab {
        cache: &cache,
        kernels: Kernels::Given(BTreeMap::new()),
        guest_binary: Some(folder.join("guest")),
        plugin: Some(folder.join("guest")),
        keep: None,
        observer: &Silent,
    };
    let (common, own) = usual(job);
    let machine = (Base::V6_12, ARCH, ARCH.default_page_size());
    let mut target = Target::new(job, machine, common, own).unwrap();
    target.variants.clear();
    let found = lab.preflight(&target);
    println!("\npreflight: {found:?}");
}

/// What the preflight of `job` says with the programs in `folder`.
fn preflight(job: &str, folder: &Path) -> String {
    let run = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "as_a_run", "--ignored", "--nocapture"])
        .env(JOB, job)
        .env(FOLDER, folder)
        .env("PATH", folder)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&run.stdout).into_owned();
    let said = text.split_once("preflight: ");
    said.unwrap_or_else(|| panic!("{text}")).1.to_string()
}

fn program(folder: &Path, name: &str, commands: &str) {
    script(&folder.join(name), &format!("#!/bin/sh\n{commands}\n"));
}

#[test]
fn persistent_memory_is_refused_where_no_guest_has_it() {
    let job = registry::find("storm").unwrap();
    let ask = |arch: Arch| {
        let (common, mut own) = usual(job);
        own["dax"] = true.into();
        let machine = (Base::V7_3, arch, arch.default_page_size());
        Target::new(job, machine, common, own).map(|target| target.plan)
    };
    let refused = format!("{:#}", ask(Arch::Arm64).unwrap_err());
    assert!(refused.contains("--arch x86_64"), "{refused}");
    let plan = ask(ARCH).unwrap();
    assert!(plan.fragments.contains(&"dax".to_string()), "{plan:?}");
}

#[test]
fn a_distribution_must_have_what_the_labs_own_configuration_always_has() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config");
    fs::create_dir(&config).unwrap();
    fs::write(config.join("base.config"), "").unwrap();
    let kernels = Kernels::Built(KernelDir::at(folder.path()).unwrap());
    let machine = (Base::V6_12, ARCH, ARCH.default_page_size());
    for (name, scenario, fragment) in [
        ("collapse", None, "collapse"),
        ("kunit", None, "kunit"),
        ("storm", Some("collapse-truncate"), "collapse"),
    ] {
        let ask = |config: Option<&str>| {
            let job = registry::find(name).unwrap();
            let (mut common, mut own) = usual(job);
            common.config = config.map(String::from);
            if let Some(scenario) = scenario {
                own["scenario"] = scenario.into();
            }
            let target = Target::new(job, machine, common, own).unwrap();
            let spec = target.spec(Variant::Patched, &kernels).unwrap();
            (spec.extras, spec.required)
        };
        assert_eq!(ask(Some("debian")), (vec![], vec![fragment.into()]));
        assert_eq!(ask(None), (vec![], vec![]));
    }
}

#[test]
fn jobs_with_a_user_land_ask_for_its_compiler_and_linker() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let qemu = "case $1 in\n--version) echo 'QEMU emulator version 10.0.2';;\n\
                -d) echo 'plugin  x';;\n-M) echo 'microvm  x';;\nesac";
    program(folder, "qemu-system-x86_64", qemu);
    program(folder, "mkfs.xfs", "");
    // A static program without anything in it.
    let mut elf = [0; 64];
    elf[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    elf[16] = 2;
    elf[18] = 62;
    elf[20] = 1;
    fs::write(folder.join("guest"), elf).unwrap();
    let gcc = format!("{}gcc", wideleaf_kbuild::toolchain::cross(ARCH));
    for job in ["program", "entropy"] {
        program(folder, &gcc, "");
        let text = preflight(job, folder);
        assert!(text.contains("ld.lld is missing"), "{job}: {text}");
        program(folder, "ld.lld", "");
        let text = preflight(job, folder);
        assert!(text.starts_with("Ok"), "{job}: {text}");
        fs::remove_file(folder.join(&gcc)).unwrap();
        let text = preflight(job, folder);
        assert!(text.contains(&format!("{gcc} is missing")), "{job}: {text}");
        fs::remove_file(folder.join("ld.lld")).unwrap();
    }
    // Who has stubs only needs neither.
    assert!(preflight("exec", folder).starts_with("Ok"));
}
