// SPDX-License-Identifier: GPL-2.0-only
//! What exists once, whatever the number of vCPUs.

use crate::args::{Args, Referee};
use crate::disk::{Access, Disks};
use crate::event::{Event, Mail};
use crate::ffi::sys;
use crate::inline::Inline;
use crate::ram::Ram;
use crate::touches::Touches;
use crate::turns::{MAX_VCPUS, Turns};
use crate::watch::Watch;
use anyhow::Result;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use wideleaf_kit::arch::Arch;
use wideleaf_tlb::report::Coverage;

/// What exists once.
pub struct Plugin {
    /// What it was loaded with.
    pub args: Args,
    arch: Arch,
    /// More than one vCPU: mail must be looked for.
    pub smp: bool,
    board: *mut sys::qemu_plugin_scoreboard,
    ram: OnceLock<&'static Ram>,
    coverage: Mutex<Vec<Coverage>>,
    /// Which pages are executed from, while the guest wants to know.
    pub touches: Touches,
    events: Mutex<HashSet<&'static Event>>,
    disks: Mutex<Disks>,
    /// Looks on, if asked to.
    pub referee: Option<Watch>,
    mailboxes: [Mailbox; MAX_VCPUS],
    /// Threads that started vCPUs.
    threads: Mutex<HashSet<std::thread::ThreadId>>,
    /// Which vCPU runs, if they take turns.
    pub turns: Option<Turns>,
}

// SAFETY: the scoreboard pointer is only handed to QEMU, whose functions may
// be called from any vCPU thread; everything else is Sync by itself.
unsafe impl Sync for Plugin {}
// SAFETY: as above.
unsafe impl Send for Plugin {}

#[derive(Default)]
struct Mailbox {
    /// Whether there is a vCPU that looks into it.
    read: AtomicBool,
    pending: AtomicBool,
    mail: Mutex<Vec<Mail>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Plugin {
    /// For a guest of `arch` with so many vCPUs at most, and QEMU's `board` of
    /// [`Inline`].
    pub fn new(
        args: Args,
        arch: Arch,
        vcpus: i32,
        board: *mut sys::qemu_plugin_scoreboard,
    ) -> Self {
        let watch = |strict| Watch::new(vcpus.max(1) as usize, &args, arch, strict);
        let referee = match args.referee {
            Referee::Off => None,
            Referee::On => Some(watch(false)),
            Referee::Strict => Some(watch(true)),
        };
        let in_turn = args.turns && vcpus > 1;
        Self {
            referee,
            args,
            arch,
            smp: vcpus > 1,
            board,
            ram: OnceLock::new(),
            coverage: Mutex::default(),
            touches: Touches::default(),
            events: Mutex::default(),
            disks: Mutex::default(),
            mailboxes: std::array::from_fn(|_| Mailbox::default()),
            threads: Mutex::default(),
            turns: in_turn.then(Turns::default),
        }
    }

    /// Instruction set of the guest.
    pub fn arch(&self) -> Arch {
        self.arch
    }

    /// The `u64` at `offset` of the scoreboard's entries.
    pub fn board(&self, offset: usize) -> sys::qemu_plugin_u64 {
        sys::qemu_plugin_u64 {
            score: self.board,
            offset,
        }
    }

    /// What `vcpu`'s code counts by itself. Looked up each time, because QEMU
    /// moves the scoreboard when vCPUs are added.
    #[expect(
        clippy::mut_from_ref,
        reason = "memory of QEMU's, used by one vCPU thread"
    )]
    pub fn inline(&self, vcpu: u32) -> &mut Inline {
        // SAFETY: the entry exists for every initialised vCPU, has the size of
        // Inline, and no reference to it is kept over a call.
        unsafe { &mut *sys::qemu_plugin_scoreboard_find(self.board, vcpu).cast::<Inline>() }
    }

    /// A copy of `event` that lives for ever; equal events share one.
    pub fn intern(&self, event: Event) -> &'static Event {
        let mut events = lock(&self.events);
        if let Some(known) = events.get(&event) {
            return known;
        }
        let new: &'static Event = Box::leak(Box::new(event));
        events.insert(new);
        new
    }

    /// Appends a coverage record.
    pub fn add_coverage(&self, coverage: Coverage) {
        lock(&self.coverage).push(coverage);
    }

    /// Sends `mail` to all vCPUs but `from`.
    pub fn tell_others(&self, from: u32, mail: Mail) {
        if !self.smp {
            return;
        }
        for (i, mailbox) in self.mailboxes.iter().enumerate() {
            if mailbox.read.load(Relaxed) && i != from as usize {
                lock(&mailbox.mail).push(mail);
                mailbox.pending.store(true, Release);
            }
        }
    }

    /// Takes the mail for `vcpu`.
    pub fn mail(&self, vcpu: u32) -> Vec<Mail> {
        let mailbox = &self.mailboxes[vcpu as usize];
        // The look first: at each access, a swap costs.
        if !self.smp || !mailbox.pending.load(Relaxed) || !mailbox.pending.swap(false, Acquire) {
            return Vec::new();
        }
        std::mem::take(&mut *lock(&mailbox.mail))
    }

    /// Opens the mailbox of `vcpu`: from here on it looks into it.
    pub fn open_mailbox(&self, vcpu: usize) {
        self.mailboxes[vcpu].read.store(true, Release);
    }

    /// A vCPU starts in this thread.
    pub fn note_thread(&self) {
        lock(&self.threads).insert(std::thread::current().id());
    }

    /// Does each vCPU have a thread of its own?
    pub fn runs_at_once(&self) -> bool {
        lock(&self.threads).len() > 1
    }

    /// The coverage records so far, which are gone then.
    pub fn take_coverage(&self) -> Vec<Coverage> {
        std::mem::take(&mut *lock(&self.coverage))
    }

    /// An access to what may be a disk's register.
    pub fn disk_access(&self, access: Access) {
        if let Some(&ram) = self.ram.get() {
            lock(&self.disks).access(access, ram);
        }
    }

    /// How often the disk did not answer in time.
    pub fn late_answers(&self) -> u64 {
        lock(&self.disks).late
    }

    /// Guest memory.
    ///
    /// # Errors
    ///
    /// If its file cannot be mapped.
    pub fn ram(&self) -> Result<&'static Ram> {
        if let Some(ram) = self.ram.get() {
            return Ok(ram);
        }
        let ram = Ram::map(&self.args.ram, self.args.ram_base, self.arch)?;
        Ok(self.ram.get_or_init(|| Box::leak(Box::new(ram))))
    }
}
