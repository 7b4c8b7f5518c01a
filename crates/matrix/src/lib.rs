// SPDX-License-Identifier: GPL-2.0-only
//! Many lab runs listed in a file, each done once.
//!
//! A *row* is one `wideleaf lab run`. [`file::read`] multiplies a file out into rows, checked
//! against a [`vocabulary::Vocabulary`] of what `lab run` takes. [`folder::Folder`] keeps what
//! each row came to, under the hash of all that went into it, so that whoever comes next (the
//! same command after `kill -9`, another machine) sees what is left. [`attempt`] runs one row as a
//! process of its own and puts its results there; [`local`] does so on this machine, [`slurm`]
//! has a cluster do it.
//!
//! Nothing here knows what a kernel or a guest is, and nothing draws: work says what happens
//! through [`wideleaf_kit::events::Event`].

pub mod attempt;
pub mod file;
pub mod folder;
pub mod local;
pub mod slurm;
pub mod vocabulary;
