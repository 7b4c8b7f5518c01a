// SPDX-License-Identifier: GPL-2.0-only
//! Which entry of a full set goes.
//!
//! True LRU needs no more than the time of each entry's last use, which [`crate::tlb::Array`] keeps
//! anyway. This file has the state of the other policies.

use serde::{Deserialize, Serialize};

/// A policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Replacement {
    /// The least recently used.
    #[default]
    Lru,
    /// By a binary tree over the ways, whose nodes point away from the last use.
    TreePlru,
    /// Any, by a generator that begins with the same seed in every run.
    Random,
    /// By such a tree over groups of three ways; in the group the one after the last used.
    /// "TLB;DR" (USENIX Security 2022) found it in second levels of Intel's with 12 ways; the
    /// output of its authors' program (vusec/tlbdr) calls it "(MRU+1)%3PLRU4". Where the ways are
    /// no groups of three: tree-PLRU, as they found in arrays of 4 and 8 ways.
    PlruOfThree,
}

/// The state of a policy, for all sets of an array.
pub(crate) enum Order {
    /// Nothing: [`Replacement::Lru`].
    Stamps,
    /// A tree for each set.
    Trees(Vec<Tree>),
    /// The generator's state.
    Random(u64),
    /// For each set a tree over its groups, and the last used way of each group.
    Threes(Vec<(Tree, Vec<u8>)>),
}

impl Order {
    pub fn new(policy: Replacement, sets: usize, ways: usize) -> Self {
        match policy {
            Replacement::Lru => Order::Stamps,
            Replacement::Random => Order::Random(0x9e37_79b9_7f4a_7c15),
            Replacement::PlruOfThree if ways.is_multiple_of(3) => {
                let groups = ways / 3;
                Order::Threes(vec![(Tree::new(groups), vec![0; groups]); sets])
            }
            Replacement::TreePlru | Replacement::PlruOfThree => {
                Order::Trees(vec![Tree::new(ways); sets])
            }
        }
    }

    /// A way of a set was used, or filled.
    pub fn used(&mut self, set: usize, way: usize) {
        match self {
            Order::Stamps | Order::Random(_) => {}
            Order::Trees(trees) => trees[set].used(way),
            Order::Threes(sets) => {
                let (tree, last) = &mut sets[set];
                tree.used(way / 3);
                last[way / 3] = (way % 3) as u8;
            }
        }
    }

    /// The way of a full set that goes; `None`: the one that was used least recently.
    #[cold]
    pub fn victim(&mut self, set: usize, ways: usize) -> Option<usize> {
        match self {
            Order::Stamps => None,
            Order::Trees(trees) => Some(trees[set].victim()),
            Order::Random(state) => Some(next(state) as usize % ways),
            Order::Threes(sets) => {
                let (tree, last) = &sets[set];
                let group = tree.victim();
                Some(group * 3 + (usize::from(last[group]) + 1) % 3)
            }
        }
    }
}

/// xorshift64 (Marsaglia, "Xorshift RNGs", 2003), the upper half.
fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state >> 32
}

/// A binary tree over leaves, each node of which points to the half that goes first. With a number
/// of leaves that is no power of two, the missing ones are the last.
#[derive(Clone)]
pub(crate) struct Tree {
    leaves: usize,
    /// Node 1 is the root, those below node n are 2n and 2n+1; true points to the latter.
    nodes: Box<[bool]>,
}

impl Tree {
    fn new(leaves: usize) -> Self {
        Tree {
            leaves,
            nodes: vec![false; leaves.next_power_of_two()].into_boxed_slice(),
        }
    }

    fn used(&mut self, leaf: usize) {
        let mut node = leaf + self.nodes.len();
        while node > 1 {
            self.nodes[node / 2] = node.is_multiple_of(2);
            node /= 2;
        }
    }

    fn victim(&self) -> usize {
        let width = self.nodes.len();
        let mut node = 1;
        while node < width {
            node = node * 2 + usize::from(self.nodes[node]);
            if self.first_leaf(node) >= self.leaves {
                node -= 1;
            }
        }
        node - width
    }

    fn first_leaf(&self, mut node: usize) -> usize {
        while node < self.nodes.len() {
            node *= 2;
        }
        node - self.nodes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ways that go from a full set, each refilled at once, after `uses`.
    fn victims(policy: Replacement, ways: usize, uses: &[usize], n: usize) -> Vec<usize> {
        let mut order = Order::new(policy, 1, ways);
        uses.iter().for_each(|&way| order.used(0, way));
        let mut next = || {
            let way = order.victim(0, ways).unwrap();
            order.used(0, way);
            way
        };
        (0..n).map(|_| next()).collect()
    }

    /// On paper, for four ways filled in order: the root points left, both nodes below it left too.
    /// Each victim turns the nodes above it away from itself: 0, 2, 1, 3.
    #[test]
    fn a_tree_takes_turns_between_its_halves() {
        let got = victims(Replacement::TreePlru, 4, &[0, 1, 2, 3], 5);
        assert_eq!(got, [0, 2, 1, 3, 0]);
        // A use of way 0 turns its half away: 2 goes, then 1, which that use protected too little.
        let got = victims(Replacement::TreePlru, 4, &[0, 1, 2, 3, 0], 3);
        assert_eq!(got, [2, 1, 3]);
    }

    #[test]
    fn a_tree_with_missing_leaves_names_none_of_them() {
        for ways in [1, 3, 5, 24, 48, 72] {
            let fill: Vec<_> = (0..ways).collect();
            let mut got = victims(Replacement::TreePlru, ways, &fill, 20 * ways);
            got.sort_unstable();
            got.dedup();
            assert_eq!(got, fill, "{ways} ways, each in turn");
        }
    }

    /// Twelve ways filled in order: group 0 goes first, whose last used way is 2: (2 + 1) % 3 is 0.
    /// Then the other half's first group, and so on; the second round takes the next of each.
    #[test]
    fn groups_of_three_lose_the_way_after_the_last_used() {
        let fill: Vec<_> = (0..12).collect();
        let got = victims(Replacement::PlruOfThree, 12, &fill, 8);
        assert_eq!(got, [0, 6, 3, 9, 1, 7, 4, 10]);
        let got = victims(Replacement::PlruOfThree, 4, &[0, 1, 2, 3], 4);
        assert_eq!(got, [0, 2, 1, 3], "no groups of three: a tree");
    }

    #[test]
    fn random_is_the_same_in_every_run_and_leaves_no_way_out() {
        let got = victims(Replacement::Random, 6, &[], 100);
        assert_eq!(got, victims(Replacement::Random, 6, &[5], 100));
        assert!((0..6).all(|way| got.contains(&way)), "{got:?}");
    }
}
