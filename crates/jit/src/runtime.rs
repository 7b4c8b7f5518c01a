// SPDX-License-Identifier: GPL-2.0-only
//! Which runtime makes the text of a process, and its own switch for large pages. Only what its
//! documentation or source says, or what was tried, is named.

use serde::Serialize;

/// A runtime that compiles while it runs.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Runtime {
    /// Its name.
    pub name: &'static str,
    /// The program's name begins so.
    #[serde(skip)]
    programs: &'static [&'static str],
    /// The name of a library that it maps begins so.
    #[serde(skip)]
    libraries: &'static [&'static str],
    /// Its own switches, and their effect, in words.
    pub switch: &'static str,
}

/// The first that fits is meant.
static ALL: [Runtime; 7] = [
    Runtime {
        name: "OpenJ9",
        programs: &[],
        libraries: &["libj9vm", "libj9jit"],
        switch: "-Xlp:codecache takes huge pages that are reserved (vm.nr_hugepages) for the code \
                 cache; -verbose:sizes says which it got",
    },
    Runtime {
        name: "OpenJDK (HotSpot)",
        programs: &[],
        libraries: &["libjvm.so"],
        switch: "-XX:+UseTransparentHugePages asks for them (MADV_HUGEPAGE) for the code cache and \
                 the heap; -XX:-SegmentedCodeCache puts all code into one region",
    },
    Runtime {
        name: "V8",
        programs: &["node", "deno", "chrom", "electron"],
        libraries: &["libnode.so"],
        switch: "none: V8 keeps code in pieces of 256K with guard pages between, so no block of 2M \
                 comes about; node's --use-largepages is for its own text, not for this",
    },
    Runtime {
        name: "PHP (opcache)",
        programs: &["php"],
        libraries: &["opcache.so", "libphp"],
        switch: "opcache takes huge pages that are reserved (vm.nr_hugepages) if \
                 opcache.memory_consumption and opcache.jit_buffer_size are whole multiples of 2M; \
                 opcache.huge_code_pages=1 copies PHP's own text into such memory",
    },
    Runtime {
        name: "LuaJIT",
        programs: &["luajit"],
        libraries: &["libluajit"],
        switch: "none: its pieces of code have sizemcode (32K or 64K), all of them maxmcode (512K \
                 unless set by -O): too small for a leaf of 2M",
    },
    Runtime {
        name: "Erlang (BeamAsm)",
        programs: &["beam"],
        libraries: &[],
        switch: "+JMsingle true (OTP 26) maps code once, as private memory, and not twice as shared \
                 memory: transparent_hugepage/enabled then counts, not shmem_enabled",
    },
    Runtime {
        name: ".NET",
        programs: &[],
        libraries: &["libcoreclr.so", "libclrjit.so"],
        switch: "none for large pages; DOTNET_EnableWriteXorExecute=0 maps code once, as private \
                 memory: transparent_hugepage/enabled then counts, not shmem_enabled",
    },
];

impl Runtime {
    /// The runtime of a program by its file name and those of all libraries that it maps.
    pub(crate) fn of<'l>(
        program: &str,
        libraries: impl Iterator<Item = &'l str> + Clone,
    ) -> Option<&'static Self> {
        let begins = |name: &str, with: &[&str]| with.iter().any(|with| name.starts_with(with));
        ALL.iter().find(|runtime| {
            begins(program, runtime.programs)
                || libraries
                    .clone()
                    .any(|name| begins(name, runtime.libraries))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_is_known_by_its_program_or_its_libraries() {
        let of = |program: &str, libraries: &[&str]| {
            Runtime::of(program, libraries.iter().copied()).map(|runtime| runtime.name)
        };
        assert_eq!(
            of("java", &["libc.so.6", "libjvm.so"]),
            Some("OpenJDK (HotSpot)")
        );
        assert_eq!(of("java", &["libjvm.so", "libj9vm29.so"]), Some("OpenJ9"));
        assert_eq!(of("node", &[]), Some("V8"));
        assert_eq!(of("php-fpm8.2", &[]), Some("PHP (opcache)"));
        assert_eq!(of("apache2", &["libphp8.2.so"]), Some("PHP (opcache)"));
        assert_eq!(of("nginx", &["libluajit-5.1.so.2"]), Some("LuaJIT"));
        assert_eq!(of("beam.smp", &[]), Some("Erlang (BeamAsm)"));
        assert_eq!(of("sh", &["libc.so.6"]), None);
    }
}
