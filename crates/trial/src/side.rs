// SPDX-License-Identifier: GPL-2.0-only
//! Plainly, or by a means: how a run is started, and what the page cache holds then.

use crate::request::Request;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::process::{Command, Stdio};
use wideleaf_fill::{Chosen, Error, Geometry, Texts, forget, narrow, of_program};
use wideleaf_run::{Means, beside, find};

/// One way to run the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Plain,
    By(Means),
}

impl Way {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::By(means) => means.name(),
        }
    }

    /// Whether it leaves the page cache other than it was.
    pub(crate) fn changes_the_cache(self) -> bool {
        matches!(self, Self::By(Means::Fill | Means::Collapse))
    }

    /// The command, silent; what `run` says of it goes to `said`.
    pub(crate) fn command(self, request: &Request, said: Option<&File>) -> io::Result<Command> {
        let mut command = match self {
            Self::Plain => Command::new(&request.command[0]),
            Self::By(means) => {
                let mut run = Command::new(request.starter);
                let loud = if said.is_some() {
                    "--verbose"
                } else {
                    "--quiet"
                };
                run.args(["run", loud, "--means", means.name()]);
                run.args(request.libs.then_some("--libs"));
                run.args(request.reclaim.then_some("--reclaim"));
                for file in request.with {
                    run.arg("--with").arg(file);
                }
                run.arg("--").arg(&request.command[0]);
                run
            }
        };
        command.args(&request.command[1..]);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        match said {
            Some(file) => command.stderr(file.try_clone()?),
            None => command.stderr(Stdio::null()),
        };
        Ok(command)
    }
}

/// The text that `run` and the command wrote to standard error.
pub(crate) fn words(mut said: &File) -> String {
    let mut text = Vec::new();
    let read = said.rewind().and_then(|()| said.read_to_end(&mut text));
    match read {
        Ok(_) => String::from_utf8_lossy(&text).into_owned(),
        Err(_) => String::new(),
    }
}

/// Why `run` started the command as it is, if it did.
pub(crate) fn refusal(said: &str) -> Option<String> {
    let lines = said
        .lines()
        .filter_map(|line| line.strip_prefix("wideleaf: run: "));
    lines
        .filter_map(|line| line.strip_suffix("; it runs as it is"))
        .map(str::to_owned)
        .next()
}

/// The files whose text is compared, and what the page cache holds of them.
pub(crate) struct Cache {
    texts: Texts,
    sizes: Geometry,
    /// Something of ours has changed it since it was as plain runs find it.
    pub(crate) changed: bool,
}

impl Cache {
    pub(crate) fn new(request: &Request) -> Result<Self, Error> {
        let sizes = Geometry::here().map_err(io::Error::other)?;
        let mut texts = Texts::default();
        let program = |name: &OsStr, path: Option<std::path::PathBuf>| {
            let path = path.unwrap_or_else(|| name.into());
            let files = of_program(&path, request.libs || request.base_pages);
            files.unwrap_or_else(|_| vec![Chosen::named(&path)])
        };
        let first = &request.command[0];
        texts.read(program(first, find(first)), sizes.page, sizes.pmd);
        for name in request.with {
            texts.read(program(name, beside(name)), sizes.page, sizes.pmd);
        }
        Ok(Self {
            texts,
            sizes,
            changed: false,
        })
    }

    /// Has plain runs find base pages.
    pub(crate) fn narrow(&self) -> Result<(), Error> {
        self.texts
            .texts
            .iter()
            .try_for_each(|text| narrow(text, &self.sizes))
    }

    /// Has the next run read what it needs by itself.
    pub(crate) fn forget(&self) -> Result<(), Error> {
        self.texts
            .texts
            .iter()
            .try_for_each(|text| forget(text, &self.sizes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_reach_run_and_the_plain_side_has_none() {
        let command = ["prog".into(), "-x".into()];
        let request = Request {
            command: &command,
            with: &["cc1".into()],
            libs: true,
            means: &[Means::Fill],
            runs: 2,
            base_pages: false,
            reclaim: true,
            failing: false,
            starter: "/wideleaf".as_ref(),
        };
        let words = |way: Way| {
            let command = way.command(&request, None).unwrap();
            let args = command.get_args().map(|arg| arg.to_str().unwrap());
            format!(
                "{} {}",
                command.get_program().display(),
                args.collect::<Vec<_>>().join(" ")
            )
        };
        assert_eq!(words(Way::Plain), "prog -x");
        assert_eq!(
            words(Way::By(Means::Fill)),
            "/wideleaf run --quiet --means fill --libs --reclaim --with cc1 -- prog -x"
        );
    }

    #[test]
    fn why_a_means_did_nothing_is_read_from_what_run_says() {
        let said = "x\nwideleaf: run: node: fill: no-folio: none; it runs as it is\nwarning: y\n";
        assert_eq!(refusal(said).unwrap(), "node: fill: no-folio: none");
        assert_eq!(refusal("wideleaf: run: node: copies on a huge tmpfs"), None);
        assert_eq!(refusal("it runs as it is\n"), None);
    }
}
