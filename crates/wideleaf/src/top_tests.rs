// SPDX-License-Identifier: GPL-2.0-only
//! `wideleaf top` at 80 x 24 without a terminal.

use crate::columns::{self, Column};
use crate::procset::Pressure;
use crate::top_app::{Action, Info, Snapshot};
use crate::top_app::{App, Row, TextMap, dominant};
use crate::top_view::draw;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::collections::BTreeMap;
use std::time::Duration;
use wideleaf_procmap::Coverage;
use wideleaf_procmap::{Extent, Leaf, Sight, Vma};

const M2: u64 = 2 << 20;

fn row(pid: u32, name: &str, wide: u64, unknown: u64) -> Row {
    let text = Coverage {
        size: 8 * M2,
        resident: wide + M2,
        leaves: BTreeMap::from([(M2, wide), (4096, M2 - unknown)]),
        unknown,
    };
    let needed = wide / M2 + 512;
    Row {
        pid,
        name: name.to_owned(),
        text,
        pressure: Pressure {
            needed,
            needed_by_leaf: BTreeMap::new(),
            entries_l1: Some(64),
            entries_last: Some(2048),
            load_l1: None,
            load_last: Some(needed as f64 / 512.0),
        },
        sight: if unknown > 0 { Sight::Pmd } else { Sight::Full },
    }
}

fn vma(start: u64, end: u64, name: &str) -> Vma {
    Vma {
        start,
        end,
        perms: "r-xp".into(),
        offset: 0,
        device: "0:0".into(),
        inode: 1,
        name: name.into(),
        name_bytes: None,
        deleted: false,
    }
}

fn app() -> App {
    let info = Info {
        cpu: "AMD EPYC  TLB 64 + 2048".to_owned(),
        leaves: vec![M2, 16384, 4096],
    };
    let mut app = App::new(info, Duration::from_secs(2));
    let run = |start, len, leaf| Extent {
        start,
        len,
        leaf: Leaf::Size(leaf),
    };
    let map = TextMap {
        pid: 20,
        mappings: vec![
            (
                vma(4 * M2, 12 * M2, "/usr/bin/node"),
                vec![
                    run(4 * M2, 4 * M2, M2),
                    run(8 * M2, M2, 16384),
                    run(9 * M2, M2, 4096),
                ],
            ),
            (
                vma(20 * M2, 21 * M2, "/lib/libc.so.6"),
                vec![run(20 * M2, M2, 4096)],
            ),
        ],
    };
    let rows = vec![
        row(10, "bash", 0, 0),
        row(20, "node", 4 * M2, 0),
        row(30, "other\u{20ac}", 2 * M2, 4096),
    ];
    app.update(Snapshot {
        rows,
        map: Some(map),
        losses: Vec::new(),
        took: Duration::from_millis(7),
    });
    app
}

fn screen(app: &mut App, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, app)).unwrap();
    let buffer = terminal.backend().buffer();
    let lines: Vec<String> = (0..height)
        .map(|y| {
            (0..width)
                .map(|x| buffer[(x, y)].symbol())
                .collect::<String>()
                .trim_end()
                .to_owned()
        })
        .collect();
    lines.join("\n")
}

#[test]
fn what_is_drawn_at_80_by_24() {
    let expected = "\
wideleaf top  AMD EPYC  TLB 64 + 2048
3 processes with text, read in 7 ms, every 2.0 s
     PID NAME                    TEXT      2M     16K      4K  ABSENT   vNEED  LOAD%
      20 node                     16M      8M       0      2M      6M     516    101
      30 other\u{20ac}                   16M      4M       ?      2M     10M   <=514  <=100
      10 bash                     16M       0       0      2M     14M     512    100";
    let drawn = screen(&mut app(), 80, 24);
    let wanted: Vec<&str> = expected.lines().collect();
    for (drawn, wanted) in drawn.lines().zip(&wanted) {
        let squeezed = |s: &str| s.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(squeezed(drawn), squeezed(wanted));
        assert!(drawn.chars().count() <= 80);
    }
    let map: Vec<&str> = drawn.lines().skip(15).collect();
    assert_eq!(map[0], "text of 20 node: 2 mappings");
    // 16M over 49 signs: half 2M, an eighth 16K, an eighth 4K, rest absent.
    let bar = map[1]
        .strip_prefix("node                       16M ")
        .expect(map[1]);
    let count = |c: char| bar.chars().filter(|b| *b == c).count();
    assert_eq!(
        (count('\u{2588}'), count('\u{2593}'), count('\u{2591}')),
        (25, 6, 6),
        "{bar}"
    );
    assert_eq!(bar.chars().count(), 49);
    assert!(
        map[2].starts_with("libc.so.6                   2M \u{2591}\u{2591}"),
        "{}",
        map[2]
    );
    assert!(
        map[7].starts_with("\u{2588} 2M  \u{2593} 16K  \u{2591} 4K  \u{b7} absent"),
        "{}",
        map[7]
    );
    assert!(map[8].starts_with("q quit"));
}

fn press(app: &mut App, code: KeyCode) -> Action {
    app.key(KeyEvent::new(code, KeyModifiers::NONE))
}

#[test]
fn keys_select_sort_and_quit() {
    let mut app = app();
    assert_eq!(app.selected, 20, "the neediest comes first");
    assert_eq!(press(&mut app, KeyCode::Down), Action::Refresh);
    assert_eq!(app.selected, 30);
    press(&mut app, KeyCode::End);
    assert_eq!(app.selected, 10);
    assert_eq!(
        press(&mut app, KeyCode::Down),
        Action::None,
        "there is no further one"
    );
    for _ in 0..app.columns().len() {
        press(&mut app, KeyCode::Right);
    }
    assert_eq!(app.sort, Column::Of(&columns::NEED), "once around");
    app.sort = Column::Of(&columns::PID);
    app.descending = true;
    press(&mut app, KeyCode::Char('r'));
    assert_eq!(
        app.rows().iter().map(|r| r.pid).collect::<Vec<_>>(),
        [10, 20, 30]
    );
    assert_eq!(press(&mut app, KeyCode::Char('h')), Action::None);
    assert!(screen(&mut app, 80, 24).contains("keys (any key closes)"));
    press(&mut app, KeyCode::Char('x'));
    assert!(!app.help);
    assert_eq!(press(&mut app, KeyCode::Char('q')), Action::Quit);
}

#[test]
fn columns_are_left_out_whole_where_there_is_little_room() {
    let heading = |app: &mut App, width: u16| -> Vec<String> {
        let drawn = screen(app, width, 24);
        let line = drawn.lines().nth(2).unwrap().to_owned();
        line.split_whitespace().map(str::to_owned).collect()
    };
    let mut app = app();
    let all = [
        "PID", "NAME", "TEXT", "2M", "16K", "4K", "ABSENT", "vNEED", "LOAD%",
    ];
    assert_eq!(heading(&mut app, 80), all);
    assert_eq!(
        heading(&mut app, 60),
        ["PID", "NAME", "TEXT", "2M", "4K", "vNEED", "LOAD%"]
    );
    assert_eq!(
        heading(&mut app, 40),
        ["PID", "NAME", "2M", "vNEED", "LOAD%"]
    );
    for width in 40..80 {
        let heading = heading(&mut app, width);
        assert!(
            heading.iter().all(|h| all.contains(&h.as_str())),
            "{width}: {heading:?} is cut"
        );
        let drawn = screen(&mut app, width, 24);
        let row = drawn.lines().nth(3).unwrap();
        assert_eq!(
            row.split_whitespace().count(),
            heading.len(),
            "{width}: {row}"
        );
    }
    // What is sorted by stays.
    app.sort = Column::Of(&columns::ABSENT);
    assert!(heading(&mut app, 40).contains(&"vABSENT".to_owned()));
}

#[test]
fn keys_that_a_raw_terminal_makes_no_signals_of() {
    let mut app = app();
    let control = |c| KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL);
    assert_eq!(app.key(control('c')), Action::Quit);
    assert_eq!(app.key(control('4')), Action::Quit);
    assert_eq!(app.key(control('z')), Action::Suspend);
    app.help = true;
    assert_eq!(app.key(control('z')), Action::Suspend);
}

#[test]
fn any_size_can_be_drawn() {
    for (width, height) in [(1, 1), (40, 10), (79, 9), (200, 60), (500, 3)] {
        screen(&mut app(), width, height);
    }
    let mut empty = App::new(
        Info {
            cpu: String::new(),
            leaves: vec![M2, 4096],
        },
        Duration::from_secs(1),
    );
    assert!(screen(&mut empty, 80, 24).contains("reading /proc"));
    assert_eq!(press(&mut empty, KeyCode::Down), Action::None);
}

#[test]
fn the_selection_stays_on_its_process_until_it_ends() {
    let mut app = app();
    app.selected = 10;
    let pass = |pids: &[u32]| Snapshot {
        rows: pids.iter().map(|p| row(*p, "x", 0, 0)).collect(),
        map: None,
        losses: Vec::new(),
        took: Duration::ZERO,
    };
    app.update(pass(&[5, 10, 20]));
    assert_eq!(app.selected, 10);
    app.update(pass(&[5, 20]));
    assert_eq!(app.selected, 5);
    app.update(pass(&[]));
    assert_eq!(app.selected, 0);
}

#[test]
fn the_leaf_of_most_bytes_is_drawn() {
    let runs = [
        Extent {
            start: 100,
            len: 10,
            leaf: Leaf::Size(1),
        },
        Extent {
            start: 110,
            len: 30,
            leaf: Leaf::Size(2),
        },
    ];
    assert_eq!(dominant(&runs, 100, 112), Some(Leaf::Size(1)));
    assert_eq!(dominant(&runs, 108, 120), Some(Leaf::Size(2)));
    assert_eq!(dominant(&runs, 130, 200), None);
    assert_eq!(dominant(&[], 0, 10), None);
}
