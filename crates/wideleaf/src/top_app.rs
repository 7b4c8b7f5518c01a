// SPDX-License-Identifier: GPL-2.0-only
//! The state of `wideleaf top` and how keys change it; no terminal here.

use crate::columns::{self, Column, Line};
use crate::procset::Pressure;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::time::Duration;
use wideleaf_procmap::{Coverage, Extent, Leaf, Process, Sight, Vma};

/// A line of the table.
pub struct Row {
    /// Process id.
    pub pid: u32,
    /// Command name.
    pub name: String,
    /// Its text by leaf.
    pub text: Coverage,
    /// TLB entries needed and there.
    pub pressure: Pressure,
    /// The part that could be seen.
    pub sight: Sight,
}

impl Row {
    /// As its columns show it.
    pub fn line(&self, leaves: &[u64]) -> Line<'_> {
        Line {
            pid: self.pid,
            name: &self.name,
            cgroup: "",
            container: None,
            sight: self.sight,
            coverage: &self.text,
            pressure: &self.pressure,
            mapping: None,
            made: None,
            page: leaves.last().copied().unwrap_or_default(),
            pmd: leaves.first().copied().unwrap_or_default(),
        }
    }
}

/// The text of one process, mapping by mapping.
pub struct TextMap {
    /// Whose.
    pub pid: u32,
    /// Mappings in address order with their runs in address order.
    pub mappings: Vec<(Vma, Vec<Extent>)>,
}

impl TextMap {
    /// Puts the runs of a process into its mappings; neighbours that are
    /// mapped alike become one.
    pub fn new(process: Process, runs: Vec<Extent>) -> Self {
        let mut runs = runs.into_iter().peekable();
        let mappings = process.mappings.into_iter().map(|mapping| {
            let mut own: Vec<Extent> = Vec::new();
            while let Some(run) = runs.next_if(|r| r.start < mapping.vma.end) {
                match own.last_mut() {
                    Some(last) if last.leaf == run.leaf && last.start + last.len == run.start => {
                        last.len += run.len
                    }
                    _ => own.push(run),
                }
            }
            (mapping.vma, own)
        });
        Self {
            pid: process.pid,
            mappings: mappings.collect(),
        }
    }
}

/// What maps most of the bytes `start..end`; `None` if most are absent.
pub fn dominant(runs: &[Extent], start: u64, end: u64) -> Option<Leaf> {
    let mut shares: Vec<(Option<Leaf>, u64)> = vec![(None, end - start)];
    let first = runs.partition_point(|r| r.start + r.len <= start);
    for run in runs[first..].iter().take_while(|r| r.start < end) {
        let bytes = end.min(run.start + run.len) - start.max(run.start);
        shares[0].1 -= bytes;
        match shares.iter_mut().find(|s| s.0 == Some(run.leaf)) {
            Some(share) => share.1 += bytes,
            None => shares.push((Some(run.leaf), bytes)),
        }
    }
    // At a tie what is mapped counts.
    shares
        .into_iter()
        .max_by_key(|(leaf, bytes)| (*bytes, leaf.is_some()))
        .and_then(|s| s.0)
}

/// Everything of one pass.
pub struct Snapshot {
    /// The processes with text, in no order.
    pub rows: Vec<Row>,
    /// The map of the selected process, if it is still there.
    pub map: Option<TextMap>,
    /// The part that could not be seen, for people.
    pub losses: Vec<String>,
    /// How long the pass took.
    pub took: Duration,
}

/// The things that never change while `top` runs.
pub struct Info {
    /// The CPU in a few words.
    pub cpu: String,
    /// Leaf sizes with a column, widest first.
    pub leaves: Vec<u64>,
}

/// The request of a key.
#[derive(Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing outside of the state.
    None,
    /// End.
    Quit,
    /// Read again, now.
    Refresh,
    /// Stop until the shell continues it.
    Suspend,
}

/// The state.
pub struct App {
    /// Constants.
    pub info: Info,
    /// The last pass; `None` before the first.
    pub snapshot: Option<Snapshot>,
    /// Selected process; 0 for none.
    pub selected: u32,
    /// Sort column.
    pub sort: Column,
    /// Largest first.
    pub descending: bool,
    /// Time between passes.
    pub interval: Duration,
    /// No passes.
    pub paused: bool,
    /// The keys are shown.
    pub help: bool,
    /// Rows that the table has room for; the view sets it.
    pub page: usize,
}

impl App {
    /// A state that waits for its first pass.
    pub fn new(info: Info, interval: Duration) -> Self {
        Self {
            info,
            snapshot: None,
            selected: 0,
            sort: Column::Of(&columns::NEED),
            descending: true,
            interval,
            paused: false,
            help: false,
            page: 10,
        }
    }

    /// Takes a pass; the selection stays on its process, or goes to the first.
    pub fn update(&mut self, snapshot: Snapshot) {
        self.snapshot = Some(snapshot);
        self.order();
        if self.position().is_none() {
            self.selected = self.rows().first().map_or(0, |r| r.pid);
        }
    }

    /// The table in order.
    pub fn rows(&self) -> &[Row] {
        self.snapshot.as_ref().map_or(&[], |s| &s.rows)
    }

    /// Where the selected process is in the table.
    pub fn position(&self) -> Option<usize> {
        self.rows().iter().position(|r| r.pid == self.selected)
    }

    /// All columns that can be sorted by, left to right.
    pub fn columns(&self) -> Vec<Column> {
        let leaves = self.info.leaves.iter().copied().map(Column::Leaf);
        [&columns::PID, &columns::NAME, &columns::TEXT]
            .map(Column::Of)
            .into_iter()
            .chain(leaves)
            .chain([&columns::ABSENT, &columns::NEED, &columns::LOAD].map(Column::Of))
            .collect()
    }

    fn order(&mut self) {
        let (sort, descending, leaves) = (self.sort, self.descending, &self.info.leaves);
        if let Some(snapshot) = &mut self.snapshot {
            snapshot.rows.sort_by(|a, b| {
                let order = sort.compare(&a.line(leaves), &b.line(leaves));
                (if descending { order.reverse() } else { order }).then(a.pid.cmp(&b.pid))
            });
        }
    }

    fn move_by(&mut self, by: isize) -> Action {
        let last = self.rows().len().saturating_sub(1);
        let at = self
            .position()
            .unwrap_or(0)
            .saturating_add_signed(by)
            .min(last);
        let pid = self.rows().get(at).map_or(0, |r| r.pid);
        let changed = pid != self.selected;
        self.selected = pid;
        if changed {
            Action::Refresh
        } else {
            Action::None
        }
    }

    fn sort_by_neighbour(&mut self, by: isize) -> Action {
        let columns = self.columns();
        let at = columns.iter().position(|c| *c == self.sort).unwrap_or(0);
        let count = columns.len() as isize;
        self.sort = columns[(at as isize + by).rem_euclid(count) as usize];
        self.descending = self.sort.is_amount();
        self.order();
        Action::None
    }

    /// The effect of a key.
    pub fn key(&mut self, key: KeyEvent) -> Action {
        // The terminal is raw: what it would make signals of comes as keys.
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            match key.code {
                // Ctrl-\ is Ctrl-4 to terminals.
                KeyCode::Char('c' | '\\' | '4') => return Action::Quit,
                KeyCode::Char('z') => return Action::Suspend,
                _ => {}
            }
        }
        if self.help {
            // Any key closes the help, so that nobody is stuck in it.
            self.help = false;
            return if key.code == KeyCode::Char('q') {
                Action::Quit
            } else {
                Action::None
            };
        }
        let page = self.page.max(1) as isize;
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => Action::Quit,
            KeyCode::Char('h' | '?') | KeyCode::F(1) => {
                self.help = true;
                Action::None
            }
            KeyCode::Down | KeyCode::Char('j') => self.move_by(1),
            KeyCode::Up | KeyCode::Char('k') => self.move_by(-1),
            KeyCode::PageDown => self.move_by(page),
            KeyCode::PageUp => self.move_by(-page),
            KeyCode::Home | KeyCode::Char('g') => self.move_by(isize::MIN),
            KeyCode::End | KeyCode::Char('G') => self.move_by(isize::MAX),
            KeyCode::Right | KeyCode::Char('>' | 's') => self.sort_by_neighbour(1),
            KeyCode::Left | KeyCode::Char('<' | 'S') => self.sort_by_neighbour(-1),
            KeyCode::Char('r') => {
                self.descending = !self.descending;
                self.order();
                Action::None
            }
            KeyCode::Char('+') => {
                self.interval = (self.interval * 2).min(Duration::from_secs(60));
                Action::None
            }
            KeyCode::Char('-') => {
                self.interval = (self.interval / 2).max(Duration::from_millis(500));
                Action::None
            }
            KeyCode::Char('p') => {
                self.paused = !self.paused;
                Action::None
            }
            KeyCode::Char(' ') => Action::Refresh,
            _ => Action::None,
        }
    }
}
