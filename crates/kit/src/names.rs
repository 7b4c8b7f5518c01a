// SPDX-License-Identifier: GPL-2.0-only
//! Names as the kernel gives them, which are bytes that anybody may choose:
//! as text, as bytes where text loses some, and as a terminal may see them.

/// The bytes as text; what is not UTF-8 becomes U+FFFD, which is what
/// [`hex`] is for.
pub fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The bytes in hexadecimal if [`lossy`] loses any of them.
pub fn hex(bytes: &[u8]) -> Option<String> {
    let lost = std::str::from_utf8(bytes).is_err();
    lost.then(|| bytes.iter().map(|b| format!("{b:02x}")).collect())
}

/// Text that cannot garble a terminal or a table: control characters are
/// written as `\xNN`, those that turn the direction of writing, break lines
/// or have no width as `\u{NNNN}`.
pub fn printable(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            c if c.is_control() => safe.push_str(&format!("\\x{:02x}", u32::from(c))),
            c if deceives(c) => safe.push_str(&format!("\\u{{{:x}}}", u32::from(c))),
            c => safe.push(c),
        }
    }
    safe
}

/// Characters that are not seen, and change how others are: bidirectional
/// controls, invisible separators, line and paragraph separator, tags.
pub fn deceives(c: char) -> bool {
    matches!(c,
        '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_control_or_deceive_is_written_out() {
        assert_eq!(printable("a\x1b[2J\nb\u{85}"), "a\\x1b[2J\\x0ab\\x85");
        assert_eq!(printable("gpj.\u{202e}exe"), "gpj.\\u{202e}exe");
        assert_eq!(printable("ä b\\x2d 日本"), "ä b\\x2d 日本");
    }

    #[test]
    fn bytes_are_kept_where_text_loses_some() {
        assert_eq!(lossy(b"a\xff"), "a\u{fffd}");
        assert_eq!(hex(b"a\xff").as_deref(), Some("61ff"));
        assert_eq!(hex("ä\u{202e}".as_bytes()), None);
    }
}
