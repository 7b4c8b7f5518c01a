// SPDX-License-Identifier: GPL-2.0-only
//! The machine that a policy command is about.

use crate::usage::{Usage, misuse};
use anyhow::Result;
use wideleaf_kit::size::{parse, short};
use wideleaf_policy::Table;

/// The machine whose leaves are meant.
#[derive(clap::Args)]
pub struct LeafTableArgs {
    /// arm64 or x86_64 [default: as this machine; with --trace both]
    #[arg(long)]
    arch: Option<String>,
    /// Base page size: 4K, 16K or 64K [default: 4K; with --trace all]
    #[arg(long, value_parser = bytes, value_name = "SIZE")]
    page_size: Option<u64>,
}

fn host_arch() -> &'static str {
    if cfg!(target_arch = "aarch64") {
        "arm64"
    } else {
        "x86_64"
    }
}

impl LeafTableArgs {
    /// Its leaves as the policy knows them.
    ///
    /// # Errors
    ///
    /// Wrong usage if there is no such machine.
    pub fn table(&self) -> Result<Table> {
        let arch = self.arch.as_deref().unwrap_or(host_arch());
        let page_size = self.page_size.unwrap_or(4 << 10);
        if !page_size.is_power_of_two() {
            misuse!("--page-size {} is not a power of two", short(page_size));
        }
        let shift = page_size.trailing_zeros() as u8;
        Table::find(arch, shift).ok_or_else(|| {
            let known: Vec<String> = Table::all()
                .iter()
                .map(|table| format!("{} {}", table.arch(), short(1 << table.page_shift())))
                .collect();
            let text = format!(
                "--arch {arch} --page-size {}: no such machine; there is {}",
                short(page_size),
                known.join(", ")
            );
            Usage(text).into()
        })
    }

    /// All machines that what was asked leaves.
    ///
    /// # Errors
    ///
    /// Wrong usage if there is none.
    pub fn tables(&self) -> Result<Vec<Table>> {
        let wanted = |table: &Table| {
            let arch = self.arch.as_deref().is_none_or(|arch| arch == table.arch());
            arch && self
                .page_size
                .is_none_or(|size| size == 1 << table.page_shift())
        };
        let tables: Vec<_> = Table::all().into_iter().filter(wanted).collect();
        match tables.is_empty() {
            true => self.table().map(|table| vec![table]),
            false => Ok(tables),
        }
    }
}

/// A size or an offset: `64K`, `512M`, `4096`, `0x1000`. Hexadecimal only here, because here
/// addresses and offsets are copied from `readelf` and `/proc/PID/maps`.
pub fn bytes(text: &str) -> Result<u64, String> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16)
            .map_err(|error| format!("`{text}` is not a hexadecimal number: {error}")),
        None => parse(text),
    }
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn offsets_may_be_hexadecimal() {
        assert_eq!(bytes("0x1000"), Ok(4096));
        assert_eq!(bytes("37M"), Ok(37 << 20));
        assert!(bytes("0xg").is_err());
    }
}
