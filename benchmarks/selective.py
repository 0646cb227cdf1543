"""Selective re-hashing, honestly: how many bits a few pairs change, and what a refresh then costs beside a full encode.

    python benchmarks/selective.py mnist.npz cifar10_deep512.npz [--json FILE]

After `--warm-up` pairs (past the burn-in), a learner goes on for p pairs, the index is refreshed, and so on, ten times:
OH with 64 bits and MMOH with 4 x 64. Printed for each p, on average: distinct bits that changed; stored bits that
flipped; and, as a share of encoding everything, the cost of a refresh that computes the changed columns of all items,
and of one that skips what margins prove unchanged, with the share of all bits that it computed. The last column is what
deferral saves: the cost of one refresh after p pairs beside p refreshes after one pair each, both with margins.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import common
import numpy as np

from onlinehash import MultiModelOnlineHashing, OnlineHashing
from onlinehash.live.margins import Margins, recode_columns
from onlinehash.live.vectors import MemoryVectors

PAIRS, TIMES, ITEMS = (1, 5, 10, 20, 50, 100), 10, 50_000
LEARNERS = {
    "OH 64": lambda: OnlineHashing(n_bits=64, random_state=0),
    "MMOH 4 x 64": lambda: MultiModelOnlineHashing(n_bits=64, n_models=4, random_state=0),
}


def along(learner: Any, vectors: MemoryVectors, A: Any, B: Any, s: Any, p: int) -> dict[str, float]:
    """Ten refreshes, p pairs apart."""
    n, old = len(vectors), learner.snapshot()
    X = vectors.take(np.arange(n))
    margins = Margins(old, learner.mean_)
    codes, marks = margins.encode(old, X)
    margins.append(marks)
    planes, found = codes.planes, []
    for t in range(TIMES):
        some = slice(t * p, (t + 1) * p)
        learner.partial_fit_pairs(A[some], B[some], s[some])
        new = learner.snapshot()
        columns = new.changed_bits(old)
        seconds = {}
        for name, refresh in {
            "full": lambda: new.encode(X),
            "columns": lambda: recode_columns(new, columns, planes, n, vectors.blocks(n)),
            "margins": lambda: margins.recode(new, old, planes, n, vectors.blocks(n)),
        }.items():
            times = []
            for _ in range(3):
                start = time.perf_counter()
                made = refresh()
                times.append(time.perf_counter() - start)
            seconds[name] = min(times)
        after, margins, work = made
        assert np.array_equal(after, new.encode(X).planes)
        flipped = int(np.bitwise_count(planes ^ after).sum())
        found.append((len(columns), flipped / n, work.computed / n, *seconds.values()))
        planes, old = after, new
    changed, flipped, computed, full, columns, skipping = np.mean(found, axis=0)
    width = old.n_columns
    return {
        "pairs": p,
        "changed": changed,
        "flipped": flipped / width,
        "computed": computed / width,
        "full": full,
        "columns": columns,
        "margins": skipping,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, nargs="+", help="npz files with X and y")
    parser.add_argument("--warm-up", type=int, default=2000)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = []
    for path in options.data:
        X, y = common.read(path)
        order = np.random.default_rng(0).permutation(len(X))
        A, B, s = common.pairs(X[order], y[order])
        vectors = MemoryVectors()
        vectors.append(X[:ITEMS])
        for name, make in LEARNERS.items():
            print(f"\n{path.stem}, {name} bits, {len(vectors)} items, {options.warm_up} pairs learned before")
            print("pairs bits changed  flipped  columns  margins computed deferral")
            once = 0.0
            for p in PAIRS:
                learner, warm = make(), slice(0, options.warm_up)
                learner.partial_fit_pairs(A[warm], B[warm], s[warm])
                rest = slice(options.warm_up, None)
                row = along(learner, vectors, A[rest], B[rest], s[rest], p)
                once = once or row["margins"]
                rows.append({"data": path.stem, "learner": name} | row)
                print(
                    f"{p:5} {row['changed']:12.1f} {row['flipped']:8.2%} {row['columns'] / row['full']:8.2f} "
                    f"{row['margins'] / row['full']:8.2f} {row['computed']:8.1%} {row['margins'] / (p * once):8.2f}",
                    flush=True,
                )
    common.write_json(rows, options.json)


if __name__ == "__main__":
    main()
