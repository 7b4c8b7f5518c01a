# SPDX-License-Identifier: GPL-2.0-only
# Thin on purpose: cargo builds the user space, kbuild the kernels (driven by
# `wideleaf`), and scripts/ holds what runs before and after.

HOST   := $(shell uname -m)-unknown-linux-musl
GUESTS := x86_64-unknown-linux-musl aarch64-unknown-linux-musl
TARGET := $(or $(CARGO_TARGET_DIR),target)
BIN    := $(TARGET)/$(HOST)/release/wideleaf
# Elsewhere the C compiler links for the host only; .cargo/config.toml has the other one.
ifneq ($(shell uname -m),x86_64)
export CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL_LINKER := rust-lld
endif
LAB    ?=
ALL    ?=
SOAK   ?=
# Where make measure keeps what it found.
RESULTS ?= $(TARGET)/measured
PREFIX ?= /usr/local
export PREFIX DESTDIR TARGET

.PHONY: help lab measure quick test check soak build install uninstall deb rpm tar dist book deps clean

help:
	@echo 'make lab    build both kernels, boot them, print them side by side'
	@echo '            (LAB="--base 7.3 --page-size 4K": options of wideleaf lab run)'
	@echo 'make measure  every run that docs/results/measured.md shows, into RESULTS=$(RESULTS)'
	@echo 'make quick  formatting, columns, links, prose, circles, checkpatch: seconds once built'
	@echo 'make test   the same, clippy and unit tests: for every change'
	@echo 'make check  run all tests, the ones in guests too'
	@echo 'make soak   long forms of these: property tests, Debian'\''s kernels, the job storm for'
	@echo '            ten minutes on each machine, base and file system (SOAK=60: seconds instead)'
	@echo 'make build  build the wideleaf command: $(BIN)'
	@echo 'make install, make uninstall   what make build made, in PREFIX=$(PREFIX)'
	@echo 'make deb    the same as Debian packages, in $(TARGET): the tool, and what its lab needs'
	@echo 'make dist   all that a release consists of, in $(TARGET)/dist'
	@echo 'make book   the pages as a book: $(TARGET)/book/index.html'
	@echo 'make rpm, make tar   the tool as an rpm, and as an archive for any Linux'
	@echo 'make clean  remove what cargo built; kernels stay in the cache'

lab: build
	@'$(BIN)' lab run $(LAB)

measure: build
	@'$(BIN)' lab matrix docs/measured.toml -o '$(RESULTS)'

quick:
	@scripts/quick

test:
	@scripts/deps check
	@scripts/test

check:
	@scripts/deps check
	@scripts/check

soak: build
	@scripts/soak '$(BIN)' $(SOAK)

deps:
	@scripts/deps lab

# The command for each architecture (the host's is one of them), the guests' init in a call of its
# own, or cargo would give it the features that the command needs, and the plugin for the QEMU on
# this host.
build: deps
	@cargo build --quiet --release --locked -p wideleaf $(addprefix --target ,$(GUESTS))
	@cargo build --quiet --release --locked -p wideleaf-jobs --bin wideleaf-guest \
		--no-default-features --features guest $(addprefix --target ,$(GUESTS))
	@cargo build --quiet --release --locked -p wideleaf-plugin

# Builds nothing: root may install, and needs no compiler.
install:
	@scripts/install

uninstall:
	@scripts/install --remove

deb rpm tar: build
	@scripts/packages $@

# Its programs for both architectures are the build's.
dist: build
	@scripts/dist

book:
	@scripts/book '$(TARGET)/book'

clean:
	cargo clean
