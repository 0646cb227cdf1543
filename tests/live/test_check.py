"""`check` finds each kind of damage, goes on after it, changes nothing, and can look while somebody writes."""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onlinehash import OnlineHashing, refresh
from onlinehash.live.check import check
from onlinehash.live.index import LiveIndex
from onlinehash.live.sqlite import Store, segments
from tests.servers import wait_until


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "BLOCK_ROWS", 50)


def vectors(n: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, 8)).astype(np.float32)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "index"
    learner = OnlineHashing(n_bits=16, burn_in=20, random_state=0)
    with LiveIndex(learner, refresh.by_hand(), path=path) as index:
        index.add(list(range(230)), vectors(230, 0), [{"n": i} for i in range(230)])
        for seed in range(2):
            index.learn_pairs(vectors(5, 10 + seed), vectors(5, 20 + seed), [True, False, True, False, True])
            index.refresh()
        index.update([3, 60], vectors(2, 1))
        index.remove([5, 61, 229])
        index.learn_pair(*vectors(2, 2), True)
    return path


def test_a_sound_index(folder: Path) -> None:
    def digests() -> dict[str, str]:
        return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.iterdir()}

    before, shares = digests(), []
    report = check(folder, shares.append)
    assert (report.ok, report.problems, report.items, report.path) == (True, [], 227, folder)
    assert report.facts["blocks"] == 4
    assert report.facts["encoders"] == 3
    assert report.facts["events"] >= 1
    assert report.facts["bytes"] > 10_000
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0.0, 1.0)
    assert {name: sum for name, sum in digests().items() if "-" not in name} == before


# ------------------------------------------------------------------ damage that SQLite cannot see


def execute(statement: str) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        with closing(sqlite3.connect(folder / "items.db")) as connection:
            assert connection.execute(statement).rowcount != 0
            connection.commit()

    return damage


def within_store(change: Callable[[Store], Any]) -> Callable[[Path], None]:
    """What our own code wrote wrongly, with right sums."""

    def damage(folder: Path) -> None:
        with Store.open(folder) as store, store.transaction():
            change(store)

    return damage


def settings(**other: Any) -> Callable[[Path], None]:
    return within_store(lambda store: store.put_settings(store.settings | other))


def item(id: Any, payload: str | None) -> Callable[[Path], None]:
    return within_store(lambda store: store.update(np.array([100]), [id], vectors(1, 9), [payload]))


DAMAGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "a record": (execute("UPDATE rows SET payload = x'7b7d' WHERE key = 3"), "table rows, key 3: its sum differs"),
    "a missing block": (execute("DELETE FROM blocks WHERE key = 50"), "table blocks: expected"),
    "a vector": (execute("UPDATE rows SET vector = zeroblob(32) WHERE key = 3"), "row 3"),
    "a bad event": (within_store(lambda store: store.log({"what": "pairs", "A": np.ones((2, 3))})), "no work of"),
    "no present encoder": (within_store(lambda store: store.drop_encoder(3)), "the encoder of the codes is missing"),
    "codes": (within_store(lambda store: store.put_codes(np.array([8]), np.zeros((1, 2), np.uint8))), "codes of 1"),
    "the same id twice": (item(7, None), "two items have the same id"),
    "a payload": (item(100, "{nonsense"), "item 100 is no JSON object"),
    "settings: a serial": (settings(serial=-1), "expected those of an index"),
    "lost transactions": (lambda folder: (folder / "commits").write_bytes(b"\xff" * 8) and None, "are missing"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_named(folder: Path, name: str) -> None:
    damage, message = DAMAGES[name]
    damage(folder)
    report = check(folder)
    assert any(message in problem for problem in report.problems), report.problems
    for problem in report.problems:
        assert str(folder) in problem
        assert problem.endswith(".")
        assert "\n" not in problem
    assert len(set(report.problems)) == len(report.problems)


def test_a_copy_without_its_log_file(folder: Path, tmp_path: Path) -> None:
    """Copied while it is open: the log belongs to it."""
    with LiveIndex.open(folder) as index:
        index.add([1000], vectors(1, 5))
        shutil.copytree(folder, tmp_path / "whole")
        shutil.copytree(folder, tmp_path / "half", ignore=lambda *_: ["items.db-wal"])
    assert check(tmp_path / "whole").ok
    assert "transactions are missing" in check(tmp_path / "half").problems[0]


def test_beside_a_writer(folder: Path) -> None:
    """Everything is seen as of one moment, while items come, change and go and codes are replaced."""
    stop, errors = threading.Event(), []

    def write() -> None:
        rng = np.random.default_rng(0)
        try:
            with LiveIndex.open(folder, refresh.every(2)) as index:
                while not stop.is_set():
                    index.add(None, vectors(30, int(rng.integers(1000))))
                    index.update(index.ids[:40], vectors(40, int(rng.integers(1000))))
                    index.learn_pair(*vectors(2, int(rng.integers(1000))), False)
                    index.remove(index.ids[50:80])
        except BaseException as error:
            errors.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        commits = []

        def has_moved() -> bool:
            report = check(folder)
            assert report.ok, report.problems
            commits.append(report.facts["commit"])
            return len(commits) >= 8 and len(set(commits)) > 1

        wait_until(has_moved, "a check that sees another change", lambda: f"saw {set(commits)}; errors {errors}")
    finally:
        stop.set()
        writer.join()
    assert not errors
