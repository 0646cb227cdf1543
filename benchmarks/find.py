"""`find`: how good its first results are, what it costs, and how soon a mark shows.

    python benchmarks/find.py quality cifar10_deep512.npz mnist.npz
    python benchmarks/find.py marked cifar10_deep512.npz mnist.npz
    python benchmarks/find.py candidates cifar10_deep512.npz mnist.npz
    python benchmarks/find.py rounded cifar10_deep512.npz mnist.npz
    python benchmarks/find.py speed --n 2e4 1e6 --dims 512 --where memory disk --folder /tmp
    python benchmarks/find.py learning --dims 512
    python benchmarks/find.py effect --n 1500 1e5 1e6 --dims 128 --folder /tmp
    python benchmarks/find.py far --n 3e5 --dims 64
    python benchmarks/find.py early cifar10_deep512.npz mnist.npz
    python benchmarks/find.py stores cifar10_deep512.npz

Each file is an npz with X and y (and offset and scale, where X is quantised), taken as it is. The first 20,000 rows (of
a smaller set all but 1,000) are the items, the queries are the next 400 rows that have a mate among them. Precision@10
is the share of results with the query's label.

*quality*: users search for random items with `find` and mark the ten other results. The index is a `LiveIndex` with
its own learner and policy, so its codes are refreshed on the way.

float     exact search by the cosine, 4 bytes a value; nothing is learned.
byte      the same in one byte a value, which is what `find` takes beside a disk.
codes     `search`: the same index by its codes alone.
find      `find`: codes for candidates, then the learned metric.
adapter   exact search in float vectors after a linear map that is learned from the same marks
          (`onlinehash.experiments.adapter`), each of the maps after its own stage.

*marked*: 100 of the queries get marks on the ten results of `find`, one query after the other. Their precision@10
before and after, not counting what was marked, and with it; the same by Rocchio on floats (the query, plus the mean of
what was marked similar, less a quarter of the mean of what was not); and that of 200 other queries.

*candidates*: precision@10 without a mark, the share of queries whose first result is the nearest item by the cosine,
the share of the ten nearest that are among the candidates, and how many vectors are compared, by how many are compared
at first.

*rounded*: how many of ten results are those of float32, where vectors are kept in one or two bytes a value, and the
milliseconds, with the best few compared as they are stored and without.

Times are those in which the process had the core, so that other programs do not count, nor waits for a disk; of
*stores*, by the clock on the wall.

*speed*: milliseconds of one query, best of several rounds, of `find`, `search` and exact floats in NumPy and FAISS; and
bytes an item. Vectors are 32 clusters, so wide that many candidates are needed. *learning*: microseconds of a pair with
the metric and without.

*effect*: ten marks on the results of each of 30 queries, one at a time, half of them similar whatever they show, with
the default policy. How long `learn_pair` takes, with the refresh that it may bring; how long the next `find` takes,
which knows of it; after how many marks codes followed for the first time and how long that call took; and bits
recomputed for each mark.

*far*: 30 random items are marked similar to each of six queries. How many of them are among the first 10 and the first
30 results of the next `find`, and how long it takes, before the marks and after them.

*early*: the codes of an index of 1,500 items after the first marks on its results. Precision@10 of `search`, with the
codes that the index has, and with codes of 0, 0.1, 0.3 and all of what its learner has learned (`blend_` is what it
takes of it); other rows of the file are 400 queries.

*stores*: milliseconds of `search` and of `find` in PostgreSQL and in Milvus's embedded engine, and their ratio; of
`find` with vectors that were not compared before, and with those that were.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import common  # one BLAS thread, before NumPy is loaded
import numpy as np

from onlinehash import LiveIndex, MilvusIndex, PostgresIndex, refresh
from onlinehash.experiments.adapter import LinearAdapter
from onlinehash.learners import registry
from onlinehash.learners.blended_pairs import SHARES
from onlinehash.live import queries

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


def in_bytes(X: np.ndarray) -> np.ndarray:
    """What is left of vectors in one byte a value."""
    centre = X.mean(axis=0)
    step = np.maximum(np.abs(X - centre).max(axis=0) / 127, 1e-30)
    return np.asarray(centre + step * np.rint((X - centre) / step), np.float32)


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
    byte = data.precision(best_ten(unit(data.queries), unit(in_bytes(data.items))))
    d = data.items.shape[1]
    stored = {"float": 4 * d, "byte": d, "codes": 8, "find": 8 + 4 * d, "adapter": 4 * d}
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
    print("| marks | bytes an item | " + " | ".join(f"{stage:,}" for stage in STAGES) + " |")
    print("| --- | --- |" + " --- |" * len(STAGES))
    for name, value in (("float", exact), ("byte", byte)):
        print(f"| {name} | {stored[name]:,} | " + " | ".join(f"{value:.3f}" for _ in STAGES) + " |")
    for name, values in table.items():
        cells = [f"{m:.3f} ± {s:.3f}" if m == m else "" for m, s in zip(values.mean(0), values.std(0), strict=True)]
        print(f"| {name} | {stored[name]:,} | " + " | ".join(cells) + " |", flush=True)
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


def candidates(data: Data, seeds: int) -> None:
    """`seeds` is not used, as nothing is drawn."""
    index = LiveIndex(n_bits=64)
    index.add(None, data.items)
    U, V = unit(data.items), unit(data.queries)
    near, nearest = best_ten(V, U), (V @ U.T).argmax(axis=1)
    print(f"\n{data.name}: {len(data.items)} items\n")
    print("| at first | precision@10 | the nearest first | of the nearest ten | compared | ms |")
    print("| --- | --- | --- | --- | --- | --- |")
    for first in (64, 128, 256, 512, 1024, 2048):
        queries.FIRST = first
        with mock.patch.object(queries, "_add", wraps=queries._add) as add:  # through which all candidates go
            found = index.find(data.queries, K).ids
        n_compared = sum(len(call.args[1]) for call in add.call_args_list) / len(data.queries)
        reached = index.search(data.queries, int(n_compared)).ids
        recall = np.mean([np.isin(ten, some).mean() for ten, some in zip(near, reached, strict=True)])
        ms = 1e3 * best(lambda q: index.find(q, K), data.queries[:50])
        told = f"{data.precision(found):.4f} | {(found[:, 0] == nearest).mean():.4f} | {recall:.4f}"
        print(f"| {first} | {told} | {n_compared:.0f} | {ms:.2f} |", flush=True)


def rounded(data: Data, seeds: int) -> None:
    """`seeds` is not used, as nothing is drawn."""
    print(f"\n{data.name}: {len(data.items)} items\n\n| kept as | rescored | same of ten | precision@10 | ms |")
    print("| --- | --- | --- | --- | --- |")
    exact = np.empty(0)
    for precision, is_rescored in (("float32", False), ("float16", False), ("int8", False), ("int8", True)):
        with (
            tempfile.TemporaryDirectory() as path,
            LiveIndex(n_bits=64, path=Path(path) / "items", precision=precision, sync="batch") as index,
        ):
            index.add(None, data.items)
            finder = index._finder
            if not is_rescored:
                index._finder = lambda where, finder=finder: finder(where)._replace(exact=None)
            found = index.find(data.queries, K).ids
            exact = exact if len(exact) else found
            same = np.mean([np.isin(a, b).mean() for a, b in zip(exact, found, strict=True)])
            ms = 1e3 * best(lambda q: index.find(q, K), data.queries[:20])
        told = queries.LEAST_SETTLED if is_rescored else "none"
        print(f"| {precision} | {told} | {same:.4f} | {data.precision(found):.4f} | {ms:.2f} |", flush=True)


def clusters(n: int, d: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Items, and 50 queries like them."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((32, d)).astype(np.float32)
    X = np.empty((n + 50, d), np.float32)
    for start in range(0, len(X), 100_000):
        part = X[start : start + 100_000]
        rng.standard_normal(dtype=np.float32, out=part)
        part *= 0.7
        part += centres[rng.integers(32, size=len(part))]
    return X[50:], X[:50]


def filled(index: LiveIndex, items: np.ndarray) -> None:
    for start in range(0, len(items), 50_000):
        index.add(None, items[start : start + 50_000])


def speed(sizes: list[int], d: int, places: list[str], folder: Path) -> None:
    print("| items | | bytes an item | ms |\n| --- | --- | --- | --- |")
    for n in sizes:
        items, asked = clusters(n, d)

        def show(name: str, size: str, ask: Callable[[np.ndarray], Any], among: Any, n: int = n) -> None:
            print(f"| {n:,} | {name} | {size} | {1e3 * best(ask, among):.2f} |", flush=True)

        with tempfile.TemporaryDirectory(dir=folder) as path:
            for where in places:
                at = None if where == "memory" else Path(path) / "items"
                with LiveIndex(n_bits=64, path=at, sync="batch") as index:
                    filled(index, items)
                    size = f"8 + {4 * d}" if where == "memory" else f"8 + {d}, and {4 * d} on the disk"
                    show(f"find, vectors in {where}", size, lambda q: index.find(q, K), asked)
                    show(f"find, {where}, 16 at once, all", size, lambda q: index.find(q, K), [asked[:16]])
                    show(f"codes alone, {where}", "8", lambda q: index.search(q, K), asked)
        for start in range(0, n, 100_000):
            items[start : start + 100_000] = unit(items[start : start + 100_000])
        show("NumPy, exact cosine", f"{4 * d}", lambda q: np.argpartition(-(items @ q), K)[:K], unit(asked))
        try:
            import faiss
        except ImportError:
            continue
        faiss.omp_set_num_threads(1)
        flat = faiss.IndexFlatIP(d)
        flat.add(items)
        show("FAISS, exact cosine", f"{4 * d}", lambda q: flat.search(q[None], K), unit(asked))


def learning(d: int) -> None:
    """Microseconds of a pair, by learner, without the metric and with it."""
    X, _ = clusters(22_000, d)
    A, B = X[2000:12_000], X[12_000:]
    similar = (A * B).sum(axis=1) > 0
    print("| learner | us a pair | with the metric |\n| --- | --- | --- |")
    for name in (registry.RECOMMENDED, "OnlineHashing"):
        spent = []
        for keeps in (False, True):
            learner = registry.find(name)(n_bits=64, random_state=0)
            if keeps:
                learner.keep_metric()
            learner.observe(X[:2000]).partial_fit_pairs(A[:2000], B[:2000], similar[:2000])
            start = time.process_time()
            learner.partial_fit_pairs(A[2000:], B[2000:], similar[2000:])
            spent.append(1e6 * (time.process_time() - start) / 8000)
        print(f"| {name} | {spent[0]:.0f} | {spent[1]:.0f} |", flush=True)


def effect(sizes: list[int], d: int, places: list[str], folder: Path) -> None:
    print(
        "| items | where | learner | a mark, ms: median, most | find, ms | codes follow after | in a call of | "
        "bits a mark |\n| --- | --- | --- | --- | --- | --- | --- | --- |"
    )
    for n in sizes:
        items, asked = clusters(n, d)
        for where, name in itertools.product(places, (registry.RECOMMENDED, "OnlineHashing")):
            with tempfile.TemporaryDirectory(dir=folder) as path:
                at = None if where == "memory" else Path(path) / "items"
                with LiveIndex(registry.find(name)(n_bits=64, random_state=0), path=at) as index:
                    filled(index, items)
                    index.refresh()
                    print(f"| {n:,} | {where} | {name} | {marked_one_by_one(index, asked[:30])} |", flush=True)


def marked_one_by_one(index: LiveIndex, asked: np.ndarray) -> str:
    """Cells of the table of *effect*."""
    n_bits, n_refreshes = index.bits_rehashed, index.refreshes
    learned, found, first = [], [], f"not in {K * len(asked)} marks | "
    for query in asked:
        start = time.process_time()
        shown = index.find(query, K).ids
        found.append(1e3 * (time.process_time() - start))
        for id, vector in zip(shown.tolist(), index.vectors_of(shown), strict=True):
            start = time.process_time()
            index.learn_pair(query, vector, bool(id % 2))
            learned.append(1e3 * (time.process_time() - start))
            if index.refreshes > n_refreshes and first.startswith("not"):
                first = f"{len(learned)} marks | {learned[-1]:.0f} ms"
    bits = (index.bits_rehashed - n_bits) / len(learned)
    told = f"{np.median(learned):.1f}, {max(learned):.0f} | {np.median(found):.1f} | {first}"
    return f"{told} | {bits:,.0f} ({index.refreshes - n_refreshes} refreshes)"


def far(sizes: list[int], d: int, places: list[str], folder: Path) -> None:
    """Always in memory."""
    print("| items | before, ms | of 10 results | of 30 results | after, ms |\n| --- | --- | --- | --- | --- |")
    for n in sizes:
        items, asked = clusters(n, d)
        index, rng = LiveIndex(n_bits=64), np.random.default_rng(1)
        filled(index, items)
        for query in asked[:6]:
            before = 1e3 * best(lambda q: index.find(q, K), [query])
            marked = rng.choice(n, 30, replace=False)
            index.learn_pairs(np.tile(query, (30, 1)), items[marked], [True] * 30)
            shown = [np.isin(index.find(query, k).ids, marked).sum() for k in (K, 30)]
            after = 1e3 * best(lambda q: index.find(q, K), [query])
            print(f"| {n:,} | {before:.1f} | {shown[0]} | {shown[1]} | {after:.1f} |", flush=True)


def early(data: Data, seeds: int) -> None:
    n, stages = 1500, (0, 100, 200, 300)
    items, labels = data.items[:n], data.labels[:n]
    rest = n + np.flatnonzero(np.isin(data.labels[n:], labels))[:N_QUERIES]
    asked, right = data.items[rest], data.labels[rest, None]

    def precision(found: np.ndarray) -> float:
        return float((labels[found] == right).mean())

    rows = np.empty((seeds, len(stages), 3 + len(SHARES)))
    for seed in range(seeds):
        index, rng = LiveIndex(n_bits=64), np.random.default_rng(seed)
        index.add(None, items)
        index.refresh()
        for i, stage in enumerate(stages):
            while index.learner.n_pairs_seen_ < stage:
                query = int(rng.integers(n))
                shown = index.find(items[query], K + 1).ids
                for id in shown[shown != query][:K].tolist():
                    index.learn_pair(items[query], items[id], labels[id] == labels[query])
            learner = copy.deepcopy(index.learner).flush()
            rows[seed, i, :3] = index.refreshes - 1, learner.blend_, precision(index.search(asked, K).ids)
            for j, share in enumerate(SHARES):
                learner._blend = share
                learner._show(np.ones(learner.n_bits, np.bool_))
                W = learner._W[:, : items.shape[1]]
                A, B = (np.where((X - learner.mean_) @ W.T > 0, 1, -1).astype(np.float32) for X in (asked, items))
                rows[seed, i, 3 + j] = precision(np.argsort(-(A @ B.T), axis=1, kind="stable")[:, :K])
    exact = precision(best_ten(unit(asked), unit(items)))
    print(f"\n{data.name}: {n} items, {seeds} seeds; exact cosine {exact:.3f}\n")
    print("| marks | refreshes | blend_ | as published | " + " | ".join(f"{share:g} of it" for share in SHARES) + " |")
    print("| --- |" + " --- |" * (3 + len(SHARES)))
    for stage, (refreshes, blend, *values) in zip(stages, rows.mean(axis=0), strict=True):
        print(
            f"| {stage} | {refreshes:.1f} | {blend:.2f} | " + " | ".join(f"{v:.3f}" for v in values) + " |", flush=True
        )


def stores(data: Data, seeds: int) -> None:
    """`seeds` is not used, as nothing is drawn."""
    sys.path.insert(0, str(Path(__file__).parents[1]))  # the server is that of the tests
    from tests.servers import PostgresServer

    print(f"\n{data.name}: {len(data.items)} items of {data.items.shape[1]} values\n")
    print("| | search, ms | find, ms | of search | find again, ms | of search | same as in memory |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    live = LiveIndex(n_bits=64, refresh=refresh.by_hand())
    live.add(None, data.items)
    asked = data.queries[:10]

    def show(name: str, index: Any) -> None:
        def find_anew(query: np.ndarray) -> None:
            if hasattr(index, "_vectors"):  # of those that were compared before, none is known
                index._vectors = type(index._vectors)()
            index.find(query, K)

        clock = time.perf_counter  # as the database is another process
        searched, anew, again = (
            best(ask, asked, 5, clock) for ask in (lambda q: index.search(q, K), find_anew, lambda q: index.find(q, K))
        )
        same = np.mean([np.isin(live.find(q, K).ids, index.find(q, K).ids).mean() for q in asked])
        print(
            f"| {name} | {1e3 * searched:.2f} | {1e3 * anew:.2f} | {anew / searched:.1f} | {1e3 * again:.2f} | "
            f"{again / searched:.1f} | {same:.3f} |",
            flush=True,
        )

    show("memory", live)
    with PostgresServer() as server, PostgresIndex.create(server.address(), refresh=refresh.by_hand()) as index:
        filled(index, data.items)
        show("PostgreSQL", index)
    with (
        tempfile.TemporaryDirectory() as folder,
        MilvusIndex.create(f"{folder}/items.db", refresh=refresh.by_hand()) as index,
    ):
        filled(index, data.items)
        show("Milvus", index)


def best(
    ask: Callable[[np.ndarray], Any], queries: Any, rounds: int = 5, clock: Callable[[], float] = time.process_time
) -> float:
    """Seconds a query, of the best round of each; by default those in which this process had the core."""
    times = np.empty((rounds, len(queries)))
    for i, (n, query) in itertools.product(range(rounds), enumerate(queries)):
        start = clock()
        ask(query)
        times[i, n] = clock() - start
    return float(times.min(axis=0).mean())


def main() -> None:
    of_files = {"quality": quality, "marked": marked, "candidates": candidates, "rounded": rounded, "early": early}
    of_files["stores"] = stores
    of_sizes = {"speed": speed, "effect": effect, "far": far}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=[*of_files, *of_sizes, "learning"])
    parser.add_argument("files", type=Path, nargs="*")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--n", type=float, nargs="+", default=[2e4])
    parser.add_argument("--dims", type=int, default=512)
    parser.add_argument("--where", nargs="+", choices=["memory", "disk"], default=["memory", "disk"])
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    given = parser.parse_args()
    if given.what == "learning":
        learning(given.dims)
    elif given.what in of_sizes:
        of_sizes[given.what]([int(n) for n in given.n], given.dims, given.where, given.folder)
    for path in given.files:
        of_files[given.what](Data(path), given.seeds)


if __name__ == "__main__":
    main()
