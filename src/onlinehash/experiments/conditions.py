"""What the numbers of a table rest on: pairs, queries, seeds; who has fewer; who learns from a sample of the rows."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from functools import cache

import numpy as np

from onlinehash.experiments import methods
from onlinehash.experiments.plan import REFERENCES, Plan, contestant
from onlinehash.experiments.rows import Row, Rows
from onlinehash.experiments.series import short_name, shown
from onlinehash.experiments.table_forms import range_of
from onlinehash.experiments.toml import Value


def conditions(plan: Plan, rows: Rows) -> Iterator[str]:
    """Notes for a table: who learns from a sample, then a note for each set."""
    yield from _samples(rows)
    values = [value for value in plan.values if value in rows.distinct("value")]
    for data in rows.distinct("data"):
        of_set = rows.of(data=data)
        parts = [", ".join(_sizes(of_set)), _seeds(plan, of_set), *_chosen(of_set), *_gaps(plan, of_set, values)]
        yield f"{data}: {'; '.join(parts)}."


def beside(plan: Plan, rows: Rows) -> Iterator[str]:
    """What the references are, and with whom they do not share the storage of an item."""
    found = rows.of(is_reference=True).distinct("line")
    if not found:
        return
    length = f"{plan.reading.bits or plan.bits} bits"
    if plan.vary == "bits":
        length = "the same length"
    elif plan.vary == "n_models":
        length = "as many bits as all models have"
    words = {
        "Float": "Float, exact search by the cosine of the vectors",
        "ITQ": f"ITQ, codes of {length} made of the vectors alone",
    }
    shown_ones = [words[label] for label in REFERENCES if label in rows.distinct("line")]
    yield f"Without feedback: {', and '.join(shown_ones)}. References are neither marked nor tested."
    several = [label for label in plan.contestants if label in rows.distinct("line") and _has_several_codes(label)]
    if several and plan.vary != "n_models":
        yield (
            f"An item takes a code for each model of {' and of '.join(several)}; the plan `storage` compares codes of "
            "equal total length."
        )


def _has_several_codes(label: str) -> bool:
    """Of the length that is shown."""
    who = contestant(label)
    return who.models is None and "n_models" in methods.find(who.method)().get_params(deep=False)


def is_shortened(row: Row) -> bool:
    """Whether the values of some queries were not kept."""
    values = row.result.per_query
    return values is not None and len(values) < row.result.facts["n_queries"]


def _sizes(rows: Rows) -> Iterator[str]:
    """Of one set: pairs, share of similar ones, queries, base."""
    facts = [row.result.facts for row in rows]
    yield f"{range_of([row.result.final['pairs'] for row in rows], '{:,.0f}')} pairs"
    shares = [100 * fact["similar_share"] for fact in facts if "similar_share" in fact]
    yield f"{range_of(shares, '{:.3g}')} % similar"
    asked = [row for row in rows if "n_queries" in row.result.facts]
    if asked:
        yield f"{range_of([_n_queries(row) for row in asked], '{:,.0f}')} queries"
        yield f"a base of {range_of([row.result.facts['n_base'] for row in asked], '{:,.0f}')}"
    else:
        yield "no queries"


def _n_queries(row: Row) -> int:
    """Those to which something is relevant, which means are over; where that was not kept, those that were asked."""
    values = row.result.per_query
    if values is None or is_shortened(row):
        return int(row.result.facts["n_queries"])
    return int((~np.isnan(values)).sum())


def _seeds(plan: Plan, rows: Rows) -> str:
    """All that there are, and who has fewer."""
    seeds = sorted(rows.distinct("seed"))
    fewer = []
    for line in rows.distinct("line"):
        counts = [n for n in _counts(plan, rows.of(line=line)).values() if n]
        if counts and min(counts) < len(seeds):
            fewer.append(f"{line} {range_of(counts, '{}')}")
    told = f"{len(seeds)} seed{'s' if len(seeds) > 1 else ''} ({', '.join(map(str, seeds))})"
    return f"{told}, but {', '.join(fewer)}" if fewer else told


def _chosen(rows: Rows) -> Iterator[str]:
    """How often pairs held out spoke for each value of a parameter."""
    for line in rows.distinct("line"):
        choices = [row.result.facts["chosen"] for row in rows.of(line=line) if "chosen" in row.result.facts]
        for name in dict.fromkeys(itertools.chain(*choices)):
            counts = sorted(Counter(chosen[name] for chosen in choices).items())
            times = ", ".join(f"{shown(value)} in {n} run{'s' if n > 1 else ''}" for value, n in counts)
            yield f"{name} chosen for {line}: {times}"


def _gaps(plan: Plan, rows: Rows, values: list[Value]) -> Iterator[str]:
    """Who has nothing at all, or at some of the values that the table shows."""
    absent = [label for label in plan.contestants if label not in rows.distinct("line")]
    if absent:
        yield f"nothing measured of {', '.join(absent)}"
    for line in rows.distinct("line"):
        counts = _counts(plan, rows.of(line=line))
        missing = ", ".join(shown(value) for value in values if not counts.get(value))
        if missing:
            places = f"{missing} bits" if plan.vary == "bits" else f"{short_name(plan)} = {missing}"
            yield f"{line}: nothing measured at {places}"


def _counts(plan: Plan, rows: Rows) -> dict[Value, int]:
    """By value: how many seeds measured what the table shows."""
    return {value: len(rows.of(value=value).finals(plan.drawing.y)) for value in rows.distinct("value")}


def _samples(rows: Rows) -> Iterator[str]:
    """Methods too slow for all rows learn from some."""
    told: list[str] = []
    for line in rows.distinct("line"):
        settings = [row.cell.setting for row in rows.of(line=line)]
        sizes = [setting.parameters.get("n_samples", _usual_sample(setting.method)) for setting in settings]
        if sizes[0] is not None:
            told.append(f"{line} {'' if told else 'learns '}from {range_of(sizes, '{:,}')}{'' if told else ' rows'}")
    if told:
        yield f"{', '.join(told)}, or from all if there are fewer."


@cache
def _usual_sample(method: str) -> int | None:
    """The default; None for a method that learns from all."""
    size: int | None = methods.find(method)().get_params(deep=False).get("n_samples")
    return size
