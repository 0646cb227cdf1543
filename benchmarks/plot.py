"""The figures of the docs, drawn from what the benchmarks wrote by --json; any of them.

python benchmarks/flat.py --json flat.json
python benchmarks/multi_index.py --data ... --json multi.json
python benchmarks/selective.py ... --json selective.json
python benchmarks/policies.py --data ... --json policies.json
python benchmarks/pairs.py FILES --results pairs.jsonl
python benchmarks/plot.py --flat flat.json --multi multi.json --selective selective.json --policies policies.json \
    --pairs pairs.jsonl
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
    drawings = {"flat": draw_flat, "multi": draw_multi, "selective": draw_selective, "policies": draw_policies}
    drawings["pairs"] = draw_pairs
    for name in drawings:
        parser.add_argument(f"--{name}", type=Path)
    args = vars(parser.parse_args())
    matplotlib.rcParams |= {
        "svg.hashsalt": "onlinehash",
        "svg.fonttype": "none",
        "font.size": 10,
        "axes.spines.top": False,
    }
    matplotlib.rcParams |= {"axes.spines.right": False, "legend.frameon": False}
    FIGURES.mkdir(exist_ok=True)
    for name, draw in drawings.items():
        if args[name]:
            draw(read(args[name]))


def read(path: Path) -> dict:
    """What a benchmark wrote: one document, or rows that it appended line by line."""
    text = path.read_text()
    return {"rows": [json.loads(line) for line in text.splitlines()]} if path.suffix == ".jsonl" else json.loads(text)


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


def draw_selective(results: dict) -> None:
    """What a refresh costs after so many pairs, beside encoding everything."""
    cases = sorted({(row["data"], row["learner"]) for row in results["rows"]}, key=lambda case: (case[1], case[0]))[
        ::-1
    ]
    figure, axes = plt.subplots(1, len(cases), figsize=(11, 3.4), layout="constrained", sharey=True)
    for axis, (data, learner) in zip(axes, cases, strict=True):
        some = [row for row in results["rows"] if (row["data"], row["learner"]) == (data, learner)]
        pairs = [row["pairs"] for row in some]
        width = {"OH 64": 64, "MMOH 4 x 64": 256}[learner]
        for label, colour, values in (
            ("bits changed", "#999999", [row["changed"] / width for row in some]),
            ("cost, all items of changed bits", PEER, [row["columns"] / row["full"] for row in some]),
            ("cost, margins skip items", OURS, [row["margins"] / row["full"] for row in some]),
            ("bits that flipped", SECOND, [row["flipped"] for row in some]),
        ):
            axis.plot(pairs, values, marker="o", markersize=3, label=label, color=colour)
        axis.axhline(1, color="black", linewidth=0.5)
        axis.set(xscale="log", xlabel="pairs since the last refresh", title=f"{learner}, {data.split('_')[0]}")
        axis.set_xticks(pairs, [str(p) for p in pairs], minor=False)
        axis.minorticks_off()
    axes[0].set_ylabel("share of all bits, or of a full encode")
    axes[0].legend(fontsize=7)
    save(figure, "selective.svg", "Selective re-hashing: what a few pairs change, and what the refresh costs")


def draw_policies(results: dict) -> None:
    """mAP along two streams, and for all streams mAP since the drift against bits recomputed."""
    rows = results["rows"]
    shown = {"always()": "black", "when_changed(0.05)": OURS, "every(1000)": PEER, "by_hand()": "#999999"}
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.8), layout="constrained")
    streams = list(dict.fromkeys((row["data"], row["drift"]) for row in rows))
    for axis, (data, drift) in zip(axes, (streams[0], streams[-1]), strict=False):
        for policy, colour in shown.items():
            curves = [r["curve"] for r in rows if (r["data"], r["drift"], r["policy"]) == (data, drift, policy)]
            mean = [sum(values) / len(values) for values in zip(*curves, strict=True)]
            steps = [20 * (i + 1) for i in range(len(mean))]
            axis.plot(steps, mean, label=policy, color=colour)
        axis.axvline(steps[-1] / 2, color="black", linewidth=0.5, linestyle=":")
        axis.set(xlabel="step (20 pairs, 40 items)", ylabel="mAP", title=f"{data.split('_')[0]}: drift of {drift}")
        axis.legend(fontsize=7)
    markers = iter("os^vDP*Xdph<>")
    for policy in dict.fromkeys(row["policy"] for row in rows):
        if policy in ("always()", "by_hand()"):
            continue
        points = [since_drift(rows, stream, policy) for stream in streams]
        axes[2].scatter(*zip(*points, strict=True), marker=next(markers), s=22, label=policy)
    axes[2].axvline(10, color="black", linewidth=0.5, linestyle=":")
    axes[2].axhline(90, color="black", linewidth=0.5, linestyle=":")
    axes[2].set(xscale="log", xlabel="bits recomputed, % of always", ylabel="mAP since the drift, % of always")
    axes[2].set_title("all streams")
    axes[2].legend(fontsize=6, loc="upper left", bbox_to_anchor=(1, 1))
    save(figure, "policies.svg", "When to refresh: search quality against work, on streams with a sudden drift")


def draw_pairs(results: dict) -> None:
    """mAP by length of code after 50,000 pairs, and along a stream whose world changes."""
    learners = {
        "Smooth": "#8a5fa8",
        "Blended": OURS,
        "MBOH": SECOND,
        "OH": PEER,
        "LSH": "#999999",
        "ITQ": "#555555",
        "float": "black",
    }
    untaught = ("ITQ", "float")
    sets = {"cifar10_deep512": "CIFAR-10", "mnist": "MNIST", "news20_minilm384": "20 Newsgroups"}
    figure, axes = plt.subplots(1, 4, figsize=(13, 3.4), layout="constrained")
    quality = [row for row in results["rows"] if row["table"] == "quality" and not row["kernel"]]
    for axis, (data, title) in zip(axes, sets.items(), strict=False):
        for name, colour in learners.items():
            found: dict[int, list[float]] = {}
            for row in quality:
                if (row["data"], row["row"]) == (data, name):
                    found.setdefault(row["bits"], []).append(row["maps"][-1])
            bits = sorted(found)
            style = "--" if name in untaught else "o-"
            axis.plot(bits, [sum(found[r]) / len(found[r]) for r in bits], style, color=colour, label=name)
        axis.set(xscale="log", xlabel="bits", ylim=(0, 0.9), ylabel="mAP" if axis is axes[0] else None)
        axis.set_xticks([16, 32, 64, 128], ["16", "32", "64", "128"])
        axis.minorticks_off()
        axis.set_title(f"{title}, 50,000 pairs", loc="left", fontsize=10)
    axes[2].legend(loc="upper left", ncols=3)  # where there is room
    drift = [row for row in results["rows"] if row["table"] == "drift" and row["data"] == "cifar10_deep512"]
    pairs = [5, 10, 15, 20, 25, 25, 30, 35, 40, 45, 50]
    for row in drift:
        if row["world"] == "meaning" and row["row"] in learners:
            style = "--" if row["row"] in untaught else "-"
            axes[3].plot(pairs, row["maps"], style, color=learners[row["row"]])
    axes[3].axvline(25, color="#bbbbbb", linestyle=":")
    axes[3].set(xlabel="pairs learned, thousands", ylim=(0, 0.9))
    axes[3].set_title("CIFAR-10, another meaning at 25,000", loc="left", fontsize=10)
    save(figure, "pairs.svg", "Learners from pairs, no kernel")


def since_drift(rows: list[dict], stream: tuple[str, str], policy: str) -> tuple[float, float]:
    """Bits and mAP of a policy on a stream, in percent of what `always` has."""

    def total(name: str) -> tuple[float, float]:
        some = [row for row in rows if (row["data"], row["drift"], row["policy"]) == (*stream, name)]
        return sum(r["rehashed"] for r in some), sum(sum(r["curve"][len(r["curve"]) // 2 :]) for r in some)

    (bits, quality), (all_bits, best) = total(policy), total("always()")
    return 100 * bits / all_bits, 100 * quality / best


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
