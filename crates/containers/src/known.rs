// SPDX-License-Identifier: GPL-2.0-only
//! All that is known of the containers of this machine, and the questions that are asked.

use crate::container::Container;
use crate::{Error, cri, group, state};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The containers of this machine.
#[derive(Debug, Default)]
pub struct Containers {
    by_id: BTreeMap<String, Container>,
    /// By the control group's path, the longest first: of those whose group does not have the id.
    groups: Vec<(String, String)>,
    /// Sources that are there and could not be asked or read.
    pub errors: Vec<Error>,
}

/// Which containers are meant; everything given must match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The pod's name, or `NAMESPACE/POD`.
    pub pod: Option<String>,
    /// The container's name, or the beginning of its id.
    pub container: Option<String>,
    /// The image as it was named, or its last part with or without a tag: `node`, `node:22`.
    pub image: Option<String>,
}

/// The sources are read again after that time.
const OLD: Duration = Duration::from_secs(5);
/// Digits of an id that are enough to name a container.
const ENOUGH: usize = 4;

impl Wanted {
    /// Whether any container is meant.
    pub fn any(&self) -> bool {
        self.pod.is_some() || self.container.is_some() || self.image.is_some()
    }

    /// Whether this container is meant.
    pub fn takes(&self, container: &Container) -> bool {
        let pod = self.pod.as_ref().is_none_or(|wanted| {
            container.pod.as_deref() == Some(wanted)
                || container.pod_label().as_deref() == Some(wanted)
        });
        let named = self.container.as_ref().is_none_or(|wanted| {
            let by_id = wanted.len() >= ENOUGH && container.id.starts_with(wanted.as_str());
            by_id || container.name.as_deref() == Some(wanted)
        });
        let image = self.image.as_ref().is_none_or(|wanted| {
            let image = container.image.as_deref();
            image.is_some_and(|image| is_image(image, wanted))
        });
        pod && named && image
    }
}

/// Whether an image is called so: `docker.io/library/node:22@sha256:...` is `library/node:22`,
/// `node:22` and `node`, and not `de:22`.
fn is_image(image: &str, wanted: &str) -> bool {
    let mut forms = vec![image];
    let plain = image.split_once('@').map_or(image, |(plain, _)| plain);
    forms.push(plain);
    // A colon before the last slash is a port.
    let last = plain.rfind('/').map_or(0, |at| at + 1);
    if let Some(at) = plain[last..].find(':') {
        forms.push(&plain[..last + at]);
    }
    forms.iter().any(|form| {
        let rest = form.strip_suffix(wanted);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
    })
}

impl Containers {
    /// Looks at what the runtimes below `root`, `/` usually, have.
    pub fn look(root: &Path) -> Containers {
        let state = state::look(root);
        let mut found = Containers {
            errors: state.errors,
            groups: state.groups,
            by_id: BTreeMap::new(),
        };
        for container in state.containers {
            found.add(container);
        }
        for socket in cri::sockets(root) {
            match cri::containers(&socket) {
                Ok(all) => all.into_iter().for_each(|container| found.add(container)),
                Err(error) => found.errors.push(error),
            }
        }
        found
            .groups
            .sort_by(|(a, _), (b, _)| b.len().cmp(&a.len()).then(a.cmp(b)));
        found
    }

    fn add(&mut self, container: Container) {
        match self.by_id.get_mut(&container.id) {
            Some(known) => known.fill(container),
            None => drop(self.by_id.insert(container.id.clone(), container)),
        }
    }

    /// The container that a control group belongs to, by its path in /proc/PID/cgroup.
    pub fn of(&self, cgroup: &str) -> Option<Container> {
        if let Some(group) = group::parse(cgroup) {
            let known = self.by_id.get(group.id).cloned();
            let mut container = known.unwrap_or_else(|| Container::of(group.id));
            container.runtime = group.runtime.or(container.runtime);
            return Some(container);
        }
        let below = |group: &str| {
            let rest = cgroup.strip_prefix(group);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let (_, id) = self.groups.iter().find(|(group, _)| below(group))?;
        self.by_id.get(id).cloned()
    }

    /// Says of control groups whether they are those of containers that are meant. Looks below
    /// `root` again from time to time: containers come and go.
    pub fn takes(self, wanted: Wanted, root: PathBuf) -> impl Fn(&str) -> bool + Send + Sync {
        let known = Mutex::new((self, Instant::now()));
        move |cgroup| {
            let Ok(mut known) = known.lock() else {
                return false;
            };
            if known.1.elapsed() > OLD {
                *known = (Containers::look(&root), Instant::now());
            }
            known
                .0
                .of(cgroup)
                .is_some_and(|container| wanted.takes(&container))
        }
    }

    /// Whether one of those that are known is meant.
    ///
    /// # Errors
    ///
    /// With what is known instead.
    pub fn check(&self, wanted: &Wanted) -> Result<(), Error> {
        let some = |wanted: &Wanted| self.by_id.values().any(|container| wanted.takes(container));
        if !wanted.any() || some(wanted) {
            return Ok(());
        }
        type Names = fn(&Container) -> Option<String>;
        let none = Wanted::default;
        let (pod, container, image) = (&wanted.pod, &wanted.container, &wanted.image);
        let parts: [(&'static str, &Option<String>, Wanted, Names); 3] = [
            (
                "the pod",
                pod,
                Wanted {
                    pod: pod.clone(),
                    ..none()
                },
                Container::pod_label,
            ),
            (
                "the name or id",
                container,
                Wanted {
                    container: container.clone(),
                    ..none()
                },
                |c| c.name.clone(),
            ),
            (
                "the image",
                image,
                Wanted {
                    image: image.clone(),
                    ..none()
                },
                |c| c.image.clone(),
            ),
        ];
        // The first that no container has by itself, else the first: no container has all of them.
        let given = || parts.iter().filter(|(_, value, ..)| value.is_some());
        let missing = given().find(|(_, _, alone, _)| !some(alone));
        let Some((what, value, _, of)) = missing.or_else(|| given().next()) else {
            return Ok(());
        };
        let mut known: Vec<String> = self.by_id.values().filter_map(of).collect();
        known.sort();
        known.dedup();
        let known = match known.is_empty() {
            true => ", and none has one".to_owned(),
            false => format!("; there are {}", known.join(", ")),
        };
        Err(Error::None {
            what,
            value: value.as_deref().unwrap_or_default().to_owned(),
            known,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cri::tests::{answer, serve};
    use std::fs;

    fn container(id: &str, name: &str, image: &str, pod: &str) -> Container {
        Container {
            name: Some(name.to_owned()),
            image: Some(image.to_owned()),
            pod: Some(pod.to_owned()),
            namespace: Some("shop".to_owned()),
            ..Container::of(id)
        }
    }

    #[test]
    fn containers_are_meant_by_any_of_their_names() {
        let one = container(
            "abcdef12",
            "app",
            "docker.io:5000/library/node:22@sha256:00",
            "web-0",
        );
        let wanted = |pod: &str, container: &str, image: &str| Wanted {
            pod: crate::container::some(pod),
            container: crate::container::some(container),
            image: crate::container::some(image),
        };
        for (pod, name, image) in [
            ("web-0", "", ""),
            ("shop/web-0", "", ""),
            ("", "app", ""),
            ("", "abcd", ""),
            ("web-0", "app", "node"),
            ("", "", "node:22"),
            ("", "", "library/node"),
            ("", "", "docker.io:5000/library/node:22@sha256:00"),
        ] {
            assert!(wanted(pod, name, image).takes(&one), "{pod} {name} {image}");
        }
        for (pod, name, image) in [
            ("web", "", ""),
            ("other/web-0", "", ""),
            ("", "abc", ""),
            ("", "", "ode:22"),
            ("", "", "node:2"),
            ("", "", "docker.io"),
            ("web-0", "app", "nginx"),
        ] {
            assert!(
                !wanted(pod, name, image).takes(&one),
                "{pod} {name} {image}"
            );
        }
    }

    #[test]
    fn state_and_socket_are_put_together_by_id() {
        let root = tempfile::tempdir().unwrap();
        let id = "0123456789abcdef".repeat(4);
        let at = |path: &str| root.path().join(path);
        fs::create_dir_all(at("run/containerd")).unwrap();
        fs::create_dir_all(at("run/runc/alone")).unwrap();
        let state = r#"{"id":"alone","cgroup_paths":{"":"/sys/fs/cgroup/my/group"}}"#;
        fs::write(at("run/runc/alone/state.json"), state).unwrap();
        let server = serve(&at("run/containerd/containerd.sock"), answer(&id), "0");
        let found = Containers::look(root.path());
        server.join().unwrap();
        assert!(found.errors.is_empty(), "{:?}", found.errors);
        let group = format!("/kubepods/burstable/pod1/{id}/init");
        let of = found.of(&group).unwrap();
        assert_eq!(of.pod_label().as_deref(), Some("shop/web-0"));
        assert_eq!((of.label(), of.runtime), ("app", None));
        let unknown = "f".repeat(64);
        let of = found
            .of(&format!("/machine.slice/libpod-{unknown}.scope"))
            .unwrap();
        assert_eq!((of.label(), of.runtime), ("ffffffffffff", Some("podman")));
        assert_eq!(found.of("/my/group/below").unwrap().label(), "alone");
        assert_eq!(found.of("/my/groups"), None);
        assert_eq!(found.of("/system.slice/ssh.service"), None);
        let wanted = Wanted {
            pod: Some("web-9".into()),
            ..Wanted::default()
        };
        let text = found.check(&wanted).unwrap_err().to_string();
        assert_eq!(
            text,
            "no container with the pod web-9 is known; there are shop/web-0"
        );
        let wanted = Wanted {
            container: Some("app".into()),
            ..Wanted::default()
        };
        assert!(found.check(&wanted).is_ok());
        let takes = found.takes(wanted.clone(), "/no/such".into());
        assert!(takes(&group) && !takes("/my/group"));
        let none = Containers::default()
            .check(&wanted)
            .unwrap_err()
            .to_string();
        assert_eq!(
            none,
            "no container with the name or id app is known, and none has one"
        );
    }
}
