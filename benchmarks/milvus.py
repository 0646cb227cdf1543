"""An index in Milvus's embedded engine beside LiveIndex: rows added in a second, exact search, answers compared.

    python benchmarks/milvus.py [--sizes 1e5 1e6] [--bits 64] [--features 16] [--queries 20] [--json FILE]

Both have the same learner and the same items, added in batches. A query is one vector, k = 10, by the clock on the
wall, as the engine is another process; the least of some repeats, all in turn. `engine` is the time that Milvus alone
takes for its ten nearest, with ties as they come: what is above it is the price of the same answers everywhere.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import common
import numpy as np

from onlinehash import LSH, LiveIndex, MilvusIndex
from onlinehash.stores.milvus.engine import Engine

K, BATCH = 10, 20_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=float, nargs="+", default=[1e5, 1e6])
    parser.add_argument("--bits", type=int, default=64)
    parser.add_argument("--features", type=int, default=16)
    parser.add_argument("--queries", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    print(common.machine())
    print(f"{'items':>10} {'bits':>5} {'Milvus rows/s':>14} {'LiveIndex rows/s':>17} {'Milvus ms':>10} "
          f"{'engine ms':>10} {'LiveIndex ms':>13} {'times LiveIndex':>16} {'times engine':>13}  equal")  # fmt: skip
    rows = []
    for n in map(int, options.sizes):
        with tempfile.TemporaryDirectory() as folder:
            row = measured(n, options, f"{folder}/items.db")
        rows.append(row)
        print(f"{n:10,} {options.bits:5} {row['milvus_rows']:14,.0f} {row['live_rows']:17,.0f} {row['milvus']:10.2f} "
              f"{row['engine']:10.2f} {row['live']:13.2f} {row['milvus'] / row['live']:16.1f} "
              f"{row['milvus'] / row['engine']:13.2f}  {row['equal']} of {options.queries}", flush=True)  # fmt: skip
    common.write_json(rows, options.json)


def measured(n: int, options: argparse.Namespace, address: str) -> dict[str, float]:
    """Rows in a second, and milliseconds a query."""
    X, _ = common.clusters(n + options.queries, options.features)
    items, queries = X[:n], X[n:]
    learner = LSH(n_bits=options.bits, random_state=0).fit(X[:2000])
    live = LiveIndex(learner)
    with MilvusIndex.create(address, learner) as index:
        added = {"milvus_rows": rate(index, items), "live_rows": rate(live, items)}
        equal = sum(same(index, live, query) for query in queries)
        engine, codes = Engine(address), learner.snapshot().codes_of(queries).rows()
        contenders = {
            "milvus": lambda: [index.search(query, K) for query in queries],
            "live": lambda: [live.search(query, K) for query in queries],
            "engine": lambda: [
                engine.search("onlinehash_codes", "code0", code.tobytes(), K, "", ["place"]) for code in codes
            ],
        }
        seconds = common.best(contenders, options.repeats)
        engine.close()
    return {"n": n, "bits": options.bits, "equal": equal} | added | {
        name: 1000 * value / len(queries) for name, value in seconds.items()
    }  # fmt: skip


def rate(index: Any, items: np.ndarray) -> float:
    """Items added in a second."""
    begin = time.perf_counter()
    for start in range(0, len(items), BATCH):
        index.add(None, items[start : start + BATCH])
    return len(items) / (time.perf_counter() - begin)


def same(index: MilvusIndex, live: LiveIndex, query: np.ndarray) -> bool:
    """Do both find the same items at the same distances in the same order?"""
    here, there = index.search(query, K), live.search(query, K)
    return np.array_equal(here.ids, there.ids) and np.array_equal(here.distances, there.distances)


if __name__ == "__main__":
    main()
