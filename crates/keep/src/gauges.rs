// SPDX-License-Identifier: GPL-2.0-only
//! A pass for Prometheus.

use crate::{Kept, Pass};

/// Name, meaning, value.
type Gauge = (&'static str, &'static str, fn(&Kept) -> u64);

/// OpenMetrics text: a gauge for each file.
pub fn render(pass: &Pass) -> String {
    let mut text = String::new();
    let gauges: [Gauge; 3] = [
        ("blocks", "text in whole blocks", |file| file.blocks),
        ("wide", "of these, text in wide folios", |file| file.wide),
        ("read", "text that the last pass read", |file| file.read),
    ];
    for (name, help, value) in gauges {
        let name = format!("wideleaf_keep_{name}_bytes");
        text += &format!("# HELP {name} Bytes of {help}.\n# TYPE {name} gauge\n");
        for file in &pass.files {
            let path = label(&file.name.to_string_lossy());
            text += &format!("{name}{{file=\"{path}\"}} {}\n", value(file));
        }
    }
    let name = "wideleaf_keep_notes";
    text +=
        &format!("# HELP {name} Things that the last pass could not do.\n# TYPE {name} gauge\n");
    text + &format!("{name} {}\n# EOF\n", pass.notes.len())
}

fn label(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_a_line_in_each_gauge_whatever_its_name() {
        let pass = Pass {
            files: vec![Kept {
                name: "/a\"b\nc".into(),
                blocks: 4,
                wide: 2,
                read: 0,
                why: None,
            }],
            done: vec!["y".into()],
            notes: vec!["x".into()],
        };
        let text = render(&pass);
        assert!(
            text.contains("wideleaf_keep_wide_bytes{file=\"/a\\\"b\\nc\"} 2\n"),
            "{text}"
        );
        assert!(text.ends_with("wideleaf_keep_notes 1\n# EOF\n"), "{text}");
        assert_eq!(text.matches("{file=").count(), 3);
    }
}
