"""A table of results, and its forms: aligned text, Markdown, and a document for machines."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

#: Where nothing was measured.
NOTHING = "–"


@dataclass(frozen=True)
class Entry:
    """A cell: its text; whether it is the best; `+` or `-` where it differs from the rival; the numbers behind it."""

    text: str
    best: bool = False
    mark: str = ""
    numbers: tuple[tuple[str, float], ...] = ()

    def as_text(self) -> str:
        return self.text + ("*" if self.best else "") + (f" {self.mark}" if self.mark else "")

    def as_markdown(self) -> str:
        text = self.text.replace("|", "\\|")
        return (f"**{text}**" if self.best else text) + (f" {self.mark}" if self.mark else "")

    def as_document(self) -> dict[str, Any]:
        marks = {"best": True} if self.best else {}
        return {"text": self.text, **dict(self.numbers), **marks, **({"mark": self.mark} if self.mark else {})}


@dataclass(frozen=True)
class Table:
    """A heading for each column; lines of entries; notes that say how to read it and what it was measured on."""

    name: str
    title: str
    headings: tuple[str, ...]
    lines: tuple[tuple[Entry, ...], ...]
    notes: tuple[str, ...]

    def as_text(self) -> str:
        """Aligned, for a terminal: the first column, which is the set, stands above the lines that it holds for."""
        cells = [list(self.headings[1:]), *([entry.as_text() for entry in line[1:]] for line in self.lines)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        head, *aligned = ["  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in cells]
        rows, above = [f"{self.title} ({self.name})", "", f"  {head}"], ""
        for line, text in zip(self.lines, aligned, strict=True):
            if line[0].text != above:
                above = line[0].text
                rows.append(above)
            rows.append(f"  {text}")
        return "\n".join([*rows, "", *self.notes])

    def as_markdown(self) -> str:
        """A table and a list of notes; the best in bold."""
        cells = [self.headings, ["---"] * len(self.headings), *([e.as_markdown() for e in line] for line in self.lines)]
        rows = ["| " + " | ".join(line) + " |" for line in cells]
        return "\n".join([*rows, "", *(f"- {note}" for note in self.notes)])

    def as_document(self) -> dict[str, Any]:
        """As a dictionary for JSON."""
        return {
            "plan": self.name,
            "title": self.title,
            "headings": list(self.headings),
            "lines": [[entry.as_document() for entry in line] for line in self.lines],
            "notes": list(self.notes),
        }


#: Headings, lines and notes of a table.
Parts = tuple[list[str], list[list[Entry]], list[str]]


def measured(mean: float, spread: float, form: str | None = None) -> Entry:
    """`0.541 ± 0.011`, in a form, or with two digits of the spread."""
    if form is None:
        digits = 3 if not spread else 1 - math.floor(math.log10(spread))
        form = f"{{:,.{max(0, digits)}f}}" if spread or abs(mean) >= 1000 else "{:.4g}"
    text = form.format(mean) + (f" ± {form.format(spread)}" if spread else "")
    return Entry(text, numbers=(("mean", float(mean)), ("spread", float(spread))))


def number(value: float | None, form: str) -> Entry:
    """One number, or nothing."""
    return Entry(NOTHING) if value is None else Entry(form.format(value), numbers=(("value", float(value)),))


def thinned(n: int, most: int) -> list[int]:
    """At most so many of the numbers below n, at equal distances, the last among them."""
    step = max(1, math.ceil(n / most))
    return list(range(n - 1, -1, -step))[::-1]


def range_of(values: Sequence[float], form: str) -> str:
    """One number, or from the least to the most."""
    if not len(values):
        return NOTHING
    low, high = form.format(min(values)), form.format(max(values))
    return low if low == high else f"{low} to {high}"
