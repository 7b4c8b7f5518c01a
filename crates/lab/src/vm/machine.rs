// SPDX-License-Identifier: GPL-2.0-only
//! Runs one guest to its end and tells how it ended.

use crate::vm::console::{self, Splat};
use crate::vm::monitor::Monitor;
use crate::vm::qemu::{self, Guest};
use crate::vm::scratch::Tethered;
use anyhow::Context;
use serde_json::Value;
use std::fmt;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use wideleaf_guest::protocol::{Failure as GuestFailure, Farewell, Hello, Message};

/// How often answers are looked for.
pub(super) const POLL: Duration = Duration::from_millis(20);

/// How long a QEMU may take to have its plugin write what it found, once it is to end.
pub(super) const LAST_WORDS: Duration = Duration::from_secs(10);

/// How often the console is searched while the guest runs. The kernel ends
/// itself after a fault; this is for one too broken to do so.
const CONSOLE_POLL: Duration = Duration::from_millis(500);

/// How long a kernel may take from its first complaint to the end.
const FAULT_GRACE: Duration = Duration::from_secs(10);

/// Taint that is no complaint: TAINT_TEST, bit 18, KUnit tests have run
/// (Documentation/admin-guide/tainted-kernels.rst).
const HARMLESS_TAINT: u64 = 1 << 18;

/// Console lines shown where the kernel did not complain.
const TAIL: usize = 20;

/// A guest that did what it was asked.
#[derive(Clone, Debug)]
pub struct Boot {
    /// The kernel that ran.
    pub hello: Hello,
    /// The phases in order.
    pub phases: Vec<PhaseSeen>,
    /// What the job found.
    pub outcome: Value,
    /// The guest's last words.
    pub farewell: Farewell,
    /// From QEMU's start to its end.
    pub wall: Duration,
}

/// A phase as the host saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhaseSeen {
    /// The number that the plugin knows.
    pub id: u8,
    /// The name.
    pub name: String,
    /// How long it took under emulation, if the guest told of its beginning:
    /// from there to the guest's next words.
    pub wall: Option<Duration>,
}

/// A guest that did not.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What happened.
    pub cause: Cause,
    /// The guest's last words on its work before that.
    pub said: Option<String>,
    /// Lines that show it: the kernel's, the guest's or QEMU's own.
    pub lines: Vec<String>,
}

/// What went wrong in a guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The kernel complained.
    Kernel(console::Kind),
    /// The kernel is tainted, but nothing on the console says why.
    Tainted(u64),
    /// It was still running at the time limit.
    Hang(Duration),
    /// It went off before it was done.
    PoweredOff,
    /// The guest said what failed.
    Job(String),
    /// QEMU failed.
    Qemu(String),
    /// An answer could not be understood.
    Garbled(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let said = self.said.iter();
        let after: String = said
            .map(|said| format!(", after it said '{said}'"))
            .collect();
        match &self.cause {
            Cause::Kernel(kind) => write!(f, "{kind} in the guest{after}")?,
            Cause::Tainted(bits) => write!(
                f,
                "the guest's kernel is tainted ({bits:#x}) and its console does not say why"
            )?,
            Cause::Hang(limit) => write!(
                f,
                "the guest hangs: not done within the time limit of {} s (--timeout){after}; its \
                 last lines",
                limit.as_secs()
            )?,
            Cause::PoweredOff => write!(
                f,
                "the guest went off before it was done{after}; its last lines"
            )?,
            Cause::Job(what) => write!(f, "the guest's job failed: {what}")?,
            Cause::Qemu(what) => write!(f, "QEMU failed: {what}")?,
            Cause::Garbled(what) => write!(f, "an answer of the guest is garbled: {what}")?,
        }
        for (n, line) in self.lines.iter().enumerate() {
            f.write_str(if n == 0 { ":" } else { "" })?;
            // What the guest tells may have lines of its own.
            for line in line.lines() {
                write!(f, "\n  | {line}")?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for Failure {}

/// The guest was ended because the one beside it failed.
#[derive(Clone, Copy, Debug)]
pub struct Cancelled;

impl fmt::Display for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ended early, because another guest failed")
    }
}

impl std::error::Error for Cancelled {}

/// Everything seen of a guest, from which [`judge`] decides.
#[derive(Debug, Default)]
struct Seen {
    answers: Answers,
    /// Its last words on its work, but for those after the kernel complained.
    said: Option<String>,
    console: String,
    /// QEMU's own words.
    qemu: String,
    /// `None`: it had to be killed.
    status: Option<ExitStatus>,
}

#[derive(Debug, Default)]
struct Answers {
    hello: Option<Hello>,
    phases: Vec<PhaseSeen>,
    /// The phase that runs, by its place among them, and since when.
    running: Option<(usize, Instant)>,
    outcome: Option<Value>,
    error: Option<GuestFailure>,
    farewell: Option<Farewell>,
    garbled: Option<String>,
    /// Bytes of memory that the guest asks for.
    plug: Option<u64>,
}

/// Runs `guest` in the QEMU at `program` for at most `limit`. `log` receives
/// what QEMU itself prints; `progress` is told what the guest says about its
/// work; `cancel` ends it early. Must be called from a thread that stays until
/// it returns.
///
/// # Errors
///
/// A [`Failure`] if the guest did not do its job, otherwise what the host
/// could not do.
pub fn run(
    program: &Path,
    guest: &Guest<'_>,
    log: &Path,
    limit: Duration,
    cancel: &AtomicBool,
    progress: &mut dyn FnMut(&str),
) -> anyhow::Result<Boot> {
    let out = File::create(log).with_context(|| format!("cannot create {}", log.display()))?;
    let mut command = qemu::command(program, guest);
    command.stdout(out.try_clone()?).stderr(out);
    let mut monitor = None;
    if guest.pluggable.is_some() {
        let (ours, qemus) = Monitor::pair()?;
        command.stdin(qemus);
        monitor = Some(ours);
    }
    let start = Instant::now();
    let mut child = Tethered::spawn(&mut command)
        .with_context(|| format!("cannot run {}", program.display()))?;
    let mut seen = Seen::default();
    let mut lines = Lines::new(guest.answers);
    let mut watch = Watch::default();
    loop {
        seen.status = child.try_wait()?;
        for line in lines.new_ones() {
            seen.answers.take(&line, Instant::now(), &mut |words| {
                progress(words);
                // Of a kernel that complains, the words before that tell what it was at.
                if watch.complained.is_none() {
                    seen.said = Some(words.into());
                }
            });
        }
        if let Some(bytes) = seen.answers.plug.take() {
            let monitor = monitor
                .as_mut()
                .context("the guest asks for memory that no job promised")?;
            monitor.plug(bytes)?;
        }
        if cancel.load(Ordering::Relaxed) {
            anyhow::bail!(Cancelled);
        }
        let over = start.elapsed() >= limit || watch.fault_drags_on(guest.console);
        if seen.status.is_some() || over {
            break;
        }
        std::thread::sleep(POLL);
    }
    child.end(LAST_WORDS);
    let wall = start.elapsed();
    seen.console = read(guest.console);
    seen.qemu = read(log);
    Ok(judge(seen, limit, wall)?)
}

/// Decides how it went. The kernel's complaints come first: they explain
/// whatever else went wrong.
fn judge(seen: Seen, limit: Duration, wall: Duration) -> Result<Boot, Failure> {
    let said = seen.said;
    let fail = |cause, lines| Err(Failure { cause, said, lines });
    let mut splats = console::splats(&seen.console);
    if seen.answers.error.is_some() {
        // A guest whose job failed goes off without waiting for what it was writing.
        splats.retain(|splat| splat.kind != console::Kind::Io);
    }
    if let Some(Splat { kind, .. }) = splats.first() {
        let kind = *kind;
        let lines = splats.into_iter().flat_map(|splat| splat.lines).collect();
        return fail(Cause::Kernel(kind), lines);
    }
    let tail = || console::tail(&seen.console, TAIL);
    let answers = seen.answers;
    if let Some(error) = answers.error {
        return fail(Cause::Job(error.what), error.details);
    }
    match seen.status {
        None => return fail(Cause::Hang(limit), tail()),
        Some(status) if !status.success() => {
            let lines = console::tail(&seen.qemu, TAIL);
            return fail(Cause::Qemu(status.to_string()), lines);
        }
        Some(_) => {}
    }
    if let Some(line) = answers.garbled {
        return fail(Cause::Garbled(line), tail());
    }
    match (answers.hello, answers.outcome, answers.farewell) {
        (
            Some(_),
            Some(_),
            Some(Farewell {
                tainted: Some(bits),
                ..
            }),
        ) if bits & !HARMLESS_TAINT != 0 => fail(Cause::Tainted(bits), tail()),
        (Some(hello), Some(outcome), Some(farewell)) => Ok(Boot {
            hello,
            phases: answers.phases,
            outcome,
            farewell,
            wall,
        }),
        // QEMU reports a bad command line and leaves without a guest.
        (None, ..) if seen.console.is_empty() => fail(
            Cause::Qemu("no guest was started".into()),
            console::tail(&seen.qemu, TAIL),
        ),
        _ => fail(Cause::PoweredOff, tail()),
    }
}

impl Answers {
    /// Takes note of a line that came `now`.
    fn take(&mut self, line: &str, now: Instant, progress: &mut dyn FnMut(&str)) {
        if let Some((phase, since)) = self.running.take() {
            self.phases[phase].wall = Some(now - since);
        }
        match serde_json::from_str(line) {
            Ok(Message::Hello(hello)) => self.hello = Some(hello),
            Ok(Message::Progress { text }) => progress(&text),
            Ok(Message::Begin { phase, text }) => {
                let place = self.phases.iter().position(|seen| seen.id == phase);
                self.running = place.map(|place| (place, now));
                progress(&text);
            }
            Ok(Message::Phase { id, name }) => {
                let wall = None;
                self.phases.push(PhaseSeen { id, name, wall });
            }
            Ok(Message::Plug { bytes }) => self.plug = Some(bytes),
            Ok(Message::Result { outcome }) => self.outcome = Some(outcome),
            Ok(Message::Error(error)) => self.error = Some(error),
            Ok(Message::Done(farewell)) => self.farewell = Some(farewell),
            Ok(_) => {}
            Err(error) => {
                self.garbled.get_or_insert(format!("{error}: {line}"));
            }
        }
    }
}

/// Notices that a kernel complained and does not come to an end.
#[derive(Default)]
pub(super) struct Watch {
    looked: Option<Instant>,
    complained: Option<Instant>,
}

impl Watch {
    pub(super) fn fault_drags_on(&mut self, console: &Path) -> bool {
        if let Some(since) = self.complained {
            return since.elapsed() >= FAULT_GRACE;
        }
        if self.looked.is_none_or(|at| at.elapsed() >= CONSOLE_POLL) {
            if !console::splats(&read(console)).is_empty() {
                self.complained = Some(Instant::now());
            }
            self.looked = Some(Instant::now());
        }
        false
    }
}

/// Reads the lines of a file that another process appends to.
struct Lines<'a> {
    path: &'a Path,
    offset: u64,
    partial: Vec<u8>,
}

impl<'a> Lines<'a> {
    fn new(path: &'a Path) -> Self {
        Self {
            path,
            offset: 0,
            partial: Vec::new(),
        }
    }

    /// The complete lines since the last call.
    fn new_ones(&mut self) -> Vec<String> {
        let Ok(mut file) = File::open(self.path) else {
            return Vec::new();
        };
        let read = file
            .seek(SeekFrom::Start(self.offset))
            .and_then(|_| file.read_to_end(&mut self.partial));
        self.offset += read.unwrap_or(0) as u64;
        let Some(end) = self.partial.iter().rposition(|&byte| byte == b'\n') else {
            return Vec::new();
        };
        let rest = self.partial.split_off(end + 1);
        let whole = std::mem::replace(&mut self.partial, rest);
        let text = String::from_utf8_lossy(&whole);
        text.lines().map(str::to_string).collect()
    }
}

pub(super) fn read(path: &Path) -> String {
    let bytes = std::fs::read(path).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::process::ExitStatusExt;

    const HELLO: &str = r#"{"message":"hello","version":1,"release":"6.12.117","build":"","machine":"aarch64","page_size":65536,"cmdline":"","memory":1}"#;
    const RESULT: &str = r#"{"message":"result","outcome":{"steps":3}}"#;
    const DONE: &str = r#"{"message":"done","tainted":0,"uptime_cs":100}"#;
    const LIMIT: Duration = Duration::from_secs(60);

    fn ended(answers: &[&str], console: &str, status: Option<i32>) -> Result<Boot, Failure> {
        let mut seen = Seen {
            console: console.into(),
            status: status.map(|code| ExitStatus::from_raw(code << 8)),
            ..Seen::default()
        };
        for line in answers {
            let mut note = |words: &str| seen.said = Some(words.into());
            seen.answers.take(line, Instant::now(), &mut note);
        }
        judge(seen, LIMIT, LIMIT)
    }

    fn cause(answers: &[&str], console: &str, status: Option<i32>) -> Cause {
        ended(answers, console, status).unwrap_err().cause
    }

    #[test]
    fn a_complete_conversation_is_a_success() {
        let boot = ended(&[HELLO, RESULT, DONE], "booting\n", Some(0)).unwrap();
        assert_eq!(boot.hello.release, "6.12.117");
        assert_eq!(boot.outcome, serde_json::json!({ "steps": 3 }));
    }

    #[test]
    fn a_warning_spoils_a_complete_conversation() {
        let console = "[ 1.0] WARNING: CPU: 0 PID: 1 at mm/filemap.c:1 f+0x1/0x2\n";
        let failure = ended(&[HELLO, RESULT, DONE], console, Some(0)).unwrap_err();
        assert_eq!(failure.cause, Cause::Kernel(console::Kind::Warning));
        assert!(failure.to_string().contains("mm/filemap.c:1"), "{failure}");
    }

    #[test]
    fn taint_without_words_spoils_it_too() {
        let tainted = |bits| DONE.replace("\"tainted\":0", &format!("\"tainted\":{bits}"));
        assert!(ended(&[HELLO, RESULT, &tainted(1 << 18)], "x\n", Some(0)).is_ok());
        let done = tainted(512);
        assert_eq!(
            cause(&[HELLO, RESULT, &done], "x\n", Some(0)),
            Cause::Tainted(512)
        );
    }

    #[test]
    fn power_off_before_done() {
        for answers in [&[][..], &[HELLO], &[HELLO, RESULT], &[HELLO, DONE]] {
            assert_eq!(cause(answers, "booting\n", Some(0)), Cause::PoweredOff);
        }
    }

    #[test]
    fn killed_at_the_limit_is_a_hang_that_shows_the_last_lines() {
        let words = r#"{"message":"progress","text":"mremap"}"#;
        let failure = ended(&[HELLO, words], "first\nlast\n", None).unwrap_err();
        assert_eq!(failure.cause, Cause::Hang(LIMIT));
        let text = failure.to_string();
        assert!(
            text.contains("60 s (--timeout), after it said 'mremap'"),
            "{text}"
        );
        assert!(text.ends_with("| last"), "{text}");
    }

    #[test]
    fn the_guests_own_error_is_passed_on() {
        let error = r#"{"message":"error","what":"mount /dev/vda","details":["no such device"]}"#;
        let failure = ended(&[HELLO, error, DONE], "x\n", Some(0)).unwrap_err();
        assert_eq!(failure.cause, Cause::Job("mount /dev/vda".into()));
        assert_eq!(failure.lines, ["no such device"]);
    }

    #[test]
    fn writing_cut_off_by_a_failed_job_is_not_its_cause() {
        let error = r#"{"message":"error","what":"a wrong page"}"#;
        let console = "[ 9.0] I/O error, dev vda, sector 8 op 0x1:(WRITE)\n";
        let job = Cause::Job("a wrong page".into());
        assert_eq!(cause(&[HELLO, error, DONE], console, Some(0)), job);
        let io = Cause::Kernel(console::Kind::Io);
        assert_eq!(cause(&[HELLO, RESULT, DONE], console, Some(0)), io);
    }

    #[test]
    fn a_panic_explains_the_missing_answers() {
        let console = "[ 1.0] Kernel panic - not syncing: Attempted to kill init!\n";
        let kind = Cause::Kernel(console::Kind::Panic);
        assert_eq!(cause(&[HELLO], console, Some(0)), kind);
        assert_eq!(cause(&[HELLO], console, None), kind);
    }

    #[test]
    fn qemus_failure_is_not_the_guests() {
        assert!(matches!(cause(&[], "", Some(1)), Cause::Qemu(_)));
        assert!(matches!(cause(&[HELLO], "x\n", Some(1)), Cause::Qemu(_)));
    }

    #[test]
    fn garbage_among_the_answers_is_not_skipped() {
        assert!(matches!(
            cause(&[HELLO, "{\"mess", RESULT, DONE], "x\n", Some(0)),
            Cause::Garbled(_)
        ));
    }

    #[test]
    fn a_phase_is_timed_from_its_beginning_to_the_next_words() {
        let mut answers = Answers::default();
        let start = Instant::now();
        for (line, at) in [
            (r#"{"message":"phase","id":1,"name":"cold"}"#, 0),
            (r#"{"message":"phase","id":2,"name":"random"}"#, 10),
            (
                r#"{"message":"progress","text":"cold as the page cache is"}"#,
                20,
            ),
            (
                r#"{"message":"begin","phase":1,"text":"the first sweep"}"#,
                300,
            ),
            (r#"{"message":"progress","text":"random words"}"#, 345),
            (RESULT, 1000),
        ] {
            answers.take(line, start + Duration::from_millis(at), &mut |_| ());
        }
        assert_eq!(answers.phases[0].wall, Some(Duration::from_millis(45)));
        assert_eq!(answers.phases[1].wall, None);
    }

    #[test]
    fn lines_arrive_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("answers");
        let mut lines = Lines::new(&path);
        assert_eq!(lines.new_ones(), [] as [&str; 0]);
        let mut file = File::create(&path).unwrap();
        file.write_all(b"one\ntw").unwrap();
        assert_eq!(lines.new_ones(), ["one"]);
        file.write_all(b"o\n").unwrap();
        assert_eq!(lines.new_ones(), ["two"]);
    }
}
