"""The map of claims by readings: which verdicts hang on how the paper is read."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from onlinehash.experiments.claims import Judged
from onlinehash.experiments.panels import as_bytes, load_matplotlib
from onlinehash.experiments.plan import Plan
from onlinehash.experiments.readings import Reading
from onlinehash.experiments.rows import Rows
from onlinehash.io import atomic

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAME = "claims"
#: Beside the colours, so that they are never all that tells verdicts apart.
SIGNS = {"confirmed": "✓", "confirmed in part": "◐", "not confirmed": "✗", "not tested": "–"}
#: Signs that every font has, for the picture.
LETTERS = {"confirmed": "yes", "confirmed in part": "part", "not confirmed": "no", "not tested": "–"}
COLOURS = {
    "confirmed": "#7fbf9e",
    "confirmed in part": "#f3dc8f",
    "not confirmed": "#e3a08f",
    "not tested": "#e6e6e6",
}
EMPTY = "#ffffff"
DARK = "#222222"
#: Inches: where columns begin, a column, room for titles, a line, between claims, at the edge, and the least width.
#: Pages show the picture about 740 pixels wide; if it were wider, its text would be too small there.
LEFT, COLUMN, TOP, LINE, GAP, EDGE, LEAST_WIDTH = 3.15, 0.3, 1.6, 0.15, 0.09, 0.05, 7.5
#: Characters of a line.
CLAIM_WIDTH, TITLE_WIDTH = 42, 23
#: What a cell can be beside its colour, in the legend.
OUTLINED, BLANK = "outlined: turned by the reading itself", "blank: not run under this reading"


@dataclass(frozen=True)
class ReadOtherwise:
    """A reading, what was measured under it, and what became of the claims whose experiments it has.

    planned: the same claims as planned, by the lengths and seeds that were run under the reading.
    """

    reading: Reading
    plans_and_rows: Sequence[tuple[Plan, Rows]]
    judged: Sequence[Judged]
    planned: Sequence[Judged]

    def verdict(self, claim: Judged) -> str:
        """The verdict on a claim under this reading; empty if its experiments are not run under it."""
        return next((one.verdict for one in self.judged if one.name == claim.name), "")

    def turns(self, claim: Judged) -> bool:
        """Whether a claim has another verdict under this reading than as planned, by all lengths and seeds and by those
        of the reading alone: else it is these that make the difference."""
        alike = next((one.verdict for one in self.planned if one.name == claim.name), "")
        found = {claim.verdict, alike}
        return not {*found, self.verdict(claim)} & {"", "not tested"} and self.verdict(claim) not in found


def reread(claims: Sequence[Judged], others: Sequence[ReadOtherwise]) -> list[Judged]:
    """The claims that are judged under another reading."""
    return [claim for claim in claims if any(other.verdict(claim) not in ("", "not tested") for other in others)]


def turned(claim: Judged, others: Sequence[ReadOtherwise]) -> list[ReadOtherwise]:
    """The readings under which a claim has another verdict."""
    return [other for other in others if other.turns(claim)]


def as_lines(claims: Sequence[Judged], others: Sequence[ReadOtherwise]) -> Iterator[list[str]]:
    """The map as a table: a line for each claim, a column for each reading; what turns is marked by stars."""
    yield ["#", "claim", "as planned", *(other.reading.title for other in others)]
    for number, claim in enumerate(claims, 1):
        signs = []
        for other in others:
            sign = SIGNS.get(other.verdict(claim), "")
            signs.append(f"**{sign}**" if other.turns(claim) else sign)
        yield [str(number), claim.text, SIGNS[claim.verdict], *signs]


def draw(claims: Sequence[Judged], others: Sequence[ReadOtherwise], folder: str | os.PathLike[str]) -> list[Path]:
    """The map as a picture; nothing where there is no other reading.

    Claims that no other reading judges stand below the map, a line each, as their rows would be empty.
    """
    if not others:
        return []
    plt = load_matplotlib()
    columns = ["as planned", *(other.reading.title for other in others)]
    numbered = [(f"{number}. {claim.text}", claim) for number, claim in enumerate(claims, 1)]
    again = reread(claims, others)
    rows = [(_wrapped(text), claim) for text, claim in numbered if claim in again]
    alone = [(text, claim) for text, claim in numbered if claim not in again]
    height = TOP + sum(_height(text) for text, _ in rows) + (1.5 + len(alone)) * _height("")
    size = max(LEAST_WIDTH, LEFT + COLUMN * len(columns) + EDGE), height
    figure = plt.figure.Figure(figsize=size)
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0), xlim=(0, size[0]), ylim=(size[1], 0))  # in inches, from the top
    axes.set_axis_off()
    shown = {claim.verdict for claim in claims} | {other.verdict(claim) for claim in claims for other in others}
    _add_legend(axes, [verdict for verdict in COLOURS if verdict in shown])
    for j, title in enumerate(columns):
        heading = "\n".join(textwrap.wrap(title, TITLE_WIDTH))
        place = LEFT + (j + 0.5) * COLUMN, TOP - 0.06
        axes.text(*place, heading, rotation=90, ha="center", va="bottom", fontsize=8.5, linespacing=1.0)
    y = TOP
    for text, claim in rows:
        axes.text(EDGE, y + _height(text) / 2, text, va="center", fontsize=9)
        _add_cell(axes, LEFT, y, _height(text), claim.verdict)
        for j, other in enumerate(others, 1):
            _add_cell(axes, LEFT + j * COLUMN, y, _height(text), other.verdict(claim), other.turns(claim))
        y += _height(text)
    if alone:
        axes.text(
            EDGE, y + 0.75 * _height(""), "Judged under no other reading:", va="center", fontsize=9, weight="bold"
        )
    for k, (text, claim) in enumerate(alone):
        _add_line(axes, y + (1.5 + k) * _height(""), claim.verdict, text)
    path = Path(folder) / f"{NAME}.svg"
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic.replacing(path) as file:
        file.write(as_bytes(figure, "svg"))
    return [path]


def _wrapped(text: str) -> str:
    return "\n".join(textwrap.wrap(text, CLAIM_WIDTH, break_on_hyphens=False))


def _height(text: str) -> float:
    return LINE * (text.count("\n") + 1) + GAP


def _add_legend(axes: Axes, verdicts: Sequence[str]) -> None:
    """In the corner above the claims, beside the titles of columns."""
    for k, verdict in enumerate(verdicts):
        _add_line(axes, EDGE + k * _height(""), verdict, verdict)
    _add_line(axes, EDGE + len(verdicts) * _height(""), "", OUTLINED, True)
    _add_line(axes, EDGE + (len(verdicts) + 1) * _height(""), "", BLANK)


def _add_line(axes: Axes, y: float, verdict: str, text: str, is_outlined: bool = False) -> None:
    """A cell at the left, and text beside it."""
    _add_cell(axes, EDGE, y, _height(""), verdict, is_outlined)
    axes.text(EDGE + COLUMN + 0.08, y + _height("") / 2, text, va="center", fontsize=9)


def _add_cell(axes: Axes, x: float, y: float, height: float, verdict: str, is_outlined: bool = False) -> None:
    """A verdict, by colour and word; with a dark edge if it is another one than as planned."""
    rectangle = load_matplotlib().patches.Rectangle
    axes.add_patch(rectangle((x, y), COLUMN, height, facecolor=COLOURS.get(verdict, EMPTY), edgecolor="white", lw=1.2))
    if is_outlined:  # inside of the cell, so that it does not meet that of a neighbour
        inner = (x + 0.02, y + 0.02), COLUMN - 0.04, height - 0.04
        axes.add_patch(rectangle(*inner, facecolor="none", edgecolor=DARK, lw=1.6))
    middle = x + COLUMN / 2, y + height / 2
    axes.text(*middle, LETTERS.get(verdict, ""), ha="center", va="center", fontsize=8)
