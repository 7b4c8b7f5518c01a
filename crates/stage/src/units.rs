// SPDX-License-Identifier: GPL-2.0-only
//! Texts for systemd and apt that have files staged at each boot, and taken
//! off while packages are replaced: rename refuses to replace a mount.

use std::path::Path;

/// A word of a unit's command line, quoted as systemd.service(5) says.
fn quote(word: &str) -> String {
    let mut quoted = String::from("\"");
    for c in word.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '%' | '$' => quoted.extend([c, c]),
            '\n' => quoted.push_str("\\n"),
            _ => quoted.push(c),
        }
    }
    quoted + "\""
}

/// A unit that stages at boot. `arguments` are those of `wideleaf stage`.
pub fn unit(wideleaf: &Path, arguments: &[String]) -> String {
    let command = quote(&wideleaf.to_string_lossy());
    let words: Vec<String> = arguments.iter().map(|word| quote(word)).collect();
    let words = words.join(" ");
    format!(
        "# /etc/systemd/system/wideleaf-stage.service\n\
         [Unit]\n\
         Description=Aligned copies of programs on huge pages\n\
         Documentation=man:wideleaf-stage(1)\n\
         After=local-fs.target\n\
         \n\
         [Service]\n\
         Type=oneshot\n\
         RemainAfterExit=yes\n\
         ExecStart={command} stage {words}\n\
         ExecReload={command} stage {words}\n\
         ExecStop={command} unstage --all --force\n\
         \n\
         [Install]\n\
         WantedBy=multi-user.target\n"
    )
}

/// A drop-in that has a service start after it, so that its processes get the copies.
pub fn drop_in(service: &str) -> String {
    let service = service.strip_suffix(".service").unwrap_or(service);
    format!(
        "# /etc/systemd/system/{service}.service.d/wideleaf.conf\n\
         [Unit]\n\
         Wants=wideleaf-stage.service\n\
         After=wideleaf-stage.service\n"
    )
}

/// A hook for apt: dpkg replaces files by rename, which fails on a mount. Only what belongs to the
/// packages at hand is taken off, and staged again afterwards.
pub fn apt_hook(wideleaf: &Path) -> String {
    let wideleaf = wideleaf.display();
    format!(
        "# /etc/apt/apt.conf.d/90wideleaf\n\
         DPkg::Pre-Install-Pkgs {{ \"{wideleaf} unstage --force --dpkg\"; }};\n\
         DPkg::Tools::Options::{wideleaf}::Version \"3\";\n\
         DPkg::Post-Invoke {{ \"systemctl -q is-active wideleaf-stage.service && systemctl reload \
         wideleaf-stage.service || true\"; }};\n"
    )
}
