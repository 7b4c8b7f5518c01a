// SPDX-License-Identifier: GPL-2.0-only
//! A disk with a user land: Debian's programs and libraries for the guest's
//! architecture, and a few small ones of our own.
//!
//! Debian's come from one suite whatever the host runs, see
//! `wideleaf_debian`. Ours (`crates/lab/userland`) need no libc:
//!
//! - `/wideleaf/<size>/libtext.so`: text of that size, return stubs. A library,
//!   and by its interpreter's name a PIE as well.
//! - `/wideleaf/load`, `/wideleaf/load-musl`: a PIE that needs libtext.so, for
//!   glibc's and for musl's loader.
//! - `/wideleaf/i386/static`, `/wideleaf/i386/pie`, on x86-64: programs of 32 bits
//!   with 4M of text; the second names the first as its interpreter.
//! - `/wideleaf/shifted/libcrypto.so.3`: Debian's static libcrypto linked by
//!   lld, whose text is not congruent: each segment is shifted by a page.

use crate::disk::aligned::{self, align_all};
use crate::disk::debian::remove_unused;
use crate::disk::filesystem::Filesystem;
use crate::disk::image;
use crate::vm::scratch::Scratch;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use wideleaf_cache::{Cache, Key};
use wideleaf_debian::Packages;
use wideleaf_kbuild::Arch;
use wideleaf_kit::events::{Event, Observer};

/// What is wanted of Debian; apt adds what these depend on.
pub(super) const PACKAGES: &[&str] = &[
    "libssl-dev",
    "musl",
    "openssl",
    "perl-base",
    "python3.13-minimal",
];

/// Part of every key: to be raised when the same inputs give another image.
const LAYOUT: &str = "1";

/// The cache's kind of entry that holds an image.
const KIND: &str = "userland";

/// Our folder on the disk.
const OURS: &str = "wideleaf";

/// Sizes of `libtext.so`, and their names.
pub const TEXTS: [(&str, u64); 5] = [
    ("16K", 16 << 10),
    ("128K", 128 << 10),
    ("1M", 1 << 20),
    ("4M", 4 << 20),
    ("128M", 128 << 20),
];

/// Our own sources by name.
const SOURCES: [(&str, &str); 6] = [
    ("atexit.c", include_str!("../../userland/atexit.c")),
    ("compat.c", include_str!("../../userland/compat.c")),
    ("load.c", include_str!("../../userland/load.c")),
    ("stubs.S", include_str!("../../userland/stubs.S")),
    ("work.pl", include_str!("../../userland/work.pl")),
    ("work.py", include_str!("../../userland/work.py")),
];

/// A user land.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Userland {
    /// The disk's file system.
    pub filesystem: Filesystem,
    /// Whose programs.
    pub arch: Arch,
    /// Whether programs and libraries were given to `wideleaf align`.
    pub aligned: bool,
}

/// The programs that make it, found.
struct Makers {
    mkfs: PathBuf,
    compiler: PathBuf,
    linker: PathBuf,
}

impl Makers {
    fn find(userland: &Userland) -> Result<Self> {
        let compiler = format!("{}gcc", wideleaf_kbuild::toolchain::cross(userland.arch));
        Ok(Self {
            mkfs: userland.filesystem.mkfs()?,
            compiler: wideleaf_kit::tool::find(&compiler).with_context(|| {
                format!("{compiler} is missing: 'scripts/deps lab' installs it")
            })?,
            linker: wideleaf_kit::tool::find("ld.lld")
                .context("ld.lld is missing: install it with 'apt install lld'")?,
        })
    }

    /// What they say they are.
    fn versions(&self, filesystem: Filesystem) -> Result<String> {
        let first = |program: &Path, option| {
            let text = wideleaf_kit::tool::said(program, &[option])?;
            anyhow::Ok(text.lines().next().unwrap_or_default().to_string())
        };
        Ok([
            filesystem.version(&self.mkfs)?,
            first(&self.compiler, "--version")?,
            first(&self.linker, "--version")?,
        ]
        .join("; "))
    }
}

impl Userland {
    /// Looks whether what makes it is there.
    ///
    /// # Errors
    ///
    /// The first program that is missing, with its package.
    pub fn require_tools(&self) -> Result<()> {
        Makers::find(self).map(drop)
    }

    /// Finds the image in the cache or makes it; the observer hears when work
    /// begins that takes a while.
    ///
    /// # Errors
    ///
    /// If packages cannot be had, or a program that makes the image fails.
    pub fn ensure(&self, cache: &Cache, observer: &dyn Observer) -> Result<PathBuf> {
        let makers = Makers::find(self)?;
        let packages = Packages::ensure(self.arch, PACKAGES, cache, observer)?;
        let key = self.key(&packages, &makers)?;
        let entry = cache.get_or_build(
            KIND,
            &key,
            || (),
            |dir| {
                cache.require_space(1 << 30, "a user land")?;
                observer.event(Event::Step(&format!(
                    "making a disk: {} packages of Debian for {} on {}{}",
                    packages.names().len(),
                    self.arch,
                    self.filesystem.title(),
                    if self.aligned { ", aligned" } else { "" }
                )));
                self.make(&packages, &makers, cache.root(), &dir.join("disk.img"))
            },
        )?;
        Ok(entry.path("disk.img"))
    }

    fn key(&self, packages: &Packages, makers: &Makers) -> Result<Key> {
        let sources = SOURCES
            .iter()
            .fold(Key::new(), |key, (name, text)| key.field(*name, *text));
        Ok(aligned::key(self.aligned)?
            .field("layout", LAYOUT)
            .field("image", image::LAYOUT)
            .field("filesystem", self.filesystem.name())
            .field("arch", self.arch.name())
            .field("packages", packages.names().join(" "))
            .field("makers", makers.versions(self.filesystem)?)
            .field("sources", sources.id()))
    }

    fn make(&self, packages: &Packages, makers: &Makers, near: &Path, out: &Path) -> Result<()> {
        let scratch = Scratch::new(near)?;
        let root = scratch.join("root");
        fs::create_dir(&root)?;
        packages.unpack(&root)?;
        let builder = Builder {
            arch: self.arch,
            makers,
            sources: scratch.join("sources"),
            loader: root.join(interpreter(self.arch).trim_start_matches('/')),
            ours: root.join(OURS),
            libraries: wideleaf_debian::libraries(&root, self.arch),
        };
        builder.build()?;
        remove_unused(&root)?;
        for archive in ["libcrypto.a", "libssl.a"] {
            fs::remove_file(builder.libraries.join(archive))?;
        }
        if self.aligned {
            align_all(&root)?;
        }
        image::of_folder(
            self.filesystem,
            &makers.mkfs,
            &root,
            image::Room::NONE,
            &scratch,
            out,
        )
    }
}

/// Adds our files to Debian's.
struct Builder<'a> {
    arch: Arch,
    makers: &'a Makers,
    /// Where [`SOURCES`] are put.
    sources: PathBuf,
    ours: PathBuf,
    /// Debian's ld.so.
    loader: PathBuf,
    /// Debian's.
    libraries: PathBuf,
}

impl Builder<'_> {
    fn build(&self) -> Result<()> {
        fs::create_dir(&self.sources)?;
        for (name, text) in SOURCES {
            fs::write(self.sources.join(name), text)?;
        }
        for (name, size) in TEXTS {
            self.text(name, size)?;
        }
        self.load("load", interpreter(self.arch))?;
        self.load("load-musl", musl(self.arch))?;
        if self.arch == Arch::X86_64 {
            let interpreter = format!("-Wl,--dynamic-linker=/{OURS}/i386/static");
            self.compat("static", &["-static-pie"])?;
            self.compat("pie", &["-pie", &interpreter])?;
        }
        for name in ["work.pl", "work.py"] {
            fs::copy(self.sources.join(name), self.ours.join(name))?;
        }
        self.shifted()
    }

    fn text(&self, name: &str, size: u64) -> Result<()> {
        let folder = self.ours.join(name);
        fs::create_dir_all(&folder)?;
        let mut compile = self.compile();
        compile
            .args(["-shared", "-Wl,-soname,libtext.so", "-Wl,-e,_start"])
            .arg(format!("-DPAGES={}", size >> 12))
            .arg(format!("-DINTERP=\"{}\"", interpreter(self.arch)))
            .args([self.sources.join("stubs.S"), self.sources.join("load.c")])
            .arg("-o")
            .arg(folder.join("libtext.so"));
        succeed(&mut compile)
    }

    fn load(&self, name: &str, interpreter: &str) -> Result<()> {
        let mut compile = self.compile();
        compile
            .args(["-pie", &format!("-Wl,--dynamic-linker={interpreter}")])
            .arg(self.sources.join("load.c"))
            .arg(self.ours.join(TEXTS[0].0).join("libtext.so"))
            .arg("-o")
            .arg(self.ours.join(name));
        succeed(&mut compile)
    }

    /// Without a libc, gcc needs nothing more for 32 bits than it has for 64.
    fn compat(&self, name: &str, link: &[&str]) -> Result<()> {
        let folder = self.ours.join("i386");
        fs::create_dir_all(&folder)?;
        let mut compile = self.compile();
        compile
            .arg("-m32")
            .args(link)
            .arg(format!("-DPAGES={}", (4 << 20) >> 12))
            .args([self.sources.join("stubs.S"), self.sources.join("compat.c")])
            .arg("-o")
            .arg(folder.join(name));
        succeed(&mut compile)
    }

    fn compile(&self) -> Command {
        let mut command = Command::new(&self.makers.compiler);
        command.args(["-O2", "-fPIC", "-ffreestanding", "-fno-stack-protector"]);
        command.arg("-nostdlib");
        command
    }

    /// As OpenSSL's own link, but for the linker and the version script:
    /// ld.so says on standard error that it found no versions, and goes on.
    fn shifted(&self) -> Result<()> {
        let folder = self.ours.join("shifted");
        fs::create_dir_all(&folder)?;
        let atexit = self.sources.join("atexit.o");
        let mut compile = self.compile();
        compile.arg("-c").arg(self.sources.join("atexit.c"));
        succeed(compile.arg("-o").arg(&atexit))?;
        let mut link = Command::new(&self.makers.linker);
        link.args(["-shared", "-Bsymbolic", "-soname", "libcrypto.so.3"])
            .args(["-z", "defs"])
            .arg(&atexit)
            .arg("--whole-archive")
            .arg(self.libraries.join("libcrypto.a"))
            .arg("--no-whole-archive")
            .arg(&self.loader)
            .arg(self.libgcc()?)
            .args(["libc.so.6", "libz.so.1", "libzstd.so.1"].map(|name| self.libraries.join(name)))
            .arg("-o")
            .arg(folder.join("libcrypto.so.3"));
        succeed(&mut link)
    }

    /// arm64's atomics out of line are there.
    fn libgcc(&self) -> Result<String> {
        let path = wideleaf_kit::tool::said(&self.makers.compiler, &["-print-libgcc-file-name"])?;
        Ok(path.trim().to_string())
    }
}

fn succeed(command: &mut Command) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let out = command
        .output()
        .with_context(|| format!("cannot run {name}"))?;
    if !out.status.success() {
        let text = String::from_utf8_lossy(&out.stderr);
        bail!("{name}: {}: {}", out.status, text.trim());
    }
    Ok(())
}

/// glibc's loader, by the name that the ABI gives it.
const fn interpreter(arch: Arch) -> &'static str {
    match arch {
        Arch::Arm64 => "/lib/ld-linux-aarch64.so.1",
        Arch::X86_64 => "/lib64/ld-linux-x86-64.so.2",
    }
}

const fn musl(arch: Arch) -> &'static str {
    match arch {
        Arch::Arm64 => "/lib/ld-musl-aarch64.so.1",
        Arch::X86_64 => "/lib/ld-musl-x86_64.so.1",
    }
}
