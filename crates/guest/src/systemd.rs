// SPDX-License-Identifier: GPL-2.0-only
//! Hands the guest over to the systemd of the Debian on its disk, and goes on as one of its services.
//!
//! [`FOLDER`], in memory, has all that this program needs there: itself and the job. Its unit is in
//! memory too: systemd keeps a /run that is mounted when it begins.

use crate::power::power_off;
use crate::protocol::{Disk, JOB_PATH};
use crate::work::AnyWork;
use crate::{init, setup};
use anyhow::{Context, Result};
use nix::mount::{MsFlags, mount};
use nix::unistd::{chdir, chroot};
use std::convert::Infallible;
use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Where services, and containers that get it mounted, find this program.
pub const FOLDER: &str = "/run/wideleaf";

/// This program there.
pub const PROGRAM: &str = "/run/wideleaf/guest";

/// The word by which the unit starts it.
pub const WORD: &str = "job";

/// The job there.
const JOB: &str = "/run/wideleaf/job.json";

/// Where units in memory are.
const UNITS: &str = "/run/systemd/system";

/// The unit's name.
const NAME: &str = "wideleaf.service";

/// The unit. Its end is that of the machine, whatever happens: only the host's patience would end a
/// system of which this service is gone.
const UNIT: &str = "[Unit]
Description=The job of the lab
After=multi-user.target
FailureAction=reboot-immediate
[Service]
Type=oneshot
ExecStart=/run/wideleaf/guest job
StandardOutput=file:/dev/console
StandardError=file:/dev/console
TimeoutStartSec=infinity
";

/// Units that do nothing for a job and take time under emulation: logins, what is done once for a new
/// machine, what is done by the hour.
const MASKED: [&str; 11] = [
    "getty.target",
    "serial-getty@ttyS0.service",
    "serial-getty@ttyAMA0.service",
    "systemd-firstboot.service",
    "systemd-journal-catalog-update.service",
    "systemd-logind.service",
    "systemd-pcrphase.service",
    "systemd-update-done.service",
    "systemd-update-utmp.service",
    "systemd-tmpfiles-clean.timer",
    "apt-daily.timer",
];

/// systemd is to say nothing of its progress, for the console is slow, and to wait for nobody if it
/// cannot go on.
const ARGUMENTS: [&str; 4] = [
    "--show-status=no",
    "--log-level=err",
    "--log-target=console",
    "--crash-action=reboot",
];

/// How long systemd may take to end the machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Has the systemd of `disk` take this process over. Only for PID 1 with all that
/// the module `setup` mounts before the job.
///
/// # Errors
///
/// If the disk cannot be mounted, or has no systemd.
pub fn hand_over(disk: &Disk) -> Result<Infallible> {
    setup::disk(disk)?;
    let root = Path::new(&disk.mount_point);
    let run = root.join("run");
    let modes = Some("mode=755");
    mount(Some("tmpfs"), &run, Some("tmpfs"), MsFlags::empty(), modes)
        .with_context(|| format!("mount tmpfs on {}", run.display()))?;
    furnish(root, Path::new("/init"), Path::new(JOB_PATH))?;
    for place in ["dev", "proc", "sys"] {
        let to = root.join(place);
        let from = Path::new("/").join(place);
        mount(
            Some(&from),
            &to,
            None::<&str>,
            MsFlags::MS_MOVE,
            None::<&str>,
        )
        .with_context(|| format!("move {} to {}", from.display(), to.display()))?;
    }
    chdir(root).context("chdir")?;
    mount(Some("."), "/", None::<&str>, MsFlags::MS_MOVE, None::<&str>)
        .with_context(|| format!("move {} to /", root.display()))?;
    chroot(".").and_then(|()| chdir("/")).context("chroot")?;
    let error = Command::new("/sbin/init")
        .args(ARGUMENTS)
        .env("TERM", "dumb")
        .exec();
    Err(error).context("/sbin/init of the disk")
}

/// Puts what this program needs as a service into the tmpfs below `root`.
fn furnish(root: &Path, program: &Path, job: &Path) -> Result<()> {
    let at = |path: &str| root.join(path.trim_start_matches('/'));
    let wants = at(UNITS).join("graphical.target.wants");
    for folder in [&at(FOLDER), &at(UNITS), &wants] {
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    fs::copy(program, at(PROGRAM)).context(PROGRAM)?;
    fs::copy(job, at(JOB)).context(JOB)?;
    fs::write(at(UNITS).join(NAME), UNIT).context(NAME)?;
    symlink(format!("../{NAME}"), wants.join(NAME)).context(NAME)?;
    for unit in MASKED {
        symlink("/dev/null", at(UNITS).join(unit)).context(unit)?;
    }
    Ok(())
}

/// Does the job, as the service of the unit. systemd ends the machine: it ends all that runs first, so
/// that nothing reads from the disk when it goes.
pub fn main(jobs: &[&dyn AnyWork]) -> ! {
    init::serve(jobs, JOB);
    let mut reboot = Command::new("/usr/bin/systemctl");
    match reboot.args(["reboot", "--force"]).status() {
        Ok(status) if status.success() => std::thread::sleep(PATIENCE),
        other => eprintln!("wideleaf: systemctl reboot: {other:?}"),
    }
    power_off()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systemd_finds_the_program_the_job_and_the_unit_that_starts_it() {
        let root = tempfile::tempdir().unwrap();
        let (program, job) = (root.path().join("init"), root.path().join("job.json"));
        fs::write(&program, "a program").unwrap();
        fs::write(&job, "{}").unwrap();
        furnish(root.path(), &program, &job).unwrap();
        let read = |path: &str| fs::read_to_string(root.path().join(&path[1..]));
        assert_eq!(read(PROGRAM).unwrap(), "a program");
        assert_eq!(read(JOB).unwrap(), "{}");
        let unit = read(&format!("{UNITS}/graphical.target.wants/{NAME}")).unwrap();
        assert!(
            unit.contains(&format!("ExecStart={PROGRAM} {WORD}\n")),
            "{unit}"
        );
        let masked = root.path().join(&UNITS[1..]).join("getty.target");
        assert_eq!(fs::read_link(masked).unwrap(), Path::new("/dev/null"));
    }
}
