"""Means over seeds, with what is needed to compare them; and the sets a judge goes through.

The rule everywhere: a level is higher than another when its mean is, by more than two standard errors of the
difference; otherwise the two are equal. A level of a single run has no standard error, and is equal to every other.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from onlinehash.experiments.claims.verdicts import Missing, Verdict, together, word
from onlinehash.experiments.roles import roles
from onlinehash.experiments.rows import Rows

#: The roles of the sets that stand for the paper's four.
FOUR = ("photo-tourism", "labelme", "gist1m", "cifar10")
STANDARD_ERRORS = 2.0


@dataclass(frozen=True)
class Level:
    """The mean of some runs, their standard deviation and the standard error of the mean."""

    mean: float
    spread: float
    error: float

    def __str__(self) -> str:
        return f"{self.mean:.3f}" if math.isnan(self.spread) else f"{self.mean:.3f} ± {self.spread:.3f}"

    def __sub__(self, other: Level) -> Level:
        """The difference of two means, with its standard error (in the place of a spread, too)."""
        error = math.hypot(self.error, other.error)
        return Level(self.mean - other.mean, error, error)

    def times(self, factor: float) -> Level:
        """So many times as large, and its errors with it."""
        return Level(self.mean * factor, self.spread * factor, self.error * factor)

    @property
    def sign(self) -> int:
        """Of a difference: 1 or -1 where it is more than two standard errors from zero, else 0."""
        return int(np.sign(self.mean)) if abs(self.mean) > STANDARD_ERRORS * self.error else 0

    def above(self, other: Level) -> bool:
        """Higher by more than two standard errors?"""
        return (self - other).sign > 0

    def near(self, other: Level, share: float) -> bool:
        """Equal, or apart by no more than this share of the larger?"""
        difference = self - other
        return difference.sign == 0 or abs(difference.mean) <= share * max(abs(self.mean), abs(other.mean))


def level_of(values: Sequence[float] | np.ndarray, where: str) -> Level:
    """Of one number for each seed; a single one has an infinite error."""
    if not len(values):
        raise Missing(where)
    if len(values) == 1:
        return Level(float(values[0]), math.nan, math.inf)
    spread = float(np.std(values, ddof=1))
    return Level(float(np.mean(values)), spread, spread / math.sqrt(len(values)))


def level(rows: Rows, measured: str = "map", **place: Any) -> Level:
    """What was measured at the end of the runs in a place, such as `line="OH", value=64`."""
    where = "of " + ", ".join(f"{value:g}" if name == "value" else value for name, value in place.items())
    return level_of(rows.of(**place).finals(measured), where)


def rising(levels: Sequence[Level]) -> str:
    """Is the last higher than the first, and none lower than the one before it? In part where only the ends are so."""
    grows = levels[-1].above(levels[0])
    return word(grows and not any(a.above(b) for a, b in itertools.pairwise(levels)), grows)


def values_of(rows: Rows, *lines: str) -> list[Any]:
    """The varied values for which there are runs of all these contestants, in rising order."""
    found = [set(rows.of(line=line).distinct("value")) for line in lines]
    common = sorted(set.intersection(*found))
    if not common:
        raise Missing(f"of {' and '.join(lines)} together")
    return common


def title(role: str) -> str:
    """How a set is called in a verdict: by what it stands for."""
    return roles()[role].title


def over_sets(rows: Rows, plan: str, part: Callable[[Rows], Verdict], wanted: Sequence[str] = FOUR) -> Verdict:
    """The same question for each set of a plan."""
    parts, missing = [], []
    for role in wanted:
        try:
            found = part(on_set(rows, plan, role))
            parts.append(Verdict(f"{title(role)}: {found.measured}", found.verdict))
        except Missing as error:
            missing.append(f"on {title(role)}, {error}" if len(rows.of(plan=plan, role=role)) else f"on {title(role)}")
    if not parts:
        raise Missing(f"of the plan {plan} on {', '.join(title(role) for role in wanted)}")
    return together(parts, *missing)


def on_set(rows: Rows, plan: str, role: str) -> Rows:
    """The rows of a plan on the set of a role."""
    return _main_set(rows.of(plan=plan, role=role), f"of the plan {plan} on {title(role)}")


def on_one_set(rows: Rows, plan: str, wanted: str) -> Rows:
    """The rows of a plan on the set that the paper took, or on another one where that is missing."""
    of_plan = rows.of(plan=plan)
    here = of_plan.of(role=wanted)
    return _main_set(here if len(here) else of_plan, f"of the plan {plan}")


def _main_set(rows: Rows, what: str) -> Rows:
    """Those of the set that has most: several may have one role, and their levels must not be mixed."""
    if not len(rows):
        raise Missing(what)
    sets = Counter(row.data for row in rows)
    return rows.of(data=max(sets, key=lambda data: sets[data]))
