// SPDX-License-Identifier: GPL-2.0-only
//! What names an entry: the hash of its named inputs.

use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::path::Path;

/// The named inputs of an entry. Two keys are the same exactly if all their
/// names and values are; the order of adding does not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Key {
    inputs: BTreeMap<String, String>,
}

impl Key {
    /// A key without inputs.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the input `name`. Adding a name twice replaces its value.
    #[must_use]
    pub fn field(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.inputs.insert(name.into(), value.into());
        self
    }

    /// Adds a file's content as the input `name`.
    pub fn file(self, name: impl Into<String>, path: &Path) -> Result<Self> {
        Ok(self.field(name, hash_file(path)?))
    }

    /// The inputs by name.
    pub fn inputs(&self) -> &BTreeMap<String, String> {
        &self.inputs
    }

    /// The folder name: 32 hexadecimal digits (128 bits) of a BLAKE3 hash.
    pub fn id(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        for (name, value) in &self.inputs {
            // Lengths first, so that no two lists of inputs run together alike.
            for part in [name, value] {
                hasher.update(&(part.len() as u64).to_le_bytes());
                hasher.update(part.as_bytes());
            }
        }
        hasher.finalize().to_hex()[..32].to_string()
    }
}

/// The BLAKE3 hash of a file's content, in hexadecimal.
pub fn hash_file(path: &Path) -> Result<String> {
    let mut hasher = blake3::Hasher::new();
    std::fs::File::open(path)
        .and_then(|file| hasher.update_reader(file).map(drop))
        .with_context(|| format!("cannot read {}", path.display()))?;
    Ok(hasher.finalize().to_hex().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depends_on_every_name_and_value_and_not_on_their_order() {
        let key = Key::new().field("a", "1").field("b", "2");
        assert_eq!(key.id(), Key::new().field("b", "2").field("a", "1").id());
        for other in [
            Key::new().field("a", "1"),
            Key::new().field("a", "1").field("b", "3"),
            Key::new().field("a", "1").field("c", "2"),
            Key::new().field("a", "1b").field("", "2"),
        ] {
            assert_ne!(key.id(), other.id(), "{other:?}");
        }
    }

    #[test]
    fn a_file_counts_by_content() {
        let dir = tempfile::tempdir().unwrap();
        let (one, two) = (dir.path().join("one"), dir.path().join("two"));
        std::fs::write(&one, "x").unwrap();
        std::fs::write(&two, "x").unwrap();
        let id = |path: &Path| Key::new().file("f", path).unwrap().id();
        assert_eq!(id(&one), id(&two));
        std::fs::write(&two, "y").unwrap();
        assert_ne!(id(&one), id(&two));
    }
}
