// SPDX-License-Identifier: GPL-2.0-only
//! The system's words for an error, as the C library has them.

/// A text without the error numbers that Rust adds to them: ` (os error 2)`.
#[must_use]
pub fn without_error_numbers(text: &str) -> String {
    let mut parts = text.split(" (os error ");
    let mut all = parts.next().unwrap_or_default().to_string();
    for part in parts {
        match part.split_once(')') {
            Some((number, rest)) if number.parse::<u32>().is_ok() => all += rest,
            _ => all += &format!(" (os error {part}"),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_told_without_its_number() {
        let text = "/a: No such file or directory (os error 2): (os error x)\nb (os error 13)\n";
        let told = "/a: No such file or directory: (os error x)\nb\n";
        assert_eq!(without_error_numbers(text), told);
        let error = std::fs::File::open("/nonexistent").unwrap_err();
        let told = without_error_numbers(&format!("{error}"));
        assert_eq!(told, "No such file or directory");
    }
}
