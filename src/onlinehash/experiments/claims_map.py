"""The map of claims by readings: which verdicts hang on how the paper is read."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from onlinehash.experiments.claims import Judged
from onlinehash.experiments.panels import as_bytes, load_matplotlib
from onlinehash.experiments.plan import Plan
from onlinehash.experiments.readings import Reading
from onlinehash.experiments.rows import Rows
from onlinehash.io import atomic

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
#: Inches: where columns begin, a column, room for slanted titles at the right and at the top, a line, between claims.
LEFT, COLUMN, SLANT, TOP, LINE, GAP = 4.5, 0.57, 0.7, 1.35, 0.16, 0.12
#: Characters of a line.
CLAIM_WIDTH, TITLE_WIDTH = 64, 20


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
    """The map as a picture; nothing where there is no other reading."""
    if not others:
        return []
    plt = load_matplotlib()
    columns = ["as planned", *(other.reading.title for other in others)]
    words = [
        textwrap.wrap(f"{number}. {claim.text}", CLAIM_WIDTH, break_on_hyphens=False)
        for number, claim in enumerate(claims, 1)
    ]
    heights = [LINE * len(lines) + GAP for lines in words]
    size = LEFT + COLUMN * len(columns) + SLANT, TOP + sum(heights)
    figure = plt.figure.Figure(figsize=size)
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0), xlim=(0, size[0]), ylim=(size[1], 0))  # in inches, from the top
    axes.set_axis_off()
    for j, title in enumerate(columns):
        heading = "\n".join(textwrap.wrap(title, TITLE_WIDTH))
        axes.text(LEFT + (j + 0.35) * COLUMN, TOP - 0.06, heading, rotation=50, rotation_mode="anchor", fontsize=9)
    y = TOP
    for claim, lines, height in zip(claims, words, heights, strict=True):
        axes.text(0.05, y + height / 2, "\n".join(lines), va="center", fontsize=9)
        for j, verdict in enumerate([claim.verdict, *(other.verdict(claim) for other in others)]):
            corner = LEFT + j * COLUMN, y
            colour = COLOURS.get(verdict, EMPTY)
            axes.add_patch(plt.patches.Rectangle(corner, COLUMN, height, facecolor=colour, edgecolor="white", lw=1.2))
            weight = "bold" if j and others[j - 1].turns(claim) else "normal"
            middle = corner[0] + COLUMN / 2, y + height / 2
            axes.text(*middle, LETTERS.get(verdict, ""), ha="center", va="center", fontsize=9, weight=weight)
        y += height
    path = Path(folder) / f"{NAME}.svg"
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic.replacing(path) as file:
        file.write(as_bytes(figure, "svg"))
    return [path]
