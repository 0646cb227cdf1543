"""Checks that kept results can still be reproduced: some cells, drawn at random, are run again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from onlinehash.experiments.plan import Plan
from onlinehash.experiments.plan_checks import FOUND
from onlinehash.experiments.results import Result
from onlinehash.experiments.rows import Row

#: What is never compared: it is the machine's.
TIMES = ("seconds",)
#: A difference of up to this share of the value may be another CPU's rounding.
ROUNDING = 0.005
#: What lies between 0 and 1 may differ by as much as one in the last digit that tables print: half a percent of a
#: small precision is less than one item more or less among the answers.
TOLERANCE = 0.001
SHARES = (*FOUND, "update_rate", "capped_share")
#: From the best to the worst.
VERDICTS = ("identical", "equal", "within tolerance", "different")


@dataclass(frozen=True)
class Comparison:
    """A cell then and now, by the number that differs most; `n_compared` is how many were compared."""

    plan: Plan
    row: Row
    n_compared: int
    measured: str
    kept: float
    now: float

    @property
    def verdict(self) -> str:
        """`identical` to the last digit, `equal` but for rounding, `within tolerance`, or `different`."""
        return verdict(self.measured, self.kept, self.now)

    @property
    def agrees(self) -> bool:
        """Whether it is what the report says."""
        return self.verdict != "different"

    def as_document(self) -> dict[str, Any]:
        """For machines, and for a line of a table."""
        return {
            "plan": f"{self.plan.name} (quick)" if self.plan.is_quick else self.plan.name,
            "reading": self.plan.reading.name or self.plan.reading.title,
            "data": self.row.data,
            "contestant": self.row.line,
            "value": self.row.value,
            "seed": self.row.seed,
            "compared": self.n_compared,
            "measured": self.measured,
            "kept": self.kept,
            "now": self.now,
            "verdict": self.verdict,
        }


def draw(candidates: Sequence[tuple[Plan, Row]], n: int, seed: int) -> list[tuple[Plan, Row]]:
    """So many different runs at random; one that several plans or readings share is shown in the first of them."""
    different: dict[str, tuple[Plan, Row]] = {}
    for plan, row in candidates:
        different.setdefault(row.cell.setting.name, (plan, row))
    places = list(different.values())
    chosen = np.random.default_rng(seed).permutation(len(places))[:n]
    return [places[k] for k in chosen]


def compare(plan: Plan, row: Row, now: Result) -> Comparison:
    """By every number that both runs have at the end, but times; where all agree alike, by what the plan shows."""
    kept, again = row.result.final, row.cell.read(now).final
    names = [name for name in (plan.drawing.y, *kept) if name in kept and name in again and name not in TIMES]
    worst = max(names, key=lambda name: _distance(name, kept[name], again[name]))
    return Comparison(plan, row, len({*names}), worst, kept[worst], again[worst])


def verdict(measured: str, kept: float, now: float) -> str:
    """One of `VERDICTS` on one number."""
    apart = abs(now - kept)
    if apart == 0 or (np.isnan(kept) and np.isnan(now)):
        return "identical"
    if apart <= ROUNDING * abs(kept):
        return "equal"
    is_share = measured.partition(",")[0] in SHARES  # of another form of search, too: `map, signs`
    return "within tolerance" if is_share and apart <= TOLERANCE else "different"


def _distance(measured: str, kept: float, now: float) -> tuple[int, float]:
    """To find the worst: the verdict, and the difference as a share of the larger value."""
    return VERDICTS.index(verdict(measured, kept, now)), abs(now - kept) / (max(abs(kept), abs(now)) or 1.0)
