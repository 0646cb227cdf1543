"""A claim, the rule that decides it, and what was found."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from onlinehash.experiments.rows import Rows

CONFIRMED, IN_PART, NOT_CONFIRMED, NOT_TESTED = "confirmed", "confirmed in part", "not confirmed", "not tested"


@dataclass(frozen=True)
class Verdict:
    """The numbers, and one of the four words above."""

    measured: str
    verdict: str


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
    """A claim with its verdict."""

    name: str
    text: str
    source: str
    rule: str
    plans: tuple[str, ...]
    measured: str
    verdict: str


def judge(claim: Claim, rows: Rows) -> Judged:
    """Where results are missing, what makes them is told instead."""
    try:
        found = claim.judge(rows)
    except Missing as missing:
        command = f"onlinehash experiment run {' '.join(claim.plans)}"
        found = Verdict(f"no results {missing}; `{command}` makes them", NOT_TESTED)
    return Judged(claim.name, claim.text, claim.source, claim.rule, claim.plans, found.measured, found.verdict)


def word(holds: bool, in_part: bool = False) -> str:
    """The verdict on one question."""
    return CONFIRMED if holds else IN_PART if in_part else NOT_CONFIRMED


def by_count(n_right: int, n: int) -> str:
    """All of them, some, or none."""
    return word(n_right == n, n_right > 0)


def together(parts: Iterable[Verdict], *missing: str) -> Verdict:
    """Parts of a claim: confirmed if all are, not confirmed if none is; a part that is missing keeps it from "all"."""
    parts = list(parts)
    measured = "; ".join([part.measured for part in parts] + [f"no results {text}" for text in missing])
    is_all = all(part.verdict == CONFIRMED for part in parts) and not missing
    return Verdict(measured, word(is_all, any(part.verdict != NOT_CONFIRMED for part in parts)))
