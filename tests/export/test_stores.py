"""Each store that runs in a process loads an export, finds what we find, and follows the changes of an index."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from onlinehash import Codes, FlatIndex, LiveIndex, export, save
from onlinehash.errors import InvalidInput, StorageError
from tests.cli.running import refused
from tests.export.stores import STORES, Answer, Store, postgres
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
    return centres[rng.integers(50, size=2_000)] ^ (rng.random((2_000, 60)) < 0.1)


def test_answers_are_ours(store: Store, bits: np.ndarray, tmp_path: Path) -> None:
    index, place = FlatIndex(Codes.from_bits(bits)), store.place(tmp_path / "store")
    assert export.codes(index, place, to=store.to) == (2_000, 0)
    check_answers(index, bits, lambda code, k: store.nearest(place, code, k))


def check_answers(index: FlatIndex, bits: np.ndarray, nearest: Callable[[Codes, int], Answer]) -> None:
    """Ties may come in another order: the distances agree, and so do all ids that are nearer than the last."""
    for query in (3, 1_000, 1_999):
        ours = index.search(bits[query], 30)
        theirs = nearest(Codes.from_bits(bits[query : query + 1]), 30)
        assert [distance for _, distance in theirs] == ours.distances.tolist()
        last = ours.distances[-1]
        nearer = {id for id, distance in theirs if distance < last}
        assert nearer == set(ours.ids[ours.distances < last].tolist())
        assert len(nearer) > 1


def test_a_store_follows_an_index(store: Store, tmp_path: Path) -> None:
    """Added, changed and removed items, and payloads that changed although the code did not."""
    ids = ["a'b", "ä", "c", '"d"']
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
