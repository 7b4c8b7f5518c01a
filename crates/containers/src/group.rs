// SPDX-License-Identifier: GPL-2.0-only
//! Reads a control group's path: the container's id, and the runtime that made the group.
//!
//! | path ends with | made by |
//! |---|---|
//! | `libpod-ID.scope`, with or without `/container` | Podman |
//! | `docker-ID.scope`, `/docker/ID` | Docker |
//! | `cri-containerd-ID.scope`, `nerdctl-ID.scope` | containerd |
//! | `crio-ID.scope` | CRI-O |
//! | `/kubepods/.../podUID/ID` | the kubelet, without systemd |

/// The runtimes by what stands before the id in the name of a scope.
const PREFIXES: [(&str, &str); 6] = [
    ("libpod", "podman"),
    ("docker", "docker"),
    ("cri-containerd", "containerd"),
    ("nerdctl", "containerd"),
    ("crio", "cri-o"),
    ("crun", "crun"),
];

/// A container's group.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Group<'p> {
    pub(crate) id: &'p str,
    pub(crate) runtime: Option<&'static str>,
}

/// The container that a control group belongs to, if its path says so.
pub(crate) fn parse(path: &str) -> Option<Group<'_>> {
    // The innermost counts: containers run in containers.
    path.rsplit('/').find_map(part)
}

fn part(part: &str) -> Option<Group<'_>> {
    let name = part.strip_suffix(".scope").unwrap_or(part);
    let (prefix, id) = name.rsplit_once('-').unwrap_or(("", name));
    // What watches over a container is not in it: libpod-conmon-ID.
    if !is_id(id) || prefix.ends_with("conmon") {
        return None;
    }
    let runtime = PREFIXES.iter().find(|(known, _)| *known == prefix);
    Some(Group {
        id,
        runtime: runtime.map(|(_, runtime)| *runtime),
    })
}

/// The ids that runtimes give: 64 hexadecimal digits.
pub(crate) fn is_id(text: &str) -> bool {
    let digit = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    text.len() == 64 && text.bytes().all(digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_runtime_s_groups_are_known() {
        let id = "0123456789abcdef".repeat(4);
        let found = |path: &str| {
            let path = path.replace("ID", &id);
            parse(&path).map(|group| {
                assert_eq!(group.id, id);
                group.runtime
            })
        };
        let pod = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1_2.slice";
        for (path, runtime) in [
            ("/machine.slice/libpod-ID.scope/container", Some("podman")),
            (
                "/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-ID.scope",
                Some("podman"),
            ),
            ("/system.slice/docker-ID.scope", Some("docker")),
            ("/docker/ID", None),
            (
                &format!("{pod}/cri-containerd-ID.scope"),
                Some("containerd"),
            ),
            (&format!("{pod}/crio-ID.scope"), Some("cri-o")),
            ("/kubepods/besteffort/pod1-2/ID", None),
            ("/system.slice/docker-ID.scope/docker/init", Some("docker")),
        ] {
            assert_eq!(found(path), Some(runtime), "{path}");
        }
        for path in [
            "/machine.slice/libpod-conmon-ID.scope",
            "/crio-conmon-ID.scope",
            "/system.slice/ssh.service",
            "/",
            "/docker/IDx",
        ] {
            assert_eq!(found(path), None, "{path}");
        }
    }
}
