"""Who differs from whom, by more than the chance of the queries: paired tests for a whole table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from onlinehash import evaluate
from onlinehash.experiments.plan import Plan
from onlinehash.experiments.rows import Rows
from onlinehash.experiments.toml import Value

#: Differences with a corrected p-value below this are marked.
LEVEL = 0.01
#: Random signs for each test and each comparison that it is corrected for, so that LEVEL can be reached at all.
FLIPS_PER_COMPARISON = 200
LEAST_FLIPS = 9999


@dataclass(frozen=True)
class Comparison:
    """Mean difference to the rival over the queries, the corrected p-value, and how many queries were compared.

    seeds_agree: each seed alone finds the same one better. Queries tell nothing of what other seeds would do.
    """

    difference: float
    p_value: float
    n_queries: int
    seeds_agree: bool

    @property
    def mark(self) -> str:
        """`+` for better, `-` for worse, nothing where chance may have done it."""
        if self.p_value >= LEVEL or not self.seeds_agree:
            return ""
        return "+" if self.difference > 0 else "-"


def rival(plan: Plan, rows: Rows) -> str:
    """The contestant that the others are compared with: the plan's rival, or the first."""
    lines = rows.distinct("line")
    return plan.rival if plan.rival in lines else str(lines[0])


def comparisons(plan: Plan, rows: Rows) -> dict[tuple[str, Value], Comparison]:
    """For the rows of one set, by contestant and value; p-values are corrected for all of them together."""
    other = rival(plan, rows)
    questions: dict[tuple[str, Value], tuple[np.ndarray, np.ndarray, bool]] = {}
    for value in rows.distinct("value"):
        at_value = rows.of(value=value)
        theirs = at_value.of(line=other)
        for line in at_value.distinct("line"):
            answers = _answers(plan, at_value.of(line=line), theirs)
            if line != other and answers is not None:
                questions[line, value] = answers
    n_flips = max(LEAST_FLIPS, FLIPS_PER_COMPARISON * len(questions))
    tests = [evaluate.paired_test(a, b, n_flips=n_flips) for a, b, _ in questions.values()]
    corrected = holm([test.p_value for test in tests])
    found = zip(questions.items(), tests, corrected, strict=True)
    return {place: Comparison(test.difference, p, test.n, agree) for (place, (*_, agree)), test, p in found}


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's correction: the smallest p-value times their number, the next times one less, never falling."""
    corrected = [1.0] * len(p_values)
    highest = 0.0
    for rank, k in enumerate(sorted(range(len(p_values)), key=lambda k: p_values[k])):
        highest = max(highest, min(1.0, p_values[k] * (len(p_values) - rank)))
        corrected[k] = highest
    return corrected


def _answers(plan: Plan, ours: Rows, theirs: Rows) -> tuple[np.ndarray, np.ndarray, bool] | None:
    """Values of the same queries, over the seeds that both have, and whether each seed finds the same one better; None
    where there are too few to compare."""
    pairs = [
        (a.result.per_query, b.result.per_query)
        for a in ours
        for b in theirs.of(seed=a.seed)
        if a.result.per_query is not None and b.result.per_query is not None
    ]
    if not pairs:
        return None
    if plan.conditions.get("protocol") == "unseen":  # each seed asks queries of its own
        a, b = (np.concatenate(values) for values in zip(*pairs, strict=True))
    else:
        n = min(len(values) for pair in pairs for values in pair)  # compact results keep the first queries only
        a, b = (np.mean([values[:n] for values in side], axis=0) for side in zip(*pairs, strict=True))
    n_better = sum(float(np.nanmean(x[: len(y)] - y[: len(x)])) > 0 for x, y in pairs)
    return (a, b, n_better in (0, len(pairs))) if (~np.isnan(a - b)).sum() > 1 else None
