// SPDX-License-Identifier: GPL-2.0-only
//! Builds a kernel from a work tree, and keeps it as a cache entry.

use crate::config::{self, Fragment};
use crate::make::{self, Killed};
use crate::series::Series;
use crate::source::{self, Source};
use crate::worktree::{JOURNAL, TREE_BYTES, WorkTree};
use crate::{Arch, Event, Events, Kernel, Spec, Variant, apt, counts, preflight, tool};
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;
use wideleaf_cache::{Cache, Entry, Key};

/// The cache's kind of entry that holds a kernel.
const KIND: &str = "kernel";

/// Changes when what is done here changes what comes out.
const RECIPE: &str = "1";

/// Bytes that an object folder and its kernel take, with room to spare.
const OBJ_BYTES: u64 = 1 << 30;

/// In an object folder while make is at work there.
const MARKER: &str = ".wideleaf-building";

/// In an object folder: the variant it was last built as.
const BUILT: &str = ".wideleaf-built";

/// Who built it, where and when: fixed, so that the same inputs give the same
/// kernel.
const FIXED: [(&str, &str); 4] = [
    ("KBUILD_BUILD_TIMESTAMP", "Sun Nov 17 22:15:08 UTC 2024"),
    ("KBUILD_BUILD_USER", "wideleaf"),
    ("KBUILD_BUILD_HOST", "wideleaf"),
    ("KBUILD_BUILD_VERSION", "1"),
];

/// What an entry says of its kernel (`meta.json`).
#[derive(Serialize, Deserialize)]
struct Meta {
    release: String,
    config_hash: String,
    compiler: String,
    series: Option<String>,
    /// Wall time of the build on the machine that did it.
    build_seconds: f64,
    files_compiled: u64,
}

/// The kernel that `spec` asks for, built if it is not in the cache.
///
/// Fails before any work begins if a tool or disk space is missing, if a page
/// size does not exist on the architecture, or if the source can be had neither
/// from the cache nor from apt.
pub fn ensure(spec: &Spec, cache: &Cache, events: &mut dyn Events) -> Result<Kernel> {
    let inputs = Inputs::new(spec, cache, events)?;
    let key = inputs.key();
    if let Some(entry) = cache.get(KIND, &key) {
        return inputs.kernel(&entry);
    }
    inputs.require_space(cache)?;
    let events = RefCell::new(events);
    let entry = cache.get_or_build(
        KIND,
        &key,
        || {
            let text = format!("another run that builds {inputs}");
            events.borrow_mut().event(Event::Waiting(&text));
        },
        |into| inputs.build(into, cache, *events.borrow_mut()),
    )?;
    inputs.kernel(&entry)
}

/// The kernel that `spec` asks for if it is in the cache; asks no network. The
/// newest source version in the cache counts unless `spec` names one.
pub fn find(spec: &Spec, cache: &Cache) -> Result<Option<Kernel>> {
    let newest = || apt::newest(source::cached(spec.base, cache)?);
    let Some(version) = spec.version.clone().map_or_else(newest, |v| Ok(Some(v)))? else {
        return Ok(None);
    };
    let source = Source {
        base: spec.base,
        version,
    };
    let inputs = Inputs::with_source(spec, source)?;
    let entry = cache.get(KIND, &inputs.key());
    entry.map(|entry| inputs.kernel(&entry)).transpose()
}

/// The final `.config` of `spec`, without building more than kconfig.
pub fn configuration(spec: &Spec, cache: &Cache, events: &mut dyn Events) -> Result<String> {
    let inputs = Inputs::new(spec, cache, events)?;
    inputs.require_space(cache)?;
    let mut tree = WorkTree::open(&inputs.source, cache, events)?;
    tree.switch(inputs.series.as_ref())?;
    let obj = inputs.obj(&tree, events)?;
    let mut build = Build::start(&inputs, &tree, &obj)?;
    let text = build.configure();
    build.end(&text)?;
    text
}

/// Everything that goes into a kernel.
struct Inputs<'a> {
    spec: &'a Spec,
    source: Source,
    fragments: Vec<Fragment>,
    /// The series of a patched kernel, with its hash.
    series: Option<Series>,
    series_hash: Option<String>,
    compiler: String,
}

impl<'a> Inputs<'a> {
    fn new(spec: &'a Spec, cache: &Cache, events: &mut dyn Events) -> Result<Self> {
        if !spec.arch.page_sizes().contains(&spec.page_size) {
            let known: Vec<_> = spec.arch.page_sizes().iter().map(|s| s.name()).collect();
            bail!(
                "{} has no {} pages: known are {}",
                spec.arch,
                spec.page_size,
                known.join(", ")
            );
        }
        if !spec.variant.exists_on(spec.arch) {
            bail!(
                "{} has no contpte leaf, so no {} kernel",
                spec.arch,
                spec.variant
            );
        }
        preflight::require(spec.arch, &config::fragments(spec)?)?;
        let source = match &spec.version {
            Some(version) => source::pinned(spec.base, version, cache, events)?,
            None => Source::newest(spec.base, false, cache, events)?,
        };
        Self::with_source(spec, source)
    }

    fn with_source(spec: &'a Spec, source: Source) -> Result<Self> {
        let fragments = config::fragments(spec)?;
        let series = match spec.variant {
            Variant::Pristine => None,
            Variant::FixedContpte => Some(Series::load_part(spec.base, &spec.files, spec.variant)?),
            Variant::Patched => Some(Series::load(spec.base, &spec.files)?),
        };
        Ok(Self {
            spec,
            source,
            series_hash: series.as_ref().map(Series::hash).transpose()?,
            fragments,
            series,
            compiler: compiler(spec.arch)?,
        })
    }

    fn key(&self) -> Key {
        let mut key = Key::new()
            .field("recipe", RECIPE)
            .field("source", self.source.to_string())
            .field("arch", self.spec.arch.name())
            .field("page size", self.spec.page_size.name())
            .field("variant", self.spec.variant.name())
            .field("compiler", &self.compiler);
        if let Some(hash) = &self.series_hash {
            key = key.field("series", hash);
        }
        for (number, fragment) in self.fragments.iter().enumerate() {
            key = key.field(format!("fragment {number}"), &fragment.text);
        }
        key
    }

    fn require_space(&self, cache: &Cache) -> Result<()> {
        let tree = cache.root().join("work").join(self.source.dir_name());
        let unpacked = tree.join(JOURNAL).exists();
        let bytes = OBJ_BYTES + if unpacked { 0 } else { TREE_BYTES };
        cache.require_space(bytes, &format!("building {self}"))
    }

    fn build(&self, into: &Path, cache: &Cache, events: &mut dyn Events) -> Result<()> {
        let mut tree = WorkTree::open(&self.source, cache, events)?;
        tree.switch(self.series.as_ref())?;
        let obj = self.obj(&tree, events)?;
        let was = take_built(&obj)?;
        let start = Instant::now();
        let mut build = Build::start(self, &tree, &obj)?;
        events.event(Event::Step(&format!("configuring {self}")));
        let result = build.configure().and_then(|config| {
            events.event(Event::Step(&format!("building {self}")));
            let files = self.compile(&mut build, cache, was, events)?;
            Ok((config, files))
        });
        build.end(&result)?;
        let (config, files) = result?;
        fs::write(obj.join(BUILT), self.spec.variant.name())?;
        let release = fs::read_to_string(obj.join("include/config/kernel.release"))
            .context("the build left no kernel.release")?;
        let meta = Meta {
            release: release.trim().into(),
            config_hash: config::hash(&config),
            compiler: self.compiler.clone(),
            series: self.series_hash.clone(),
            build_seconds: start.elapsed().as_secs_f64(),
            files_compiled: files,
        };
        for (from, to) in [
            (
                obj.join(image_path(self.spec.arch)),
                image_name(self.spec.arch),
            ),
            (obj.join("System.map"), "System.map"),
            (build.log_path.clone(), "build.log"),
        ] {
            fs::copy(&from, into.join(to))
                .with_context(|| format!("cannot copy {}", from.display()))?;
        }
        fs::write(into.join("config"), config)?;
        fs::write(into.join("meta.json"), serde_json::to_vec_pretty(&meta)?)?;
        Ok(())
    }

    fn compile(
        &self,
        build: &mut Build<'_>,
        cache: &Cache,
        was: Option<String>,
        events: &mut dyn Events,
    ) -> Result<u64> {
        // What an unfinished build has left to do, nobody learnt.
        let way = was.map(|was| counts::Way {
            base: self.spec.base,
            flavour: self.spec.flavour(),
            from: was,
            to: self.spec.variant.name().into(),
        });
        let expected = way.as_ref().and_then(|way| counts::expected(cache, way));
        let mut files = 0;
        let target = image_path(self.spec.arch);
        let target = target.rsplit('/').next().unwrap_or(target);
        build.make(&[target], &mut |done| {
            files = done;
            let total = expected.map(|expected| expected.max(done));
            events.event(Event::Progress { done, total });
        })?;
        if let Some(way) = way {
            counts::learn(cache, &way, files)?;
        }
        Ok(files)
    }

    /// The object folder. One whose last build died in the midst is removed:
    /// nobody knows which of its files are whole.
    fn obj(&self, tree: &WorkTree, events: &mut dyn Events) -> Result<PathBuf> {
        let obj = tree.dir().join(format!("obj-{}", self.spec.flavour()));
        if obj.join(MARKER).exists() {
            events.event(Event::Note(&format!(
                "the last build in {} was cut off: building anew",
                obj.display()
            )));
            fs::remove_dir_all(&obj).with_context(|| format!("cannot remove {}", obj.display()))?;
        }
        fs::create_dir_all(&obj).with_context(|| format!("cannot create {}", obj.display()))?;
        Ok(obj)
    }

    fn kernel(&self, entry: &Entry) -> Result<Kernel> {
        let path = entry.path("meta.json");
        let meta: Meta = serde_json::from_slice(
            &fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?,
        )
        .with_context(|| format!("{}: damaged", path.display()))?;
        Ok(Kernel {
            base: self.spec.base,
            version: self.source.version.clone(),
            release: meta.release,
            arch: self.spec.arch,
            page_size: self.spec.page_size,
            variant: self.spec.variant,
            image: entry.path(image_name(self.spec.arch)),
            config_hash: meta.config_hash,
            config: entry.path("config"),
            system_map: entry.path("System.map"),
        })
    }
}

impl std::fmt::Display for Inputs<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Spec { variant, .. } = self.spec;
        write!(
            f,
            "{variant} {} for {}",
            self.source.version,
            self.spec.flavour()
        )
    }
}

/// What an object folder was last built as, `nothing` if it is new, or `None`
/// if its build was not finished. The answer is taken away: from now on its
/// build is not finished.
fn take_built(obj: &Path) -> Result<Option<String>> {
    let path = obj.join(BUILT);
    if fs::read_dir(obj)?.next().is_none() {
        return Ok(Some(counts::NOTHING.into()));
    }
    let Ok(built) = fs::read_to_string(&path) else {
        return Ok(None);
    };
    fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
    Ok(Some(built))
}

/// make at work in an object folder.
struct Build<'a> {
    inputs: &'a Inputs<'a>,
    tree: &'a WorkTree,
    obj: &'a Path,
    log: File,
    log_path: PathBuf,
}

impl<'a> Build<'a> {
    fn start(inputs: &'a Inputs<'a>, tree: &'a WorkTree, obj: &'a Path) -> Result<Self> {
        let spec = inputs.spec;
        let name = format!("build-{}-{}.log", spec.flavour(), spec.variant);
        let log_path = tree.dir().join(name);
        let create = |path: &Path| {
            File::create(path).with_context(|| format!("cannot create {}", path.display()))
        };
        create(&obj.join(MARKER))?.sync_all()?;
        Ok(Self {
            inputs,
            tree,
            obj,
            log: create(&log_path)?,
            log_path,
        })
    }

    /// Takes the marker away, unless make was killed and could not clean up.
    fn end<T>(&self, result: &Result<T>) -> Result<()> {
        if matches!(result, Err(error) if error.downcast_ref::<Killed>().is_some()) {
            return Ok(());
        }
        fs::remove_file(self.obj.join(MARKER)).context("cannot remove the build's marker")
    }

    /// tinyconfig, then the fragments, then the check that all of them hold.
    fn configure(&mut self) -> Result<String> {
        self.make(&["tinyconfig"], &mut |_| ())?;
        let mut merge = Command::new("sh");
        // The script leaves its temporary files in the current folder.
        merge
            .current_dir(self.obj)
            .arg(self.tree.src().join("scripts/kconfig/merge_config.sh"))
            .args(["-m", "-Q", "-O", "."])
            .env("KCONFIG_CONFIG", ".config")
            .arg(".config");
        for fragment in &self.inputs.fragments {
            merge.arg(&fragment.path);
        }
        tool::output(&mut merge)?;
        self.make(&["olddefconfig"], &mut |_| ())?;
        let path = self.obj.join(".config");
        let text =
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        config::check(&self.inputs.fragments, &text)
            .with_context(|| format!("configuration of {}", self.inputs))?;
        Ok(text)
    }

    fn make(&mut self, targets: &[&str], compiled: &mut dyn FnMut(u64)) -> Result<()> {
        let mut make = command(&self.tree.src(), self.inputs.spec.arch);
        make.arg(format!("O={}", self.obj.display()))
            .args(FIXED.map(|(name, value)| format!("{name}={value}")))
            .args(targets);
        make::run(
            &mut make,
            self.tree.lock(),
            &mut self.log,
            &self.log_path,
            compiled,
        )
    }
}

/// make in the folder `dir` of a source tree, on all CPUs, and steered by
/// nothing but what is added to it.
pub(crate) fn command(dir: &Path, arch: Arch) -> Command {
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let mut make = Command::new("make");
    for (name, _) in std::env::vars_os() {
        if steers_kbuild(&name.to_string_lossy()) {
            make.env_remove(name);
        }
    }
    make.arg("-C")
        .arg(dir)
        .arg(format!("ARCH={arch}"))
        .arg(format!("CROSS_COMPILE={}", cross(arch)))
        .arg(format!("-j{jobs}"))
        .env("LC_ALL", "C");
    make
}

/// Whether the caller's environment variable `name` would change a kernel, or
/// tie this make to the one that called us.
fn steers_kbuild(name: &str) -> bool {
    const NAMES: [&str; 17] = [
        "ARCH",
        "CROSS_COMPILE",
        "SUBARCH",
        "CC",
        "LD",
        "AR",
        "HOSTCC",
        "LLVM",
        "V",
        "W",
        "C",
        "O",
        "M",
        "KCFLAGS",
        "KAFLAGS",
        "KCPPFLAGS",
        "LOCALVERSION",
    ];
    NAMES.contains(&name)
        || ["MAKE", "MFLAGS", "KBUILD_", "KCONFIG_", "CONFIG_"]
            .iter()
            .any(|prefix| name.starts_with(prefix))
}

/// The prefix of the tools that build for `arch` on this machine.
pub fn cross(arch: Arch) -> &'static str {
    match arch {
        _ if Arch::host() == Some(arch) => "",
        Arch::Arm64 => "aarch64-linux-gnu-",
        Arch::X86_64 => "x86_64-linux-gnu-",
    }
}

/// What the compiler and linker for `arch` say they are.
pub(crate) fn compiler(arch: Arch) -> Result<String> {
    let version = |tool: &str| {
        let text = tool::stdout(Command::new(format!("{}{tool}", cross(arch))).arg("--version"))?;
        anyhow::Ok(text.lines().next().unwrap_or_default().to_string())
    };
    Ok(format!("{}; {}", version("gcc")?, version("ld")?))
}

/// The file that QEMU boots, in the object folder. On x86-64 that is the ELF
/// file, which `microvm` enters through PVH without a decompressor.
const fn image_path(arch: Arch) -> &'static str {
    match arch {
        Arch::Arm64 => "arch/arm64/boot/Image",
        Arch::X86_64 => "vmlinux",
    }
}

const fn image_name(arch: Arch) -> &'static str {
    match arch {
        Arch::Arm64 => "Image",
        Arch::X86_64 => "vmlinux",
    }
}

#[cfg(test)]
#[path = "build_tests.rs"]
mod tests;
