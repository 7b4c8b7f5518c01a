// SPDX-License-Identifier: GPL-2.0-only
//! The images of an archive as `docker save` writes it: manifest.json names them. Newer versions
//! write an OCI layout besides, whose blobs it names; what is new of that is new here too.

use crate::decode::Compression;
use crate::digest::Digest;
use crate::document::{bytes, list, parse, text};
use crate::files::DOCKER;
use crate::image::{Image, Named};
use crate::layout::Renewed;
use crate::report::{self, Report};
use crate::store::Store;
use crate::{Error, Options};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use wideleaf_kit::events::Observer;

/// Aligns the images that are not among `renewed`. The new manifest.json, if it has to change.
pub(crate) fn all(
    store: &mut Store,
    options: &Options,
    scratch: &Path,
    observer: &dyn Observer,
    renewed: &BTreeMap<String, Renewed>,
    report: &mut Report,
) -> Result<Option<Vec<u8>>, Error> {
    let at = store.path(DOCKER);
    let mut manifest = parse(&at, &store.read(DOCKER, &at)?)?;
    list(&at, "the document", &manifest)?;
    let mut changed = false;
    for (number, item) in manifest.as_array_mut().into_iter().flatten().enumerate() {
        let field = format!("[{number}]");
        let config = text(&at, &format!("{field}.Config"), &item["Config"])?.to_owned();
        let new = match renewed.get(&config) {
            Some(new) => Some((new.name.clone(), new.layer.clone(), new.layer_name.clone())),
            // Those of a layout that did not change, or were left, were looked at there.
            None if config.starts_with("blobs/") && store.has("oci-layout") => None,
            None => one(store, options, scratch, observer, &at, &field, item, report)?,
        };
        let Some((name, layer, layer_name)) = new else {
            continue;
        };
        changed = true;
        item["Config"] = name.into();
        if let Some(layers) = item["Layers"].as_array_mut() {
            layers.push(layer_name.into());
        }
        let descriptor = renewed.get(&config).map(|new| new.descriptor.clone());
        let sources = item["LayerSources"].as_object_mut();
        if let (Some(sources), Some(descriptor)) = (sources, descriptor) {
            sources.insert(layer.diff_id.clone(), descriptor);
        }
    }
    Ok(changed.then(|| bytes(&manifest)))
}

/// The new parts of an image: the names of its configuration, of its layer, and that layer.
type NewNames = (String, report::Layer, String);

#[allow(clippy::too_many_arguments)]
fn one(
    store: &mut Store,
    options: &Options,
    scratch: &Path,
    observer: &dyn Observer,
    at: &str,
    field: &str,
    item: &Value,
    report: &mut Report,
) -> Result<Option<NewNames>, Error> {
    let config = text(at, &format!("{field}.Config"), &item["Config"])?;
    let config_at = store.path(config);
    let content = store.read(config, at)?;
    check_name(at, config, &config_at, &content)?;
    let mut named: Vec<Named> = Vec::new();
    let layers = format!("{field}.Layers");
    for (number, layer) in list(at, &layers, &item["Layers"])?.iter().enumerate() {
        let layer = text(at, &format!("{layers}[{number}]"), layer)?;
        let mut start = Vec::new();
        let (reader, _) = store.open(layer, at)?;
        let read = reader.take(4).read_to_end(&mut start);
        read.map_err(Error::io(store.path(layer), "cannot read"))?;
        named.push((layer.to_owned(), Compression::sniff(&start), None));
    }
    let image = Image::new(parse(&config_at, &content)?, &config_at, at, named)?;
    let platform = image.platform();
    if let Some(reason) = options.passes_over(&platform) {
        report.left.push(report::Left {
            digest: config.to_owned(),
            reason,
        });
        return Ok(None);
    }
    let end = match image.compression() {
        Compression::None => "tar",
        _ => "tar.gz",
    };
    let layer_name = |digest: &Digest| format!("{}.{end}", digest.hex());
    let done = image.align(store, &layer_name, options, scratch, observer)?;
    let mut new = None;
    if let Some(renewed) = &done.new {
        let content = bytes(&renewed.config);
        let naming = |digest: &Digest| format!("{}.json", digest.hex());
        let (digest, _) = store.put(&naming, &mut |out| {
            let written = out.write_all(&content);
            written.map_err(Error::io("the new configuration", "cannot write"))
        })?;
        let layer = renewed.report();
        new = Some((naming(&digest), layer, layer_name(&renewed.layer)));
    }
    let tags = item["RepoTags"].as_array().into_iter().flatten();
    report.images.push(report::Image {
        names: tags.filter_map(Value::as_str).map(str::to_owned).collect(),
        platform,
        manifest_before: None,
        manifest_after: None,
        layer: done.new.as_ref().map(|new| new.report()),
        files: done.files,
        about_old: Vec::new(),
    });
    Ok(new)
}

/// A configuration is called by its digest.
fn check_name(by: &str, name: &str, at: &str, content: &[u8]) -> Result<(), Error> {
    let stem = name.strip_suffix(".json").unwrap_or(name);
    let stem = stem.rsplit('/').next().unwrap_or(stem);
    let found = Digest::of(content);
    let is_digest = stem.len() == 64 && stem.bytes().all(|b| b.is_ascii_hexdigit());
    match !is_digest || stem == found.hex() {
        true => Ok(()),
        false => Err(Error::Digest {
            at: at.to_owned(),
            by: by.to_owned(),
            expected: format!("sha256:{stem}"),
            found: found.to_string(),
        }),
    }
}
