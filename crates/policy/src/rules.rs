// SPDX-License-Identifier: GPL-2.0-only
//! The policy's rules in words, in the order of the core's `enum leaf_rule`.

/// Short name, as in the kernel's trace events, and a clause that can follow
/// "because".
pub const RULES: [(&str, &str); 23] = [
    ("off", "the runtime switch is off"),
    ("thp-never", "transparent huge pages are set to never"),
    ("no-range", "no page of the file lies in that range"),
    ("too-wide", "wider than 2M costs randomisation and memory"),
    (
        "file-order",
        "wider than the largest folio the page cache takes for the file",
    ),
    (
        "not-congruent",
        "address and file offset are not congruent at this size",
    ),
    ("not-held", "there is no room for a whole leaf of this size"),
    ("no-space", "no address space left for the alignment"),
    ("writable", "a writable segment is copied page by page"),
    (
        "device",
        "the readahead window is that of a slow device, or 0",
    ),
    ("resident", "part of the leaf is in the page cache already"),
    ("memory", "there is memory pressure, or too little to spare"),
    (
        "no-evidence",
        "wider than the readahead window, and no stream has reached it",
    ),
    (
        "budget",
        "earlier reads ahead of demand in this file are not yet proven useful",
    ),
    ("page", "every wider leaf was refused"),
    ("widest", "the widest leaf that the mapping can hold"),
    (
        "narrow",
        "the widest leaf that the readahead window pays for",
    ),
    ("window", "the readahead window covers the leaf"),
    (
        "stream",
        "faults read this file as a stream and pay for the leaf",
    ),
    (
        "single",
        "it is the only one that the mapping holds, and read on trust",
    ),
    ("lonely", "most faults in this file have no neighbours"),
    ("evicted", "it was evicted, so memory is too short for more"),
    ("advice", "the program said how it will execute the text"),
];

#[cfg(test)]
mod tests {
    use super::RULES;

    const HEADER: &str = include_str!("../../../kernel/text/overlay/include/linux/leaf_policy.h");
    const EVENTS: &str =
        include_str!("../../../kernel/text/overlay/include/trace/events/leaf_policy.h");

    fn constant(name: &str) -> String {
        format!("LEAF_RULE_{}", name.to_uppercase().replace('-', "_"))
    }

    #[test]
    fn every_rule_of_the_core_has_its_words() {
        let named = HEADER.lines().map(|line| line.trim().trim_end_matches(','));
        let named = named.filter(|line| line.starts_with("LEAF_RULE_") && *line != "LEAF_RULE_NR");
        let ours = RULES.iter().map(|(name, _)| constant(name));
        assert_eq!(ours.collect::<Vec<_>>(), named.collect::<Vec<_>>());
    }

    #[test]
    fn the_kernels_trace_events_call_them_the_same() {
        for (name, _) in RULES {
            let found = EVENTS
                .lines()
                .find(|line| line.contains(&format!("{{ {},", constant(name))));
            let found = found.unwrap_or_else(|| panic!("no event names {name}"));
            assert!(found.contains(&format!("\"{name}\"")), "{found}");
        }
    }
}
