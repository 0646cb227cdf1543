"""The figures of docs/performance.md, drawn from what the benchmarks wrote by --json.

python benchmarks/flat.py --json flat.json
python benchmarks/multi_index.py --data ... --json multi.json
python benchmarks/plot.py flat.json multi.json
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt

FIGURES = Path(__file__).parent.parent / "docs" / "figures"
OURS, SECOND, PEER = "#1f6f8b", "#7fb7be", "#d98e5f"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("flat", type=Path)
    parser.add_argument("multi", type=Path)
    args = parser.parse_args()
    matplotlib.rcParams |= {
        "svg.hashsalt": "onlinehash",
        "svg.fonttype": "none",
        "font.size": 10,
        "axes.spines.top": False,
    }
    matplotlib.rcParams |= {"axes.spines.right": False, "legend.frameon": False}
    FIGURES.mkdir(exist_ok=True)
    draw_flat(json.loads(args.flat.read_text()))
    draw_multi(json.loads(args.multi.read_text()))


def draw_flat(results: dict) -> None:
    """Queries a second by width, one query and a batch, beside FAISS."""
    rows = [row for row in results["rows"] if row["codes"] == max(r["codes"] for r in results["rows"])]
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for axis, n_queries in zip(axes, sorted({row["queries"] for row in rows}), strict=True):
        some = [row for row in rows if row["queries"] == n_queries]
        for shift, name, label, colour in ((-0.2, "ours", "FlatIndex", OURS), (0.2, "faiss", "FAISS", PEER)):
            speeds = [n_queries / row[name] for row in some]
            axis.bar([i + shift for i in range(len(some))], speeds, 0.38, label=label, color=colour)
        for i, row in enumerate(some):
            top = n_queries / row["ours"]
            times = row["faiss"] / row["ours"]
            text = f"{times:,.0f}×" if times >= 10 else f"{times:.1f}×"
            axis.annotate(text, (i - 0.2, top), ha="center", va="bottom", fontsize=8)
        axis.set(yscale="log", xlabel="bits", ylabel="queries a second" if n_queries == 1 else None)
        axis.set_xticks(range(len(some)), [str(row["bits"]) for row in some])
        axis.set_title("one query" if n_queries == 1 else f"a batch of {n_queries}", loc="left")
        axis.margins(y=0.12)
    axes[0].legend()
    save(figure, "flat.svg", f"Exact 10 nearest of {rows[0]['codes']:,} uniform codes, one thread")


def draw_multi(results: dict) -> None:
    """Microseconds a query on each set at each size, for a batch."""
    rows = [row for row in results["rows"] if row["k"] == 10]
    sizes = sorted({row["codes"] for row in rows})
    figure, axes = plt.subplots(1, len(sizes), figsize=(9, 3.8), layout="constrained", sharey=True, squeeze=False)
    for axis, size in zip(axes[0], sizes, strict=True):
        some = [row for row in rows if row["codes"] == size]
        bars = {
            "MultiIndex": [row["multi"] for row in some],
            "FlatIndex": [row["flat"] for row in some],
            "FAISS MultiHash": [cheapest_exact(row) for row in some],
        }
        for shift, colour, (label, values) in zip((-0.27, 0, 0.27), (OURS, SECOND, PEER), bars.items(), strict=True):
            if any(map(math.isfinite, values)):
                places = [i + shift for i in range(len(some))]
                axis.bar(places, [1e6 * value for value in values], 0.26, label=label, color=colour)
        for i, row in enumerate(some):
            text = f"{row['flat'] / row['multi']:.1f}×"
            axis.annotate(text, (i - 0.27, 1e6 * row["multi"]), ha="center", va="bottom", fontsize=8)
        axis.set(yscale="log", ylabel="µs a query" if size == sizes[0] else None, title=f"{size:,} codes")
        axis.set_xticks(range(len(some)), [row["data"].split("_")[0] for row in some], rotation=30, ha="right")
    axes[0][0].legend(loc="upper left")
    axes[0][0].margins(y=0.35)
    save(figure, "multi_index.svg", "Exact 10 nearest of 64-bit codes, one thread, in batches; × as fast as the scan")


def cheapest_exact(row: dict) -> float:
    """The fastest setting of FAISS's multi-hash index that was exact, if one was tried."""
    values = [value for name, value in row.items() if name.startswith("FAISS MultiHash") and math.isfinite(value)]
    return min(values, default=float("nan"))


def save(figure: plt.Figure, name: str, title: str) -> None:
    figure.suptitle(title, x=0.01, ha="left")
    figure.savefig(FIGURES / name, metadata={"Date": None})
    print(FIGURES / name)


if __name__ == "__main__":
    main()
