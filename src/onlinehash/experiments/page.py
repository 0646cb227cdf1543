"""All figures, once drawn, on one page that needs nothing else: with their questions, tables, and the claims."""

from __future__ import annotations

import os
import re
from base64 import b64encode
from collections import Counter
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple, Protocol

from markupsafe import Markup

from onlinehash import __version__
from onlinehash.experiments.descriptions import described, described_curves
from onlinehash.experiments.figures import curve_name, curve_panels
from onlinehash.experiments.plan import Plan
from onlinehash.experiments.rows import Rows
from onlinehash.experiments.sources import EVERYBODYS
from onlinehash.experiments.table_forms import Table
from onlinehash.experiments.tables import table
from onlinehash.io import atomic
from onlinehash.templates import rendered

#: Beside the words, so that colour is never all that tells them apart.
SIGNS = {"confirmed": "✓", "confirmed in part": "◐", "not confirmed": "✗", "not tested": "–"}
#: Figures of more inches than this scroll on a phone instead of shrinking.
NARROW = 6.0
POINTS_PER_INCH = 72


class Claim(Protocol):
    """What the page shows of a claim of the paper."""

    @property
    def text(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def measured(self) -> str: ...
    @property
    def verdict(self) -> str: ...


def write_page(
    path: str | os.PathLike[str], plans_and_rows: Sequence[tuple[Plan, Rows]], claims: Sequence[Claim]
) -> None:
    """Write the page as one HTML file, next to the SVG files of the figures, which it embeds."""
    text = page(plans_and_rows, claims, Path(path).parent)
    with atomic.replacing(path) as file:
        file.write(text.encode())


def page(plans_and_rows: Sequence[tuple[Plan, Rows]], claims: Sequence[Claim], folder: Path) -> str:
    """The same, as text, with the SVG files of a folder."""
    counts = Counter(claim.verdict for claim in claims)
    return rendered(
        "onlinehash.experiments",
        "page.html",
        filters={"words": _words},
        version=__version__,
        n_runs=f"{len({row.cell.setting.name for _, rows in plans_and_rows for row in rows}):,}",
        sets=", ".join(dict.fromkeys(row.data for _, rows in plans_and_rows for row in rows)),
        is_quick=any(plan.is_quick for plan, _ in plans_and_rows),
        claims=claims,
        signs=SIGNS,
        summary=", ".join(f"{counts[verdict]} {verdict}" for verdict in SIGNS if counts[verdict]),
        figures=[_figure(plan, rows, folder) for plan, rows in plans_and_rows],
    )


def _words(text: str) -> Markup:
    """Text as HTML, with `commands` as code and line breaks kept."""
    return Markup(re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(text)).replace("\n", "<br>"))


# ------------------------------------------------------------------ figures


class Picture(NamedTuple):
    """An SVG file inside the page, its description, and whether it is "narrow" or "wide"."""

    uri: str
    text: str
    kind: str


class Figure(NamedTuple):
    """A plan on the page: its picture, curves of precision and recall, its table, and how to make all of it."""

    plan: Plan
    picture: Picture
    curves: Picture | None
    table: Table
    commands: str


def _figure(plan: Plan, rows: Rows, folder: Path) -> Figure:
    curves = None
    if curve_panels(plan, rows):
        curves = _picture(folder / f"{curve_name(plan)}.svg", described_curves(plan, rows))
    picture = _picture(folder / f"{plan.name}.svg", described(plan, rows))
    return Figure(plan, picture, curves, table(plan, rows), _commands(plan, rows))


def _picture(path: Path, text: str) -> Picture:
    svg = path.read_bytes()
    width = re.search(rb'<svg [^>]*\bwidth="([0-9.]+)pt"', svg)
    is_narrow = width is not None and float(width[1]) < NARROW * POINTS_PER_INCH
    return Picture(f"data:image/svg+xml;base64,{b64encode(svg).decode()}", text, "narrow" if is_narrow else "wide")


def _commands(plan: Plan, rows: Rows) -> str:
    """The commands that run and draw a plan on the same sets."""
    sources = dict.fromkeys(f"{row.role}={_file(row.cell.set.path)}" for row in rows)
    data = "".join(f" --data {source}" for source in sources)
    quick = " --quick" if plan.is_quick else ""
    return f"onlinehash experiment run {plan.name}{quick}{data}\nonlinehash experiment figure {plan.name}"


def _file(path: str) -> str:
    """The file's name without its folder. Kept results know only the name of a set, not that of its file."""
    name = Path(path).name
    is_told = Path(path).suffix or name in {source.partition("=")[2] for source in EVERYBODYS}
    return name if is_told else f"FILE_OF_{name}"
