// SPDX-License-Identifier: GPL-2.0-only
//! What the host does to a running guest: it plugs memory into it.
//!
//! QEMU listens on a socket that it inherits, so that nobody has to wait for one to appear, and is
//! told by QMP (docs/interop/qmp-spec.rst of QEMU). The crates for QMP make types of its whole
//! schema; this says two commands.

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::Duration;

/// The name of the guest's virtio-mem device.
pub const DEVICE: &str = "plug";

/// How long QEMU may take to answer. It does so between two pieces of the guest's work.
const PATIENCE: Duration = Duration::from_secs(30);

/// The host's end.
#[derive(Debug)]
pub struct Monitor {
    answers: BufReader<UnixStream>,
    greeted: bool,
}

impl Monitor {
    /// Both ends: this one, and what becomes QEMU's standard input, the chardev `fd=0`.
    ///
    /// # Errors
    ///
    /// If there can be no socket.
    pub fn pair() -> Result<(Self, Stdio)> {
        let (ours, qemus) = UnixStream::pair().context("a socket for QEMU's monitor")?;
        ours.set_read_timeout(Some(PATIENCE))?;
        let monitor = Self {
            answers: BufReader::new(ours),
            greeted: false,
        };
        Ok((monitor, Stdio::from(OwnedFd::from(qemus))))
    }

    /// Asks for `bytes` of memory in the guest's device. The guest's driver does it, when it can.
    ///
    /// # Errors
    ///
    /// If QEMU refuses, with its words, or does not answer.
    pub fn plug(&mut self, bytes: u64) -> Result<()> {
        if !self.greeted {
            self.execute("qmp_capabilities", json!({}))?;
            self.greeted = true;
        }
        let path = format!("/machine/peripheral/{DEVICE}");
        let arguments = json!({"path": path, "property": "requested-size", "value": bytes});
        self.execute("qom-set", arguments)
    }

    fn execute(&mut self, command: &str, arguments: Value) -> Result<()> {
        let line = json!({"execute": command, "arguments": arguments});
        writeln!(self.answers.get_mut(), "{line}")
            .with_context(|| format!("QEMU's monitor: {command}"))?;
        loop {
            let mut line = String::new();
            let read = self.answers.read_line(&mut line);
            let read = read.with_context(|| format!("QEMU's monitor does not answer {command}"))?;
            if read == 0 {
                bail!("QEMU's monitor: gone before it answered {command}");
            }
            let answer: Value = serde_json::from_str(&line)
                .with_context(|| format!("QEMU's monitor: not JSON: {line}"))?;
            if let Some(error) = answer.get("error") {
                bail!("QEMU's monitor refuses {command}: {}", error["desc"]);
            }
            // Else its greeting, or an event.
            if answer.get("return").is_some() {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Says `lines` whatever it is told, and returns what it was told.
    fn talk(lines: &[&str], tell: impl FnOnce(&mut Monitor)) -> String {
        let (ours, mut qemus) = UnixStream::pair().unwrap();
        let mut monitor = Monitor {
            answers: BufReader::new(ours),
            greeted: false,
        };
        for line in lines {
            writeln!(qemus, "{line}").unwrap();
        }
        tell(&mut monitor);
        drop(monitor);
        std::io::read_to_string(qemus).unwrap()
    }

    #[test]
    fn it_greets_once_and_reads_past_events() {
        let (greeting, event) = (r#"{"QMP": {}}"#, r#"{"event": "RESUME"}"#);
        let done = r#"{"return": {}}"#;
        let told = talk(&[greeting, done, event, done, done], |monitor| {
            monitor.plug(1 << 30).unwrap();
            monitor.plug(0).unwrap();
        });
        let told: Vec<Value> = told
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(told.len(), 3);
        assert_eq!(told[0]["execute"], "qmp_capabilities");
        assert_eq!(told[1]["arguments"]["value"], 1 << 30);
        assert_eq!(told[2]["arguments"]["path"], "/machine/peripheral/plug");
    }

    #[test]
    fn what_qemu_refuses_is_told_in_its_words() {
        let refusal = r#"{"error": {"class": "GenericError", "desc": "too much"}}"#;
        talk(&[r#"{"return": {}}"#, refusal], |monitor| {
            let error = monitor.plug(7).unwrap_err().to_string();
            assert_eq!(error, r#"QEMU's monitor refuses qom-set: "too much""#);
        });
        talk(&["what?"], |monitor| {
            let error = format!("{:#}", monitor.plug(7).unwrap_err());
            assert!(error.starts_with("QEMU's monitor: not JSON"), "{error}");
        });
    }
}
