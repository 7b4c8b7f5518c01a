// SPDX-License-Identifier: GPL-2.0-only
//! The CPU that figures are counted for: the one at hand, or one that is named.

use crate::Error;
use std::path::Path;
use wideleaf_cpu::{Coalesce, Cpu};
use wideleaf_kit::size::parse;

/// The CPU at hand; with `given` another one, by its name or by the sizes that it coalesces.
/// `page` is the base page in bytes.
pub(crate) fn choose(given: Option<&str>, page: u64) -> Result<Cpu, Error> {
    let sys = Path::new("/sys");
    let Some(given) = given else {
        return Ok(wideleaf_cpu::detect(sys, page));
    };
    if let Some(cpu) = wideleaf_cpu::named(given, page) {
        return Ok(cpu);
    }
    let sizes: Result<Vec<u64>, _> = match given {
        "none" => Ok(Vec::new()),
        list => list.split(',').map(parse).collect(),
    };
    let given = || given.to_owned();
    let sizes = sizes.map_err(|_| Error::UnknownCpu { given: given() })?;
    let coalesce = Coalesce::given(sizes, page).ok_or_else(|| Error::Sizes {
        given: given(),
        page,
    })?;
    // The hardware is the one at hand, only its coalescing is replaced.
    Ok(Cpu {
        coalesce,
        ..wideleaf_cpu::detect(sys, page)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_is_chosen_by_name_or_by_sizes() {
        let sizes = |given| choose(Some(given), 4096).unwrap().coalesce.sizes;
        assert_eq!(sizes("neoverse-v2"), [65536]);
        assert_eq!(sizes("16K,64K"), [65536, 16384]);
        assert!(sizes("none").is_empty());
        let refused = |given| choose(Some(given), 4096).unwrap_err().to_string();
        assert!(refused("pentium").contains("neoverse-v2"));
        assert!(refused("24K").contains("power of two"));
    }
}
