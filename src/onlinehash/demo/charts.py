"""Line charts as inline SVG: here is where everything goes, in `chart.svg` what is drawn there.

Colours, dashes and fonts are up to the page: a line has a class.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from onlinehash.templates import rendered

#: Room around the plot for ticks and labels, in pixels; and what a name in it takes.
TOP, RIGHT, BOTTOM, LEFT = 34, 16, 44, 52
LETTER_WIDTH, LINE_HEIGHT = 7.2, 17


@dataclass(frozen=True)
class Line:
    """A named line; `style` is its class on the page."""

    name: str
    style: str
    x: Sequence[float]
    y: Sequence[float]

    @property
    def points(self) -> list[tuple[float, float]]:
        return list(zip(self.x, self.y, strict=True))

    def path(self, x: Axis, y: Axis) -> str:
        """What an SVG path takes to draw it."""
        return "M" + "L".join(f"{x(u)},{y(v)}" for u, v in self.points)


@dataclass(frozen=True)
class Axis:
    """Values from `low` to `high` on the pixels from `start` to `stop`, with round ticks."""

    low: float
    high: float
    start: float
    stop: float
    ticks: list[float]

    @classmethod
    def over(cls, values: Sequence[float], start: float, stop: float, enclose: bool) -> Axis:
        """Five ticks or so; the axis ends at the values themselves, or at ticks that enclose them."""
        low = min(values)
        high = max(values) if max(values) > low else low + 1
        rough = (high - low) / 5
        power = 10 ** math.floor(math.log10(rough))
        step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough * 0.999)
        down, up = (math.floor, math.ceil) if enclose else (math.ceil, math.floor)
        first, last = down(round(low / step, 6)), up(round(high / step, 6))
        ticks = [round(i * step, 10) for i in range(first, last + 1)]
        if enclose:
            low, high = ticks[0], ticks[-1]
        return cls(low, high, start, stop, ticks)

    def __call__(self, value: float) -> float:
        return round(self.start + (value - self.low) / (self.high - self.low) * (self.stop - self.start), 1)


#: A line, and where its name stands.
Place = tuple[Line, tuple[float, float]]


def line_chart(
    lines: Sequence[Line],
    *,
    title: str,
    description: str,
    x_label: str,
    y_label: str,
    y_values: Sequence[float] = (),
    size: tuple[int, int] = (760, 360),
    filled: bool = False,
) -> Markup:
    """An SVG element with axes; lines are named at their ends, filled ones at their peaks.

    `y_values` need to fit on the axis too.
    """
    width, height = size
    names = 0 if filled else LETTER_WIDTH * max(len(line.name) for line in lines)
    x = Axis.over([v for line in lines for v in line.x], LEFT, width - RIGHT - names, enclose=False)
    y = Axis.over([v for line in lines for v in line.y] + list(y_values), height - BOTTOM, TOP, enclose=True)
    return Markup(
        rendered(
            "onlinehash.demo",
            "chart.svg",
            filters={"number": _number},
            label=re.sub(r"\W+", "-", title.lower()),
            title=title,
            description=description,
            width=width,
            height=height,
            x=x,
            y=y,
            x_label=x_label,
            y_label=y_label,
            lines=lines,
            filled=filled,
            places=(_at_peaks if filled else _at_ends)(lines, x, y),
        )
    )


def _at_ends(lines: Sequence[Line], x: Axis, y: Axis) -> list[Place]:
    """Where lines end, moved apart where names would overlap."""
    lines = sorted(lines, key=lambda line: -line.y[-1])
    heights = [y(line.y[-1]) for line in lines]
    for i in range(1, len(heights)):
        heights[i] = max(heights[i], heights[i - 1] + LINE_HEIGHT)
    heights[-1] = min(heights[-1], y.start)
    for i in reversed(range(len(heights) - 1)):
        heights[i] = min(heights[i], heights[i + 1] - LINE_HEIGHT)
    return [(line, (x.stop, height)) for line, height in zip(lines, heights, strict=True)]


def _at_peaks(lines: Sequence[Line], x: Axis, y: Axis) -> list[Place]:
    peaks = [max((v, u) for u, v in line.points) for line in lines]
    return [(line, (x(u), y(v))) for line, (v, u) in zip(lines, peaks, strict=True)]


def _number(value: float) -> str:
    return f"{value:,.10g}"
