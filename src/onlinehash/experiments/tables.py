"""Results as tables: the figures' numbers, with spread, the best marked, and what differs by more than chance.

retrieval   a line for each set and contestant, a column for each value or for looks along the stream
times       see `time_table`
bounds      what Theorem 2 asks of C, and how many steps C cut short
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from onlinehash.experiments.comparisons import LEVEL, Comparison, comparisons, rival
from onlinehash.experiments.conditions import beside, conditions, is_shortened
from onlinehash.experiments.plan import Plan
from onlinehash.experiments.plan_checks import FOUND
from onlinehash.experiments.rows import Rows
from onlinehash.experiments.series import Series, lines, rows_to_show, series, shown
from onlinehash.experiments.table_forms import NOTHING, Entry, Parts, Table, measured, range_of, thinned
from onlinehash.experiments.time_table import time_parts
from onlinehash.experiments.toml import Value

#: Looks along a stream that are shown.
MOST_LOOKS = 6
LESS_IS_BETTER = ("loss",)


def table(plan: Plan, rows: Rows) -> Table:
    """The table of a plan."""
    some = rows_to_show(plan, rows)
    kinds = {"seconds": time_parts, "smallest_C": _bounds}
    headings, body, rules = kinds.get(plan.drawing.y, _measured)(plan, some)
    notes = (*rules, *conditions(plan, some.of(is_reference=False)))
    return Table(plan.name, plan.title, tuple(headings), tuple(tuple(line) for line in body), notes)


# ------------------------------------------------------------------ what was found, or lost


def _measured(plan: Plan, every: Rows) -> Parts:
    rows, references = every.of(is_reference=False), every.of(is_reference=True)
    columns = _columns(plan, rows)
    body: list[list[Entry]] = []
    alone = len(list(lines(plan, rows.of(data=rows[0].data)))) == 1
    tests: list[dict[tuple[str, Value], Comparison]] = []
    for data in rows.distinct("data"):
        of_set = rows.of(data=data)
        found = comparisons(plan, of_set) if plan.drawing.y == "map" and not alone else {}
        tests += [found] if found else []
        shown_lines = series(plan, of_set)
        block = [[_entry(plan, line, key) for _, key in columns] for line in shown_lines]
        block = _with_best(block, plan.drawing.y in LESS_IS_BETTER, by_line=alone)
        for line, entries in zip(shown_lines, block, strict=True):
            marked = _with_marks(plan, line.label, entries, columns, found)
            body.append([Entry(data), Entry(line.label), *marked])
        for line in series(plan, references.of(data=data)):
            body.append([Entry(data), Entry(line.label), *(_entry(plan, line, key) for _, key in columns)])
    best = "The best value of each set" if alone else "The best of each set and column"
    notes = [f"{plan.drawing.y_label}: mean ± standard deviation over the seeds. {best} is marked."]
    if plan.drawing.x == "pairs" and any(entry.text == NOTHING for line in body for entry in line):
        notes.append(f"{NOTHING}: not ready at that time; where only some seeds are, the mean is over those.")
    if tests:
        notes.append(_tested(plan, rows, tests))
    notes += beside(plan, every)
    return ["set", "contestant", *(heading for heading, _ in columns)], body, notes


def _tested(plan: Plan, rows: Rows, tests: Sequence[dict[tuple[str, Value], Comparison]]) -> str:
    """How marks came about."""
    where = "at the same value" if plan.drawing.x == "values" else "at the end"
    n_queries = range_of([one.n_queries for found in tests for one in found.values()], "{:,}")
    # Compact results keep the values of some queries, but the means of all.
    kept = " (the first ones; means are over all)" if any(map(is_shortened, rows)) else ""
    return (
        f"Marked + or -: differs from {rival(plan, rows)} {where}, p < {LEVEL} by a paired sign-flip test over "
        f"{n_queries} queries{kept}, corrected (Holm) for the {range_of([*map(len, tests)], '{}')} comparisons on "
        "its set, and every seed agrees."
    )


def _columns(plan: Plan, rows: Rows) -> list[tuple[str, Value]]:
    """Headings, and what they stand for: a value, or the number of a look."""
    if plan.drawing.x == "values":
        unit = " bits" if plan.vary == "bits" else ""
        known = rows.distinct("value")
        return [(f"{shown(value)}{unit}", value) for value in plan.values if value in known]
    streams = [line.x for data in rows.distinct("data") for line in series(plan, rows.of(data=data))]
    longest = max(streams, key=len)
    if "looks" in plan.conditions:  # each was asked for
        return [(f"{n:,} marks", k) for k, n in enumerate(longest)]
    chosen = set(thinned(len(longest), MOST_LOOKS))
    # Where the world changes at once, there are two looks after the same pairs; both matter.
    changed = [k for k in range(1, len(longest)) if longest[k] == longest[k - 1]]
    chosen |= {k + step for k in changed for step in (-1, 0)}
    pairs = {k: range_of([x[k] for x in streams if k < len(x)], "{:,}") for k in chosen}  # small sets have fewer
    return [(f"{pairs[k]} pairs{', just changed' if k in changed else ''}", k) for k in sorted(chosen)]


def _entry(plan: Plan, line: Series, key: object) -> Entry:
    """What a line has at a value, or at the look of a number."""
    places: Sequence[Any] = line.x if plan.drawing.x == "values" else range(len(line.x))
    if key not in places or np.isnan(line.mean[places.index(key)]):
        return Entry(NOTHING)
    k = places.index(key)
    return measured(line.mean[k], line.spread[k], "{:.3f}" if plan.drawing.y in FOUND else None)


def _with_best(block: list[list[Entry]], less: bool, by_line: bool) -> list[list[Entry]]:
    """The best of each column; of the line, where a set has only one; none where all are equal, as printed."""
    values = np.array([[dict(e.numbers).get("mean", np.nan) for e in line] for line in block], float)
    values = np.round(-values if less else values, 3)
    axis = 1 if by_line else 0
    highest, lowest = (choose.reduce(values, axis=axis, keepdims=True) for choose in (np.fmax, np.fmin))
    best = (values == highest) & (lowest < highest)
    return [[replace(entry, best=bool(best[i, j])) for j, entry in enumerate(line)] for i, line in enumerate(block)]


def _with_marks(
    plan: Plan,
    label: str,
    entries: Sequence[Entry],
    columns: Sequence[tuple[str, Value]],
    found: dict[tuple[str, Value], Comparison],
) -> list[Entry]:
    """What the tests say: of each value, or along a stream of the last look."""
    marked = list(entries)
    for k, (_, key) in enumerate(columns):
        if plan.drawing.x == "values":
            place = (label, key)
        elif k == len(columns) - 1:
            place = (label, plan.values[-1])
        else:
            continue
        if place in found and marked[k].text != NOTHING:
            one = found[place]
            numbers = (*marked[k].numbers, ("difference", one.difference), ("p_value", one.p_value))
            marked[k] = replace(marked[k], mark=one.mark, numbers=numbers)
    return marked


# ------------------------------------------------------------------ bounds


def _bounds(plan: Plan, rows: Rows) -> Parts:
    headings = ["set", "contestant", "smallest C", "F²", "largest R", "steps cut short by C", "cumulative loss (bits)"]
    body = []
    for data in rows.distinct("data"):
        for line, some in lines(plan, rows.of(data=data)):
            numbers = [
                measured(some.mean(name), np.nan_to_num(some.spread(name)))
                if len(some.finals(name))
                else Entry(NOTHING)
                for name in ("smallest_C", "F2", "largest_R", "capped_share", "loss")
            ]
            body.append([Entry(data), Entry(line), *numbers])
    notes = [
        "At the end of the stream, mean ± standard deviation over the seeds. Smallest C: the largest √R of a pair over "
        "F², which Theorem 2 asks C to reach. Steps cut short: the share of steps that were as long as C allows."
    ]
    return headings, body, notes
