"""The database's own backup is one of the index: docs/how-to/operations.md has the commands."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import psycopg

from onlinehash import PostgresIndex, refresh
from tests.programs import plain
from tests.servers import PostgresServer
from tests.stores.conftest import Home

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "operations.md"
X = np.random.default_rng(0).standard_normal((40, 6)).astype(np.float32)


def test_a_dump_is_restored_elsewhere(stock_home: Home, stock: PostgresServer, tmp_path: Path) -> None:
    database = f"restored_{stock_home.schema}"
    with psycopg.connect(stock_home.address, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {database}")
    with PostgresIndex.create(stock_home.address, refresh=refresh.by_hand(), n_bits=16, **stock_home.options) as index:
        index.add(None, X, [{"number": number} for number in range(40)])
        index.learn_pairs(X[:10], X[10:20], np.arange(10) % 2 == 0)
        index.refresh()
        index.remove([3])
        for command in re.findall(r"^\$ (pg_(?:dump|restore) .*)$", PAGE.read_text(), re.MULTILINE):
            words = command.replace("--schema=onlinehash", f"--schema={stock_home.schema}").split()
            words = [word.replace("postgresql://onlinehash@db.example/items", stock_home.address) for word in words]
            there = stock.address(database)
            words = [word.replace("postgresql://onlinehash@db.example/restored", there) for word in words]
            done = subprocess.run([stock.program(words[0]), *words[1:]], cwd=tmp_path, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
        with PostgresIndex.open(there, schema=stock_home.schema) as copy:
            for look in (
                lambda one: one.ids,
                lambda one: one.codes,
                lambda one: one.vectors,
                lambda one: one.newest,
                lambda one: one.payloads_of(one.ids.tolist()),
                lambda one: one.find(X[:5], 3),
            ):
                assert plain(look(copy)) == plain(look(index))
            copy.learn_pair(X[0], X[1], similar=True)
            copy.add(None, X[:1])
            assert (len(copy), len(index)) == (40, 39)
