// SPDX-License-Identifier: GPL-2.0-only
//! Digests as images write them, `sha256:` and hexadecimal, and readers and writers that take them
//! of what passes through.

use crate::Error;
use sha2::{Digest as _, Sha256, Sha512};
use std::fmt;
use std::io::{self, Read, Write};

/// The algorithms that the image specification registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Algorithm {
    Sha256,
    Sha512,
}

impl Algorithm {
    fn name(self) -> &'static str {
        match self {
            Algorithm::Sha256 => "sha256",
            Algorithm::Sha512 => "sha512",
        }
    }

    /// Hexadecimal digits of a digest.
    fn digits(self) -> usize {
        match self {
            Algorithm::Sha256 => 64,
            Algorithm::Sha512 => 128,
        }
    }
}

/// Names content by its hash.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Digest {
    algorithm: Algorithm,
    hex: String,
}

impl Digest {
    /// From a field of the file `at`.
    pub(crate) fn parse(at: &str, field: &str, text: &str) -> Result<Digest, Error> {
        let wrong = |must: &str| Error::field(at, field, format!("'{text}'"), must);
        let Some((algorithm, hex)) = text.split_once(':') else {
            return Err(wrong("a digest, such as sha256:<64 hexadecimal digits>"));
        };
        let algorithm = match algorithm {
            "sha256" => Algorithm::Sha256,
            "sha512" => Algorithm::Sha512,
            _ => return Err(wrong("a digest of sha256 or sha512")),
        };
        // It becomes part of a path.
        let digit = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        match hex.len() == algorithm.digits() && hex.bytes().all(digit) {
            true => Ok(Digest {
                algorithm,
                hex: hex.to_owned(),
            }),
            false => Err(wrong(&format!(
                "{}: and {} hexadecimal digits",
                algorithm.name(),
                algorithm.digits()
            ))),
        }
    }

    /// The SHA-256 of these bytes.
    pub(crate) fn of(bytes: &[u8]) -> Digest {
        let mut hasher = Hasher::new(Algorithm::Sha256);
        hasher.update(bytes);
        hasher.finish()
    }

    /// Its digits.
    pub(crate) fn hex(&self) -> &str {
        &self.hex
    }

    /// The name of the blob in a layout.
    pub(crate) fn blob(&self) -> String {
        format!("blobs/{}/{}", self.algorithm.name(), self.hex)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.algorithm.name(), self.hex)
    }
}

enum Hasher {
    Sha256(Sha256),
    Sha512(Box<Sha512>),
}

impl Hasher {
    fn new(algorithm: Algorithm) -> Hasher {
        match algorithm {
            Algorithm::Sha256 => Hasher::Sha256(Sha256::new()),
            Algorithm::Sha512 => Hasher::Sha512(Box::default()),
        }
    }

    fn update(&mut self, bytes: &[u8]) {
        match self {
            Hasher::Sha256(hasher) => hasher.update(bytes),
            Hasher::Sha512(hasher) => hasher.update(bytes),
        }
    }

    fn finish(self) -> Digest {
        let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect();
        match self {
            Hasher::Sha256(hasher) => Digest {
                algorithm: Algorithm::Sha256,
                hex: hex(&hasher.finalize()),
            },
            Hasher::Sha512(hasher) => Digest {
                algorithm: Algorithm::Sha512,
                hex: hex(&hasher.finalize()),
            },
        }
    }
}

/// Passes on what is read or written, and takes its digest and length.
pub(crate) struct Hashing<T> {
    inner: T,
    hasher: Hasher,
    length: u64,
}

impl<T> Hashing<T> {
    /// By SHA-256.
    pub(crate) fn new(inner: T) -> Hashing<T> {
        Hashing::by(inner, Algorithm::Sha256)
    }

    /// By the algorithm of a digest that it will be held against.
    pub(crate) fn like(inner: T, digest: &Digest) -> Hashing<T> {
        Hashing::by(inner, digest.algorithm)
    }

    fn by(inner: T, algorithm: Algorithm) -> Hashing<T> {
        Hashing {
            inner,
            hasher: Hasher::new(algorithm),
            length: 0,
        }
    }

    /// The digest of all that has passed, its length, and what it passed through to.
    pub(crate) fn finish(self) -> (Digest, u64, T) {
        (self.hasher.finish(), self.length, self.inner)
    }
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buf)?;
        self.hasher.update(&buf[..count]);
        self.length += count as u64;
        Ok(count)
    }
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(bytes)?;
        self.hasher.update(&bytes[..count]);
        self.length += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_taken_of_what_passes_through() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(Digest::of(b"").to_string(), format!("sha256:{empty}"));
        let mut reader = Hashing::new(&b"some bytes"[..]);
        io::copy(&mut reader, &mut io::sink()).unwrap();
        let mut writer = Hashing::like(Vec::new(), &Digest::of(b""));
        writer.write_all(b"some ").unwrap();
        writer.write_all(b"bytes").unwrap();
        assert_eq!(reader.finish().0, Digest::of(b"some bytes"));
        let (digest, length, bytes) = writer.finish();
        assert_eq!(
            (digest, length, &bytes[..]),
            (Digest::of(b"some bytes"), 10, &b"some bytes"[..])
        );
    }

    #[test]
    fn nothing_but_a_digest_becomes_part_of_a_path() {
        let good = Digest::of(b"x").to_string();
        assert_eq!(Digest::parse("a", "b", &good).unwrap().to_string(), good);
        let long = format!("sha512:{}", "0".repeat(128));
        let digest = Digest::parse("a", "b", &long).unwrap();
        assert!(digest.blob().starts_with("blobs/sha512/000"));
        for bad in [
            "",
            "sha256",
            "sha256:",
            "sha256:../../etc/passwd",
            "md5:d41d8cd98f00b204e9800998ecf8427e",
            &good.to_uppercase(),
            &good[..70],
            &(good.clone() + "0"),
        ] {
            let error = Digest::parse("index.json", "manifests[0].digest", bad).unwrap_err();
            let text = error.to_string();
            assert!(
                text.contains("index.json: manifests[0].digest") && text.contains(bad),
                "{text}"
            );
        }
    }
}
