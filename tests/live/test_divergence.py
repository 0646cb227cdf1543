"""A learner whose numbers overflowed, or that is damaged, takes neither the index nor its vectors with it."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onlinehash import (
    LiveIndex,
    OnlineHashing,
    refresh,
)
from onlinehash.cli.export import export as export_command
from onlinehash.errors import Diverged, FormatError, InvalidInput
from onlinehash.io import files, format
from onlinehash.live.export import export
from onlinehash.live.sqlite.checksums import Ledger
from onlinehash.live.sqlite.state import State
from tests.support import as_bytes

X = np.random.default_rng(0).standard_normal((60, 4)).astype(np.float32)
SIMILAR = X[:20, 0] > 0


def test_a_weight_beyond_the_bound_is_refused(tmp_path: Path) -> None:
    with LiveIndex(OnlineHashing(8, random_state=0), path=tmp_path / "items") as index:
        index.add(range(60), X)
        index.learn_pairs(X[:20], X[20:40], SIMILAR)
        before = as_bytes(index.learner.get_state())
        for weight in (1e308, 1.1e6, np.inf, np.nan, -1.0):
            with pytest.raises(InvalidInput, match="expected sample_weight from 0 to"):
                index.learn_pairs(X[:20], X[20:40], SIMILAR, [weight] * 20)
            with pytest.raises(InvalidInput, match="expected sample_weight"):
                index.learn_pair(X[0], X[1], True, weight)
        assert as_bytes(index.learner.get_state()) == before
    LiveIndex.open(tmp_path / "items").close()


@pytest.fixture
def spoiled(monkeypatch: pytest.MonkeyPatch) -> Any:
    """After this call, the next step overflows."""
    run = OnlineHashing._run

    def overflow(self: Any, *given: Any) -> int:
        monkeypatch.setattr(OnlineHashing, "_run", run)
        stopped_at = run(self, *given)
        self._W[0, 0] = np.inf
        return stopped_at

    return lambda: monkeypatch.setattr(OnlineHashing, "_run", overflow)


def test_what_overflows_is_not_committed(spoiled: Any, tmp_path: Path) -> None:
    with LiveIndex(OnlineHashing(8, random_state=0), path=tmp_path / "items") as index:
        index.add(range(60), X)
        index.learn_pairs(X[:20], X[20:40], SIMILAR)
        before = as_bytes(index.learner.get_state())
        spoiled()
        with pytest.raises(Diverged, match=r"values that are not finite \(W\).*rescale"):
            index.learn_pairs(np.tile(X[:20], (9, 1)), np.tile(X[20:40], (9, 1)), np.tile(SIMILAR, 9))
        assert as_bytes(index.learner.get_state()) == before
        index.search(X[0], 3)
    with LiveIndex.open(tmp_path / "items") as index:
        assert as_bytes(index.learner.get_state()) == before


def test_an_encoder_that_could_not_be_read_is_not_committed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with LiveIndex(OnlineHashing(8, random_state=0), refresh.by_hand(), path=tmp_path / "items") as index:
        index.add(range(60), X)
        index.learn_pairs(X[:20], X[20:40], SIMILAR)
        before = index.codes, index.serial
        with monkeypatch.context() as patched:
            patched.setattr(files, "_pack_encoder", lambda encoder: {"weights": encoder.weights})
            with pytest.raises(FormatError, match="about to be stored does not hold a usable encoder"):
                index.refresh()
        assert (index.codes, index.serial) == before
        index.refresh()
    LiveIndex.open(tmp_path / "items").close()


# ------------------------------------------------------------------ a learner that is damaged


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """An index whose learner has right sums, and numbers that no learner has."""
    path = tmp_path / "items"
    with LiveIndex(OnlineHashing(8, random_state=0), path=path) as index:
        index.add(["a", "b"], X[:2], [{"n": 1}, None])
        index.learn_pairs(X[:20], X[20:40], SIMILAR)
        blob = files.to_bytes(index.learner)
    kind, content = format.from_bytes(blob, "learner")
    content["state"]["method"]["W"][:] = np.nan
    connection = sqlite3.connect(path / "items.db", isolation_level=None)
    connection.text_factory = bytes
    state = State.read(connection, path)
    ledger = Ledger(connection, state.totals)
    ledger.put("learner", 0, format.to_bytes(kind, content))
    ledger.clear("events")
    state.write(connection)
    connection.close()
    return path


def test_a_damaged_learner_leaves_a_way_to_the_items(damaged: Path, tmp_path: Path, capsys: Any) -> None:
    for read_only in (False, True):
        with pytest.raises(
            FormatError, match=r"W contains values that are not finite; restore a copy, or write the items"
        ):
            LiveIndex.open(damaged, read_only=read_only)
    items = list(export(damaged))
    assert [(item.id, item.payload) for item in items] == [("a", {"n": 1}), ("b", None)]
    assert np.array_equal([item.vector for item in items], X[:2])
    assert export_command(str(damaged), str(tmp_path / "items.jsonl"), True) == 0
    assert json.loads(capsys.readouterr().out) == {"output": str(tmp_path / "items.jsonl"), "items": 2, "damaged": []}
    lines = [json.loads(line) for line in (tmp_path / "items.jsonl").read_text().splitlines()]
    assert lines[0] == {"id": "a", "vector": X[0].tolist(), "payload": {"n": 1}}


def test_a_damaged_vector_is_left_out_and_named(damaged: Path, tmp_path: Path, capsys: Any) -> None:
    with sqlite3.connect(damaged / "items.db") as connection:
        connection.execute("UPDATE rows SET vector = zeroblob(length(vector)) WHERE key = 0")
    connection.close()
    assert [item.vector is None for item in export(damaged)] == [True, False]
    assert export_command(str(damaged), str(tmp_path / "items.jsonl"), False) == FormatError.exit_code
    assert "1 vectors were left out; the first is that of 'a'" in capsys.readouterr().out
