"""Checks that kept results can still be reproduced: some cells, drawn at random, are run again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from onlinehash.experiments.results import Result
from onlinehash.experiments.rows import Row, Rows

#: What is compared: never a time, which is the machine's.
COMPARED = ("map", "loss", "smallest_C")
#: A difference of up to this share of the value may be another CPU's rounding; more, within the spread over seeds, is
#: still the stated result, but told apart.
ROUNDING = 0.005


@dataclass(frozen=True)
class Comparison:
    """A cell then and now; `spread` is the standard deviation over the seeds of the cell, NaN for a single one."""

    row: Row
    measured: str
    kept: float
    now: float
    spread: float

    @property
    def verdict(self) -> str:
        """`identical` to the last digit, `equal` but for rounding, `within the spread`, or `different`."""
        apart = abs(self.now - self.kept)
        if apart == 0:
            return "identical"
        if apart <= ROUNDING * abs(self.kept):
            return "equal"
        return "within the spread" if apart <= self.spread else "different"

    @property
    def agrees(self) -> bool:
        """Whether it is what the report says."""
        return self.verdict != "different"

    def as_document(self) -> dict[str, Any]:
        """For machines, and for a line of a table."""
        return {
            "plan": self.row.plan,
            "data": self.row.data,
            "contestant": self.row.line,
            "value": self.row.value,
            "seed": self.row.seed,
            "measured": self.measured,
            "kept": self.kept,
            "now": self.now,
            "spread": self.spread,
            "verdict": self.verdict,
        }


def draw(candidates: Sequence[tuple[Row, Rows]], n: int, seed: int) -> list[tuple[Row, Rows]]:
    """So many different runs at random, each with the rows of its plan."""
    different = list({row.cell.setting.name: (row, rows) for row, rows in candidates}.values())
    chosen = np.random.default_rng(seed).permutation(len(different))[:n]
    return [different[k] for k in chosen]


def compare(row: Row, now: Result, rows: Rows) -> Comparison:
    """With the spread over the seeds of the same cell."""
    kept, now = row.result, row.cell.read(now)
    measured = next(name for name in COMPARED if name in kept.final)
    spread = rows.of(data=row.data, line=row.line, value=row.value).spread(measured)
    return Comparison(row, measured, kept.final[measured], now.final[measured], spread)
