"""A claim, the rule that decides it, and what was found."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from onlinehash.experiments.rows import Rows

CONFIRMED, IN_PART, NOT_CONFIRMED, NOT_TESTED = "confirmed", "confirmed in part", "not confirmed", "not tested"


#: What a word is worth among other parts of a claim.
WORTH = {CONFIRMED: 1.0, IN_PART: 0.5, NOT_CONFIRMED: 0.0}


@dataclass(frozen=True)
class Verdict:
    """The numbers, and one of the four words above.

    right, n: in how many of how many comparisons it held; one, as far as its word goes, where they were not counted.
    """

    measured: str
    verdict: str
    right: float = 0.0
    n: int = 0

    def __post_init__(self) -> None:
        if not self.n:
            object.__setattr__(self, "right", WORTH.get(self.verdict, 0.0))
            object.__setattr__(self, "n", 1)

    def headed(self, name: str) -> Verdict:
        """The same verdict with a name before its numbers."""
        return replace(self, measured=f"{name}: {self.measured}")


class Missing(Exception):
    """What a judge would need and does not have; it ends in the verdict "not tested"."""


@dataclass(frozen=True)
class Claim:
    """Something that the paper says.

    text: in our words. source: where the paper says it. rule: when it counts as confirmed. plans: whose results decide.
    judge: a function of the rows alone.
    """

    name: str
    text: str
    source: str
    rule: str
    plans: tuple[str, ...]
    judge: Callable[[Rows], Verdict]


@dataclass(frozen=True)
class Judged:
    """A claim with its verdict.

    seeds: the least and the largest number of runs in the places (set, contestant and value) of its plans.
    """

    name: str
    text: str
    source: str
    rule: str
    plans: tuple[str, ...]
    measured: str
    verdict: str
    seeds: tuple[int, int]


def judge(claim: Claim, rows: Rows) -> Judged:
    """The verdict; where results are missing, it names the command that makes them."""
    try:
        found = claim.judge(rows)
    except Missing as missing:
        command = f"onlinehash experiment run {' '.join(claim.plans)}"
        found = Verdict(f"no results {missing}; `{command}` makes them", NOT_TESTED)
    places = [n for plan in claim.plans for n in rows.of(plan=plan).seeds_of_places()] or [0]
    seeds = min(places), max(places)
    return Judged(claim.name, claim.text, claim.source, claim.rule, claim.plans, found.measured, found.verdict, seeds)


def word(holds: bool, in_part: bool = False) -> str:
    """The verdict on one question."""
    return CONFIRMED if holds else IN_PART if in_part else NOT_CONFIRMED


def at_most_in_part(verdict: str, is_lacking: bool = True) -> str:
    """Lower "confirmed" to "in part" where something was not run."""
    return IN_PART if is_lacking and verdict == CONFIRMED else verdict


def by_count(right: float, n: int) -> str:
    """The verdict when this many comparisons hold: all, at least half, or fewer."""
    return word(right == n, 2 * right >= n)


def counted(measured: str, right: int, n: int, n_lacking: int = 0) -> Verdict:
    """A verdict by comparisons, which count one by one in the whole claim; those not run keep it from "all"."""
    if not n:
        raise Missing("to compare")
    return Verdict(measured, at_most_in_part(by_count(right, n), n_lacking > 0), right, n)


def together(parts: Iterable[Verdict], *missing: str, between: str = "; ") -> Verdict:
    """Parts of a claim, their comparisons added up; a part that is missing, or not complete, keeps it from "all"."""
    parts = list(parts)
    measured = between.join([part.measured for part in parts] + [f"no results {text}" for text in missing])
    right, n = sum(part.right for part in parts), sum(part.n for part in parts)
    is_all = all(part.verdict == CONFIRMED for part in parts) and not missing
    return Verdict(measured, at_most_in_part(by_count(right, n), not is_all), right, n)


def all_of(questions: Iterable[Callable[[], Verdict]], between: str = "; ") -> Verdict:
    """The answers to some questions together, as far as there are results; none at all is Missing."""
    parts, missing = [], []
    for question in questions:
        try:
            parts.append(question())
        except Missing as error:
            missing.append(str(error))
    if not parts:
        raise Missing("; no results ".join(missing))
    return together(parts, *missing, between=between)
