// SPDX-License-Identifier: GPL-2.0-only
//! Results for the tests, with as many figures as they look at.

use crate::Source;
use serde_json::{Value, json};
use wideleaf_jobs::registry;
use wideleaf_lab::job::usual;
use wideleaf_lab::results::{BootResult, Counted};

/// A count of the three variants; `spread` as with `--repeat`.
pub fn count(pristine: u64, reads: u64, patched: u64) -> Value {
    json!({
        "unit": "counts", "ratio": null, "spread": 0.001,
        "pristine": pristine, "reads": reads, "patched": patched,
    })
}

/// One results file, made `day` days after 1970-01-01, with one comparison.
pub fn source(day: u64, job: &str, figures: &Value) -> Source {
    let kernel = |variant: &str| {
        json!({
            "variant": variant, "image": "/k/Image", "image_hash": "00ff",
            "package_version": "7.3.4-1", "config_hash": "11", "compiler": "gcc",
        })
    };
    let (common, options) = usual(registry::find(job).unwrap());
    let results = json!({
        "schema": "wideleaf-lab-results", "schema_version": 2, "wideleaf": "0.1.0",
        "created_unix_s": day * 86400,
        "host": { "cpu": "a <b> CPU", "cpus": 2, "memory_bytes": 1, "kernel": "6.18", "os": "Debian" },
        "comparisons": [{
            "job": job, "base": "7.3", "arch": "arm64", "page_size": "4K", "common": common, "options": options,
            "memory_bytes": 1, "qemu": { "path": "/qemu", "version": "10" }, "profile": null,
            "kernels": [kernel("pristine"), kernel("reads"), kernel("patched")],
            "runs": [], "figures": figures,
        }],
        "expectations": [],
    });
    Source {
        name: format!("day-{day}.json"),
        results: serde_json::from_value(results).unwrap(),
    }
}

fn exec_report(calls: u64) -> Value {
    let phase = json!({
        "calls": calls, "faults": { "minor": 1, "major": 2 }, "read_bytes": 4096, "nanoseconds": 500,
    });
    json!({
        "file": "/x", "filesystem": "xfs", "arch": "arm64", "page_size": 4096, "size": 32768,
        "stride": 4096, "stubs": 8, "seed": 1, "address": 0, "address_alignment": 4096,
        "align": null, "cold": null, "random": phase, "smaps": null,
    })
}

/// The boot of a guest that called so many stubs at random.
pub fn exec_run(calls: u64) -> Vec<BootResult> {
    let mut run = wideleaf_lab::sample::comparison(1, 1).runs.remove(0);
    run.outcome = json!({ "report": exec_report(calls), "read_ahead_kb": null });
    vec![run]
}

/// Counts of a processor that did so too.
pub fn hardware(calls: u64) -> Source {
    let mut source = source(3, "exec", &json!({}));
    source.results.comparisons.clear();
    source.results.hardware.push(Counted {
        outcome: exec_report(calls),
        ..wideleaf_lab::sample::hardware()
    });
    source
}
