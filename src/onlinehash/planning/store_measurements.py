"""Measures an index in a database through its own methods, with two widths of vectors and two numbers of items.

The index is created under a name of its own and removed.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from onlinehash.learners.online_hashing import OnlineHashing
from onlinehash.live import policies as refresh
from onlinehash.planning.costs import Encoding, Store

BITS, BATCH, NARROW, WIDE, QUERIES = 64, 2000, 64, 512, 20
ROWS = 20_000


class Figures(NamedTuple):
    """Of an index with vectors of one width: seconds, and bytes on the disk."""

    filled: float
    few: float  #: A query by scan, while there was a batch of items.
    many: float  #: A query by scan, when all were there.
    refreshed: float
    items: float
    codes: float


def postgres(address: str, encoding: Encoding, n: int = ROWS) -> Store:
    """In tables of PostgreSQL. What look-ups cost beside a scan is known from `benchmarks/postgres.py`."""
    from onlinehash.stores.postgres import multi_index
    from onlinehash.stores.postgres.connections import connect
    from onlinehash.stores.postgres.index import PostgresIndex

    @contextmanager
    def made(name: str, learner: Any) -> Iterator[tuple[Any, Callable[[], tuple[float, float]]]]:
        def sizes() -> tuple[float, float]:
            with connect(address) as connection:
                asked = "SELECT pg_total_relation_size(%s::regclass), pg_total_relation_size(%s::regclass)"
                row = connection.execute(asked, (f'"{name}".items', f'"{name}".codes')).fetchone()
                return (0.0, 0.0) if row is None else (float(row[0]), float(row[1]))

        try:
            with PostgresIndex.create(address, learner, refresh.by_hand(), schema=name, search="scan") as index:
                yield index, sizes
        finally:
            with connect(address) as connection:
                connection.execute(f'DROP SCHEMA IF EXISTS "{name}" CASCADE')

    store = _store(_figures(made, n, NARROW), _figures(made, n, WIDE), n, encoding)
    look_up, fetch = store.scan_item * multi_index.LOOK_UP, store.scan_item * multi_index.FETCH
    return Store(**vars(store) | {"look_up": look_up, "compare": fetch})


def milvus(address: str, encoding: Encoding, n: int = ROWS) -> Store:
    """In collections of Milvus, which scans; what they take on a disk is seen where that is a file of our own."""
    from onlinehash.stores.backend import Layout
    from onlinehash.stores.milvus.engine import Engine
    from onlinehash.stores.milvus.index import MilvusIndex
    from onlinehash.stores.milvus.tables import Tables

    @contextmanager
    def made(name: str, learner: Any) -> Iterator[tuple[Any, Callable[[], tuple[float, float]]]]:
        is_file = address.endswith(".db")
        file = Path(address).with_name(f"{name}.db")  # a new one, as a file keeps the room of what is gone
        place = str(file) if is_file else address

        def sizes() -> tuple[float, float]:
            codes = float(n * BITS / 8)
            return (file.stat().st_size - codes if is_file else 0.0), codes

        try:
            with MilvusIndex.create(place, learner, refresh.by_hand(), name=name) as index:
                yield index, sizes
        finally:
            if is_file:
                for left in file.parent.glob(f"*{name}*"):  # its lock too
                    left.unlink()
            else:
                engine = Engine(place)
                for collection in Tables(name).fields(Layout(BITS, 1, "min")):
                    engine.drop(collection)
                engine.close()

    return _store(_figures(made, n, NARROW), _figures(made, n, WIDE), n, encoding)


MEASURES: dict[str, Callable[..., Store]] = {"postgres": postgres, "milvus": milvus}


def _figures(made: Callable[[str, Any], Any], n: int, dim: int) -> Figures:
    """Fill an index of this width, search it while it is small and when it is large, refresh it."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((BATCH, dim)).astype(np.float32)
    learner = OnlineHashing(n_bits=BITS, random_state=0).observe(X)
    with made(f"plan_{secrets.token_hex(4)}", learner) as (index, sizes):
        index.add(None, X)
        few = _query(index, X)
        begin = time.perf_counter()
        for start in range(BATCH, n, BATCH):
            index.add(None, X[: min(BATCH, n - start)])
        filled = (time.perf_counter() - begin) * n / (n - BATCH)
        many = _query(index, X)
        items, codes = sizes()
        while index.behind.bits < BITS:
            index.learn_pairs(X[:100], X[100:200], rng.random(100) < 0.5)
        begin = time.perf_counter()
        index.refresh()
        return Figures(filled, few, many, time.perf_counter() - begin, items, codes)


def _query(index: Any, X: np.ndarray) -> float:
    """Seconds of a query that comes alone: the least of several."""
    best = float("inf")
    for query in X[:QUERIES]:
        begin = time.perf_counter()
        index.search(query, 10)
        best = min(best, time.perf_counter() - begin)
    return best


def _store(narrow: Figures, wide: Figures, n: int, encoding: Encoding) -> Store:
    """The difference of two widths tells what a byte costs, the rest what an item does."""
    more_bytes = 4 * (WIDE - NARROW)
    encoded = (encoding.value + BITS * encoding.product) / 4  # ns for a byte of a vector

    def split(small: float, large: float) -> tuple[float, float]:
        """For an item and for a byte."""
        byte = max(large - small, 0.0) / n / more_bytes
        return max(small / n - 4 * NARROW * byte, 0.0), byte

    item, vector_byte = split(narrow.items, wide.items)
    write_item, write_byte = split(1e9 * narrow.filled, 1e9 * wide.filled)
    refresh_item, read_byte = split(1e9 * narrow.refreshed, 1e9 * wide.refreshed)
    # Where a scan is nothing beside the query itself, noise must not say that it costs nothing.
    scan_item = 1e9 * max((wide.many - wide.few) / (n - BATCH), wide.many / n / 10)
    return Store(
        item=item,
        vector_byte=vector_byte,
        code=narrow.codes / n,
        write_item=write_item,
        write_byte=max(write_byte - encoded, 0.0),
        read_byte=max(read_byte - encoded, 0.0),
        refresh_item=refresh_item,
        scan_item=scan_item,
        query=max(1e9 * wide.few - BATCH * scan_item, 0.0),
        look_up=0.0,
        compare=0.0,
    )
