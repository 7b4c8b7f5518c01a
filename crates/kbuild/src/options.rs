// SPDX-License-Identifier: GPL-2.0-only
//! What a `.config` or a fragment states.

use std::collections::BTreeMap;

/// An option's name and value; `n` for one that is not set.
fn option(line: &str) -> Option<(&str, &str)> {
    if let Some(rest) = line.strip_prefix("# ") {
        let name = rest.strip_suffix(" is not set")?;
        return name.starts_with("CONFIG_").then_some((name, "n"));
    }
    line.starts_with("CONFIG_")
        .then(|| line.split_once('='))
        .flatten()
}

/// Every option that `text`, a fragment or a `.config`, states.
pub(crate) fn options(text: &str) -> BTreeMap<&str, &str> {
    text.lines().map(str::trim_end).filter_map(option).collect()
}

/// A hash over the options of a `.config`; comments and order do not count.
pub(crate) fn hash(config: &str) -> String {
    let mut hasher = blake3::Hasher::new();
    for (name, value) in options(config) {
        hasher.update(format!("{name}={value}\n").as_bytes());
    }
    hasher.finalize().to_hex()[..32].to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_of_the_options() {
        let one = hash("# a comment\nCONFIG_A=y\n# CONFIG_B is not set\n");
        assert_eq!(one, hash("# CONFIG_B is not set\n\nCONFIG_A=y\n"));
        assert_ne!(one, hash("CONFIG_A=m\n# CONFIG_B is not set\n"));
    }
}
