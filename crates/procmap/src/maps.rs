// SPDX-License-Identifier: GPL-2.0-only
//! `/proc/PID/maps`, one line at a time (proc_pid_maps(5)).

use serde::Serialize;
use wideleaf_kit::names;

/// One mapping of an address space.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Vma {
    /// First byte.
    pub start: u64,
    /// One past the last byte.
    pub end: u64,
    /// `r-xp` and the like, as in maps.
    pub perms: String,
    /// Offset in the file, bytes.
    pub offset: u64,
    /// `major:minor` of the file's device, hexadecimal.
    pub device: String,
    /// Inode number, 0 without a file.
    pub inode: u64,
    /// Path or pseudo-name (`[vdso]`), as the kernel gives it; empty for
    /// anonymous memory. For a terminal: [`wideleaf_kit::names::printable`].
    pub name: String,
    /// Its bytes in hexadecimal if it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name_bytes: Option<String>,
    /// The file was unlinked, or replaced by a package upgrade.
    pub deleted: bool,
}

impl Vma {
    /// Size in bytes.
    pub fn len(&self) -> u64 {
        self.end - self.start
    }

    /// A mapping is never empty; for completeness beside [`Vma::len`].
    pub fn is_empty(&self) -> bool {
        self.end == self.start
    }

    /// Instructions can be fetched from it.
    pub fn executable(&self) -> bool {
        self.perms.as_bytes().get(2) == Some(&b'x')
    }

    /// Any access at all is allowed.
    pub fn accessible(&self) -> bool {
        !self.perms.starts_with("---")
    }

    /// The kernel's half of the address space, `[vsyscall]`: not in the
    /// process's page tables.
    pub fn in_kernel_half(&self) -> bool {
        self.start >> 63 == 1
    }

    /// Whether an aligned block of `size` bytes fits in.
    pub fn can_hold(&self, size: u64) -> bool {
        self.start
            .checked_next_multiple_of(size)
            .and_then(|s| s.checked_add(size))
            .is_some_and(|e| e <= self.end)
    }
}

/// The mappings that the text of a maps file lists. A line that is none of its
/// is left out.
pub fn mappings(maps: &[u8]) -> impl Iterator<Item = Vma> {
    maps.split(|byte| *byte == b'\n').filter_map(parse_line)
}

/// Parses a line of maps, or the head line of an smaps record. `None` if it
/// is neither: the caller knows the file and the line number.
pub(crate) fn parse_line(line: &[u8]) -> Option<Vma> {
    let mut rest = line;
    let mut field = || {
        let at = rest.iter().position(|b| *b == b' ').unwrap_or(rest.len());
        let word = &rest[..at];
        rest = &rest[(at + 1).min(rest.len())..];
        std::str::from_utf8(word).ok().filter(|w| !w.is_empty())
    };
    let (start, end) = field()?.split_once('-')?;
    let (start, end) = (hex(start)?, hex(end)?);
    let perms = field()?;
    let offset = hex(field()?)?;
    let device = field()?;
    let inode = field()?.parse().ok()?;
    if start > end || perms.len() != 4 || !device.contains(':') {
        return None;
    }
    let path = rest.trim_ascii_start();
    let (path, deleted) = match path.strip_suffix(b" (deleted)") {
        Some(path) => (path, true),
        None => (path, false),
    };
    Some(Vma {
        start,
        end,
        perms: perms.to_owned(),
        offset,
        device: device.to_owned(),
        inode,
        name: names::lossy(path),
        name_bytes: names::hex(path),
        deleted,
    })
}

fn hex(digits: &str) -> Option<u64> {
    // from_str_radix would take a sign.
    digits
        .bytes()
        .all(|b| b.is_ascii_hexdigit())
        .then(|| u64::from_str_radix(digits, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_with_a_path() {
        let vma = parse_line(
            b"55d0c000-55d0e000 r-xp 00001000 fd:01 4711                       /usr/bin/my tool",
        )
        .unwrap();
        assert_eq!(
            (vma.start, vma.end, vma.offset, vma.inode),
            (0x55d0_c000, 0x55d0_e000, 0x1000, 4711)
        );
        assert!(vma.executable() && !vma.deleted);
        assert_eq!(vma.name, "/usr/bin/my tool");
    }

    #[test]
    fn deleted_pseudo_and_nameless() {
        let line = b"7f00-8f00 r-xp 0 00:01 9 /tmp/a (deleted) b (deleted)";
        let vma = parse_line(line).unwrap();
        assert!(vma.deleted);
        assert_eq!(vma.name, "/tmp/a (deleted) b");
        assert_eq!(
            parse_line(b"7f00-8f00 r-xp 00000000 00:00 0                          [vdso]")
                .unwrap()
                .name,
            "[vdso]"
        );
        assert_eq!(
            parse_line(b"7f00-8f00 rwxp 00000000 00:00 0 ")
                .unwrap()
                .name,
            ""
        );
        assert!(
            parse_line(b"ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]")
                .unwrap()
                .in_kernel_half()
        );
    }

    #[test]
    fn a_name_is_kept_as_it_is() {
        let vma = parse_line(b"1000-2000 r-xp 0 00:01 9 /tmp/\x1b[2J\\012\xff").unwrap();
        assert_eq!(vma.name, "/tmp/\x1b[2J\\012\u{fffd}");
        assert_eq!(
            vma.name_bytes.as_deref(),
            Some("2f746d702f1b5b324a5c303132ff")
        );
    }

    #[test]
    fn garbage_is_refused() {
        for line in [
            &b""[..],
            b"Rss:                   4 kB",
            b"1000 r-xp 0 00:01 9 /x",
            b"+1000-2000 r-xp 0 00:01 9 /x",
            b"2000-1000 r-xp 0 00:01 9 /x",
            b"1000-2000 r-x 0 00:01 9 /x",
            b"10000000000000000-20000000000000000 r-xp 0 00:01 9 /x",
            b"1000-2000 r-xp 0 00:01 -9 /x",
        ] {
            assert_eq!(parse_line(line), None, "{}", String::from_utf8_lossy(line));
        }
    }

    #[test]
    fn blocks_that_fit() {
        let vma = |start, end| Vma {
            start,
            end,
            ..parse_line(b"0-0 r-xp 0 0:0 0").unwrap()
        };
        assert!(vma(0x20_0000, 0x40_0000).can_hold(0x20_0000));
        assert!(!vma(0x20_1000, 0x40_1000).can_hold(0x20_0000));
        assert!(!vma(u64::MAX - 0xfff, u64::MAX).can_hold(0x20_0000));
    }
}
