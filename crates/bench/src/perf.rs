// SPDX-License-Identifier: GPL-2.0-only
//! The CPU's own counters, where it has any.
//!
//! Each event is opened on its own, not as a group: a PMU that lacks one still counts the
//! others. Four events fit the counters of every PMU in use; if the kernel had to multiplex
//! all the same, the figure is withheld, not extrapolated.

use crate::report::Figure;
use nix::errno::Errno;
use perf_event::events::{Cache, CacheId, CacheOp, CacheResult, Hardware, Raw};
use perf_event::{Builder, Counter};
use procfs::Current;
use std::collections::BTreeMap;
use std::io;

/// Events of this thread in user space, stopped until [`Events::start`].
pub struct Events(Vec<(&'static str, Result<Counter, Figure>)>);

impl Events {
    /// None at all.
    pub fn none() -> Self {
        Self(Vec::new())
    }

    /// All that this machine may have.
    pub fn open() -> Self {
        let itlb = |result| Cache {
            which: CacheId::ITLB,
            operation: CacheOp::READ,
            result,
        };
        let build = |builder: Builder| builder.build().map_err(why);
        Self(vec![
            ("instructions", build(Builder::new(Hardware::INSTRUCTIONS))),
            ("itlb-loads", build(Builder::new(itlb(CacheResult::ACCESS)))),
            ("itlb-misses", build(Builder::new(itlb(CacheResult::MISS)))),
            (
                "itlb-walks",
                walk_event().and_then(|config| build(Builder::new(Raw::new(config)))),
            ),
        ])
    }

    /// Those of the processes that this thread starts from now on: what wide text saves.
    pub fn of_children() -> Self {
        let build = |mut builder: Builder| builder.inherit(true).build().map_err(why);
        let misses = Cache {
            which: CacheId::ITLB,
            operation: CacheOp::READ,
            result: CacheResult::MISS,
        };
        let raw = |event: Result<u64, Figure>| event.and_then(|e| build(Builder::new(Raw::new(e))));
        Self(vec![
            ("itlb-misses", build(Builder::new(misses))),
            ("itlb-walks", raw(walk_event())),
            ("itlb-walk-cycles", raw(walk_cycles_event())),
        ])
    }

    /// Begins to count.
    pub fn start(&mut self) {
        self.each(Counter::enable);
    }

    /// Ends counting.
    pub fn stop(&mut self) {
        self.each(Counter::disable);
    }

    fn each(&mut self, act: impl Fn(&mut Counter) -> io::Result<()>) {
        for (_, event) in &mut self.0 {
            if let Ok(counter) = event
                && let Err(error) = act(counter)
            {
                *event = Err(why(error));
            }
        }
    }

    /// The counts by name.
    pub fn read(self) -> BTreeMap<String, Figure> {
        let read = |event: Result<Counter, Figure>| match event {
            Ok(mut counter) => counter.read_count_and_time().map_or_else(why, |c| {
                if c.time_running < c.time_enabled {
                    Figure::missing("the PMU was shared and counted only part of the time")
                } else {
                    Figure::Value(c.count)
                }
            }),
            Err(figure) => figure,
        };
        self.0
            .into_iter()
            .map(|(name, event)| (name.to_owned(), read(event)))
            .collect()
    }
}

/// perf_event_open's errno, and what it means.
fn why(error: io::Error) -> Figure {
    let errno = Errno::from_raw(error.raw_os_error().unwrap_or_default());
    let hint = match errno {
        Errno::ENOENT | Errno::ENODEV | Errno::EOPNOTSUPP | Errno::EINVAL => {
            "this CPU or virtual machine has no such event"
        }
        Errno::EACCES | Errno::EPERM => "see /proc/sys/kernel/perf_event_paranoid",
        Errno::ENOSYS => "kernel without perf events",
        _ => errno.desc(),
    };
    Figure::missing(format!("{errno:?}, {hint}"))
}

/// Raw event code of page walks for instructions in user space.
fn walk_event() -> Result<u64, Figure> {
    // Arm ARM (DDI 0487) D14.11.2, common event 0x0035: ITLB_WALK.
    if cfg!(target_arch = "aarch64") {
        return Ok(0x35);
    }
    let cpu = procfs::CpuInfo::current().map_err(Figure::missing)?;
    let family = cpu.fields.get("cpu family").and_then(|f| f.parse().ok());
    match (cpu.vendor_id(0), family) {
        // Intel perfmon, Haswell to Sapphire Rapids: ITLB_MISSES.WALK_COMPLETED.
        (Some("GenuineIntel"), Some(6)) => Ok(0x0e85),
        // AMD PPR, PMCx085 L1 ITLB miss, L2 ITLB miss: 4K, 2M, 1G and, since Zen 3, coalesced.
        (Some("AuthenticAMD"), Some(0x17)) => Ok(0x0785),
        (Some("AuthenticAMD"), Some(0x19..)) => Ok(0x0f85),
        (vendor, family) => Err(Figure::missing(format!(
            "no event known for vendor {}, family {}",
            vendor.unwrap_or("?"),
            family.map_or("?".into(), |f: u32| f.to_string())
        ))),
    }
}

/// Raw event code of cycles in which a page walk for instructions is under way.
fn walk_cycles_event() -> Result<u64, Figure> {
    let cpu = procfs::CpuInfo::current().map_err(Figure::missing)?;
    match (cfg!(target_arch = "x86_64"), cpu.vendor_id(0)) {
        // Intel perfmon, Haswell to Sapphire Rapids: ITLB_MISSES.WALK_DURATION, WALK_PENDING.
        (true, Some("GenuineIntel")) => Ok(0x1085),
        _ => Err(Figure::missing("no event known for this CPU")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_has_a_count_or_a_reason() {
        let mut events = Events::open();
        events.start();
        let sum: u64 = std::hint::black_box(0..100_000u64).sum();
        std::hint::black_box(sum);
        events.stop();
        let counts = events.read();
        assert_eq!(counts.len(), 4);
        match &counts["instructions"] {
            Figure::Value(count) => assert!(*count > 10_000, "{count}"),
            Figure::Missing { not_available } => assert!(not_available.len() > 10),
        }
    }

    #[test]
    fn an_errno_becomes_words() {
        let text = why(io::Error::from_raw_os_error(libc::ENOENT)).to_string();
        assert!(
            text.contains("ENOENT") && text.contains("no such event"),
            "{text}"
        );
        let text = why(io::Error::from_raw_os_error(libc::EACCES)).to_string();
        assert!(text.contains("perf_event_paranoid"), "{text}");
    }
}
