"""Every method on the same stream: the table of docs/reference/learners/compared.md, on data sets of your own.

    python benchmarks/methods.py mnist.npz cifar10_deep512.npz --results results.jsonl

Each file is an npz with X and y (and offset and scale, where X is quantised). Rows are taken less the mean of the first
2,000 and scaled to unit length. The first 20,000 are the stream, in an order that each seed shuffles, and the database;
the next 1,000 are the queries. Methods that learn from pairs get the stream two by two, 10,000 pairs; those that learn
from labels, or from nothing, get the 20,000 points; batch methods get them all at once. Tie-aware mAP, mean and
standard deviation over the seeds; the same at 32 bits for a database of the next 20,000 rows, which nobody has learned
from; microseconds to learn a pair or a point on one thread, the least over seeds and lengths of code, feature map
included.

*Float* is exact search by cosine in the same vectors: no codes, no feedback. ITQ is codes without feedback.

Every run is written to the file of results when it is done, and a run that is found there is not done again, unless the
library's source has changed.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import common
import numpy as np

from onlinehash import RbfAnchors, evaluate
from onlinehash.learners import registry
from onlinehash.streams.from_labels import LabelPairing


def kernel(n_anchors: int = 300) -> RbfAnchors:
    return RbfAnchors(n_anchors, normalize=True)


FLOAT = "float"

#: What is tried, in the order of the table: a method by its name, and parameters beside bits and seed.
ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    FLOAT: ("", {}),
    "ITQ": ("ITQ", {}),
    "LSH": ("LSH", {}),
    "LSH, kernel": ("LSH", {"features": kernel()}),
    "KLSH, kernel": ("KLSH", {"features": kernel()}),
    "OSH (sketching)": ("OSH", {}),
    "OSH (sketching), kernel": ("OSH", {"features": kernel()}),
    "FROSH": ("FROSH", {}),
    "SSBC (reconstructed), kernel": ("SSBC", {"features": kernel()}),
    "OH": ("OH", {}),
    "OH, kernel": ("OH", {"features": kernel()}),
    "MMOH (4 models), kernel": ("MMOH", {"features": kernel()}),
    "Mini-batch OH": ("MBOH", {}),
    "Mini-batch OH, kernel": ("MBOH", {"features": kernel()}),
    "MLH": ("MLH", {}),
    "MLH, kernel": ("MLH", {"features": kernel()}),
    "AdaptHash": ("AdaptHash", {}),
    "AdaptHash, kernel": ("AdaptHash", {"features": kernel()}),
    "LEGO-LSH": ("LEGO", {}),
    "LEGO-LSH, kernel": ("LEGO", {"features": kernel()}),
    "Smooth pairs": ("SmoothPairs", {}),
    "Smooth pairs, kernel": ("SmoothPairs", {"features": kernel()}),
    "Blended pairs": ("BlendedPairs", {}),
    "Blended pairs, kernel": ("BlendedPairs", {"features": kernel()}),
    "OECC": ("OECC", {}),
    "OECC, boosted": ("OECC", {"form": "boosted"}),
    "MIHash": ("MIHash", {}),
    "HCOH": ("HCOH", {}),
    "HCOH, kernel": ("HCOH", {"features": kernel()}),
    "HMOH": ("HMOH", {}),
    "HMOH, kernel": ("HMOH", {"features": kernel()}),
    "BSODH": ("BSODH", {}),
    "KSH, kernel": ("KSH", {"features": kernel()}),
    "SDH, kernel": ("SDH", {"features": kernel(1000)}),
    "FastHash": ("FastHash", {}),
}


class Data:
    """A set, prepared alike for everybody."""

    def __init__(self, path: Path) -> None:
        self.name = path.stem
        X, y = common.read(path)
        X -= X[:2000].mean(axis=0)
        X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-12)
        n = min(20_000, (len(X) - 1000) // 2) // 2 * 2
        self.base, self.queries, self.unseen = X[:n], X[n : n + 1000], X[n + 1000 : 2 * n + 1000]
        self.labels = y[:n]
        self.truth = evaluate.same_label(y[n : n + 1000], self.labels)
        self.unseen_truth = evaluate.same_label(y[n : n + 1000], y[n + 1000 : 2 * n + 1000])

    def stream(self, seed: int) -> tuple[np.ndarray, np.ndarray]:
        order = np.random.default_rng(seed).permutation(len(self.base))
        return self.base[order], self.labels[order]


def measure_floats(data: Data) -> dict[str, float]:
    return {
        "map": evaluate.cosine(data.queries, data.base, data.truth, ["map"])["map"],
        "unseen": evaluate.cosine(data.queries, data.unseen, data.unseen_truth, ["map"])["map"],
    }


def measure(data: Data, method: str, params: dict[str, Any], bits: int, seed: int) -> dict[str, float]:
    learner = registry.find(method)(n_bits=bits, random_state=seed, **params)
    X, y = data.stream(seed)
    teach: Callable[[], Any]
    if learner.traits.learns_from == "pairs":
        A, B, similar = LabelPairing(None, 2, np.random.default_rng(seed), X.shape[1], X.dtype).pairs(X, y)
        teach, n = (lambda: learner.partial_fit_pairs(A, B, similar).flush()), len(A)
    elif learner.traits.unit == "batch":
        teach, n = (lambda: learner.fit(X, y)), len(X)
    else:
        teach, n = (lambda: learner.partial_fit(X, y).flush()), len(X)
    start = time.process_time()
    teach()
    seconds = time.process_time() - start
    return {
        "map": evaluate.retrieval(learner, data.queries, data.base, data.truth, ["map"])["map"],
        "unseen": evaluate.retrieval(learner, data.queries, data.unseen, data.unseen_truth, ["map"])["map"],
        "us": 1e6 * seconds / n,
    }


def compile_kernels(method: str, params: dict[str, Any]) -> None:
    """A first lesson that is not timed."""
    X, y = common.clusters(1500, 32)
    learner = registry.find(method)(n_bits=16, random_state=0, **params)
    learner.fit(X, y).encode(X)


def runs(names: list[str], bits: list[int], seeds: int) -> Iterator[tuple[str, int, int]]:
    for name in names:
        if name == FLOAT:
            yield name, 0, 0
            continue
        for r in bits:
            for seed in range(seeds):
                yield name, r, seed


def table(rows: list[dict[str, Any]], data: str, bits: list[int]) -> None:
    """Markdown, a line for each method."""
    print(f"\n| {data} | learns from | unit | µs | " + " | ".join(map(str, bits)) + " | 32, unseen |")
    print("| --- | --- | --- | --- | --- |" + " --- |" * len(bits))
    for name, (method, _) in ROWS.items():
        mine = [row for row in rows if row["data"] == data and row["row"] == name]
        if not mine:
            continue
        if name == FLOAT:
            cells = [f"{mine[0]['map']:.3f}"] * len(bits) + [f"{mine[0]['unseen']:.3f}"]
            print(f"| {name} | nothing | | | " + " | ".join(cells) + " |")
            continue
        traits, cells = registry.find(method).traits, []
        for r, which in [*((r, "map") for r in bits), (32, "unseen")]:
            maps = [row[which] for row in mine if row["bits"] == r]
            cells.append(f"{np.mean(maps):.3f} ± {np.std(maps):.3f}" if maps else "")
        us = min(row["us"] for row in mine)
        print(f"| {name} | {traits.learns_from} | {traits.unit} | {us:.3g} | " + " | ".join(cells) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--results", type=Path, default=Path("results.jsonl"))
    parser.add_argument("--rows", nargs="+", choices=list(ROWS), default=list(ROWS), metavar="ROW")
    parser.add_argument("--bits", type=int, nargs="+", default=[16, 32, 64, 128])
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    results = common.Results(given.results)
    for path in given.files:
        todo = [
            {"data": path.stem, "row": name, "bits": bits, "seed": seed}
            for name, bits, seed in runs(given.rows, given.bits, given.seeds)
        ]
        todo = [run for run in todo if not results.has(run)]
        data = Data(path) if todo else None
        warm: set[str] = {FLOAT}
        for run in todo:
            assert data is not None
            name, bits, seed = run["row"], run["bits"], run["seed"]
            if name not in warm:
                compile_kernels(*ROWS[name])
                warm.add(name)
            found = measure_floats(data) if name == FLOAT else measure(data, *ROWS[name], bits, seed)
            results.add(run | found)
            print(f"{data.name}  {name}, {bits} bits, seed {seed}: {found['map']:.3f}", flush=True)
        table(results.rows, path.stem, given.bits)


if __name__ == "__main__":
    main()
