"""Means over seeds, with what is needed to compare them; and the sets a judge goes through.

The rule everywhere: a level is higher than another when its mean is, by more than the 95 % interval of the difference.
That is the 97.5 % quantile of Student's t times the standard error. Runs of the same seed share their data and pairs:
where both levels have three seeds or more in common, the differences of these runs are taken, with one degree of
freedom less than there are such seeds; else those of two independent means, with n1 + n2 - 2. Fewer than three runs are
no level, and decide nothing. That two are not apart does not make them equal: for that, the means must be close.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from scipy.special import stdtrit

from onlinehash.experiments.claims.verdicts import Missing, Verdict, all_of, word
from onlinehash.experiments.roles import roles
from onlinehash.experiments.rows import FEWEST, Rows

#: The roles of the sets that stand for the paper's four.
FOUR = ("photo-tourism", "labelme", "gist1m", "cifar10")
#: Of Student's t: both sides leave out 5 % together.
QUANTILE = 0.975
#: A difference of this share is "little": what counts as no change.
LITTLE = 0.05
#: What is apart by less is equal: sums of the same numbers may differ in their last digits.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Level:
    """The mean of some runs, their standard deviation, the standard error of the mean and its degrees of freedom.

    runs: the value of each seed, where it is known.
    """

    mean: float
    spread: float
    error: float
    freedom: int
    runs: Mapping[int, float] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.mean:.3f} ± {self.spread:.3f}"

    def __sub__(self, other: Level) -> Level:
        """The difference: run by run over the seeds in common where these are enough, else of the means.

        Then its error is its spread, too.
        """
        differences = {seed: value - other.runs[seed] for seed, value in self.runs.items() if seed in other.runs}
        if len(differences) >= FEWEST:
            return _of_runs(differences)
        error = math.hypot(self.error, other.error)
        return Level(self.mean - other.mean, error, error, self.freedom + other.freedom)

    def times(self, factor: float) -> Level:
        """Scaled by a factor, errors included."""
        runs = {seed: value * factor for seed, value in self.runs.items()}
        return Level(self.mean * factor, self.spread * factor, self.error * factor, self.freedom, runs)

    @property
    def sign(self) -> int:
        """Of a difference: 1 or -1 where zero is outside of its 95 % interval, else 0."""
        within = max(stdtrit(self.freedom, QUANTILE) * self.error, ROUNDING)
        return int(np.sign(self.mean)) if abs(self.mean) > within else 0

    def above(self, other: Level) -> bool:
        """Whether it is higher by more than the 95 % interval."""
        return (self - other).sign > 0

    def near(self, other: Level, share: float) -> bool:
        """Apart by no more than this share of the larger?"""
        return abs((self - other).mean) <= share * max(abs(self.mean), abs(other.mean))

    def at_most(self, other: Level) -> bool:
        """Whether it is not higher: lower, or close."""
        return not self.above(other) and (self.mean <= other.mean or self.near(other, LITTLE))


def level_of(runs: Mapping[int, float], where: str) -> Level:
    """Of one number for each seed, at least three of them."""
    if len(runs) < FEWEST:
        raise Missing(f"of at least {FEWEST} runs {where}" if runs else where)
    return _of_runs(runs)


def _of_runs(runs: Mapping[int, float]) -> Level:
    values = list(runs.values())
    spread = float(np.std(values, ddof=1))
    return Level(float(np.mean(values)), spread, spread / math.sqrt(len(values)), len(values) - 1, runs)


def level(rows: Rows, measured: str = "map", **place: Any) -> Level:
    """What was measured at the end of the runs in a place, such as `line="OH", value=64`."""
    where = "of " + ", ".join(f"{value:g}" if name == "value" else value for name, value in place.items())
    here = rows.of(**place)
    return level_of({row.seed: row.result.final[measured] for row in here if measured in row.result.final}, where)


def rising(levels: Sequence[Level]) -> str:
    """Is the last higher than the first, and none lower than the one before it? In part where only the ends are so."""
    if len(levels) < 2:
        raise Missing("to compare")
    grows = levels[-1].above(levels[0])
    return word(grows and all(a.at_most(b) for a, b in itertools.pairwise(levels)), grows)


@dataclass(frozen=True)
class Grid:
    """The varied values of a plan on a set, in rising order: those that can be compared, and those not run."""

    values: list[Any]
    lacking: list[Any]

    def where(self, is_asked: Callable[[Any], bool], what: str) -> Grid:
        """Those that a claim asks for."""
        values, lacking = (list(filter(is_asked, some)) for some in (self.values, self.lacking))
        if not values:
            raise Missing(what)
        return Grid(values, lacking)

    def __str__(self) -> str:
        """The number of values in words, as in "at 3 of 5 lengths"."""
        return f"{len(self.values)} lengths" + (f", {len(self.lacking)} not run" if self.lacking else "")


def grid_of(rows: Rows, *lines: str) -> Grid:
    """Of all values in these rows, which must be all of a plan on a set: are there enough runs of these contestants?"""
    values = sorted(rows.distinct("value"))
    run = [value for value in values if all(len(rows.of(line=line, value=value)) >= FEWEST for line in lines)]
    if not run:
        raise Missing(f"of at least {FEWEST} runs of {' and '.join(lines)}{' together' if len(lines) > 1 else ''}")
    return Grid(run, [value for value in values if value not in run])


def title(role: str) -> str:
    """The name of a set in a verdict: what it stands for."""
    return roles()[role].title


def over_sets(rows: Rows, plan: str, part: Callable[[Rows], Verdict], wanted: Sequence[str] = FOUR) -> Verdict:
    """The same question for each set of a plan, a line each."""
    if not any(len(rows.of(plan=plan, role=role)) for role in wanted):
        raise Missing(f"of the plan {plan} on {', '.join(map(title, wanted))}")

    def of_set(role: str) -> Verdict:
        here = on_set(rows, plan, role)
        try:
            return part(here).headed(title(role))
        except Missing as error:
            raise Missing(f"on {title(role)}, {error}") from error

    return all_of((partial(of_set, role) for role in wanted), between="\n")


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
