"""Measures the unit costs of this machine by building and searching small indexes."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from onlinehash.codes import Codes
from onlinehash.index.flat import FlatIndex
from onlinehash.index.items import Items
from onlinehash.index.multi_index import MultiIndex
from onlinehash.index.substrings import cut
from onlinehash.learners.locality_sensitive import LSH
from onlinehash.live.margins import Margins
from onlinehash.numeric.threads import cpu_count
from onlinehash.planning import disk_measurements
from onlinehash.planning.costs import Costs, Encoding, Memory, Search, Store

BITS, WORD = 64, 8
SHORT = 64  # values of a short row

#: How often `measure` says what it is about to do.
N_STEPS = 6

Show = Callable[[str], None]


@dataclass(frozen=True)
class Sizes:
    """How much is measured with: the more, the longer it takes and the better caches are told from memory.

    `small` and `middle` must give tables of the same widths, so that their buckets differ in nothing but their size.
    """

    small: int = 1 << 21
    middle: int = 1 << 23
    large: int = 1 << 26
    rows: int = 50_000
    durable_rows: int = 100_000
    radius: int = 12
    queries: int = 64
    repeats: int = 5
    patience: float = 0.5  # seconds that runs of one thing take together, at least


def measure(
    folder: Path,
    sizes: Sizes | None = None,
    show: Show = lambda text: None,
    stores: Mapping[str, Callable[[Encoding], Store]] | None = None,
) -> Costs:
    """All of them; a durable index is made in the folder, and removed.

    Stores come first, each measured by its function, as they may turn out not to be there.
    """
    sizes = sizes or Sizes()
    process = float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024))
    show("encoding")
    encoding = _encoding(sizes)
    measured: dict[str, Any] = {}
    for name, of_store in (stores or {}).items():
        show(name)
        measured[name] = of_store(encoding)
    show("codes and ids in memory")
    memory = _memory(sizes)
    search = _search(sizes, show)
    show("a live index on the disk")
    live, disk = disk_measurements.measure(folder, sizes.durable_rows, encoding)
    return Costs(_machine(), Memory(**memory, **live, process=process), disk, encoding, search, **measured)


def _machine() -> str:
    from onlinehash.experiments.measurement import machine

    return f"{machine()}, {cpu_count()} cores"


def seconds(run: Callable[[], object], sizes: Sizes, clock: Callable[[], float] = time.process_time) -> float:
    """The minimum of several runs (more for short ones), in CPU time, which excludes other programs."""
    run()
    best, runs, spent = float("inf"), 0, 0.0
    while runs < sizes.repeats or spent < sizes.patience:
        begin = clock()
        run()
        took = clock() - begin
        best, runs, spent = min(best, took), runs + 1, spent + took
    return best


def uniform(n: int, seed: int = 0) -> Codes:
    """Codes of independent fair bits, for which buckets are as full as one would think."""
    return Codes.from_faiss(np.random.default_rng(seed).integers(0, 256, (n, WORD), np.uint8), BITS)


# ------------------------------------------------------------------ memory


def _memory(sizes: Sizes) -> dict[str, float]:
    """Bytes of the arrays of real indexes; two lengths of codes tell rows from tables."""
    n, codes = sizes.rows, uniform(sizes.rows)
    ids = np.random.default_rng(1).permutation(2 * n)[:n]
    plain, named = Items(codes), Items(codes, ids)
    named.ids.find(ids[:1])  # makes the table that finds them
    slots = 1 << (n * 8 // 5).bit_length()
    multi = MultiIndex(codes)
    ends = cut(BITS, n)
    m, buckets = len(ends) - 1, 1 << int(np.diff(ends).max())
    tables = multi.tables
    return {
        "mask": (plain.nbytes - codes.planes.nbytes) / n,
        "entry": (tables.positions.nbytes + tables.words.nbytes) / (n * m),
        "bucket": tables.offsets.nbytes / (m * buckets),
        "row": float(MultiIndex(Codes.from_bits(np.zeros((64, 65), np.bool_))).tables.rows.nbytes / 64 / 2),
        "id": float(ids.itemsize),
        "slot": (named.nbytes - plain.nbytes - ids.nbytes) / slots,
        "margin": _margin(),
    }


def _margin() -> float:
    """Bytes of a margin, of some items that have them."""
    X = np.random.default_rng(0).standard_normal((640, 8)).astype(np.float32)
    encoder = _encoder(X, BITS)
    margins = Margins(encoder)
    margins.append(margins.encode(encoder, X)[1])
    return margins.nbytes / (len(X) * BITS)


# ------------------------------------------------------------------ encoding


def _encoding(sizes: Sizes) -> Encoding:
    """Two numbers of bits, and of columns, tell what a value costs from what a product does; short rows the rest."""
    dim, rng = 512, np.random.default_rng(0)
    X = rng.standard_normal((sizes.rows, dim)).astype(np.float32)
    values = 1e-9 * X.size
    few, many = (_encoder(X, bits) for bits in (64, 128))
    all_few = seconds(lambda: few.encode(X), sizes) / values
    all_many = seconds(lambda: many.encode(X), sizes) / values
    product = max(all_many - all_few, 0.1 * all_few) / 64
    codes = few.encode(X)
    one, some = (seconds(partial(few.recode, codes, X, np.arange(columns)), sizes) / values for columns in (1, 16))
    some_product = max(some - one, 0.0) / 15
    some_value = max(one - some_product, 0.0)
    short = np.ascontiguousarray(X[:, :SHORT])
    of_short, columns = _encoder(short, BITS), np.arange(16)
    spent = seconds(partial(of_short.recode, of_short.encode(short), short, columns), sizes) / sizes.rows * 1e9
    return Encoding(
        value=max(all_few - 64 * product, 0.0),
        product=product,
        some_value=some_value,
        some_product=some_product,
        some_bit=max(spent - SHORT * (some_value + 16 * some_product), 0.0) / 16,
    )


def _encoder(X: np.ndarray, bits: int) -> Any:
    return LSH(n_bits=bits, random_state=0).observe(X[:2000]).snapshot()


# ------------------------------------------------------------------ search


def _search(sizes: Sizes, show: Show) -> Search:
    """Look-ups and comparisons are told apart by buckets of two sizes, memory from caches by two numbers of items."""
    queries = uniform(sizes.queries, seed=1)
    small, middle, large = (_tables(n, queries, sizes, show) for n in (sizes.small, sizes.middle, sizes.large))
    compare = max(middle.per_look_up - small.per_look_up, 0.0) / (middle.in_bucket - small.in_bucket)
    return Search(
        small=float(sizes.small),
        large=float(sizes.large),
        query=large.query,
        alone=large.alone,
        look_up_small=max(small.per_look_up - compare * small.in_bucket, 1.0),
        look_up_large=max(large.per_look_up - compare * large.in_bucket, 1.0),
        compare=compare,
        sort_small=small.sort,
        sort_large=large.sort,
        **_scans(FlatIndex(uniform(sizes.middle)), queries, sizes),
    )


class _Tables(NamedTuple):
    """What tables of one size cost, in ns, and how many items a bucket has."""

    sort: float
    query: float
    alone: float
    per_look_up: float
    in_bucket: float


def _tables(n: int, queries: Codes, sizes: Sizes, show: Show) -> _Tables:
    """Build them, and search within a radius, for which look-ups are known; one of 0 costs hardly any."""
    show(f"look-ups in {n:,} codes")
    codes = uniform(n)
    begin = time.process_time()
    index = MultiIndex(codes)
    sort = (time.process_time() - begin) / n / index.n_tables
    base = seconds(lambda: index.within(queries, 0), sizes) / sizes.queries
    alone = seconds(lambda: index.within(queries[0], 0), sizes)
    spent = seconds(lambda: index.within(queries, sizes.radius), sizes) / sizes.queries
    look_ups, candidates = float(index.work.look_ups.mean()), float(index.work.candidates.mean())
    per_look_up = max(spent - base, 0.0) / look_ups
    return _Tables(1e9 * sort, 1e9 * base, 1e9 * alone, 1e9 * per_look_up, candidates / look_ups)


def _scans(index: FlatIndex, queries: Codes, sizes: Sizes) -> dict[str, float]:
    """One query, a batch, and a batch on all cores."""
    n_bytes = 1e-9 * len(index) * WORD
    cores = cpu_count()
    one = seconds(lambda: index.search(queries[0], 10), sizes)
    many = seconds(lambda: index.search(queries, 10), sizes)
    alone = seconds(lambda: index.search(queries, 10), sizes, time.perf_counter)
    index.n_jobs = cores
    shared = seconds(lambda: index.search(queries, 10), sizes, time.perf_counter)
    together = 1.0 if cores == 1 else min(max((alone / shared - 1) / (cores - 1), 0.0), 1.0)
    return {"scan_one": one / n_bytes, "scan_many": many / n_bytes / sizes.queries, "together": together}
