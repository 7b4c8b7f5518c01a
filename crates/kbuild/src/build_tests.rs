// SPDX-License-Identifier: GPL-2.0-only
//! Builds of a small source whose make stands for kbuild.

use super::*;
use crate::Variant;
use crate::testing::{Lab, hook, quiet};
use std::sync::Mutex;

fn build(lab: &Lab, variant: Variant) -> Result<Kernel> {
    ensure(&lab.spec(variant), &lab.cache, &quiet)
}

/// How often make built something in the usual tree.
fn made(lab: &Lab) -> usize {
    made_in(&lab.tree())
}

fn made_in(tree: &WorkTree) -> usize {
    let path = tree.dir().join("made");
    fs::read_to_string(path).unwrap_or_default().lines().count()
}

fn obj(lab: &Lab) -> PathBuf {
    let flavour = lab.spec(Variant::Pristine).flavour();
    lab.tree().dir().join(format!("obj-{flavour}"))
}

#[test]
fn built_once_from_the_right_tree() {
    let lab = Lab::new();
    let text = |kernel: &Kernel| fs::read_to_string(&kernel.image).unwrap();
    let pristine = build(&lab, Variant::Pristine).unwrap();
    assert!(!text(&pristine).contains("wide"));
    assert_eq!(pristine.release, "7.3.9");
    let patched = build(&lab, Variant::Patched).unwrap();
    assert!(text(&patched).contains("return wide()"));
    assert!(text(&patched).contains("int wide(void)"));
    assert_eq!(made(&lab), 2);
    for (variant, kernel) in [(Variant::Pristine, pristine), (Variant::Patched, patched)] {
        assert_eq!(build(&lab, variant).unwrap(), kernel);
        assert_eq!(find(&lab.spec(variant), &lab.cache).unwrap(), Some(kernel));
    }
    assert_eq!(made(&lab), 2, "built again");
}

#[test]
fn a_damaged_kernel_is_built_again() {
    let lab = Lab::new();
    let kernel = build(&lab, Variant::Pristine).unwrap();
    let good = fs::read(&kernel.image).unwrap();
    fs::write(&kernel.image, "bad").unwrap();
    assert_eq!(build(&lab, Variant::Pristine).unwrap(), kernel);
    assert_eq!(fs::read(&kernel.image).unwrap(), good);
    assert_eq!(made(&lab), 2);
}

#[test]
fn the_key_changes_with_what_goes_into_the_kernel_and_with_nothing_else() {
    let lab = Lab::new();
    let key = |variant| {
        let spec = lab.spec(variant);
        let inputs = Inputs::with_origin(&spec, Origin::Package(lab.source.clone())).unwrap();
        inputs.key().unwrap().id()
    };
    let both = || (key(Variant::Pristine), key(Variant::Patched));
    let first = both();
    assert_ne!(first.0, first.1);

    lab.overlay("mm/unused.c", "");
    lab.fragment("unused", "CONFIG_A=y");
    lab.patch(&hook().replace("Because a leaf is wide.", "Because it is."));
    assert_eq!(both(), first);

    lab.overlay("mm/leaf.c", "int wide(void) { return 6; }\n");
    let second = both();
    assert_eq!(second.0, first.0, "the series went into a pristine kernel");
    assert_ne!(second.1, first.1);

    lab.fragment("reads", "CONFIG_A=y");
    let third = both();
    assert_eq!(third.0, first.0);
    assert_ne!(third.1, second.1);

    lab.fragment("base", "CONFIG_B=y");
    let fourth = both();
    assert_ne!(fourth.0, first.0);
    assert_ne!(fourth.1, third.1);

    let spec = lab.spec(Variant::Pristine);
    let mut inputs = Inputs::with_origin(&spec, Origin::Package(lab.source.clone())).unwrap();
    inputs.compiler = "another one".into();
    assert_ne!(inputs.key().unwrap().id(), fourth.0);
    let mut moved = lab.source.clone();
    moved.version = "7.3.10-1".into();
    let inputs = Inputs::with_origin(&spec, Origin::Package(moved)).unwrap();
    assert_ne!(inputs.key().unwrap().id(), fourth.0);
}

#[test]
fn a_lost_option_stops_the_build() {
    let lab = Lab::new();
    lab.fragment("kunit", "CONFIG_LOST=y\n");
    let text = format!("{:#}", build(&lab, Variant::Pristine).unwrap_err());
    assert!(
        text.contains("kunit.config: asks for CONFIG_LOST=y"),
        "{text}"
    );
    assert_eq!(made(&lab), 0);
    lab.fragment("kunit", "CONFIG_FOUND=y\n");
    let config = configuration(&lab.spec(Variant::Pristine), &lab.cache, &quiet).unwrap();
    assert_eq!(config, "CONFIG_TINY=y\nCONFIG_FOUND=y\n");
    assert_eq!(made(&lab), 0);
}

#[test]
fn a_failed_build_names_its_log_and_leaves_no_entry() {
    let lab = Lab::new();
    lab.overlay("mm/leaf.c", "broken\n");
    let text = format!("{:#}", build(&lab, Variant::Patched).unwrap_err());
    assert!(text.contains("mm/leaf.c:1:1: error: broken"), "{text}");
    let log = text.rsplit("full log: ").next().unwrap().trim();
    assert!(fs::read_to_string(log).unwrap().contains("error: broken"));
    assert!(
        find(&lab.spec(Variant::Patched), &lab.cache)
            .unwrap()
            .is_none()
    );
    // make ended by itself, so what it had done is good.
    assert!(obj(&lab).join("half").exists());
    lab.overlay("mm/leaf.c", "int wide(void) { return 5; }\n");
    build(&lab, Variant::Patched).unwrap();
}

#[test]
fn objects_of_a_build_that_was_cut_off_are_thrown_away() {
    let lab = Lab::new();
    let obj = obj(&lab);
    fs::create_dir_all(&obj).unwrap();
    fs::write(obj.join("filemap.o"), "half").unwrap();
    fs::write(obj.join(MARKER), "").unwrap();
    let notes = Mutex::new(Vec::new());
    let observer = |event: Event<'_>| {
        if let Event::Note(text) = event {
            notes.lock().unwrap().push(text.to_string());
        }
    };
    ensure(&lab.spec(Variant::Pristine), &lab.cache, &observer).unwrap();
    let notes = notes.into_inner().unwrap();
    assert!(!obj.join("filemap.o").exists());
    assert!(!obj.join(MARKER).exists());
    assert!(notes[0].contains("cut off"), "{notes:?}");
}

#[test]
fn progress_is_learnt_and_then_foretold() {
    let lab = Lab::new();
    let progress = |variant| {
        let seen = Mutex::new(Vec::new());
        let observer = |event: Event<'_>| {
            if let Event::Progress { done, total } = event {
                seen.lock().unwrap().push((done, total));
            }
        };
        ensure(&lab.spec(variant), &lab.cache, &observer).unwrap();
        seen.into_inner().unwrap()
    };
    let forget = || fs::remove_dir_all(lab.cache.root().join("entries/kernel")).unwrap();
    assert_eq!(progress(Variant::Pristine), [(1, None)]);
    assert_eq!(progress(Variant::Patched), [(1, None), (2, None)]);
    forget();
    progress(Variant::Pristine);
    assert_eq!(progress(Variant::Patched), [(1, Some(2)), (2, Some(2))]);
}

#[test]
fn a_page_size_that_does_not_exist_lists_the_known() {
    let lab = Lab::new();
    let mut spec = lab.spec(Variant::Pristine);
    spec.arch = Arch::X86_64;
    spec.page_size = crate::PageSize::K64;
    let error = ensure(&spec, &lab.cache, &quiet).unwrap_err();
    assert_eq!(error.to_string(), "x86_64 has no 64K pages: known are 4K");
}

#[test]
fn the_tree_goes_to_the_series_and_back() {
    let lab = Lab::new();
    let mut tree = lab.tree();
    let filemap = |tree: &WorkTree| fs::read_to_string(tree.src().join("mm/filemap.c")).unwrap();
    let pristine = filemap(&tree);
    tree.switch(&lab.series().into()).unwrap();
    assert_ne!(filemap(&tree), pristine);
    assert!(tree.src().join("mm/leaf.c").exists());
    tree.switch(&Stack::default()).unwrap();
    assert_eq!(filemap(&tree), pristine);
    assert!(!tree.src().join("mm/leaf.c").exists());
}

/// The tree of distributions' configurations.
fn their_tree(lab: &Lab) -> WorkTree {
    let name = format!("distribution-{}", lab.source.dir_name());
    WorkTree::open_at(&name, &lab.source, &lab.cache, &quiet).unwrap()
}

/// Has Debian's configuration of these options in the cache, and Kconfig files in the source.
fn with_distribution(theirs: &str) -> (Lab, Spec) {
    let lab = Lab::new();
    lab.fragment("distribution", "CONFIG_VIRTIO=y\n");
    let path = lab.cache.root().join("own.config");
    fs::write(&path, format!("CONFIG_X86_64=y\n{theirs}")).unwrap();
    let tree = their_tree(&lab);
    for (file, options) in [
        ("mm/Kconfig", "SWAP LOST"),
        ("drivers/virtio/Kconfig", "VIRTIO"),
        ("drivers/gpu/Kconfig", "DRM"),
        ("arch/x86/Kconfig", "X86_64"),
    ] {
        let path = tree.src().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let text = options.split(' ').map(|name| format!("config {name}\n"));
        fs::write(path, text.collect::<String>()).unwrap();
    }
    let mut spec = lab.spec(Variant::Pristine);
    spec.arch = Arch::X86_64;
    spec.distribution = Some(Distribution::parse(path.to_str().unwrap()).unwrap());
    (lab, spec)
}

#[test]
fn a_distributions_configuration_is_built_without_drivers_and_what_differs_is_told() {
    let (lab, spec) = with_distribution("CONFIG_SWAP=y\nCONFIG_VIRTIO=m\nCONFIG_DRM=m\n");
    // It has a tree of its own, and waits for no other build of the base.
    let _held = lab.tree();
    for is_new in [true, false] {
        let notes = Mutex::new(Vec::new());
        let observer = |event: Event<'_>| match event {
            Event::Note(text) => notes.lock().unwrap().push(text.to_string()),
            Event::Waiting(what) => panic!("waits for {what}"),
            _ => (),
        };
        let kernel = ensure(&spec, &lab.cache, &observer).unwrap();
        let config = fs::read_to_string(&kernel.config).unwrap();
        assert!(config.contains("CONFIG_SWAP=y"), "{config}");
        assert!(config.contains("CONFIG_VIRTIO=y"), "{config}");
        assert!(config.contains("# CONFIG_DRM is not set"), "{config}");
        assert!(!config.contains("CONFIG_TINY"), "{config}");
        let notes = notes.into_inner().unwrap().join("\n");
        assert!(notes.contains(" options differ (all: "), "{notes}");
        for part in ["drivers/ 1", "modules built in: VIRTIO"] {
            assert_eq!(notes.contains(part), is_new, "{notes}");
        }
    }
    assert_eq!(made_in(&their_tree(&lab)), 1, "built again");
}

#[test]
fn a_lost_option_of_mm_stops_the_build_of_a_distributions_configuration() {
    // The small source's kconfig takes every LOST away, selected or not.
    let (lab, mut spec) = with_distribution("CONFIG_SWAP=y\nCONFIG_LOST=y\n");
    let text = format!("{:#}", ensure(&spec, &lab.cache, &quiet).unwrap_err());
    assert!(text.contains("CONFIG_LOST y -> n mm/Kconfig"), "{text}");
    assert_eq!(made_in(&their_tree(&lab)), 0);
    // What was asked for may change it.
    lab.fragment("debug", "CONFIG_MORE=y\n");
    spec.add_extras(["debug"]);
    ensure(&spec, &lab.cache, &quiet).unwrap();
}

#[test]
fn the_key_changes_with_the_configuration() {
    let (lab, mut spec) = with_distribution("CONFIG_SWAP=y\n");
    let keys = |spec: &Spec| key(spec).unwrap();
    let own = keys(&spec);
    spec.distribution = Some(Distribution::parse("debian-cloud").unwrap());
    let cloud = keys(&spec);
    assert_ne!(own, cloud);
    lab.fragment("distribution", "CONFIG_OTHER=y\n");
    assert_ne!(cloud, keys(&spec));
    let cloud = keys(&spec);
    spec.distribution = Some(Distribution::parse("debian").unwrap());
    assert_ne!(cloud, keys(&spec));
    let usual = keys(&spec);
    spec.version = Some("7.3.10-1".into());
    assert_ne!(usual, keys(&spec));
}

#[test]
fn a_configuration_without_what_a_job_needs_names_option_and_remedy() {
    let (lab, mut spec) = with_distribution("CONFIG_SWAP=y\n");
    lab.fragment("linear", "# CONFIG_SWAP is not set\n");
    lab.fragment("linear-7.3", "CONFIG_SECRETMEM=y\n");
    lab.fragment("swapping", "CONFIG_SWAP=y\n");
    spec.required = vec!["swapping".into(), "linear".into()];
    let text = format!("{:#}", ensure(&spec, &lab.cache, &quiet).unwrap_err());
    for part in ["own.config", "--extra linear", "CONFIG_SECRETMEM=y"] {
        assert!(text.contains(part), "no '{part}' in: {text}");
    }
    assert!(!text.contains("--extra swapping"), "it is met: {text}");
    assert!(
        !text.contains("CONFIG_SWAP"),
        "a job needs nothing off: {text}"
    );
    assert_eq!(made_in(&their_tree(&lab)), 0);
    // Jobs that need nothing more share a kernel with those whose needs are met.
    lab.fragment("linear-7.3", "CONFIG_SWAP=y\n");
    ensure(&spec, &lab.cache, &quiet).unwrap();
    spec.required.clear();
    ensure(&spec, &lab.cache, &quiet).unwrap();
    assert_eq!(made_in(&their_tree(&lab)), 1);
}
