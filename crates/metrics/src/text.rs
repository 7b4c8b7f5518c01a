// SPDX-License-Identifier: GPL-2.0-only
//! The exposition format: OpenMetrics 1.0 text.
//!
//! Only gauges are used, so that the same text is also valid in Prometheus'
//! older text format 0.0.4, which node_exporter's textfile collector reads:
//! there `# UNIT` and `# EOF` are comments.

use crate::snapshot::{Group, Snapshot};
use std::fmt::Write;
use wideleaf_kit::names::printable;
use wideleaf_kit::size::short;

struct Family<'a> {
    name: &'a str,
    unit: &'a str,
    help: &'a str,
}

/// The text of a snapshot.
pub fn render(snapshot: &Snapshot) -> String {
    let mut out = String::new();
    mapped(&mut out, snapshot);
    per_group(
        &mut out,
        snapshot,
        &Family {
            name: "wideleaf_text_size_bytes",
            unit: "bytes",
            help: "Executable mappings, resident or not, summed over processes.",
        },
        |g| Some(g.text.size as f64),
    );
    per_group(
        &mut out,
        snapshot,
        &Family {
            name: "wideleaf_text_absent_bytes",
            unit: "bytes",
            help: "Executable mappings that are not resident, summed over processes.",
        },
        |g| Some(g.text.absent() as f64),
    );
    per_group(
        &mut out,
        snapshot,
        &Family {
            name: "wideleaf_processes",
            unit: "",
            help: "Processes with executable mappings.",
        },
        |g| Some(g.processes as f64),
    );
    per_group(
        &mut out,
        snapshot,
        &Family {
            name: "wideleaf_tlb_max_needed_entries",
            unit: "entries",
            help: "TLB entries to reach all resident text of the neediest process.",
        },
        |g| Some(g.needed as f64),
    );
    per_group(
        &mut out,
        snapshot,
        &Family {
            name: "wideleaf_tlb_max_load_ratio",
            unit: "ratio",
            help: "Those entries against the entries of the last TLB level; above 1 it cannot hold the text.",
        },
        |g| g.load,
    );
    machine(&mut out, snapshot);
    linear_map(&mut out, snapshot);
    out.push_str("# EOF\n");
    out
}

fn head(out: &mut String, family: &Family) {
    let Family { name, unit, help } = family;
    let _ = writeln!(out, "# TYPE {name} gauge");
    if !unit.is_empty() {
        let _ = writeln!(out, "# UNIT {name} {unit}");
    }
    let _ = writeln!(out, "# HELP {name} {help}");
}

fn mapped(out: &mut String, snapshot: &Snapshot) {
    let name = "wideleaf_text_mapped_bytes";
    head(
        out,
        &Family {
            name,
            unit: "bytes",
            help: "Resident executable mappings by the leaf that maps them, summed over processes; unknown: below PMD size, permission to tell is missing.",
        },
    );
    for (cgroup, group) in &snapshot.groups {
        let labels = labels(cgroup, group);
        for (leaf, bytes) in &group.text.leaves {
            let _ = writeln!(out, "{name}{{{labels},leaf=\"{}\"}} {bytes}", short(*leaf));
        }
        if group.text.unknown > 0 {
            let unknown = group.text.unknown;
            let _ = writeln!(out, "{name}{{{labels},leaf=\"unknown\"}} {unknown}");
        }
    }
}

fn per_group(
    out: &mut String,
    snapshot: &Snapshot,
    family: &Family,
    value: impl Fn(&Group) -> Option<f64>,
) {
    head(out, family);
    for (cgroup, group) in &snapshot.groups {
        if let Some(value) = value(group) {
            let _ = writeln!(out, "{}{{{}}} {value}", family.name, labels(cgroup, group));
        }
    }
}

/// The control group, and what is known of the container that it is.
fn labels(cgroup: &str, group: &Group) -> String {
    let mut labels = format!("cgroup=\"{}\"", escape(cgroup));
    let Some(container) = &group.container else {
        return labels;
    };
    let name = container.label().to_owned();
    for (label, value) in [
        ("namespace", container.namespace.clone()),
        ("pod", container.pod.clone()),
        ("container", Some(name)),
        ("image", container.image.clone()),
    ] {
        if let Some(value) = value {
            let _ = write!(labels, ",{label}=\"{}\"", escape(&value));
        }
    }
    labels
}

fn machine(out: &mut String, snapshot: &Snapshot) {
    let family = Family {
        name: "wideleaf_cpu_tlb_entries",
        unit: "entries",
        help: "TLB entries for instructions of the CPU, by level.",
    };
    head(out, &family);
    for (level, entries) in &snapshot.tlb {
        let _ = writeln!(out, "{}{{level=\"{level}\"}} {entries}", family.name);
    }
    let family = Family {
        name: "wideleaf_processes_unreadable",
        unit: "",
        help: "Processes of which all (denied, failed) or the leaves below PMD size (partly) could not be read.",
    };
    head(out, &family);
    for (reason, count) in snapshot
        .unreadable
        .iter()
        .chain([&("partly", snapshot.partly)])
    {
        let _ = writeln!(out, "{}{{reason=\"{reason}\"}} {count}", family.name);
    }
    let family = Family {
        name: "wideleaf_container_sources_unreadable",
        unit: "",
        help: "Container runtimes that could not be asked, and files of theirs that could not be read.",
    };
    head(out, &family);
    let _ = writeln!(out, "{} {}", family.name, snapshot.unasked);
    let family = Family {
        name: "wideleaf_collect_duration_seconds",
        unit: "seconds",
        help: "Time that reading all processes took.",
    };
    head(out, &family);
    let _ = writeln!(out, "{} {:.6}", family.name, snapshot.seconds);
    let family = Family {
        name: "wideleaf_build_info",
        unit: "",
        help: "The version of wideleaf, as a label.",
    };
    head(out, &family);
    let _ = writeln!(
        out,
        "{}{{version=\"{}\"}} 1",
        family.name,
        escape(snapshot.version)
    );
}

/// The kernel's linear map, where the kernel tells of it.
fn linear_map(out: &mut String, snapshot: &Snapshot) {
    let families = [
        (
            "wideleaf_linear_map_bytes",
            "bytes",
            "The kernel's linear map by the leaf that maps it.",
            "leaf",
            &snapshot.linear,
        ),
        (
            "wideleaf_linear_map_changes",
            "",
            "Splits and collapses of the kernel's linear map since boot.",
            "what",
            &snapshot.linear_events,
        ),
    ];
    for (name, unit, help, label, values) in families {
        if values.is_empty() {
            continue;
        }
        head(out, &Family { name, unit, help });
        for (value, count) in values {
            let _ = writeln!(out, "{name}{{{label}=\"{}\"}} {count}", escape(value));
        }
    }
}

/// A label's value: backslash, quote and newline are escaped as the format
/// wants, other characters that control a terminal as text.
fn escape(value: &str) -> String {
    let lines: Vec<String> = value.split('\n').map(printable).collect();
    lines
        .join("\n")
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, HashSet};
    use wideleaf_containers::Container;
    use wideleaf_procmap::Coverage;

    fn snapshot() -> Snapshot {
        let text = Coverage {
            size: 4 << 20,
            resident: (2 << 20) + 8192,
            leaves: BTreeMap::from([(4096, 4096), (2 << 20, 2 << 20)]),
            unknown: 4096,
        };
        let group = Group {
            processes: 2,
            text,
            needed: 3,
            load: Some(0.25),
            container: None,
        };
        Snapshot {
            groups: BTreeMap::from([("/a \"b\"\\c\nd".to_owned(), group)]),
            page: 4096,
            tlb: vec![(1, 64), (2, 2048)],
            linear: BTreeMap::new(),
            linear_events: BTreeMap::new(),
            unreadable: vec![("denied", 1), ("failed", 0)],
            unasked: 0,
            partly: 1,
            seconds: 0.0125,
            version: "1.2.3",
        }
    }

    #[test]
    fn a_hostile_control_group_stays_one_label_on_one_line() {
        let text = render(&snapshot());
        assert!(
            text.contains(
                "wideleaf_text_mapped_bytes{cgroup=\"/a \\\"b\\\"\\\\c\\nd\",leaf=\"2M\"} 2097152\n"
            ),
            "{text}"
        );
        assert!(text.contains(",leaf=\"unknown\"} 4096\n"));
        assert!(
            text.contains("wideleaf_tlb_max_load_ratio{cgroup=\"/a \\\"b\\\"\\\\c\\nd\"} 0.25\n")
        );
    }

    #[test]
    fn a_container_s_group_has_its_names() {
        let mut snapshot = snapshot();
        let container = Container {
            id: "0123456789abcdef".into(),
            name: Some("app".into()),
            image: Some("shop:\"2\"".into()),
            pod: Some("web-0".into()),
            namespace: Some("shop".into()),
            runtime: Some("containerd"),
        };
        snapshot.name(|_| Some(container.clone()));
        let text = render(&snapshot);
        let labels = r#",namespace="shop",pod="web-0",container="app",image="shop:\"2\"""#;
        assert!(
            text.contains(&format!("{labels},leaf=\"2M\"}} 2097152\n")),
            "{text}"
        );
        assert!(text.contains(&format!("{labels}}} 0.25\n")), "{text}");
        snapshot.name(|_| {
            Some(Container {
                name: None,
                image: None,
                pod: None,
                namespace: None,
                ..container.clone()
            })
        });
        assert!(render(&snapshot).contains(",container=\"0123456789ab\"}"));
    }

    #[test]
    fn the_rules_of_openmetrics() {
        let text = render(&snapshot());
        assert!(text.ends_with("# EOF\n"));
        assert_eq!(text.matches("# EOF").count(), 1);
        let mut seen = HashSet::new();
        let mut current = String::new();
        for line in text.lines() {
            let words: Vec<&str> = line.splitn(4, ' ').collect();
            match words[..] {
                ["#", "TYPE", name, kind] => {
                    assert!(seen.insert(name.to_owned()), "{name} twice");
                    assert_eq!(kind, "gauge");
                    current = name.to_owned();
                }
                ["#", "UNIT", name, unit] => assert!(
                    name == current && name.ends_with(&format!("_{unit}")),
                    "{line}"
                ),
                ["#", "HELP", name, _] => assert_eq!(name, current),
                ["#", "EOF"] => {}
                _ => assert!(line.starts_with(&current), "{line}: not of {current}"),
            }
        }
    }

    #[test]
    fn the_linear_map_is_told_where_the_kernel_tells() {
        let mut snapshot = snapshot();
        assert!(!render(&snapshot).contains("linear_map"));
        snapshot.linear.insert("2M".into(), 4096);
        snapshot.linear_events.insert("splits".into(), 3);
        let text = render(&snapshot);
        assert!(
            text.contains("\nwideleaf_linear_map_bytes{leaf=\"2M\"} 4096\n"),
            "{text}"
        );
        assert!(
            text.contains("\nwideleaf_linear_map_changes{what=\"splits\"} 3\n"),
            "{text}"
        );
    }

    #[test]
    fn nothing_to_tell_is_still_valid() {
        assert!(render(&Snapshot::default()).ends_with("# EOF\n"));
    }
}
