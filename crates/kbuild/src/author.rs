// SPDX-License-Identifier: GPL-2.0-only
//! Who the steps of an exported series are from, and who signs them off: whoever exports it.
//! The Developer's Certificate of Origin is a person's word, so none stands in our patches.

use anyhow::{Context, Result};
use std::path::Path;
use std::process::Command;
use wideleaf_kit::tool;

/// A name and an address, as a mail's `From:` has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Author {
    /// `Ada Lovelace`.
    pub name: String,
    /// `ada@example.org`, without brackets.
    pub email: String,
}

impl Author {
    /// The one whom git would name as the author of a commit made in `dir`: `user.name` and
    /// `user.email`, or what GIT_AUTHOR_NAME and GIT_AUTHOR_EMAIL say.
    ///
    /// # Errors
    ///
    /// If neither is set: what git makes up of the login is nobody's signature.
    pub fn of_git(dir: &Path) -> Result<Self> {
        let mut git = Command::new("git");
        git.current_dir(dir)
            .args(["-c", "user.useConfigOnly=true", "var", "GIT_AUTHOR_IDENT"]);
        tool::stdout(&mut git)
            .ok()
            .and_then(|ident| Self::parse(&ident))
            .context(
                "git knows nobody who signs the series off: \
                 git config --global user.name NAME; git config --global user.email ADDRESS",
            )
    }

    /// For what nobody is to apply: trees that the lab builds, and checks.
    pub fn nobody() -> Self {
        Self {
            name: "Wideleaf".into(),
            email: "wideleaf@localhost".into(),
        }
    }

    /// `Ada Lovelace <ada@example.org> 1700000000 +0000`
    fn parse(ident: &str) -> Option<Self> {
        let (name, rest) = ident.rsplit_once('<')?;
        let (email, _) = rest.split_once('>')?;
        Some(Self {
            name: name.trim().into(),
            email: email.into(),
        })
    }
}

impl std::fmt::Display for Author {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} <{}>", self.name, self.email)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gits_words_are_read() {
        let author = Author::parse("Ada <of> Lovelace <ada@example.org> 1700000000 +0100\n");
        let author = author.unwrap();
        assert_eq!(author.name, "Ada <of> Lovelace");
        assert_eq!(author.to_string(), "Ada <of> Lovelace <ada@example.org>");
        assert_eq!(Author::parse("nobody"), None);
    }
}
