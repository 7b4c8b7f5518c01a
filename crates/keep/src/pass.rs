// SPDX-License-Identifier: GPL-2.0-only
//! One look at everything that is to be kept wide, and the means where it is not.

use crate::{Config, InVain, Means, unit};
use std::path::{Path, PathBuf};
use wideleaf_collapse::{Source, TextOfFiles, targets, text_of_files};
use wideleaf_containers::{Containers, Wanted};
use wideleaf_fill::{
    Budget, Filled, Geometry, Left, Limits, Plan, Text, Texts, Why, act, look, of_processes,
};
use wideleaf_kit::events::Event;
use wideleaf_kit::size::bytes;
use wideleaf_procmap::{Scope, Select, Within};
use wideleaf_procset::{Machinery, select};
use wideleaf_stage::{Request, Stage};

/// A file, after a pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Its name; in an image, its path there.
    pub name: PathBuf,
    /// Bytes in whole blocks.
    pub blocks: u64,
    /// Of these, bytes in wide folios.
    pub wide: u64,
    /// Bytes that were read in this pass.
    pub read: u64,
    /// Why the first of the others is not.
    pub why: Option<Why>,
}

/// The outcome of a pass.
#[derive(Clone, Debug, Default)]
pub struct Pass {
    /// The files, in the order of the configuration.
    pub files: Vec<Kept>,
    /// Other changes that were made, a line each.
    pub done: Vec<String>,
    /// Failures, a line each.
    pub notes: Vec<String>,
}

/// Looks at all that the configuration names, and widens what is narrow, but for the files of
/// `in_vain`, to which it adds.
///
/// # Errors
///
/// If /proc is not readable.
pub fn pass(config: &Config, in_vain: &mut InVain) -> Result<Pass, wideleaf_procmap::Error> {
    let sizes = Geometry::here()?;
    let (mut done, mut notes) = (Vec::new(), Vec::new());
    let (texts, running) = texts(config, &sizes, &mut notes);
    // Text that is not congruent has no other means than an aligned copy.
    let stages = config.means.contains(&Means::Stage);
    let plans = texts
        .texts
        .into_iter()
        .filter(|text| !text.blocks.is_empty() || stages && !text.odd.is_empty());
    let mut plans: Vec<Plan> = plans.map(|text| look(text, &sizes)).collect();
    let source = Source {
        proc: "/proc".into(),
        page: sizes.page,
        pmd: sizes.pmd,
        reclaim: config.reclaim,
    };
    let limit = config.limit.unwrap_or(source.bytes().unwrap_or(0) / 4);
    let mut budget = Budget::new(Limits {
        memory: match config.means.contains(&Means::Fill) {
            true => limit,
            false => 0,
        },
        read: None,
        rate: config.rate,
        time: None,
        evict: true,
        all_or_none: false,
        gently: true,
        reclaim: config.reclaim,
    });
    let mut filled = fill(&plans, &mut budget, &sizes, in_vain);
    if config.means.contains(&Means::Collapse) {
        let left = limit.saturating_sub(budget.taken);
        let taken = collapse(running, &plans, &filled, left, source);
        if taken > 0 {
            done.push(format!(
                "collapse made {} of text wide",
                bytes(taken, false)
            ));
            let again = plans.into_iter().zip(&mut filled);
            plans = again
                .map(|(plan, filled)| look_again(plan.text, filled, &sizes))
                .collect();
        }
    }
    if config.means.contains(&Means::Stage) {
        for path in stage(config, &plans, &filled, &mut notes) {
            done.push(format!("{}: staged", path.display()));
            let is = |plan: &Plan| plan.text.name.canonicalize().is_ok_and(|name| name == path);
            let files = plans.iter_mut().zip(&mut filled);
            for (plan, filled) in files.filter(|(plan, _)| is(plan)) {
                if let Ok(copy) = Text::read(&path, &path, sizes.page, sizes.pmd) {
                    *plan = look_again(copy, filled, &sizes);
                }
            }
        }
    }
    let files = plans.iter().zip(&filled).map(|(plan, filled)| Kept {
        name: plan.text.name.clone(),
        blocks: (plan.text.blocks.len() + plan.text.odd.len()) as u64 * sizes.pmd,
        wide: filled.wide,
        read: filled.read,
        why: filled.left.first().map(|left| left.why),
    });
    Ok(Pass {
        files: files.collect(),
        done,
        notes,
    })
}

fn fill(
    plans: &[Plan],
    budget: &mut Budget,
    sizes: &Geometry,
    in_vain: &mut InVain,
) -> Vec<Filled> {
    let mut one = |plan: &Plan| {
        if in_vain.leaves_out(plan.text.identity) {
            return left_alone(plan, sizes);
        }
        let plans = std::slice::from_ref(plan);
        let filled = act(plans, budget, sizes, &|_: Event<'_>| {}).remove(0);
        let wide = filled.left.iter().all(|left| left.why != Why::NoFolio);
        in_vain.tried(plan.text.identity, wide);
        filled
    };
    plans.iter().map(&mut one).collect()
}

/// A file as it is after another means than filling.
fn look_again(text: Text, filled: &mut Filled, sizes: &Geometry) -> Plan {
    let plan = look(text, sizes);
    let wide = plan.wide(sizes.pmd);
    if wide > filled.wide {
        (filled.wide, filled.left) = (wide, plan.would_stay(sizes.pmd, false));
    }
    plan
}

fn left_alone(plan: &Plan, sizes: &Geometry) -> Filled {
    let (Some(start), Some(last)) = (plan.text.blocks.first(), plan.text.blocks.last()) else {
        return Filled::default();
    };
    Filled {
        wide: plan.wide(sizes.pmd),
        left: vec![Left {
            start: *start,
            end: last + sizes.pmd,
            why: Why::NoFolio,
            bytes: 0,
        }],
        ..Filled::default()
    }
}

/// The files to keep wide, and the processes that are meant by other names than a program's.
fn texts(config: &Config, sizes: &Geometry, notes: &mut Vec<String>) -> (Texts, Vec<Select>) {
    let mut texts = Texts::default();
    texts.copies = true;
    let mut running = Vec::new();
    for program in &config.programs {
        texts.read_program(program, config.libs, sizes);
    }
    for service in &config.services {
        let select = processes(service);
        of_running(
            &format!("service {service}"),
            &select,
            sizes,
            &mut texts,
            notes,
        );
        running.push(select);
    }
    let mut wanted = Vec::new();
    for image in &config.images {
        if let Err(why) = texts.read_image(image, sizes) {
            let image = Some(image.clone());
            let of_image = Wanted {
                image,
                ..Wanted::default()
            };
            wanted.push((of_image, format!("{why}; its containers")));
        }
    }
    wanted.extend(config.containers.iter().map(|name| {
        let container = Some(name.clone());
        let named = Wanted {
            container,
            ..Wanted::default()
        };
        (named, String::new())
    }));
    wanted.extend(config.pods.iter().map(|name| {
        let pod = Some(name.clone());
        let named = Wanted {
            pod,
            ..Wanted::default()
        };
        (named, String::new())
    }));
    for (wanted, why) in wanted {
        let known = Containers::look(Path::new("/"));
        if let Err(error) = known.check(&wanted) {
            let what = if why.is_empty() { why } else { why + ": " };
            notes.push(format!("{what}{error}"));
            continue;
        }
        let what = shown(&wanted);
        let select = Select {
            within: Some(Within::new(known.takes(wanted, "/".into()))),
            ..Select::default()
        };
        of_running(&what, &select, sizes, &mut texts, notes);
        running.push(select);
    }
    let refused = texts.refused.iter();
    notes.extend(refused.map(|(path, why)| format!("{}: {why}", path.display())));
    (texts, running)
}

/// In a note.
fn shown(wanted: &Wanted) -> String {
    let parts = [
        ("image", &wanted.image),
        ("container", &wanted.container),
        ("pod", &wanted.pod),
    ];
    let given = parts
        .iter()
        .filter_map(|(what, name)| Some(format!("{what} {}", name.as_ref()?)));
    given.collect::<Vec<_>>().join(", ")
}

/// The processes of a service.
fn processes(service: &str) -> Select {
    let group = match service.starts_with('/') {
        true => service.to_owned(),
        false => format!("/system.slice/{}", unit(service)),
    };
    select(None, Some(&group))
}

/// The files that processes have mapped.
fn of_running(
    what: &str,
    select: &Select,
    sizes: &Geometry,
    texts: &mut Texts,
    notes: &mut Vec<String>,
) {
    let Ok(mut machine) = Machinery::new("/proc".as_ref(), None) else {
        return;
    };
    let mut found = Vec::new();
    let seen = machine.pass(None, Scope::Text, select, |process| {
        let vmas = process.mappings.iter().map(|mapping| &mapping.vma);
        found.extend(of_processes(process.pid, vmas, sizes.pmd).0);
    });
    match seen {
        Ok(seen) if seen.processes == 0 => notes.push(format!("{what}: no process")),
        Ok(_) => texts.read(found, sizes.page, sizes.pmd),
        Err(error) => notes.push(format!("{what}: {error}")),
    }
}

/// Blocks that processes use are collapsed where they are, if this kernel does that: each kernel does
/// for files of a tmpfs. Returns how many bytes of text have become wide.
fn collapse(
    running: Vec<Select>,
    plans: &[Plan],
    filled: &[Filled],
    limit: u64,
    source: Source,
) -> u64 {
    let of_files = text_of_files() != TextOfFiles::None;
    let used = plans.iter().zip(filled).filter(|(_, filled)| {
        let mut left = filled.left.iter();
        left.any(|left| left.why == Why::InMemory || of_files && left.why == Why::InUse)
    });
    let names = used.filter_map(|(plan, _)| plan.text.name.file_name()?.to_str());
    let mut whom: Vec<Select> = names.map(|name| select(Some(name), None)).collect();
    if whom.is_empty() && !of_files {
        return 0;
    }
    whom.extend(running);
    let Ok(mut machine) = Machinery::new("/proc".as_ref(), None) else {
        return 0;
    };
    let mut budget = wideleaf_collapse::Budget::new(limit, source);
    for whom in whom {
        let Ok((mut targets, _)) = targets(&mut machine, None, &whom) else {
            continue;
        };
        wideleaf_collapse::act(&mut targets, &mut budget, &|_: Event<'_>| {});
    }
    budget.taken
}

/// Programs whose file system has no wide folios, or whose text is not congruent, get copies; those
/// that are not wide for any other reason, too, if there is no other means. Returns which have one now.
fn stage(
    config: &Config,
    plans: &[Plan],
    filled: &[Filled],
    notes: &mut Vec<String>,
) -> Vec<PathBuf> {
    let alone = config.means.iter().all(|means| *means == Means::Stage);
    let hopeless = plans.iter().zip(filled).filter(|(_, filled)| {
        let mut left = filled.left.iter();
        left.any(|left| alone || matches!(left.why, Why::NoFolio | Why::NotCongruent))
    });
    let names = hopeless.map(|(plan, _)| plan.text.name.clone());
    let programs: Vec<PathBuf> = names
        .filter(|name| config.programs.contains(name))
        .collect();
    if programs.is_empty() {
        return Vec::new();
    }
    let request = Request {
        programs,
        libs: false,
        size: None,
        memory: config.limit,
        always: false,
    };
    match Stage::new(Path::new("/run/wideleaf").into()).stage(&request, &mut |_| {}) {
        Ok(summary) => summary.staged.into_iter().map(|file| file.path).collect(),
        Err(error) => {
            notes.push(format!("stage: {error}"));
            Vec::new()
        }
    }
}
