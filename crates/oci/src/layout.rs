// SPDX-License-Identifier: GPL-2.0-only
//! Walks from index.json to the images of an OCI layout, and has it point to the new ones.

use crate::decode::Compression;
use crate::digest::Digest;
use crate::document::{Descriptor, bytes, list, parse, point};
use crate::files::INDEX;
use crate::image::{Image, Named, New};
use crate::report::{self, Left, Report};
use crate::store::Store;
use crate::{Error, Options};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use wideleaf_kit::events::Observer;

/// An index may name indexes so deep.
const MAX_DEPTH: usize = 8;

const INDEXES: [&str; 2] = [
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
];
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
const CONFIGS: [&str; 2] = [
    "application/vnd.oci.image.config.v1+json",
    "application/vnd.docker.container.image.v1+json",
];
/// Types of layers without what says how they are compressed.
const LAYERS: [&str; 4] = [
    "application/vnd.oci.image.layer.v1.tar",
    "application/vnd.oci.image.layer.nondistributable.v1.tar",
    "application/vnd.docker.image.rootfs.diff.tar",
    "application/vnd.docker.image.rootfs.foreign.diff.tar",
];
/// By which BuildKit says that a manifest is about another one.
const REFERENCE: &str = "vnd.docker.reference.digest";
/// Names that a descriptor's image has.
const NAMES: [&str; 2] = [
    "io.containerd.image.name",
    "org.opencontainers.image.ref.name",
];

/// A new blob: its digest and size.
type Pointer = (Digest, u64);

/// A walk through a layout.
pub(crate) struct Walk<'w> {
    store: &'w mut Store,
    options: &'w Options,
    scratch: &'w Path,
    observer: &'w dyn Observer,
    /// By digests of manifests: what became of each, and where it is in the report.
    done: BTreeMap<Digest, (Option<Pointer>, usize)>,
    /// Digests of manifests, and of those they are about.
    about: Vec<(Digest, String)>,
    /// By names of configurations' files.
    pub(crate) configs: BTreeMap<String, Renewed>,
    pub(crate) report: Report,
}

/// A configuration that has a new one.
pub(crate) struct Renewed {
    /// The new one's file.
    pub(crate) name: String,
    /// The new layer.
    pub(crate) layer: report::Layer,
    /// The new layer's file.
    pub(crate) layer_name: String,
    /// The new layer, as the new manifest names it.
    pub(crate) descriptor: Value,
}

impl<'w> Walk<'w> {
    pub(crate) fn new(
        store: &'w mut Store,
        options: &'w Options,
        scratch: &'w Path,
        observer: &'w dyn Observer,
    ) -> Walk<'w> {
        Walk {
            store,
            options,
            scratch,
            observer,
            done: BTreeMap::new(),
            about: Vec::new(),
            configs: BTreeMap::new(),
            report: Report::default(),
        }
    }

    /// Aligns all images. The new index.json, if it has to change.
    pub(crate) fn all(&mut self) -> Result<Option<Vec<u8>>, Error> {
        let at = self.store.path(INDEX);
        let mut index = parse(&at, &self.store.read(INDEX, &at)?)?;
        let changed = self.index(&at, &mut index, 0)?;
        self.name_those_about_old_ones();
        Ok(changed.then(|| bytes(&index)))
    }

    /// Whether something that the index names is another one now.
    fn index(&mut self, at: &str, index: &mut Value, depth: usize) -> Result<bool, Error> {
        check_version(at, index)?;
        list(at, "manifests", &index["manifests"])?;
        let mut changed = false;
        let manifests = index["manifests"].as_array_mut();
        for (number, entry) in manifests.into_iter().flatten().enumerate() {
            let field = format!("manifests[{number}]");
            let descriptor = Descriptor::parse(at, &field, entry)?;
            let new = match &descriptor.media_type[..] {
                kind if INDEXES.contains(&kind) => {
                    if depth == MAX_DEPTH {
                        let must = format!("at most {MAX_DEPTH} indexes deep");
                        return Err(Error::field(at, field, "an index in an index", must));
                    }
                    self.nested(at, &descriptor, depth)?
                }
                MANIFEST | DOCKER_MANIFEST => self.manifest(at, &descriptor, entry)?,
                kind => {
                    let reason = format!("its media type {kind} is no image's");
                    self.leave(&descriptor.digest, reason);
                    None
                }
            };
            if let Some((digest, size)) = new {
                point(entry, &digest, size);
                changed = true;
            }
        }
        Ok(changed)
    }

    fn nested(
        &mut self,
        by: &str,
        descriptor: &Descriptor,
        depth: usize,
    ) -> Result<Option<Pointer>, Error> {
        let mut index = descriptor.read(self.store, by)?;
        let at = self.store.path(&descriptor.digest.blob());
        match self.index(&at, &mut index, depth + 1)? {
            true => self.put(&index).map(Some),
            false => Ok(None),
        }
    }

    fn put(&mut self, value: &Value) -> Result<Pointer, Error> {
        let content = bytes(value);
        self.store.put(&Digest::blob, &mut |out| {
            let written = out.write_all(&content);
            written.map_err(Error::io("a new blob", "cannot write"))
        })
    }

    fn leave(&mut self, digest: &Digest, reason: String) {
        self.report.left.push(Left {
            digest: digest.to_string(),
            reason,
        });
    }

    fn manifest(
        &mut self,
        by: &str,
        descriptor: &Descriptor,
        entry: &Value,
    ) -> Result<Option<Pointer>, Error> {
        let digest = &descriptor.digest;
        let names = names(entry);
        if let Some((new, image)) = self.done.get(digest) {
            let known = &mut self.report.images[*image].names;
            let more = names.into_iter().filter(|name| !known.contains(name));
            let more: Vec<String> = more.collect();
            known.extend(more);
            return Ok(new.clone());
        }
        let manifest = descriptor.read(self.store, by)?;
        let at = self.store.path(&digest.blob());
        check_version(&at, &manifest)?;
        let subject = manifest["subject"]["digest"].as_str();
        let reference = entry["annotations"][REFERENCE].as_str();
        for about in [subject, reference].into_iter().flatten() {
            self.about.push((digest.clone(), about.to_owned()));
        }
        if reference.is_some() {
            self.leave(digest, "is about another manifest".to_owned());
            return Ok(None);
        }
        let config = Descriptor::parse(&at, "config", &manifest["config"])?;
        if !CONFIGS.contains(&&config.media_type[..]) {
            let reason = format!("is no image: its config is {}", config.media_type);
            self.leave(digest, reason);
            return Ok(None);
        }
        let image = self.image(&at, &manifest, &config)?;
        let platform = image.platform();
        if let Some(reason) = self.options.passes_over(&platform) {
            self.leave(digest, reason);
            return Ok(None);
        }
        let (options, scratch, observer) = (self.options, self.scratch, self.observer);
        let done = image.align(self.store, &Digest::blob, options, scratch, observer)?;
        let mut layer = None;
        let new = match done.new {
            None => None,
            Some(new) => {
                layer = Some(new.report());
                Some(self.renew(manifest, &descriptor.media_type, &config, new)?)
            }
        };
        self.report.images.push(report::Image {
            names,
            platform,
            manifest_before: Some(digest.to_string()),
            manifest_after: new.as_ref().map(|(digest, _)| digest.to_string()),
            layer,
            files: done.files,
            about_old: Vec::new(),
        });
        let place = self.report.images.len() - 1;
        self.done.insert(digest.clone(), (new.clone(), place));
        Ok(new)
    }

    fn image(&self, at: &str, manifest: &Value, config: &Descriptor) -> Result<Image, Error> {
        let mut named: Vec<Named> = Vec::new();
        let layers = list(at, "layers", &manifest["layers"])?;
        for (number, layer) in layers.iter().enumerate() {
            let field = format!("layers[{number}]");
            let layer = Descriptor::parse(at, &field, layer)?;
            let compression = compression(at, &field, &layer.media_type)?;
            named.push((
                layer.digest.blob(),
                compression,
                Some((layer.digest, layer.size)),
            ));
        }
        let value = config.read(self.store, at)?;
        let config_at = self.store.path(&config.digest.blob());
        Image::new(value, &config_at, at, named)
    }

    /// Writes the new configuration and manifest.
    fn renew(
        &mut self,
        mut manifest: Value,
        media_type: &str,
        config: &Descriptor,
        new: New,
    ) -> Result<Pointer, Error> {
        let (digest, size) = self.put(&new.config)?;
        point(&mut manifest["config"], &digest, size);
        let kind = match (media_type, new.compression) {
            (DOCKER_MANIFEST, Compression::None) => "application/vnd.docker.image.rootfs.diff.tar",
            (DOCKER_MANIFEST, _) => "application/vnd.docker.image.rootfs.diff.tar.gzip",
            (_, Compression::None) => "application/vnd.oci.image.layer.v1.tar",
            _ => "application/vnd.oci.image.layer.v1.tar+gzip",
        };
        let descriptor = json!({
            "mediaType": kind,
            "digest": new.layer.to_string(),
            "size": new.size,
        });
        let layers = manifest["layers"].as_array_mut();
        layers.expect("was looked at").push(descriptor.clone());
        let renewed = Renewed {
            name: digest.blob(),
            layer: new.report(),
            layer_name: new.layer.blob(),
            descriptor,
        };
        self.configs.insert(config.digest.blob(), renewed);
        self.put(&manifest)
    }

    /// Says of each image that is another one now which manifests are about the old one.
    fn name_those_about_old_ones(&mut self) {
        for image in &mut self.report.images {
            let old = image.manifest_before.as_deref();
            if image.manifest_after.is_none() {
                continue;
            }
            let about = self
                .about
                .iter()
                .filter(|(_, about)| Some(&about[..]) == old);
            image.about_old = about.map(|(digest, _)| digest.to_string()).collect();
        }
    }
}

/// Its name by its annotations.
fn names(entry: &Value) -> Vec<String> {
    let names = NAMES
        .iter()
        .filter_map(|key| entry["annotations"][key].as_str());
    names.take(1).map(str::to_owned).collect()
}

/// How a layer of this type is compressed.
fn compression(at: &str, field: &str, media_type: &str) -> Result<Compression, Error> {
    let rest = LAYERS.iter().find_map(|kind| media_type.strip_prefix(kind));
    match rest {
        Some("") => Ok(Compression::None),
        Some("+gzip" | ".gzip") => Ok(Compression::Gzip),
        Some("+zstd" | ".zstd") => Ok(Compression::Zstd),
        _ => {
            let must = "a layer's, as application/vnd.oci.image.layer.v1.tar, +gzip or +zstd";
            Err(Error::field(
                at,
                format!("{field}.mediaType"),
                media_type,
                must,
            ))
        }
    }
}

fn check_version(at: &str, document: &Value) -> Result<(), Error> {
    let version = &document["schemaVersion"];
    match version.as_u64() {
        Some(2) => Ok(()),
        _ => Err(Error::field(at, "schemaVersion", version.to_string(), "2")),
    }
}
