// SPDX-License-Identifier: GPL-2.0-only
//! Patterns of touches as the command line has them.

use wideleaf_policy::sim::Pattern;

/// Reads a pattern as `wideleaf policy simulate` writes them.
///
/// # Errors
///
/// A sentence that names what is wrong.
pub fn pattern(text: &str) -> Result<Pattern, String> {
    let permille = |text: &str| match text.parse() {
        Ok(permille @ 0..=1000) => Ok(permille),
        _ => Err(format!("`{text}` is not a number from 0 to 1000")),
    };
    let length = |text: &str| match wideleaf_kit::size::parse(text)? {
        length if length >= 4096 && length.is_multiple_of(4096) => Ok(length),
        _ => Err(format!("`{text}` is not a multiple of 4K")),
    };
    let parts: Vec<&str> = text.split(':').collect();
    match parts[..] {
        ["sweep"] => Ok(Pattern::Sweep),
        // The page size is known later.
        ["pages", share] => Ok(Pattern::Pages(0, permille(share)?)),
        ["random", share] => Ok(Pattern::Random(permille(share)?)),
        ["clusters", size, share] => Ok(Pattern::Clusters(length(size)?, permille(share)?)),
        ["stride", size] => Ok(Pattern::Stride(length(size)?)),
        _ => Err(format!(
            "`{text}` is no pattern: write sweep, pages:10, random:10, clusters:256K:50 or stride:20K"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_read_and_nonsense_shows_the_form() {
        assert_eq!(pattern("pages:10"), Ok(Pattern::Pages(0, 10)));
        assert_eq!(
            pattern("clusters:64K:50"),
            Ok(Pattern::Clusters(64 << 10, 50))
        );
        for (text, word) in [
            ("pages:1001", "1000"),
            ("clusters:100:1", "4K"),
            ("swoop", "pages:10"),
        ] {
            let error = pattern(text).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }
}
