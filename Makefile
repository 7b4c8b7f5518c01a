# SPDX-License-Identifier: GPL-2.0-only
# Thin on purpose: cargo builds the user space, kbuild the kernels (driven by
# `wideleaf`), and scripts/ holds what runs before and after.

HOST   := $(shell uname -m)-unknown-linux-musl
GUESTS := x86_64-unknown-linux-musl aarch64-unknown-linux-musl
TARGET := $(or $(CARGO_TARGET_DIR),target)
BIN    := $(TARGET)/$(HOST)/release/wideleaf
LAB    ?=

.PHONY: help lab check build deps clean

help:
	@echo 'make lab    build both kernels, boot them, print them side by side'
	@echo '            (LAB="--base 7.3 --page-size 4K": options of wideleaf lab run)'
	@echo 'make check  run all tests'
	@echo 'make build  build the wideleaf command: $(BIN)'
	@echo 'make clean  remove what cargo built; kernels stay in the cache'

lab: build
	@$(BIN) lab run $(LAB)

check:
	@scripts/deps check
	@scripts/check

deps:
	@scripts/deps lab

# One binary for each guest architecture (the host's is one of them), and the
# plugin for the QEMU on this host.
build: deps
	@for target in $(GUESTS); do \
		cargo build --quiet --release --locked -p wideleaf --target $$target || exit; \
	done
	@cargo build --quiet --release --locked -p wideleaf-plugin

clean:
	cargo clean
