"""Codes in PostgreSQL: bulk load, exact search by look-ups beside a scan and pgvector, refresh beside a full rewrite.

    python benchmarks/postgres.py [--n 1e6] [--queries 50] [--data cluster uniform classes] [--bits 64] [--k 10]
                                  [--modes multi scan pgvector hnsw ivfflat] [--items 1e5] [--memory 1GB] [--json FILE]

It starts its own servers, on loopback, with so much memory for pages: PostgreSQL as it is installed, and one with
pgvector where a mode needs that. Every answer of an exact mode is compared with that of FlatIndex, ties included; of an
approximate one the share of right distances is printed. Queries are asked one at a time, by the clock on the wall,
exact modes in turn; printed are medians, and how many times longer a scan of the same database takes, and then all
queries in one call. `--items` vectors of 512 floats are copied into a table beside the same bytes by a plain COPY, and
go through `PostgresIndex`: bulk load, and a refresh of 4 of 64 bits, beside one that reads rows out of tables as they
were made up to version 1.0 (vectors apart from their rows), and beside a full rewrite.

    cluster    signs of random projections of a Gaussian mixture, 1000 items a component
    uniform    all codes alike likely
    classes    100 centres, each bit flipped with a probability of 0.05, as supervised codes look
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace

import common
import numpy as np

from onlinehash import Codes, FlatIndex, OnlineHashing, PostgresIndex, refresh
from onlinehash.io import files
from onlinehash.stores.backend import Backend, Head, Layout
from onlinehash.stores.postgres import backend, creation, pgvector, rows
from onlinehash.stores.postgres.backend import PostgresBackend
from onlinehash.stores.postgres.chunks import Chunks
from onlinehash.stores.postgres.connections import Connection, connect
from onlinehash.stores.postgres.schema import ROW_BYTES, About, tables
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
    n, results = int(options.n), []
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
                results += searched(server, connection, kind, n, modes, options)
            if options.items and not extension:
                results.append(copied(connection, min(int(options.items), BATCH)))
                results.append(refreshed(server, int(options.items)))
            connection.close()
    common.write_json(results, options.json)


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
    rows = []
    together = {mode: batched(connection, searching, queries.rows(), options.k) for mode, searching in exact.items()}
    connection.execute(f"DROP SCHEMA {kind} CASCADE")
    for mode, took in seconds.items():
        row = facts | {"mode": mode, "ms": 1e3 * float(np.median(took)), "worst_ms": 1e3 * max(took)}
        if "scan" in seconds:
            row["times_scan"] = float(np.median(seconds["scan"]) / np.median(took))
        row["together_ms"] = 1e3 * together.get(mode, float("nan"))
        note = f"recall {right[mode]:.3f}, built in {facts[f'{mode}_build_s']:.0f} s" if mode in right else "exact"
        print(f"  {mode:9} {row['ms']:8.2f} ms a query (worst {row['worst_ms']:.1f}), "
              f"{row.get('times_scan', float('nan')):6.1f} times as fast as the scan; in one call "
              f"{row['together_ms']:.2f} ms; {note}", flush=True)  # fmt: skip
        rows.append(row | {"recall": right.get(mode, 1.0)})
    return rows


def loaded(
    server: PostgresServer, connection: Connection, schema: str, layout: Layout, codes: np.ndarray, extension: bool
) -> dict[str, float]:
    """All codes in a schema; rows in a second, and what their btrees take."""
    search = "pgvector" if extension else "multi"
    creation.create(server.address(), schema, layout, Head(0, {}), {}, search=search, shards=(), role=None)
    store = PostgresBackend(server.address(), schema)
    begin = time.perf_counter()
    with store.changing() as change:
        for start in range(0, len(codes), BATCH):
            places = np.arange(start, min(start + BATCH, len(codes)))
            change.add_codes(1, places, list(map(str, places)), codes[places])
        change.put_head(Head(1, {}))
    rate = len(codes) / (time.perf_counter() - begin)
    store.close()
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
        searching.nearest_all(connection, queries[:1], k, 1)
    seconds: dict[str, list[float]] = {mode: [] for mode in asked}
    found: dict[str, list] = {mode: [] for mode in asked}
    for query in queries:
        for mode, searching in asked.items():
            begin = time.perf_counter()
            (hits,) = searching.nearest_all(connection, query[None], k, 1)
            seconds[mode].append(time.perf_counter() - begin)
            found[mode].append(hits)
    return seconds, {
        mode: (np.array([[hit.place for hit in hits] for hits in lists]),
               np.array([[hit.distance for hit in hits] for hits in lists]))
        for mode, lists in found.items()
    }  # fmt: skip


def batched(connection: Connection, searching: Searching, queries: np.ndarray, k: int) -> float:
    """Seconds a query where all are asked in one call; the best of some."""
    seconds = []
    for _ in range(3):
        begin = time.perf_counter()
        searching.nearest_all(connection, queries, k, 1)
        seconds.append((time.perf_counter() - begin) / len(queries))
    return min(seconds)


# ------------------------------------------------------------------ items


def copied(connection: Connection, n: int) -> dict[str, float]:
    """Items in a second as they are added, and as the same bytes by a plain COPY, into equal tables, in turn."""
    X, _ = common.clusters(n, FEATURES)
    about = About(1, Layout(64, 1, "min"), 22, "multi", 0)
    connection.execute("CREATE SCHEMA copied")
    for statement in tables("copied", about):
        connection.execute(statement)
    places, ids = np.arange(n), list(map(str, range(n)))
    stream = [*encoded(rows.of_items(1, places, ids, X, [None] * n))]
    seconds: dict[str, list[float]] = {"ours": [], "plain": []}
    for _ in range(4):
        for name in seconds:
            connection.execute("TRUNCATE copied.items")
            begin = time.perf_counter()
            if name == "ours":
                rows.copy(connection, "copied.items", *rows.of_items(1, places, ids, X, [None] * n))
            else:
                statement = "COPY copied.items (place, born, died, vector, id, payload) FROM STDIN (FORMAT BINARY)"
                with connection.cursor() as cursor, cursor.copy(statement) as copying:
                    for block in stream:
                        copying.write(block)
            seconds[name].append(time.perf_counter() - begin)
    connection.execute("DROP SCHEMA copied CASCADE")
    rates = {name: n / min(took) for name, took in seconds.items()}
    print(f"\nCOPY of {n:,} items: {rates['ours']:,.0f} rows/s, a plain COPY of the same bytes "
          f"{rates['plain']:,.0f}; {rates['ours'] / rates['plain']:.2f} of it", flush=True)  # fmt: skip
    return {"data": "copy", "n": n} | rates


def encoded(columns: tuple[dict, dict]) -> list[bytes]:
    """The bytes that a copy sends."""

    class Caught(list):
        write = list.append

    caught = Caught()
    connection = SimpleNamespace(cursor=lambda: nullcontext(SimpleNamespace(copy=lambda text: nullcontext(caught))))
    rows.copy(connection, "", *columns)
    return caught


# ------------------------------------------------------------------ refresh


@contextmanager
def as_before(server: PostgresServer, schema: str) -> Iterator[None]:
    """Vectors apart from their rows, and a refresh that reads row by row, while inside."""
    coded, in_order = PostgresBackend.coded, backend._IN_ORDER
    with connect(server.address()) as connection:
        connection.execute(f"ALTER TABLE {schema}.items RESET (toast_tuple_target)")
        connection.execute(f"VACUUM FULL ANALYZE {schema}.items")
        PostgresBackend.coded, backend._IN_ORDER = Backend.coded, {}
        yield
        PostgresBackend.coded, backend._IN_ORDER = coded, in_order
        connection.execute(f"ALTER TABLE {schema}.items SET (toast_tuple_target = {ROW_BYTES})")
        connection.execute(f"VACUUM FULL ANALYZE {schema}.items")


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
        few, n_flipped = {}, {}
        for name, around in (("before", as_before(server, "items")), ("now", nullcontext())):
            fit = next(pair for pair in pairs if len(files.from_bytes(kept, "").learn_pair(*pair).bits) == 4)
            index.learn_pair(*fit)
            kept = files.to_bytes(index.learner)
            changed, flipped = index.behind.bits, index.bits_flipped
            with around:
                begin = time.perf_counter()
                index.refresh(wait=True)
                few[name], n_flipped[name] = time.perf_counter() - begin, index.bits_flipped - flipped
        encoder = index.encoder
    assert encoder is not None
    store = PostgresBackend(server.address(), "items")
    begin, head = time.perf_counter(), store.head()
    with store.changing() as change:
        for start in range(0, n, BATCH):
            page = store.coded(head.epoch, start, start + BATCH)
            vectors = np.frombuffer(page.vectors, np.float32).reshape(-1, FEATURES)
            change.end_codes(head.epoch + 1, page.places)
            change.add_codes(head.epoch + 1, page.places, list(map(str, page.places)), encoder.encode(vectors).rows())
        change.put_head(Head(head.epoch + 1, head.state))
    full = time.perf_counter() - begin
    store.close()
    print(f"\n{n:,} vectors of {FEATURES} floats through PostgresIndex: added {load:,.0f} rows/s")
    print(f"  refresh of {changed} of 64 bits ({n_flipped['now']:,} bits flipped): {few['now']:.1f} s; as before "
          f"({n_flipped['before']:,} flipped): {few['before']:.1f} s, {few['before'] / few['now']:.1f} times as long; "
          f"all codes written anew: {full:.1f} s, {full / few['now']:.1f} times as long", flush=True)  # fmt: skip
    return {"data": "refresh", "n": n, "added_per_s": load, "bits": changed, "full_s": full} | few


if __name__ == "__main__":
    main()
