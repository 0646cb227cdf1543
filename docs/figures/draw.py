"""Pictures of the site that need no benchmark: `make figures` draws them all. Numbers come from the tables of the docs.

Pictures of measurements are drawn where they are measured: benchmarks/plot.py and `onlinehash experiment report`.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from contextlib import chdir
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch

HERE = Path(__file__).parent
DOCS = HERE.parent
OURS, SECOND, PEER, QUIET, DARK = "#1f6f8b", "#7fb7be", "#d98e5f", "#8a8a8a", "#333333"
STYLE = {
    "svg.hashsalt": "onlinehash",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
}


def main() -> None:
    os.environ["SOURCE_DATE_EPOCH"] = "0"  # the same picture has the same bytes
    matplotlib.rcParams |= STYLE
    for draw in (front, feedback, pair_moves_bit, which_learner, speed):
        figure = draw()
        path = HERE / f"{draw.__name__.replace('_', '-')}.svg"
        figure.savefig(path)
        plt.close(figure)
        print(path.relative_to(DOCS.parent))
    for name in ("drift", "text-search"):
        from_tutorial(name)


def from_tutorial(name: str) -> None:
    """Run a tutorial in a folder of its own, and keep the picture that it draws."""
    blocks = re.findall(r"^```python\n(.*?)^```", (DOCS / "tutorials" / f"{name}.md").read_text(), re.M | re.S)
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        exec("\n".join(blocks), {})
        shutil.copy(f"{name}.svg", HERE)
    print((HERE / f"{name}.svg").relative_to(DOCS.parent))


def table_after(page: Path, heading: str) -> list[list[str]]:
    """The rows of the first table below a heading of a page, its first line included."""
    text = page.read_text().split(f"\n{heading}\n", 1)[1]
    lines = re.search(r"(?:^\|.*\n)+", text, flags=re.MULTILINE)[0].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in rows if not set("".join(row)) <= set("-: ")]


def number(cell: str) -> float:
    """The first number of a cell: 0.67 of "**0.670 ± 0.000**"."""
    return float(re.search(r"[\d.]+", cell.replace(",", ""))[0])


def front() -> plt.Figure:
    """Precision of the first ten results against marks, from the table of the page on find."""
    head, *rows = table_after(DOCS / "explanation" / "find.md", "## What it finds")
    marks = [number(cell) for cell in head[3:]]  # after the set, the row's name and bytes an item
    sets = ("CIFAR-10", "20 Newsgroups", "MNIST", "Photo Tourism")
    figure, axes = plt.subplots(1, 4, figsize=(11.5, 2.6), layout="constrained")
    for axis, name in zip(axes, sets, strict=True):
        lines = {row[1]: [number(cell) for cell in row[3:]] for row in rows if row[0] == name and row[1] != "adapter"}
        places = np.arange(len(marks))
        axis.plot(places, lines["find"], color=OURS, linewidth=2.5, marker="o", markersize=4, label="onlinehash: find")
        axis.plot(places, lines["float"], color=PEER, linewidth=2, label="exact search in floats")
        quiet = {"color": QUIET, "linewidth": 2, "linestyle": (0, (4, 2))}
        axis.plot(places, [lines["codes"][0]] * len(marks), **quiet, label="codes without feedback")
        axis.set_title(name)
        axis.set_xticks(places, [f"{m:,.0f}" for m in marks], rotation=45)
        axis.grid(axis="y", color="#e6e6e6")
        axis.set_xlabel("marks")
    axes[0].set_ylabel("right among the first ten")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return figure


def feedback() -> plt.Figure:
    """Mean average precision of learned codes against marks of five kinds, from the tables of every method."""
    kinds = {
        "random": ("random pairs", OURS, "-"),
        "uniform": ("random pairs as they come", DARK, "-"),
        "noise": ("random pairs, one in ten wrong", OURS, ":"),
        "shown": ("marks on shown results", SECOND, "-"),
        "clicks": ("clicks", SECOND, ":"),
    }
    sets = {"cifar10": "CIFAR-10", "news20": "20 Newsgroups", "mnist": "MNIST", "photo": "Photo Tourism"}
    figure, axes = plt.subplots(1, 4, figsize=(11.5, 4), layout="constrained")
    for kind, (label, colour, style) in kinds.items():
        head, *rows = table_after(DOCS / "explanation" / "feedback" / f"{kind}.md", "## mAP")
        places = np.arange(len(head) - 2)
        for axis, (begin, title) in zip(axes, sets.items(), strict=True):
            lines = {row[1]: [number(cell) for cell in row[2:]] for row in rows if row[0].startswith(begin)}
            axis.plot(places, lines["Blended"], color=colour, linestyle=style, linewidth=2.2, label=label)
            axis.set_title(title)
            axis.set_xticks(places, [cell.removesuffix(" marks") for cell in head[2:]], rotation=60)
            if kind == "clicks":
                axis.axhline(lines["Float"][0], color=PEER, linewidth=1.6, label="floats")
                axis.axhline(
                    lines["ITQ"][0], color=QUIET, linewidth=1.6, linestyle="--", label="codes without feedback"
                )
                axis.set(xlabel="marks", ylim=(0.25, 0.9))
                axis.grid(axis="y", color="#e6e6e6")
    axes[0].set_ylabel("mean average precision")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=4)
    return figure


def pair_moves_bit() -> plt.Figure:
    """A similar pair on two sides of a hyperplane, before and after its step, by the rule of OnlineHashing."""
    a, b = np.array([1.3, 0.35]), np.array([1.05, -0.55])
    w = np.array([-0.1, 1.0])
    # a has bit 1, b has bit 0; b is flipped, if it is the nearer of the two, by the smallest step that suffices
    near, sign = min((a, 1.0), (b, -1.0), key=lambda point: abs(w @ point[0]))
    step = (abs(w @ near) + 0.5) / (near @ near)
    moved = w - step * sign * near
    figure, axes = plt.subplots(1, 2, figsize=(8, 3.4), layout="constrained", sharex=True, sharey=True)
    titles = ("before: the codes of a similar pair differ in this bit", "after: both have the same bit")
    for axis, v, title in zip(axes, (w, moved), titles, strict=True):
        hyperplane(axis, v)
        for point, name in ((a, "a"), (b, "b")):
            bit = int(v @ point >= 0)
            axis.plot(*point, "o", color=OURS if bit else PEER, markersize=9)
            axis.annotate(f"{name}: bit {bit}", point, (9, 0), textcoords="offset points", va="center")
        axis.set_title(title, fontsize=10)
    hyperplane(axes[1], w, ghost=True)
    return figure


def hyperplane(axis: Axes, w: np.ndarray, ghost: bool = False) -> None:
    """The line wᵀx = 0 through the origin, with its two sides."""
    along = np.array([w[1], -w[0]]) / np.linalg.norm(w)
    ends = np.array([-3 * along, 3 * along])
    if ghost:
        axis.plot(*ends.T, color=QUIET, linewidth=1, linestyle=":")
        return
    axis.plot(*ends.T, color=DARK, linewidth=1.8)
    up = w / np.linalg.norm(w)
    for side, colour in ((1, OURS), (-1, PEER)):
        corners = [ends[0], ends[1], ends[1] + 4 * side * up, ends[0] + 4 * side * up]
        axis.add_patch(plt.Polygon(corners, color=colour, alpha=0.08, linewidth=0))
    axis.set(xlim=(-0.6, 2.2), ylim=(-1.2, 1.2), xticks=[], yticks=[], aspect="equal")
    axis.spines[:].set_visible(False)
    axis.plot(0, 0, "+", color=DARK)


def which_learner() -> plt.Figure:
    """Questions from the top; an answer to the right of each."""
    steps = (
        ("a label for every item?", "HadamardMatchingHashing"),
        ("marks or clicks on pairs?", "BlendedPairHashing\n(the default)"),
        ("will the data drift?", "OnlineSketchingHashing"),
        ("all vectors at hand?", "IterativeQuantization"),
    )
    figure, axis = plt.subplots(figsize=(7.2, 4.6), layout="constrained")
    axis.set(xlim=(0, 10), ylim=(-0.9, 4.6))
    axis.axis("off")
    for place, (question, answer) in enumerate(steps):
        y = 4 - place
        box(axis, 2.6, y, 4.4, question, "#eef3f5", OURS)
        box(axis, 7.9, y, 3.8, answer, OURS if place == 1 else SECOND, OURS)
        arrow(axis, (4.8, y), (6.0, y), "yes", above=True)
        arrow(axis, (2.6, y - 0.3), (2.6, y - 0.7), "no")
    box(axis, 2.6, 0, 4.4, "LSH: random, never changes", SECOND, OURS)
    note = "pairs that must change the codes one by one: MinimalLossHashing; to study the paper: OnlineHashing"
    axis.text(5, -0.7, note, ha="center", fontsize=9, color="#555555")
    return figure


def box(axis: Axes, x: float, y: float, width: float, text: str, fill: str, edge: str) -> None:
    shape = FancyBboxPatch((x - width / 2, y - 0.27), width, 0.54, boxstyle="round,pad=0.03", fc=fill, ec=edge)
    axis.add_patch(shape)
    axis.text(x, y, text, ha="center", va="center", color="white" if fill == OURS else "#1a1a1a")


def arrow(axis: Axes, start: tuple[float, float], end: tuple[float, float], text: str, above: bool = False) -> None:
    axis.annotate("", end, start, arrowprops={"arrowstyle": "->", "color": "#555555"})
    x, y = (start[0] + end[0]) / 2, (start[1] + end[1]) / 2
    axis.text(x + (0 if above else 0.15), y + (0.12 if above else 0), text, fontsize=9, va="center", color="#555555")


def speed() -> plt.Figure:
    """Times faster than FAISS by the length of codes, from the table of the page on performance."""
    head, *rows = table_after(DOCS / "explanation" / "performance" / "search.md", "## Scanning all codes")
    single, batch = (k for k, cell in enumerate(head) if cell == "padded")
    rows = [row for row in rows if int(row[0]) >= 24]
    figure, axis = plt.subplots(figsize=(7.2, 3.2), layout="constrained")
    places = np.arange(len(rows))
    for shift, column, label, colour in ((-0.2, single, "one query", SECOND), (0.2, batch, "100 queries", OURS)):
        bars = axis.bar(places + shift, [number(row[column]) for row in rows], 0.38, color=colour, label=label)
        axis.bar_label(bars, fmt="%.1f", fontsize=8)
    axis.axhline(1, color=PEER, linewidth=2, label="FAISS")
    axis.set_xticks(places, [f"{row[0]} bits" for row in rows])
    axis.set_ylabel("times as fast as FAISS")
    axis.legend()
    return figure


if __name__ == "__main__":
    main()
