"""A writer that is killed at any instant: what it acknowledged is there, and its last call happened wholly or not."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onlinehash.live.check import check
from onlinehash.live.index import LiveIndex
from onlinehash.live.storage import Storage
from tests.live import crash_writer
from tests.live.crash_writer import Call, new_learner, pairs_of, payloads, read_journal, vectors
from tests.support import state_bytes, thorough

N_KILLS = thorough(3, 50)  # of each of the four indexes
AIMED_AT = ("open", "add", "update", "remove", "group", "refresh", "beside", "roll back", "close")


class Expected:
    """What an index must hold after some calls, by the simplest means."""

    def __init__(self) -> None:
        self.items: dict[int, tuple[np.ndarray, Any]] = {}
        self.learner = new_learner().keep_metric()

    def copy(self) -> Expected:
        other = Expected()
        other.items = dict(self.items)
        other.learner.set_state(self.learner.get_state())
        return other

    def follow(self, call: Call) -> None:
        """Do what the index was asked to do; refreshes change nothing here."""
        what = call["call"]
        if what == "add":
            rows = vectors(call["seed"], call["n"])
            self.learner.observe(rows)
            ids = range(call["first"], call["first"] + call["n"])
            self.items |= zip(ids, zip(rows, payloads(call["seed"], call["n"]), strict=True), strict=True)
        elif what == "update":
            rows, n = vectors(call["seed"], len(call["ids"])), len(call["ids"])
            if call["parts"] != "payloads":
                self.learner.observe(rows)
            for id, row, payload in zip(call["ids"], rows, payloads(call["seed"], n), strict=True):
                before = self.items[id]
                self.items[id] = (
                    before[0] if call["parts"] == "payloads" else row,
                    before[1] if call["parts"] == "X" else payload,
                )
        elif what == "remove":
            for id in call["ids"]:
                del self.items[id]
        elif what in ("pair", "pairs"):
            self.learner.partial_fit_pairs(*pairs_of(call))
        elif what == "group":
            for part in call["parts"]:
                self.follow(part)
        elif what == "pair by id":
            a, b = (self.items[id][0] for id in call["ids"])
            self.learner.learn_pair(a, b, call["similar"])

    def difference(self, index: LiveIndex) -> str:
        """In what the index differs from this; nothing, if it does not."""
        if list(index) != list(self.items):
            return f"ids: {len(index)} instead of {len(self.items)}"
        if self.items and index.vectors.tobytes() != np.stack([row for row, _ in self.items.values()]).tobytes():
            return "vectors"
        kept = index.get_many(list(self.items)) if self.items else []
        if [item.payload for item in kept] != [payload for _, payload in self.items.values()]:
            return "payloads"
        return "" if state_bytes(index.learner) == state_bytes(self.learner) else "the learner"


def after(before: Expected, notes: list[Call]) -> tuple[Expected, Expected | None]:
    """What must be there after these notes, and what may be instead, if the last call never returned."""
    calls = [note for note in notes if "call" in note]
    unfinished = calls and "call" in notes[-1]
    acknowledged = before.copy()
    for call in calls[: len(calls) - bool(unfinished)]:
        acknowledged.follow(call)
    if not unfinished:
        return acknowledged, None
    perhaps = acknowledged.copy()
    perhaps.follow(calls[-1])
    return acknowledged, perhaps


def verify(path: Path, before: Expected, notes: list[Call], background: bool) -> Expected:
    """The index is one of those that it may be; which of them is returned."""
    acknowledged, perhaps = after(before, notes)
    if not Storage.exists(path):
        assert not any("done" in note for note in notes)
        return before
    report = check(path)
    assert report.ok, report.problems
    with LiveIndex.open(path) as index:
        found = acknowledged
        difference = acknowledged.difference(index)
        if difference and perhaps is not None:
            found, difference = perhaps, perhaps.difference(index)
        assert not difference
        assert report.items == len(index)
        verify_receipts(index, notes, found is perhaps)
        if index.encoder is not None:
            assert index.codes == index.encoder.encode(index.vectors)
            assert index.serial in [version.serial for version in index.versions]
        asynchronous = background or any(note.get("call") == "beside" for note in notes)
        if notes and perhaps is None and not asynchronous and "serial" in notes[-1]:
            assert index.serial == notes[-1]["serial"]
            assert notes[-1]["done"] != "refresh" or index.behind.bits == 0
    return found


def verify_receipts(index: LiveIndex, notes: list[Call], last_was_made: bool) -> None:
    """There is one of every call that returned, and of the last one exactly if it was made."""
    calls = [note for note in notes if "key" in note and note["call"] != "beside"]
    running = calls.pop() if calls and notes[-1] == calls[-1] else None
    for call in calls:
        receipt = index.receipt(call["key"])
        assert receipt is not None
        assert receipt.digest == call["call"]
        if call["call"] == "add":
            assert receipt.outcome.tolist() == list(range(call["first"], call["first"] + call["n"]))
    if running is None:
        return
    has_receipt = index.receipt(running["key"]) is not None
    if running["call"] == "refresh":
        assert not has_receipt or index.behind.bits == 0
    elif running["call"] == "roll back":
        assert not has_receipt or index.paused
    else:
        assert has_receipt == last_was_made


# ------------------------------------------------------------------ writers, and their end


class Writers:
    """The process whose children write."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.live.crash_writer"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
        )
        assert self._line() == "ready"

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def run_and_kill(self, task: dict[str, Any], rng: np.random.Generator) -> list[Call]:
        """Let a child write for a moment, kill it, and return its journal."""
        child, journal = self._start(task | {"statements": None}), Path(task["journal"])
        aim = str(rng.choice(AIMED_AT))
        if aim != "open":
            n_notes = int(rng.integers(2, 60))  # not seconds: in these, a slow machine does next to nothing
            wait_until(lambda: len(read_journal(journal)) > n_notes, 20)
        if rng.random() < 0.5:
            wait_until(lambda: is_within(aim, read_journal(journal)), 0.6)
        time.sleep(rng.choice([0, 0.001, 0.01, 0.03]) * rng.random())
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        return self._journal(journal)

    def run_for(self, statements: int, task: dict[str, Any], word: str = "") -> list[Call]:
        """Let a child write until so many statements, and then one with this word, are done; return its journal."""
        self._start(task | {"statements": statements, "word": word})
        return self._journal(Path(task["journal"]))

    def _start(self, task: dict[str, Any]) -> int:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(task) + "\n")
        self._process.stdin.flush()
        return int(self._line())

    def _journal(self, file: Path) -> list[Call]:
        """The journal of the child, once it is dead."""
        assert self._line() == ""
        notes = read_journal(file)
        errors = [note["error"] for note in notes if "error" in note]
        assert not errors, errors[0]
        return notes

    def close(self) -> None:
        self._process.communicate()


def wait_until(holds: Callable[[], bool], seconds: float) -> None:
    """Look until it holds; what takes too long is given up."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and not holds():
        time.sleep(0.0005)


def is_within(what: str, notes: list[Call]) -> bool:
    """Is the writer in such a call right now?"""
    return bool(notes) and notes[-1].get("call") == what


@pytest.fixture(scope="module")
def writers() -> Iterator[Writers]:
    process = Writers()
    yield process
    process.close()


@pytest.mark.thorough
@pytest.mark.parametrize(
    "options",
    [
        {"refresh": {"policy": "every", "n_pairs": 2}, "background": False, "sync": "full", "index": "flat"},
        {"refresh": {"policy": "when_changed", "share": 0.05}, "background": True, "sync": "batch", "index": "auto"},
        *(
            pytest.param(options, marks=pytest.mark.long)
            for options in (
                {"refresh": {"policy": "always"}, "background": True, "sync": "full", "index": "multi"},
                {"refresh": {"policy": "by_hand"}, "background": False, "sync": "batch", "index": "auto"},
            )
        ),
    ],
    ids=lambda options: f"{options['refresh']['policy']}-{options['sync']}",
)
def test_nothing_acknowledged_is_lost_and_nothing_half_done_is_seen(
    writers: Writers, tmp_path: Path, options: dict[str, Any], record_property: Callable[[str, object], None]
) -> None:
    seed = sum(map(ord, options["refresh"]["policy"]))
    rng = np.random.default_rng(seed)
    expected, calls = Expected(), 0
    for kill in range(N_KILLS):
        task = {"path": str(tmp_path / "index"), "journal": str(tmp_path / f"journal-{kill}"), "seed": seed + kill}
        notes = writers.run_and_kill(task | {"options": options}, rng)
        expected = verify(tmp_path / "index", expected, notes, options["background"])
        calls += sum("done" in note for note in notes)
    assert calls > N_KILLS  # else nothing much was tried
    record_property("tried", ("kills of a writer", N_KILLS))


ALWAYS = {"refresh": {"policy": "always"}, "background": False, "sync": "batch", "index": "auto"}


@pytest.mark.long
@pytest.mark.thorough
def test_killed_after_a_transaction(writers: Writers, tmp_path: Path) -> None:
    """All of a call is in one: between any two, everything fits together."""
    rng = np.random.default_rng(0)
    expected, path = Expected(), tmp_path / "index"
    LiveIndex(new_learner(), path=path).close()
    for kill in range(thorough(12, 120)):
        task = {"path": str(path), "journal": str(tmp_path / f"journal-{kill}"), "seed": kill, "options": ALWAYS}
        notes = writers.run_for(int(rng.integers(300)), task, "COMMIT")
        expected = verify(path, expected, notes, False)


@pytest.mark.long
@pytest.mark.thorough
def test_killed_while_an_index_is_made(writers: Writers, tmp_path: Path) -> None:
    """There is no index, or a whole one; either way it can be made or gone on with."""
    for statements in range(1, 81, thorough(8, 1)):
        path = tmp_path / f"index-{statements}"
        task = {"path": str(path), "journal": f"{path}-journal", "seed": 0, "options": ALWAYS}
        expected = verify(path, Expected(), writers.run_for(statements, task), False)
        task["journal"] += "-again"
        notes = writers.run_for(400, task)
        assert len(notes) > 2
        verify(path, expected, notes, False)


def test_the_check_can_fail(tmp_path: Path) -> None:
    """An index that lacks an acknowledged call, or has half of one, is told apart."""
    calls = [{"call": "add", "first": 0, "n": 8, "seed": 1}, {"call": "update", "ids": [1, 2], "seed": 2, "parts": "X"}]
    notes = [note for call in calls for note in (call, {"done": call["call"]})]
    with LiveIndex(new_learner(), path=tmp_path / "index") as index:
        crash_writer.perform(index, calls[0])
        index.update([1], vectors(2, 2)[:1])
    with pytest.raises(AssertionError, match="vectors"):
        verify(tmp_path / "index", Expected(), notes, False)
    with pytest.raises(AssertionError, match="ids"):
        verify(tmp_path / "index", Expected(), [{"call": "remove", "ids": []}], False)
