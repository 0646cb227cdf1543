"""A full disk: the call is refused, nothing of it is kept, and all that was kept before is there."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from onlinehash.errors import StorageError
from onlinehash.live.sqlite import Store
from tests.live.store_process import rows_of


@contextmanager
def largest_file(n_bytes: int) -> Iterator[None]:
    """Files cannot grow beyond this."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def add(store: Store, first: int, n: int) -> None:
    with store.transaction():
        store.add(list(range(first, first + n)), rows_of(range(first, first + n)), [None] * n)


def add_until_full(store: Store) -> None:
    while True:
        add(store, len(store), 1000)


def check_contents(store: Store, n: int) -> None:
    assert store.load().ids == list(range(n))
    for first, rows in store.blocks(n):
        np.testing.assert_array_equal(rows, rows_of(range(first, first + len(rows))))


def test_files_that_cannot_grow(tmp_path: Path) -> None:
    with Store.create(tmp_path / "s", {}) as store:
        add(store, 0, 1000)
        with largest_file(1 << 20), pytest.raises(StorageError, match=str(tmp_path)):
            add_until_full(store)
        n = len(store)
        assert n % 1000 == 0
        store.load()
        check_contents(store, n)
        add(store, n, 500)  # there is room again
        check_contents(store, n + 500)
    with Store.open(tmp_path / "s") as store:
        check_contents(store, n + 500)


def test_a_database_that_cannot_grow(tmp_path: Path) -> None:
    with Store.create(tmp_path / "s", {}) as store:
        add(store, 0, 3000)
        writer = store._connections.writer
        (pages,) = writer.execute("PRAGMA page_count").fetchone()
        writer.execute(f"PRAGMA max_page_count = {pages + 2}")
        with pytest.raises(StorageError, match="full"):
            add(store, 3000, 5000)
        assert len(store) == 3000
    with Store.open(tmp_path / "s") as store:
        check_contents(store, 3000)


def test_creating_where_there_is_no_room(tmp_path: Path) -> None:
    with largest_file(20000), pytest.raises(StorageError):
        Store.create(tmp_path / "s", {})
    assert not Store.exists(tmp_path / "s")
    Store.create(tmp_path / "s", {}).close()
