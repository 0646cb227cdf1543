"""The map of claims by readings: which verdicts hang on how the paper is read."""

from __future__ import annotations

import os
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


@dataclass(frozen=True)
class ReadOtherwise:
    """A reading, what was measured under it, and what became of the claims that it touches."""

    reading: Reading
    plans_and_rows: Sequence[tuple[Plan, Rows]]
    judged: Sequence[Judged]

    def verdict(self, claim: Judged) -> str:
        """The verdict on a claim under this reading; empty if the reading does not affect it."""
        return next((one.verdict for one in self.judged if one.name == claim.name), "")


def turned(claim: Judged, others: Sequence[ReadOtherwise]) -> list[ReadOtherwise]:
    """The readings under which a claim has another verdict."""
    return [other for other in others if other.verdict(claim) not in ("", claim.verdict, "not tested")]


def as_lines(claims: Sequence[Judged], others: Sequence[ReadOtherwise]) -> Iterator[list[str]]:
    """The map as a table: a line for each claim, a column for each reading; what turns is marked by stars."""
    yield ["#", "claim", "as planned", *(other.reading.title for other in others)]
    for number, claim in enumerate(claims, 1):
        signs = []
        for other in others:
            sign = SIGNS.get(other.verdict(claim), "")
            signs.append(f"**{sign}**" if other in turned(claim, others) else sign)
        yield [str(number), claim.text, SIGNS[claim.verdict], *signs]


def draw(claims: Sequence[Judged], others: Sequence[ReadOtherwise], folder: str | os.PathLike[str]) -> list[Path]:
    """The map as a picture; nothing where there is no other reading."""
    if not others:
        return []
    plt = load_matplotlib()
    columns = ["as planned", *(other.reading.title for other in others)]
    figure = plt.figure.Figure(figsize=(8.0 + 0.55 * len(columns), 2.2 + 0.25 * len(claims)))
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_axis_off()
    width = 0.55 / figure.get_figwidth()
    height = 0.25 / figure.get_figheight()
    top, left = 1 - 2.1 / figure.get_figheight(), 6.2 / figure.get_figwidth()
    for j, title in enumerate(columns):
        axes.text(left + (j + 0.5) * width, top + 0.01, title, rotation=50, ha="left", va="bottom", fontsize=8)
    for i, claim in enumerate(claims):
        y = top - (i + 1) * height
        axes.text(left - 0.01, y + height / 2, f"{i + 1}. {claim.text}", ha="right", va="center", fontsize=8)
        for j, verdict in enumerate([claim.verdict, *(other.verdict(claim) for other in others)]):
            box = plt.patches.Rectangle(
                (left + j * width, y), width, height, facecolor=COLOURS.get(verdict, EMPTY), edgecolor="white", lw=1.2
            )
            axes.add_patch(box)
            weight = "bold" if j and verdict and verdict != claim.verdict else "normal"
            middle = left + (j + 0.5) * width, y + height / 2
            axes.text(*middle, LETTERS.get(verdict, ""), ha="center", va="center", fontsize=7.5, weight=weight)
    path = Path(folder) / f"{NAME}.svg"
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic.replacing(path) as file:
        file.write(as_bytes(figure, "svg"))
    return [path]
