"""Exact k nearest codes by a scan: FlatIndex beside FAISS, usearch and NumPy, and beside a plain read of memory.

One thread for everybody, in CPU seconds; then two threads of ours, by the clock on the wall. Gpair/s are billions of
distances in a second. FAISS is taken in the faster of its two modes (heap, counting), once at the width of the codes,
and once, as it is faster at some widths, with zeros up to the next of these. A plain read is the faster of NumPy's sum
and maximum over as many bytes. Our scan reads memory in the order chosen for this machine; *other order* is how many
times as long it takes in the other.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import common
import grown
import numpy as np
from ratio import Pair, pair

from onlinehash import Codes, FlatIndex, Hits
from onlinehash.index import scan

try:
    import faiss
except ImportError:
    faiss = None
try:
    from usearch.index import MetricKind
    from usearch.index import search as usearch_search
except ImportError:
    usearch_search = None

#: Sizes at which NumPy and usearch are shown too: they take seconds a query at ten times as many.
SMALL = 1_000_000
BATCH = 100

#: Widths that FAISS has code of its own for.
FAISS_WIDTHS = (64, 128, 256, 512)


def main() -> None:
    args = arguments()
    print(common.machine())
    print("our scan reads four streams" if scan.kernels is scan.IN_STREAMS else "our scan reads in order")
    if faiss is not None:
        print(f"FAISS {faiss.__version__}, {faiss.get_compile_options().strip()}")
    print(f"{'codes':>12} {'bits':>5} {'queries':>8} {'ours ms':>8} {'Gpair/s':>8} {'GB/s':>6} {'of a read':>9} "
          f"{'FAISS ms':>9} {'times':>6} {'padded':>7} {'2 threads':>10} {'other order':>11}  others")  # fmt: skip
    results = []
    for n in map(int, args.sizes):
        for n_bits in args.bits:
            codes = grown.uniform(n, n_bits) if args.uniform else grown.grown(args.data, n, n_bits)
            queries = grown.uniform(BATCH, n_bits, seed=1) if args.uniform else grown.grown(args.data, BATCH, n_bits, 1)
            for n_queries in (1, BATCH):
                row = measured(codes, queries[:n_queries], args.k, args.repeats)
                results.append(row)
                print(shown(row), flush=True)
    common.write_json(results, args.json)


def arguments() -> argparse.Namespace:
    parser = common.search_arguments(__doc__.splitlines()[0])
    parser.add_argument("--bits", type=int, nargs="+", default=[16, 24, 48, 64, 96, 128, 192, 256])
    parser.add_argument("-k", type=int, default=10)
    parser.add_argument("--uniform", action=argparse.BooleanOptionalAction, default=True, help="or codes of --data")
    parser.add_argument("--data", type=Path, help="npz with X, for codes of real vectors")
    return parser.parse_args()


def measured(codes: Codes, queries: Codes, k: int, repeats: int) -> dict[str, float]:
    """Seconds of everybody on the same codes and queries, and the answers compared."""
    two = FlatIndex(codes, n_jobs=2)
    contenders = scans(codes, queries, k)
    index = FlatIndex(codes)
    contenders["other order"] = lambda: in_the_other_order(index, queries, k)
    assert np.array_equal(index.search(queries, k).ids, in_the_other_order(index, queries, k).ids)
    if len(codes) <= SMALL:
        contenders |= slow_ones(codes, queries, k)
    seconds = common.best(contenders, repeats, time.process_time)
    walls = common.best({"one": contenders["ours"], "two": lambda: two.search(queries, k)}, repeats)
    pairs = len(codes) * len(queries)
    peers = {name: value for name, value in seconds.items() if name.startswith("faiss")}
    exact_width = [value for name, value in peers.items() if "padded" not in name]
    return {
        "codes": len(codes),
        "bits": codes.n_bits,
        "queries": len(queries),
        "ours": seconds["ours"],
        "gpairs": pairs / seconds["ours"] / 1e9,
        "of_a_read": min(seconds["read sum"], seconds["read max"]) / seconds["ours"],
        "faiss": min(exact_width, default=float("nan")),
        "faiss_padded": min(peers.values(), default=float("nan")),
        "two_threads": walls["one"] / walls["two"],
        "other_order": seconds["other order"] / seconds["ours"],
    } | {name: value for name, value in seconds.items() if name in ("NumPy", "usearch", *peers)}


def in_the_other_order(index: FlatIndex, queries: Codes, k: int) -> Hits:
    """What `index.search` gives, memory read in the order that is not this machine's."""
    chosen = scan.kernels
    scan.kernels = scan.IN_ORDER if chosen is scan.IN_STREAMS else scan.IN_STREAMS
    try:
        return index.search(queries, k)
    finally:
        scan.kernels = chosen


def scans(codes: Codes, queries: Codes, k: int) -> dict[str, Callable[[], object]]:
    """Our scan, FAISS's where it is installed, and a plain read of as many bytes."""
    index = FlatIndex(codes)
    words = np.ones(len(codes) * codes.n_planes // 8 + 1, np.uint64)
    return (
        {"ours": lambda: index.search(queries, k)}
        | (faiss_modes(codes, queries, k) if faiss is not None else {})
        | {"read sum": lambda: words.sum(), "read max": lambda: words.max()}
    )


def compared(seconds: float) -> Iterator[Pair]:
    """A scan beside FAISS and a plain read, in so many seconds a width and number of queries.

    One query goes over 128 MiB of codes, which no cache holds; a batch, which is bound by counting, over a million.
    """
    for n_bits in (64, 128, 256):
        queries = grown.uniform(BATCH, n_bits, seed=1)
        for n_queries, n_codes in ((1, (1 << 30) // n_bits), (BATCH, 1_000_000)):
            codes = grown.uniform(n_codes, n_bits)
            rounds = common.rounds(scans(codes, queries[:n_queries], 10), 3, time.process_time, seconds)
            what = f"flat {n_bits} bits, {'one query over 128 MiB' if n_queries == 1 else f'{n_queries} queries'}"
            if faiss is not None:
                yield pair(f"{what}: times faster than FAISS", rounds, "faiss", "ours", "higher")
            yield pair(f"{what}: over a read of memory", rounds, "ours", "read", "lower")


def faiss_modes(codes: Codes, queries: Codes, k: int) -> dict[str, Callable[[], object]]:
    """FAISS's exact binary index, by heaps and by counting, as it is and padded."""
    ours = FlatIndex(codes).search(queries, k).distances
    width = 8 * codes.n_planes
    modes: dict[str, Callable[[], object]] = {}
    for padded in sorted({width, next((fast for fast in FAISS_WIDTHS if fast >= width), width)}):
        rows, asked = (np.pad(c.to_faiss(), ((0, 0), (0, (padded - width) // 8))) for c in (codes, queries))
        index = faiss.IndexBinaryFlat(padded)
        index.add(rows)
        for mode in ("heap", "counting"):

            def search(index: faiss.IndexBinaryFlat = index, asked: np.ndarray = asked, mode: str = mode) -> np.ndarray:
                index.use_heap = mode == "heap"
                return index.search(asked, k)[0]

            assert np.array_equal(search(), ours)
            modes[f"faiss {mode}" + (f" padded to {padded}" if padded > width else "")] = search
    return modes


def slow_ones(codes: Codes, queries: Codes, k: int) -> dict[str, Callable[[], object]]:
    """NumPy's `bitwise_count`, picking by counts as we do, and usearch's exact search, for up to ten queries."""
    few, rows = queries[:10].to_faiss(), codes.to_faiss()
    expected = FlatIndex(codes).search(queries[:10], k)
    width = next(size for size in (8, 4, 2, 1) if rows.shape[1] % size == 0)
    words, asked = rows.view(f"u{width}"), few.view(f"u{width}")

    def by_numpy() -> list[np.ndarray]:
        found = []
        for query in asked:
            counts = np.bitwise_count(words ^ query)
            distances = counts[:, 0] if counts.shape[1] == 1 else counts.sum(axis=1, dtype=np.uint16)
            last = np.searchsorted(np.cumsum(np.bincount(distances)), k)
            near = np.flatnonzero(distances <= last)
            found.append(near[np.argsort(distances[near], kind="stable")[:k]])
        return found

    assert np.array_equal(by_numpy(), expected.ids)
    runs: dict[str, Callable[[], object]] = {"NumPy": by_numpy}
    if usearch_search is not None:
        runs["usearch"] = lambda: usearch_search(rows, few[:1], k, MetricKind.Hamming, exact=True, threads=1)
        assert np.array_equal(runs["usearch"]().distances.reshape(-1), expected.distances[0])
    return runs


def shown(row: dict[str, float]) -> str:
    of_a_read = f"{row['of_a_read']:.0%}" if row["queries"] == 1 else ""
    others = [f"FAISS {name[6:]} {1e3 * row[name]:.2f} ms" for name in row if name.startswith("faiss ")]
    for name, n_queries in (("NumPy", min(row["queries"], 10)), ("usearch", 1)):
        if name in row:
            others.append(f"{name} {1e3 * row[name] / n_queries:.1f} ms a query")
    return (
        f"{row['codes']:>12,} {row['bits']:>5} {row['queries']:>8} {1e3 * row['ours']:>8.2f} {row['gpairs']:>8.2f} "
        f"{row['gpairs'] * -(-row['bits'] // 8):>6.1f} {of_a_read:>9} {1e3 * row['faiss']:>9.2f} "
        f"{row['faiss'] / row['ours']:>6.1f} {row['faiss_padded'] / row['ours']:>7.1f} {row['two_threads']:>10.2f} "
        f"{row['other_order']:>11.2f}  "
        f"{', '.join(others)}"
    )


if __name__ == "__main__":
    main()
