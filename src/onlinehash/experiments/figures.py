"""Pictures of results: a panel for each set, a line for each contestant. The same rows give the same bytes."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from onlinehash.experiments.panels import Sheet, as_bytes, draw_line, labels_of, load_matplotlib
from onlinehash.experiments.plan import Plan, contestant
from onlinehash.experiments.rows import Rows
from onlinehash.experiments.series import Series, curve_value, curves, rows_to_show, series, shown
from onlinehash.experiments.styles import Style, styles_in_order, styles_of, styles_of_references
from onlinehash.experiments.table_forms import range_of
from onlinehash.io import atomic
from onlinehash.learners import registry

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: The least span of an axis of precision: below it, noise would look like an effect.
LEAST_SPAN = 0.1
#: How much higher references may make an axis than the contestants alone, and the room beyond them, as a share of that.
MOST_GROWTH, EDGE = 1.8, 0.04
#: From the lowest to the highest value of a logarithmic axis: with less, powers of ten alone are too few ticks.
FEW_POWERS = 300
#: From here on, values are written out, with commas.
LARGE = 1e4


def draw(plan: Plan, rows: Rows, folder: str | os.PathLike[str], formats: Sequence[str] = ("png", "svg")) -> list[Path]:
    """Write the plan's figure; the paths of the files."""
    return _write(figure(plan, rows), Path(folder), plan.name, formats)


def draw_curves(
    plan: Plan, rows: Rows, folder: str | os.PathLike[str], formats: Sequence[str] = ("png", "svg")
) -> list[Path]:
    """Write precision-recall curves, where the plan compares contestants by retrieval; else nothing."""
    picture = curve_figure(plan, rows)
    return [] if picture is None else _write(picture, Path(folder), curve_name(plan), formats)


def draw_all(
    plan: Plan, rows: Rows, folder: str | os.PathLike[str], formats: Sequence[str] = ("png", "svg")
) -> list[Path]:
    """Both."""
    return draw(plan, rows, folder, formats) + draw_curves(plan, rows, folder, formats)


def figure(plan: Plan, rows: Rows) -> Figure:
    """The figure of a plan."""
    some, references = _parted(rows_to_show(plan, rows))
    panels = {data: series(plan, some.of(data=data)) for data in some.distinct("data")}
    beside = {data: series(plan, references.of(data=data)) for data in panels}
    styles = (styles_in_order if plan.drawing.lines_by_value else styles_of)(labels_of(panels))
    styles |= styles_of_references(labels_of(beside))
    picture = Sheet(plan.title, plan.drawing.x_label, plan.drawing.y_label, panels, styles)
    for data, axes in picture.axes.items():
        places = _places(plan, axes)
        for line in panels[data]:
            draw_line(axes, line, [places(x) for x in line.x], styles[line.label])
        if plan.drawing.x == "values":
            _mark_default(plan, some.of(data=data), axes, places)
        _end_axes(plan, axes)
        _draw_beside(axes, beside[data], places, styles)
    picture.add_legend(some.seeds_of_places(), labels_of(beside))
    return picture.figure


def _parted(rows: Rows) -> tuple[Rows, Rows]:
    """Contestants and references."""
    return rows.of(is_reference=False), rows.of(is_reference=True)


def _draw_beside(axes: Axes, lines: Sequence[Series], places: Any, styles: dict[str, Style]) -> None:
    """References. The axis grows to hold them, unless that would squeeze the contestants: then words at its edge tell
    where they are."""
    low, high = axes.get_ylim()
    most, edges = MOST_GROWTH * (high - low), {"↑": 0, "↓": 0}
    room = EDGE * (high - low)
    for line in sorted(lines, key=lambda line: max(np.nanmax(line.mean) - high, low - np.nanmin(line.mean))):
        least, largest = float(np.nanmin(line.mean)), float(np.nanmax(line.mean))
        lower, higher = min(low, max(0.0, least - room)), max(high, largest + room)
        if higher - lower <= most:
            low, high = lower, higher
        elif least > high or largest < low:
            arrow = "↑" if least > high else "↓"
            words = f"{arrow} {line.label} {range_of([least, largest], '{:.2f}')}"
            _write_at_edge(axes, words, arrow == "↑", edges[arrow])
            edges[arrow] += 1
            continue
        draw_line(axes, line, [places(x) for x in line.x], styles[line.label])
    axes.set_ylim(low, high)


def _write_at_edge(axes: Axes, words: str, at_top: bool, n_before: int) -> None:
    """On the right, in lines from the edge inwards."""
    inwards = -1 if at_top else 1
    axes.annotate(
        words,
        (1, 1 if at_top else 0),
        xycoords="axes fraction",
        xytext=(-3, inwards * (3 + 11 * n_before)),
        textcoords="offset points",
        ha="right",
        va="top" if at_top else "bottom",
        fontsize=8.5,
        color="#444444",
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.5},
        zorder=5,
    )


def curve_panels(plan: Plan, rows: Rows) -> dict[str, list[Series]]:
    """The curves of each set, at 64 bits or the middle value; empty where the plan has none to compare."""
    if plan.vary != "bits" or plan.drawing.y != "map" or len(rows.of(is_reference=False).distinct("line")) < 2:
        return {}
    panels = {data: curves(rows.of(data=data), curve_value(plan)) for data in rows.distinct("data")}
    return panels if any(panels.values()) else {}


def curve_figure(plan: Plan, rows: Rows) -> Figure | None:
    """Precision against recall."""
    some = rows_to_show(plan, rows)
    panels = curve_panels(plan, some)
    if not panels:
        return None
    contestants, references = _parted(some)
    styles = styles_of(contestants.distinct("line")) | styles_of_references(references.distinct("line"))
    styles = {label: styles[label] for label in labels_of(panels)}
    title = f"{plan.title}: precision and recall at {shown(curve_value(plan))} bits"
    picture = Sheet(title, "recall (share of the relevant)", "precision (share relevant)", panels, styles)
    for data, axes in picture.axes.items():
        for line in panels[data]:
            draw_line(axes, line, line.x, styles[line.label])
        axes.set_ylim(bottom=0)
    picture.add_legend(contestants.seeds_of_places(), references.distinct("line"))
    return picture.figure


def curve_name(plan: Plan) -> str:
    """Of the file of these curves, without its ending."""
    return f"{plan.name}-precision-recall"


# ------------------------------------------------------------------ scales


def _places(plan: Plan, axes: Axes) -> Any:
    """Where a varied value, or a number of pairs, lies on the x axis, which gets its scale and ticks."""
    ticker = load_matplotlib().ticker
    if plan.drawing.log_y:
        axes.set_yscale("log")
    if plan.drawing.x == "pairs":
        if plan.drawing.log_x and 0 in plan.conditions.get("looks", ()):
            _show_zero(plan, axes)
        elif plan.drawing.log_x:
            axes.set_xscale("log")
        else:
            axes.xaxis.set_major_locator(ticker.MaxNLocator(4, integer=True))
            axes.xaxis.set_major_formatter(ticker.StrMethodFormatter("{x:,.0f}"))
        return float
    numeric = all(isinstance(value, int | float) for value in plan.values)
    if not numeric or len(plan.values) == 1:
        places = {value: float(k) for k, value in enumerate(plan.values)}
        axes.set_xlim(-0.4, len(places) - 0.6)
        axes.set_xticks(list(places.values()), [shown(value) for value in plan.values])
        return places.__getitem__
    if plan.drawing.log_x or plan.vary == "bits":  # short codes lie too close together otherwise
        axes.set_xscale("log")
    axes.set_xticks(plan.values, [_tick(value) for value in plan.values])
    axes.xaxis.set_minor_locator(ticker.NullLocator())
    return float


def _show_zero(plan: Plan, axes: Axes) -> None:
    """A logarithmic axis from the first look on, and zero one step before it."""
    looks = plan.conditions["looks"]
    axes.set_xscale("symlog", linthresh=looks[1], linscale=0.5)
    powers = [look for look in looks if not look or math.log10(look).is_integer()]
    axes.set_xticks(powers, [shown(look) for look in powers])
    axes.xaxis.set_minor_locator(load_matplotlib().ticker.NullLocator())


def _tick(value: Any) -> str:
    """Powers of ten that would be long are written as such."""
    if value and (value < 0.001 or value >= 100_000):
        return f"$10^{{{round(math.log10(value))}}}$"
    return shown(value)


def _mark_default(plan: Plan, rows: Rows, axes: Axes, places: Any) -> None:
    """A thin line at the value that all other plans use, if it is among those that are varied here."""
    default = _default(plan, rows)
    if default in plan.values and len(plan.values) > 1:
        axes.axvline(places(default), color="#9a9a9a", linewidth=0.9, linestyle=(0, (1, 2)), zorder=1)
        axes.annotate(
            "default",
            (places(default), 0),
            xycoords=("data", "axes fraction"),
            xytext=(3, 3),
            textcoords="offset points",
            fontsize=8.5,
            color="#6a6a6a",
        )


def _default(plan: Plan, rows: Rows) -> Any:
    room, _, name = plan.vary.rpartition(".")
    who = contestant(rows[0].line)
    if plan.vary == "features.n_anchors":
        return who.kernel
    if room or plan.vary == "bits":
        return None
    usual = registry.find(who.method)().get_params(deep=False)
    return rows[0].cell.set.role.parameters.get(name, usual.get(name))


def _end_axes(plan: Plan, axes: Axes) -> None:
    """What depends on the lines that were drawn: where axes begin and end, and their ticks."""
    low, high = axes.get_ylim()
    if plan.drawing.y in ("map", "precision@10"):
        missing = max(0.0, LEAST_SPAN - (high - low)) / 2
        axes.set_ylim(max(0.0, low - missing), high + missing)
    elif not plan.drawing.log_y:
        axes.set_ylim(bottom=min(0.0, low))
    elif high / low < FEW_POWERS:
        ticker = load_matplotlib().ticker
        axes.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(ticker.StrMethodFormatter("{x:,g}"))
        axes.yaxis.set_minor_formatter(ticker.NullFormatter())
    if not plan.drawing.log_y and high >= LARGE:
        axes.yaxis.set_major_formatter(load_matplotlib().ticker.StrMethodFormatter("{x:,.0f}"))
    if plan.drawing.x == "pairs" and not plan.drawing.log_x:
        axes.set_xlim(left=0)


def _write(picture: Figure, folder: Path, name: str, formats: Sequence[str]) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name}.{format}" for format in formats]
    for path, format in zip(paths, formats, strict=True):
        with atomic.replacing(path) as file:
            file.write(as_bytes(picture, format))
    return paths
