"""Each store that runs in a process loads an export, finds what we find, and follows the changes of an index."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onlinehash import Codes, FlatIndex, LiveIndex, export, save
from onlinehash.errors import InvalidInput, StorageError
from tests.cli.running import done, refused
from tests.export.stores import STORES, Answer, Store, in_milvus, milvus, postgres
from tests.needs import missing, optional
from tests.servers import PostgresServer, free_port

#: Too large to be among the dev dependencies.
LARGE = ("lancedb",)

NUMBERS = itertools.count()


def need(*modules: str) -> None:
    for module in modules:
        if module in LARGE:
            optional(module)
        elif find_spec(module) is None:
            missing(module, "`make test` installs it")


@pytest.fixture(params=STORES, ids=lambda store: store.to)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    store: Store = request.param
    need(*store.modules)
    if store.to == "pgvector":
        server = request.getfixturevalue("postgres_server")
        store = store._replace(place=lambda path: new_database(server))
    yield store
    if store.to == "milvus":
        from milvus_lite.server_manager import server_manager_instance

        for file in tmp_path.glob("*.db"):  # each has an engine beside this process
            server_manager_instance.release_server(str(file))


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    need("psycopg", "pg0")
    with PostgresServer(pgvector=True) as server:
        yield server


def new_database(server: PostgresServer) -> str:
    """The address of a database with pgvector."""
    name = f"export_{next(NUMBERS)}"
    with postgres(server.address()) as connection:
        connection.autocommit = True
        connection.execute(f"CREATE DATABASE {name}")
    with postgres(server.address(name)) as connection:
        connection.execute("CREATE EXTENSION vector")
    return server.address(name)


@pytest.fixture(scope="module")
def bits() -> np.ndarray:
    """Codes in clusters, so that near ones are near, of a length that is no multiple of 8."""
    rng = np.random.default_rng(0)
    centres = rng.random((50, 60)) < 0.5
    return centres[rng.integers(50, size=10_000)] ^ (rng.random((10_000, 60)) < 0.1)


def test_answers_are_ours(store: Store, bits: np.ndarray, tmp_path: Path) -> None:
    index, place = FlatIndex(Codes.from_bits(bits)), store.place(tmp_path / "store")
    assert export.codes(index, place, to=store.to) == (10_000, 0)
    check_answers(index, bits, lambda code, k: store.nearest(place, code, k))


def check_answers(index: FlatIndex, bits: np.ndarray, nearest: Callable[[Codes, int], Answer]) -> None:
    """Ties may come in another order: the distances agree, and so do all ids that are nearer than the last."""
    for query in (3, 5_000, 9_999):
        ours = index.search(bits[query], 30)
        theirs = nearest(Codes.from_bits(bits[query : query + 1]), 30)
        assert [distance for _, distance in theirs] == ours.distances.tolist()
        last = ours.distances[-1]
        nearer = {id for id, distance in theirs if distance < last}
        assert nearer == set(ours.ids[ours.distances < last].tolist())
        assert len(nearer) > 1


@pytest.mark.parametrize("ids", [[7, 8, 9, 10], ["a'b", "ä", "c", '"d"']], ids=["integers", "strings"])
def test_a_store_follows_an_index(store: Store, ids: list[Any], tmp_path: Path) -> None:
    """Added, changed and removed items, and payloads that changed although the code did not."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(4, 6))
    path, record = store.place(tmp_path / "store"), tmp_path / "exported.oh"
    index = LiveIndex(n_bits=16)
    index.add(ids[:3], X[:3], [{"n": 0}, {"n": 1}, None])
    assert export.codes(index, path, store.to, since=record) == (3, 0)
    before = store.contents(path)
    assert before.keys() == set(ids[:3])

    assert export.codes(index, path, store.to, since=record) == (0, 0)
    assert store.contents(path) == before

    index.remove([ids[0]])
    index.update([ids[1]], payloads=[{"n": "changed"}])
    index.update([ids[2]], -X[2:3])
    index.add([ids[3]], X[3:], [{"n": 3}])
    index.refresh()
    written = export.codes(index, path, store.to, since=record)
    assert written.removed == 1
    assert written.items >= 2
    after = store.contents(path)
    assert after.keys() == set(ids[1:])
    fresh = store.place(tmp_path / "fresh")
    export.codes(index, fresh, store.to)
    assert after == store.contents(fresh), "as if everything had been exported anew"
    assert "changed" in json.dumps(after[ids[1]][1])


def test_a_table_that_is_there_is_left_alone(store: Store, bits: np.ndarray, tmp_path: Path) -> None:
    index, path = FlatIndex(Codes.from_bits(bits[:5])), store.place(tmp_path / "store")
    export.codes(index, path, store.to)
    before = store.contents(path)
    with pytest.raises(ValueError, match="already has 'items'"):
        export.codes(FlatIndex(Codes.from_bits(bits[5:9])), path, store.to)
    assert store.contents(path) == before
    export.codes(index, path, store.to, name="others")


def test_a_record_without_its_table(store: Store, bits: np.ndarray, tmp_path: Path) -> None:
    index, record = FlatIndex(Codes.from_bits(bits[:5])), tmp_path / "exported.oh"
    export.codes(index, store.place(tmp_path / "first"), store.to, since=record)
    before = record.read_bytes()
    index.remove([3])
    with pytest.raises(ValueError, match=r"has no 'items' to update, although .*exported\.oh records"):
        export.codes(index, store.place(tmp_path / "second"), store.to, since=record)
    assert record.read_bytes() == before, "what was not written is not recorded"
    assert not list(tmp_path.glob("second*")), "and nothing is left behind"


@pytest.mark.parametrize("to", ["duckdb", "sqlite-vec"])
@pytest.mark.parametrize("ending", ["csv", "db"])
def test_a_file_of_another_kind_is_refused(to: str, ending: str, tmp_path: Path) -> None:
    for module in ("duckdb", "sqlite_vec", "apsw"):
        if find_spec(module) is None:
            missing(module, "`make test` installs it")
    file = tmp_path / f"table.{ending}"
    file.write_text("a,b\n1,2\n")
    with pytest.raises((InvalidInput, StorageError), match=r"not a (DuckDB )?database.*\.$"):
        export.codes(FlatIndex(Codes.from_bits(np.eye(5, dtype=bool))), file, to)
    assert file.read_text() == "a,b\n1,2\n"


def test_a_server_that_does_not_answer() -> None:
    if find_spec("qdrant_client") is None:
        missing("qdrant_client", "`make test` installs it")
    from qdrant_client.http.exceptions import ResponseHandlingException

    class Away:
        def collection_exists(self, name: str) -> bool:
            raise ResponseHandlingException(ConnectionError("connection refused"))

    client: Any = Away()
    with pytest.raises(StorageError, match=r"^Qdrant failed: connection refused\.$"):
        export.codes(FlatIndex(Codes.from_bits(np.eye(5, dtype=bool))), client, "qdrant")


@pytest.mark.parametrize("name", ["order", "block", "removed"])
def test_a_table_may_have_any_name(name: str, tmp_path: Path) -> None:
    for module in ("duckdb", "sqlite_vec", "apsw"):
        if find_spec(module) is None:
            missing(module, "`make test` installs it")
    index = LiveIndex(n_bits=16)
    index.add([1, 2], np.eye(2))
    for to in ("duckdb", "sqlite-vec"):
        place, record = tmp_path / to, tmp_path / f"{to}.oh"
        assert export.codes(index, place, to, name=name, since=record) == (2, 0)
    index.remove([1])
    for to in ("duckdb", "sqlite-vec"):
        assert export.codes(index, tmp_path / to, to, name=name, since=tmp_path / f"{to}.oh") == (0, 1)


def test_a_file_for_any_store_goes_to_milvus(bits: np.ndarray, tmp_path: Path) -> None:
    """As docs/how-to/stores.md loads it: Parquet holds what `to_packbits` gives, which is what BINARY_VECTOR takes."""
    for module in ("pymilvus", "milvus_lite"):
        if find_spec(module) is None:
            missing(module, "`make test` installs it")
    from milvus_lite.server_manager import server_manager_instance
    from pyarrow import parquet
    from pymilvus import DataType

    index = FlatIndex(Codes.from_bits(bits))
    save(index, tmp_path / "index.oh")
    done("export", tmp_path / "index.oh", tmp_path / "codes.parquet", "--to", "parquet")
    rows = parquet.read_table(tmp_path / "codes.parquet").to_pylist()
    with milvus(tmp_path / "any.db") as client:
        schema, flat = client.create_schema(), client.prepare_index_params()
        schema.add_field("id", DataType.INT64, is_primary=True)
        schema.add_field("code", DataType.BINARY_VECTOR, dim=64)
        flat.add_index("code", index_type="BIN_FLAT", metric_type="HAMMING")
        client.create_collection("items", schema=schema, index_params=flat)
        client.insert("items", [{"id": row["id"], "code": bytes(row["code"])} for row in rows])
    check_answers(index, bits, lambda code, k: in_milvus(tmp_path / "any.db", code, k))
    server_manager_instance.release_server(str(tmp_path / "any.db"))


@pytest.mark.parametrize("to", ["milvus", "pgvector"])
def test_places_that_are_none(to: str, tmp_path: Path) -> None:
    need("pymilvus", "psycopg")
    with pytest.raises(InvalidInput, match=r"(Milvus|pgvector) takes .*address"):
        export.codes(FlatIndex(Codes.from_bits(np.eye(5, dtype=bool))), tmp_path / "codes", to)
    assert list(tmp_path.iterdir()) == []


def test_a_password_is_not_shown(tmp_path: Path) -> None:
    need("psycopg")
    save(FlatIndex(Codes.from_bits(np.eye(5, dtype=bool))), tmp_path / "index.oh")
    address = f"postgresql://me:secret@127.0.0.1:{free_port()}/none"
    code, words = refused("export", tmp_path / "index.oh", address, "--to", "pgvector")
    assert code == StorageError.exit_code
    assert words.startswith("PostgreSQL failed: ")
    assert "secret" not in words


def test_a_password_is_not_shown_after_an_export(postgres_server: PostgresServer, tmp_path: Path) -> None:
    save(FlatIndex(Codes.from_bits(np.eye(5, dtype=bool))), tmp_path / "index.oh")
    arguments = ("export", tmp_path / "index.oh", new_database(postgres_server), "--to", "pgvector", "--name")
    assert "secret" not in done(*arguments, "a").out
    assert "secret" not in done(*arguments, "b", "--json").out
    assert "secret" not in refused(*arguments, "b")[1]


def test_the_statements_for_pgvector_on_the_page(postgres_server: PostgresServer) -> None:
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "stores.md").read_text()
    (statements,) = re.findall(r"```sql\n(.*?)```", page, flags=re.DOTALL)
    index, address = LiveIndex(n_bits=16), new_database(postgres_server)
    index.add(None, np.random.default_rng(1).normal(size=(8, 6)), [{"even": n % 2 == 0} for n in range(8)])
    export.codes(index, address, "pgvector")
    code = index.codes[3]
    statements = statements.replace("'0110...'", f"'{code.to_pgvector()[0]}'")
    with postgres(address) as connection:
        _, select, create, _ = re.sub("--.*", "", statements).split(";")
        first, *_ = connection.execute(select).fetchall()
        assert first == (3, 0)
        connection.execute(create)
        distance = f"bit_count(code # '{code.to_pgvector()[0]}')"
        assert connection.execute(f"SELECT {distance} FROM items WHERE id = 3").fetchone() == (0,)
