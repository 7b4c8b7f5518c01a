// SPDX-License-Identifier: GPL-2.0-only
//! Reads the files in which runtimes keep their containers.
//!
//! | runtime | file |
//! |---|---|
//! | Podman, CRI-O | `overlay-containers/containers.json` of each storage, and `ID/userdata/config.json` |
//! | Podman's pods | `db.sql` (Podman 5) or `libpod/bolt_state.db` of each storage |
//! | Docker | `containers/ID/config.v2.json` |
//! | containerd | `io.containerd.runtime.v2.task/NAMESPACE/ID/config.json` |
//! | runc | `ID/state.json` |
//! | crun | `ID/status` |

use crate::Error;
use crate::container::{Container, some};
use crate::pods;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

/// No honest file of these is larger.
const MAX: u64 = 64 << 20;
/// Containers of one runtime that are looked at.
const MOST: usize = 10_000;

/// Containers as their runtimes describe them.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) containers: Vec<Container>,
    /// Control groups by whose path alone a container is known, and its id.
    pub(crate) groups: Vec<(String, String)>,
    /// Files that are there and cannot be read.
    pub(crate) errors: Vec<Error>,
}

/// Looks at all that is kept below `root`, `/` usually.
pub(crate) fn look(root: &Path) -> State {
    let mut state = State::default();
    let at = |path: &str| root.join(path.trim_start_matches('/'));
    for storage in storages(root) {
        state.storage(&storage);
    }
    for run in ["/run/containers/storage", "/var/run/containers/storage"] {
        state.bundles(&at(run).join("overlay-containers"), "userdata/config.json");
    }
    for user in children(&at("/run/user")) {
        state.bundles(
            &user.join("containers/overlay-containers"),
            "userdata/config.json",
        );
        state.runc(&user.join("runc"));
        state.crun(&user.join("crun"));
    }
    state.docker(&at("/var/lib/docker/containers"));
    for run in [
        "/run/containerd",
        "/run/k3s/containerd",
        "/run/k0s/containerd",
    ] {
        for namespace in children(&at(run).join("io.containerd.runtime.v2.task")) {
            state.bundles(&namespace, "config.json");
        }
    }
    state.runc(&at("/run/runc"));
    state.crun(&at("/run/crun"));
    state
}

/// Folders in which Podman and CRI-O keep images and containers, of root and of users.
fn storages(root: &Path) -> Vec<PathBuf> {
    let at = |path: &str| root.join(path.trim_start_matches('/'));
    let mut found = vec![at("/var/lib/containers/storage")];
    let config = read(&at("/etc/containers/storage.conf"), &mut Vec::new());
    let config = config.and_then(|text| String::from_utf8(text).ok()?.parse::<toml::Table>().ok());
    let place = config
        .as_ref()
        .and_then(|c| c.get("storage")?.get("graphroot")?.as_str());
    found.extend(place.map(at));
    let users = read(&at("/etc/passwd"), &mut Vec::new()).unwrap_or_default();
    for line in String::from_utf8_lossy(&users).lines() {
        if let Some(home) = line.split(':').nth(5).filter(|home| home.len() > 1) {
            found.push(at(home).join(".local/share/containers/storage"));
        }
    }
    found.sort();
    found.dedup();
    found
}

/// The entries of a folder; none, if it is not there.
fn children(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let mut paths: Vec<PathBuf> = entries.flatten().map(|e| e.path()).take(MOST).collect();
    paths.sort();
    paths
}

fn name(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// A file's bytes. None if it is not there; what else is wrong is told.
fn read(path: &Path, errors: &mut Vec<Error>) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let done = File::open(path).and_then(|file| file.take(MAX).read_to_end(&mut bytes));
    match done {
        Ok(_) => Some(bytes),
        // A container that ended meanwhile, a name that is a file.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            None
        }
        Err(error) => {
            errors.push(Error::State {
                path: path.to_owned(),
                why: error.to_string(),
            });
            None
        }
    }
}

fn json(path: &Path, errors: &mut Vec<Error>) -> Option<Value> {
    let bytes = read(path, errors)?;
    match serde_json::from_slice(&bytes) {
        Ok(value) => Some(value),
        Err(error) => {
            errors.push(Error::State {
                path: path.to_owned(),
                why: format!("is no valid JSON: {error}"),
            });
            None
        }
    }
}

fn text(value: &Value) -> Option<String> {
    value.as_str().and_then(some)
}

impl State {
    /// Names and images of all containers in a storage, also of those that do not run.
    fn storage(&mut self, storage: &Path) {
        let file = storage.join("overlay-containers/containers.json");
        let Some(list) = json(&file, &mut self.errors) else {
            return;
        };
        let databases = ["db.sql", "libpod/db.sql", "libpod/bolt_state.db"];
        let databases = databases.iter().map(|file| storage.join(file));
        let pods = databases
            .filter_map(|file| read(&file, &mut self.errors))
            .flat_map(|database| pods::names(&database))
            .collect();
        for entry in list.as_array().into_iter().flatten().take(MOST) {
            let Some(id) = text(&entry["id"]) else {
                continue;
            };
            // JSON in JSON.
            let metadata = entry["metadata"].as_str().unwrap_or_default();
            let metadata: Value = serde_json::from_str(metadata).unwrap_or_default();
            let pod = self.pod(storage, &id, &pods);
            self.containers.push(Container {
                name: text(&metadata["name"]).or_else(|| text(&entry["names"][0])),
                image: text(&metadata["image-name"]),
                pod,
                ..Container::of(id)
            });
        }
    }

    /// The one of Podman's own pods that a container is in.
    fn pod(&mut self, storage: &Path, id: &str, pods: &BTreeMap<String, String>) -> Option<String> {
        if pods.is_empty() {
            return None;
        }
        let file = format!("overlay-containers/{id}/userdata/config.json");
        let config = json(&storage.join(file), &mut self.errors)?;
        pods::of(config["linux"]["cgroupsPath"].as_str()?, pods)
    }

    /// Containers that run, each with a folder named by its id in which its configuration is.
    fn bundles(&mut self, folder: &Path, config: &str) {
        for path in children(folder) {
            if let Some(value) = json(&path.join(config), &mut self.errors) {
                let container = annotated(name(&path), &value["annotations"]);
                self.containers.push(container);
            }
        }
    }

    fn docker(&mut self, folder: &Path) {
        for path in children(folder) {
            let Some(value) = json(&path.join("config.v2.json"), &mut self.errors) else {
                continue;
            };
            let labels = &value["Config"]["Labels"];
            let own = value["Name"].as_str().unwrap_or_default();
            let own = some(own.trim_start_matches('/'));
            self.containers.push(Container {
                name: text(&labels["io.kubernetes.container.name"]).or(own),
                image: text(&value["Config"]["Image"]),
                pod: text(&labels["io.kubernetes.pod.name"]),
                namespace: text(&labels["io.kubernetes.pod.namespace"]),
                runtime: Some("docker"),
                ..Container::of(text(&value["ID"]).unwrap_or_else(|| name(&path)))
            });
        }
    }

    /// Containers of runc alone are called by their ids; their groups may be anywhere.
    fn runc(&mut self, folder: &Path) {
        for path in children(folder) {
            let Some(value) = json(&path.join("state.json"), &mut self.errors) else {
                continue;
            };
            let id = text(&value["id"]).unwrap_or_else(|| name(&path));
            let groups = value["cgroup_paths"].as_object().into_iter().flatten();
            for (controller, group) in groups {
                self.groups
                    .extend(inside(controller, group).map(|group| (group, id.clone())));
            }
            self.alone(id, "runc");
        }
    }

    fn crun(&mut self, folder: &Path) {
        for path in children(folder) {
            let Some(value) = json(&path.join("status"), &mut self.errors) else {
                continue;
            };
            let id = name(&path);
            let group = text(&value["cgroup-path"]).filter(|group| group.len() > 1);
            self.groups.extend(group.map(|group| (group, id.clone())));
            self.alone(id, "crun");
        }
    }

    /// A container that no one above the runtime knows is called by its id.
    fn alone(&mut self, id: String, runtime: &'static str) {
        self.containers.push(Container {
            name: some(&id),
            runtime: Some(runtime),
            ..Container::of(id)
        });
    }
}

/// A control group as /proc/PID/cgroup has it, from where it is mounted: of version 2, or of the
/// controller that version 1 has below a folder of its name.
fn inside(controller: &str, group: &Value) -> Option<String> {
    let path = group.as_str()?.strip_prefix("/sys/fs/cgroup")?;
    let path = match controller {
        "" => path,
        _ => path
            .trim_start_matches('/')
            .split_once('/')
            .map(|(_, path)| path)?,
    };
    let path = path.trim_matches('/');
    (!path.is_empty()).then(|| format!("/{path}"))
}

/// A running container by the annotations of its configuration.
fn annotated(id: String, annotations: &Value) -> Container {
    let first = |keys: &[&str]| keys.iter().find_map(|key| text(&annotations[*key]));
    let runtime = match () {
        () if annotations["io.container.manager"] == "libpod" => Some("podman"),
        () if annotations["io.container.manager"] == "cri-o" => Some("cri-o"),
        () if !annotations["io.kubernetes.cri.container-type"].is_null() => Some("containerd"),
        () if !annotations["nerdctl/name"].is_null() => Some("containerd"),
        () => None,
    };
    Container {
        name: first(&[
            "io.kubernetes.container.name",
            "io.kubernetes.cri.container-name",
            "nerdctl/name",
        ]),
        image: first(&[
            "io.kubernetes.cri-o.ImageName",
            "io.kubernetes.cri.image-name",
        ]),
        pod: first(&["io.kubernetes.pod.name", "io.kubernetes.cri.sandbox-name"]),
        namespace: first(&[
            "io.kubernetes.pod.namespace",
            "io.kubernetes.cri.sandbox-namespace",
        ]),
        runtime,
        ..Container::of(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn machine(files: &[(&str, Value)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, value) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            match value {
                Value::String(text) => fs::write(path, text).unwrap(),
                value => fs::write(path, value.to_string()).unwrap(),
            }
        }
        root
    }

    fn found(files: &[(&str, Value)]) -> State {
        let state = look(machine(files).path());
        assert!(state.errors.is_empty(), "{:?}", state.errors);
        state
    }

    fn is(container: &Container, expected: [&str; 6]) {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let found = [
            container.id.clone(),
            text(&container.name),
            text(&container.image),
            text(&container.pod),
            text(&container.namespace),
            container.runtime.unwrap_or_default().to_owned(),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn podman_s_containers_of_root_and_of_users() {
        let metadata = r#"{"image-name":"docker.io/library/nginx:1","name":"web"}"#;
        let list = json!([{ "id": "aa", "names": ["other"], "metadata": metadata }]);
        let state = found(&[
            (
                "var/lib/containers/storage/overlay-containers/containers.json",
                list,
            ),
            (
                "home/me/.local/share/containers/storage/overlay-containers/containers.json",
                json!([{ "id": "bb", "names": ["mine"] }]),
            ),
            (
                "etc/passwd",
                "root:x:0:0::/:/bin/sh\nme:x:1000:1000::/home/me:/bin/sh\n".into(),
            ),
            (
                "etc/containers/storage.conf",
                "[storage]\ngraphroot = \"/data\"\n".into(),
            ),
            (
                "data/overlay-containers/containers.json",
                json!([{ "id": "cc" }]),
            ),
            (
                "run/containers/storage/overlay-containers/aa/userdata/config.json",
                json!({ "annotations": { "io.container.manager": "libpod" } }),
            ),
        ]);
        let by = |id: &str| {
            state
                .containers
                .iter()
                .filter(|c| c.id == id)
                .collect::<Vec<_>>()
        };
        is(
            by("aa")[0],
            ["aa", "web", "docker.io/library/nginx:1", "", "", ""],
        );
        is(by("aa")[1], ["aa", "", "", "", "", "podman"]);
        is(by("bb")[0], ["bb", "mine", "", "", "", ""]);
        assert_eq!(by("cc").len(), 1);
    }

    #[test]
    fn podman_s_own_pods_by_either_database() {
        let pod = "0123456789abcdef".repeat(4);
        for database in ["db.sql", "libpod/bolt_state.db"] {
            let storage = "var/lib/containers/storage";
            let file = |path: &str| format!("{storage}/{path}");
            let group = |group: String| json!({ "linux": { "cgroupsPath": group } });
            let state = found(&[
                (
                    &file("overlay-containers/containers.json"),
                    json!([{ "id": "aa", "names": ["web"] }, { "id": "bb" }, { "id": "cc" }]),
                ),
                (
                    &file("overlay-containers/aa/userdata/config.json"),
                    group(format!("machine-libpod_pod_{pod}.slice:libpod:aa")),
                ),
                (
                    &file("overlay-containers/bb/userdata/config.json"),
                    group("machine.slice:libpod:bb".into()),
                ),
                (
                    &file(database),
                    format!("SQLite\u{0}{{\"id\":\"{pod}\",\"name\":\"shop\"}}").into(),
                ),
            ]);
            is(&state.containers[0], ["aa", "web", "", "shop", "", ""]);
            for none in &state.containers[1..] {
                assert_eq!(none.pod, None, "{database}");
            }
        }
    }

    #[test]
    fn docker_s_containers_and_those_that_a_kubelet_has_there() {
        let state = found(&[
            (
                "var/lib/docker/containers/aa/config.v2.json",
                json!({ "ID": "aa", "Name": "/web", "Config": { "Image": "nginx:1", "Labels": {} } }),
            ),
            (
                "var/lib/docker/containers/bb/config.v2.json",
                json!({ "ID": "bb", "Name": "/k8s_app_web-0_shop", "Config": {
                    "Image": "shop:2",
                    "Labels": {
                        "io.kubernetes.container.name": "app",
                        "io.kubernetes.pod.name": "web-0",
                        "io.kubernetes.pod.namespace": "shop",
                    },
                }}),
            ),
            ("var/lib/docker/containers/file", "".into()),
        ]);
        is(
            &state.containers[0],
            ["aa", "web", "nginx:1", "", "", "docker"],
        );
        is(
            &state.containers[1],
            ["bb", "app", "shop:2", "web-0", "shop", "docker"],
        );
    }

    #[test]
    fn pods_of_containerd_and_cri_o() {
        let state = found(&[
            (
                "run/containerd/io.containerd.runtime.v2.task/k8s.io/aa/config.json",
                json!({ "annotations": {
                    "io.kubernetes.cri.container-type": "container",
                    "io.kubernetes.cri.container-name": "app",
                    "io.kubernetes.cri.image-name": "docker.io/shop:2",
                    "io.kubernetes.cri.sandbox-name": "web-0",
                    "io.kubernetes.cri.sandbox-namespace": "shop",
                }}),
            ),
            (
                "run/containerd/io.containerd.runtime.v2.task/default/bb/config.json",
                json!({ "annotations": { "nerdctl/name": "db" } }),
            ),
            (
                "run/containers/storage/overlay-containers/cc/userdata/config.json",
                json!({ "annotations": {
                    "io.container.manager": "cri-o",
                    "io.kubernetes.container.name": "app",
                    "io.kubernetes.cri-o.ImageName": "quay.io/shop:3",
                    "io.kubernetes.pod.name": "web-1",
                    "io.kubernetes.pod.namespace": "shop",
                }}),
            ),
        ]);
        let by = |id: &str| state.containers.iter().find(|c| c.id == id).unwrap();
        is(
            by("aa"),
            [
                "aa",
                "app",
                "docker.io/shop:2",
                "web-0",
                "shop",
                "containerd",
            ],
        );
        is(by("bb"), ["bb", "db", "", "", "", "containerd"]);
        is(
            by("cc"),
            ["cc", "app", "quay.io/shop:3", "web-1", "shop", "cri-o"],
        );
    }

    #[test]
    fn runc_s_and_crun_s_containers_by_the_paths_of_their_groups() {
        let state = found(&[
            (
                "run/runc/web/state.json",
                json!({ "id": "web", "cgroup_paths": { "": "/sys/fs/cgroup/a/web" } }),
            ),
            (
                "run/user/1000/runc/old/state.json",
                json!({ "id": "old", "cgroup_paths": { "memory": "/sys/fs/cgroup/memory/b/old" } }),
            ),
            (
                "run/crun/db/status",
                json!({ "pid": 7, "cgroup-path": "/c/db" }),
            ),
            ("run/crun/none/status", json!({ "cgroup-path": "" })),
        ]);
        let group = |path: &str, id: &str| (path.to_owned(), id.to_owned());
        let expected = [
            group("/b/old", "old"),
            group("/a/web", "web"),
            group("/c/db", "db"),
        ];
        assert_eq!(state.groups, expected);
        is(&state.containers[1], ["web", "web", "", "", "", "runc"]);
    }

    #[test]
    fn what_is_damaged_is_told_and_the_rest_read() {
        let path = "var/lib/docker/containers/aa/config.v2.json";
        let root = machine(&[
            (path, "{".into()),
            ("run/runc/web/state.json", json!({ "id": "web" })),
        ]);
        let state = look(root.path());
        assert_eq!(state.containers.len(), 1);
        let text = state.errors[0].to_string();
        assert!(
            text.contains(path) && text.contains("is no valid JSON"),
            "{text}"
        );
        assert!(look(Path::new("/no/such/root")).errors.is_empty());
    }
}
