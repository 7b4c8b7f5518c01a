// SPDX-License-Identifier: GPL-2.0-only
//! How `wideleaf top` looks; made for 80 columns and 24 lines.

use crate::columns::{self, Column};
use crate::top_app::{App, TextMap, dominant};
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph};
use wideleaf_kit::names::printable;
use wideleaf_kit::size::bytes;
use wideleaf_kit::size::short;
use wideleaf_procmap::{Extent, Leaf, Vma};

/// Lines of the map: a title, mappings, a legend.
const MAP_LINES: u16 = 8;
const NAME: Column = Column::Of(&columns::NAME);
const LOAD: Column = Column::Of(&columns::LOAD);
/// Columns of a mapping's name in the map.
const LABEL: usize = 22;

/// Draws everything.
pub fn draw(frame: &mut Frame, app: &mut App) {
    let area = frame.area();
    if area.width < 40 || area.height < 10 {
        frame.render_widget(Paragraph::new("too small: 40 x 10 at least"), area);
        return;
    }
    let map_lines = MAP_LINES.min(area.height / 2);
    let [head, table, map, foot] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Min(3),
        Constraint::Length(map_lines),
        Constraint::Length(1),
    ])
    .areas(area);
    app.page = usize::from(table.height.saturating_sub(1));
    frame.render_widget(Paragraph::new(header(app)), head);
    frame.render_widget(Paragraph::new(rows(app, table)), table);
    frame.render_widget(Paragraph::new(text_map(app, map)), map);
    frame.render_widget(
        Paragraph::new(footer(app)).style(Style::new().add_modifier(Modifier::DIM)),
        foot,
    );
    if app.help {
        help(frame, area);
    }
}

fn header(app: &App) -> Vec<Line<'_>> {
    let status = match &app.snapshot {
        None => "reading /proc ...".to_owned(),
        Some(s) => {
            let lost = s
                .losses
                .first()
                .map_or_else(String::new, |l| format!("  ! {l}"));
            let every = if app.paused {
                "paused".to_owned()
            } else {
                format!("every {:.1} s", app.interval.as_secs_f64())
            };
            format!(
                "{} processes with text, read in {} ms, {every}{lost}",
                s.rows.len(),
                s.took.as_millis()
            )
        }
    };
    vec![
        Line::from(format!("wideleaf top  {}", app.info.cpu)).style(Modifier::BOLD),
        Line::from(status),
    ]
}

fn footer(app: &App) -> Line<'_> {
    let order = if app.descending {
        "largest first"
    } else {
        "smallest first"
    };
    Line::from(format!(
        "q quit  h help  up/down select  left/right sort by  r reverse ({order})"
    ))
}

/// Width of a column; names take what is left.
fn width(column: Column, area: Rect, columns: &[Column]) -> usize {
    if column == NAME {
        let others: usize = columns
            .iter()
            .filter(|c| **c != NAME)
            .map(|c| width(*c, area, columns) + 1)
            .sum();
        return usize::from(area.width).saturating_sub(others).clamp(8, 24);
    }
    match column {
        Column::Of(definition) if definition.name == columns::PID.name => 8,
        Column::Of(definition) if definition.name == columns::LOAD.name => 6,
        _ => 7,
    }
}

fn fit(text: &str, width: usize, left: bool) -> String {
    let text: String = text.chars().take(width).collect();
    if left {
        format!("{text:<width$}")
    } else {
        format!("{text:>width$}")
    }
}

/// The columns that there is room for. Left out first is what can be told
/// from the others; process, name, the widest leaf and the need stay, and what
/// is sorted by.
fn columns(app: &App, area: Rect) -> Vec<Column> {
    let mut columns = app.columns();
    // From the narrowest leaf that is no page up, then pages.
    let leaves = app.info.leaves.get(1..).unwrap_or_default();
    let (page, between) = leaves
        .split_last()
        .map_or((None, leaves), |(p, b)| (Some(p), b));
    let dispensable = [Column::Of(&columns::ABSENT)]
        .into_iter()
        .chain(between.iter().rev().map(|size| Column::Leaf(*size)))
        .chain([Column::Of(&columns::TEXT)])
        .chain(page.map(|size| Column::Leaf(*size)))
        .chain([LOAD]);
    for column in dispensable {
        let taken: usize = columns.iter().map(|c| width(*c, area, &columns) + 1).sum();
        if taken <= usize::from(area.width) + 1 {
            break;
        }
        if column != app.sort {
            columns.retain(|c| *c != column);
        }
    }
    columns
}

fn rows(app: &App, area: Rect) -> Vec<Line<'_>> {
    let columns = columns(app, area);
    let line = |cell: &dyn Fn(Column) -> String| {
        let cells: Vec<String> = columns
            .iter()
            .map(|c| fit(&cell(*c), width(*c, area, &columns), *c == NAME))
            .collect();
        cells.join(" ")
    };
    let mark = |column: Column| {
        let text = column.title();
        if column == app.sort {
            format!("{}{text}", if app.descending { 'v' } else { '^' })
        } else {
            text
        }
    };
    let mut lines = vec![
        Line::from(fit(&line(&mark), usize::from(area.width), true)).style(Modifier::REVERSED),
    ];
    let room = usize::from(area.height.saturating_sub(1));
    let at = app.position().unwrap_or(0);
    // The selected line stays in sight.
    let first = at.saturating_sub(room.saturating_sub(1));
    for row in app.rows().iter().skip(first).take(room) {
        let mut style = Style::new();
        if row.pressure.load_last.is_some_and(|l| l > 1.0) {
            style = style.fg(Color::Red);
        }
        if row.pid == app.selected {
            style = style
                .bg(Color::Blue)
                .fg(Color::White)
                .add_modifier(Modifier::BOLD);
        }
        lines.push(
            Line::from(fit(
                &line(&|c| c.cell(&row.line(&app.info.leaves), false)),
                usize::from(area.width),
                true,
            ))
            .style(style),
        );
    }
    lines
}

/// The sign and the colour of a leaf: fuller and greener is wider.
fn sign(leaf: Option<Leaf>, leaves: &[u64]) -> (char, Color) {
    let between = ['\u{2593}', '\u{2592}'];
    match leaf {
        None => ('\u{b7}', Color::DarkGray),
        Some(Leaf::Unknown) => ('?', Color::Yellow),
        Some(Leaf::Size(size)) if leaves.first().is_some_and(|widest| size >= *widest) => {
            ('\u{2588}', Color::Green)
        }
        Some(Leaf::Size(size)) if leaves.last().is_some_and(|page| size <= *page) => {
            ('\u{2591}', Color::Red)
        }
        Some(Leaf::Size(size)) => {
            let at = leaves[1..].iter().position(|s| *s <= size).unwrap_or(0);
            (between[at.min(1)], Color::Cyan)
        }
    }
}

fn text_map(app: &App, area: Rect) -> Vec<Line<'_>> {
    let map = app
        .snapshot
        .as_ref()
        .and_then(|s| s.map.as_ref())
        .filter(|m| m.pid == app.selected);
    let name = app.position().map_or("", |at| app.rows()[at].name.as_str());
    let Some(map) = map else {
        let what = if app.selected == 0 {
            "no process with text".to_owned()
        } else {
            format!("{} {name}: reading ...", app.selected)
        };
        return vec![Line::from(what)];
    };
    let room = usize::from(area.height).saturating_sub(2);
    let mut shown: Vec<&(Vma, Vec<Extent>)> = map.mappings.iter().collect();
    shown.sort_by_key(|(vma, _)| std::cmp::Reverse(vma.len()));
    let largest = shown.first().map_or(1, |(vma, _)| vma.len()).max(1);
    let left_out = shown.len().saturating_sub(room);
    shown.truncate(room);
    let more = if left_out > 0 {
        format!(", {left_out} smaller not drawn")
    } else {
        String::new()
    };
    let mut lines = vec![
        Line::from(format!(
            "text of {} {name}: {} mappings{more}",
            map.pid,
            map.mappings.len()
        ))
        .style(Modifier::BOLD),
    ];
    let cells = usize::from(area.width).saturating_sub(LABEL + 9).max(1);
    lines.extend(
        shown
            .into_iter()
            .map(|(vma, runs)| bar(vma, runs, largest, cells, &app.info.leaves)),
    );
    lines.resize(room + 1, Line::default());
    lines.push(legend(
        &app.info.leaves,
        map,
        largest.div_ceil(cells as u64),
    ));
    lines
}

fn bar<'a>(vma: &Vma, runs: &[Extent], largest: u64, cells: usize, leaves: &[u64]) -> Line<'a> {
    let file = vma
        .name
        .rsplit('/')
        .next()
        .filter(|n| !n.is_empty())
        .unwrap_or("[anon]");
    let mut spans = vec![Span::raw(format!(
        "{} {:>7} ",
        fit(&printable(file), LABEL, true),
        bytes(vma.len(), false)
    ))];
    // In 128 bits: a mapping may have any size that 64 bits can tell.
    let count = (u128::from(vma.len()) * cells as u128)
        .div_ceil(u128::from(largest))
        .max(1);
    let edge = |i: u128| vma.start + (u128::from(vma.len()) * i / count) as u64;
    for i in 0..count {
        let (start, end) = (edge(i), edge(i + 1));
        let leaf = if start < end {
            dominant(runs, start, end)
        } else {
            None
        };
        let (symbol, color) = sign(leaf, leaves);
        spans.push(Span::styled(symbol.to_string(), Style::new().fg(color)));
    }
    Line::from(spans)
}

fn legend<'a>(leaves: &[u64], map: &TextMap, scale: u64) -> Line<'a> {
    let mut spans = Vec::new();
    let mut entry = |leaf: Option<Leaf>, text: String| {
        let (symbol, color) = sign(leaf, leaves);
        spans.push(Span::styled(symbol.to_string(), Style::new().fg(color)));
        spans.push(Span::raw(format!(" {text}  ")));
    };
    for size in leaves {
        entry(Some(Leaf::Size(*size)), short(*size));
    }
    if map
        .mappings
        .iter()
        .any(|(_, runs)| runs.iter().any(|r| r.leaf == Leaf::Unknown))
    {
        entry(Some(Leaf::Unknown), "unknown (not root)".to_owned());
    }
    entry(None, "absent".to_owned());
    spans.push(Span::raw(format!(
        "one sign: up to {}",
        bytes(scale, false)
    )));
    Line::from(spans)
}

fn help(frame: &mut Frame, area: Rect) {
    let text = "\
up down j k     select a process
Ctrl-Z          stop, fg goes on
PgUp PgDn g G   by pages, first, last
left right s S  sort by another column
r               reverse the order
+ -             longer or shorter interval
p               pause
space           read now
q Esc           quit

NEED  TLB entries to reach all resident text
LOAD% of the entries of the last TLB level
      (red: they cannot hold it)
?     cannot be told without root";
    let lines = text.lines().count() as u16 + 2;
    let (width, height) = (50.min(area.width), lines.min(area.height));
    let place = Rect::new(
        area.x + (area.width - width) / 2,
        area.y + (area.height - height) / 2,
        width,
        height,
    );
    frame.render_widget(Clear, place);
    let block = Block::bordered()
        .title("keys (any key closes)")
        .title_alignment(Alignment::Center);
    frame.render_widget(Paragraph::new(text).block(block), place);
}
