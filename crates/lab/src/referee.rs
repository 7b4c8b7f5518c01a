// SPDX-License-Identifier: GPL-2.0-only
//! What the referee found, with the kernel's own names, and as text.

use crate::results::{Comparison, Verdict};
use anyhow::{Context, Result, bail};
use std::path::Path;
use wideleaf_kbuild::Variant;
use wideleaf_tlb::referee::finding::{Code, Finding, Findings};
use wideleaf_tlb::report::Report;

/// Functions by address, of a kernel's `System.map`, and lines of its source.
#[derive(Default)]
pub struct Symbols {
    functions: Vec<(u64, String)>,
    lines: Option<Lines>,
}

/// Which line of the source an instruction is of, by the kernel's own debug information.
struct Lines {
    debug: addr2line::Loader,
    /// The folder that the source was in, with a slash at its end.
    source: String,
}

/// A function that every kernel has, and its file.
const KNOWN: (&str, &str) = ("start_kernel", "init/main.c");

impl Lines {
    /// Those of `vmlinux`; `None` if it has no debug information.
    fn of(vmlinux: &Path, functions: &[(u64, String)]) -> Option<Self> {
        let debug = addr2line::Loader::new(vmlinux).ok()?;
        let (address, _) = functions.iter().find(|(_, name)| name == KNOWN.0)?;
        let location = debug.find_location(*address).ok()??;
        let source = location.file?.strip_suffix(KNOWN.1)?.to_string();
        Some(Self { debug, source })
    }

    /// `mm/memory.c:1573`; of an inlined function the line that calls it too, and that first:
    /// `mm/memory.c:1573, include/linux/mm.h:12`.
    fn line(&self, pc: u64) -> Option<String> {
        let mut frames = self.debug.find_frames(pc).ok()?;
        let mut lines = Vec::new();
        while let Ok(Some(frame)) = frames.next() {
            let location = frame.location?;
            let file = location.file?;
            let file = file.strip_prefix(&self.source).unwrap_or(file);
            lines.push(format!("{file}:{}", location.line?));
        }
        let innermost = lines.first()?.clone();
        let outermost = lines.pop()?;
        Some(match lines.is_empty() {
            true => outermost,
            false => format!("{outermost}, {innermost}"),
        })
    }
}

impl Symbols {
    /// Those of the kernel at `image`, as far as its `System.map` and a `vmlinux` with debug
    /// information lie beside it.
    pub fn beside(image: &Path) -> Self {
        Self::read(
            &image.with_file_name("System.map"),
            &image.with_file_name("vmlinux"),
        )
    }

    /// Those of the kernel at `image` which the lab did not build: of the folder `given`, beside the
    /// image, or in the build folder above `arch/*/boot`; installed kernels have their release
    /// behind the names, `given` may have both.
    ///
    /// # Errors
    ///
    /// If there is no `System.map` in `given`.
    pub fn of(image: &Path, given: Option<&Path>) -> Result<Self> {
        let release = image.file_name().and_then(|name| name.to_str());
        let release = release.and_then(|name| name.strip_prefix("vmlinuz-"));
        let file = |folder: &Path, name: &str| {
            let installed = release.map(|release| folder.join(format!("{name}-{release}")));
            // A build folder's have no release; in /boot such may be of another kernel.
            let built = (release.is_none() || given.is_some()).then(|| folder.join(name));
            installed
                .into_iter()
                .chain(built)
                .find(|path| path.is_file())
        };
        let folders: Vec<_> = match given {
            Some(given) => vec![given],
            // The image's own, then boot, its architecture's, arch, and the build folder.
            None => image.ancestors().skip(1).step_by(3).take(2).collect(),
        };
        let found = folders
            .iter()
            .find_map(|folder| Some((folder, file(folder, "System.map")?)));
        match (found, given) {
            (Some((folder, map)), _) => {
                let vmlinux = file(folder, "vmlinux").unwrap_or_else(|| folder.join("vmlinux"));
                Ok(Self::read(&map, &vmlinux))
            }
            (None, Some(given)) => {
                bail!("{}: there is no System.map (--symbols)", given.display())
            }
            (None, None) => Ok(Self::default()),
        }
    }

    fn read(map: &Path, vmlinux: &Path) -> Self {
        let text = std::fs::read_to_string(map);
        let mut symbols = Self::parse(&text.unwrap_or_default());
        symbols.lines = Lines::of(vmlinux, &symbols.functions);
        symbols
    }

    fn parse(text: &str) -> Self {
        let line = |line: &str| {
            let mut words = line.split_whitespace();
            let address = u64::from_str_radix(words.next()?, 16).ok()?;
            let kind = words.next()?;
            let name = words.next()?;
            // arm64 marks code and data by local names; functions are t, T, w, W.
            let is_code = matches!(kind, "t" | "T" | "w" | "W") && !name.starts_with('$');
            is_code.then(|| (address, name.to_string()))
        };
        let mut list: Vec<_> = text.lines().filter_map(line).collect();
        list.sort_by_key(|(address, _)| *address);
        Symbols {
            functions: list,
            lines: None,
        }
    }

    /// The function of a kernel address, and how far behind its begin that is; user addresses have
    /// none.
    fn name(&self, pc: u64) -> Option<(&str, u64)> {
        let after = self
            .functions
            .partition_point(|(address, _)| *address <= pc);
        let (address, name) = self.functions.get(after.checked_sub(1)?)?;
        // Beyond the image's text there are only modules and data.
        let offset = pc - address;
        (offset < 1 << 20).then_some((name, offset))
    }

    /// Fills in name and line of the instruction that ends so many bytes before `code`.
    fn describe(&self, code: &mut Code, before: u64) {
        let pc = code.pc.saturating_sub(before);
        code.symbol = self.name(pc).map(|(name, offset)| {
            let offset = offset + before;
            format!("{name}+{offset:#x}")
        });
        code.line = self.lines.as_ref().and_then(|lines| lines.line(pc));
    }

    /// Fills in names and lines.
    pub fn apply(&self, findings: &mut Findings) {
        for finding in &mut findings.list {
            for place in [&mut finding.change, &mut finding.usage] {
                self.describe(&mut place.code, 0);
                for caller in &mut place.callers {
                    // The call itself: a function that never returns may be called at the very end.
                    self.describe(caller, 1);
                }
            }
        }
    }
}

/// The findings of all runs as lines below a table.
pub fn lines(comparison: &Comparison) -> Vec<String> {
    let runs = comparison.runs.iter();
    runs.filter_map(|run| Some(told(run.variant.name(), run.referee.as_ref()?)))
        .flatten()
        .collect()
}

/// Findings until the guest's job died, from the counts that the plugin left; nothing if it
/// left none, or found none.
pub fn before_failure(variant: Variant, image: &Path, counts: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(counts).unwrap_or_default();
    let report = serde_json::from_str::<Report>(&text).unwrap_or_default();
    let Some(mut findings) = report.referee.filter(|findings| !findings.is_clean()) else {
        return Vec::new();
    };
    Symbols::beside(image).apply(&mut findings);
    told(variant.name(), &findings)
}

/// The findings of the plugin in a guest that has ended, by the counts that it left.
///
/// # Errors
///
/// If it left none.
pub fn read_findings(counts: &Path) -> Result<Findings> {
    let text = std::fs::read_to_string(counts).context("the TLB plugin left no counts")?;
    let report: Report =
        serde_json::from_str(&text).context("the TLB plugin's counts are damaged")?;
    report
        .referee
        .context("the TLB plugin's counts have no findings of the referee")
}

/// The findings in `kernel`, as lines.
pub fn told(kernel: &str, findings: &Findings) -> Vec<String> {
    let Findings {
        table_writes,
        most_stale,
        most_tables,
        ..
    } = findings;
    let mut lines = vec![format!(
        "  referee: {kernel}: {} found in {table_writes} page-table writes; at most {most_tables} tables, {most_stale} old translations at a time",
        findings.list.len() as u64 + findings.left_out
    )];
    lines.extend(findings.list.iter().flat_map(describe));
    if findings.forgotten > 0 {
        lines.push(format!(
            "  warning: {kernel}: {} old translations were forgotten for want of room",
            findings.forgotten
        ));
    }
    lines
}

/// A finding, as lines.
pub fn describe(f: &Finding) -> Vec<String> {
    let space = f.asid.map_or(String::new(), |asid| format!(" asid {asid}"));
    let mut lines = vec![
        format!(
            "    {} at {:#x}{space}, {} times",
            f.kind.name(),
            f.va,
            f.count
        ),
        format!("      old  {}", f.old),
        format!("      new  {}", f.new),
    ];
    for (verb, place) in [("changed", &f.change), ("used", &f.usage)] {
        lines.push(format!(
            "      {verb:7}  CPU {} at {}",
            place.cpu,
            full(&place.code)
        ));
        if !place.callers.is_empty() {
            let callers: Vec<_> = place.callers.iter().map(short).collect();
            lines.push(format!("        called by {}", callers.join(" < ")));
        }
    }
    lines
}

/// An instruction by all that is known of it.
fn full(code: &Code) -> String {
    let name = code.symbol.as_ref();
    let name = name.map_or(String::new(), |name| format!(" {name}"));
    let line = code.line.as_ref();
    let line = line.map_or(String::new(), |line| format!(" ({line})"));
    format!("{:#x}{name}{line}", code.pc)
}

/// By its name, if it has one.
fn short(code: &Code) -> String {
    let name = code.symbol.clone();
    name.unwrap_or_else(|| format!("{:#x}", code.pc))
}

/// Nothing is to be found, and all that was changed has to have been looked at.
pub fn verdicts(comparison: &Comparison) -> Vec<Verdict> {
    let runs = comparison.runs.iter();
    runs.filter_map(|run| Some((run.variant, run.referee.as_ref()?)))
        .flat_map(|(variant, findings)| {
            let verdict = |bound: &str, measured: u64, passed: bool| Verdict {
                expectation: format!("{variant}: referee.{bound}"),
                comparison: format!(
                    "{} {} {}",
                    comparison.base, comparison.arch, comparison.page_size
                ),
                measured: Some(measured as f64),
                passed,
            };
            let found = findings.list.len() as u64 + findings.left_out;
            let Findings {
                forgotten,
                table_writes,
                ..
            } = *findings;
            let mut verdicts = vec![verdict("findings<=0", found, found == 0)];
            if forgotten > 0 {
                verdicts.push(verdict("forgotten<=0", forgotten, false));
            }
            if table_writes == 0 {
                verdicts.push(verdict("table_writes>=1", table_writes, false));
            }
            verdicts
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::comparison;
    use wideleaf_tlb::referee::finding::{Kind, Place};

    const MAP: &str = "\
ffff800080010000 T _stext
ffff800080010100 t zap_pte_range
ffff800080010104 t $x.12
ffff800080020000 D jiffies
";

    #[test]
    fn names_are_those_of_functions() {
        let symbols = Symbols::parse(MAP);
        let name = |pc| symbols.name(pc);
        assert_eq!(name(0xffff_8000_8001_0108), Some(("zap_pte_range", 8)));
        assert_eq!(name(0xffff_8000_8001_0000), Some(("_stext", 0)));
        assert_eq!(name(0x40_0000), None);
        assert_eq!(name(0xffff_8100_0000_0000), None);
        assert_eq!(Symbols::default().name(1), None);
    }

    #[test]
    fn symbols_are_looked_for_where_kernels_are_built_and_installed() {
        let dir = tempfile::tempdir().unwrap();
        let boot = dir.path().join("arch/arm64/boot");
        std::fs::create_dir_all(&boot).unwrap();
        let known = |image: &Path, given: Option<&Path>| {
            Symbols::of(image, given).map(|symbols| symbols.functions.len())
        };
        let image = boot.join("Image");
        assert_eq!(known(&image, None).unwrap(), 0);
        let error = known(&image, Some(dir.path())).unwrap_err().to_string();
        assert!(error.contains("no System.map (--symbols)"), "{error}");
        std::fs::write(dir.path().join("System.map"), MAP).unwrap();
        assert_eq!(known(&image, None).unwrap(), 2);
        assert_eq!(known(Path::new("Image"), Some(dir.path())).unwrap(), 2);
        let installed = dir.path().join("vmlinuz-6.1");
        assert_eq!(known(&installed, None).unwrap(), 0);
        assert_eq!(known(&installed, Some(dir.path())).unwrap(), 2);
        std::fs::remove_file(dir.path().join("System.map")).unwrap();
        std::fs::write(dir.path().join("System.map-6.1"), MAP).unwrap();
        assert_eq!(known(&installed, None).unwrap(), 2);
    }

    #[test]
    fn lines_are_below_the_folder_of_the_source() {
        let dir = tempfile::tempdir().unwrap();
        let source = dir.path().join("source");
        for (name, text) in [
            ("init/main.c", "\nvoid start_kernel(void) { for (;;); }\n"),
            ("mm/memory.c", "int zap(void)\n{\n\treturn 1;\n}\n"),
        ] {
            std::fs::create_dir_all(source.join(name).parent().unwrap()).unwrap();
            std::fs::write(source.join(name), text).unwrap();
        }
        let run = |program: &str, args: &[&str]| {
            let mut command = std::process::Command::new(program);
            let output = command.args(args).current_dir(dir.path()).output().unwrap();
            assert!(output.status.success(), "{output:?}");
            output.stdout
        };
        let files = ["source/init/main.c", "source/mm/memory.c"].map(|name| dir.path().join(name));
        let files = files.each_ref().map(|path| path.to_str().unwrap());
        let link = [
            "-g",
            "-nostdlib",
            "-static",
            "-Wl,-e,start_kernel",
            "-o",
            "vmlinux",
        ];
        run("gcc", &[&link[..], &files[..]].concat());
        std::fs::write(dir.path().join("System.map"), run("nm", &["vmlinux"])).unwrap();

        let symbols = Symbols::beside(&dir.path().join("Image"));
        let (zap, _) = symbols
            .functions
            .iter()
            .find(|(_, name)| name == "zap")
            .unwrap();
        let line = |symbols: &Symbols| symbols.lines.as_ref().and_then(|lines| lines.line(*zap));
        assert_eq!(line(&symbols), Some("mm/memory.c:2".into()));

        run("strip", &["--strip-debug", "vmlinux"]);
        assert_eq!(line(&Symbols::beside(&dir.path().join("Image"))), None);
    }

    fn found() -> Findings {
        let place = |pc, callers: &[u64]| Place {
            cpu: 0,
            code: Code::at(pc),
            callers: callers.iter().map(|pc| Code::at(*pc)).collect(),
        };
        Findings {
            list: vec![Finding {
                kind: Kind::NoFlush,
                va: 0x10000,
                asid: Some(3),
                old: "64K at 0x1".into(),
                new: "64K at 0x2".into(),
                change: place(
                    0xffff_8000_8001_0108,
                    // The call is the last instruction of its function.
                    &[0xffff_8000_8001_0100, 0xffff_8100_0000_0000],
                ),
                usage: place(0x40_0000, &[]),
                count: 2,
            }],
            table_writes: 7,
            ..Findings::default()
        }
    }

    #[test]
    fn a_finding_fails_the_run_and_is_told_with_both_places() {
        let mut c = comparison(1, 1);
        let mut findings = found();
        Symbols::parse(MAP).apply(&mut findings);
        c.runs[0].referee = Some(findings);
        let text = lines(&c).join("\n");
        for part in [
            "no-flush at 0x10000 asid 3, 2 times",
            "  changed  CPU 0 at 0xffff800080010108 zap_pte_range+0x8\n        \
             called by _stext+0x100 < 0xffff810000000000\n      used     CPU 0 at 0x400000",
            "64K at 0x2",
            "7 page-table writes",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let verdicts = verdicts(&c);
        assert_eq!(verdicts.len(), 1);
        assert!(!verdicts[0].passed);
    }

    #[test]
    fn what_was_found_before_the_job_died_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let (image, counts) = (dir.path().join("Image"), dir.path().join("counts.json"));
        std::fs::write(dir.path().join("System.map"), MAP).unwrap();
        let told = |findings: Findings| {
            let report = Report {
                referee: Some(findings),
                ..Report::default()
            };
            std::fs::write(&counts, serde_json::to_vec(&report).unwrap()).unwrap();
            before_failure(Variant::Pristine, &image, &counts).join("\n")
        };
        let text = told(found());
        assert!(text.contains("referee: pristine: 1 found in 7"), "{text}");
        assert!(text.contains("zap_pte_range+0x8"), "{text}");
        assert_eq!(told(Findings::default()), "");
        std::fs::write(&counts, "{").unwrap();
        let none: Vec<String> = Vec::new();
        assert_eq!(before_failure(Variant::Pristine, &image, &counts), none);
    }

    #[test]
    fn a_referee_that_saw_nothing_proves_nothing() {
        let mut c = comparison(1, 1);
        let mut failed = |table_writes, forgotten| {
            c.runs[0].referee = Some(Findings {
                table_writes,
                forgotten,
                ..Findings::default()
            });
            let all = verdicts(&c).into_iter().filter(|verdict| !verdict.passed);
            all.map(|verdict| verdict.expectation).collect::<Vec<_>>()
        };
        assert_eq!(failed(0, 0), ["pristine: referee.table_writes>=1"]);
        assert_eq!(failed(1, 2), ["pristine: referee.forgotten<=0"]);
        assert_eq!(failed(1, 0), [""; 0]);
    }
}
