"""What a figure or a table shows of a plan's rows: for each contestant the mean over seeds, and the spread."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from onlinehash.errors import InvalidInput
from onlinehash.experiments.plan import Plan
from onlinehash.experiments.rows import Rows

#: Levels of recall of a kept curve, as shares.
RECALLS = np.linspace(0, 1, 11)
#: The value at which precision-recall curves are drawn, where a plan varies the bits.
CURVE_BITS = 64


@dataclass(frozen=True)
class Series:
    """One line: places (varied values, pairs, or levels of recall), means, and standard deviations over seeds.

    Along a stream there is a place for each look, also where nothing could be measured yet: its mean is NaN.
    """

    label: str
    x: tuple[Any, ...]
    mean: np.ndarray
    spread: np.ndarray


def rows_to_show(plan: Plan, rows: Rows) -> Rows:
    """Those of the plan, which must be some."""
    some = rows.of(plan=plan.name)
    if not len(some):
        raise InvalidInput(f"no results of {plan.name}; run `onlinehash experiment run {plan.name}`.")
    return some


def series(plan: Plan, rows: Rows) -> list[Series]:
    """The lines of one set, in the order of the contestants; who measured nothing is left out."""
    make = _along_values if plan.drawing.x == "values" else _along_looks
    found = (make(plan, label, some) for label, some in lines(plan, rows))
    return [line for line in found if not np.isnan(line.mean).all()]


def lines(plan: Plan, rows: Rows) -> Iterator[tuple[str, Rows]]:
    """The rows of each line and its name: a contestant, or where the plan says so, a value."""
    contestants = rows.distinct("line")
    for line in contestants:
        of_line = rows.of(line=line)
        if not plan.drawing.lines_by_value:
            yield line, of_line
            continue
        for value in of_line.distinct("value"):
            name = f"{short_name(plan)} = {shown(value)}"
            yield (name if len(contestants) == 1 else f"{line}, {name}"), of_line.of(value=value)


def curves(rows: Rows, value: object) -> list[Series]:
    """Precision at the levels of recall, of one set and value; empty where none was kept."""
    found = []
    for line in rows.distinct("line"):
        kept = [row.result.facts["curve"] for row in rows.of(line=line, value=value) if row.result.facts.get("curve")]
        if kept:
            found.append(Series(line, tuple(RECALLS), *_mean_and_spread(np.array(kept))))
    return found


def curve_value(plan: Plan) -> Any:
    """64 bits, or the middle one."""
    return CURVE_BITS if CURVE_BITS in plan.values else plan.values[len(plan.values) // 2]


def short_name(plan: Plan) -> str:
    """What is varied, as a heading."""
    return plan.vary.rpartition(".")[2]


def shown(value: object) -> str:
    """A varied value as people write it: 16, 0.1, 1e-05 as 0.00001, burn-in."""
    if isinstance(value, float):
        return f"{value:.10f}".rstrip("0").rstrip(".")
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _along_values(plan: Plan, label: str, rows: Rows) -> Series:
    y = plan.drawing.y
    places = [value for value in plan.values if len(rows.of(value=value).finals(y))]
    mean = np.array([rows.of(value=value).mean(y) for value in places])
    spread = np.nan_to_num(np.array([rows.of(value=value).spread(y) for value in places]))
    return Series(label, tuple(places), mean, spread)


def _along_looks(plan: Plan, label: str, rows: Rows) -> Series:
    """By the number of the look: at a sudden change there are two after the same pairs."""
    y = plan.drawing.y
    n = min(len(row.result.checkpoints) for row in rows)
    values = np.array([[look.get(y, np.nan) for look in row.result.checkpoints[:n]] for row in rows])
    return Series(label, tuple(look["pairs"] for look in rows[0].result.checkpoints[:n]), *_mean_and_spread(values))


def _mean_and_spread(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Over the first axis, of what is not NaN: no mean of nothing, and no spread of one value alone."""
    known = ~np.isnan(values)
    n = known.sum(axis=0)
    with np.errstate(invalid="ignore"):
        mean = np.where(known, values, 0).sum(axis=0) / n
    squares = np.where(known, (values - mean) ** 2, 0).sum(axis=0)
    return mean, np.sqrt(squares / np.maximum(n - 1, 1))
