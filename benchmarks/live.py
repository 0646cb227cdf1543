"""What additions cost those who search: a reader and a writer on one live index in memory.

    python benchmarks/live.py [--n 1e6] [--seconds 4] [--json FILE]

One thread searches without a pause, one query at a time and 64 at a time; another adds 1,000 items a second in batches
of 10, or nothing. Rounds with and without additions take turns, and each is compared with the one before it: printed is
what additions take of the searches' throughput, the median of all rounds and their range. Also the time of an `add`.
"""

from __future__ import annotations

import argparse
import threading
import time
from pathlib import Path

import common
import numpy as np

from onlinehash import LiveIndex, OnlineHashing

BATCH, PER_SECOND = 10, 1000


class Adder(threading.Thread):
    """Adds batches at a steady pace until it is told to stop."""

    def __init__(self, index: LiveIndex, rows: np.ndarray) -> None:
        super().__init__()
        self.index, self.rows = index, rows
        self.added, self.stop = 0, threading.Event()

    def run(self) -> None:
        begin = time.perf_counter()
        while not self.stop.is_set():
            self.index.add(None, self.rows[self.added % len(self.rows) :][:BATCH])
            self.added += BATCH
            time.sleep(max(0.0, begin + self.added / PER_SECOND - time.perf_counter()))


def searches(index: LiveIndex, queries: np.ndarray, seconds: float) -> float:
    """Queries answered in a second."""
    done, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < seconds:
        index.search(queries, 10)
        done += 1 if queries.ndim == 1 else len(queries)
    return done / (time.perf_counter() - begin)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=float, default=1e6)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    n = int(options.n)
    X, y = common.clusters(min(n, 50_000) + 1000, 128)
    index = LiveIndex(OnlineHashing(n_bits=64, random_state=0))
    index.learn_pairs(*common.pairs(X[:5000], y[:5000]))
    for start in range(0, n, 50_000):
        index.add(None, X[: min(50_000, n - start)])
    rows, queries = np.ascontiguousarray(X[-1000:]), np.ascontiguousarray(X[:64])
    print(f"{len(index)} items, 64 bits, {common.machine()}")
    times = common.best({"add": lambda: index.add(None, rows[:BATCH])}, 50)
    print(f"one call of add, {BATCH} items: {times['add'] * 1e3:.2f} ms")
    found = []
    for name, asked in (("one query", queries[0]), ("64 queries", queries)):
        rounds = []
        index.search(asked, 10)
        for _ in range(options.rounds):
            alone = searches(index, asked, options.seconds)
            adder = Adder(index, rows)
            adder.start()
            begin = time.perf_counter()
            beside = searches(index, asked, options.seconds)
            adder.stop.set()
            adder.join()
            rounds.append((alone, beside, adder.added / (time.perf_counter() - begin)))
        costs = sorted(1 - beside / alone for alone, beside, _ in rounds)
        alone, beside, pace = np.median(rounds, axis=0)
        print(
            f"{name:10}: {alone:8.0f} queries/s alone, {beside:8.0f} beside {pace:.0f} additions/s, which cost "
            f"{np.median(costs):.1%} of the throughput ({costs[0]:.1%} to {costs[-1]:.1%})"
        )
        found.append({"queries": name, "alone": alone, "beside": beside, "additions": pace, "costs": costs})
    common.write_json(found, options.json)


if __name__ == "__main__":
    main()
