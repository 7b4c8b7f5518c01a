// SPDX-License-Identifier: GPL-2.0-only
//! Programs of Debian as services of its systemd, and in containers of its Podman.

#[cfg(feature = "guest")]
pub mod guest;
#[cfg(feature = "host")]
pub mod host;
#[cfg(feature = "guest")]
pub mod load;

use serde::{Deserialize, Serialize};
use wideleaf_guest::kit::program::{Program, Worked};

/// Its name.
pub const NAME: &str = "services";

/// The word by which the guest's program is started in a service or a container, to run the load
/// there.
pub const LOAD: &str = "load";

wideleaf_kit::named!(
    /// How a load runs.
    Way, "way", {
        /// A service of systemd.
        Service = "service",
        /// A container of Podman, on an overlay over a folder of the disk.
        Overlay = "overlay",
        /// The same over an EROFS image, which is a file of the disk.
        Erofs = "erofs",
    }
);

/// The work that the guest is asked to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// The load.
    pub program: Program,
    /// How it runs, one way after the other.
    pub ways: Vec<Way>,
    /// Seconds of guest time after which it is ended, in each of them.
    pub limit_s: u32,
    /// Where the disk has the container's root, as a folder.
    pub root: String,
    /// The same as an EROFS image.
    pub image: String,
}

/// The guest's answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// One for each way, in their order; the name is the load's and the way's.
    pub loads: Vec<Worked>,
}

/// The name of a load that runs this way.
pub fn name_of(program: &str, way: Way) -> String {
    format!("{program}.{way}")
}
