"""The store of a live index: one writer, readers that see one moment, and what is on the disk when."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from onlinehash.errors import FormatError, InvalidInput, StorageError
from onlinehash.live.sqlite import Store, records, schema, segments
from onlinehash.live.sqlite import folder as folders


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "BLOCK_ROWS", 16)
    monkeypatch.setattr(segments, "READ_ROWS", 64)
    monkeypatch.setattr(records, "CODES_CHUNK", 8)


def rows_of(numbers: range, width: int = 8) -> np.ndarray:
    """Vectors that tell which item they are of."""
    return np.array([[n + j / 16 for j in range(width)] for n in numbers], np.float32)


SECOND_WRITER = """
import sys
from onlinehash.errors import StorageError
from onlinehash.live.sqlite import Store
try:
    Store.open(sys.argv[1])
except StorageError as error:
    print(error)
"""


def test_one_writer_and_any_readers(tmp_path: Path) -> None:
    with Store.create(tmp_path / "s", {}) as store:
        with store.transaction():
            store.add([1, 2], rows_of(range(2)), [None, None])
        command = [sys.executable, "-c", SECOND_WRITER, str(tmp_path / "s")]
        answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        pid = (tmp_path / "s" / "lock").read_text()
        assert f"process {pid}" in answer
        assert "read_only=True" in answer
        with pytest.raises(StorageError, match=r"another.*this process has it open already; close\(\) that index"):
            Store.open(tmp_path / "s")
        with Store.open(tmp_path / "s", read_only=True) as reader:
            with store.transaction():
                store.remove(np.array([0]))
            with pytest.raises(InvalidInput, match="read-only"), reader.transaction():
                pass
            assert reader.load().ids == [1, 2]  # what opening read, handed over once
            assert reader.load().ids == [2]


def test_a_reader_gets_no_vectors_that_are_newer_than_the_rest(tmp_path: Path) -> None:
    with Store.create(tmp_path / "s", {"a": 1}) as store:
        with store.transaction():
            store.add(list(range(30)), rows_of(range(30)), [None] * 30)
            store.put_encoder(1, {}, b"one")
        with store.transaction():
            store.update(np.array([1]), ["new"], rows_of(range(9, 10)), [None])  # before it is opened
        with Store.open(tmp_path / "s", read_only=True) as reader:
            with store.transaction():  # none of this changes a vector that the reader knows; blocks are sealed
                store.add(list(range(30, 50)), rows_of(range(30, 50)), [None] * 20)
                store.put_codes(None, np.zeros((len(store), 2), np.uint8))
                store.put_learner(b"learner")
                store.log({"what": "flush"})
                store.put_encoder(2, {}, b"two")
                store.put_settings({"a": 2})
            np.testing.assert_array_equal(reader.take(np.array([0])), rows_of(range(1)))
            assert sum(len(rows) for _, rows in reader.blocks(len(reader))) == len(reader)
            assert (reader.settings, reader.learner(), len(reader.encoders())) == ({"a": 1}, (b"", []), 1)
            others = np.array([0, 7])
            before = reader.take(others)
            with store.transaction():
                store.remove(np.array([5]))
            np.testing.assert_array_equal(reader.take(others), before)  # these are as they were
            assert sum(len(rows) for _, rows in reader.blocks(4)) == 4
            reads = (reader.take, lambda wanted: reader.blocks(int(wanted[-1]) + 1))
            for read in reads:
                with pytest.raises(InvalidInput, match=r"call reload\(\)"):
                    read(np.array([0, 4, 5]))
            reader.load()  # what opening read
            reader.load()
            for read in reads:
                read(np.array([0]))
            assert (reader.settings, reader.learner()[0], len(reader.encoders())) == ({"a": 2}, b"learner", 2)
            with store.transaction():
                store.add([100], rows_of(range(1)), [None])
            reader.take(np.array([0]))


@pytest.mark.parametrize(("sync", "commits"), [("full", 1), ("batch", 0)])
def test_the_drives_cache_is_emptied_too(tmp_path: Path, sync: str, commits: int) -> None:
    """Which only macOS has to be told."""
    Store.create(tmp_path / "s", {}).close()
    connection = schema.connect(tmp_path / "s", writing=True, sync=sync)
    assert connection.execute("PRAGMA fullfsync").fetchone() == (commits,)
    assert connection.execute("PRAGMA checkpoint_fullfsync").fetchone() == (1,)  # else a store could be torn
    connection.close()


def test_the_log_is_on_the_disk_before_its_last_commit_is_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a power failure could leave an index that misses transactions, which is refused."""
    folder = tmp_path / "s"
    log, synced = folder / "items.db-wal", []

    def note(descriptor: int) -> None:
        synced.append((os.fstat(descriptor).st_ino, folders.read_commits(folder)))

    with Store.create(folder, {}, sync="batch") as store, Store.open(folder, read_only=True) as reader:
        with store.transaction():
            store.add([1], rows_of(range(1)), [None])
        reader.load()
        monkeypatch.setattr(folders.atomic, "sync_file", note)
        store.close()
        assert log.stat().st_size  # which the reader keeps
        assert synced == [(log.stat().st_ino, 1), (folder.stat().st_ino, 1)]
        assert folders.read_commits(folder) == 2


def test_read_only_where_nothing_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store.create(tmp_path / "s", {}) as store, store.transaction():
        store.add([1], rows_of(range(1)), [None])
    monkeypatch.setattr("onlinehash.live.sqlite.schema.os.access", lambda *_: False)
    with Store.open(tmp_path / "s", read_only=True) as reader:
        assert reader.load().ids == [1]
        assert sorted(p.name for p in (tmp_path / "s").iterdir()) == ["commits", "items.db", "lock"]


def test_what_a_crash_leaves_of_creating_is_overwritten(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    folder.mkdir()
    (folder / "items.new").write_bytes(b"half")
    assert not Store.exists(folder)
    Store.create(folder, {}).close()
    assert Store.exists(folder)
    with pytest.raises(InvalidInput, match="holds one"):
        Store.create(folder, {})
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").touch()
    with pytest.raises(InvalidInput, match=r"thesis\.tex"):
        Store.create(tmp_path / "other", {})
    with pytest.raises(InvalidInput, match=r"there is no live index at .*nowhere; LiveIndex\(learner, path="):
        Store.open(tmp_path / "nowhere")
    (folder / "items.db").unlink()
    for read_only in (False, True):
        with pytest.raises(FormatError, match=f"items.db is missing in {folder}; restore it from a copy"):
            Store.open(folder, read_only)
