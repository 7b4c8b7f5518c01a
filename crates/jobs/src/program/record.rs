// SPDX-License-Identifier: GPL-2.0-only
//! A trace of what guest and plugin found: which pages of which files, in which order.

use super::{Executable, Worked};
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use wideleaf_kbuild::Arch;
use wideleaf_policy::trace::{File, Touch, Trace};
use wideleaf_tlb::report::Touched;

/// The trace of a program. Its files are in the order of their first touches.
pub(super) fn trace(
    worked: &Worked,
    touched: &[Touched],
    arch: Arch,
    packages: &[String],
) -> Result<Trace> {
    let mut trace = Trace {
        program: worked.name.clone(),
        arch: arch.to_string(),
        packages: packages.to_vec(),
        ..Trace::default()
    };
    let mut recorded = 0;
    let mut order = BTreeMap::new();
    for executable in &worked.executables {
        let pages = touched.iter().find(|touched| touched.id == executable.id);
        let pages = pages.with_context(|| {
            format!(
                "{}: the plugin says nothing of its pages: build it again with 'make build'",
                executable.path
            )
        })?;
        recorded = pages.recorded;
        for &(place, page) in &pages.pages {
            // What a program executes of a file elsewhere is none of its text.
            if executable.text.iter().any(|text| text.has(page)) {
                order.insert(place, (executable, page));
            }
        }
    }
    ensure!(
        !order.is_empty(),
        "{}: no page of a program or library was executed from in the warm run",
        worked.name
    );
    let mut numbers = BTreeMap::new();
    for (executable, page) in order.into_values() {
        let file = *numbers.entry(executable.id).or_insert_with(|| {
            trace.files.push(file(executable));
            trace.files.len() as u32 - 1
        });
        trace.touches.push(Touch { file, page });
    }
    trace.other = recorded - trace.touches.len() as u32;
    Ok(trace)
}

fn file(executable: &Executable) -> File {
    File {
        path: executable.path.clone(),
        size: executable.size,
        text: executable.text.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wideleaf_guest::kit::program;
    use wideleaf_policy::trace::Text;

    fn executable(id: u64, path: &str) -> Executable {
        let text = Text {
            offset: 0x1000,
            size: 0x8000,
            address: 0x1000,
        };
        Executable {
            id,
            path: path.into(),
            size: 1 << 20,
            text: vec![text],
        }
    }

    fn touched(id: u64, pages: &[(u32, u32)]) -> Touched {
        Touched {
            id,
            recorded: 9,
            pages: pages.to_vec(),
        }
    }

    fn made(touched: &[Touched]) -> Result<Trace> {
        let worked = Worked {
            of: program::Worked {
                name: "x".into(),
                ..program::Worked::default()
            },
            executables: vec![
                executable(10, "/a"),
                executable(11, "/b"),
                executable(12, "/c"),
            ],
            ..Worked::default()
        };
        trace(&worked, touched, Arch::X86_64, &["p_1_all.deb".into()])
    }

    #[test]
    fn touches_are_in_the_order_of_all_files_and_files_in_that_of_their_first() {
        let trace = made(&[
            touched(10, &[(3, 1), (5, 2)]),
            // A page that is no text, and one that another program's record has.
            touched(11, &[(4, 7), (2, 8), (7, 200)]),
            touched(12, &[]),
            touched(13, &[(0, 1)]),
        ])
        .unwrap();
        let paths: Vec<_> = trace.files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(paths, ["/b", "/a"]);
        let touches: Vec<_> = trace.touches.iter().map(|t| (t.file, t.page)).collect();
        assert_eq!(touches, [(0, 8), (1, 1), (0, 7), (1, 2)]);
        assert_eq!((trace.other, trace.arch.as_str()), (5, "x86_64"));
        assert_eq!(trace.text().parse(), Ok(trace));
    }

    #[test]
    fn a_plugin_that_says_nothing_is_an_error_and_so_is_an_empty_record() {
        let old = made(&[]).unwrap_err().to_string();
        assert!(old.starts_with("/a: the plugin says nothing"), "{old}");
        let none = [10, 11, 12].map(|id| touched(id, &[]));
        let empty = made(&none).unwrap_err().to_string();
        assert!(empty.starts_with("x: no page"), "{empty}");
    }
}
