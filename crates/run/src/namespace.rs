// SPDX-License-Identifier: GPL-2.0-only
//! Copies on a huge tmpfs over the originals, in a mount namespace of its own,
//! with a user namespace around it where that needs no root.
//!
//! A child makes both namespaces and everything in them, and says how that
//! went; only if it went well are they entered. So a failure at any point
//! leaves the process that is to become the program as it was, and whatever
//! kills either of the two leaves nothing: mounts end with their namespace.

use crate::Refused;
use crate::program::Image;
use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Pid, fork, getegid, geteuid, getgid, getpid, getppid, getuid};
use std::fs::{File, Permissions};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use wideleaf_align::copy;
use wideleaf_collapse::{Blocks, make_blocks};
use wideleaf_procmap::{Reader, Scope, Select};

/// Where the tmpfs is while it is filled: any folder will do, as nobody else
/// sees it.
const PLACES: [&str; 5] = ["/tmp", "/mnt", "/run", "/var/tmp", "/dev/shm"];

/// Sizes in bytes.
#[derive(Clone, Copy)]
pub struct Sizes {
    pub page: u64,
    pub pmd: u64,
    /// What the copies may take.
    pub limit: u64,
    /// Whether the kernel may reclaim and compact for them.
    pub reclaim: bool,
}

/// What came of it.
pub struct Entered {
    /// Bytes of text that PMDs map when touched, measured on the copies.
    pub wide: u64,
    /// A user namespace was needed.
    pub user: bool,
}

/// Enters namespaces in which copies of `images` lie over the originals. This
/// must be the process's only thread.
///
/// # Errors
///
/// Why not; then nothing has changed.
pub fn enter(images: &[Image], sizes: Sizes) -> Result<Entered, Refused> {
    if getuid() != geteuid() || getgid() != getegid() {
        return Err(Refused::Users);
    }
    let (mut answer, to_parent) = std::io::pipe().map_err(Refused::io("no pipe"))?;
    let (until, go_on) = std::io::pipe().map_err(Refused::io("no pipe"))?;
    let parent = getpid();
    // SAFETY: there is one thread, so the child may do anything.
    match unsafe { fork() }.map_err(Refused::call("fork"))? {
        ForkResult::Child => {
            drop((answer, go_on));
            end_with(parent);
            child(images, sizes, to_parent, until)
        }
        ForkResult::Parent { child } => {
            drop((to_parent, until));
            let mut text = String::new();
            let heard = answer.read_to_string(&mut text);
            let result = heard
                .map_err(Refused::io("pipe"))
                .and_then(|_| join(child, &text));
            // The child waits for this to close.
            drop(go_on);
            let _ = waitpid(child, None);
            result
        }
    }
}

/// Has the kernel end this process with its parent; what it has copied goes with it.
fn end_with(parent: Pid) {
    let _ = set_pdeathsig(Signal::SIGKILL);
    if getppid() != parent {
        // SAFETY: ends this process without what the parent has registered.
        unsafe { libc::_exit(0) }
    }
}

/// Enters the child's namespaces if it says that all is well.
fn join(child: Pid, answer: &str) -> Result<Entered, Refused> {
    let mut words = answer.splitn(3, ' ');
    let (wide, user) = match (words.next(), words.next(), words.next()) {
        (Some("ok"), Some(wide), Some(user)) => (wide.parse().unwrap_or(0), user == "user"),
        _ if answer.is_empty() => return Err(Refused::Died),
        _ => return Err(Refused::Prepare(answer.to_owned())),
    };
    let namespace = |name: &str| {
        let path = format!("/proc/{child}/ns/{name}");
        File::open(&path).map_err(Refused::io(path.clone()))
    };
    // Both are open before the first is entered: from inside, /proc may answer
    // differently.
    let mounts = namespace("mnt")?;
    let users = user.then(|| namespace("user")).transpose()?;
    let here = Here::note()?;
    if let Some(users) = users {
        setns(users, CloneFlags::CLONE_NEWUSER).map_err(Refused::call("setns"))?;
    }
    setns(mounts, CloneFlags::CLONE_NEWNS).map_err(Refused::call("setns"))?;
    here.back();
    Ok(Entered { wide, user })
}

/// The working folder, which entering a mount namespace changes to its root.
struct Here {
    path: PathBuf,
    folder: File,
}

impl Here {
    fn note() -> Result<Self, Refused> {
        let path = std::env::current_dir().map_err(Refused::io("working folder"))?;
        let folder = open(".", OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty());
        let folder = folder.map_err(Refused::call("working folder"))?;
        let folder = File::from(folder);
        Ok(Self { path, folder })
    }

    /// By its path, which leads to what is mounted here; the child has tried
    /// that. By descriptor it is the same folder as seen from outside.
    fn back(&self) {
        if std::env::set_current_dir(&self.path).is_err() {
            let _ = nix::unistd::fchdir(&self.folder);
        }
    }
}

/// Enters the namespace that this process is in, which leads to its root, and
/// goes back to the working folder: what the parent will do has to end where it
/// is now, and does not in a chroot.
fn rehearse() -> Result<(), Refused> {
    use std::os::unix::fs::MetadataExt;
    let id = |path: &str| {
        let metadata = std::fs::metadata(path).map_err(Refused::io(path))?;
        Ok::<_, Refused>((metadata.dev(), metadata.ino()))
    };
    let (root, folder) = (id("/")?, id(".")?);
    let here = Here::note()?;
    let own = "/proc/self/ns/mnt";
    let own = File::open(own).map_err(Refused::io(own))?;
    setns(own, CloneFlags::CLONE_NEWNS).map_err(Refused::call("setns"))?;
    if id("/")? != root {
        return Err(Refused::Chroot);
    }
    std::env::set_current_dir(&here.path).map_err(Refused::io(here.path.display().to_string()))?;
    match id(".")? == folder {
        true => Ok(()),
        false => Err(Refused::FolderMoved),
    }
}

fn child(
    images: &[Image],
    sizes: Sizes,
    mut to_parent: std::io::PipeWriter,
    mut until: std::io::PipeReader,
) -> ! {
    let text = match prepare(images, sizes) {
        Ok((wide, user)) => format!("ok {wide} {}", if user { "user" } else { "-" }),
        Err(why) => why.to_string(),
    };
    let _ = to_parent.write_all(text.as_bytes());
    drop(to_parent);
    let _ = until.read(&mut [0]);
    // SAFETY: ends this process without what the parent has registered.
    unsafe { libc::_exit(0) }
}

fn prepare(images: &[Image], sizes: Sizes) -> Result<(u64, bool), Refused> {
    let place = place(images)?;
    let user = namespaces()?;
    // The kernel forgets the signal where credentials change (prctl(2)).
    let _ = set_pdeathsig(Signal::SIGKILL);
    let none: Option<&Path> = None;
    // What is mounted here must not appear outside; what is mounted outside may
    // appear here.
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_SLAVE, none)
        .map_err(Refused::call("cannot make mounts private"))?;
    // Opened in this namespace, while all paths still lead to the originals.
    let originals: Result<Vec<File>, Refused> = images
        .iter()
        .map(|image| {
            open(&image.path, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty())
                .map(File::from)
                .map_err(Refused::call(image.path.display().to_string()))
        })
        .collect();
    let originals = originals?;
    let options = format!("huge=always,mode=755,size={}", sizes.limit);
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    mount(
        Some("wideleaf"),
        place,
        Some("tmpfs"),
        flags,
        Some(options.as_str()),
    )
    .map_err(Refused::call("cannot mount a tmpfs with huge=always"))?;
    if sizes.reclaim {
        let take = images.iter().map(|i| i.size.next_multiple_of(sizes.pmd));
        make_blocks(take.sum(), sizes.pmd);
    }
    let mut wide = 0;
    for (number, (image, original)) in images.iter().zip(&originals).enumerate() {
        let copy = place.join(number.to_string());
        let name = || image.path.display().to_string();
        fill(image, &copy, sizes.pmd).map_err(|why| Refused::File { path: name(), why })?;
        wide += measure(&copy, sizes)?;
        over(&copy, original).map_err(Refused::call(format!("{}: cannot mount", name())))?;
    }
    umount2(place, MntFlags::MNT_DETACH).map_err(Refused::call("cannot tidy up"))?;
    if wide == 0 {
        return Err(Refused::NoHugeFolios);
    }
    rehearse()?;
    Ok((wide, user))
}

/// A folder that hides none of the files.
fn place(images: &[Image]) -> Result<&'static Path, Refused> {
    PLACES
        .iter()
        .map(Path::new)
        .find(|place| place.is_dir() && images.iter().all(|image| !image.path.starts_with(place)))
        .ok_or_else(|| Refused::NoPlace(PLACES.join(", ")))
}

/// A mount namespace; whether it took a user namespace.
fn namespaces() -> Result<bool, Refused> {
    match unshare(CloneFlags::CLONE_NEWNS) {
        Ok(()) => return Ok(false),
        Err(Errno::EPERM) => {}
        Err(error) => return Err(Refused::call("no mount namespace")(error)),
    }
    let (user, group) = (geteuid(), getegid());
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS)
        .map_err(Refused::call("no user namespace"))?;
    // Everybody stays who he is. Groups can be mapped only if none can be
    // dropped (user_namespaces(7)).
    let write = |name: &str, text: String| {
        let path = format!("/proc/self/{name}");
        std::fs::write(&path, text).map_err(Refused::io(path.clone()))
    };
    write("setgroups", "deny".to_owned())?;
    write("gid_map", format!("{group} {group} 1"))?;
    write("uid_map", format!("{user} {user} 1"))?;
    Ok(true)
}

/// Makes the copy: as it is if its text can be mapped wide, else aligned.
fn fill(image: &Image, copy: &Path, leaf: u64) -> Result<(), String> {
    match image.gain() {
        0 => std::fs::copy(&image.path, copy)
            .map(drop)
            .map_err(|e| e.to_string())?,
        _ => aligned(&image.path, copy, leaf)?,
    }
    let open = File::open(copy).map_err(|e| e.to_string())?;
    let time = image.path.metadata().and_then(|m| m.modified());
    // Make and its kin look at it.
    let _ = time.and_then(|time| open.set_modified(time));
    std::fs::set_permissions(copy, Permissions::from_mode(image.mode)).map_err(|e| e.to_string())
}

/// A copy with other offsets.
fn aligned(from: &Path, to: &Path, leaf: u64) -> Result<(), String> {
    let open = File::open(from).map_err(|e| e.to_string())?;
    let mut new = File::create_new(to).map_err(|e| e.to_string())?;
    copy(&open, &mut new, leaf).map_err(|why| format!("cannot be aligned: {why}"))
}

/// Binds a copy over the original, which nobody can write to there.
fn over(copy: &Path, original: &File) -> nix::Result<()> {
    let target = PathBuf::from(format!("/proc/self/fd/{}", original.as_raw_fd()));
    let none: Option<&Path> = None;
    mount(Some(copy), &target, none, MsFlags::MS_BIND, none)
}

/// Maps the text of a copy as a loader would, touches each block and counts
/// what PMDs map: one fault for each 2M. In bytes.
fn measure(copy: &Path, sizes: Sizes) -> Result<u64, Refused> {
    let image = Image::read(copy)?;
    let file = File::open(copy).map_err(Refused::io("cannot be measured"))?;
    let loaded = image.elf.as_loaded();
    let texts = loaded.segments.iter().filter(|s| s.is_text());
    let mut wide = 0;
    for text in texts.filter(|s| s.congruence().holds(sizes.pmd)) {
        let (start, end) = text.mapped(sizes.page);
        let first = start.next_multiple_of(sizes.pmd);
        let last = end / sizes.pmd * sizes.pmd;
        if first < last {
            let offset = text.offset.wrapping_add(first.wrapping_sub(text.address));
            wide += touched(&file, offset, last - first, sizes)
                .map_err(Refused::call("cannot be measured"))?;
        }
    }
    Ok(wide)
}

/// Bytes that PMDs map of `length` bytes of a file, after each block was read.
fn touched(file: &File, offset: u64, length: u64, sizes: Sizes) -> Result<u64, Errno> {
    let blocks = Blocks::of_text(file, offset, length, sizes.pmd)?;
    blocks.touch();
    let mut reader = Reader::new("/proc".as_ref(), sizes.page, sizes.pmd, &[]);
    let own = std::process::id();
    let process = reader.read(own, Scope::Text, &Select::default(), &mut |_| {});
    let mappings = process.ok().flatten().map(|process| process.mappings);
    let wide = mappings
        .iter()
        .flatten()
        .filter(|mapping| mapping.vma.start == blocks.address())
        .filter_map(|mapping| mapping.coverage.leaves.get(&sizes.pmd))
        .sum();
    Ok(wide)
}
