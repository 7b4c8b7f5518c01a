// SPDX-License-Identifier: GPL-2.0-only
//! `wideleaf top`: the figures of `ps`, live.

use crate::procset::{Choice, Image, MachineArgs, Machinery};
use crate::stdout;
use crate::top_app::{Action, App, Info, Row, Snapshot, TextMap};
use crate::top_signals::Signals;
use crate::top_view::draw;
use anyhow::{Context, Result, bail};
use ratatui::backend::Backend;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};
use wideleaf_kit::names::printable;
use wideleaf_procmap::{Scope, Select};

/// Arguments of `wideleaf top`.
#[derive(clap::Args)]
#[command(after_long_help = "\
Press h for the keys. Without a terminal, use `wideleaf ps`.

Examples:
  wideleaf top
  wideleaf top --name node")]
pub struct Args {
    /// Seconds between two passes
    #[arg(short, long, value_name = "SECONDS", default_value_t = 2.0, value_parser = seconds)]
    delay: f64,
    #[command(flatten)]
    choice: Choice,
    #[command(flatten)]
    image: Image,
    #[command(flatten)]
    machine: MachineArgs,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(s) if (0.5..=60.0).contains(&s) => Ok(s),
        _ => Err("a number from 0.5 to 60 is needed".to_owned()),
    }
}

/// The request to the reading thread: the process whose map is wanted.
struct Request {
    selected: u32,
}

/// Runs `wideleaf top`.
pub fn run(args: Args) -> Result<ExitCode> {
    if !stdout::is_terminal() || !std::io::stdin().is_terminal() {
        bail!("top needs a terminal; `wideleaf ps` prints the same once");
    }
    let machine = args.machine.machinery()?;
    let info = Info {
        cpu: cpu_line(&machine),
        leaves: machine.leaves(),
    };
    let mut app = App::new(info, Duration::from_secs_f64(args.delay));
    // Reading a big machine's /proc takes a while; keys must not wait for it.
    let (requests, inbox) = channel();
    let (outbox, snapshots) = channel();
    let select = args.choice.select(args.image.image.as_deref())?;
    std::thread::Builder::new()
        .name("reader".to_owned())
        .spawn(move || read(machine, &select, &inbox, &outbox))
        .context("cannot start the reading thread")?;
    let signals = Signals::register()?;
    signals.watch()?;
    let mut terminal = set_up()?;
    let result = interact(&mut terminal, &mut app, &requests, &snapshots, &signals);
    restore();
    // A terminal that has gone is an error of its own; the signal says why.
    signals.end();
    result.map(|()| ExitCode::SUCCESS)
}

/// Takes the terminal and clears it, which a screen that was left as it is by
/// somebody else needs.
fn set_up() -> Result<ratatui::DefaultTerminal> {
    let mut terminal = ratatui::try_init().context("cannot set up the terminal")?;
    // Not Terminal::clear(), which asks the terminal where its cursor is and waits for the answer.
    terminal.backend_mut().clear()?;
    Ok(terminal)
}

/// Leaves the terminal as it was. If it is gone there is nothing to restore,
/// and nobody to tell.
fn restore() {
    let _ = ratatui::try_restore();
}

fn cpu_line(machine: &Machinery) -> String {
    let cpu = &machine.cpu;
    let tlb = cpu.tlb.as_ref().map_or_else(
        || "TLB size unknown".to_owned(),
        |tlb| {
            let levels: Vec<String> = (1..=tlb.last_level().unwrap_or(1))
                .map(|l| tlb.entries(l).to_string())
                .collect();
            format!("TLB {}", levels.join(" + "))
        },
    );
    format!("{}  {tlb}", cpu.name)
}

/// The reading thread: one pass for each request, until the other end closes.
fn read(
    mut machine: Machinery,
    select: &Select,
    inbox: &Receiver<Request>,
    outbox: &Sender<Result<Snapshot>>,
) {
    while let Ok(mut request) = inbox.recv() {
        // Only the latest of several that piled up matters.
        while let Ok(newer) = inbox.try_recv() {
            request = newer;
        }
        if outbox.send(pass(&mut machine, select, &request)).is_err() {
            return;
        }
    }
}

fn pass(machine: &mut Machinery, select: &Select, request: &Request) -> Result<Snapshot> {
    let started = Instant::now();
    let mut processes = Vec::new();
    let seen = machine.pass(None, Scope::Text, select, |mut process| {
        process.mappings = Vec::new();
        if process.total.size > 0 {
            processes.push(process);
        }
    })?;
    let row = |p: wideleaf_procmap::Process| Row {
        pressure: machine.pressure(&p.total),
        pid: p.pid,
        name: printable(&p.name),
        text: p.total,
        sight: p.sight,
    };
    let rows: Vec<Row> = processes.into_iter().map(row).collect();
    let losses = machine.losses(&seen);
    let mut runs = Vec::new();
    let selected = machine.reader.read(
        request.selected,
        Scope::Text,
        &Select::default(),
        &mut |run| runs.push(run),
    );
    let map = selected
        .ok()
        .flatten()
        .map(|process| TextMap::new(process, runs));
    Ok(Snapshot {
        rows,
        map,
        losses,
        took: started.elapsed(),
    })
}

fn interact(
    terminal: &mut ratatui::DefaultTerminal,
    app: &mut App,
    requests: &Sender<Request>,
    snapshots: &Receiver<Result<Snapshot>>,
    signals: &Signals,
) -> Result<()> {
    let ask = |app: &App| {
        requests
            .send(Request {
                selected: app.selected,
            })
            .context("the reading thread has ended")
    };
    ask(app)?;
    let mut asked = Instant::now();
    let mut waiting = true;
    loop {
        if signals.ending() {
            return Ok(());
        }
        let mut stop = signals.stopping();
        if signals.continued() {
            // Stopped from outside: the shell has used the terminal since.
            *terminal = set_up()?;
        }
        terminal.draw(|frame| draw(frame, app))?;
        // Events come first; the screen is drawn anew after each, resizes too.
        let mut again = false;
        if event::poll(Duration::from_millis(50))?
            && let Event::Key(key) = event::read()?
            && key.kind == KeyEventKind::Press
        {
            match app.key(key) {
                Action::Quit => return Ok(()),
                Action::Refresh => again = true,
                Action::Suspend => stop = true,
                Action::None => {}
            }
        }
        if stop {
            restore();
            signals.stop()?;
            *terminal = set_up()?;
            again = true;
        }
        match snapshots.recv_timeout(Duration::ZERO) {
            Ok(snapshot) => {
                let before = app.selected;
                app.update(snapshot?);
                waiting = false;
                // The pass read the map of another process: the first pass
                // could not know whose, or that one has ended.
                again |= app.selected != before;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => bail!("the reading thread has ended"),
        }
        let due = !app.paused && !waiting && asked.elapsed() >= app.interval;
        if again || due {
            ask(app)?;
            asked = Instant::now();
            waiting = true;
        }
    }
}
