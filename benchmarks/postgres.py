"""Codes in PostgreSQL: bulk load, exact search by look-ups beside a scan and pgvector, refresh beside a full rewrite.

    python benchmarks/postgres.py [--n 1e6] [--queries 50] [--data cluster uniform classes] [--bits 64] [--k 10]
                                  [--modes multi scan pgvector hnsw ivfflat] [--items 1e5] [--memory 1GB] [--json FILE]

It starts its own servers, on loopback, with so much memory for pages: PostgreSQL as it is installed, and one with
pgvector where a mode needs that. Every answer of an exact mode is compared with that of FlatIndex, ties included; of an
approximate one the share of right distances is printed. Queries are asked one at a time, by the clock on the wall,
exact modes in turn; printed are medians, and how many times longer a scan of the same database takes. `--items` vectors
of 512 floats go through `PostgresIndex`: bulk load, and a refresh of 4 of 64 bits beside a full rewrite.

    cluster    signs of random projections of a Gaussian mixture, 1000 items a component
    uniform    all codes alike likely
    classes    100 centres, each bit flipped with a probability of 0.05, as supervised codes look
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

import common
import numpy as np

from onlinehash import Codes, FlatIndex, OnlineHashing, PostgresIndex, refresh
from onlinehash.io import files
from onlinehash.stores.backend import Head, Layout
from onlinehash.stores.postgres import creation, pgvector
from onlinehash.stores.postgres.backend import PostgresBackend
from onlinehash.stores.postgres.chunks import Chunks
from onlinehash.stores.postgres.connections import Connection, connect
from onlinehash.stores.postgres.search import Searching

sys.path.insert(0, str(Path(__file__).parents[1]))  # the servers are those of the tests
from tests.servers import PostgresServer

BATCH, FEATURES = 50_000, 512
EXACT = ("multi", "scan", "pgvector")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=float, default=1e6)
    parser.add_argument("--queries", type=int, default=50)
    parser.add_argument("--data", nargs="+", default=list(KINDS), choices=list(KINDS))
    parser.add_argument("--modes", nargs="+", default=[*EXACT, *pgvector.APPROXIMATE])
    parser.add_argument("--bits", type=int, default=64)
    parser.add_argument("--k", type=int, default=10)
    parser.add_argument("--memory", default="1GB", help="shared_buffers of the servers, a quarter of a machine's or so")
    parser.add_argument("--items", type=float, default=1e5, help="vectors for the refresh; 0 leaves it out")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    n, rows = int(options.n), []
    print(common.machine())
    for extension in (False, True):
        modes = [mode for mode in options.modes if extension or mode in EXACT[:2]]
        if not set(modes) - (set(EXACT[:2]) if extension else set()):
            continue
        with PostgresServer(extension) as server:
            with connect(server.address()) as connection:
                connection.execute(f"ALTER SYSTEM SET shared_buffers = '{options.memory}'")
            server.kill()
            server.start()
            connection = connect(server.address())
            version = connection.info.server_version // 10_000
            print(f"\nPostgreSQL {version}{' with pgvector' if extension else ''}, {n:,} codes, k = {options.k}")
            for kind in options.data:
                rows += searched(server, connection, kind, n, modes, options)
            if options.items and not extension:
                rows.append(refreshed(server, int(options.items)))
            connection.close()
    common.write_json(rows, options.json)


# ------------------------------------------------------------------ codes


def uniform(rng: np.random.Generator, n: int, n_bits: int) -> np.ndarray:
    return rng.random((n, n_bits), np.float32) < 0.5


def cluster(rng: np.random.Generator, n: int, n_bits: int) -> np.ndarray:
    centres = rng.standard_normal((max(1, n // 1000), 64), np.float32)
    projection = rng.standard_normal((64, n_bits), np.float32)
    points = centres[rng.integers(0, len(centres), n)] + 0.5 * rng.standard_normal((n, 64), np.float32)
    return points @ projection > 0


def classes(rng: np.random.Generator, n: int, n_bits: int) -> np.ndarray:
    centres = uniform(rng, 100, n_bits)
    return centres[rng.integers(0, 100, n)] ^ (rng.random((n, n_bits), np.float32) < 0.05)


KINDS: dict[str, Callable[[np.random.Generator, int, int], np.ndarray]] = {
    "cluster": cluster,
    "uniform": uniform,
    "classes": classes,
}


# ------------------------------------------------------------------ search


def searched(
    server: PostgresServer, connection: Connection, kind: str, n: int, modes: list[str], options: argparse.Namespace
) -> list[dict]:
    """Load codes into tables of their own, and search them."""
    bits = KINDS[kind](np.random.default_rng(0), n + options.queries, options.bits)
    codes, queries = Codes.from_bits(bits[:n]), Codes.from_bits(bits[n:])
    layout = Layout(options.bits, 1, "min")
    facts = {"data": kind, "n": n} | loaded(server, connection, kind, layout, codes.rows(), "pgvector" in modes)
    print(f"\n{kind}: COPY {facts['rows_per_s']:,.0f} rows/s with all btrees; a btree of a chunk is built in "
          f"{facts['btree_s']:.1f} s; table {facts['table_mb']:.0f} MB, btrees "
          f"{facts['btrees_mb']:.0f} MB")  # fmt: skip
    expected = FlatIndex(codes).search(queries, options.k)
    seconds, right = {}, {}
    asked = {mode: Searching(layout, Chunks(layout), kind, mode) for mode in modes}
    exact = {mode: searching for mode, searching in asked.items() if mode in EXACT}
    took, found = in_turn(connection, exact, queries.rows(), options.k)
    for mode in exact:
        assert np.array_equal(found[mode][0], expected.ids), mode
        assert np.array_equal(found[mode][1], expected.distances), mode
    seconds |= took
    for mode in set(modes) - set(exact):
        for statement in pgvector.index_statements(kind, layout, mode):
            begin = time.perf_counter()
            connection.execute(statement)
            facts[f"{mode}_build_s"] = time.perf_counter() - begin
        took, found = in_turn(connection, {mode: asked[mode]}, queries.rows(), options.k)
        connection.execute(f"DROP INDEX {kind}.codes_code0_{mode}")
        right[mode] = float((found[mode][1] <= expected.distances[:, -1:]).mean())
        seconds |= took
    connection.execute(f"DROP SCHEMA {kind} CASCADE")
    rows = []
    for mode, took in seconds.items():
        row = facts | {"mode": mode, "ms": 1e3 * float(np.median(took)), "worst_ms": 1e3 * max(took)}
        if "scan" in seconds:
            row["times_scan"] = float(np.median(seconds["scan"]) / np.median(took))
        note = f"recall {right[mode]:.3f}, built in {facts[f'{mode}_build_s']:.0f} s" if mode in right else "exact"
        print(f"  {mode:9} {row['ms']:8.2f} ms a query (worst {row['worst_ms']:.1f}), "
              f"{row.get('times_scan', float('nan')):6.1f} times as fast as the scan; {note}", flush=True)  # fmt: skip
        rows.append(row | {"recall": right.get(mode, 1.0)})
    return rows


def loaded(
    server: PostgresServer, connection: Connection, schema: str, layout: Layout, codes: np.ndarray, extension: bool
) -> dict[str, float]:
    """All codes in a schema; rows in a second, and what their btrees take."""
    search = "pgvector" if extension else "multi"
    creation.create(server.address(), schema, layout, Head(0, {}), {}, search=search, shards=(), role=None)
    backend = PostgresBackend(server.address(), schema)
    begin = time.perf_counter()
    with backend.changing() as change:
        for start in range(0, len(codes), BATCH):
            places = np.arange(start, min(start + BATCH, len(codes)))
            change.add_codes(1, places, list(map(str, places)), codes[places])
        change.put_head(Head(1, {}))
    rate = len(codes) / (time.perf_counter() - begin)
    backend.close()
    btrees = [f"{schema}.codes_{name}" for name in Chunks(layout).columns]
    begin = time.perf_counter()
    for btree in btrees:
        connection.execute(f"REINDEX INDEX {btree}")
    built = (time.perf_counter() - begin) / len(btrees)
    connection.execute(f"VACUUM ANALYZE {schema}.codes")
    size = {name: size_of(connection, name) for name in (f"{schema}.codes", *btrees)}
    table = size.pop(f"{schema}.codes")
    return {"rows_per_s": rate, "btree_s": built, "table_mb": table, "btrees_mb": sum(size.values())}


def size_of(connection: Connection, relation: str) -> float:
    """Megabytes."""
    row = connection.execute("SELECT pg_relation_size(%s::regclass)", (relation,)).fetchone()
    assert row is not None
    return float(row[0]) / 1e6


def in_turn(
    connection: Connection, asked: dict[str, Searching], queries: np.ndarray, k: int
) -> tuple[dict[str, list[float]], dict[str, tuple[np.ndarray, np.ndarray]]]:
    """Seconds of each query in each mode; ids and distances."""
    for searching in asked.values():
        searching.nearest(connection, queries[0], k, 1)
    seconds: dict[str, list[float]] = {mode: [] for mode in asked}
    found: dict[str, list] = {mode: [] for mode in asked}
    for query in queries:
        for mode, searching in asked.items():
            begin = time.perf_counter()
            hits = searching.nearest(connection, query, k, 1)
            seconds[mode].append(time.perf_counter() - begin)
            found[mode].append(hits)
    return seconds, {
        mode: (np.array([[hit.place for hit in hits] for hits in lists]),
               np.array([[hit.distance for hit in hits] for hits in lists]))
        for mode, lists in found.items()
    }  # fmt: skip


# ------------------------------------------------------------------ refresh


def refreshed(server: PostgresServer, n: int) -> dict[str, float]:
    """Load vectors through the index, teach a pair that changes 4 of 64 bits, and follow; then write all codes anew."""
    X, y = common.clusters(n, FEATURES)
    A, B, similar = common.pairs(X[:20_000], y[:20_000])
    learner = OnlineHashing(64, random_state=0).partial_fit_pairs(A[:2500], B[:2500], similar[:2500])
    with PostgresIndex.create(server.address(), learner, refresh.by_hand(), schema="items") as index:
        begin = time.perf_counter()
        for start in range(0, n, BATCH):
            index.add(None, X[start : start + BATCH])
        load = n / (time.perf_counter() - begin)
        kept = files.to_bytes(index.learner)
        pairs = zip(A[2500:], B[2500:], similar[2500:].tolist(), strict=True)
        index.learn_pair(*next(pair for pair in pairs if len(files.from_bytes(kept, "").learn_pair(*pair).bits) == 4))
        changed, flipped = index.behind.bits, index.bits_flipped
        begin = time.perf_counter()
        index.refresh(wait=True)
        few, flipped = time.perf_counter() - begin, index.bits_flipped - flipped
        encoder = index.encoder
    assert encoder is not None
    backend = PostgresBackend(server.address(), "items")
    begin, head = time.perf_counter(), backend.head()
    after, done = -1, 0
    with backend.changing() as change:
        while done < n:
            rows = backend.rows(head.epoch, after=after, limit=BATCH, vectors=True)
            vectors = np.frombuffer(b"".join(rows.vectors), np.float32).reshape(-1, FEATURES)
            change.end_codes(head.epoch + 1, rows.places)
            change.add_codes(head.epoch + 1, rows.places, rows.ids, encoder.encode(vectors).rows())
            after, done = int(rows.places[-1]), done + len(rows.places)
        change.put_head(Head(head.epoch + 1, head.state))
    full = time.perf_counter() - begin
    backend.close()
    print(f"\n{n:,} vectors of {FEATURES} floats through PostgresIndex: added {load:,.0f} rows/s")
    print(f"  refresh of {changed} of 64 bits ({flipped:,} bits flipped): {few:.1f} s; all codes written anew: "
          f"{full:.1f} s; {full / few:.1f} times as long", flush=True)  # fmt: skip
    return {"data": "refresh", "n": n, "added_per_s": load, "bits": changed, "few_s": few, "full_s": full}


if __name__ == "__main__":
    main()
