// SPDX-License-Identifier: GPL-2.0-only
//! How a layer is compressed, and reading it.

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::io::{self, BufRead, BufReader, ErrorKind, Read};

/// How a layer is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compression {
    None,
    Gzip,
    Zstd,
}

impl Compression {
    /// By the first bytes, for archives that do not say.
    pub(crate) fn sniff(start: &[u8]) -> Compression {
        match start {
            [0x1f, 0x8b, ..] => Compression::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Compression::Zstd,
            _ => Compression::None,
        }
    }

    /// Reads what `reader` holds, decompressed.
    pub(crate) fn decode<R: Read>(self, reader: R) -> Decoder<R> {
        let reader = BufReader::with_capacity(128 << 10, reader);
        match self {
            Compression::None => Decoder::None(reader),
            Compression::Gzip => Decoder::Gzip(Box::new(MultiGzDecoder::new(reader))),
            Compression::Zstd => Decoder::Zstd(Box::new(Zstd {
                source: reader,
                frame: FrameDecoder::new(),
                inside: false,
            })),
        }
    }
}

/// Decompresses. Errors of the stream have words of their own, those of the disk a number.
pub(crate) enum Decoder<R> {
    None(BufReader<R>),
    Gzip(Box<MultiGzDecoder<BufReader<R>>>),
    Zstd(Box<Zstd<R>>),
}

impl<R: Read> Read for Decoder<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Decoder::None(reader) => reader.read(buf),
            Decoder::Gzip(reader) => reader.read(buf).map_err(|error| match error.kind() {
                _ if error.raw_os_error().is_some() => error,
                ErrorKind::UnexpectedEof => too_early("gzip"),
                _ => damaged("gzip", &error),
            }),
            Decoder::Zstd(reader) => reader.read(buf),
        }
    }
}

fn too_early(what: &str) -> io::Error {
    let text = format!("is cut short: its {what} stream ends too early");
    io::Error::new(ErrorKind::UnexpectedEof, text)
}

fn damaged(what: &str, error: &dyn std::fmt::Display) -> io::Error {
    let text = format!("its {what} stream is damaged: {error}");
    io::Error::new(ErrorKind::InvalidData, text)
}

/// All frames of a zstd stream; those that decoders skip hold tables of contents.
pub(crate) struct Zstd<R> {
    source: BufReader<R>,
    frame: FrameDecoder,
    /// Whether a frame has begun.
    inside: bool,
}

impl<R: Read> Zstd<R> {
    /// Begins a frame. False at the end of the stream.
    fn begin(&mut self) -> io::Result<bool> {
        while !self.source.fill_buf()?.is_empty() {
            match self.frame.reset(&mut self.source) {
                Ok(()) => {
                    self.inside = true;
                    return Ok(true);
                }
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let mut frame = self.source.by_ref().take(length.into());
                    if io::copy(&mut frame, &mut io::sink())? < length.into() {
                        return Err(too_early("zstd"));
                    }
                }
                Err(error) => return Err(self.wrong(&error)),
            }
        }
        Ok(false)
    }

    /// A decoder that met the end of its source says so in many ways.
    fn wrong(&mut self, error: &FrameDecoderError) -> io::Error {
        match self.source.fill_buf() {
            Ok([]) => too_early("zstd"),
            Ok(_) => damaged("zstd", error),
            Err(error) => error,
        }
    }
}

impl<R: Read> Read for Zstd<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            if !self.inside && !self.begin()? {
                return Ok(0);
            }
            while self.frame.can_collect() < buf.len() && !self.frame.is_finished() {
                let wanted = BlockDecodingStrategy::UptoBytes(buf.len() - self.frame.can_collect());
                if let Err(error) = self.frame.decode_blocks(&mut self.source, wanted) {
                    return Err(self.wrong(&error));
                }
            }
            let count = self.frame.read(buf)?;
            if count > 0 || buf.is_empty() {
                return Ok(count);
            }
            self.inside = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::write::GzEncoder;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};
    use std::io::Write;

    fn text() -> Vec<u8> {
        (0..100_000u32)
            .flat_map(|n| (n / 7).to_le_bytes())
            .collect()
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd(bytes: &[u8]) -> Vec<u8> {
        compress_to_vec(bytes, CompressionLevel::Fastest)
    }

    fn read(compression: Compression, bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut all = Vec::new();
        compression.decode(bytes).read_to_end(&mut all)?;
        Ok(all)
    }

    #[test]
    fn streams_of_several_parts_are_read_whole() {
        let (one, two) = (text(), vec![3; 70_000]);
        let both = [&one[..], &two].concat();
        let parts = [gzip(&one), gzip(&two)].concat();
        assert!(read(Compression::Gzip, &parts).unwrap() == both);
        assert_eq!(Compression::sniff(&parts), Compression::Gzip);
        // A frame that decoders skip, between and behind the others: zstd:chunked has such.
        let skipped = [&[0x50, 0x2a, 0x4d, 0x18, 5, 0, 0, 0][..], b"table"].concat();
        let parts = [zstd(&one), skipped.clone(), zstd(&two), skipped].concat();
        assert!(read(Compression::Zstd, &parts).unwrap() == both);
        assert_eq!(Compression::sniff(&parts), Compression::Zstd);
        assert!(read(Compression::None, &both).unwrap() == both);
        assert_eq!(Compression::sniff(&both), Compression::None);
    }

    #[test]
    fn what_is_cut_short_or_damaged_says_so() {
        let bytes = text();
        for (compression, packed, name) in [
            (Compression::Gzip, gzip(&bytes), "gzip"),
            (Compression::Zstd, zstd(&bytes), "zstd"),
        ] {
            for cut in [1, 10, packed.len() / 2, packed.len() - 1] {
                let error = read(compression, &packed[..cut]).unwrap_err().to_string();
                let expected = format!("is cut short: its {name} stream ends too early");
                assert_eq!(error, expected, "{cut}");
            }
            let error = read(compression, &bytes).unwrap_err().to_string();
            assert!(
                error.contains(&format!("{name} stream is damaged")),
                "{error}"
            );
        }
        let skipped = [0x50, 0x2a, 0x4d, 0x18, 5, 0, 0, 0, 1];
        let error = read(Compression::Zstd, &skipped).unwrap_err().to_string();
        assert!(error.contains("ends too early"), "{error}");
    }
}
