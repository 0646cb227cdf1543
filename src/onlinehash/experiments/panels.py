"""A sheet of panels: titles, labels, lines with their spread, one legend below; and its bytes."""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from onlinehash.errors import MissingExtra
from onlinehash.experiments.series import Series
from onlinehash.experiments.styles import STRONG, Style
from onlinehash.experiments.table_forms import range_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANEL_WIDTH, PANEL_HEIGHT = 3.4, 2.7
#: Room for titles, labels and a line of the legend, in inches.
EDGES, LEGEND_LINE = 1.35, 0.21
#: What an entry of the legend takes: its piece of a line with the gaps around it, and each letter.
HANDLE_WIDTH, LETTER_WIDTH = 0.8, 0.088
LABEL_LETTERS = 44
#: With more points than this in a line, its spread is a band instead of bars.
MOST_BARS = 12
LOOK = {
    "font.family": "DejaVu Sans",
    "font.size": 9.5,
    "axes.titlesize": 10,
    "axes.labelsize": 10,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "legend.fontsize": 9.5,
    "legend.title_fontsize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e3e3e3",
    "grid.linewidth": 0.6,
    "svg.fonttype": "none",
    "svg.hashsalt": "onlinehash",
    "savefig.dpi": 150,
}


class Sheet:
    """Empty panels, with titles and labels; the legend comes last."""

    def __init__(
        self, title: str, x_label: str, y_label: str, panels: dict[str, list[Series]], styles: dict[str, Style]
    ) -> None:
        matplotlib = load_matplotlib()
        n_columns = {1: 1, 2: 2, 4: 2}.get(len(panels), 3)
        n_rows = math.ceil(len(panels) / n_columns)
        width = max(5.2, n_columns * PANEL_WIDTH)
        self.styles = styles
        widest = HANDLE_WIDTH + LETTER_WIDTH * max(map(len, styles), default=1)
        legend_lines = math.ceil(len(styles) / max(1, int(width / widest)))
        self.legend_columns = math.ceil(len(styles) / legend_lines)
        height = n_rows * PANEL_HEIGHT + EDGES + (legend_lines + 1) * LEGEND_LINE
        with matplotlib.rc_context(LOOK):
            self.figure: Figure = matplotlib.figure.Figure((width, height), layout="constrained")
            self.figure.get_layout_engine().set(h_pad=0.08, w_pad=0.06)
            grid = self.figure.subplots(n_rows, n_columns, squeeze=False).ravel()
            self.axes: dict[str, Axes] = dict(zip(panels, grid, strict=False))
            for axes in grid[len(panels) :]:
                axes.set_axis_off()
            for data, axes in self.axes.items():
                axes.set_title(data.replace(" (", "\n(") if len(data) > 32 else data)
            for axes in list(self.axes.values())[-n_columns:]:  # those with no panel below
                axes.set_xlabel(_wrapped(x_label))
            self.figure.suptitle(title, fontsize=11.5, fontweight="bold")
            self.figure.supylabel(y_label, fontsize=10)

    def add_legend(self, n_seeds: Sequence[int], references: Sequence[str] = ()) -> None:
        """Below the panels: all contestants, once, and then the references."""
        matplotlib = load_matplotlib()
        with matplotlib.rc_context(LOOK):
            handles = [
                matplotlib.lines.Line2D([], [], label=label, **_look_of(style)) for label, style in self.styles.items()
            ]
            told = range_of(n_seeds, "{}")
            seeds = "one seed" if told == "1" else f"mean and standard deviation over {told} seeds"
            without = f"; without feedback: {' and '.join(references)}" if references else ""
            self.figure.legend(
                handles=handles,
                loc="outside lower center",
                ncols=self.legend_columns,
                title=seeds + without,
                frameon=False,
                handlelength=3.4,
                columnspacing=1.5,
            )


def _wrapped(text: str) -> str:
    """On lines of about the same length that fit below a panel."""
    n_lines = math.ceil(len(text) / LABEL_LETTERS)
    return "\n".join(textwrap.wrap(text, len(text) // n_lines + 6))


def labels_of(panels: dict[str, list[Series]]) -> list[str]:
    """Of all lines, each once."""
    return list(dict.fromkeys(line.label for lines in panels.values() for line in lines))


def _look_of(style: Style) -> dict[str, Any]:
    return {
        "color": style.colour,
        "marker": style.marker,
        "linewidth": style.width,
        "linestyle": (0, style.dashes) if style.dashes else "-",
        "markersize": 5.5 if style.width == STRONG else 5,
        "markerfacecolor": "white" if style.hollow else style.colour,
        "markeredgewidth": 1.2,
    }


def draw_line(axes: Axes, line: Series, places: Sequence[float], style: Style) -> None:
    """The means, with gaps where there is none, and the spread as bars or a band."""
    x, mean, below, above = np.array(places), line.mean, line.spread, line.spread
    if axes.get_yscale() == "log":  # what is 0, or reaches it, would stretch the axis without end
        mean = np.where(mean > 0, mean, np.nan)
        below = np.minimum(above, 0.9 * mean)
    every = max(1, math.ceil(len(x) / MOST_BARS))
    order = 4 if style.width == STRONG else 3
    axes.plot(x, mean, label=line.label, zorder=order, markevery=every, **_look_of(style))
    if len(x) > MOST_BARS:
        axes.fill_between(x, mean - below, mean + above, color=style.colour, alpha=0.18, linewidth=0, zorder=2)
    elif above.any():
        bars = np.stack([below, above])
        axes.errorbar(x, mean, bars, fmt="none", ecolor=style.colour, elinewidth=1, capsize=2.2, zorder=3)


def as_bytes(picture: Figure, format: str) -> bytes:
    """The file of a figure, `png` or `svg`; no date and no chance in it."""
    buffer = io.BytesIO()
    with load_matplotlib().rc_context(LOOK):
        metadata = {"Date": None, "Creator": "onlinehash"} if format == "svg" else {"Software": "onlinehash"}
        picture.savefig(buffer, format=format, metadata=metadata)
    return buffer.getvalue()


def load_matplotlib() -> Any:
    """Never pyplot, which keeps a state of its own."""
    try:
        import matplotlib
        import matplotlib.figure
        import matplotlib.lines
        import matplotlib.patches
        import matplotlib.ticker
    except ImportError:
        raise MissingExtra("drawing figures", "matplotlib", "plot") from None
    return matplotlib
