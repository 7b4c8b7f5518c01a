// SPDX-License-Identifier: GPL-2.0-only
//! The programs that the lab knows, `crates/jobs/programs/NAME.toml` each, and a choice of them.

use super::description::Description;
use std::path::PathBuf;
use std::sync::LazyLock;
use wideleaf_kbuild::Arch;

/// Each description: the name, and the text.
const TEXTS: &[(&str, &str)] = &include!(concat!(env!("OUT_DIR"), "/programs.rs"));

/// The programs that run unless told, in this order: all of the lab's small user land.
pub const USUAL: [&str; 6] = [
    "perl",
    "python",
    "openssl",
    "openssl-shifted",
    "stubs-glibc",
    "stubs-musl",
];

/// Which programs are asked for by `--programs`, so that each there is runs.
const ALL: &str = "all";

/// All of them: the usual ones, then the others by name.
///
/// # Panics
///
/// If a description is wrong; the tests read all.
static KNOWN: LazyLock<Vec<Description>> = LazyLock::new(|| {
    let parse = |(name, text): &(&str, &str)| {
        let file = format!("programs/{name}.toml");
        Description::parse(&file, name, text).unwrap_or_else(|why| panic!("{why}"))
    };
    let mut all: Vec<_> = TEXTS.iter().map(parse).collect();
    let place = |name: &str| USUAL.iter().position(|usual| *usual == name);
    all.sort_by_key(|known| {
        (
            place(&known.name).unwrap_or(USUAL.len()),
            known.name.clone(),
        )
    });
    all
});

/// The names, with commas between.
pub fn names() -> String {
    let names: Vec<_> = KNOWN.iter().map(|known| known.name.as_str()).collect();
    names.join(", ")
}

/// A program that was chosen.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// Its description.
    pub description: Description,
    /// The user's own file that describes it, if one does.
    pub file: Option<PathBuf>,
}

/// The programs that `asked` names among those that there are and those that the files `added`
/// describe, for a machine. Unless told these are the added ones, or else the usual ones.
///
/// # Errors
///
/// A file that cannot be read, a name that there is not, or a program that does not run on `arch`.
pub fn choose(asked: &[String], added: &[PathBuf], arch: Arch) -> Result<Vec<Chosen>, String> {
    let there = there(added)?;
    let runs = |chosen: &Chosen| chosen.description.architectures.contains(&arch);
    if asked.iter().any(|name| name == ALL) {
        return Ok(there.into_iter().filter(runs).collect());
    }
    let mut names = asked.to_vec();
    if names.is_empty() {
        let own = there.iter().filter(|chosen| chosen.file.is_some());
        names = own.map(|chosen| chosen.description.name.clone()).collect();
    }
    if names.is_empty() {
        names = USUAL.map(String::from).to_vec();
    }
    let has = |name: &String| there.iter().any(|chosen| chosen.description.name == *name);
    if let Some(name) = names.iter().find(|name| !has(name)) {
        let known: Vec<_> = there.iter().map(|c| c.description.name.as_str()).collect();
        return Err(format!(
            "--programs: unknown program '{name}': known are {ALL}, {}; --add takes the \
             description of another",
            known.join(", ")
        ));
    }
    let chosen = there
        .into_iter()
        .filter(|chosen| names.contains(&chosen.description.name));
    let chosen: Vec<_> = chosen.collect();
    match chosen.iter().find(|chosen| !runs(chosen)) {
        Some(Chosen { description, .. }) => {
            let machines: Vec<_> = description.architectures.iter().map(|a| a.name()).collect();
            Err(format!(
                "--programs: {} runs on {} only",
                description.name,
                machines.join(", ")
            ))
        }
        None => Ok(chosen),
    }
}

fn there(added: &[PathBuf]) -> Result<Vec<Chosen>, String> {
    let known = KNOWN.iter().cloned().map(|description| Chosen {
        description,
        file: None,
    });
    let mut there: Vec<_> = known.collect();
    for path in added {
        let description = Description::read(path)?;
        let name = &description.name;
        if there.iter().any(|chosen| chosen.description.name == *name) {
            return Err(format!(
                "{}: there is a program '{name}' already: give the file another name",
                path.display()
            ));
        }
        let file = Some(path.clone());
        there.push(Chosen { description, file });
    }
    Ok(there)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn chosen(asked: &[&str], added: &[PathBuf], arch: Arch) -> Result<String, String> {
        let asked: Vec<_> = asked.iter().map(ToString::to_string).collect();
        let chosen = choose(&asked, added, arch)?;
        let names: Vec<_> = chosen.into_iter().map(|c| c.description.name).collect();
        Ok(names.join(" "))
    }

    #[test]
    fn every_description_is_right() {
        assert_eq!(KNOWN.len(), TEXTS.len());
        for known in KNOWN.iter() {
            assert!(!known.about.is_empty() && !known.about.contains('\n'));
            assert_eq!(
                known.shares_its_disk(),
                USUAL.contains(&known.name.as_str())
            );
        }
    }

    #[test]
    fn unless_told_the_usual_ones_run_or_those_that_are_added() {
        assert_eq!(chosen(&[], &[], Arch::Arm64).unwrap(), USUAL.join(" "));
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("own.toml");
        let text = "about = \"x\"\npackages = [\"a\"]\ncommands = [\"/a\"]\n\
                    architectures = [\"arm64\"]";
        fs::write(&file, text).unwrap();
        let added = [file.clone()];
        assert_eq!(chosen(&[], &added, Arch::Arm64).unwrap(), "own");
        assert_eq!(chosen(&["perl"], &added, Arch::Arm64).unwrap(), "perl");
        let all = chosen(&["all"], &added, Arch::Arm64).unwrap();
        assert_eq!(all.split(' ').count(), TEXTS.len() + 1);
        assert!(
            !chosen(&["all"], &added, Arch::X86_64)
                .unwrap()
                .contains("own")
        );
        let error = chosen(&[], &added, Arch::X86_64).unwrap_err();
        assert!(error.contains("own runs on arm64 only"), "{error}");
        let twice = [file.clone(), file];
        let error = chosen(&[], &twice, Arch::Arm64).unwrap_err();
        assert!(
            error.contains("own.toml") && error.contains("already"),
            "{error}"
        );
    }

    #[test]
    fn what_there_is_not_is_named() {
        let error = chosen(&["perl", "cobol"], &[], Arch::Arm64).unwrap_err();
        assert!(
            error.contains("'cobol'") && error.contains("stubs-musl"),
            "{error}"
        );
        let error = chosen(&[], &["/nowhere/x.toml".into()], Arch::Arm64).unwrap_err();
        assert!(error.starts_with("/nowhere/x.toml: "), "{error}");
    }
}
