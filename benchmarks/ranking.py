"""Mean average precision of many queries over many codes: two histograms a query, beside a sort and NumPy.

One thread, in CPU seconds, truth by label (ten classes) included. The NumPy versions are timed on fewer queries in the
same run and scaled to all of them. Peak memory is what NumPy allocates beyond the codes and labels, by tracemalloc, for
the queries that were timed. "stored" is our metric in the order of the base, which also has to sort, on fewer queries.
Then the exact radius of the nearest 5 % among n points of 512 dimensions, on fewer rows and scaled.
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import common
import numpy as np
from ratio import Pair, pair

from onlinehash import Codes, evaluate

N_CLASSES = 10


def main() -> None:
    args = arguments()
    n, n_queries = int(args.n), args.queries
    runs = contenders(n, n_queries, args.few, args.bits)
    print(common.machine())
    print(f"{n_queries:,} queries, {n:,} codes of {args.bits} bits")
    print(f"{'':22} {'timed':>8} {'seconds':>9} {'times ours':>11} {'peak MB':>8}  map of the first {args.few}")
    seconds = common.best({name: run for name, (run, _) in runs.items()}, args.repeats, time.process_time)
    scaled = {name: seconds[name] * n_queries / timed for name, (_, timed) in runs.items()}
    results = []
    for name, (run, timed) in runs.items():
        values, peak = with_peak(run)
        times = scaled[name] / scaled["ours"]
        mean = values[: args.few].mean()
        print(f"{name:22} {timed:8,} {scaled[name]:9.2f} {times:11.1f} {peak / 1e6:8.1f}  {mean:.6f}")
        results.append({"name": name, "seconds": scaled[name], "times": times, "peak": peak, "timed": timed})
    common.write_json(results, args.json)
    neighbours(args.points, args.rows)


def compared(seconds: float) -> Iterator[Pair]:
    """NumPy's time of a query over ours, in so many seconds."""
    runs = contenders(1_000_000, 40, 2, 64)
    names = ("ours", "NumPy argsort")
    rounds = common.rounds({name: runs[name][0] for name in names}, 3, time.process_time, 2 * seconds)
    a_query = {name: [took / runs[name][1] for took in rounds[name]] for name in names}
    yield pair("mAP of 1M codes: times faster than NumPy's argsort", a_query, "NumPy", "ours", "higher")


def contenders(n: int, n_queries: int, n_few: int, n_bits: int) -> dict[str, tuple[Callable[[], np.ndarray], int]]:
    """What computes the average precision of each query, and how many queries it is given."""
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 256, size=(n + n_queries, n_bits // 8), dtype=np.uint8)
    # Codes of one class share some bits, so that distances say something about labels.
    labels = rng.integers(N_CLASSES, size=n + n_queries)
    rows[:, 0] = rng.integers(0, 256, size=N_CLASSES, dtype=np.uint8)[labels]
    codes = Codes.from_faiss(rows, n_bits)
    base, queries, y_base, y_query = codes[:n], codes[n:], labels[:n], labels[n:]
    words = rows.view(np.uint64)
    truth = evaluate.same_label(y_query, y_base)
    few, truth_of_few = slice(0, n_few), evaluate.same_label(y_query[:n_few], y_base)

    def ours() -> np.ndarray:
        return evaluate.rank(queries, base, truth, ["map"], per_query=True)["map"]

    def stored() -> np.ndarray:
        return evaluate.rank(queries[few], base, truth_of_few, ["map"], ties="stored", per_query=True)["map"]

    def by(average_precision: Callable[[np.ndarray, np.ndarray], float]) -> Callable[[], np.ndarray]:
        def run() -> np.ndarray:
            values = [
                average_precision(
                    np.bitwise_count(words[:n] ^ words[n + q]).sum(axis=1, dtype=np.uint16), y_base == y_query[q]
                )
                for q in range(n_few)
            ]
            return np.array(values)

        return run

    return {
        "ours": (ours, n_queries),
        "ours, ties as stored": (stored, n_few),
        "NumPy histograms": (by(of_histograms), n_few),
        "NumPy argsort": (by(of_sort), n_few),
    }


def of_sort(distances: np.ndarray, relevant: np.ndarray) -> float:
    """Ties as a stable sort leaves them."""
    places = np.flatnonzero(relevant[np.argsort(distances, kind="stable")]) + 1
    return float((np.arange(1, len(places) + 1) / places).mean())


def of_histograms(distances: np.ndarray, relevant: np.ndarray) -> float:
    """Ties in expectation, as ours, by sums of 1/i that are made once."""
    items = np.bincount(distances)
    hits = np.bincount(distances[relevant], minlength=len(items))
    n, r = items[hits > 0], hits[hits > 0]
    before, found = (items.cumsum() - items)[hits > 0], (hits.cumsum() - hits)[hits > 0]
    slope = (r - 1) / np.maximum(n - 1, 1)
    H = harmonic_numbers(len(distances))
    inside = (found + 1 - slope * (before + 1)) * (H[before + n] - H[before]) + slope * n
    return float((r / n * inside).sum() / r.sum())


@cache
def harmonic_numbers(n: int) -> np.ndarray:
    return np.concatenate([[0], (1 / np.arange(1, n + 1)).cumsum()])


def with_peak(run: Callable[[], np.ndarray]) -> tuple[np.ndarray, int]:
    tracemalloc.start()
    value = run()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return value, peak


def neighbours(n: int, n_rows: int) -> None:
    X, _ = common.clusters(n, 512)
    rows = np.arange(min(n, n_rows))
    evaluate.neighbour_radii(X[:100])
    start = time.process_time()
    evaluate.neighbour_radii(X, rows=rows)
    seconds = time.process_time() - start
    print(f"radii of the nearest 5 % of {n:,} x 512: {seconds * n / len(rows):.1f} s (timed {len(rows):,} rows)")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=float, default=1e6)
    parser.add_argument("--bits", type=int, default=64, help="a multiple of 64")
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--few", type=int, default=20, help="queries for what is slow")
    parser.add_argument("--points", type=int, default=40_000)
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write the figures to this file too")
    return parser.parse_args()


if __name__ == "__main__":
    main()
