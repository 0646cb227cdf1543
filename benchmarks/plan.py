"""Is a plan right? Indexes as large as fit here, beside what `onlinehash plan` says of them.

    python benchmarks/plan.py                                         20M codes, tables on 20M, 200,000 x 128 on a disk
    python benchmarks/plan.py --n 1e9 --tables 1e8 --live 5e5         a billion codes, in 16 GB of memory
    python benchmarks/plan.py --costs costs.toml                      with unit costs that `plan --measure` wrote

Unit costs are measured first, in this process, unless a file has them. Codes are those of made-up clusters, or of a
file's vectors, drawn in blocks. How far neighbours are is measured among a million of them, as users would do it
(`--distance --sample`); all else is predicted from the unit costs. Printed: what was predicted, what was measured, and
their ratio.
"""

from __future__ import annotations

import argparse
import gc
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import common
import grown
import numpy as np
from numba import njit
from scipy.special import ndtr

from onlinehash import Codes, FlatIndex, LiveIndex, MultiIndex, OnlineHashing, refresh
from onlinehash.codes.layout import LANES, aligned_planes
from onlinehash.planning import costs as unit_costs
from onlinehash.planning import distances, measurements, probes, sizes, times
from onlinehash.planning.costs import Costs
from onlinehash.planning.workload import K, Workload

BITS, N_QUERIES, SAMPLE, BATCH, DIM, ROWS = 64, 200, 1_000_000, 2000, 128, 200_000
CHANGED = 4

#: The log of the share of their noise that made-up vectors get: its mean and its spread.
MADE_UP_NOISE, MADE_UP_SPREAD = -0.8, 0.4

#: Predictions that are farther off than this are marked.
GOOD = 1.5


class Sheet:
    """Lines of what was predicted beside what was measured."""

    def __init__(self) -> None:
        self.rows: list[dict] = []
        print(f"{'':44} {'predicted':>12} {'measured':>12} {'ratio':>6}")

    def line(self, what: str, predicted: float, measured: float, unit: str) -> None:
        ratio = predicted / measured if measured else float("nan")
        mark = "" if 1 / GOOD <= ratio <= GOOD else "  <- off"
        self.rows.append({"what": what, "predicted": predicted, "measured": measured, "unit": unit, "ratio": ratio})
        print(f"{what:44} {_shown(predicted):>12} {_shown(measured):>12} {ratio:6.2f}  {unit}{mark}", flush=True)


def _shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=float, default=2e7, help="codes to scan")
    parser.add_argument(
        "--tables", type=float, help="codes in a MultiIndex: 53 bytes each; as many as --n if not given"
    )
    parser.add_argument("--live", type=float, default=2e5, help="items of a LiveIndex on a disk")
    parser.add_argument("--folder", type=Path, help="where that index goes; a temporary folder if there is none")
    parser.add_argument("--data", type=Path, help="npz with X, for codes of real vectors")
    parser.add_argument("--costs", help="a file of `onlinehash plan --measure`")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    print(common.machine())
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        begin = time.perf_counter()
        costs = unit_costs.read(options.costs) if options.costs else measurements.measure(Path(folder), show=told)
        told(f"unit costs after {time.perf_counter() - begin:.0f} s")
        sheet = Sheet()
        encoding(sheet, costs)
        live(sheet, costs, int(options.live), Path(folder) / "items")
        n = rounded(options.n)
        codes = clustered(n, 1, options.data)
        queries = clustered(rounded(N_QUERIES), 2, options.data)[:N_QUERIES]
        data = looked_at(sheet, codes, queries)
        scans(sheet, costs, codes, queries, data)
        few = min(n, rounded(options.tables or n))
        tables(sheet, costs, codes if few == n else codes[:few], queries, data)
        told(f"all after {time.perf_counter() - begin:.0f} s, at most {peak() / 1e9:.1f} GB")
    common.write_json(sheet.rows, options.json)


def told(text: str) -> None:
    """What is being done, apart from the figures."""
    print(f"  ... {text}", file=sys.stderr, flush=True)


def rounded(n: float) -> int:
    return -(-int(n) // LANES) * LANES


def resident() -> float:
    """Bytes of memory that this process has now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def peak() -> float:
    """The most that it ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def timed(run: Callable[[], object], repeats: int = 1, clock: Callable[[], float] = time.process_time) -> float:
    """The least seconds of several runs; of one thread's work those of the processor, as the unit costs are."""
    best = float("inf")
    for _ in range(repeats):
        begin = clock()
        run()
        best = min(best, clock() - begin)
    return best


# ------------------------------------------------------------------ codes


def clustered(n: int, seed: int, data: Path | None = None) -> Codes:
    """Codes of 10,000 vectors, each with noise as long as the way to its 10th neighbour, bit by bit.

    Made-up clusters lie closer together than real vectors; half of that noise, more for some and less for others, gives
    their codes the distances that those of real ones have.
    """
    X = (common.clusters(grown.N_VECTORS, 64) if data is None else common.read(data))[0][: grown.N_VECTORS]
    neighbours, reach = grown._tenth_neighbours(X)
    encoder = grown._learned(X, neighbours, BITS)
    gaps = X @ encoder.weights.T - encoder.thresholds
    if data is None:
        reach = reach * np.exp(np.random.default_rng(0).normal(MADE_UP_NOISE, MADE_UP_SPREAD, len(reach)))
    noise = reach[:, None] / np.sqrt(X.shape[1]) * np.linalg.norm(encoder.weights, axis=1)
    thresholds = np.round(256 * ndtr(-np.abs(gaps) / noise)).astype(np.uint8)
    words = np.packbits(gaps >= 0, axis=1, bitorder="little").view(np.uint64)[:, 0]
    planes = aligned_planes(n, BITS // 8)
    step = 1 << 16
    with ThreadPoolExecutor(2) as pool:
        starts = range(0, len(planes), step)
        done = pool.map(lambda s: _fill(planes[s : s + step], words, thresholds, np.uint64(seed << 40 | s)), starts)
        for i, _ in enumerate(done):
            if i % 50 == 0:
                told(f"{min(i * step * LANES, n):,} of {n:,} codes")
    return Codes.from_planes(planes, n, BITS)


@njit(nogil=True, cache=True)
def _next(state):  # type: ignore[no-untyped-def]
    """SplitMix64: the next state, and a random word."""
    state += np.uint64(0x9E3779B97F4A7C15)
    z = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state, z ^ (z >> np.uint64(31))


@njit(nogil=True, cache=True)
def _fill(planes, words, thresholds, seed):  # type: ignore[no-untyped-def]
    """A random vector's word for each code, with its bits flipped as often as their thresholds say."""
    state, _ = _next(seed)
    _, state = _next(state)  # so that neighbouring seeds have nothing in common
    for block in range(planes.shape[0]):
        for lane in range(planes.shape[2]):
            state, z = _next(state)
            row = z % np.uint64(words.shape[0])
            for j in range(planes.shape[1]):
                state, z = _next(state)
                flips = 0
                for i in range(8):
                    flips |= ((z >> np.uint64(8 * i)) & np.uint64(255) < thresholds[row, 8 * j + i]) << i
                planes[block, j, lane] = (words[row] >> np.uint64(8 * j)) & np.uint64(255) ^ np.uint64(flips)


# ------------------------------------------------------------------ what is compared


def encoding(sheet: Sheet, costs: Costs) -> None:
    """All bits of a sample of vectors, and a few."""
    for dim in (128, 512):
        work = Workload(ROWS, BITS, dim)
        X = np.random.default_rng(0).standard_normal((ROWS, dim)).astype(np.float32)
        encoder = OnlineHashing(n_bits=BITS, random_state=0).observe(X[:BATCH]).snapshot()
        codes = encoder.encode(X)
        spent = timed(lambda: encoder.encode(X), 3)
        sheet.line(f"encode {ROWS:,} x {dim}", times.encode(ROWS, work, costs), spent, "s")
        spent = timed(lambda: encoder.recode(codes, X, np.arange(CHANGED)), 3)
        sheet.line(f"{CHANGED} columns of {ROWS:,} x {dim}", times.recode(ROWS, CHANGED, work, costs), spent, "s")


def live(sheet: Sheet, costs: Costs, n: int, path: Path) -> None:
    """An index on a disk: filled, opened with tables, refreshed."""
    work, rng = Workload(n, BITS, DIM), np.random.default_rng(0)
    X, y = common.clusters(6000, DIM)
    A, B, similar = common.pairs(X, y)
    index = LiveIndex(OnlineHashing(n_bits=BITS, random_state=0), path=path, refresh=refresh.by_hand(), index="flat")
    begin = time.perf_counter()
    for start in range(0, n, BATCH):
        index.add(None, X[rng.integers(0, len(X), min(BATCH, n - start))])
        if start % (n // 10 // BATCH * BATCH or BATCH) == 0:
            told(f"{start:,} of {n:,} items on the disk")
    filled = time.perf_counter() - begin
    index.close()
    predicted = times.load(n, work, costs) - times.build(n, work, costs)
    sheet.line(f"fill a LiveIndex, {n:,} x {DIM}", predicted, filled, "s")
    size = sum(file.stat().st_size for file in path.iterdir())
    parts = sizes.on_disk(n, work, costs)
    sheet.line("  bytes of its folder", sum(parts.values()) - parts["log"], size, "bytes")
    gc.collect()
    before = resident()
    index = LiveIndex(OnlineHashing(n_bits=BITS, random_state=0), path=path, refresh=refresh.by_hand(), index="multi")
    taken = sizes.codes(n, work, costs) + sizes.tables(n, work, costs) + n * costs.memory.item
    top = Peak()
    for columns in (BITS, CHANGED):
        learn(index, A, B, similar, columns)
        changed = index.behind.bits
        spent = timed(index.refresh, clock=time.perf_counter)
        predicted = times.refresh(n, changed, work, costs, in_memory=True)
        sheet.line(f"  refresh of {changed} bits", predicted, spent, "s")
    index.close()
    most = taken + sizes.refreshing(n, work, costs)
    sheet.line("  its memory, refreshes included", most, top.most() - before, "bytes")


class Peak:
    """The most memory that this process has from now on, where the system lets us reset its own count."""

    def __init__(self) -> None:
        Path("/proc/self/clear_refs").write_text("5")

    def most(self) -> float:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(float(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def learn(index: LiveIndex, A: np.ndarray, B: np.ndarray, similar: np.ndarray, bits: int) -> None:
    """Pairs until so many bits have changed."""
    rng = np.random.default_rng(bits)
    while index.behind.bits < bits:
        t = rng.integers(len(A))
        index.learn_pair(A[t], B[t], similar[t])


def looked_at(sheet: Sheet, codes: Codes, queries: Codes) -> distances.Data:
    """What a million of the codes tell about all."""
    n = min(SAMPLE, len(codes))
    found = FlatIndex(codes[:n]).search(queries, K).distances[:, -1]
    told(f"the {K}th nearest of {n:,}: at a distance of {found.mean():.2f}, spread {found.std():.2f}")
    return distances.with_distance(float(found.mean()), n, K, BITS)


def scans(sheet: Sheet, costs: Costs, codes: Codes, queries: Codes, data: distances.Data) -> None:
    """Every code looked at."""
    n, work = len(codes), Workload(len(codes), BITS, 512, data=data)
    index = FlatIndex(codes)
    sheet.line(f"FlatIndex of {n:,}: bytes", sizes.codes(n, work, costs), index.nbytes, "bytes")
    few = queries[:64]
    found = index.search(few, K).distances[:, -1]
    sheet.line(f"  distance of the {K}th nearest", distances.mean_distance(n, K, BITS, data), found.mean(), "bits")
    spent = timed(lambda: index.search(few, K)) / len(few)
    sheet.line("  a query of a batch", times.scan(n, work, costs), spent, "s")
    spent = timed(lambda: index.search(queries[0], K), 3)
    sheet.line("  a query alone", times.scan(n, work, costs, together=False), spent, "s")


def tables(sheet: Sheet, costs: Costs, codes: Codes, queries: Codes, data: distances.Data) -> None:
    """Multi-index hashing."""
    n, work = len(codes), Workload(len(codes), BITS, 512, data=data)
    told(f"tables of {n:,} codes")
    MultiIndex(codes[:BATCH]).search(queries[:1], K)  # loads the kernels
    before = resident()
    top, begin = Peak(), time.process_time()
    index = MultiIndex(codes)
    spent = time.process_time() - begin
    sheet.line(f"MultiIndex of {n:,}: build", times.build(n, work, costs), spent, "s")
    taken = sizes.codes(n, work, costs) + sizes.tables(n, work, costs)
    sheet.line("  bytes", taken, index.nbytes, "bytes")
    most = sizes.tables(n, work, costs) + sizes.building(n, work, costs)
    sheet.line("  memory beyond the codes, while built", most, top.most() - before, "bytes")
    index.search(queries, K)
    spent = timed(lambda: index.search(queries, K), 3) / len(queries)
    found = index.search(queries, K).distances[:, -1]
    expected = probes.probes(n, K, BITS, sizes.widths(n, BITS), data)
    done = index.work
    sheet.line(f"  distance of the {K}th nearest", distances.mean_distance(n, K, BITS, data), found.mean(), "bits")
    sheet.line("  look-ups of a query", expected.look_ups, done.look_ups.mean(), "buckets")
    sheet.line("  candidates of a query", expected.candidates, done.candidates.mean(), "items")
    sheet.line("  a query of a batch", times.probe(n, work, costs), spent, "s")
    sheet.line("  a query alone", times.probe(n, work, costs, together=False), one_by_one(index, queries), "s")


def one_by_one(index: MultiIndex, queries: Codes) -> float:
    """Seconds of a query, each asked by itself."""
    return timed(lambda: [index.search(queries[q], K) for q in range(50)], 3) / 50


if __name__ == "__main__":
    main()
