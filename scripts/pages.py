# SPDX-License-Identifier: GPL-2.0-only
"""The pages of the docs, for the scripts that hold them to what they promise."""

import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent


def documents():
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md",
            ROOT / "SECURITY.md", ROOT / "kernel/README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def lines(path):
    """Yields (number, line, whether it is code)."""
    fenced, code, before = False, False, ""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
            yield number, line, True
            continue
        indented = line.startswith("    ") and (code or not before.strip())
        code = indented or (code and not line.strip())
        yield number, line, fenced or code
        before = line
