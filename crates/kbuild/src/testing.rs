// SPDX-License-Identifier: GPL-2.0-only
//! A small source package and a small series for it.

use crate::series::Series;
use crate::source::Source;
use crate::worktree::WorkTree;
use crate::{Arch, Base, KernelDir, PageSize, SeriesDir, SeriesName, Spec, Variant};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use wideleaf_cache::{Cache, Key};
use wideleaf_kit::events::Event;

/// Takes events and does nothing.
pub(crate) fn quiet(_: Event<'_>) {}

const FILEMAP: &str = "\
struct file *fpin = NULL;

int order(void)
{
	return 0;
}

int last(void)
{
	return 1;
}
";

const HOOK: &str = "\
From 0123456789012345678901234567890123456789 Mon Sep 17 00:00:00 2001
Date: Fri, 20 Nov 2026 12:00:00 +0000
Subject: [PATCH] mm: ask for a wide order

Because a leaf is wide.

---
diff --git a/mm/filemap.c b/mm/filemap.c
--- a/mm/filemap.c
+++ b/mm/filemap.c
@@ -2,7 +2,7 @@
 
 int order(void)
 {
-	return 0;
+	return wide();
 }
 
 int last(void)
";

/// What make does in the small source: its image is the text of its files.
pub(crate) const MAKEFILE: &str = "\
image := $(O)/$(if $(filter arm64,$(ARCH)),arch/arm64/boot/Image,vmlinux)
tinyconfig:
	echo CONFIG_TINY=y > $(O)/.config
olddefconfig:
	sed -i /LOST/d $(O)/.config
Image vmlinux:
	echo made >> $(O)/../made
	mkdir -p $(dir $(image)) $(O)/include/config
	touch $(O)/half
	if grep -q broken mm/*.c; then echo mm/leaf.c:1:1: error: broken; exit 1; fi
	for file in mm/*.c; do echo \"  CC      $$file\"; done
	cat mm/*.c > $(image)
	echo 7.3.9 > $(O)/include/config/kernel.release
	cp $(image) $(O)/System.map
";

/// Called as `merge_config.sh -m -Q -O . .config FRAGMENT...`; as the kernel's own, it takes a path
/// with a blank in it for two.
pub(crate) const MERGE: &str = "shift 4; files=$*; cat $files > new; mv new .config\n";

/// A cache that has a package, and a folder with kernel files.
pub(crate) struct Lab {
    dir: tempfile::TempDir,
    pub(crate) cache: Cache,
    pub(crate) source: Source,
    pub(crate) files: KernelDir,
}

impl Lab {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let deb = package(dir.path(), FILEMAP);
        Self::with_package(&fs::read(deb).unwrap())
    }

    pub(crate) fn with_package(deb: &[u8]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path().join("cache")).unwrap();
        let kernel = dir.path().join("a checkout/kernel");
        for sub in ["config", "writes/overlay/mm", "writes/7.3"] {
            fs::create_dir_all(kernel.join(sub)).unwrap();
        }
        for name in [
            "base",
            "arm64",
            "x86_64",
            "4k",
            "kunit",
            "reads",
            "linear-map",
        ] {
            fs::write(kernel.join(format!("config/{name}.config")), "").unwrap();
        }
        for ground in ["fixes", "align", "reads", "khugepaged"] {
            fs::create_dir_all(kernel.join(ground).join("7.3")).unwrap();
            fs::write(kernel.join(ground).join("7.3/series"), "# nothing\n").unwrap();
        }
        fs::write(kernel.join("writes/7.3/0001-hook.patch"), HOOK).unwrap();
        fs::write(
            kernel.join("writes/cover-letter.txt"),
            "Wide leaves\n\nThe text.\n",
        )
        .unwrap();
        let lab = Self {
            files: KernelDir::at(&kernel).unwrap(),
            dir,
            cache,
            source: Source {
                base: Base::V7_3,
                version: "7.3.9-1".into(),
            },
        };
        lab.overlay("mm/leaf.c", "int wide(void) { return 5; }\n");
        lab.write_series("# one step\n0001-hook.patch + mm/leaf.c\n");
        lab.put_package(deb);
        lab
    }

    fn put_package(&self, deb: &[u8]) {
        let key = Key::new()
            .field("package", self.source.base.package())
            .field("version", &self.source.version);
        let name = "linux-source-7.3_7.3.9-1_all.deb";
        let fill = |dir: &Path| Ok(fs::write(dir.join(name), deb)?);
        self.cache
            .get_or_build("source", &key, || (), fill)
            .unwrap();
    }

    /// Upstream changed the lines that the hook changes.
    pub(crate) fn moved_on(&self) {
        let deb = package(self.dir.path(), &FILEMAP.replace("return 0", "return 2"));
        fs::remove_dir_all(self.cache.root().join("entries")).unwrap();
        self.put_package(&fs::read(deb).unwrap());
    }

    pub(crate) fn overlay(&self, path: &str, text: &str) {
        let file = self.folder().overlay(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    pub(crate) fn fragment(&self, name: &str, text: &str) {
        fs::write(self.files.fragment(name), text).unwrap();
    }

    pub(crate) fn patch(&self, text: &str) {
        fs::write(self.folder().of(Base::V7_3).join("0001-hook.patch"), text).unwrap();
    }

    /// A further patch; no step as long as the series does not name it.
    pub(crate) fn further(&self, name: &str, text: &str) {
        fs::write(self.folder().of(Base::V7_3).join(name), text).unwrap();
    }

    pub(crate) fn write_series(&self, text: &str) {
        fs::write(self.folder().of(Base::V7_3).join("series"), text).unwrap();
    }

    /// The folder of its series.
    pub(crate) fn folder(&self) -> SeriesDir {
        self.files.series(SeriesName::Writes)
    }

    pub(crate) fn series(&self) -> Series {
        Series::load(Base::V7_3, &self.folder()).unwrap()
    }

    /// A kernel for this machine, so that no cross compiler is needed.
    pub(crate) fn spec(&self, variant: Variant) -> Spec {
        let arch = Arch::host().unwrap_or(Arch::X86_64);
        let files = self.files.clone();
        let mut spec = Spec::new(self.source.base, arch, PageSize::K4, variant, files);
        spec.version = Some(self.source.version.clone());
        spec
    }

    pub(crate) fn tree(&self) -> WorkTree {
        WorkTree::open(&self.source, &self.cache, &quiet).unwrap()
    }
}

/// The text of the hook patch.
pub(crate) fn hook() -> &'static str {
    HOOK
}

/// A package as Debian lays it out.
fn package(dir: &Path, filemap: &str) -> std::path::PathBuf {
    let (src, deb) = (dir.join("linux-source-7.3"), dir.join("deb"));
    for sub in [
        src.join("mm"),
        src.join("scripts/kconfig"),
        deb.join("usr/src"),
        deb.join("DEBIAN"),
    ] {
        fs::create_dir_all(sub).unwrap();
    }
    for (name, text) in [
        ("README", "a kernel\n"),
        ("Kconfig", "mainmenu \"Linux\"\n"),
        ("Makefile", MAKEFILE),
        ("scripts/kconfig/merge_config.sh", MERGE),
    ] {
        fs::write(src.join(name), text).unwrap();
    }
    fs::write(src.join("mm/filemap.c"), filemap).unwrap();
    let control = "Package: linux-source-7.3\nVersion: 7.3.9-1\nArchitecture: all\n\
                   Maintainer: nobody <nobody@example.org>\nDescription: test\n";
    fs::write(deb.join("DEBIAN/control"), control).unwrap();
    // dpkg-deb takes no other, whatever the umask is.
    fs::set_permissions(deb.join("DEBIAN"), fs::Permissions::from_mode(0o755)).unwrap();
    let run = |command: &mut Command| {
        let out = command.output().unwrap();
        assert!(out.status.success(), "{out:?}");
    };
    let tar = deb.join("usr/src/linux-source-7.3.tar.xz");
    run(Command::new("tar")
        .arg("-C")
        .arg(dir)
        .arg("-cJf")
        .arg(&tar)
        .arg("linux-source-7.3"));
    let file = dir.join("test.deb");
    run(Command::new("dpkg-deb")
        .args(["--root-owner-group", "-b"])
        .arg(&deb)
        .arg(&file));
    file
}
