// SPDX-License-Identifier: GPL-2.0-only
//! A patch as a mail: its head, its message, its diff.

/// Takes out who it is from and who signed it off: both are said by whoever exports the series.
pub(crate) fn anonymous(mail: &str) -> String {
    let (head, diff) = match mail.find("\ndiff --git ") {
        Some(at) => mail.split_at(at + 1),
        None => (mail, ""),
    };
    let (headers, message) = head.split_once("\n\n").unwrap_or((head, ""));
    let mut kept = Vec::new();
    let mut dropping = false;
    for line in headers.lines() {
        // A long header goes on in lines that begin with a blank.
        if !line.starts_with([' ', '\t']) {
            dropping = line.starts_with("From: ");
        }
        if !dropping {
            kept.push(line);
        }
    }
    let message: Vec<_> = message
        .lines()
        .filter(|line| !line.starts_with("Signed-off-by: "))
        .collect();
    let message = message.join("\n");
    let headers = kept.join("\n");
    match message.trim_end() {
        "" => format!("{headers}\n\n{diff}"),
        message => format!("{headers}\n\n{message}\n\n{diff}"),
    }
}

/// The subject in one line, without `[PATCH]`.
pub(crate) fn subject(mail: &str) -> Option<String> {
    let (headers, _) = mail.split_once("\n\n")?;
    let mut lines = headers.lines();
    let first = lines.find_map(|line| line.strip_prefix("Subject: "))?;
    let more = lines.take_while(|line| line.starts_with([' ', '\t']));
    let text: Vec<_> = [first].into_iter().chain(more).map(str::trim).collect();
    let text = text.join(" ");
    Some(text.strip_prefix("[PATCH] ").unwrap_or(&text).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAIL: &str = "From 0000 Mon Sep 17 00:00:00 2001\nFrom: =?UTF-8?q?A?=\n <a@b>\n\
                        Date: today\nSubject: [PATCH] mm: a long\n subject\n\nText.\n\n\
                        Fixes: 1\nSigned-off-by: A <a@b>\n\ndiff --git a/x b/x\n+From: y\n";

    #[test]
    fn names_go_and_all_else_stays() {
        let text = anonymous(MAIL);
        let expected = "From 0000 Mon Sep 17 00:00:00 2001\nDate: today\n\
                        Subject: [PATCH] mm: a long\n subject\n\nText.\n\nFixes: 1\n\n\
                        diff --git a/x b/x\n+From: y\n";
        assert_eq!(text, expected);
        assert_eq!(anonymous(&text), text);
        let bare = "From 0\nSubject: s\n\ndiff --git a/x b/x\n";
        assert_eq!(anonymous(bare), bare);
    }

    #[test]
    fn a_subject_is_one_line() {
        assert_eq!(subject(MAIL).unwrap(), "mm: a long subject");
        assert_eq!(subject("From 0\n\n"), None);
    }
}
