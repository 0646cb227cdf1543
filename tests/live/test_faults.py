"""Full disks, read-only ones, damaged files: an error that names the path, and no other data than was acknowledged."""

from __future__ import annotations

import gc
import os
import re
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onlinehash import OnlineHashing, refresh
from onlinehash.errors import FormatError, StorageError
from onlinehash.live import storage
from onlinehash.live.check import check
from onlinehash.live.index import LiveIndex
from onlinehash.live.sqlite import segments
from tests import needs
from tests.support import refused, state_bytes, thorough

WIDTH = 12
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "BLOCK_ROWS", 40)
    monkeypatch.setattr(storage, "LEAST_LOG", 1 << 12)


def vectors(n: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, WIDTH)).astype(np.float32)


def fill(index: LiveIndex) -> LiveIndex:
    """Blocks and a tail, changed and removed items, and several encoders."""
    index.add(list(range(150)), vectors(150, 0), [{"n": i} if i % 2 else None for i in range(150)])
    for seed in range(3):
        index.learn_pairs(vectors(6, 10 + seed), vectors(6, 20 + seed), [True, False] * 3)
        index.refresh()
    index.update([3, 60, 140], vectors(3, 1), [{"new": True}] * 3)
    index.remove([5, 61, 62, 149])
    index.learn_pair(*vectors(2, 2), True)
    return index


@pytest.fixture
def index(tmp_path: Path) -> Iterator[LiveIndex]:
    learner = OnlineHashing(n_bits=16, burn_in=20, random_state=0)
    with LiveIndex(learner, refresh.by_hand(), path=tmp_path / "index") as index:
        yield fill(index)


@pytest.fixture
def folder(index: LiveIndex, tmp_path: Path) -> Path:
    """The files of an index that was closed."""
    index.close()
    return tmp_path / "index"


def everything(index: LiveIndex) -> tuple[Any, ...]:
    """All that an index hands out, in a form that can be compared."""
    assert index.encoder is not None
    assert index.codes == index.encoder.encode(index.vectors)
    hits, nearer = index.search(vectors(4, 3), 7), index.within(vectors(1, 4)[0], 6)
    items = [list(index), index.vectors.tobytes(), [index.get(id) for id in list(index)[::40]]]
    texts = [index._table.payloads.text(i) for i in index.view.items.positions().tolist()]
    known = [(v.serial, v.n_pairs, v.encoder.weights.tobytes()) for v in index.versions]
    plain = (hits.ids.tolist(), hits.distances.tolist(), nearer.ids.tolist(), str(items), texts, known, index.serial)
    return (*plain, index.refreshes, index.bits_flipped, index.behind, state_bytes(index.learner))


def reopened(path: Path) -> tuple[Any, ...]:
    with LiveIndex.open(path) as index:
        return everything(index)


# ------------------------------------------------------------------ disks that take nothing


@contextmanager
def files_that_cannot_grow() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize(
    "call",
    [
        lambda index: index.add(list(range(1000, 1400)), vectors(400, 5)),
        lambda index: index.learn_pairs(vectors(90, 7), vectors(90, 8), [True, False] * 45),
        lambda index: index.refresh(wait=False).wait(),
    ],
    ids=["add", "learn", "refresh beside"],
)
def test_a_call_that_cannot_be_kept_changes_nothing(
    index: LiveIndex, tmp_path: Path, call: Callable[[LiveIndex], Any]
) -> None:
    before = everything(index)
    with files_that_cannot_grow():
        for _ in range(2):
            error = refused(call, index)
            assert isinstance(error, StorageError)
            assert str(tmp_path / "index") in str(error)
            assert everything(index) == before
    call(index)  # there is room again
    kept = everything(index)
    assert kept != before
    index.close()
    assert reopened(tmp_path / "index") == kept
    assert check(tmp_path / "index").ok


def test_making_an_index_where_there_is_no_room(tmp_path: Path) -> None:
    with files_that_cannot_grow(), pytest.raises(StorageError):
        LiveIndex(OnlineHashing(n_bits=16), path=tmp_path / "index")
    LiveIndex(OnlineHashing(n_bits=16), path=tmp_path / "index").close()


def fill_up(index: LiveIndex, n: int) -> int:
    """Add n items at a time until there is no room; the first id that was refused."""
    for first in range(1000, 100_000, n):
        before = everything(index)
        try:
            index.add(list(range(first, first + n)), vectors(n, first))
        except StorageError:
            assert everything(index) == before
            return first
    raise AssertionError("the disk was never full")


def test_a_database_that_is_full(index: LiveIndex, tmp_path: Path) -> None:
    writer = index._storage.store._connections.writer  # type: ignore[union-attr]
    (pages,) = writer.execute("PRAGMA page_count").fetchone()
    writer.execute(f"PRAGMA max_page_count = {pages + 4}")
    first = fill_up(index, 100)
    writer.execute("PRAGMA max_page_count = 100000")
    index.add(list(range(first, first + 100)), vectors(100, first))
    kept = everything(index)
    index.close()
    assert reopened(tmp_path / "index") == kept


#: Ways to the right to mount a disk: as root, in a namespace of one's own, and with what sudo allows.
MOUNTING = (
    [],
    ["unshare", "--user", "--map-root-user", "--mount"],
    ["sudo", "-n", "--preserve-env=PYTHONPATH", "unshare", "--mount"],
)


def may_mount(way: list[str], folder: Path) -> bool:
    try_it = ["sh", "-c", 'mount -t tmpfs tmpfs "$0" && umount "$0"', str(folder)]
    return shutil.which([*way, "sh"][0]) is not None and subprocess.run([*way, *try_it], check=False).returncode == 0


@pytest.mark.long
def test_a_small_disk_fills_up_and_turns_read_only(tmp_path: Path) -> None:
    if sys.platform != "linux":
        pytest.skip("a disk in memory is mounted on Linux only")
    way = next((way for way in MOUNTING if may_mount(way, tmp_path)), None)
    if way is None:
        needs.missing("right to mount a disk", "root has it, and so has whoever may make user namespaces")
    run = [*way, sys.executable, "-m", "tests.live.small_disk", str(tmp_path)]
    done = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "a small disk was filled up\n"), done.stderr


@contextmanager
def as_a_user() -> Iterator[None]:
    """As somebody whom permissions stop: the superuser becomes nobody for a while."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)


def test_a_folder_that_may_not_be_written(folder: Path) -> None:
    kept = reopened(folder)
    assert check(folder).ok
    with tempfile.TemporaryDirectory() as place:
        path = shutil.copytree(folder, Path(place) / "index")
        for found in (*path.iterdir(), path):
            found.chmod(0o555 if found.is_dir() else 0o444)
        Path(place).chmod(0o755)
        try:
            with as_a_user():
                assert isinstance(refused(LiveIndex.open, path), StorageError)
                with LiveIndex.open(path, read_only=True) as index:
                    assert everything(index) == kept
                assert check(path).ok
        finally:
            path.chmod(0o755)


@pytest.mark.parametrize("sync", ["full", "batch"])
def test_a_folder_with_a_log_that_may_not_be_written(folder: Path, sync: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is in the log alone can only be read where SQLite may make an index of it."""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "index"
        path.mkdir()
        with LiveIndex.open(folder, sync=sync) as index:
            index.add([1000, 1001], vectors(2, 5))
            kept = everything(index)
            for name in ("items.db", "items.db-wal", "commits", "lock"):
                shutil.copy(folder / name, path)
        for found in (*path.iterdir(), path):
            found.chmod(0o555 if found.is_dir() else 0o444)
        Path(place).chmod(0o755)
        try:
            with as_a_user(), monkeypatch.context() as patch:
                patch.setattr(os, "access", lambda *_, **__: False)  # it asks for the user that a process began as
                error = refused(lambda: LiveIndex.open(path, read_only=True))
                assert isinstance(error, StorageError)
                assert str(path) in str(error)
                assert "open it once where it may be written" in str(error)
                assert check(path).problems == [str(error)]
        finally:
            for found in (path, *path.iterdir()):
                found.chmod(0o755)
        assert reopened(path) == kept
        monkeypatch.setattr(os, "access", lambda *_, **__: False)
        with LiveIndex.open(path, read_only=True) as index:
            assert everything(index) == kept


# ------------------------------------------------------------------ damaged files


def outcome(path: Path, expected: tuple[Any, ...]) -> str:
    """What comes of opening and reading an index whose files were damaged; `check` must say the same."""
    report = check(path)
    assert all(str(path) in problem and "\n" not in problem for problem in report.problems), report.problems
    try:
        found = reopened(path)
    except (FormatError, StorageError) as error:
        found, message = None, str(error)
    if found is None:
        assert str(path) in message
        assert report.problems, f"check passes over: {message}"
        return "named"
    assert found == expected
    return "found by check" if report.problems else "harmless"


def damaged_copies(folder: Path, name: str, places: list[int], change: Callable[[Path, int], None]) -> Iterator[Path]:
    copy = folder.with_name("copy")
    for place in places:
        shutil.copytree(folder, copy)
        change(copy / name, place)
        yield copy
        shutil.rmtree(copy)


def flip(file: Path, place: int) -> None:
    data = bytearray(file.read_bytes())
    data[place] ^= 1 << place % 8
    file.write_bytes(data)


def used_places(file: Path, n: int) -> list[int]:
    """Places that are not zero, as those that are mostly belong to nothing."""
    used = np.flatnonzero(np.frombuffer(file.read_bytes(), np.uint8))
    return np.random.default_rng(n).choice(used, n, replace=False).tolist()


@pytest.mark.thorough
def test_flipped_bytes(folder: Path) -> None:
    expected = reopened(folder)
    places = used_places(folder / "items.db", thorough(60, 600))
    found = [outcome(copy, expected) for copy in damaged_copies(folder, "items.db", places, flip)]
    assert found.count("named") > len(found) / 2


def test_a_truncated_database(folder: Path) -> None:
    expected = reopened(folder)
    data = (folder / "items.db").read_bytes()
    size = len(data)
    places = [0, 1, 100, 16384, size // 2, size - 16384]
    for copy in damaged_copies(folder, "items.db", places, os.truncate):
        assert outcome(copy, expected) == "named"
    last = len(data.rstrip(b"\0")) - 1  # in the table of changes, which only those read who follow a writer
    for copy in damaged_copies(folder, "items.db", [last], os.truncate):
        assert outcome(copy, expected) != "harmless"


def test_a_database_that_is_gone(folder: Path) -> None:
    (folder / "items.db").unlink()
    said = f"items.db is missing in {folder}; restore it from a copy."
    assert check(folder).problems == [said]
    for opening in (LiveIndex.open, lambda path: LiveIndex.open(path, read_only=True)):
        error = refused(opening, folder)
        assert (type(error), str(error)) == (FormatError, said)
    again = refused(LiveIndex, OnlineHashing(n_bits=16), None, "auto", folder)  # nor is a new one made in its place
    assert (type(again), str(again)) == (FormatError, said)


def test_an_index_that_nobody_closed_can_be_opened_again(folder: Path) -> None:
    index = LiveIndex.open(folder)
    index.add([1000], vectors(1, 9))
    assert "close() that index" in str(refused(LiveIndex.open, folder))
    del index
    gc.collect()
    with LiveIndex.open(folder) as index:
        assert 1000 in index


@pytest.mark.thorough
def test_a_log_that_is_cut_or_flipped(index: LiveIndex, tmp_path: Path) -> None:
    """The log of a writer that never closed, as a crash leaves it."""
    folder, expected = tmp_path / "left", everything(index)
    shutil.copytree(tmp_path / "index", folder)
    log = folder / "items.db-wal"
    size = log.stat().st_size
    assert size > 16384
    for copy in damaged_copies(folder, log.name, [0, 32, size // 3, size // 2], os.truncate):
        assert outcome(copy, expected) == "named"
    found = [outcome(c, expected) for c in damaged_copies(folder, log.name, used_places(log, thorough(25, 250)), flip)]
    assert set(found) <= {"named", "harmless"}
    assert "named" in found
    assert reopened(folder) == expected


def test_damage_under_an_open_index(index: LiveIndex, tmp_path: Path) -> None:
    """Codes are in memory, and answer as before; vectors come from the disk, and are right or refused."""
    path = tmp_path / "index"
    index._storage.store._connections.writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # type: ignore[union-attr]
    before = index.search(vectors(4, 3), 7)
    items = [index.get(id) for id in index]
    data = bytearray((path / "items.db").read_bytes())
    row = items[30].vector.tobytes()
    assert data.count(row) == 1
    place = data.find(row)
    data[place] ^= 1
    with open(path / "items.db", "r+b") as file:
        file.write(data)
    np.testing.assert_array_equal(index.search(vectors(4, 3), 7).ids, before.ids)
    for item in items[:30] + items[31:]:
        found = index.get(item.id)
        assert (found.vector.tobytes(), found.payload) == (item.vector.tobytes(), item.payload)
    with suppress(FormatError):  # unless the page was read before, and is in memory
        assert index.get(items[30].id).vector.tobytes() == row
    assert any(f"row {30 + 1}" in problem for problem in check(path).problems)


# ------------------------------------------------------------------ a change that can neither be made nor undone


def test_searches_go_on_where_a_failed_change_cannot_be_undone(
    index: LiveIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing else is accepted before the state was read back, a refresh least of all."""
    before = everything(index)

    def fails(*given: Any, **named: Any) -> Any:
        raise StorageError("the disk fails")

    with monkeypatch.context() as patched:
        patched.setattr(index._storage, "learned", fails)
        patched.setattr(index._storage.store, "read", fails)
        with pytest.raises(StorageError):
            index.learn_pairs(vectors(6, 5), vectors(6, 6), [True, False] * 3)
        assert index.search(vectors(4, 3), 7).ids.tolist() == before[0]
        for call in (
            index.refresh,
            index.roll_back,
            lambda: index.remove([7]),
            lambda: index.learn_pair(*vectors(2, 2), True),
        ):
            with pytest.raises(StorageError):
                call()
    assert index.learner.n_pairs_seen_ > 19
    index.put_position("source", 1)
    assert everything(index) == before


def test_a_backup_of_a_damaged_vector_fails_and_leaves_nothing(folder: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(folder / "items.db")) as connection, connection:
        connection.execute("UPDATE rows SET vector = zeroblob(length(vector)) WHERE key = 144")
    with LiveIndex.open(folder) as index, pytest.raises(FormatError, match=rf"{re.escape(str(folder))} is damaged"):
        index.backup(tmp_path / "copy")
    assert not [file.name for file in (tmp_path / "copy").iterdir() if file.name != "lock"]
