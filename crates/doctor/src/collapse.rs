// SPDX-License-Identifier: GPL-2.0-only
//! Making leaves wide after the fact: collapse of file text.

use crate::kernel::{Config, Release};
use crate::trial::Trial;
use crate::{Check, Host};

/// What a refusal can be answered with.
const ELSEWHERE: &str = "put hot programs on a tmpfs mounted huge=always, which needs no collapse, or use a kernel with \
     CONFIG_READ_ONLY_THP_FOR_FS=y";

pub(crate) fn checks(
    host: &Host,
    release: &Release,
    config: &Config,
    trials: &[Trial],
) -> Vec<Check> {
    vec![
        read_only_thp(release, config, trials),
        madv_collapse(host, release, trials),
    ]
}

/// Whether a collapse of files works: `None` if none was tried.
fn files_work(trials: &[Trial]) -> Option<bool> {
    let files = || trials.iter().filter(|t| t.place != "shared memory");
    files().next()?;
    Some(files().all(|t| t.answer.is_ok()))
}

fn read_only_thp(release: &Release, config: &Config, trials: &[Trial]) -> Check {
    const OPTION: &str = "READ_ONLY_THP_FOR_FS";
    let check = Check::new(
        "read-only-thp",
        "CONFIG_READ_ONLY_THP_FOR_FS",
        "it lets khugepaged and MADV_COLLAPSE put text that is not written into PMD leaves",
    );
    let source = config.source.as_deref().unwrap_or("?");
    match (config.get(OPTION), files_work(trials)) {
        (None, _) => check.unknown("the kernel's configuration was not found (/proc/config.gz, /boot/config-*)"),
        (Some("y"), _) => check.good("built in"),
        // 7.3 has no such option any more.
        (Some(_), _) if !config.mentions(OPTION) && release.at_least(7, 0) == Some(true) => {
            check.note("this kernel has no such option any more; large folios of the file system take its place")
        }
        (Some(_), Some(true)) => check.note(format!(
            "not set in {source}; MADV_COLLAPSE of files was tried and works without it"
        )),
        (Some(_), tried) => check.improve(
            format!(
                "not set in {source}{}",
                match tried {
                    Some(_) => ", and MADV_COLLAPSE of files was tried and refused",
                    None => "",
                }
            ),
            "use a kernel with CONFIG_READ_ONLY_THP_FOR_FS=y, or put hot programs on a tmpfs mounted huge=always",
            "install such a kernel",
        ),
    }
}

fn madv_collapse(host: &Host, release: &Release, trials: &[Trial]) -> Check {
    let check = Check::new(
        "madv-collapse",
        "MADV_COLLAPSE",
        "a process can ask for PMD leaves for its own text at once, without waiting for khugepaged",
    );
    let thp = host
        .read("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size")
        .is_some();
    match (release.at_least(6, 1), thp) {
        (Some(true), true) => {}
        (Some(true), false) => return check.note("the kernel has no transparent huge pages"),
        (Some(false), _) => {
            return check.improve(
                format!("Linux {} does not have it", release.text),
                "use Linux 6.1 or later",
                "install a later kernel of the distribution",
            );
        }
        (None, _) => return check.unknown("the kernel's version is unknown"),
    }
    let lines: Vec<String> = trials.iter().map(line).collect();
    let mut meanings: Vec<&str> = trials
        .iter()
        .filter_map(|t| t.answer.as_ref().err().map(String::as_str))
        .collect();
    meanings.sort_unstable();
    meanings.dedup();
    let meanings: String = meanings.iter().map(|m| format!(". {m}")).collect();
    let found = format!("tried: {}{meanings}", lines.join("; "));
    match files_work(trials) {
        None => check.unknown("there was no file of a PMD's size to try it on"),
        Some(true) => check.good(found),
        Some(false) => check.improve(
            found,
            ELSEWHERE,
            "/etc/fstab for the tmpfs, and a systemd unit that copies the program before its service starts",
        ),
    }
}

fn line(trial: &Trial) -> String {
    let file = trial
        .file
        .as_ref()
        .map_or_else(String::new, |file| format!(", {}", file.display()));
    let answer = match &trial.answer {
        Ok(()) => "works",
        Err(why) => why.split(':').next().unwrap_or(why),
    };
    format!("{}{file}: {answer}", trial.place)
}
