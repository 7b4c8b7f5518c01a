// SPDX-License-Identifier: GPL-2.0-only
//! Who besides changes of permissions reads or changes the tables of the linear map meets those
//! changes and the collapse, one after the other.

use super::hibernate::Swap;
use super::{NAME, Task, cpus, hotplug};
use anyhow::{Context, Result, ensure};
use nix::errno::Errno;
use std::fs;
use std::time::{Duration, Instant};
use wideleaf_guest::kit::linear;
use wideleaf_guest::kit::linear::LinearReport;
use wideleaf_guest::kit::linear_crew::{Changes, Owners, settle};
use wideleaf_guest::place::Place;
use wideleaf_guest::port::Port;
use wideleaf_guest::protocol::Message;
use wideleaf_guest::work::Work;

/// The job's guest side.
pub struct LinearOthers;

/// The registry's entry.
pub const WORK: LinearOthers = LinearOthers;

impl Work for LinearOthers {
    const NAME: &'static str = NAME;
    type Task = Task;
    type Report = LinearReport;

    fn run(&self, task: &Task, _: &Place<'_>, port: &Port) -> Result<LinearReport> {
        run(task, port)
    }
}

/// All tables of the kernel as text, which takes init_mm's mmap lock.
const DUMP: &str = "/sys/kernel/debug/kernel_page_tables";

/// How often kfence guards an allocation, in ms; 0 until somebody asks for it.
const KFENCE: &str = "/sys/module/kfence/parameters/sample_interval";

/// `KEXEC_ARCH_AARCH64` (include/uapi/linux/kexec.h).
const KEXEC_ARCH: u64 = 183 << 16;

/// Where the kernel that is never started would lie: in the guest's memory, aligned to any page.
const KEXEC_AT: u64 = 0x6000_0000;
const KEXEC_BYTES: usize = 1 << 20;

/// Memory that is owned and checked, in bytes at most: hibernation writes all of it to the disk.
const OWNED: u64 = 64 << 20;

/// What one meeting is done with.
struct Meeting<'a> {
    options: &'a Task,
    port: &'a Port,
    report: &'a mut LinearReport,
    owners: &'a Owners,
}

/// Its name, which is also the moment's when it is over, and what is done.
type Meet = fn(&mut Meeting<'_>) -> Result<()>;
const MEETINGS: [(&str, Meet); 6] = [
    ("ptdump", |meeting| meeting.dump()),
    ("kexec", |meeting| meeting.kexec()),
    ("cpus", |meeting| meeting.cpus()),
    ("hibernation", |meeting| meeting.hibernate()),
    ("hotplug", |meeting| meeting.hotplug()),
    // Last: its pool stays pages.
    ("kfence", |meeting| meeting.kfence()),
];

/// Has all of them meet.
fn run(options: &Task, port: &Port) -> Result<LinearReport> {
    let mut report = LinearReport::default();
    linear::rest();
    linear::take(&mut report, "boot");
    let boot = report.moments[0].leaves.clone();
    let owners = Owners::begin(options.seed, OWNED)?;
    let patience = Duration::from_secs(options.settle_s.into());
    for (name, meet) in MEETINGS {
        // Only decoration.
        let _ = port.send(&Message::Progress { text: name.into() });
        let mut meeting = Meeting {
            options,
            port,
            report: &mut report,
            owners: &owners,
        };
        meet(&mut meeting).context(name)?;
        settle(&boot, patience);
        linear::take(&mut report, name);
    }
    owners.end(&mut report)?;
    Ok(report)
}

impl Meeting<'_> {
    /// Does `work` again and again for as long as was asked, once at least, while permissions
    /// change. Says how often.
    fn during_changes(&self, work: impl FnMut() -> Result<()>) -> Result<u64> {
        let changers = self.owners.change(Changes::UNTIL_STOPPED)?;
        let done = self.repeat(work);
        changers.stop()?;
        done
    }

    fn repeat(&self, mut work: impl FnMut() -> Result<()>) -> Result<u64> {
        let lasting = Duration::from_secs(self.options.seconds.into());
        let begun = Instant::now();
        let mut times = 0;
        while times == 0 || begun.elapsed() < lasting {
            work()?;
            times += 1;
        }
        Ok(times)
    }

    fn count(&mut self, name: &str, count: u64) {
        self.report.counts.insert(name.into(), count);
    }

    fn dump(&mut self) -> Result<()> {
        let dumps = self.during_changes(|| {
            let lines = fs::read_to_string(DUMP).context(DUMP)?.lines().count();
            ensure!(lines > 10, "{DUMP}: {lines} lines");
            Ok(())
        })?;
        self.count("dumps", dumps);
        Ok(())
    }

    /// Loads a kernel that is never started, and forgets it: loading copies the linear map.
    fn kexec(&mut self) -> Result<()> {
        let image = vec![0_u8; KEXEC_BYTES];
        let copies = self.during_changes(|| {
            kexec_load(Some(&image)).context("kexec_load")?;
            kexec_load(None).context("kexec_load of nothing")
        })?;
        self.count("kexec_loads", copies);
        Ok(())
    }

    /// CPUs that boot left out come, then each goes and comes back.
    fn cpus(&mut self) -> Result<()> {
        let late = cpus::late()?;
        self.count("late_cpus", late.came);
        self.count("refused_cpus", late.refused);
        let mut switched = 0;
        self.during_changes(|| {
            switched += cpus::switch()?;
            Ok(())
        })?;
        self.count("switched_cpus", switched);
        Ok(())
    }

    /// Before each, filters come and go for a second, so that leaves are narrow: while there is
    /// secret memory, no kernel hibernates.
    fn hibernate(&mut self) -> Result<()> {
        let swap = Swap::on()?;
        let times = self.repeat(|| {
            let filters = Changes {
                secrets: false,
                ..Changes::UNTIL_STOPPED
            };
            let changers = self.owners.change(filters)?;
            std::thread::sleep(Duration::from_secs(1));
            let slept = swap.hibernate();
            changers.stop()?;
            slept
        })?;
        swap.off()?;
        self.count("hibernations", times);
        Ok(())
    }

    /// Memory comes and goes while permissions change; last it is used like that of boot, and what
    /// nobody has of it in the end goes.
    fn hotplug(&mut self) -> Result<()> {
        let (port, bytes) = (self.port, self.options.plug.min(2 * hotplug::block()?));
        let failed = hotplug::short(port, bytes)?;
        self.count("failed_in_workers", failed);
        let times = self.during_changes(|| hotplug::movable(port, bytes))?;
        self.count("plugged", times);

        let changers = self.owners.change(Changes::UNTIL_STOPPED)?;
        let usual = hotplug::plug(port, bytes, hotplug::Use::Kernel);
        std::thread::sleep(Duration::from_secs(self.options.seconds.into()));
        changers.stop()?;
        let gone = usual?.unplug_some(port)?;
        self.count("unplugged_of_kernel_bytes", gone);
        Ok(())
    }

    /// kfence begins, then changes pages of its pool in atomic context.
    fn kfence(&mut self) -> Result<()> {
        let changers = self.owners.change(Changes::UNTIL_STOPPED)?;
        let begun = fs::write(KFENCE, "1").context(KFENCE);
        std::thread::sleep(Duration::from_secs(self.options.seconds.into()));
        changers.stop()?;
        begun?;
        let stats = "/sys/kernel/debug/kfence/stats";
        let text = fs::read_to_string(stats).context(stats)?;
        let guarded = total_allocations(&text).context(stats)?;
        ensure!(guarded > 0, "{stats}: no allocation was guarded");
        self.count("guarded_allocations", guarded);
        Ok(())
    }
}

/// `total allocations: 7` of kfence's statistics.
fn total_allocations(stats: &str) -> Option<u64> {
    let mut lines = stats.lines();
    let value = lines.find_map(|line| line.strip_prefix("total allocations:"))?;
    value.trim().parse().ok()
}

/// `struct kexec_segment`
#[repr(C)]
struct Segment {
    buf: *const u8,
    bufsz: usize,
    mem: u64,
    memsz: usize,
}

/// Loads `image` as a kernel; without one, forgets what was loaded.
fn kexec_load(image: Option<&[u8]>) -> Result<()> {
    let segments = image.map(|image| Segment {
        buf: image.as_ptr(),
        bufsz: image.len(),
        mem: KEXEC_AT,
        memsz: image.len(),
    });
    let (number, first) = match &segments {
        Some(segment) => (1_u64, &raw const *segment),
        None => (0, std::ptr::null()),
    };
    // SAFETY: the kernel copies what the segment names, and keeps nothing of it.
    let result =
        unsafe { libc::syscall(libc::SYS_kexec_load, KEXEC_AT, number, first, KEXEC_ARCH) };
    Errno::result(result)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guarded_allocations_are_found() {
        let stats = "enabled: 1\ncurrently allocated: 3\ntotal allocations: 17\ntotal frees: 14\n";
        assert_eq!(total_allocations(stats), Some(17));
        assert_eq!(total_allocations("enabled: 0\n"), None);
    }
}
