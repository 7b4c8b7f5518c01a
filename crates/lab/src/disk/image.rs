// SPDX-License-Identifier: GPL-2.0-only
//! The guest's disk: a file system that holds stub files and nothing else,
//! or the files of a folder ([`of_folder`]).
//!
//! Large folios need contiguous file extents as little as they need anything
//! else from the disk, but a fragmented file would be read in more requests,
//! so both file systems are laid out such that each stub file lies in one piece.
//! Blocks are 4K, which every base page size can mount.

use crate::disk::filesystem::Filesystem;
use crate::vm::scratch::{Scratch, Tethered};
use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use wideleaf_bench::file as stubs;
use wideleaf_cache::{Cache, Key};
use wideleaf_kbuild::Arch;

/// Part of the key of every disk: to be raised when the same files give another image.
pub(super) const LAYOUT: &str = "4";

/// The cache's kind of entry that holds an image.
const KIND: &str = "image";

/// The file system's identity, always the same: images of one key are equal.
const UUID: &str = "57494445-4c45-4146-8000-000000000001";

/// Bytes of an ext4 journal where there is one.
const JOURNAL: u64 = 32 << 20;

/// Room of a disk that a guest may fill.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// Bytes.
    pub bytes: u64,
    /// Files, folders and links that it may make. If it may, an ext4 has a journal as well, for
    /// that is how ext4 is used; XFS always has both.
    pub files: u64,
}

impl Room {
    /// None: the guest only reads.
    pub const NONE: Self = Self { bytes: 0, files: 0 };

    /// Room for so many bytes in a few files.
    pub const fn bytes(bytes: u64) -> Self {
        Self { bytes, files: 0 }
    }

    /// Enough for either.
    pub fn or_more(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.max(other.bytes),
            files: self.files.max(other.files),
        }
    }
}

/// What an image holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// The file system.
    pub filesystem: Filesystem,
    /// Whose stubs.
    pub arch: Arch,
    /// Sizes of the stub files in bytes, multiples of 4096, all different.
    pub sizes: Vec<u64>,
    /// Bytes that the guest may write.
    pub room: u64,
}

impl Image {
    /// Where the stub file of this size lies below the mount point.
    pub fn file(size: u64) -> String {
        format!("stubs-{}", wideleaf_kit::size::short(size))
    }

    /// Bytes of all stub files.
    fn total(&self) -> u64 {
        self.sizes.iter().sum()
    }

    /// Finds the image in the cache or makes it; `step` is told when work
    /// begins that takes a while.
    ///
    /// # Errors
    ///
    /// If mkfs is missing or fails, or the disk is full.
    pub fn ensure(&self, cache: &Cache, step: &mut dyn FnMut(&str)) -> Result<PathBuf> {
        let mkfs = self.filesystem.mkfs()?;
        let key = self.key(&mkfs)?;
        if let Some(entry) = cache.get(KIND, &key) {
            return Ok(entry.path("disk.img"));
        }
        // The stub files, then the image with a copy of them.
        cache.require_space(2 * self.total() + (256 << 20), "a disk image")?;
        step(&format!(
            "making a disk: {} of stubs on {}",
            wideleaf_kit::size::long(self.total()),
            self.filesystem.title()
        ));
        let entry = cache.get_or_build(
            KIND,
            &key,
            || (),
            |dir| self.make(&mkfs, cache.root(), &dir.join("disk.img")),
        )?;
        Ok(entry.path("disk.img"))
    }

    fn key(&self, mkfs: &Path) -> Result<Key> {
        let mut content = Vec::new();
        stubs::write(&mut content, self.arch, 4096)?;
        let head: String = content[..64].iter().map(|b| format!("{b:02x}")).collect();
        let version = self.filesystem.version(mkfs)?;
        Ok(Key::new()
            .field("layout", LAYOUT)
            .field("filesystem", self.filesystem.name())
            .field("arch", self.arch.name())
            .field("sizes", format!("{:?}", self.sizes))
            .field("room", self.room.to_string())
            .field("stubs", head)
            .field("mkfs", version))
    }

    fn make(&self, mkfs: &Path, scratch: &Path, out: &Path) -> Result<()> {
        let scratch = Scratch::new(scratch)?;
        let root = scratch.join("root");
        fs::create_dir(&root)?;
        for &size in &self.sizes {
            stubs::create(&root.join(Self::file(size)), self.arch, size)?;
        }
        let room = Room::bytes(self.room);
        of_folder(self.filesystem, mkfs, &root, room, &scratch, out)
    }
}

/// Makes the image `out` with what is in the folder `root`: files, folders and
/// links, owned by root, and `room` for what the guest writes.
/// `scratch` is for files in between.
///
/// # Errors
///
/// If mkfs fails, or there are names that it cannot take.
pub fn of_folder(
    filesystem: Filesystem,
    mkfs: &Path,
    root: &Path,
    room: Room,
    scratch: &Scratch,
    out: &Path,
) -> Result<()> {
    let mut tree = Tree {
        proto: (filesystem == Filesystem::Xfs).then(String::new),
        bytes: room.bytes,
        inodes: room.files,
    };
    open_up(root)?;
    tree.add(root, Path::new(""))
        .with_context(|| format!("cannot read {}", root.display()))?;
    let mut command = match filesystem {
        Filesystem::Xfs => mkfs_xfs(mkfs, root, &scratch.join("proto"), &tree, out)?,
        Filesystem::Ext4 => mke2fs(mkfs, root, &tree, room.files > 0, out)?,
        Filesystem::Erofs => mkfs_erofs(mkfs, root, out),
    };
    finish(&mut command, &scratch.join("log"))
}

/// What a folder holds.
#[derive(Default)]
struct Tree {
    /// As mkfs.xfs takes it (its manual, "PROTOTYPE"), if that is to make the disk.
    proto: Option<String>,
    /// Of the files, and of those that will be written.
    bytes: u64,
    /// Of everything.
    inodes: u64,
}

impl Tree {
    /// Adds what `root` has in its folder `below`.
    fn add(&mut self, root: &Path, below: &Path) -> Result<()> {
        let mut items: Vec<_> = fs::read_dir(root.join(below))?.collect::<std::io::Result<_>>()?;
        items.sort_by_key(fs::DirEntry::file_name);
        for item in items {
            let (name, path) = (item.file_name(), below.join(item.file_name()));
            let kind = item.file_type()?;
            self.inodes += 1;
            if !kind.is_symlink() {
                open_up(&item.path())?;
            }
            if kind.is_dir() {
                self.line(|| Ok(format!("{} d--755 0 0", word(Path::new(&name))?)))?;
                self.add(root, &path)?;
                self.line(|| Ok("$".into()))?;
            } else if kind.is_symlink() {
                let target = fs::read_link(item.path())?;
                self.line(|| {
                    let name = word(Path::new(&name))?;
                    Ok(format!("{name} l--777 0 0 {}", word(&target)?))
                })?;
            } else {
                self.bytes += item.metadata()?.len().next_multiple_of(4096);
                self.line(|| {
                    let name = word(Path::new(&name))?;
                    Ok(format!("{name} ---755 0 0 {}", word(&path)?))
                })?;
            }
        }
        Ok(())
    }

    /// Adds a line to the prototype, if there is to be one.
    fn line(&mut self, line: impl FnOnce() -> Result<String>) -> Result<()> {
        if let Some(proto) = &mut self.proto {
            *proto += &line()?;
            proto.push('\n');
        }
        Ok(())
    }
}

/// The modes on a disk are the same on every file system, and for every umask.
fn open_up(path: &Path) -> Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
        .with_context(|| format!("cannot change {}", path.display()))
}

/// A path as mkfs.xfs reads it from a prototype: below the disk's root, so that it does not matter
/// where the cache is.
fn word(path: &Path) -> Result<&str> {
    path.to_str()
        .filter(|path| !path.contains(char::is_whitespace))
        .with_context(|| {
            format!(
                "{}: mkfs.xfs cannot take a name with blanks: ask for --fs ext4",
                path.display()
            )
        })
}

/// Two allocation groups, as mkfs insists on a second superblock, and equal ones: XFS spreads
/// folders over the groups, each with its files, and mkfs cannot add a name to a folder whose group
/// is full. Unused blocks take no room in the sparse file.
fn mkfs_xfs(mkfs: &Path, root: &Path, proto: &Path, tree: &Tree, out: &Path) -> Result<Command> {
    // mkfs.xfs refuses less than 300M in all; 64M of log, 64M to spare.
    let group = tree.bytes.next_multiple_of(1 << 20).max(192 << 20) + (128 << 20);
    allocate(out, 2 * group)?;
    let proto_lines = tree.proto.as_deref().unwrap_or_default();
    let text = format!("/\n0 0\nd--755 0 0\n{proto_lines}$\n");
    fs::write(proto, text).with_context(|| format!("cannot write {}", proto.display()))?;
    let mut command = Command::new(mkfs);
    command
        .current_dir(root)
        .args(["-q", "-f", "-b", "size=4096", "-l", "agnum=0", "-d"])
        .arg(format!("agsize={group}"))
        .args(["-m", &format!("uuid={UUID}"), "-p"])
        .arg(proto)
        .arg(out);
    Ok(command)
}

/// Nothing between the blocks of a file: bitmaps and inode tables together at
/// the beginning, no backup superblocks; a journal where it is asked for.
fn mke2fs(mkfs: &Path, root: &Path, tree: &Tree, has_journal: bool, out: &Path) -> Result<Command> {
    let (journal, features) = match has_journal {
        true => (JOURNAL, "^resize_inode,sparse_super2"),
        false => (0, "^has_journal,^resize_inode,sparse_super2"),
    };
    let files = tree.bytes.next_multiple_of(1 << 20);
    allocate(out, files + (tree.bytes >> 4) + (64 << 20) + journal)?;
    let inodes = (tree.inodes + 16).max(64).to_string();
    let mut command = Command::new(mkfs);
    command
        .args(["-q", "-F", "-t", "ext4", "-b", "4096", "-m", "0", "-N", &inodes])
        .args(["-O", features, "-G", "64"])
        .args(["-E", &format!("num_backup_sb=0,packed_meta_blocks=1,lazy_itable_init=0,root_owner=0:0,hash_seed={UUID}")])
        .args(["-U", UUID, "-d"])
        .arg(root);
    if has_journal {
        command.arg("-J").arg(format!("size={}", JOURNAL >> 20));
    }
    command.arg(out);
    Ok(command)
}

/// Not compressed: only then its files have large folios.
fn mkfs_erofs(mkfs: &Path, root: &Path, out: &Path) -> Command {
    let mut command = Command::new(mkfs);
    command
        .args(["--quiet", "--all-root", "-x-1", "-T0", &format!("-U{UUID}")])
        .arg(out)
        .arg(root);
    command
}

fn allocate(out: &Path, size: u64) -> Result<()> {
    File::create(out)
        .and_then(|file| file.set_len(size))
        .with_context(|| format!("cannot create {}", out.display()))
}

/// Runs a mkfs to its end.
fn finish(command: &mut Command, log: &Path) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let out = File::create(log)?;
    command
        .stdin(Stdio::null())
        .stdout(out.try_clone()?)
        .stderr(out);
    let mut child = Tethered::spawn(command).with_context(|| format!("cannot run {name}"))?;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    if !status.success() {
        let text = fs::read_to_string(log).unwrap_or_default();
        bail!("{name} failed ({status}): {}", text.trim());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache() -> (tempfile::TempDir, Cache) {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path()).unwrap();
        (dir, cache)
    }

    fn image(filesystem: Filesystem) -> Image {
        Image {
            filesystem,
            arch: Arch::Arm64,
            sizes: vec![8 << 20, 64 << 10],
            room: 0,
        }
    }

    /// The offset at which the whole stub file lies in the image, unbroken.
    fn offset_of_stubs(path: &Path, size: u64) -> Option<usize> {
        let mut wanted = Vec::new();
        stubs::write(&mut wanted, Arch::Arm64, size).unwrap();
        let disk = fs::read(path).unwrap();
        (0..=disk.len() - wanted.len())
            .step_by(4096)
            .find(|&at| disk[at..].starts_with(&wanted))
    }

    #[test]
    fn xfs_holds_each_file_in_one_piece_also_where_the_path_has_a_blank() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path().join("with a blank")).unwrap();
        let image = image(Filesystem::Xfs);
        let path = image.ensure(&cache, &mut |_| ()).unwrap();
        for size in image.sizes {
            assert!(offset_of_stubs(&path, size).is_some());
        }
    }

    #[test]
    fn ext4_and_erofs_hold_each_file_in_one_piece() {
        for filesystem in [Filesystem::Ext4, Filesystem::Erofs] {
            let (_dir, cache) = cache();
            let image = image(filesystem);
            let path = image.ensure(&cache, &mut |_| ()).unwrap();
            for size in image.sizes {
                assert!(offset_of_stubs(&path, size).is_some(), "{filesystem}");
            }
        }
    }

    #[test]
    fn modes_are_those_of_no_umask() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        fs::create_dir_all(root.join("below")).unwrap();
        fs::write(root.join("below/file"), "").unwrap();
        std::os::unix::fs::symlink("nowhere", root.join("link")).unwrap();
        for name in ["below/file", "below", ""] {
            let private = fs::Permissions::from_mode(0o700);
            fs::set_permissions(root.join(name), private).unwrap();
        }
        let scratch = Scratch::new(dir.path()).unwrap();
        let (mkfs, out) = (Filesystem::Ext4.mkfs().unwrap(), dir.path().join("disk"));
        of_folder(Filesystem::Ext4, &mkfs, &root, Room::NONE, &scratch, &out).unwrap();
        for name in ["below/file", "below", ""] {
            let mode = fs::metadata(root.join(name)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o755, "{name}");
        }
    }

    /// A folder in a group that its files fill, and that needs more blocks for their names.
    #[test]
    fn xfs_holds_folders_of_many_files_beside_large_ones() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        for folder in ["one", "other"] {
            let folder = root.join(folder);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("0"), vec![1; 31 << 20]).unwrap();
            for number in 100..300 {
                fs::write(folder.join(format!("{number}{:x>200}", "")), "x").unwrap();
            }
        }
        let scratch = Scratch::new(dir.path()).unwrap();
        let (mkfs, out) = (Filesystem::Xfs.mkfs().unwrap(), dir.path().join("disk"));
        of_folder(Filesystem::Xfs, &mkfs, &root, Room::NONE, &scratch, &out).unwrap();
    }

    #[test]
    fn only_xfs_refuses_a_name_with_a_blank() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        fs::create_dir(&root).unwrap();
        fs::write(root.join("a b"), "").unwrap();
        for filesystem in Filesystem::ALL {
            let scratch = Scratch::new(dir.path()).unwrap();
            let (mkfs, out) = (filesystem.mkfs().unwrap(), dir.path().join("disk"));
            let made = of_folder(filesystem, &mkfs, &root, Room::NONE, &scratch, &out);
            match filesystem {
                Filesystem::Xfs => {
                    let error = format!("{:#}", made.unwrap_err());
                    assert!(error.contains("a b: mkfs.xfs cannot"), "{error}");
                }
                _ => made.unwrap(),
            }
        }
    }

    #[test]
    fn made_once_and_the_key_tells_images_apart() {
        let (_dir, cache) = cache();
        let mut steps = 0;
        let first = image(Filesystem::Ext4);
        first.ensure(&cache, &mut |_| steps += 1).unwrap();
        first.ensure(&cache, &mut |_| steps += 1).unwrap();
        assert_eq!(steps, 1);
        let other = Image {
            arch: Arch::X86_64,
            ..first
        };
        other.ensure(&cache, &mut |_| steps += 1).unwrap();
        assert_eq!(steps, 2);
        let left = fs::read_dir(cache.root()).unwrap().flatten();
        let left: Vec<_> = left.map(|item| item.file_name()).collect();
        assert!(
            !left
                .iter()
                .any(|name| name.to_string_lossy().starts_with("wideleaf-lab")),
            "{left:?}"
        );
    }

    #[test]
    fn a_disk_too_large_is_refused_before_any_work() {
        let (_dir, cache) = cache();
        let huge = Image {
            sizes: vec![1 << 60],
            ..image(Filesystem::Xfs)
        };
        let error = huge
            .ensure(&cache, &mut |_| panic!("work began"))
            .unwrap_err();
        assert!(error.to_string().contains("MiB free"), "{error}");
    }

    #[test]
    fn mkfs_failure_shows_its_words() {
        let log = tempfile::NamedTempFile::new().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo no such option >&2; exit 3"]);
        let error = finish(&mut command, log.path()).unwrap_err().to_string();
        assert!(error.contains("no such option"), "{error}");
    }
}
