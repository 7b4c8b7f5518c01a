// SPDX-License-Identifier: GPL-2.0-only
//! What `lab run` takes, as far as a matrix file's author may get it wrong.

/// The known names.
#[derive(Clone, Debug, Default)]
pub struct Vocabulary {
    /// Names of jobs.
    pub jobs: Vec<String>,
    /// Names of further jobs, which no message lists: they are for tests of the lab itself.
    pub hidden_jobs: Vec<String>,
    /// Names of bases.
    pub bases: Vec<String>,
    /// Architectures.
    pub machines: Vec<Architecture>,
    /// Variants of kernels.
    pub variants: Vec<String>,
    /// Options that a row may have.
    pub options: Vec<RowOption>,
}

/// An architecture.
#[derive(Clone, Debug)]
pub struct Architecture {
    /// Its name.
    pub name: String,
    /// The page sizes that it has; the first is the one unless told.
    pub page_sizes: Vec<String>,
}

/// An option of `lab run`.
#[derive(Clone, Debug)]
pub struct RowOption {
    /// Its name without the dashes.
    pub name: String,
    /// How it takes values.
    pub values: Values,
}

/// How an option takes values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// It is there or not.
    Flag,
    /// One.
    One,
    /// Several, with commas between.
    Commas,
    /// Several, the option being repeated.
    Repeated,
}

impl Vocabulary {
    /// The machine of this name.
    pub fn machine(&self, name: &str) -> Option<&Architecture> {
        self.machines.iter().find(|machine| machine.name == name)
    }

    /// The option of this name.
    pub fn option(&self, name: &str) -> Option<&RowOption> {
        self.options.iter().find(|option| option.name == name)
    }
}
