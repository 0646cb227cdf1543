"""Times as a table: beside each what the method asked for, so that a slow program is not mistaken for a slow method."""

from __future__ import annotations

from collections.abc import Iterator

from onlinehash.experiments.comparisons import rival
from onlinehash.experiments.plan import Plan
from onlinehash.experiments.rows import Rows
from onlinehash.experiments.series import series, short_name, shown
from onlinehash.experiments.table_forms import Entry, Parts, measured, number, thinned
from onlinehash.experiments.toml import Value

#: Looks along a stream that are shown of each contestant.
MOST_TIMES = 4


def time_parts(plan: Plan, rows: Rows) -> Parts:
    """Beside each time what it took, so that a slow program is not mistaken for a slow method."""
    along = plan.drawing.x == "pairs"
    other = rival(plan, rows)
    headings = ["set", "contestant", "pairs" if along else short_name(plan), "time (s)", "µs per pair"]
    headings += ["operations per pair", f"× time of {other}", f"× operations of {other}", "operations per ns"]
    body = []
    for data in rows.distinct("data"):
        times = dict(_timings(plan, rows.of(data=data)))
        for (line, place), (seconds, spread, n_pairs, flops) in times.items():
            base = times.get((other, place))
            numbers = [
                Entry(data),
                Entry(line),
                Entry(shown(place)),
                measured(seconds, spread),
                number(1e6 * seconds / n_pairs, "{:,.3g}"),
                number(flops, "{:,.0f}"),
                number(base and seconds / base[0], "{:.2f}"),
                number(base and flops and base[3] and flops / base[3], "{:.2f}"),
                number(flops and flops * n_pairs / seconds / 1e9, "{:.2f}"),
            ]
            body.append(numbers)
    notes = [
        "Time: mean ± standard deviation over the seeds, of learning alone, on one core. Operations: additions and "
        "multiplications of floating-point numbers that the method asks for, counted from its formulas. Few operations "
        "per ns: a program that could be faster, not a method that asks for more."
    ]
    return headings, body, notes


def _timings(plan: Plan, rows: Rows) -> Iterator[tuple[tuple[str, Value], tuple[float, float, int, float | None]]]:
    """By contestant, and value or number of pairs: seconds, their spread, pairs, operations per pair."""
    for line in series(plan, rows):
        of_line = rows.of(line=line.label)
        along = plan.drawing.x == "pairs"
        for k in thinned(len(line.x), MOST_TIMES) if along else range(len(line.x)):
            some = of_line if along else of_line.of(value=line.x[k])
            n_pairs = line.x[k] if along else some[0].result.final["pairs"]
            counted = [row.result.facts["flops_per_pair"] for row in some if row.result.facts.get("flops_per_pair")]
            flops = sum(counted) / len(counted) if counted else None
            if n_pairs and line.mean[k] > 0:
                yield (line.label, line.x[k]), (line.mean[k], line.spread[k], n_pairs, flops)
