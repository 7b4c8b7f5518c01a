// SPDX-License-Identifier: GPL-2.0-only
//! Has a virtio disk answer before the guest's next instruction.
//!
//! QEMU reads the disk in other threads while the guest runs on. Whether the
//! data is there before the guest's kernel has put the reader to sleep decides
//! on two context switches and the idle loop, some thousands of instructions
//! per read, and the host's load decides which it is. So the guest's thread
//! stops behind the store that rings the disk's doorbell until the request is
//! complete and its interrupt is pending. Virtual time, which goes by
//! instructions, stops as well: to the guest the disk takes no time.
//!
//! QEMU makes the store with its big lock held and calls the plugin without,
//! so the other threads can do their work meanwhile.
//!
//! Registers and rings are those of the Virtual I/O Device Specification 1.2,
//! 4.2.2 (MMIO, not legacy), 2.7.6 and 2.7.8 (split virtqueues).

use crate::ram::Ram;
use std::collections::HashMap;
use std::time::{Duration, Instant};
use wideleaf_tlb::walk::PhysMem;

const DEVICE_ID: u64 = 0x008;
const QUEUE_SEL: u64 = 0x030;
const QUEUE_NOTIFY: u64 = 0x050;
const QUEUE_DRIVER_LOW: u64 = 0x090;
const QUEUE_DRIVER_HIGH: u64 = 0x094;
const QUEUE_DEVICE_LOW: u64 = 0x0a0;
const QUEUE_DEVICE_HIGH: u64 = 0x0a4;

/// Device ID of a block device (same specification, 5).
const BLOCK: u64 = 2;

/// Bytes of registers per device, on arm64's virt and on microvm alike. Each
/// is naturally aligned.
const SPAN: u64 = 0x200;

/// Registers that matter, a bit per 32-bit word.
const WATCHED: u64 = bit(DEVICE_ID)
    | bit(QUEUE_SEL)
    | bit(QUEUE_NOTIFY)
    | bit(QUEUE_DRIVER_LOW)
    | bit(QUEUE_DRIVER_HIGH)
    | bit(QUEUE_DEVICE_LOW)
    | bit(QUEUE_DEVICE_HIGH);

const fn bit(register: u64) -> u64 {
    1 << (register / 4)
}

/// Offset of `idx` in both rings.
const INDEX: u64 = 2;

/// How long one request may take. A disk that is slower only makes the counts
/// repeat less well, which is for the report to say.
const PATIENCE: Duration = Duration::from_secs(2);

/// Between two looks. Longer than it takes QEMU to answer from the host's page
/// cache would only make the run slower.
const PAUSE: Duration = Duration::from_micros(20);

/// Can `va` be that of a watched register? Cheap, for every access is asked;
/// one in eighteen passes.
#[inline]
pub fn may_be_register(va: u64) -> bool {
    let offset = va % SPAN;
    offset < 0x100 && offset.is_multiple_of(4) && WATCHED >> (offset / 4) & 1 != 0
}

/// An access to a device's register that has completed.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    /// Physical address.
    pub pa: u64,
    /// What was loaded or stored.
    pub value: u64,
    /// Whether it was stored.
    pub store: bool,
}

/// Where a queue's two rings are, as physical addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queue {
    /// What the driver makes available.
    available: u64,
    /// What the device has used.
    used: u64,
}

#[derive(Debug, Default)]
struct Device {
    block: bool,
    selected: u64,
    queues: HashMap<u64, Queue>,
}

/// The guest's virtio devices, as its driver set them up.
#[derive(Debug, Default)]
pub struct Disks {
    devices: HashMap<u64, Device>,
    /// Requests that were not waited for to their end.
    pub late: u64,
}

impl Disks {
    /// Takes note of an access; waits if it rang a disk's doorbell.
    pub fn access(&mut self, access: Access, ram: &'static Ram) {
        if let Some(queue) = self.observe(access) {
            self.late += u64::from(!queue.complete(ram));
        }
    }

    /// Takes note of an access. Returns the queue whose doorbell it rang, if a
    /// disk's.
    fn observe(&mut self, Access { pa, value, store }: Access) -> Option<Queue> {
        let device = self.devices.entry(pa - pa % SPAN).or_default();
        match (pa % SPAN, store) {
            (DEVICE_ID, false) => device.block = value == BLOCK,
            (QUEUE_SEL, true) => device.selected = value,
            (QUEUE_NOTIFY, true) if device.block => return device.queues.get(&value).copied(),
            (QUEUE_DRIVER_LOW, true) => set_low(&mut device.queue().available, value),
            (QUEUE_DRIVER_HIGH, true) => set_high(&mut device.queue().available, value),
            (QUEUE_DEVICE_LOW, true) => set_low(&mut device.queue().used, value),
            (QUEUE_DEVICE_HIGH, true) => set_high(&mut device.queue().used, value),
            _ => {}
        }
        None
    }
}

impl Device {
    fn queue(&mut self) -> &mut Queue {
        self.queues.entry(self.selected).or_default()
    }
}

fn set_low(word: &mut u64, value: u64) {
    *word = *word >> 32 << 32 | value & 0xffff_ffff;
}

fn set_high(word: &mut u64, value: u64) {
    *word = *word & 0xffff_ffff | value << 32;
}

impl Queue {
    /// Waits until all that was asked for is answered. False if it took too
    /// long.
    fn complete(&self, ram: &'static Ram) -> bool {
        let start = Instant::now();
        while !(self.is_answered(&ram) && main_thread_rests()) {
            if start.elapsed() > PATIENCE {
                return false;
            }
            std::thread::sleep(PAUSE);
        }
        true
    }

    /// Rings outside of RAM have nothing to wait for.
    fn is_answered(&self, ram: &impl PhysMem) -> bool {
        index(ram, self.available) == index(ram, self.used)
    }
}

fn index(ram: &impl PhysMem, ring: u64) -> Option<u16> {
    let at = ring + INDEX;
    let word = ram.read_u64(at & !7)?;
    Some((word >> (at % 8 * 8)) as u16)
}

/// Does QEMU's main thread wait for something to do? It answers requests, and
/// raises the interrupt a moment after the guest can see the answer, before it
/// polls again. Where Linux does not tell, a pause has to do.
fn main_thread_rests() -> bool {
    let path = format!("/proc/self/task/{}/syscall", std::process::id());
    match std::fs::read_to_string(path) {
        Ok(text) => text.split(' ').next() == Some(PPOLL),
        Err(_) => {
            std::thread::sleep(PAUSE);
            true
        }
    }
}

/// The number of ppoll(2) on the host.
#[cfg(target_arch = "x86_64")]
const PPOLL: &str = "271";
/// The number of ppoll(2) on the host.
#[cfg(not(target_arch = "x86_64"))]
const PPOLL: &str = "73";

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: u64 = 0x0a00_3e00;

    fn store(offset: u64, value: u64) -> Access {
        let pa = BASE + offset;
        Access {
            pa,
            value,
            store: true,
        }
    }

    fn device(id: u64) -> Disks {
        let mut disks = Disks::default();
        let probe = Access {
            store: false,
            ..store(DEVICE_ID, id)
        };
        let set_up = [
            store(QUEUE_SEL, 0),
            store(QUEUE_DRIVER_LOW, 0x4000_1000),
            store(QUEUE_DRIVER_HIGH, 0),
            store(QUEUE_DEVICE_LOW, 0x4000_2000),
            store(QUEUE_DEVICE_HIGH, 0),
            store(QUEUE_SEL, 1),
            store(QUEUE_DRIVER_LOW, 0x8000_0000),
            store(QUEUE_DRIVER_HIGH, 3),
        ];
        for access in [probe].into_iter().chain(set_up) {
            assert_eq!(disks.observe(access), None);
        }
        disks
    }

    #[test]
    fn the_doorbell_of_a_disk_names_its_queue() {
        let mut disks = device(BLOCK);
        let expected = Queue {
            available: 0x4000_1000,
            used: 0x4000_2000,
        };
        assert_eq!(disks.observe(store(QUEUE_NOTIFY, 0)), Some(expected));
        let second = disks.observe(store(QUEUE_NOTIFY, 1)).unwrap();
        assert_eq!(second.available, 0x3_8000_0000);
        assert_eq!(disks.observe(store(QUEUE_NOTIFY, 2)), None);
    }

    #[test]
    fn other_devices_may_never_answer_and_are_not_waited_for() {
        const CONSOLE: u64 = 3;
        assert_eq!(device(CONSOLE).observe(store(QUEUE_NOTIFY, 0)), None);
        let mut disks = device(BLOCK);
        let neighbour = Access {
            pa: BASE + SPAN + QUEUE_NOTIFY,
            value: 0,
            store: true,
        };
        assert_eq!(disks.observe(neighbour), None);
    }

    #[test]
    fn only_watched_registers_are_asked_for() {
        for offset in [DEVICE_ID, QUEUE_SEL, QUEUE_NOTIFY, QUEUE_DEVICE_HIGH] {
            assert!(may_be_register(0xffff_8000_8000_3e00 + offset));
        }
        for offset in [0, 0x51, 0x60, 0x100 + QUEUE_SEL, 0x1fc] {
            assert!(!may_be_register(0xffff_8000_8000_3e00 + offset));
        }
    }

    struct Words(Vec<u64>);

    impl PhysMem for Words {
        fn read_u64(&self, pa: u64) -> Option<u64> {
            assert_eq!(pa % 8, 0);
            self.0.get(pa as usize / 8).copied()
        }
    }

    #[test]
    fn a_queue_is_answered_when_its_indices_agree() {
        let ring = |index: u64| 0xffff_0000_ffff | index << 16;
        let queue = |used| Queue { available: 0, used };
        let ram = Words(vec![ring(7), ring(6), ring(7) << 32]);
        assert!(!queue(8).is_answered(&ram));
        assert!(queue(20).is_answered(&ram));
        let outside = Queue {
            available: 0x1000,
            used: 0x2000,
        };
        assert!(outside.is_answered(&ram));
    }
}
