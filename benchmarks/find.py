"""How good the first ten results are: `LiveIndex.find` after 0 to 10,000 marks, beside search in floats.

    python benchmarks/find.py quality cifar10_deep512.npz mnist.npz
    python benchmarks/find.py marked cifar10_deep512.npz mnist.npz
    python benchmarks/find.py speed --n 2e4 1e6 --folder /tmp

Each file is an npz with X and y (and offset and scale, where X is quantised), taken as it is. The first 20,000 rows (of
a smaller set all but 1,000) are the items, the queries are the next 400 rows that have a mate among them. Precision@10
is the share of results with the query's label.

*quality*: users search for random items with `find` and mark the ten other results. The index is a `LiveIndex` with
its own learner and policy, so its codes are refreshed on the way.

float     exact search by the cosine, 4 bytes a value; nothing is learned.
codes     `search`: the same index by its codes alone.
find      `find`: codes for candidates, then the learned metric.
adapter   exact search in float vectors after a linear map that is learned from the same marks
          (`onlinehash.experiments.adapter`), each of the maps after its own stage.

*marked*: 100 of the queries get marks on the ten results of `find`, one query after the other. Their precision@10
before and after, not counting what was marked, and with it; the same by Rocchio on floats (the query, plus the mean of
what was marked similar, less a quarter of the mean of what was not); and that of 200 other queries.

*speed*: milliseconds of one query, best of several rounds, of `find`, `search` and exact floats in NumPy and FAISS; and
bytes an item. Vectors are 32 clusters of 512 values.
"""

from __future__ import annotations

import argparse
import copy
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import common  # one BLAS thread, before NumPy is loaded
import numpy as np

from onlinehash import LiveIndex
from onlinehash.experiments.adapter import LinearAdapter

STAGES = (0, 10, 50, 100, 200, 1000, 3000, 10_000)
ADAPTER_STAGES = (1000, 10_000)
N_ITEMS, N_QUERIES, K = 20_000, 400, 10


class Data:
    """Items and queries of one file."""

    def __init__(self, path: Path) -> None:
        X, y = common.read(path)
        n = min(N_ITEMS, len(X) - 1000)
        self.name, self.items, self.labels = path.stem, X[:n], y[:n]
        rest, labels = X[n:], y[n:]
        asked = np.flatnonzero(np.isin(labels, self.labels))[:N_QUERIES]
        self.queries, self.query_labels = rest[asked], labels[asked]
        self.askable = np.flatnonzero(np.bincount(self.labels)[self.labels] > 1)

    def precision(self, found: np.ndarray, chosen: slice = slice(None)) -> float:
        """Of what was found for the queries."""
        return float((self.labels[found] == self.query_labels[chosen, None]).mean())


def unit(X: np.ndarray) -> np.ndarray:
    return X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-12)


def best_ten(queries: np.ndarray, items: np.ndarray) -> np.ndarray:
    """By the cosine of unit vectors."""
    return np.argpartition(-(queries @ items.T), K, axis=1)[:, :K]


def marks(data: Data, index: LiveIndex, n: int, rng: np.random.Generator) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """What users are shown: an item and the ten others that `find` gives for it, until there are n marks."""
    while n > 0:
        query = int(rng.choice(data.askable))
        shown = index.find(data.items[query], K + 1).ids
        shown = shown[shown != query][: min(K, n)]
        n -= len(shown)
        yield np.full(len(shown), query), shown


def quality(data: Data, seeds: int) -> None:
    exact = data.precision(best_ten(unit(data.queries), unit(data.items)))
    columns: dict[str, list[list[float]]] = {"codes": [], "find": [], "adapter": []}
    for seed in range(seeds):
        rng = np.random.default_rng([seed, 5])
        index = LiveIndex(n_bits=64)
        index.add(None, data.items)
        adapter = LinearAdapter(random_state=seed).observe(unit(data.items[:2000]))
        rows: dict[str, list[float]] = {name: [] for name in columns}
        n = 0
        for stage in STAGES:
            for left, right in marks(data, index, stage - n, rng):
                similar = data.labels[left] == data.labels[right]
                index.learn_pairs_by_id(left, right, similar)
                adapter.partial_fit_pairs(unit(data.items[left]), unit(data.items[right]), similar)
            n = stage
            rows["codes"].append(data.precision(index.search(data.queries, K).ids))
            rows["find"].append(data.precision(index.find(data.queries, K).ids))
            settled = copy.deepcopy(adapter).flush() if stage in ADAPTER_STAGES else None
            mapped = [] if settled is None else [settled.map_rows(unit(X)) for X in (data.queries, data.items)]
            rows["adapter"].append(data.precision(best_ten(*mapped)) if mapped else np.nan)
        for name, values in rows.items():
            columns[name].append(values)
    table = {name: np.array(values) for name, values in columns.items()}
    print(f"\n{data.name}: {len(data.items)} items of {data.items.shape[1]} values, {seeds} seeds; float {exact:.4f}\n")
    print("| marks | " + " | ".join(f"{stage:,}" for stage in STAGES) + " |")
    print("| --- |" + " --- |" * len(STAGES))
    print("| float | " + " | ".join(f"{exact:.3f}" for _ in STAGES) + " |")
    for name, values in table.items():
        cells = [f"{m:.3f} ± {s:.3f}" if m == m else "" for m, s in zip(values.mean(0), values.std(0), strict=True)]
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
    found = table["find"]
    at = STAGES.index
    verdicts = {
        "without a mark at least float - 0.005": found[:, at(0)].mean() - exact + 0.005,
        "after 100 marks above none": found[:, at(100)].mean() - found[:, at(0)].mean(),
        "after 100 marks no seed 0.01 below none": (found[:, at(100)] - found[:, at(0)]).min() + 0.01,
        "after 200 marks at least float": found[:, at(200)].mean() - exact,
        "after 1,000 marks above float": found[:, at(1000)].mean() - exact,
        "after 10,000 at least adapter - 0.01": (found - table["adapter"])[:, at(10_000)].mean() + 0.01,
    }
    for name, margin in verdicts.items():
        print(f"- {name}: {'yes' if margin >= 0 else 'NO'} ({margin:+.4f})", flush=True)


def marked(data: Data, seeds: int) -> None:
    """The first 100 queries get marks, the last 200 do not; `seeds` is not used, as nothing is drawn."""
    U, V = unit(data.items), unit(data.queries)
    mine, others = slice(0, 100), slice(-200, None)
    index = LiveIndex(n_bits=64)
    index.add(None, data.items)
    before = index.find(data.queries[mine], K).ids
    others_before = index.find(data.queries[others], K).ids
    after, with_marked, by_rocchio, rocchio_before = [], [], [], best_ten(V[mine], U)
    rocchio_with = []
    for i, shown in enumerate(before):
        similar = data.labels[shown] == data.query_labels[i]
        index.learn_pairs(np.repeat(data.queries[i][None], len(shown), 0), data.items[shown], similar)
        found = index.find(data.queries[i], 2 * K).ids
        with_marked.append(found[:K])
        after.append(found[~np.isin(found, shown)][:K])
        seen = rocchio_before[i]
        good = data.labels[seen] == data.query_labels[i]
        moved = (
            V[i]
            + (U[seen[good]].mean(0) if good.any() else 0)
            - (0.25 * U[seen[~good]].mean(0) if not good.all() else 0)
        )
        order = np.argsort(-(U @ moved))
        rocchio_with.append(order[:K])
        by_rocchio.append(order[~np.isin(order, seen)][:K])
    others_after = index.find(data.queries[others], K).ids
    fresh_float = [np.argsort(-(U @ V[i]))[: 2 * K] for i in range(100)]
    unseen_before = [row[~np.isin(row, best_ten(V[i : i + 1], U)[0])][:K] for i, row in enumerate(fresh_float)]

    def p(found: Any, chosen: slice = mine) -> str:
        return f"{data.precision(np.array(found), chosen):.3f}"

    print(
        f"\n{data.name}\n\n| precision@10 | before | after ten marks | of results that were not marked |\n"
        "| --- | --- | --- | --- |"
    )
    print(f"| find | {p(before)} | {p(with_marked)} | {p(after)} |")
    print(
        f"| Rocchio on floats | {p(rocchio_before)} | {p(rocchio_with)} | {p(by_rocchio)} "
        f"(before: {p(unseen_before)}) |"
    )
    print(f"| find, other queries | {p(others_before, others)} | {p(others_after, others)} | |", flush=True)


def speed(sizes: list[int], folder: Path) -> None:
    d, n_queries = 512, 50
    rng = np.random.default_rng(0)
    print("| items | | bytes an item | ms |\n| --- | --- | --- | --- |")
    for n in sizes:
        centres = rng.standard_normal((32, d)).astype(np.float32)
        queries = centres[rng.integers(32, size=n_queries)] + 0.7 * rng.standard_normal((n_queries, d)).astype(
            np.float32
        )
        items = np.empty((n, d), np.float32)
        for start in range(0, n, 100_000):
            part = items[start : start + 100_000]
            part[:] = centres[rng.integers(32, size=len(part))] + 0.7 * rng.standard_normal(part.shape).astype(
                np.float32
            )
        rows: list[tuple[str, str, float]] = []
        with tempfile.TemporaryDirectory(dir=folder) as path:
            for where in ("memory", "disk"):
                with LiveIndex(
                    n_bits=64, path=None if where == "memory" else Path(path) / "items", sync="batch"
                ) as index:
                    for start in range(0, n, 50_000):
                        index.add(None, items[start : start + 50_000])
                    size = f"8 + {4 * d}" if where == "memory" else f"8 + {d}, and {4 * d} on the disk"
                    rows.append((f"find, vectors in {where}", size, best(lambda q: index.find(q, K), queries)))
                    rows.append((f"codes alone, {where}", "8", best(lambda q: index.search(q, K), queries)))
        U = unit(items)
        rows.append(
            ("NumPy, exact cosine", f"{4 * d}", best(lambda q: np.argpartition(-(U @ q), K)[:K], unit(queries)))
        )
        try:
            import faiss

            faiss.omp_set_num_threads(1)
            flat = faiss.IndexFlatIP(d)
            flat.add(U)
            rows.append(("FAISS, exact cosine", f"{4 * d}", best(lambda q: flat.search(q[None], K), unit(queries))))
        except ImportError:
            pass
        for name, size, seconds in rows:
            print(f"| {n:,} | {name} | {size} | {1e3 * seconds:.2f} |", flush=True)


def best(ask: Callable[[np.ndarray], Any], queries: np.ndarray, rounds: int = 5) -> float:
    """Seconds a query of the best round."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        for query in queries:
            ask(query)
        times.append((time.perf_counter() - start) / len(queries))
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["quality", "marked", "speed"])
    parser.add_argument("files", type=Path, nargs="*")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--n", type=float, nargs="+", default=[2e4])
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    given = parser.parse_args()
    if given.what == "speed":
        speed([int(n) for n in given.n], given.folder)
        return
    for path in given.files:
        {"quality": quality, "marked": marked}[given.what](Data(path), given.seeds)


if __name__ == "__main__":
    main()
