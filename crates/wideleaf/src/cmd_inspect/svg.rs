// SPDX-License-Identifier: GPL-2.0-only
//! The picture as SVG: for each file its segments to scale, below them a lane
//! for each leaf size with the whole blocks that it could use.

use super::picture::{Axis, State, runs};
use std::fmt::Write;
use wideleaf_elf::Segment;
use wideleaf_inspect::Entry;
use wideleaf_kit::names::deceives;
use wideleaf_kit::size::bytes as size;
use wideleaf_kit::size::short;

const WIDTH: f64 = 1000.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;
const LANE: f64 = 22.0;
const GAP: f64 = 6.0;
const LEGEND: f64 = 40.0;
/// More would not be looked at.
const MAX_FILES: usize = 50;
/// Block boundaries are drawn if they are at least this far apart.
const MIN_TICK: f64 = 4.0;

const STYLE: &str = "text{font:12px sans-serif;fill:#222}.title{font-weight:bold}\
.code{fill:#3b6fb6}.constants{fill:#9db4cf}.data{fill:#d9b26f}.cut{fill:#fff;stroke:#999;stroke-dasharray:2 2}\
.usable{fill:#4f9d5d}.wasted{fill:url(#wasted);stroke:#c0504d;stroke-width:.5}\
.tick{stroke:#fff;stroke-width:.7}.lane{fill:#f4f4f4}";

/// Draws files one below the other, the first fifty if there are more.
pub fn draw(entries: &[&Entry]) -> String {
    let drawn = &entries[..entries.len().min(MAX_FILES)];
    let height = LEGEND + drawn.iter().map(|entry| file_height(entry)).sum::<f64>();
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 0 {WIDTH} {height}\">\n<style>{STYLE}</style>\n\
         <defs><pattern id=\"wasted\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" \
         patternTransform=\"rotate(45)\"><rect width=\"6\" height=\"6\" fill=\"#fbeaea\"/>\
         <rect width=\"2\" height=\"6\" fill=\"#c0504d\"/></pattern></defs>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
    );
    legend(&mut svg);
    let mut top = LEGEND;
    for entry in drawn {
        file(&mut svg, entry, top);
        top += file_height(entry);
    }
    svg + "</svg>\n"
}

/// Two lines of title, the segments, the leaf sizes, addresses, some room.
fn file_height(entry: &Entry) -> f64 {
    let lanes = 1.0 + entry.elf.machine.leaves().len() as f64;
    2.0 * LANE + lanes * (LANE + GAP) + 3.0 * LANE
}

fn legend(svg: &mut String) {
    let keys = [
        ("code", "code"),
        ("constants", "constants"),
        ("data", "data"),
        ("usable", "whole blocks that leaves of this size can map"),
        ("wasted", "whole blocks that they cannot, as the file is"),
    ];
    let mut x = LEFT;
    for (class, text) in keys {
        let _ = writeln!(
            svg,
            "<rect class=\"{class}\" x=\"{x}\" y=\"12\" width=\"14\" height=\"14\"/>\
             <text x=\"{}\" y=\"23\">{text}</text>",
            x + 20.0
        );
        x += 45.0 + 6.5 * text.len() as f64;
    }
}

fn file(svg: &mut String, entry: &Entry, top: f64) {
    label(
        svg,
        LEFT,
        top + 16.0,
        "title",
        &entry.path.display().to_string(),
    );
    label(svg, LEFT, top + 34.0, "", &summary(entry));
    let Some(axis) = Axis::new(&entry.elf.segments) else {
        return;
    };
    let mut y = top + 2.0 * LANE;
    label(svg, 8.0, y + 15.0, "", "segments");
    for (from, to) in axis.cuts() {
        rect(svg, "cut", from, to, y, "hole between segments, cut short");
    }
    for segment in entry.elf.segments.iter().filter(|s| s.memory_size > 0) {
        let from = axis.position(segment.address);
        let to = axis.position(segment.address + segment.memory_size);
        rect(svg, class(segment), from, to, y, &describe(segment));
    }
    for leaf in entry.elf.machine.leaves() {
        y += LANE + GAP;
        lane(svg, entry, &axis, *leaf, y);
    }
    let first = entry.elf.segments.iter().map(|s| s.address).min();
    let last = entry
        .elf
        .segments
        .iter()
        .map(|s| s.address + s.memory_size)
        .max();
    let (first, last) = (first.unwrap_or(0), last.unwrap_or(0));
    label(svg, LEFT, y + LANE + 16.0, "", &format!("{first:#x}"));
    let end = format!("{last:#x}");
    label(
        svg,
        WIDTH - RIGHT - 8.0 * end.len() as f64,
        y + LANE + 16.0,
        "",
        &end,
    );
}

fn summary(entry: &Entry) -> String {
    let verdict = &entry.verdict;
    let cause = verdict.main().map_or("no text", |v| v.cause.label());
    format!(
        "{} of text, 2M leaves can map {}, {} to gain ({cause})",
        size(verdict.text, false),
        size(verdict.usable, false),
        size(verdict.gain, false)
    )
}

fn lane(svg: &mut String, entry: &Entry, axis: &Axis, leaf: u64, y: f64) {
    label(svg, 8.0, y + 15.0, "", &short(leaf));
    rect(svg, "lane", 0.0, 1.0, y, "");
    for run in runs(entry, leaf) {
        let (from, to) = (axis.position(run.start), axis.position(run.end));
        let blocks = (run.end - run.start) / leaf;
        let (class, word) = match run.state {
            State::Usable => ("usable", "usable"),
            State::Wasted => ("wasted", "not usable as the file is"),
        };
        let text = format!("{blocks} × {}, {word}", short(leaf));
        rect(svg, class, from, to, y, &text);
        if run.state == State::Usable && (to - from) * plot() / blocks as f64 >= MIN_TICK {
            for block in 1..blocks {
                let x = x(axis.position(run.start + block * leaf));
                let bottom = y + LANE;
                let _ = writeln!(
                    svg,
                    "<line class=\"tick\" x1=\"{x:.2}\" y1=\"{y:.1}\" x2=\"{x:.2}\" y2=\"{bottom:.1}\"/>"
                );
            }
        }
    }
}

fn plot() -> f64 {
    WIDTH - LEFT - RIGHT
}

fn x(position: f64) -> f64 {
    LEFT + plot() * position
}

fn class(segment: &Segment) -> &'static str {
    match (segment.write, segment.execute) {
        (true, _) => "data",
        (false, true) => "code",
        (false, false) => "constants",
    }
}

fn describe(segment: &Segment) -> String {
    format!(
        "segment {} {}: address {:#x}, offset {:#x}, {}",
        segment.index,
        segment.flags(),
        segment.address,
        segment.offset,
        size(segment.file_size, false)
    )
}

/// A rectangle at least half a pixel wide, so that small segments are seen.
fn rect(svg: &mut String, class: &str, from: f64, to: f64, y: f64, title: &str) {
    let width = (x(to) - x(from)).max(0.5);
    let _ = writeln!(
        svg,
        "<rect class=\"{class}\" x=\"{:.2}\" y=\"{y:.1}\" width=\"{width:.2}\" height=\"{LANE}\"><title>{}</title></rect>",
        x(from),
        escape(title)
    );
}

fn label(svg: &mut String, x: f64, y: f64, class: &str, text: &str) {
    let _ = writeln!(
        svg,
        "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>",
        escape(text)
    );
}

/// File names may hold anything, control characters included, which XML may
/// not.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            c if c.is_control() || deceives(c) || matches!(c, '\u{fffe}' | '\u{ffff}') => {
                escaped.push('\u{fffd}')
            }
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn hostile_file_names_stay_text() {
        assert_eq!(escape("a<b>&\"c\u{1}"), "a&lt;b&gt;&amp;&quot;c\u{fffd}");
    }
}
