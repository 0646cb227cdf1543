"""Line charts as inline SVG. Colours, dashes and fonts are the page's business: a line has a class."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from markupsafe import Markup

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
    name = re.sub(r"\W+", "-", title.lower())
    parts = [
        f'<svg class="chart" viewBox="0 0 {width} {height}" role="img" aria-labelledby="{name}-t {name}-d">',
        f'<title id="{name}-t">{escape(title)}</title><desc id="{name}-d">{escape(description)}</desc>',
        *(_grid_line(x, y, tick) for tick in y.ticks),
        *(f'<text class="tick x" x="{x(t)}" y="{y.start + 20}">{_number(t)}</text>' for t in x.ticks),
        f'<text class="label" x="{x.start}" y="{TOP - 16}">{escape(y_label)}</text>',
        f'<text class="label x" x="{x.stop}" y="{height - 6}">{escape(x_label)}</text>',
        *(_draw(line, x, y, filled) for line in lines),
        *(_names_at_peaks if filled else _names_at_ends)(lines, x, y),
        "</svg>",
    ]
    return Markup("\n".join(parts))  # what came from outside is escaped above


def _grid_line(x: Axis, y: Axis, tick: float) -> str:
    at = y(tick)
    base = " base" if at == y.start else ""
    line = f'<line class="grid{base}" x1="{x.start}" y1="{at}" x2="{x.stop}" y2="{at}"/>'
    return line + f'<text class="tick y" x="{x.start - 8}" y="{at + 4}">{_number(tick)}</text>'


def _draw(line: Line, x: Axis, y: Axis, filled: bool) -> str:
    """The line, and at each point a spot to hover over that tells its value."""
    points = [(x(u), y(v)) for u, v in zip(line.x, line.y, strict=True)]
    path = "M" + "L".join(f"{px:g},{py:g}" for px, py in points)
    area = f"L{points[-1][0]},{y.start}L{points[0][0]},{y.start}Z"
    values = [f"{escape(line.name)}, {_number(u)}: {v:.4g}" for u, v in zip(line.x, line.y, strict=True)]
    spots = (
        f'<circle cx="{px:g}" cy="{py:g}" r="6"><title>{value}</title></circle>'
        for (px, py), value in zip(points, values, strict=True)
    )
    shape = f'<path class="area" d="{path}{area}"/>' if filled else ""
    return f'<g class="series {line.style}">{shape}<path class="line" d="{path}"/>{"".join(spots)}</g>'


def _names_at_ends(lines: Sequence[Line], x: Axis, y: Axis) -> list[str]:
    """Moved apart where they would overlap."""
    lines = sorted(lines, key=lambda line: -line.y[-1])
    places = [y(line.y[-1]) for line in lines]
    for i in range(1, len(places)):
        places[i] = max(places[i], places[i - 1] + LINE_HEIGHT)
    places[-1] = min(places[-1], y.start)
    for i in reversed(range(len(places) - 1)):
        places[i] = min(places[i], places[i + 1] - LINE_HEIGHT)
    return [_name(line, x.stop, at) for line, at in zip(lines, places, strict=True)]


def _names_at_peaks(lines: Sequence[Line], x: Axis, y: Axis) -> list[str]:
    peaks = [max(zip(line.y, line.x, strict=True)) for line in lines]
    return [_name(line, x(at), y(peak)) for line, (peak, at) in zip(lines, peaks, strict=True)]


def _name(line: Line, x: float, y: float) -> str:
    return f'<text class="name {line.style}" x="{x + 8:g}" y="{y + 4:g}">{escape(line.name)}</text>'


def _number(value: float) -> str:
    return f"{value:,.10g}"
