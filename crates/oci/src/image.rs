// SPDX-License-Identifier: GPL-2.0-only
//! One image: which of its files gain, the new layer, and the configuration with that layer.

use crate::compose::{self, Changed, SIGNATURES};
use crate::decode::Compression;
use crate::digest::{Digest, Hashing};
use crate::document::{list, text};
use crate::files::Naming;
use crate::gather::{Candidate, Gathered};
use crate::layer::Layer;
use crate::report;
use crate::store::Store;
use crate::{Error, Options};
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use wideleaf_align::{Status, Target};
use wideleaf_kit::events::{Event, Observer};
use wideleaf_kit::size::short;

/// An image as manifest and configuration describe it.
pub(crate) struct Image {
    pub(crate) config: Value,
    /// The lowest first.
    pub(crate) layers: Vec<Layer>,
}

/// A layer as a manifest names it: file, compression, and digest and size where it says them.
pub(crate) type Named = (String, Compression, Option<(Digest, u64)>);

/// The outcome for an image.
pub(crate) struct Done {
    pub(crate) files: Vec<report::File>,
    pub(crate) new: Option<New>,
}

/// The new parts of an image.
pub(crate) struct New {
    pub(crate) config: Value,
    pub(crate) layer: Digest,
    pub(crate) size: u64,
    pub(crate) diff_id: Digest,
    pub(crate) unpacked: u64,
    pub(crate) compression: Compression,
}

impl New {
    pub(crate) fn report(&self) -> report::Layer {
        report::Layer {
            digest: self.layer.to_string(),
            size: self.size,
            diff_id: self.diff_id.to_string(),
            unpacked: self.unpacked,
        }
    }
}

impl Image {
    /// From a configuration, the file `config_at`, and the layers that the file `by` names.
    pub(crate) fn new(
        config: Value,
        config_at: &str,
        by: &str,
        named: Vec<Named>,
    ) -> Result<Image, Error> {
        let field = "rootfs.diff_ids";
        let ids = list(config_at, field, &config["rootfs"]["diff_ids"])?;
        let count = |what: &str, found: usize| {
            let must = format!("{}, one for each layer that {by} names", named.len());
            Err(Error::field(
                config_at,
                format!("the number of {what}"),
                found.to_string(),
                must,
            ))
        };
        if ids.len() != named.len() {
            return count(field, ids.len());
        }
        if let Some(history) = config["history"].as_array().filter(|all| !all.is_empty()) {
            let layers = history.iter().filter(|one| one["empty_layer"] != true);
            let layers = layers.count();
            if layers != named.len() {
                return count("entries of history with a layer", layers);
            }
        }
        let mut layers = Vec::new();
        for (number, (id, (name, compression, blob))) in ids.iter().zip(named).enumerate() {
            let field = format!("{field}[{number}]");
            let id = Digest::parse(config_at, &field, text(config_at, &field, id)?)?;
            layers.push(Layer {
                name,
                compression,
                blob,
                by: by.to_owned(),
                diff_id: (id, format!("{config_at} in {field}, for what is in it,")),
            });
        }
        Ok(Image { config, layers })
    }

    /// Operating system and architecture, as `linux/amd64` or `linux/arm/v7`.
    pub(crate) fn platform(&self) -> String {
        let field = |name: &str| self.config[name].as_str().filter(|text| !text.is_empty());
        let parts = [
            Some(field("os").unwrap_or("unknown")),
            Some(field("architecture").unwrap_or("unknown")),
            field("variant"),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join("/")
    }

    /// How a new layer is compressed: as the topmost, but for zstd, of which gzip takes the place.
    pub(crate) fn compression(&self) -> Compression {
        match self.layers.last().map(|layer| layer.compression) {
            Some(Compression::None) => Compression::None,
            _ => Compression::Gzip,
        }
    }

    /// Aligns the files that gain by it, and puts them into a new layer.
    pub(crate) fn align(
        mut self,
        store: &mut Store,
        naming: &Naming,
        options: &Options,
        scratch: &Path,
        observer: &dyn Observer,
    ) -> Result<Done, Error> {
        let platform = self.platform();
        let mut gathered = Gathered::new();
        for (number, layer) in self.layers.iter().enumerate() {
            let (number, all) = (number + 1, self.layers.len());
            let text = format!("{platform}: reading layer {number} of {all}");
            observer.event(Event::Step(&text));
            gathered.layer(store, layer, options.align.leaf, scratch)?;
        }
        let mut files = Vec::new();
        let mut changed = Vec::new();
        let mut counted: Vec<_> = gathered.tree.counted().into_iter().collect();
        counted.sort_by(|(_, one), (_, other)| one.cmp(other));
        for (number, names) in counted {
            let candidate = &gathered.candidates[number];
            let path = path(&names[0]);
            observer.event(Event::Step(&format!("{platform}: {}", path.display())));
            let content = scratch.join(format!("{number}.aligned"));
            let Some(outcome) = align(&path, candidate, &names, &content, &gathered, options)?
            else {
                continue;
            };
            files.push(report::File {
                path,
                links: names[1..].iter().map(|name| self::path(name)).collect(),
                outcome: outcome.clone(),
            });
            if matches!(outcome, report::Outcome::Aligned { .. }) {
                changed.push(Changed {
                    names,
                    meta: &candidate.meta,
                    content,
                });
            }
        }
        let new = match changed.is_empty() || options.align.dry_run {
            true => None,
            false => {
                observer.event(Event::Step(&format!("{platform}: writing the new layer")));
                let compression = self.compression();
                let mut new = write(store, naming, compression, &changed, &gathered, options)?;
                new.config = std::mem::take(&mut self.config);
                amend(&mut new, changed.len(), options);
                Some(new)
            }
        };
        clear(scratch)?;
        Ok(Done { files, new })
    }
}

/// A name of an image as a path from the root.
fn path(name: &[u8]) -> PathBuf {
    Path::new("/").join(OsString::from_vec(name.to_vec()))
}

/// Aligns a file. None if nothing is to be gained after all.
fn align(
    path: &Path,
    candidate: &Candidate,
    names: &[Vec<u8>],
    content: &Path,
    gathered: &Gathered,
    options: &Options,
) -> Result<Option<report::Outcome>, Error> {
    let refused = |reason: String| Ok(Some(report::Outcome::Refused { reason }));
    let Some(copy) = &candidate.copy else {
        let reason = "its layer leaves out its holes (GNU sparse), which is not read here";
        return refused(reason.to_owned());
    };
    if !options.align.force
        && let Some(reason) = protected(candidate)
    {
        return refused(reason);
    }
    match wideleaf_align::align(copy, Target::File(content), &options.align) {
        Ok(report) if report.status == Status::Aligned => Ok(Some(report::Outcome::Aligned {
            size_before: report.size_before,
            size_after: report.size_after,
            usable_before: report.usable_before,
            usable_after: report.usable_after,
            signatures_broken: signatures(names, gathered),
        })),
        Ok(_) => Ok(None),
        Err(refusal) if refusal.is_failure() => Err(Error::Align {
            at: path.display().to_string(),
            refusal,
        }),
        Err(refusal) => refused(refusal.to_string()),
    }
}

/// Why a file is not aligned that is more than its bytes.
fn protected(candidate: &Candidate) -> Option<String> {
    let meta = &candidate.meta;
    let kind = match meta.header.mode().unwrap_or(0) & 0o6000 {
        0 => None,
        0o4000 => Some("setuid"),
        0o2000 => Some("setgid"),
        _ => Some("setuid and setgid"),
    };
    if let Some(kind) = kind {
        return Some(format!("is {kind}: --force aligns it all the same"));
    }
    let mut records = meta.records.iter();
    let (key, _) = records.find(|(key, _)| SIGNATURES.contains(&&key[..]))?;
    let key = String::from_utf8_lossy(key);
    let name = key.strip_prefix("SCHILY.xattr.").unwrap_or(&key);
    Some(format!(
        "is signed by its extended attribute {name}, which would not fit any more: --force drops it"
    ))
}

/// Files of the image that hold a checksum of this one.
fn signatures(names: &[Vec<u8>], gathered: &Gathered) -> Vec<String> {
    let mut found = Vec::new();
    for name in names {
        let at = name.iter().rposition(|byte| *byte == b'/');
        let (folder, file) = name.split_at(at.map_or(0, |at| at + 1));
        let stem = file.strip_suffix(b".so").unwrap_or(file);
        let beside = [
            [folder, b".", file, b".hmac"].concat(),
            [folder, file, b".hmac"].concat(),
            [folder, b"fipscheck/", file, b".hmac"].concat(),
            [folder, stem, b".chk"].concat(),
        ];
        let there = beside.iter().filter(|name| gathered.tree.has(name));
        found.extend(there.map(|name| path(name).display().to_string()));
    }
    found
}

fn write(
    store: &mut Store,
    naming: &Naming,
    compression: Compression,
    changed: &[Changed],
    gathered: &Gathered,
    options: &Options,
) -> Result<New, Error> {
    let mut plain = None;
    let (layer, size) = store.put(naming, &mut |out| {
        let broken = || Error::io("the new layer", "cannot write");
        let (digest, length) = match compression {
            Compression::None => {
                let mut hashing = Hashing::new(out);
                compose::write(changed, &gathered.tree, options.epoch, &mut hashing)?;
                let (digest, length, _) = hashing.finish();
                (digest, length)
            }
            _ => {
                let encoder = GzEncoder::new(out, flate2::Compression::default());
                let mut hashing = Hashing::new(encoder);
                compose::write(changed, &gathered.tree, options.epoch, &mut hashing)?;
                let (digest, length, encoder) = hashing.finish();
                let flushed = encoder.finish().and_then(|out| out.flush());
                flushed.map_err(broken())?;
                (digest, length)
            }
        };
        plain = Some((digest, length));
        Ok(())
    })?;
    let (diff_id, unpacked) = plain.expect("put calls it once");
    Ok(New {
        config: Value::Null,
        layer,
        size,
        diff_id,
        unpacked,
        compression,
    })
}

/// Adds the new layer to the configuration.
fn amend(new: &mut New, files: usize, options: &Options) {
    let config = &mut new.config;
    let created = match options.epoch {
        Some(epoch) => i64::try_from(epoch)
            .ok()
            .and_then(|seconds| jiff::Timestamp::from_second(seconds).ok())
            .map(|time| time.to_string().into()),
        None => Some(config["created"].clone()),
    };
    let ids = config["rootfs"]["diff_ids"].as_array_mut();
    ids.expect("was looked at")
        .push(new.diff_id.to_string().into());
    let what = if files == 1 { "file" } else { "files" };
    let mut entry = json!({
        "created_by": "wideleaf align --oci",
        "comment": format!("{files} {what} aligned for leaves of {}", short(options.align.leaf)),
    });
    if let Some(created) = created.filter(Value::is_string) {
        entry["created"] = created.clone();
        config["created"] = created;
    }
    if let Some(history) = config["history"]
        .as_array_mut()
        .filter(|all| !all.is_empty())
    {
        history.push(entry);
    }
}

/// The next image's copies have the same names.
fn clear(scratch: &Path) -> Result<(), Error> {
    let at = scratch.display().to_string();
    let failed = || Error::io(&at, "cannot empty");
    for entry in std::fs::read_dir(scratch).map_err(failed())? {
        let path = entry.map_err(failed())?.path();
        std::fs::remove_file(path).map_err(failed())?;
    }
    Ok(())
}
