// SPDX-License-Identifier: GPL-2.0-only
//! Runs other programs, and says what went wrong when they fail.

use anyhow::{Context, Result, bail};
use std::process::{Command, Output};

/// Runs `command` to its end and gives its output; a failure carries what it
/// wrote.
pub(crate) fn output(command: &mut Command) -> Result<Output> {
    let name = name(command);
    // Messages are parsed in places, so they must not be translated.
    let output = command
        .env("LC_ALL", "C")
        .output()
        .with_context(|| format!("cannot run {name}"))?;
    if !output.status.success() {
        let text = [
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
        ]
        .concat();
        bail!("{name}: {}: {}", output.status, text.trim());
    }
    Ok(output)
}

/// Runs `command` and gives what it wrote to standard output.
pub(crate) fn stdout(command: &mut Command) -> Result<String> {
    Ok(String::from_utf8_lossy(&output(command)?.stdout).into_owned())
}

fn name(command: &Command) -> String {
    command.get_program().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_carries_the_program_and_its_words() {
        let error = output(Command::new("sh").args(["-c", "echo no such wheel >&2; exit 3"]));
        let text = error.unwrap_err().to_string();
        assert!(text.contains("sh: exit status: 3: no such wheel"), "{text}");
        let text = format!("{:#}", output(&mut Command::new("wl-absent")).unwrap_err());
        assert!(text.contains("cannot run wl-absent"), "{text}");
    }
}
