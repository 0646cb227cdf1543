"""Figures in words, for those who do not see them: what is highest and lowest on each set, from the numbers drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from onlinehash.experiments.plan import Plan
from onlinehash.experiments.rows import Rows
from onlinehash.experiments.series import Series, curve_value, curves, rows_to_show, series, shown

#: The recall at which curves are compared: far from both ends, where they meet.
RECALL = 0.5
#: From here on, numbers are written without decimals.
LARGE = 1000


class Point(NamedTuple):
    """Where a line is."""

    label: str
    x: Any
    y: float


def described(plan: Plan, rows: Rows) -> str:
    """The figure of a plan: what it shows, and on each set how far a single line goes, or who ends where."""
    some = rows_to_show(plan, rows)
    drawing = plan.drawing
    taught, untaught = some.of(is_reference=False), some.of(is_reference=True)
    panels = (
        _panel(data, series(plan, taught.of(data=data))) + _beside(series(plan, untaught.of(data=data)))
        for data in some.distinct("data")
    )
    return _plain(f"{plan.title}: {drawing.y_label} against {drawing.x_label}. {' '.join(panels)}")


def described_curves(plan: Plan, rows: Rows) -> str:
    """The figure of precision and recall."""
    some = rows_to_show(plan, rows)
    value = curve_value(plan)
    parts = [f"{plan.title}: precision against recall at {shown(value)} bits; all curves fall."]
    for data in some.distinct("data"):
        middle = [_at(line, RECALL) for line in curves(some.of(data=data), value)]
        if middle:
            parts.append(f"On {data}, at a recall of {RECALL}, {_extremes(middle)}.")
    return _plain(" ".join(parts))


def _panel(data: str, lines: Sequence[Series]) -> str:
    known = [[Point(line.label, x, y) for x, y in zip(line.x, line.mean, strict=True) if y == y] for line in lines]
    if len(known) == 1:
        (line,) = known
        top = max(line, key=lambda point: point.y)
        return f"On {data}, {_way(line)}; it is highest, {_number(top.y)}, at {shown(top.x)}."
    is_scale = all(isinstance(point.x, int | float) for line in known for point in line)
    if not is_scale:
        every = [Point(f"{point.label} with {shown(point.x)}", *point[1:]) for line in known for point in line]
        return f"On {data}, {_extremes(every)}."
    last = max(line[-1].x for line in known)
    ways = {line[0].label: f" (from {_number(line[0].y)} at {shown(line[0].x)})" for line in known if len(line) > 1}
    ends = [line[-1] for line in known if line[-1].x == last]
    return f"On {data}, at {shown(last)}, {_extremes(ends, ways)}."


def _beside(lines: Sequence[Series]) -> str:
    """What is found without feedback, at the end."""
    ends = [f"{line.label} {_number(line.mean[-1])}" for line in lines]
    return f" Without feedback, {' and '.join(ends)}." if ends else ""


def _extremes(points: Sequence[Point], more: dict[str, str] | None = None) -> str:
    """Who is highest and who is lowest, and where they came from."""
    ends = [pick(points, key=lambda point: point.y) for pick in (max, min)]
    numbers = [_number(point.y) for point in ends]
    if numbers[0] == numbers[1]:
        return f"{' and '.join(point.label for point in points)} have {numbers[0]}"
    words = zip(ends, ("highest", "lowest"), numbers, strict=True)
    return ", ".join(f"{end.label} is {word} with {y}{(more or {}).get(end.label, '')}" for end, word, y in words)


def _way(line: Sequence[Point]) -> str:
    first, last = line[0], line[-1]
    return (
        f"{first.label} goes from {_number(first.y)} at {shown(first.x)} to {_number(last.y)} at {shown(last.x)}"
        if len(line) > 1
        else f"{first.label} has {_number(first.y)} at {shown(first.x)}"
    )


def _at(line: Series, x: float) -> Point:
    return Point(line.label, x, float(np.interp(x, line.x, line.mean)))


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= LARGE else f"{value:.3g}"


def _plain(text: str) -> str:
    """Without what ends the text of a picture in Markdown."""
    return text.translate(str.maketrans("[]", "()"))
