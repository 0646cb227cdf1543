"""All figures, once drawn, on one page that needs nothing else: with their questions, tables, and the claims."""

from __future__ import annotations

import os
import re
from base64 import b64encode
from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Protocol

from onlinehash import __version__
from onlinehash.experiments.figures import curve_name, curve_panels
from onlinehash.experiments.plan import Plan
from onlinehash.experiments.rows import Rows
from onlinehash.experiments.sources import EVERYBODYS
from onlinehash.experiments.table_forms import Entry, Table
from onlinehash.experiments.tables import table
from onlinehash.io import atomic

#: Beside the words, so that colour is never all that tells them apart.
SIGNS = {"confirmed": "✓", "confirmed in part": "◐", "not confirmed": "✗", "not tested": "–"}
#: Figures of more inches than this scroll on a phone instead of shrinking.
NARROW = 6.0
POINTS_PER_INCH = 72
BANNER = '<p class="banner">Quick results on small data: for a first look, not for conclusions.</p>'


class Claim(Protocol):
    """What the page tells of a claim of the paper."""

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
    """The page as one HTML file, in the folder of the figures' SVG files, which it takes up."""
    text = page(plans_and_rows, claims, Path(path).parent)
    with atomic.replacing(path) as file:
        file.write(text.encode())


def page(plans_and_rows: Sequence[tuple[Plan, Rows]], claims: Sequence[Claim], folder: Path) -> str:
    """The same, as text, with the SVG files of a folder."""
    template = Template(files("onlinehash.experiments").joinpath("page.html").read_text(encoding="utf-8"))
    sets = dict.fromkeys(row.data for _, rows in plans_and_rows for row in rows)
    links = (f'<li><a href="#{escape(plan.name)}">{escape(plan.title)}</a></li>' for plan, _ in plans_and_rows)
    runs = {row.cell.setting.name for _, rows in plans_and_rows for row in rows}
    return template.substitute(
        look=files("onlinehash").joinpath("look.css").read_text(encoding="utf-8"),
        version=__version__,
        n_runs=f"{len(runs):,}",
        n_figures=len(plans_and_rows),
        sets=escape(", ".join(sets)),
        banner=BANNER if any(plan.is_quick for plan, _ in plans_and_rows) else "",
        claims=_claims(claims) if claims else "",
        links="\n".join(links),
        figures="\n\n".join(_section(plan, rows, folder) for plan, rows in plans_and_rows),
    )


# ------------------------------------------------------------------ claims


def _claims(claims: Sequence[Claim]) -> str:
    counts = Counter(claim.verdict for claim in claims)
    summary = ", ".join(f"{counts[verdict]} {verdict}" for verdict in SIGNS if counts[verdict])
    lines = "\n".join(_claim(claim) for claim in claims)
    head = _cells(("claim", "where", "measured", "verdict"), "th", ' scope="col"')
    return (
        '<section class="claims-section">\n<h2>What the paper says, and what we found</h2>\n'
        f"<p>{len(claims)} claims, in our words: {summary}.</p>\n"
        f'<table class="claims"><thead><tr>{head}</tr></thead><tbody>\n{lines}\n</tbody></table>\n</section>'
    )


def _claim(claim: Claim) -> str:
    told = _cells([_words(text) for text in (claim.text, claim.source, claim.measured)], "td")
    verdict = f"{SIGNS.get(claim.verdict, '')} {escape(claim.verdict)}"
    return f'<tr>{told}<td class="{escape(claim.verdict.replace(" ", "-"))}">{verdict}</td></tr>'


def _words(text: str) -> str:
    """With `commands` and lines as such."""
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(text)).replace("\n", "<br>")


# ------------------------------------------------------------------ figures


def _section(plan: Plan, rows: Rows, folder: Path) -> str:
    """Question, picture, curves, table and command of a plan."""
    name, title = escape(plan.name), escape(plan.title)
    parts = [
        f'<section id="{name}">',
        f"<h2>{title}</h2>",
        f'<p>{escape(plan.question)} <span class="note">(Source: {escape(plan.source)}.)</span></p>',
        _picture(folder / f"{plan.name}.svg", _description(plan, rows)),
    ]
    if curve_panels(plan, rows):
        text = f"{plan.title}: precision against recall of the same contestants."
        parts.append(_details("Precision and recall", _picture(folder / f"{curve_name(plan)}.svg", text)))
    parts.append(_details("Numbers", _numbers(table(plan, rows))))
    parts.append(_details("Make it yourself", f"<pre><code>{escape(_commands(plan, rows))}</code></pre>"))
    return "\n".join([*parts, "</section>"])


def _description(plan: Plan, rows: Rows) -> str:
    """For those who do not see the picture."""
    lines, sets = rows.distinct("line"), rows.distinct("data")
    drawing = plan.drawing
    return (
        f"{plan.title}. Line chart of {drawing.y_label} against {drawing.x_label}, for {', '.join(lines)}; "
        f"a panel for each of: {', '.join(sets)}. The table below has the numbers."
    )


def _picture(path: Path, text: str) -> str:
    svg = path.read_bytes()
    width = re.search(rb'<svg [^>]*\bwidth="([0-9.]+)pt"', svg)
    kind = "narrow" if width and float(width[1]) < NARROW * POINTS_PER_INCH else "wide"
    uri = f"data:image/svg+xml;base64,{b64encode(svg).decode()}"
    return f'<figure><img class="plot {kind}" src="{uri}" alt="{escape(text)}"></figure>'


def _numbers(numbers: Table) -> str:
    head = _cells([escape(heading) for heading in numbers.headings], "th", ' scope="col"')
    body = "\n".join(f"<tr>{_cells([_entry(entry) for entry in line], 'td')}</tr>" for line in numbers.lines)
    notes = "".join(f'<p class="note">{escape(note)}</p>' for note in numbers.notes)
    return (
        f'<div class="scroll"><table class="numbers"><thead><tr>{head}</tr></thead><tbody>\n{body}\n'
        f"</tbody></table></div>{notes}"
    )


def _entry(entry: Entry) -> str:
    text = escape(entry.text)
    return (f"<b>{text}</b>" if entry.best else text) + (f" {escape(entry.mark)}" if entry.mark else "")


def _commands(plan: Plan, rows: Rows) -> str:
    """With the sets by their roles."""
    sources = dict.fromkeys(f"{row.role}={_file(row.cell.set.path)}" for row in rows)
    data = "".join(f" --data {source}" for source in sources)
    quick = " --quick" if plan.is_quick else ""
    return f"onlinehash experiment run {plan.name}{quick}{data}\nonlinehash experiment figure {plan.name}"


def _file(path: str) -> str:
    """Its name, wherever it lies; kept results know the name of a set only, not that of its file."""
    name = Path(path).name
    is_told = Path(path).suffix or name in {source.partition("=")[2] for source in EVERYBODYS}
    return name if is_told else f"FILE_OF_{name}"


def _details(summary: str, content: str) -> str:
    return f"<details><summary>{summary}</summary>{content}</details>"


def _cells(texts: Iterable[str], tag: str, attributes: str = "") -> str:
    return "".join(f"<{tag}{attributes}>{text}</{tag}>" for text in texts)
