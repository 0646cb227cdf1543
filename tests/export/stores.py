"""How each store that runs in a process is asked for the nearest codes, as docs/how-to/stores.md shows it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from onlinehash import Codes
from onlinehash.export.qdrant import point_id

Answer = list[tuple[Any, int]]  # ids and distances


class Store(NamedTuple):
    """The kind of an export, the libraries it needs, where to put it, and how to read and search what was written."""

    to: str
    modules: tuple[str, ...]
    nearest: Callable[[Any, Codes, int], Answer]
    contents: Callable[[Any], dict[Any, Any]]
    place: Callable[[Path], Any] = lambda path: path


def in_duckdb(path: Path, code: Codes, k: int) -> Answer:
    import duckdb

    with duckdb.connect(str(path), read_only=True) as database:
        return database.execute(
            "SELECT id, bit_count(xor(code, ?::BIT)) AS distance FROM items ORDER BY distance LIMIT ?",
            [code.to_pgvector()[0], k],
        ).fetchall()


def all_of_duckdb(path: Path) -> dict[Any, Any]:
    import duckdb

    with duckdb.connect(str(path), read_only=True) as database:
        return {row[0]: row[1:] for row in database.execute("SELECT id, code::VARCHAR, payload FROM items").fetchall()}


def sqlite_with_vec(path: Path) -> Any:
    import apsw
    import sqlite_vec

    database = apsw.Connection(str(path))
    database.enable_load_extension(True)
    database.load_extension(sqlite_vec.loadable_path())
    return database


def in_sqlite_vec(path: Path, code: Codes, k: int) -> Answer:
    with closing(sqlite_with_vec(path)) as database:
        found = database.execute(
            "SELECT id, distance FROM items WHERE code MATCH vec_bit(?) AND k = ? ORDER BY distance",
            (code.to_packbits().tobytes(), k),
        )
        return [(id, int(distance)) for id, distance in found]


def all_of_sqlite_vec(path: Path) -> dict[Any, Any]:
    with closing(sqlite_with_vec(path)) as database:
        return {row[0]: row[1:] for row in database.execute("SELECT id, code, payload FROM items")}


def lance_table(path: Path) -> Any:
    import lancedb

    return lancedb.connect(str(path)).open_table("items")


def in_lancedb(path: Path, code: Codes, k: int) -> Answer:
    query = lance_table(path).search(code.to_packbits()[0], vector_column_name="code").distance_type("hamming")
    return [(row["id"], int(row["_distance"])) for row in query.limit(k).to_list()]


def all_of_lancedb(path: Path) -> dict[Any, Any]:
    return {row["id"]: (row["code"], row["payload"]) for row in lance_table(path).to_arrow().to_pylist()}


def qdrant_in_memory(path: Path) -> Any:
    from qdrant_client import QdrantClient

    return QdrantClient(":memory:")  # on a disk, its local mode waits for the disk at every point


def in_qdrant(client: Any, code: Codes, k: int) -> Answer:
    found = client.query_points("items", code.to_signs()[0].tolist(), limit=k).points
    return [(point.payload["id"], round((code.n_columns - point.score) / 2)) for point in found]


def all_of_qdrant(client: Any) -> dict[Any, Any]:
    points = client.scroll("items", limit=10**6, with_vectors=True)[0]
    assert all(point.id == point_id(point.payload["id"]) for point in points)
    return {point.payload["id"]: (point.vector, point.payload["payload"]) for point in points}


def milvus_file(path: Path) -> Path:
    return path.with_suffix(".db")


def milvus(path: Path) -> Any:
    from pymilvus import MilvusClient

    return closing(MilvusClient(str(path), dedicated=True))


def in_milvus(path: Path, code: Codes, k: int) -> Answer:
    with milvus(path) as client:
        (hits,) = client.search("items", [code.to_packbits()[0].tobytes()], limit=k, output_fields=["id"])
    return [(hit["entity"]["id"], int(hit["distance"])) for hit in hits]


def all_of_milvus(path: Path) -> dict[Any, Any]:
    with milvus(path) as client:
        rows = client.query("items", filter="", limit=16_384, output_fields=["id", "code", "payload"])
    return {row["id"]: (row["code"], row["payload"]) for row in rows}


def postgres(address: str) -> Any:
    import psycopg

    return psycopg.connect(address)


def in_pgvector(address: str, code: Codes, k: int) -> Answer:
    query = code.to_pgvector()[0]
    with postgres(address) as connection:
        found = connection.execute(
            'SELECT id, (code <~> %s::"bit")::integer FROM items ORDER BY code <~> %s::"bit" LIMIT %s',
            (query, query, k),
        )
        return found.fetchall()


def all_of_pgvector(address: str) -> dict[Any, Any]:
    with postgres(address) as connection:
        return {row[0]: row[1:] for row in connection.execute("SELECT id, code, payload FROM items").fetchall()}


STORES = [
    Store("duckdb", ("duckdb",), in_duckdb, all_of_duckdb),
    Store("sqlite-vec", ("apsw", "sqlite_vec"), in_sqlite_vec, all_of_sqlite_vec),
    Store("lancedb", ("lancedb",), in_lancedb, all_of_lancedb),
    Store("qdrant", ("qdrant_client",), in_qdrant, all_of_qdrant, qdrant_in_memory),
    Store("milvus", ("pymilvus", "milvus_lite"), in_milvus, all_of_milvus, milvus_file),
    Store("pgvector", ("psycopg", "pg0"), in_pgvector, all_of_pgvector),  # its place is a database, see `store`
]
