"""The store against a dictionary: whatever happens to it, it holds what a dictionary would."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

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


class Model:
    """A store, and what it should hold: for each position an item, or None where it is dead."""

    def __init__(self, path: Path, seed: int, dtype: Any) -> None:
        self.path, self.rng, self.dtype = path, np.random.default_rng(seed), dtype
        self.store = Store.create(path, {"seed": seed})
        self.items: list[tuple[Any, str | None, np.ndarray, np.ndarray] | None] = []
        self.serial = 0

    def fresh(self, n: int) -> tuple[list[Any], np.ndarray, list[str | None], np.ndarray]:
        names: list[Any] = [self.serial + i if i % 3 else f"é{self.serial + i}\ud800" for i in range(n)]
        self.serial += n
        rows = self.rng.normal(size=(n, 5)).astype(self.dtype)
        payloads = [None if self.rng.random() < 0.5 else f'{{"n": {i}}}' for i in range(n)]
        return names, rows, payloads, self.rng.integers(0, 256, (n, 3)).astype(np.uint8)

    def living(self, share: float) -> np.ndarray:
        alive = np.flatnonzero([item is not None for item in self.items])
        return np.sort(self.rng.permutation(alive)[: int(np.ceil(share * len(alive)))])

    def add(self) -> None:
        n = int(self.rng.choice([0, 1, 5, 16, 70]))
        names, rows, payloads, codes = self.fresh(n)
        with self.store.transaction():
            self.store.add(names, rows, payloads)
            self.store.put_codes(np.arange(len(self.items), len(self.items) + n), codes)
        self.items += list(zip(names, payloads, rows, codes, strict=True))

    def update(self) -> None:
        positions = self.rng.permutation(self.living(self.rng.choice([0.02, 0.4])))
        names, rows, payloads, codes = self.fresh(len(positions))
        with self.store.transaction():
            self.store.update(positions, names, rows, payloads)
            self.store.put_codes(positions, codes)
        for p, item in zip(positions.tolist(), zip(names, payloads, rows, codes, strict=True), strict=True):
            self.items[p] = item

    def remove(self) -> None:
        positions = self.living(self.rng.choice([0.02, 0.3, 0.9]))
        with self.store.transaction():
            self.store.remove(positions)
        for p in positions.tolist():
            self.items[p] = None

    def keep(self) -> None:
        self.store.keep(np.flatnonzero([item is not None for item in self.items]))
        self.items = [item for item in self.items if item is not None]

    def recode(self) -> None:
        codes = self.rng.integers(0, 256, (len(self.items), 3)).astype(np.uint8)
        with self.store.transaction():
            self.store.put_codes(None, codes)
        self.items = [None if item is None else (*item[:3], code) for item, code in zip(self.items, codes, strict=True)]

    def refused(self) -> None:
        numbers = self.store.numbers.copy()
        with pytest.raises(ZeroDivisionError):
            self.fail_half_way()
        np.testing.assert_array_equal(self.store.numbers, numbers)

    def fail_half_way(self) -> None:
        with self.store.transaction():
            self.store.add(*self.fresh(20)[:3])
            self.store.remove(self.living(0.5))
            self.store.keep(np.arange(len(self.store) // 2))
            self.store.put_learner(b"never")
            raise ZeroDivisionError

    def reopen(self) -> None:
        self.store.close()
        self.store = Store.open(self.path)
        self.items = [item for item in self.items if item is not None]

    def check(self) -> None:
        assert len(self.store) == len(self.items)
        positions = self.rng.permutation(len(self.items))[:20]
        expected = np.array(
            [np.full(5, np.nan) if self.items[p] is None else self.items[p][2] for p in positions], self.dtype
        )
        np.testing.assert_array_equal(self.store.take(positions), expected.reshape(-1, 5))
        seen = 0
        for first, rows in self.store.blocks(len(self.items)):
            assert first == seen
            assert first % 64 == 0
            for item, row in zip(self.items[first : first + len(rows)], rows, strict=True):
                np.testing.assert_array_equal(row, np.zeros(5) if item is None else item[2])
            seen += len(rows)
        assert seen == len(self.items)
        with Store.open(self.path, read_only=True) as other:
            found = other.load()
        alive = [item for item in self.items if item is not None]
        assert found.ids == [item[0] for item in alive]
        assert found.payloads == [item[1] for item in alive]
        if alive:
            np.testing.assert_array_equal(found.codes, [item[3] for item in alive])
        assert (np.diff(self.store.numbers) > 0).all()


def test_holds_what_a_dictionary_would(tmp_path: Path) -> None:
    model = Model(tmp_path / "store", 0, np.float32)
    steps = [model.add, model.add, model.update, model.remove, model.keep, model.recode, model.refused, model.reopen]
    model.add()
    for _ in range(80):
        steps[model.rng.integers(len(steps))]()
        model.check()
    model.store.close()


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


def test_a_log_that_cannot_be_synced_is_not_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(5, "broken")

    store = Store.create(tmp_path / "s", {}, sync="batch")
    with store.transaction():
        store.add([1], rows_of(range(1)), [None])
    with Store.open(tmp_path / "s", read_only=True):
        monkeypatch.setattr(folders.atomic, "sync_file", fail)
        store.close()
        assert folders.read_commits(tmp_path / "s") == 1
    monkeypatch.undo()
    Store.open(tmp_path / "s").close()  # the lock is free


def test_read_only_where_nothing_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store.create(tmp_path / "s", {}) as store, store.transaction():
        store.add([1], rows_of(range(1)), [None])
    monkeypatch.setattr("onlinehash.live.sqlite.schema.os.access", lambda *_: False)
    with Store.open(tmp_path / "s", read_only=True) as reader:
        assert reader.load().ids == [1]
        assert sorted(p.name for p in (tmp_path / "s").iterdir()) == ["commits", "items.db", "lock"]


def test_reads_and_backups_beside_a_busy_writer(tmp_path: Path) -> None:
    with Store.create(tmp_path / "s", {}) as store:
        with store.transaction():
            store.add(list(range(100)), rows_of(range(100)), [None] * 100)
        stop, problems = threading.Event(), []

        def read() -> None:
            try:
                while not stop.is_set():
                    for first, rows in store.blocks(100):
                        np.testing.assert_array_equal(rows, rows_of(range(first, first + len(rows))))
                    np.testing.assert_array_equal(store.take(np.array([7, 93])), rows_of(range(100))[[7, 93]])
            except BaseException as error:
                problems.append(error)

        thread = threading.Thread(target=read)
        thread.start()
        for i in range(30):
            with store.transaction():
                store.add([f"{i}-{j}" for j in range(10)], rows_of(range(10)), [None] * 10)
                if i % 10 == 5:
                    store.backup(tmp_path / f"copy{i}")
        stop.set()
        thread.join()
        assert not problems
    for i in (5, 15, 25):
        with Store.open(tmp_path / f"copy{i}") as made:
            assert sum(len(rows) for _, rows in made.blocks(len(made))) == 100 + 10 * i


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
