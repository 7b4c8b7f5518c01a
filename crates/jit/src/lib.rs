// SPDX-License-Identifier: GPL-2.0-only
//! Text that a program makes while it runs, which is in no ELF file: the code of just-in-time
//! compilers. How wide it is mapped, why not wider, and which switch of its runtime changes that.
//!
//! | module | reason to exist |
//! |---|---|
//! | `made` | which mappings hold such text |
//! | `runtime` | which runtime makes it, and its switch |
//! | `settings` | the settings of the kernel |
//! | `advice` | what the process has asked of the kernel |
//! | `why` | why a mapping is not wide, in words |
//! | `account` | all of that, of a process |

mod account;
mod advice;
mod made;
mod runtime;
mod settings;
mod why;

pub use account::{Account, Made, account};
pub use made::{is_made, made};
pub use runtime::Runtime;
pub use settings::Setting;
pub use why::Why;
