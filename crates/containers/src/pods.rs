// SPDX-License-Identifier: GPL-2.0-only
//! Names of the pods that Podman itself makes. No file but its database has them, which is SQLite's
//! or BoltDB's. In both a pod's configuration is JSON that begins with id and name.

use crate::group::is_id;
use std::collections::BTreeMap;

/// Names by ids. Of a database that is being written to, a pod may be missing.
pub(crate) fn names(database: &[u8]) -> BTreeMap<String, String> {
    let text = String::from_utf8_lossy(database);
    let pods = text.split(r#"{"id":""#).skip(1).filter_map(|pod| {
        let (id, rest) = pod.split_once(r#"","name":""#)?;
        let (name, _) = rest.split_once('"')?;
        let well = is_id(id) && name.bytes().all(|byte| byte.is_ascii_graphic());
        well.then(|| (id.to_owned(), name.to_owned()))
    });
    pods.collect()
}

/// The pod of a container whose configuration has this path for its control group, below its pod's.
pub(crate) fn of(group: &str, pods: &BTreeMap<String, String>) -> Option<String> {
    let mut ids = group.split(|c: char| !c.is_ascii_hexdigit());
    ids.find_map(|id| pods.get(id)).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_are_found_in_what_is_no_text_and_told_from_containers() {
        let (pod, other) = ("0123456789abcdef".repeat(4), "f".repeat(64));
        let database = format!(
            "\u{0}\u{1}{other}{{\"spec\":1,\"id\":\"{other}\",\"name\":\"web\"}}\u{2}\
             {{\"id\":\"{pod}\",\"name\":\"shop\",\"labels\":{{}}}}{{\"id\":\"short\",\"name\":\"x\"}}\
             {{\"id\":\"{other}\",\"name\":\"torn\u{3}\"}}{{\"id\":\""
        );
        let mut database = database.into_bytes();
        database.insert(1, 0xff);
        let pods = names(&database);
        assert_eq!(pods, BTreeMap::from([(pod.clone(), "shop".to_owned())]));
        for (group, expected) in [
            (format!("/libpod_parent/{pod}/libpod-{other}"), Some("shop")),
            (
                format!("machine-libpod_pod_{pod}.slice:libpod:{other}"),
                Some("shop"),
            ),
            (format!("machine.slice:libpod:{other}"), None),
        ] {
            assert_eq!(of(&group, &pods).as_deref(), expected, "{group}");
        }
    }
}
