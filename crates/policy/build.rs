// SPDX-License-Identifier: GPL-2.0-only
//! Compiles the kernel's rule for reads for the host, as freestanding as the
//! kernel does.

use std::env;
use std::path::Path;

fn main() {
    // Asked when it runs: a tree that moved keeps its target folder, and this program in it.
    let here = env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let here = Path::new(&here);
    let reads = here.join("../../kernel/reads/overlay/mm");

    let mut build = cc::Build::new();
    // The object calls no library, so the distribution's GNU compiler serves
    // the static musl targets too and no musl cross compiler is needed.
    let host = env::var("HOST").unwrap_or_default();
    build.compiler(match env::var("CARGO_CFG_TARGET_ARCH").as_deref() {
        Ok("aarch64") if !host.starts_with("aarch64") => "aarch64-linux-gnu-gcc",
        Ok("x86_64") if !host.starts_with("x86_64") => "x86_64-linux-gnu-gcc",
        _ => "cc",
    });
    build
        .file(here.join("src/exec_read.c"))
        .include(here.join("src/host"))
        .include(&reads)
        .flag("-ffreestanding")
        .flag("-std=gnu11")
        .flag("-Wdeclaration-after-statement")
        .flag("-Wconversion")
        .flag("-Wno-sign-conversion")
        .extra_warnings(true)
        .warnings(true)
        .warnings_into_errors(true)
        .compile("exec_read");

    for path in [
        reads.join("exec_read.h"),
        here.join("src/exec_read.c"),
        here.join("src/host"),
    ] {
        println!("cargo::rerun-if-changed={}", path.display());
    }
}
