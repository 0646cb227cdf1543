"""Exact k nearest codes by look-ups: MultiIndex beside FlatIndex and FAISS's hash indexes.

Codes of real vectors (`--data FILE ...`, each grown to size by noise) and uniform ones. FAISS's hash indexes have no
stopping rule: they flip up to `nflip` bits and return what they met. So for the queries at hand the smallest nflip is
sought at which all distances are right, and that setting is timed.
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

from onlinehash import Codes, FlatIndex, MultiIndex

try:
    import faiss
except ImportError:
    faiss = None

#: Queries of a batch, and those of them that are asked one at a time too.
N_QUERIES, N_ALONE = 200, 20

#: The size up to which FAISS's hash indexes are built (they take minutes and gigabytes beyond), and their settings.
SMALL = 1_000_000
FAISS_TABLES = ((3, 21), (4, 16))
FAISS_BITS = 20
MOST_FLIPS = 3


def main() -> None:
    args = arguments()
    print(common.machine())
    results = []
    for n in map(int, args.sizes):
        for source in ["uniform", *args.data] if args.data else ["uniform", None]:
            name = source if source == "uniform" else source.stem if source else "clusters"
            codes, queries = drawn(source, n, args.bits)
            start = time.perf_counter()
            index = MultiIndex(codes)
            built = time.perf_counter() - start
            print(f"\n{name}, {n:,} codes of {args.bits} bits: {index.n_tables} tables, ", end="")
            print(f"{index.nbytes / n:.0f} bytes an item, built in {built:.2f} s, ", end="")
            print(f"one column replaced in {seconds_to_replace(index, codes):.2f} s")
            for k in (10, 100):
                row = {"data": name, "codes": n, "bits": args.bits, "k": k}
                row |= measured(index, FlatIndex(codes), queries, k, args.repeats)
                if faiss is not None and n <= SMALL and k == 10 and source != "uniform":
                    row |= faiss_hashes(codes, queries, k, args.repeats)
                results.append(row)
                print(shown(row), flush=True)
    common.write_json(results, args.json)


def arguments() -> argparse.Namespace:
    parser = common.search_arguments(__doc__.splitlines()[0])
    parser.add_argument("--bits", type=int, default=64)
    parser.add_argument("--data", type=Path, nargs="*", default=[], help="npz files with X, for codes of real vectors")
    return parser.parse_args()


def seconds_to_replace(index: MultiIndex, codes: Codes) -> float:
    """To give all items a new first bit, and the old one again."""
    planes = codes.planes.copy()
    planes[:, 0] ^= 1
    planes[-1, 0, (len(codes) - 1) % 64 + 1 :] = 0
    other = Codes.from_planes(planes, len(codes), codes.n_bits)
    seconds = []
    for new in (other, codes, other, codes):  # the first of them loads the kernels
        start = time.perf_counter()
        index.replace(new)
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def drawn(source: str | Path | None, n: int, n_bits: int) -> tuple[Codes, Codes]:
    """Codes, and more of the same kind as queries."""
    if source == "uniform":
        return grown.uniform(n, n_bits), grown.uniform(N_QUERIES, n_bits, seed=1)
    codes = grown.grown(source, n + N_QUERIES, n_bits)
    return codes[N_QUERIES:], codes[:N_QUERIES]


def measured(multi: MultiIndex, flat: FlatIndex, queries: Codes, k: int, repeats: int) -> dict[str, float]:
    """Seconds a query of both indexes, which must agree, for a batch and for one query at a time."""
    expected, found = flat.search(queries, k), multi.search(queries, k)
    assert np.array_equal(expected.ids, found.ids)
    assert np.array_equal(expected.distances, found.distances)
    work = multi.work
    seconds = common.best(searches(multi, flat, queries, k), repeats, time.process_time)
    return {name: value / (N_ALONE if "one" in name else len(queries)) for name, value in seconds.items()} | {
        "distance": float(expected.distances[:, -1].mean()),
        "look_ups": float(work.look_ups.mean()),
        "candidates": float(work.candidates.mean()),
        "scanned": float(work.scanned.mean()),
    }


def searches(multi: MultiIndex, flat: FlatIndex, queries: Codes, k: int) -> dict[str, Callable[[], object]]:
    """All queries in a batch, and the first few of them one at a time."""
    few = [queries[i] for i in range(N_ALONE)]
    return {
        "multi": lambda: multi.search(queries, k),
        "flat": lambda: flat.search(queries, k),
        "multi one": lambda: [multi.search(query, k) for query in few],
        "flat one": lambda: [flat.search(query, k) for query in few],
    }


def compared(seconds: float) -> Iterator[Pair]:
    """Look-ups beside a scan of the same codes, in so many seconds a set of codes and way to ask."""
    for name, source, n in (("1M clusters", None, 1_000_000), ("10M uniform", "uniform", 10_000_000)):
        codes, queries = drawn(source, n, 64)
        runs = searches(MultiIndex(codes), FlatIndex(codes), queries, 10)
        for what, of in (("one query", " one"), (f"{N_QUERIES} queries", "")):
            both = {contender: runs[contender] for contender in ("multi" + of, "flat" + of)}
            rounds = common.rounds(both, 3, time.process_time, seconds)
            yield pair(f"multi-index {name}, {what}: times faster than flat", rounds, "flat", "multi", "higher")


def faiss_hashes(codes: Codes, queries: Codes, k: int, repeats: int) -> dict[str, float]:
    """Seconds a query of FAISS's hash indexes at the smallest nflip that was exact here."""
    rows, asked = codes.to_faiss(), queries.to_faiss()
    expected = FlatIndex(codes).search(queries, k).distances
    indexes = {f"MultiHash {m} x {b}": faiss.IndexBinaryMultiHash(codes.n_bits, m, b) for m, b in FAISS_TABLES}
    indexes[f"Hash {FAISS_BITS}"] = faiss.IndexBinaryHash(codes.n_bits, FAISS_BITS)
    found: dict[str, float] = {}
    for name, index in indexes.items():
        index.add(rows)
        for nflip in range(MOST_FLIPS + 1):
            index.nflip = nflip
            if np.array_equal(index.search(asked, k)[0], expected):
                seconds = common.best({name: lambda: index.search(asked, k)}, max(1, repeats // 2), time.process_time)
                found[f"FAISS {name}, nflip {nflip}"] = seconds[name] / len(queries)
                break
        else:
            found[f"FAISS {name}, not exact at nflip {MOST_FLIPS}"] = float("nan")
    return found


def shown(row: dict[str, float]) -> str:
    lines = [
        f"  k = {row['k']:>3}: mean distance of the last {row['distance']:.1f}; {row['look_ups']:.0f} look-ups, "
        f"{row['candidates']:.0f} candidates, {row['scanned']:.0%} scanned"
    ]
    for what, of in (("batch", ""), ("one query", " one")):
        ours, flat = row["multi" + of], row["flat" + of]
        lines.append(f"    {what}: {1e6 * ours:.0f} us, flat {1e6 * flat:.0f} us a query: {flat / ours:.1f} times")
    for name in row:
        if name.startswith("FAISS"):
            lines.append(f"    {name}: {1e6 * row[name]:.0f} us a query: {row[name] / row['multi']:.1f} times")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
