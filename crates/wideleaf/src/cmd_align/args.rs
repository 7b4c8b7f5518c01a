// SPDX-License-Identifier: GPL-2.0-only
//! The command line of `wideleaf align`.

use crate::stdout::printable_path;
use crate::usage::misuse;
use anyhow::{Context, Result};
use clap::ValueEnum;
use std::ffi::OsString;
use std::path::PathBuf;
use wideleaf_align::{HardLinks, Options};
use wideleaf_elf::LEAF_2M;

const EXAMPLES: &str = "\
Examples:
  What would it do to a program, and what would that gain?
      wideleaf align --dry-run --verbose /usr/bin/mold
  An aligned copy beside the original:
      wideleaf align /usr/bin/mold -o ~/bin/mold
  Replace a library in one step, and keep the original as libx.so.1.orig:
      wideleaf align --in-place --backup /opt/lib/libx.so.1
  Undo it:
      wideleaf align --restore --in-place /opt/lib/libx.so.1
  Debian's python has no whole block; would code and constants in one segment give it some?
      wideleaf align --merge --dry-run /usr/bin/python3.13
  Every program in a folder that gains by it, for a script:
      wideleaf align --in-place --json /opt/bin/* | jq '.files[].status'
  All programs and libraries below a root file system that gain by it:
      wideleaf align -r rootfs
  The images of an OCI layout, or of an archive of docker save:
      wideleaf align --oci layout
      wideleaf align --oci --platform linux/arm64 image.tar -o aligned.tar

Files whose text gains no 2M leaf are left as they are: a wider p_align costs them bits of
randomisation (9 at 2M) for nothing. --all rewrites them too; so does a --leaf other than 2M.
WSL 1 refuses programs with a p_align above 4K: aligned ones do not start there, on WSL 2 they do.
--merge is for code that holds no whole block of 2M, while code and constants together do
(inspect: straddles, separate-code). Relinking keeps constants from being executed; this does not.
A file that is in use is replaced by rename: processes that run keep the old one.

-r works in place, without --in-place too. It follows no symbolic link, stays on the
folder's file system, and replaces all names of a file. Below a folder, a file that is
refused is named, and no failure.

--oci puts one new layer of aligned files on each image. Layers, platforms, names and
annotations stay. Tags then name the new images; nothing else counts before index.json is
replaced, in one step. The same image gives the same bytes. With SOURCE_DATE_EPOCH set, no
file of the new layer is younger. -o writes another layout, or archive.

The table's columns: what was done; size and disk in bytes before and after; bytes of text
that 2M leaves can map before and after.

Exit status: 0 if every file is aligned now (or restored, or gains nothing by it),
1 if one was refused or could not be written, 2 for wrong usage. With -r and --oci, 1 if
something could not be read or written.";

/// Options of `wideleaf align`.
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// ELF executables or shared libraries; with -r also folders, with --oci OCI layouts or
    /// archives of images
    #[arg(required = true, value_name = "FILE")]
    pub(super) files: Vec<PathBuf>,
    /// All programs and libraries below folders that gain by it, as containers see them: of a
    /// root file system
    #[arg(short, long, conflicts_with_all = ["output", "oci"])]
    pub(super) recursive: bool,
    /// Put a layer of aligned files on container images: on those of OCI layouts, and of archives
    /// of them or of docker save
    #[arg(long, conflicts_with_all = ["restore", "backup", "all", "always"])]
    pub(super) oci: bool,
    /// With --oci, only images of this platform, as linux/arm64; may be repeated
    #[arg(
        long,
        value_name = "OS/ARCH",
        value_delimiter = ',',
        requires = "oci",
        value_parser = platform,
        hide_short_help = true
    )]
    pub(super) platform: Vec<String>,
    /// Write the result to this file; for several files, into this folder
    #[arg(short, long, value_name = "OUT", conflicts_with = "in_place")]
    pub(super) output: Option<PathBuf>,
    /// Replace each file by the result, with its owner, mode, attributes and times
    #[arg(short, long)]
    pub(super) in_place: bool,
    /// The leaf that every segment is to be congruent at: a power of two from 4K to 1G
    #[arg(long, value_name = "SIZE", default_value = "2M", value_parser = leaf)]
    pub(super) leaf: u64,
    /// Undo it: make files again what they were before
    #[arg(long)]
    pub(super) restore: bool,
    /// With --in-place, keep the original under its name with a suffix
    #[arg(
        long,
        value_name = "SUFFIX",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = ".orig",
        conflicts_with = "output",
        value_parser = suffix
    )]
    pub(super) backup: Option<OsString>,
    /// With --in-place, what to do with a file that has several names (hard links)
    #[arg(
        long,
        value_name = "WHAT",
        default_value = "refuse",
        requires = "in_place",
        hide_short_help = true
    )]
    pub(super) hard_links: Links,
    /// Also align setuid and signed files, files with appended data, and files that strip would
    /// damage afterwards
    #[arg(short, long)]
    pub(super) force: bool,
    /// Rewrite files whose text gains no 2M leaf by it, too
    #[arg(long, conflicts_with_all = ["only_gaining", "restore"])]
    pub(super) all: bool,
    /// Rewrite files whose text wide leaves can map already, too
    #[arg(long, conflicts_with_all = ["only_gaining", "restore"])]
    pub(super) always: bool,
    /// Leave files alone whose text gains no 2M leaf by it, whatever --leaf is (the default for 2M)
    #[arg(long, conflicts_with = "restore", hide_short_help = true)]
    pub(super) only_gaining: bool,
    /// Make code and the constants beside it one segment where that gives whole blocks, as linking
    /// with noseparate-code does; the constants can be executed then
    #[arg(long, conflicts_with_all = ["restore", "oci"])]
    pub(super) merge: bool,
    /// Do not append the note (some 2K) that --restore needs
    #[arg(long, conflicts_with = "restore", hide_short_help = true)]
    pub(super) no_note: bool,
    /// Tell what would be done, and write nothing
    #[arg(short = 'n', long)]
    pub(super) dry_run: bool,
    /// List every segment's offset and p_align before and after
    #[arg(short, long)]
    pub(super) verbose: bool,
    /// Print JSON (docs/tool/align.md has the schema)
    #[arg(short = 'J', long, conflicts_with = "verbose")]
    pub(super) json: bool,
    /// Print sizes in bytes
    #[arg(short, long)]
    pub(super) bytes: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Links {
    /// Leave such files as they are
    Refuse,
    /// Replace all names, which have to be among the folders of those given
    All,
}

fn leaf(text: &str) -> Result<u64, String> {
    let leaf = wideleaf_kit::size::parse(text)?;
    match leaf.is_power_of_two() && (4 << 10..=1 << 30).contains(&leaf) {
        true => Ok(leaf),
        false => Err(format!("`{text}` is no leaf: a power of two from 4K to 1G")),
    }
}

/// `linux/arm64`, or `linux/arm/v7` with a variant.
fn platform(text: &str) -> Result<String, String> {
    let parts: Vec<_> = text.split('/').collect();
    match (2..=3).contains(&parts.len()) && !parts.contains(&"") {
        true => Ok(text.to_owned()),
        false => Err("must be OS/ARCH, as linux/arm64".to_string()),
    }
}

fn suffix(text: &str) -> Result<OsString, String> {
    match text.is_empty() || text.contains('/') {
        true => Err("a suffix is at least one character, and none a slash".to_string()),
        false => Ok(text.into()),
    }
}

impl Args {
    /// Whether anything says where the results go, or that there are none.
    fn has_destination(&self) -> bool {
        self.in_place || self.output.is_some() || self.dry_run || self.recursive || self.oci
    }

    /// Refuses files for whose results no place is named.
    ///
    /// # Errors
    ///
    /// If there are such: the first one, with all the ways to name a place.
    pub(super) fn check_destination(&self) -> Result<()> {
        if self.has_destination() {
            return Ok(());
        }
        for file in &self.files {
            let name = printable_path(file);
            let opened = file.metadata();
            let metadata = opened.with_context(|| format!("align: {name}: cannot open"))?;
            if metadata.is_dir() {
                misuse!(
                    "align: {name}: is a directory: add -r for all programs and libraries below it"
                );
            }
        }
        let first = self
            .files
            .first()
            .map_or(String::new(), |f| printable_path(f));
        misuse!(
            "align: {first}: nothing says where the result goes: add --dry-run to see what would \
             change, -o FILE for a copy, or --in-place to replace it"
        )
    }

    /// How files are aligned.
    pub(super) fn options(&self) -> Options {
        Options {
            leaf: self.leaf,
            force: self.force,
            strippable: !self.force,
            always: self.always,
            merge: self.merge,
            only_gaining: self.only_gaining || (self.leaf == LEAF_2M && !self.all && !self.always),
            // Folders hold root file systems of containers.
            overlay: self.recursive,
            dry_run: self.dry_run,
            note: !self.no_note,
            hard_links: match self.hard_links {
                Links::Refuse => HardLinks::Refuse,
                Links::All => HardLinks::All,
            },
            names: self.files.clone(),
            backup: self.backup.clone(),
        }
    }
}
