"""Damage to a store's files is named, or harmless: never are other contents handed out."""

from __future__ import annotations

import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onlinehash import LiveIndex, OnlineHashing
from onlinehash.errors import FormatError, OnlineHashError
from onlinehash.live.sqlite import Store, segments
from tests.live.store_process import rows_of


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "BLOCK_ROWS", 50)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A store with a bit of everything: blocks, a tail, overridden rows, removed ones."""
    path = tmp_path / "store"
    with Store.create(path, {"name": "value"}) as store:
        with store.transaction():
            store.add(list(range(230)), rows_of(range(230)), ['{"x": 1}', None] * 115)
            store.put_codes(None, np.arange(460).astype(np.uint8).reshape(230, 2))
            store.put_learner(b"learner" * 3000)
            store.put_encoder(1, {"n_pairs": 5}, b"encoder" * 100)
        with store.transaction():
            store.update(np.array([3, 60, 210]), ["three", "sixty", "more"], rows_of(range(500, 503)), [None] * 3)
            store.remove(np.array([5, 61, 62, 220]))
            store.log({"what": "pairs", "A": np.arange(6.0)})
    return path


def everything(path: Path) -> tuple[Any, ...]:
    """All that a store hands out, in a form that can be compared."""
    with Store.open(path) as store:
        found = store.load()
        rows = np.concatenate([rows for _, rows in store.blocks(len(store))])
        np.testing.assert_array_equal(store.take(np.arange(len(store))), rows)
        blob, events = store.learner()
        log = [(event["what"], event["A"].tolist()) for event in events]
        plain = (found.ids, found.payloads, found.codes.tolist(), rows.tolist(), blob, log)
        return (*plain, store.encoders(), store.settings)


def outcome(path: Path, expected: tuple[Any, ...]) -> str:
    """What reading a damaged store comes to."""
    try:
        found = everything(path)
    except OnlineHashError as error:
        return "named" if str(path) in str(error) else "NOT NAMED"
    return "harmless" if found == expected else "OTHER CONTENTS"


def outcomes_of_flips(folder: Path, name: str, places: np.ndarray, expected: tuple[Any, ...]) -> list[str]:
    """What comes of each single byte that is changed."""
    rng = np.random.default_rng(0)
    copy = folder.with_name("copy")
    found = []
    for place in places.tolist():
        shutil.copytree(folder, copy)
        data = bytearray((copy / name).read_bytes())
        data[place] ^= int(rng.choice([1 << rng.integers(8), rng.integers(1, 256)]))
        (copy / name).write_bytes(data)
        found.append(outcome(copy, expected))
        shutil.rmtree(copy)
    return found


def used_places(file: Path, n: int) -> np.ndarray:
    """Places in the file's header, and n others, mostly where it is not zero."""
    data = np.frombuffer(file.read_bytes(), np.uint8)
    rng = np.random.default_rng(1)
    used = rng.choice(np.flatnonzero(data), n - n // 8)
    return np.unique(np.concatenate([np.arange(0, 100, 3), used, rng.integers(0, len(data), n // 8)]))


def test_flipped_bytes_in_the_database(folder: Path) -> None:
    expected = everything(folder)
    found = outcomes_of_flips(folder, "items.db", used_places(folder / "items.db", 300), expected)
    assert set(found) <= {"named", "harmless"}
    assert found.count("named") > len(found) / 2


def test_truncated_databases(folder: Path) -> None:
    expected = everything(folder)
    copy = folder.with_name("copy")
    size = (folder / "items.db").stat().st_size
    for left in [0, 1, 50, 100, 5000, *range(16384, size, 32768), size - 1]:
        shutil.copytree(folder, copy)
        with open(copy / "items.db", "r+b") as file:
            file.truncate(left)
        assert outcome(copy, expected) == "named", left
        shutil.rmtree(copy)


@pytest.fixture
def killed(folder: Path) -> Path:
    """The store after a writer was killed in the middle of a transaction, with its log."""
    command = [sys.executable, "-m", "tests.live.store_process", str(folder), "die"]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    return folder


def test_a_killed_writer_loses_nothing_it_acknowledged(killed: Path) -> None:
    copy = killed.with_name("kept")
    shutil.copytree(killed, copy)
    ids = everything(copy)[0]
    assert ids[3] == "changed"
    assert ids[-60:] == list(range(1000, 1060))


def test_flipped_bytes_in_the_log_of_a_killed_writer(killed: Path) -> None:
    shutil.copytree(killed, killed.with_name("kept"))
    expected = everything(killed.with_name("kept"))
    found = outcomes_of_flips(killed, "items.db-wal", used_places(killed / "items.db-wal", 120), expected)
    assert set(found) <= {"named", "harmless"}
    assert found.count("named") > len(found) / 2


def test_a_missing_or_shorter_log_is_noticed(killed: Path) -> None:
    shutil.copytree(killed, killed.with_name("kept"))
    expected = everything(killed.with_name("kept"))
    size = (killed / "items.db-wal").stat().st_size
    for left in (0, 32, size // 4, size // 2):
        copy = killed.with_name(f"cut{left}")
        shutil.copytree(killed, copy)
        with open(copy / "items.db-wal", "r+b") as file:
            file.truncate(left)
        with pytest.raises(FormatError, match="transactions are missing"):
            everything(copy)
    assert outcome(killed, expected) == "harmless"


def test_messages_name_table_and_key(folder: Path) -> None:
    data = (folder / "items.db").read_bytes()
    row = rows_of(range(120, 121)).tobytes()
    assert data.count(row) == 1
    (folder / "items.db").write_bytes(data.replace(row, row[:-1] + b"\xff"))
    with Store.open(folder) as store:
        with pytest.raises(FormatError, match=r"store.*table blocks, key 100 to 149.*row 120"):
            list(store.blocks(len(store)))
        store.take(np.array([119]))
        with pytest.raises(FormatError, match="row 120"):
            store.take(np.flatnonzero(store.numbers == 120))


def test_a_backup_of_a_damaged_vector_fails_and_leaves_nothing(tmp_path: Path) -> None:
    path, target = tmp_path / "items", tmp_path / "copy"
    with LiveIndex(OnlineHashing(8, random_state=0), path=path) as index:
        index.add(range(5), np.random.default_rng(0).standard_normal((5, 4)))
    with closing(sqlite3.connect(path / "items.db")) as connection, connection:
        connection.execute("UPDATE rows SET vector = zeroblob(length(vector)) WHERE key = 3")
    with LiveIndex.open(path) as index, pytest.raises(FormatError, match=rf"{re.escape(str(path))} is damaged"):
        index.backup(target)
    assert not [file.name for file in target.iterdir() if file.name != "lock"]
