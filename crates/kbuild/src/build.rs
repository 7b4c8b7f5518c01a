// SPDX-License-Identifier: GPL-2.0-only
//! Builds a kernel from a work tree, and keeps it as a cache entry.

use crate::config::{self, Fragment};
use crate::fault;
use crate::image_fault::{self, ImageFault};
use crate::kconfig::Homes;
use crate::make::{self, Killed};
use crate::narrow::{self, Narrow};
use crate::options;
use crate::place::{Place, TREE_BYTES};
use crate::source::JOURNAL;
use crate::source::{self, Source};
use crate::stack::Stack;
use crate::toolchain::{compiler, cross};
use crate::worktree::{ORIGINALS, WorkTree};
use crate::{Arch, Commit, Distribution, Kernel, Spec, ccache, counts, preflight};
use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;
use wideleaf_cache::{Cache, Entry, Key};
use wideleaf_debian::apt;
use wideleaf_kit::events::{Event, Observer};
use wideleaf_kit::tool;

/// The cache's kind of entry that holds a kernel.
const KIND: &str = "kernel";

/// Changes when what is done here changes what comes out.
const RECIPE: &str = "1";

/// Bytes that an object folder and its kernel take, with room to spare.
const OBJ_BYTES: u64 = 1 << 30;

/// The same with a distribution's configuration.
const DISTRIBUTION_OBJ_BYTES: u64 = 2 << 30;

/// In an entry: what differs from the distribution's configuration.
const DIFFERS: &str = "config.differs";

/// In an object folder: the Kconfig file around the tree's own.
const KCONFIG: &str = "Kconfig.wideleaf";

/// How often options that were lost are selected: what one selects may be lost in turn.
const SELECTS: usize = 4;

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
pub fn ensure(spec: &Spec, cache: &Cache, observer: &dyn Observer) -> Result<Kernel> {
    let inputs = Inputs::new(spec, cache, observer)?;
    let entry = inputs.entry(cache, observer)?;
    inputs.tell_differences(&entry.path(DIFFERS), observer)?;
    let kernel = inputs.kernel(&entry)?;
    let read = |path: &Path| {
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
    };
    inputs.check_required(&read(&kernel.config)?)?;
    Ok(kernel)
}

/// The kernel that `spec` asks for if it is in the cache; asks no network. The
/// newest source version in the cache counts unless `spec` names one.
pub fn find(spec: &Spec, cache: &Cache) -> Result<Option<Kernel>> {
    if let Some(commit) = &spec.commit {
        return Inputs::with_origin(spec, Origin::Commit(commit.clone()))?.find(cache);
    }
    let newest = || apt::newest(source::cached(spec.base, cache)?);
    let Some(version) = spec.version.clone().map_or_else(newest, |v| Ok(Some(v)))? else {
        return Ok(None);
    };
    let source = Source {
        base: spec.base,
        version,
    };
    Inputs::with_origin(spec, Origin::Package(source))?.find(cache)
}

/// Names the kernel of `spec` by all that goes into it: the name of its entry in the cache. Nothing
/// is fetched, so `spec` must name a version of the source.
///
/// # Errors
///
/// If it names none, or what goes into the kernel cannot be read.
pub fn key(spec: &Spec) -> Result<String> {
    let origin = match (&spec.commit, spec.version.clone()) {
        (Some(commit), _) => Origin::Commit(commit.clone()),
        (None, Some(version)) => Origin::Package(Source {
            base: spec.base,
            version,
        }),
        (None, None) => bail!("no version of {} is named", spec.base.package()),
    };
    Ok(Inputs::with_origin(spec, origin)?.key()?.id())
}

/// The final `.config` of `spec`, without building more than kconfig.
pub fn configuration(spec: &Spec, cache: &Cache, observer: &dyn Observer) -> Result<String> {
    let inputs = Inputs::new(spec, cache, observer)?;
    inputs.require_space(cache)?;
    let place = inputs.place(cache, observer)?;
    let obj = inputs.obj(&place, observer)?;
    let mut build = Build::start(&inputs, &place, &obj)?;
    let text = build.configure(cache, observer);
    build.end(&text)?;
    let text = text?;
    inputs.tell_differences(&obj.join(DIFFERS), observer)?;
    Ok(text)
}

/// Where the source comes from.
#[derive(Clone)]
enum Origin {
    Package(Source),
    Commit(Commit),
}

impl Origin {
    /// The source's version, as people know it.
    fn version(&self) -> &str {
        match self {
            Self::Package(source) => &source.version,
            Self::Commit(commit) => &commit.version,
        }
    }

    /// The source package, whose version Debian's configurations have.
    fn package(&self, distribution: &Distribution) -> Result<&Source> {
        match self {
            Self::Package(source) => Ok(source),
            Self::Commit(commit) => bail!(
                "--config {distribution}: {commit} is no source of Debian's: leave --tree out"
            ),
        }
    }
}

/// Everything that goes into a kernel.
struct Inputs<'a> {
    spec: &'a Spec,
    origin: Origin,
    fragments: Vec<Fragment>,
    /// What is done to the source, with its hash.
    stack: Stack,
    series_hash: Option<String>,
    compiler: String,
    /// Changes of the finished image.
    fault: Option<ImageFault>,
}

impl<'a> Inputs<'a> {
    fn new(spec: &'a Spec, cache: &Cache, observer: &dyn Observer) -> Result<Self> {
        if !spec.arch.page_sizes().contains(&spec.page_size) {
            let known: Vec<_> = spec.arch.page_sizes().iter().map(|s| s.name()).collect();
            bail!(
                "{} has no {} pages: known are {}",
                spec.arch,
                spec.page_size,
                known.join(", ")
            );
        }
        let of_package = spec.commit.is_none();
        preflight::require(spec.arch, of_package, &config::fragments(spec)?)?;
        let origin = match (&spec.commit, &spec.version) {
            (Some(commit), _) => Origin::Commit(commit.clone()),
            (None, Some(version)) => {
                Origin::Package(source::pinned(spec.base, version, cache, observer)?)
            }
            (None, None) => Origin::Package(Source::newest(spec.base, false, cache, observer)?),
        };
        Self::with_origin(spec, origin)
    }

    fn with_origin(spec: &'a Spec, origin: Origin) -> Result<Self> {
        let fragments = config::fragments(spec)?;
        let plant = spec.plant.as_deref();
        let fault = plant.map(|name| fault::of_image(name, spec.base, spec.arch, &spec.files));
        let fault = fault.transpose()?.flatten();
        let patch = plant.filter(|_| fault.is_none());
        let stack = match spec.commit {
            Some(_) => Stack::default(),
            None => Stack::of(spec.base, spec.variant, patch, &spec.files)?,
        };
        Ok(Self {
            spec,
            origin,
            series_hash: stack.hash()?,
            fragments,
            stack,
            compiler: compiler(spec.arch)?,
            fault,
        })
    }

    /// The cache's entry, made if there is none.
    fn entry(&self, cache: &Cache, observer: &dyn Observer) -> Result<Entry> {
        let key = self.key()?;
        if let Some(entry) = cache.get(KIND, &key) {
            return Ok(entry);
        }
        self.require_space(cache)?;
        cache.get_or_build(
            KIND,
            &key,
            || {
                let text = format!("another run that builds {self}");
                observer.event(Event::Waiting(&text));
            },
            |into| match &self.fault {
                Some(fault) => self.plant(fault, into, cache, observer),
                None => self.build(into, cache, observer),
            },
        )
    }

    /// Makes a kernel with `fault` of the one without.
    fn plant(
        &self,
        fault: &ImageFault,
        into: &Path,
        cache: &Cache,
        observer: &dyn Observer,
    ) -> Result<()> {
        let spec = Spec {
            plant: None,
            ..self.spec.clone()
        };
        let whole = Inputs::with_origin(&spec, self.origin.clone())?.entry(cache, observer)?;
        let image = whole.path(image_name(spec.arch));
        let read =
            |path: &Path| fs::read(path).with_context(|| format!("cannot read {}", path.display()));
        let map = whole.path("System.map");
        let map = String::from_utf8(read(&map)?)
            .with_context(|| format!("{}: not text", map.display()))?;
        let mut bytes = read(&image)?;
        let count = fault
            .plant(&mut bytes, &map)
            .with_context(|| format!("{}", image.display()))?;
        observer.event(Event::Note(&format!(
            "planted {}: {count} instructions changed",
            fault.name
        )));
        for name in ["System.map", "build.log", "config", "meta.json"] {
            copy(&whole.path(name), &into.join(name))?;
        }
        for name in [DEBUG, DIFFERS] {
            if whole.path(name).exists() {
                copy(&whole.path(name), &into.join(name))?;
            }
        }
        let to = into.join(image_name(spec.arch));
        fs::write(&to, bytes).with_context(|| format!("cannot write {}", to.display()))
    }

    fn key(&self) -> Result<Key> {
        let mut key = Key::new()
            .field("recipe", RECIPE)
            .field("arch", self.spec.arch.name())
            .field("page size", self.spec.page_size.name())
            .field("compiler", &self.compiler);
        key = match &self.origin {
            Origin::Package(source) => key
                .field("source", source.to_string())
                .field("variant", self.spec.variant.name()),
            // What the commit is called and compared with does not change what it is.
            Origin::Commit(commit) => key.field("git tree", &commit.tree),
        };
        if let Some(hash) = &self.series_hash {
            key = key.field("series", hash);
        }
        for (number, fragment) in self.fragments.iter().enumerate() {
            key = key.field(format!("fragment {number}"), &fragment.text);
        }
        if let Some(fault) = &self.fault {
            let done = format!("{} {}", fault.name, image_fault::RECIPE);
            key = key.field("image fault", done);
        }
        if let Some(distribution) = &self.spec.distribution {
            let source = self.origin.package(distribution)?.to_string();
            key = key.field("narrowing", narrow::RECIPE).field(
                "configuration",
                distribution.identity(&source, self.spec.arch)?,
            );
        }
        Ok(key)
    }

    /// Fails if the distribution's configuration lacks what a job needs.
    fn check_required(&self, config: &str) -> Result<()> {
        let Some(distribution) = &self.spec.distribution else {
            return Ok(());
        };
        let (mut extras, mut lost) = (Vec::new(), Vec::new());
        for name in &self.spec.required {
            let of_one = config::lost(&config::required(self.spec, name)?, config);
            if !of_one.is_empty() {
                extras.push(format!("--extra {name}"));
                lost.extend(of_one);
            }
        }
        ensure!(
            lost.is_empty(),
            "{distribution} lacks what the job needs: add {}\n{}",
            extras.join(" "),
            lost.join("\n")
        );
        Ok(())
    }

    /// Says how much differs from the distribution's configuration, and that the list is at `path`.
    fn tell_differences(&self, path: &Path, observer: &dyn Observer) -> Result<()> {
        let Some(distribution) = &self.spec.distribution else {
            return Ok(());
        };
        let list =
            fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let head = format!(
            "configuration {distribution}, {} options differ (all: {})",
            list.lines().count(),
            path.display()
        );
        observer.event(Event::Note(&head));
        Ok(())
    }

    fn require_space(&self, cache: &Cache) -> Result<()> {
        let place = cache.root().join("work").join(self.place_name());
        let whole = match self.origin {
            Origin::Package(_) => JOURNAL,
            Origin::Commit(_) => "index",
        };
        let unpacked = place.join(whole).exists();
        let obj = match self.spec.distribution {
            Some(_) => DISTRIBUTION_OBJ_BYTES,
            None => OBJ_BYTES,
        };
        let bytes = obj + if unpacked { 0 } else { TREE_BYTES };
        cache.require_space(bytes, &format!("building {self}"))
    }

    fn find(&self, cache: &Cache) -> Result<Option<Kernel>> {
        let entry = cache.get(KIND, &self.key()?);
        entry.map(|entry| self.kernel(&entry)).transpose()
    }

    /// The name of the source's place in the cache. A distribution's kernel takes half an hour, so
    /// it has a tree of its own, and no other build waits for that long.
    fn place_name(&self) -> String {
        match &self.origin {
            Origin::Package(source) if self.spec.distribution.is_some() => {
                format!("distribution-{}", source.dir_name())
            }
            Origin::Package(source) => source.dir_name(),
            Origin::Commit(commit) => commit.place(),
        }
    }

    /// The source as it is to be built.
    fn place(&self, cache: &Cache, observer: &dyn Observer) -> Result<Place> {
        match &self.origin {
            Origin::Package(source) => {
                let mut tree = WorkTree::open_at(&self.place_name(), source, cache, observer)?;
                tree.switch(&self.stack)?;
                Ok(tree.into_place())
            }
            Origin::Commit(commit) => commit.check_out(cache, observer),
        }
    }

    fn build(&self, into: &Path, cache: &Cache, observer: &dyn Observer) -> Result<()> {
        let place = self.place(cache, observer)?;
        let obj = self.obj(&place, observer)?;
        let was = take_built(&obj)?;
        let start = Instant::now();
        let mut build = Build::start(self, &place, &obj)?;
        observer.event(Event::Step(&format!("configuring {self}")));
        let result = build.configure(cache, observer).and_then(|config| {
            observer.event(Event::Step(&format!("building {self}")));
            let files = self.compile(&mut build, cache, was, observer)?;
            Ok((config, files))
        });
        build.end(&result)?;
        let (config, files) = result?;
        fs::write(obj.join(BUILT), self.built_as())?;
        let release = fs::read_to_string(obj.join("include/config/kernel.release"))
            .context("the build left no kernel.release")?;
        let meta = Meta {
            release: release.trim().into(),
            config_hash: options::hash(&config),
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
            copy(&from, &into.join(to))?;
        }
        if config.contains("\nCONFIG_DEBUG_INFO=y\n") {
            copy(&obj.join(DEBUG), &into.join(DEBUG))?;
        }
        if self.spec.distribution.is_some() {
            copy(&obj.join(DIFFERS), &into.join(DIFFERS))?;
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
        observer: &dyn Observer,
    ) -> Result<u64> {
        // What an unfinished build has left to do, nobody learnt.
        let counted = was.filter(|_| matches!(self.origin, Origin::Package(_)));
        let way = counted.map(|was| counts::Way {
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
            // Counted in another order of builds, it may be less than there is.
            let total = expected.filter(|expected| *expected >= done);
            observer.event(Event::Progress { done, total });
        })?;
        if let Some(way) = way {
            counts::learn(cache, &way, files)?;
        }
        Ok(files)
    }

    /// What the object folder is remembered to have been built as.
    fn built_as(&self) -> &str {
        match &self.origin {
            Origin::Package(_) => self.spec.variant.name(),
            Origin::Commit(commit) => &commit.tree,
        }
    }

    /// The object folder. One whose last build died in the midst is removed:
    /// nobody knows which of its files are whole.
    fn obj(&self, tree: &Place, observer: &dyn Observer) -> Result<PathBuf> {
        let obj = tree.dir().join(format!("obj-{}", self.spec.flavour()));
        if obj.join(MARKER).exists() {
            observer.event(Event::Note(&format!(
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
            version: self.origin.version().into(),
            commit: self.spec.commit.clone(),
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
        let flavour = self.spec.flavour();
        match &self.origin {
            Origin::Package(source) => {
                write!(f, "{} {} for {flavour}", self.spec.variant, source.version)
            }
            Origin::Commit(commit) => write!(f, "{commit} for {flavour}"),
        }
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
    tree: &'a Place,
    obj: &'a Path,
    log: File,
    log_path: PathBuf,
}

impl<'a> Build<'a> {
    fn start(inputs: &'a Inputs<'a>, tree: &'a Place, obj: &'a Path) -> Result<Self> {
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

    /// tinyconfig or the distribution's configuration, then the fragments, then the check that all
    /// of them hold.
    fn configure(&mut self, cache: &Cache, observer: &dyn Observer) -> Result<String> {
        let text = match &self.inputs.spec.distribution {
            Some(distribution) => {
                let text = self.configure_as(distribution, cache, observer)?;
                self.inputs.check_required(&text)?;
                text
            }
            None => {
                self.make(&["tinyconfig"], &mut |_| ())?;
                self.merge_fragments()?;
                self.complete()?
            }
        };
        let lost = config::lost(&self.inputs.fragments, &text);
        ensure!(
            lost.is_empty(),
            "configuration of {}: options lost to unmet dependencies:\n{}",
            self.inputs,
            lost.join("\n")
        );
        Ok(text)
    }

    /// The distribution's configuration, as narrow as the guest can have it. Says what differs.
    fn configure_as(
        &mut self,
        distribution: &Distribution,
        cache: &Cache,
        observer: &dyn Observer,
    ) -> Result<String> {
        let inputs = self.inputs;
        let source = inputs.origin.package(distribution)?;
        let theirs = distribution.text(source, inputs.spec.arch, cache, observer)?;
        let originals = self.tree.dir().join(ORIGINALS);
        let homes = Homes::read(&self.tree.src(), &originals, inputs.spec.arch)?;
        let fragments = inputs.fragments.iter().map(|fragment| &fragment.text[..]);
        let narrow = Narrow::new(&theirs, &fragments.collect::<Vec<_>>(), &homes);
        let top = self.tree.src().join("Kconfig");
        let top =
            fs::read_to_string(&top).with_context(|| format!("cannot read {}", top.display()))?;
        let mut lost: Vec<String> = Vec::new();
        for _ in 0..SELECTS {
            write(&self.obj.join(KCONFIG), &narrow::selects(&top, &lost))?;
            write(&self.obj.join(".config"), &narrow.text())?;
            self.merge_fragments()?;
            let ours = self.complete()?;
            let differences = narrow.differences(&ours);
            let more = narrow::lost(&differences);
            let is_new = more.iter().any(|name| !lost.contains(name));
            if is_new {
                lost.extend(more);
                continue;
            }
            let list = narrow::list(&differences);
            write(&self.obj.join(DIFFERS), &list)?;
            let asked = inputs.fragments.iter().filter(|f| !f.is_of_distributions());
            let asked: Vec<_> = asked.map(|fragment| &fragment.text[..]).collect();
            if !narrow.is_changed_by(&asked) {
                self.refuse(distribution, &narrow::forbidden(&differences))?;
            }
            for line in narrow::summary(&list) {
                observer.event(Event::Note(&line));
            }
            return Ok(ours);
        }
        bail!(
            "{distribution}: options that are selected are lost again: {}",
            lost.join(", ")
        )
    }

    /// Fails with options that must be as the distribution has them.
    fn refuse(&self, distribution: &Distribution, forbidden: &[String]) -> Result<()> {
        if forbidden.is_empty() {
            return Ok(());
        }
        bail!(
            "{}: these options of mm/, arch/ or a used file system are not as {distribution} has \
             them:\n{}",
            self.inputs,
            forbidden.join("\n")
        )
    }

    fn merge_fragments(&self) -> Result<()> {
        let mut merge = Command::new("sh");
        // The script leaves its temporary files in the current folder.
        merge
            .current_dir(self.obj)
            .arg(self.tree.src().join("scripts/kconfig/merge_config.sh"))
            .args(["-m", "-Q", "-O", "."])
            .env("KCONFIG_CONFIG", ".config")
            .arg(".config");
        // The script takes a path with a blank in it for two, so it gets copies.
        for (number, fragment) in self.inputs.fragments.iter().enumerate() {
            let copy = format!("wideleaf-{number}.config");
            let path = self.obj.join(&copy);
            fs::write(&path, &fragment.text)
                .with_context(|| format!("cannot write {}", path.display()))?;
            merge.arg(copy);
        }
        tool::output(&mut merge).map(drop)
    }

    /// Has kconfig complete `.config`.
    fn complete(&mut self) -> Result<String> {
        self.make(&["olddefconfig"], &mut |_| ())?;
        let path = self.obj.join(".config");
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    }

    fn make(&mut self, targets: &[&str], compiled: &mut dyn FnMut(u64)) -> Result<()> {
        let mut make = command(&self.tree.src(), self.inputs.spec.arch);
        ccache::put_before_compilers(&mut make, &self.tree.ccache());
        make.arg(format!("O={}", self.obj.display()))
            .args(FIXED.map(|(name, value)| format!("{name}={value}")))
            .args(targets);
        if self.inputs.spec.distribution.is_some() {
            let kconfig = self.obj.join(KCONFIG);
            make.arg(format!("KBUILD_KCONFIG={}", kconfig.display()));
        }
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
        || [
            "MAKE", "MFLAGS", "KBUILD_", "KCONFIG_", "CONFIG_", "CCACHE_",
        ]
        .iter()
        .any(|prefix| name.starts_with(prefix))
}

/// The file with the kernel's debug information; on x86-64 it is the image itself.
const DEBUG: &str = "vmlinux";

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to).with_context(|| format!("cannot copy {}", from.display()))?;
    Ok(())
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
