"""Vectors that need not fit into memory: a durable live index is filled, refreshed, reopened and searched.

    python benchmarks/beyond_memory.py [--n 1e6] [--folder DIR] [--json FILE]

n x 512 float32 go in by 2,000, then pairs are learned until all bits have changed, and again until four have, and the
index is refreshed. Printed: seconds and MB/s of each step, and the most memory that the process ever had, beside the
bytes of the vectors and the memory it had before the first.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from pathlib import Path

import common
import numpy as np

from onlinehash import Hits, LiveIndex, OnlineHashing, refresh

D, BATCH = 512, 2000


def most_memory() -> float:
    """The most that this process ever had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def learn(index: LiveIndex, A: np.ndarray, B: np.ndarray, similar: np.ndarray, bits: int) -> None:
    """Pairs until so many bits have changed."""
    for t in range(len(A)):
        if index.behind.bits >= bits:
            return
        index.learn_pair(A[t], B[t], similar[t])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=float, default=1e6)
    parser.add_argument("--folder", type=Path, help="where the index goes; a temporary folder if there is none")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    n, rows = int(options.n), []
    X, y = common.clusters(6000, D)
    A, B, similar = common.pairs(X, y)
    megabytes, before = n * D * 4 / 1e6, most_memory()

    def step(name: str, begin: float) -> None:
        seconds = time.perf_counter() - begin
        rows.append({"step": name, "seconds": seconds, "memory": most_memory()})
        print(
            f"{name:34} {seconds:8.2f} s {megabytes / seconds:6.0f} MB/s, at most {most_memory():6.0f} MB", flush=True
        )

    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path = Path(folder) / "items"
        index = LiveIndex(OnlineHashing(n_bits=64, random_state=0), path=path, refresh=refresh.by_hand())
        print(f"{n} x {D} float32 are {megabytes:.0f} MB; the process had {before:.0f} MB before")
        begin = time.perf_counter()
        for start in range(0, n, BATCH):
            shift = np.float32(1 + start / n)  # rows that differ from batch to batch
            index.add(None, X[start % len(X) :][: min(BATCH, n - start)] * shift)
        step("fill by 2,000, each on the disk", begin)
        learn(index, A, B, similar, 64)
        begin = time.perf_counter()
        index.refresh()
        step("refresh, all bits changed", begin)
        learn(index, A[::-1], B[::-1], similar[::-1], 4)
        changed, begin = index.behind.bits, time.perf_counter()
        index.refresh()
        step(f"refresh, {changed} bits changed", begin)
        index.close()
        begin = time.perf_counter()
        index = LiveIndex.open(path)
        step("open", begin)
        begin = time.perf_counter()
        hits = index.search(X[:100], 10)
        print(f"{'100 queries':34} {time.perf_counter() - begin:8.2f} s")
        begin = time.perf_counter()
        index.rerank(X[0], Hits(hits.ids[0], hits.distances[0]))
        print(f"{'rerank of 10 hits':34} {1e3 * (time.perf_counter() - begin):8.2f} ms")
        index.close()
        size = sum(file.stat().st_size for file in path.iterdir())
        print(f"on the disk: {size / 1e6:.0f} MB; memory beyond what it had before: {most_memory() - before:.0f} MB")
    common.write_json(rows, options.json)


if __name__ == "__main__":
    main()
