// SPDX-License-Identifier: GPL-2.0-only
//! Which container, pod and image a process belongs to.
//!
//! The control group's path has the container's id. Files of the runtimes have the rest: of Podman,
//! Docker, containerd, CRI-O, runc and crun, of root and of users. Where there is a socket of Kubernetes' runtime interface (CRI), the runtime is asked, too. Nothing is
//! started, and no runtime's program is run.
//!
//! | module | reason to exist |
//! |---|---|
//! | `group` | reads a control group's path |
//! | `container` | what is known of a container |
//! | `pods` | the pods of Podman's database |
//! | `state` | the files of runtimes |
//! | `cri` | the socket of a runtime |
//! | `known` | all of it together, and the questions that are asked |

mod container;
mod cri;
mod error;
mod group;
mod known;
mod pods;
mod state;

pub use container::Container;
pub use error::Error;
pub use known::{Containers, Wanted};
