"""Docstrings are plain text with `names` in single backticks and indented formulas; Sphinx wants reStructuredText."""

from __future__ import annotations

import re
from typing import Any

#: What may be the name of a class or of something in a package; other code is not looked up.
NAME = re.compile(r"[A-Z]\w*[a-z]\w*\Z|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+\Z")
#: A parameter or field that is described in one line, outside of the sections of numpydoc.
ENTRY = re.compile(r"(\s*)((?:[a-z]\w*)(?:, [a-z]\w*)*) ?: (\S.*)")


def convert(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Rewrite the lines of a docstring in place: a hook of autodoc."""
    if lines and lines[0].startswith("Alias for field number"):  # what Python says of each field of a named tuple
        lines.clear()
    lines[:] = converted(lines)


def converted(lines: list[str]) -> list[str]:
    """The same text as reStructuredText: indented blocks are literal, and no character of a sentence is markup."""
    done: list[str] = []
    previous = ""  # the last line that was not blank
    literal: int | None = None  # the indentation of the literal block we are in
    example = in_sections = in_entries = False
    for line in lines:
        indent = len(line) - len(line.lstrip())
        before = len(previous) - len(previous.lstrip())
        if not line.strip():
            example = in_entries = False
            done.append(line)
            continue
        if literal is not None and indent < literal:
            literal = None
        in_sections = in_sections or is_underline(line)
        example = example or (literal is None and line.lstrip().startswith(">>>"))
        after_blank = bool(done) and not done[-1].strip()
        if literal is None and not example and previous and after_blank and indent >= before + 4:
            literal = indent
            done += [" " * before + "::", ""]
        if literal is not None or example:
            done.append(line)
        elif not in_sections and (in_entries or begins_anew(previous)) and (entry := ENTRY.fullmatch(line)):
            if not in_entries and not after_blank:
                done.append("")
            in_entries = True
            done.append(f"{entry[1]}* ``{entry[2]}``: {sentence(entry[3])}")
        elif in_entries:
            done.append(f"  {sentence(line.strip())}")
        else:
            done.append(sentence(line))
        previous = line
    return done


def begins_anew(previous: str) -> bool:
    """Whether a line after this one may be an entry, and not just a sentence that was broken before a colon."""
    return not previous or previous.rstrip()[-1] in ".:;"


def is_underline(line: str) -> bool:
    """Whether a line is the one below the title of a section."""
    return re.fullmatch(r"\s*(-{3,}|={3,})\s*", line) is not None


def sentence(line: str) -> str:
    """A line of prose: names in backticks become links or code, and everything else is taken as it is."""
    if is_underline(line):
        return line
    parts = re.split(r"(`[^`]+`)", line)
    return "".join(code(part[1:-1]) if k % 2 else plain(part) for k, part in enumerate(parts))


def code(text: str) -> str:
    return f"`{text}`" if NAME.match(text) else f"``{text}``"


def plain(text: str) -> str:
    """Escape what reStructuredText would take for markup, except pairs of stars, which are emphasis."""
    if text.count("*") % 2:
        text = text.replace("*", r"\*")
    return re.sub(r"(\w)_(?!\w)", r"\1\\_", text.replace("|", r"\|"))
