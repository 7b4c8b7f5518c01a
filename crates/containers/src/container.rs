// SPDX-License-Identifier: GPL-2.0-only
//! A container, as far as it is known.

use serde::Serialize;

/// A container. A field that is not known is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Container {
    /// Its id, which its control group has.
    pub id: String,
    /// Its own name; in a pod, the name there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The image that it was made from, as it was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The pod that it is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// The pod's namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The runtime: `podman`, `docker`, `containerd`, `cri-o`, `runc`, `crun`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime: Option<&'static str>,
}

/// Digits of an id that are shown where there is no name.
const SHORT: usize = 12;

impl Container {
    /// One of which only the id is known.
    pub(crate) fn of(id: impl Into<String>) -> Container {
        Container {
            id: id.into(),
            ..Container::default()
        }
    }

    /// Takes over what `other` knows in addition.
    pub(crate) fn fill(&mut self, other: Container) {
        let take = |mine: &mut Option<String>, other: Option<String>| {
            if mine.is_none() {
                *mine = other;
            }
        };
        take(&mut self.name, other.name);
        take(&mut self.image, other.image);
        take(&mut self.pod, other.pod);
        take(&mut self.namespace, other.namespace);
        self.runtime = self.runtime.or(other.runtime);
    }

    /// Its name, or the first digits of its id, as `docker ps` shows it.
    pub fn label(&self) -> &str {
        let short = self.id.get(..SHORT).unwrap_or(&self.id);
        self.name.as_deref().unwrap_or(short)
    }

    /// Its pod with the namespace: `shop/web-0`.
    pub fn pod_label(&self) -> Option<String> {
        let pod = self.pod.as_deref()?;
        Some(match &self.namespace {
            Some(namespace) => format!("{namespace}/{pod}"),
            None => pod.to_owned(),
        })
    }
}

/// Text that says something.
pub(crate) fn some(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}
