// SPDX-License-Identifier: GPL-2.0-only
//! `wideleaf kernel`: kernel sources, builds, and the patch series.

mod check;

use crate::screen::Screen;
use crate::stdout::{say, tell, write_out};
use anyhow::{Result, bail};
use clap::Subcommand;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use wideleaf_cache::Cache;
use wideleaf_kbuild::import::{self, Import};
use wideleaf_kbuild::series::Series;
use wideleaf_kbuild::source::{self, Source};
use wideleaf_kbuild::{
    Arch, Author, Base, Distribution, Interrupted, Kernel, KernelDir, PageSize, SeriesName, Spec,
    Stack, Variant, WorkTree, preflight,
};
use wideleaf_kit::events::{Event, Observer};
use wideleaf_kit::table::{Table, left};

/// Arguments of `wideleaf kernel`.
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  wideleaf kernel list --json
  wideleaf kernel fetch --base all
  wideleaf kernel config --base 6.12 --arch arm64 --page-size 16K
  wideleaf kernel build --base 7.3 --arch x86_64 --variant patched
  wideleaf kernel build --arch arm64 --config debian-cloud --variant pristine
  wideleaf kernel export --series fixes /tmp/fixes && git am /tmp/fixes/000[1-9]-*.patch
  wideleaf kernel export --series align /tmp/align && git am /tmp/align/000[1-9]-*.patch
  wideleaf kernel import --base 6.12 --tree ~/linux base..HEAD
  wideleaf kernel check --base all
  sudo apt-get install $(wideleaf kernel deps)")]
pub struct Args {
    /// Folder with the fragments, overlay and patches [default: the one that
    /// WIDELEAF_KERNEL_DIR names, else the nearest `kernel` above the current
    /// folder]
    #[arg(long, value_name = "DIR", global = true)]
    kernel_dir: Option<PathBuf>,
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// List bases, architectures, page sizes, and which kernels are built
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Get a base's source package and unpack it
    Fetch {
        #[command(flatten)]
        bases: Bases,
        /// Ask Debian's archive for a newer version now, not once a day
        #[arg(long)]
        refresh: bool,
    },
    /// Print the final configuration of a kernel
    Config {
        #[command(flatten)]
        which: Which,
    },
    /// Build a kernel, or find it built; prints the path of its image
    Build {
        #[command(flatten)]
        which: Which,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Write a series for a base as mails for `git am`, a cover letter first, from and signed off
    /// by git's user.name and user.email
    ///
    /// Some stand on others, and `git am` takes them after those: align on fixes, then reads,
    /// khugepaged and writes, one on the other. linear-map stands alone.
    Export {
        /// The series
        #[arg(long, default_value = "align", value_parser = named::<SeriesName>(SeriesName::ALL, SeriesName::name))]
        series: SeriesName,
        /// The base
        #[arg(long, default_value = "6.12", value_parser = named::<Base>(Base::ALL, Base::name))]
        base: Base,
        /// New or empty folder
        dir: PathBuf,
    },
    /// Write a series for a base from the commits of a git repository: its patches, its series
    /// file, and the overlay files that the commits add
    ///
    /// The reverse of export. Each commit is a step. A new file is an overlay file, with the
    /// content that it has after the last commit, if later commits do no more than change its
    /// lines; other new files are in the patches. The head of the series file stays, and so does
    /// each of its comments, behind the step of the same subject. Nothing is changed unless all of it can be written.
    Import(ImportArgs),
    /// Run the base's own checkpatch.pl --strict over the series for it, and see whether the faults
    /// of `lab run --plant` still apply on top
    Check {
        #[command(flatten)]
        bases: Bases,
        /// One series, without the faults [default: all]
        #[arg(long, value_parser = named::<SeriesName>(SeriesName::ALL, SeriesName::name))]
        series: Option<SeriesName>,
        /// Only what takes seconds and no network: a series that passed unchanged before is not
        /// checked again, and one whose source is not unpacked, or in use, is skipped
        #[arg(long)]
        quick: bool,
    },
    /// Print the Debian packages that builds need and that are not installed
    Deps,
}

#[derive(clap::Args)]
struct ImportArgs {
    /// The series
    #[arg(long, default_value = "align", value_parser = named::<SeriesName>(SeriesName::ALL, SeriesName::name))]
    series: SeriesName,
    /// The base
    #[arg(long, value_parser = named::<Base>(Base::ALL, Base::name))]
    base: Base,
    /// The git repository
    #[arg(long, value_name = "DIR")]
    tree: PathBuf,
    /// Replace overlay files that another base's series has too
    #[arg(long)]
    force: bool,
    /// The commits, without merges: BASE..TIP
    range: String,
}

#[derive(clap::Args)]
struct Bases {
    /// The base, or all of them
    #[arg(long, default_value = "6.12", value_parser = ["6.12", "7.3", "all"])]
    base: String,
}

#[derive(clap::Args)]
struct Which {
    /// The base
    #[arg(long, default_value = "6.12", value_parser = named::<Base>(Base::ALL, Base::name))]
    base: Base,
    /// The architecture
    #[arg(long, default_value = "arm64", value_parser = named::<Arch>(Arch::ALL, Arch::name))]
    arch: Arch,
    /// The base page size [default: 64K on arm64, 4K on x86_64]
    #[arg(long, value_parser = named::<PageSize>(PageSize::ALL, PageSize::name))]
    page_size: Option<PageSize>,
    /// As Debian ships it, with the series on text (patched) or the first of them, with linear-map, or
    /// with both
    #[arg(long, default_value = "patched", value_parser = named::<Variant>(Variant::ALL, Variant::name))]
    variant: Variant,
    /// The configuration: debian, debian-cloud or debian-16k, Debian's of the source's version, or a
    /// file with a .config; drivers are left out, and what differs is told [default: the lab's own]
    #[arg(long, value_name = "CONFIGURATION")]
    config: Option<String>,
    /// A further fragment of kernel/config, such as debug; may be repeated
    #[arg(long, value_name = "FRAGMENT")]
    extra: Vec<String>,
    /// A fault that the kernel gets; 'wideleaf lab list' names them
    #[arg(long, value_name = "NAME")]
    plant: Option<String>,
    /// The Debian version of the source [default: the newest]
    #[arg(long, value_name = "VERSION")]
    source_version: Option<String>,
}

/// Accepts the names of `all`; another one is answered with the list of them.
fn named<T>(all: &'static [T], name: fn(T) -> &'static str) -> impl TypedValueParser<Value = T>
where
    T: Copy + Send + Sync + 'static,
{
    PossibleValuesParser::new(all.iter().map(|&value| name(value))).map(move |text| {
        all.iter()
            .copied()
            .find(|&value| name(value) == text)
            .expect("one of the possible values")
    })
}

impl Bases {
    fn list(&self) -> Vec<Base> {
        let all = Base::ALL.iter().copied();
        all.filter(|base| self.base == "all" || self.base == base.name())
            .collect()
    }
}

impl Which {
    fn spec(self, files: KernelDir) -> Result<Spec> {
        let distribution = self.config.as_deref().map(Distribution::parse);
        let distribution = distribution.transpose()?;
        let usual = match &distribution {
            Some(distribution) => distribution.page_size(self.arch)?,
            None => self.arch.default_page_size(),
        };
        let size = self.page_size.unwrap_or(usual);
        if let Some(distribution) = distribution.as_ref().filter(|_| size != usual) {
            bail!("--config {distribution}: its kernels have pages of {usual}, not of {size}");
        }
        let mut spec = Spec::new(self.base, self.arch, size, self.variant, files);
        spec.add_extras(self.extra);
        spec.plant = self.plant;
        spec.version = self.source_version;
        spec.distribution = distribution;
        Ok(spec)
    }
}

/// Runs `wideleaf kernel`.
pub fn run(args: Args) -> Result<ExitCode> {
    match act(args) {
        // What shells report of a program that the signal ended.
        Err(error) if error.downcast_ref::<Interrupted>().is_some() => {
            tell!("wideleaf: {error:#}");
            let signal = error.downcast_ref::<Interrupted>().map_or(0, |e| e.0);
            Ok(ExitCode::from(128 + signal as u8))
        }
        result => result,
    }
}

fn act(args: Args) -> Result<ExitCode> {
    let files = || KernelDir::find(args.kernel_dir.as_deref());
    let cache = Cache::open()?;
    match args.action {
        Action::List { json } => list(&files()?, &cache, json)?,
        Action::Fetch { bases, refresh } => fetch(&bases.list(), refresh, &cache)?,
        Action::Config { which } => {
            let text =
                wideleaf_kbuild::configuration(&which.spec(files()?)?, &cache, &Screen::new())?;
            write_out(&text)?;
        }
        Action::Build { which, json } => {
            let spec = which.spec(files()?)?;
            let kernel = wideleaf_kbuild::ensure(&spec, &cache, &Screen::new())?;
            if json {
                say!("{}", serde_json::to_string_pretty(&kernel)?)?;
            } else {
                say!("{}", kernel.image.display())?;
            }
        }
        Action::Export { series, base, dir } => export(series, base, &dir, &files()?, &cache)?,
        Action::Import(args) => write_back(args, &files()?)?,
        Action::Check {
            bases,
            series,
            quick,
        } => {
            return check::run(series, &bases.list(), &files()?, &cache, quick);
        }
        Action::Deps => {
            for package in preflight::packages(&preflight::missing(Arch::ALL)) {
                say!("{package}")?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn fetch(bases: &[Base], refresh: bool, cache: &Cache) -> Result<()> {
    for &base in bases {
        let screen = Screen::new();
        let source = Source::newest(base, refresh, cache, &screen)?;
        let tree = WorkTree::open(&source, cache, &screen)?;
        drop(screen);
        say!("{source} {}", tree.src().display())?;
    }
    Ok(())
}

fn export(
    name: SeriesName,
    base: Base,
    dir: &Path,
    files: &KernelDir,
    cache: &Cache,
) -> Result<()> {
    let series = Series::load(base, &files.series(name))?;
    if series.steps().is_empty() {
        bail!("the series {name} has no steps for Linux {base}");
    }
    let author = Author::of_git(Path::new("."))?;
    let screen = Screen::new();
    let source = Source::newest(base, false, cache, &screen)?;
    let tree = WorkTree::open(&source, cache, &screen)?;
    screen.event(Event::Step(&format!(
        "writing the series {name} for {source}"
    )));
    let original = tree.under(&series, &Stack::ground(base, name, files)?)?;
    let on = match name.ground() {
        Some(ground) => format!("{source}, after the series {ground}"),
        None => source.to_string(),
    };
    let written = series.export(&on, &original, &author, dir)?;
    drop(screen);
    for path in written {
        say!("{}", path.display())?;
    }
    if let Some(ground) = name.ground() {
        tell!("wideleaf: kernel export: `git am` takes these after the series {ground}");
    }
    Ok(())
}

fn write_back(args: ImportArgs, files: &KernelDir) -> Result<()> {
    let import = Import {
        series: args.series,
        base: args.base,
        tree: args.tree,
        range: args.range,
        force: args.force,
    };
    let imported = import::import(&import, files)?;
    for path in imported.written {
        say!("{}", path.display())?;
    }
    for path in imported.removed {
        say!("removed {}", path.display())?;
    }
    Ok(())
}

/// Every kernel that can be asked for, with what the cache has.
fn list(files: &KernelDir, cache: &Cache, json: bool) -> Result<()> {
    let mut rows = Vec::new();
    for &base in Base::ALL {
        for &arch in Arch::ALL {
            for &size in arch.page_sizes() {
                for &variant in Variant::ALL {
                    let spec = Spec::new(base, arch, size, variant, files.clone());
                    // Without compiler or series there is none to be found.
                    let kernel = wideleaf_kbuild::find(&spec, cache).unwrap_or_default();
                    rows.push((spec, kernel));
                }
            }
        }
    }
    if json {
        let sources: serde_json::Map<_, _> = Base::ALL
            .iter()
            .map(|&base| Ok((base.to_string(), json!(source::cached(base, cache)?))))
            .collect::<Result<_>>()?;
        let kernels: Vec<_> = rows
            .iter()
            .map(|(spec, kernel)| row(spec, kernel))
            .collect();
        say!("{}", json!({ "sources": sources, "kernels": kernels }))?;
        return Ok(());
    }
    let mut table = Table::new(["BASE", "ARCH", "PAGES", "VARIANT", "BUILT"].map(left));
    for (spec, kernel) in &rows {
        let built = kernel.as_ref().map_or("-", |kernel| &kernel.version);
        table.row([
            spec.base.name(),
            spec.arch.name(),
            spec.page_size.name(),
            spec.variant.name(),
            built,
        ]);
    }
    write_out(&table.render(true))
}

fn row(spec: &Spec, kernel: &Option<Kernel>) -> serde_json::Value {
    json!({
        "base": spec.base,
        "arch": spec.arch,
        "page_size": spec.page_size,
        "variant": spec.variant,
        "built": kernel,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Args as _, Command};

    /// `git am` refuses a series without those that it stands on.
    #[test]
    fn examples_export_a_series_after_those_that_it_stands_on() {
        let command = Args::augment_args(Command::new("kernel"));
        let help = command.get_after_long_help().unwrap().to_string();
        let mut done = Vec::new();
        for line in help.lines().filter(|line| line.contains("git am")) {
            let mut words = line.split_whitespace();
            words.find(|word| *word == "--series").unwrap();
            let name = words.next().unwrap();
            let known = SeriesName::ALL.iter().find(|known| known.name() == name);
            let ground = known.unwrap().ground().map(SeriesName::name);
            assert!(ground.is_none_or(|on| done.contains(&on)), "{line}");
            done.push(name);
        }
        assert_eq!(done, ["fixes", "align"]);
    }
}
