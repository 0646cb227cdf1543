"""`onlinehash postgres`: indexes made, migrated and described at the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import psycopg
import pytest

import onlinehash
from onlinehash import OnlineHashing, PostgresIndex, refresh, save
from onlinehash.errors import FormatError
from onlinehash.io import files, format
from onlinehash.stores.postgres.migration import FORMAT
from tests.cli.running import Data, done, refused
from tests.cli.running import onlinehash as onlinehash_command
from tests.servers import PostgresServer
from tests.stores.conftest import Home

DATA = Data.make(60)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    learner = OnlineHashing(12, burn_in=20, random_state=0)
    save(learner.partial_fit_pairs(DATA.A, DATA.B, DATA.similar), tmp_path / "model.oh")
    return tmp_path / "model.oh"


def facts_of(home: Home) -> dict[str, str]:
    out = done("postgres", "info", home.address, "--schema", home.schema).out
    assert "secret" not in out
    return dict(line.split(maxsplit=1) for line in out.splitlines())


def test_an_index_is_made_and_described(sharded_home: Home, model: Path, roles: PostgresServer) -> None:
    shards = [word for shard in sharded_home.shards for word in ("--shard", shard)]
    where = (sharded_home.address, "--schema", sharded_home.schema)
    made = done("postgres", "create", *where, "--model", model, *shards, "--role", "app", "--search", "scan", "--json")
    assert "secret" not in made.out
    assert made.document == done("postgres", "info", *where, "--json").document
    found = made.document
    assert found["address"] == f"postgresql://postgres@127.0.0.1:{sharded_home.server.port}/postgres"
    told = ("schema", "format", "search", "shards", "class", "n", "n_bits", "serial")
    assert [found[name] for name in told] == [sharded_home.schema, FORMAT, "scan", 2, "PostgresIndex", 0, 12, 0]
    assert found["learned"]["pairs"] == len(DATA.A)
    app = roles.address(user="app", password="hidden")
    with PostgresIndex.open(app, refresh.by_hand(), schema=sharded_home.schema) as index:
        index.add(None, DATA.X)
        assert index.search(DATA.X[3], 1).ids.tolist() == index.search(DATA.X[3], 1).ids.tolist()
    words = facts_of(sharded_home)
    assert words["index"] == f"PostgresIndex of {len(DATA.X)} items, 12 bits"
    assert words["rows"] == "held by 2 other servers"
    assert words["search"] == "scan"


def test_commands_that_are_refused(stock_home: Home, model: Path, tmp_path: Path) -> None:
    save(OnlineHashing(8, random_state=0).observe(DATA.X).encode(DATA.X), tmp_path / "codes.oh")
    where = (stock_home.address, "--schema", stock_home.schema)
    for arguments, code, told in [
        (("info", *where), 2, "got none; PostgresIndex.create or `onlinehash postgres create` makes one"),
        (("migrate", *where), 2, "expected an index in the schema"),
        (("info", "nonsense"), 2, "expected the address of a database"),
        (("create", *where, "--model", tmp_path / "codes.oh"), 2, "expected a learner in"),
        (("create", *where, "--model", model, "--shard", stock_home.address), 2, "two servers or more"),
        (("create", *where, "--model", model, "--search", "hnsw"), 2, "expected a server with pgvector"),
        (("create", *where, "--model", model, "--search", "tree"), 2, "Invalid value for '--search'"),
        (("info", stock_home.server.address(password="bad")), 8, "password authentication failed"),
    ]:
        got, message = refused("postgres", *arguments)
        assert (got, told in message) == (code, True), message
        assert "secret" not in message
    with psycopg.connect(stock_home.address) as connection:
        assert connection.execute("SELECT to_regnamespace(%s)", (stock_home.schema,)).fetchone() == (None,)


def test_texts_and_clicks_are_loaded_into_an_index(stock_home: Home, tmp_path: Path) -> None:
    home = stock_home
    PostgresIndex.create(home.address, refresh=refresh.by_hand(), n_bits=16, schema=home.schema).close()
    where = (home.address, "--schema", home.schema)
    items, log = tmp_path / "items.jsonl", tmp_path / "log.jsonl"
    items.write_text('{"id": 3, "text": "open a file"}\n{"id": 4, "text": "close a window"}\n')
    log.write_text('{"text": "shut the pane", "shown": [3, 4], "clicked": [4]}\n')
    assert done("load", items, *where, "--embed", "lexical:64", "--json").document["added"] == 2
    assert done("load", items, *where, "--json").document["added"] == 0
    assert done("search", *where, "--text", "opening files", "-k", 1, "--json").document["ids"] == [3]
    learned = done("learn", "--clicks", log, "--index", *where, "--json").document
    assert (learned["rows"], learned["pairs"]) == (1, 2)
    assert done("search", *where, "--text", "shut the pane", "-k", 1, "--json").document["ids"] == [4]
    _, message = refused("load", items, *where, "--embed", "lexical")
    assert "holds vectors of the embedder 'lexical@2:64'" in message
    assert facts_of(home)["embedder"] == "lexical@2:64, vectors of 64 values"
    assert done("postgres", "info", *where, "--json").document["embedder"] == {"name": "lexical@2:64", "n_features": 64}


def test_a_refresh_of_all_kinds_of_targets(stock_home: Home, model: Path, tmp_path: Path) -> None:
    where = (stock_home.address, "--schema", stock_home.schema)
    done("postgres", "create", *where, "--model", model)
    with PostgresIndex.open(stock_home.address, refresh.by_hand(), schema=stock_home.schema) as index:
        index.add(None, DATA.X)
        index.learn_pairs(DATA.A, DATA.B, DATA.similar)
        before, changed = index.serial, index.behind.bits
        assert changed > 0
        found = done("refresh", *where, "--json").document
        assert (index.serial, index.behind.bits) == (found["serial"], 0) == (before + 1, 0)
        assert found["bits_rehashed"] == changed * len(DATA.X) >= found["bits_flipped"] > 0
        assert "serial number" in done("refresh", *where).out
    with onlinehash.LiveIndex(
        OnlineHashing(12, burn_in=20, random_state=0), refresh.by_hand(), path=tmp_path / "a"
    ) as kept:
        kept.add(None, DATA.X)
        kept.learn_pairs(DATA.A, DATA.B, DATA.similar)
    assert done("refresh", tmp_path / "a", "--json").document["serial"] == 2
    with onlinehash.LiveIndex.open(tmp_path / "a") as kept, onlinehash.serve.background(kept) as url:
        kept.learn_pairs(DATA.A, ~DATA.similar[:, None] * DATA.B, DATA.similar)
        assert done("refresh", url, "--json").document["serial"] == kept.serial
    assert refused("refresh", tmp_path / "a", "--schema", "x")[0] == 2
    assert refused("refresh", "redis://somewhere")[0] == 2


def test_a_damaged_learner_or_encoder_leaves_a_way_to_the_items(stock_home: Home, tmp_path: Path) -> None:
    with PostgresIndex.create(stock_home.address, refresh=refresh.by_hand(), n_bits=16, **stock_home.options) as index:
        index.add(["a", "b", "c"], DATA.X[:3], [{"n": 1}, None, None])
        index.learn_pairs(DATA.A, DATA.B, DATA.similar)
        learner = files.to_bytes(index.learner)
    kind, content = format.from_bytes(learner, "learner")
    content["state"]["method"]["W"][:] = np.nan
    where, file = (stock_home.address, "--schema", stock_home.schema), tmp_path / "items.jsonl"
    with psycopg.connect(stock_home.address, autocommit=True) as connection:
        for name, value in (("learner", format.to_bytes(kind, content)), ("encoder", b"none")):
            table = f'"{stock_home.schema}".blobs'
            changed = connection.execute(f"UPDATE {table} SET value = %s WHERE name LIKE %s", (value, f"{name}/%"))
            assert changed.rowcount
        with pytest.raises(FormatError, match=r"not finite; restore a copy, or write the items to a file: onlinehash"):
            PostgresIndex.open(stock_home.address, schema=stock_home.schema)
        assert done("export", where[0], file, *where[1:], "--json").document == {
            "output": str(file), "items": 3, "damaged": [],
        }  # fmt: skip
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        assert lines[0] == {"id": "a", "vector": DATA.X[0].tolist(), "payload": {"n": 1}}
        assert [line["id"] for line in lines] == ["a", "b", "c"]
        connection.execute(f'UPDATE "{stock_home.schema}".items SET vector = %s WHERE id = %s', (b"short", "b"))
    told = onlinehash_command("export", where[0], file, *where[1:])
    assert (told.code, len(file.read_text().splitlines())) == (FormatError.exit_code, 2)
    assert "1 vectors were left out; the first is that of 'b'" in told.out
    assert "--schema needs an address" in refused("export", tmp_path, file, "--schema", "x")[1]
