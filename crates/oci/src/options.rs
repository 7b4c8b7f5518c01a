// SPDX-License-Identifier: GPL-2.0-only
//! Which images to align, and how.

/// Which images to align, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// How a file is aligned, and whether only to say what would be done.
    pub align: wideleaf_align::Options,
    /// Images of these platforms only, as `linux/amd64` or `linux/arm/v7`; empty: of all.
    pub platforms: Vec<String>,
    /// The latest time that files of the new layer may have, and the time of what is new, in
    /// seconds since 1970.
    pub epoch: Option<u64>,
}

impl Options {
    /// Aligns what gains by it, in images of all platforms.
    pub fn new(align: wideleaf_align::Options) -> Options {
        Options {
            align: wideleaf_align::Options {
                only_gaining: true,
                overlay: true,
                ..align
            },
            platforms: Vec::new(),
            epoch: None,
        }
    }

    /// Why an image of this platform is not looked at.
    pub(crate) fn passes_over(&self, platform: &str) -> Option<String> {
        if !platform.starts_with("linux/") {
            return Some(format!("is an image for {platform}, not for Linux"));
        }
        let variant = |asked: &str| {
            let rest = platform.strip_prefix(asked);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let asked = self.platforms.is_empty() || self.platforms.iter().any(|p| variant(p));
        (!asked).then(|| format!("is an image for {platform}, which was not asked for"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_platform_stands_for_its_variants() {
        let mut options = Options::new(wideleaf_align::Options::new(2 << 20));
        assert!(options.passes_over("linux/arm64/v8").is_none());
        assert!(options.passes_over("windows/amd64").is_some());
        options.platforms = vec!["linux/arm".to_owned(), "linux/amd64".to_owned()];
        assert!(options.passes_over("linux/amd64").is_none());
        assert!(options.passes_over("linux/arm/v7").is_none());
        assert!(options.passes_over("linux/arm64").is_some());
        options.platforms = vec!["linux/arm/v6".to_owned()];
        assert!(options.passes_over("linux/arm/v7").is_some());
    }
}
