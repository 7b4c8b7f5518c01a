// SPDX-License-Identifier: GPL-2.0-only
//! How many cases property tests try.

use proptest::prelude::ProptestConfig;

/// So many that all of a file's tests end within seconds in a debug build on a busy machine;
/// `PROPTEST_CASES` runs more, as `make soak` does.
pub fn cases(usual: u32) -> ProptestConfig {
    let mut config = ProptestConfig::default();
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = usual;
    }
    config
}
