// SPDX-License-Identifier: GPL-2.0-only
//! The search for a circle among names that use others.

use std::collections::{BTreeMap, BTreeSet};

/// The names on a circle, each using the next, the first again at the end.
/// What is used and has no uses of its own is on none.
pub(crate) fn circle<T: Ord + Clone>(uses: &BTreeMap<T, BTreeSet<T>>) -> Option<Vec<T>> {
    let mut done = BTreeSet::new();
    uses.keys()
        .find_map(|name| walk(name, uses, &mut Vec::new(), &mut done))
}

/// Goes down from `name`; one that is on the `path` already closes a circle.
fn walk<T: Ord + Clone>(
    name: &T,
    uses: &BTreeMap<T, BTreeSet<T>>,
    path: &mut Vec<T>,
    done: &mut BTreeSet<T>,
) -> Option<Vec<T>> {
    if let Some(at) = path.iter().position(|other| other == name) {
        return Some([&path[at..], std::slice::from_ref(name)].concat());
    }
    if done.contains(name) {
        return None;
    }
    path.push(name.clone());
    let circle = uses
        .get(name)?
        .iter()
        .find_map(|next| walk(next, uses, path, done));
    path.pop();
    done.insert(name.clone());
    circle
}
