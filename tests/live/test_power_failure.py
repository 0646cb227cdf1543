"""Power failures, replayed: whatever a disk may have kept, what was acknowledged is there, and nothing half done.

A real program runs under a library that writes down its file calls. At any of these the power may fail, and of what
was not synced any part may be missing (`power_failures`). Each such state is opened, checked, and compared.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

from onlinehash import load
from onlinehash.live.check import check
from onlinehash.live.index import LiveIndex
from onlinehash.live.sqlite import folder as folders
from onlinehash.live.storage import Storage
from tests.live.file_calls import FileCall, read_calls, run
from tests.live.power_failures import ORDERS, Disk
from tests.live.recorded_program import JOURNAL, MODEL
from tests.live.test_crash import Expected, verify
from tests.support import state_bytes, thorough

#: States of each program, half of them in either order; there are two programs, one of them every day.
N_STATES = thorough(16, 500)
N_CALLS = thorough(20, 120)

PROGRAMS = {
    "full, nested": ("a/b/c/index", "full"),
    "batch, flat": ("index", "batch"),
}

Change = Callable[[list[FileCall]], list[FileCall]]
Record = Callable[[str, object], None]


@cache
def recorded(name: str) -> tuple[Path, list[FileCall]]:
    """The root of a program, and its calls."""
    folder, sync = PROGRAMS[name]
    with TemporaryDirectory() as kept:
        root, log = Path(kept) / "root", Path(kept) / "log"
        root.mkdir()
        options = {"refresh": {"policy": "every", "n_pairs": 40}, "background": False, "sync": sync, "index": "flat"}
        arguments = str(root), str(log), "1", str(N_CALLS), folder, json.dumps(options)
        done = run("tests.live.recorded_program", *arguments)
        assert done.returncode == 0, done.stderr[-2000:]
        return root, read_calls(log)


def losses(name: str, tmp_path: Path, n_states: int, change: Change = lambda calls: calls) -> list[str]:
    """What goes wrong in so many states after a power failure, of a program whose calls may have been changed."""
    root, calls = recorded(name)
    calls, found = change(calls), []
    for order in ORDERS:
        rng, disk, journal = np.random.default_rng(5), Disk(root, order), b""
        acknowledged = [
            i for i, call in enumerate(calls) if call.path.endswith(f"/{JOURNAL}") and b'"done"' in call.data
        ]
        moments = {int(i) + 1 for i in rng.choice(acknowledged, n_states // 4)}
        moments |= {int(i) for i in rng.integers(1, len(calls), n_states // 2 - len(moments))}
        for number, call in enumerate(calls):
            if number in moments:
                state = tmp_path / "state"
                disk.fail(rng, state)
                try:
                    compare(state, PROGRAMS[name], journal)
                except Exception as error:
                    found.append(f"{order}, before call {number} ({call.kind} {call.path}): {error!r}"[:500])
                shutil.rmtree(state)
            if call.path.endswith(f"/{JOURNAL}"):
                journal += call.data
            disk.follow(call)
    return found


def compare(state: Path, program: tuple[str, str], journal: bytes) -> None:
    """One state with what the program was told until then."""
    folder, sync = program
    notes = [json.loads(line) for line in journal.splitlines()]
    of_index = [note for note in notes if {note.get("call"), note.get("done")}.isdisjoint({"backup", "save"})]
    if sync == "full":
        verify(state / folder, Expected(), of_index, background=False)
    else:
        compare_with_any(state / folder, of_index)
    expected, at_save, at_backup = Expected(), [Expected()], {}
    for note in notes:
        if note.get("call") == "save":
            at_save.append(expected.copy())
        elif note.get("call") == "backup":
            at_backup[note["target"]] = expected.copy()
        elif "call" in note:
            expected.follow(note)
    compare_model(state / MODEL, at_save, notes)
    for target, contents in at_backup.items():
        is_done = {"done": "backup", "target": target} in notes
        if is_done or (folders.is_store(state / target) and (state / target / folders.DATABASE).exists()):
            assert check(state / target).ok
            with LiveIndex.open(state / target, read_only=True) as index:
                assert not contents.difference(index), f"backup {target}"


def compare_model(file: Path, at_save: list[Expected], notes: list[dict[str, Any]]) -> None:
    """The model is the last that was saved; while one is being saved, it may be that one too."""
    n_done = sum(note.get("done") == "save" for note in notes)
    allowed = at_save[n_done:]
    if not file.exists():
        assert n_done == 0, "a saved model is gone"
        return
    assert state_bytes(load(file)) in [state_bytes(expected.learner) for expected in allowed]


def compare_with_any(path: Path, notes: list[dict[str, Any]]) -> None:
    """With sync="batch" the last calls may be missing, back to the last one that closed the index."""
    expected, states = Expected(), [Expected()]
    for note in notes:
        if "call" in note:
            expected = expected.copy()
            expected.follow(note)
            states.append(expected)
        if note.get("done") == "close":
            states = states[-1:]
    if not Storage.exists(path):
        assert not any("done" in note for note in notes)
        return
    report = check(path)
    assert report.ok, report.problems
    with LiveIndex.open(path) as index:
        assert any(not expected.difference(index) for expected in states)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "name",
    ["full, nested", *(pytest.param(name, marks=pytest.mark.long) for name in PROGRAMS if name != "full, nested")],
)
def test_nothing_acknowledged_is_lost(name: str, tmp_path: Path, record_property: Record) -> None:
    assert losses(name, tmp_path, N_STATES) == []
    record_property("tried", ("states after a power failure", N_STATES))


# ------------------------------------------------------------------ the test itself: what is left out is noticed


def without_sync(wanted: Callable[[str], bool]) -> Change:
    return lambda calls: [call for call in calls if not (call.kind == "s" and wanted(call.path))]


@pytest.mark.long
@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        pytest.param("full, nested", lambda path: path.endswith("-wal"), id="the log"),
        pytest.param("full, nested", lambda path: path.endswith(("items.db", "items.new")), id="the database"),
        pytest.param("full, nested", lambda path: path.endswith(("/a", "/a/b")), id="the parents"),
        pytest.param("batch, flat", lambda path: os.path.basename(path) in ("root", "index"), id="the folder"),
    ],
)
def test_a_sync_that_is_left_out_is_noticed(name: str, wanted: Callable[[str], bool], tmp_path: Path) -> None:
    assert losses(name, tmp_path, 24, without_sync(wanted))
