"""A learner whose numbers overflowed, or that is damaged, takes neither the index nor its vectors with it."""

from __future__ import annotations

import json
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onlinehash import (
    BlendedPairHashing,
    LegoLSH,
    LiveIndex,
    MultiModelOnlineHashing,
    OnlineHashing,
    SmoothPairHashing,
    load,
    refresh,
    save,
)
from onlinehash.cli.export import export as export_command
from onlinehash.errors import Diverged, FormatError, InvalidInput
from onlinehash.io import files, format
from onlinehash.live import storage
from onlinehash.live.export import export
from onlinehash.live.sqlite.checksums import Ledger
from onlinehash.live.sqlite.state import State
from tests.support import as_bytes

X = np.random.default_rng(0).standard_normal((60, 4)).astype(np.float32)
SIMILAR = X[:20, 0] > 0


@pytest.mark.parametrize("weight", [1e308, 1e300, 1e100, 1.1e6, np.inf, np.nan, -1.0])
@pytest.mark.parametrize("method", [SmoothPairHashing, LegoLSH, OnlineHashing])
def test_a_weight_beyond_the_bound_is_refused(method: Any, weight: float, tmp_path: Path) -> None:
    with LiveIndex(method(8, random_state=0), path=tmp_path / "items") as index:
        index.add(range(60), X)
        index.learn_pairs(X[:20], X[20:40], SIMILAR)
        before = as_bytes(index.learner.get_state())
        with pytest.raises(InvalidInput, match=r"expected sample_weight from 0 to 1e\+06, got"):
            index.learn_pairs(X[:20], X[20:40], SIMILAR, [weight] * 20)
        with pytest.raises(InvalidInput, match="expected sample_weight"):
            index.learn_pair(X[0], X[1], True, weight)
        assert as_bytes(index.learner.get_state()) == before
    LiveIndex.open(tmp_path / "items").close()


@pytest.mark.parametrize("scale", [1e-45, 1e-40, 1e-30, 1e-18])
@pytest.mark.parametrize("weight", [1.0, 1e6])
def test_lego_learns_tiny_vectors(scale: float, weight: float, tmp_path: Path) -> None:
    rows = (X.astype(np.float64) * scale).astype(np.float32)
    learner = LegoLSH(16, random_state=0).partial_fit_pairs(rows[:20], rows[20:40], SIMILAR, [weight] * 20)
    assert learner.n_updates_ > 0
    save(learner, tmp_path / "lego.oh")
    assert load(tmp_path / "lego.oh").encode(rows) == learner.encode(rows)
    if scale >= 1e-40:  # below it float32 has hardly a digit left
        assert len(np.unique(learner.encode(rows).rows(), axis=0)) > 20


def test_lego_learns_the_same_at_every_scale() -> None:
    """A power of two changes no digit, so neither does the metric's step."""
    plain, small = (
        LegoLSH(16, random_state=0).partial_fit_pairs(X[:20] * s, X[20:40] * s, SIMILAR)
        for s in (np.float32(1), np.float32(2.0**-60))
    )
    assert as_bytes(plain.metric_) == as_bytes(small.metric_)
    assert plain.encode(X) == small.encode(X * np.float32(2.0**-60))


@pytest.mark.filterwarnings("ignore:.* more than 100 times as long as a typical one")
@pytest.mark.parametrize("scale", [1e-45, 1e-40, 1e-30])
@pytest.mark.parametrize("method", [OnlineHashing, MultiModelOnlineHashing, SmoothPairHashing, BlendedPairHashing])
def test_tiny_items_with_the_largest_weight_leave_an_index_that_opens(
    method: Any, scale: float, tmp_path: Path
) -> None:
    tiny = (X.astype(np.float64) * scale).astype(np.float32)
    with LiveIndex(method(8, random_state=0), refresh.every(20), path=tmp_path / "items", background=False) as index:
        index.add(range(60), tiny)
        index.learn_pairs(tiny[:20], tiny[20:40], SIMILAR, [1e6] * 20)
        index.learn_pairs(X[:20], X[20:40], SIMILAR)
        index.refresh()
        before, hits = as_bytes(index.learner.get_state()), index.search(X[0], 3).ids.tolist()
    with LiveIndex.open(tmp_path / "items") as index:
        assert as_bytes(index.learner.get_state()) == before
        assert index.search(X[0], 3).ids.tolist() == hits
        index.learn_pair(X[0], X[1], True)


def test_heavy_pairs_before_many_honest_ones_leave_an_index_that_opens(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    many, likes = rng.standard_normal((2, 6_000, 4)).astype(np.float32), rng.random(6_000) < 0.5
    with LiveIndex(SmoothPairHashing(8, random_state=0), path=tmp_path / "items", background=False) as index:
        index.add(range(60), X)
        for weight in (1e308, 1e308, 1e6, 1e6):
            with suppress(InvalidInput):  # the larger ones are refused
                index.learn_pair(X[0], X[1], False, weight)
        index.learn_pairs(*many, likes)
        before = as_bytes(index.learner.get_state())
    with LiveIndex.open(tmp_path / "items") as index:
        assert as_bytes(index.learner.get_state()) == before
        index.refresh()
        assert len(np.unique(index.codes.rows(), axis=0)) > 5


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


@pytest.mark.parametrize("least_log", [0, 1 << 18], ids=["checkpoint", "log"])
def test_what_overflows_is_not_committed(
    least_log: int, spoiled: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "LEAST_LOG", least_log)
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


def test_what_overflowed_is_neither_saved_nor_encoded_with(spoiled: Any, tmp_path: Path) -> None:
    learner = OnlineHashing(8, random_state=0).partial_fit_pairs(X[:20], X[20:40], SIMILAR)
    save(learner, tmp_path / "model.oh")
    kept = (tmp_path / "model.oh").read_bytes()
    spoiled()
    learner.partial_fit_pairs(X[:20], X[20:40], SIMILAR)
    with pytest.raises(Diverged):
        save(learner, tmp_path / "model.oh")
    assert (tmp_path / "model.oh").read_bytes() == kept
    with pytest.raises(Diverged, match="hash functions of OnlineHashing are not finite"):
        learner.encode(X)


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


def test_a_log_of_a_time_without_a_bound_on_weights_is_read(tmp_path: Path) -> None:
    learner, twin = OnlineHashing(8, random_state=0), OnlineHashing(8, random_state=0)
    event = {"what": "pairs", "A": X[:20], "B": X[20:40], "similar": SIMILAR, "weight": np.full(20, 1e9)}
    storage.replay(learner, [event])
    twin.relearn_pairs(X[:20], X[20:40], SIMILAR, np.full(20, 1e9))
    assert as_bytes(learner.get_state()) == as_bytes(twin.get_state())


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


def test_a_damaged_encoder_leaves_a_way_to_the_items(tmp_path: Path) -> None:
    """Whether its sum is right or not: no encoder is read."""
    path = tmp_path / "items"
    with LiveIndex(OnlineHashing(8, random_state=0), path=path) as index:
        index.add(["a", "b"], X[:2], [{"n": 1}, None])
    for with_sum in (True, False):
        connection = sqlite3.connect(path / "items.db", isolation_level=None)
        connection.text_factory = bytes
        if with_sum:
            state = State.read(connection, path)
            ledger = Ledger(connection, state.totals)
            ledger.put("encoders", 1, json.dumps({"n_pairs": 0}).encode(), format.to_bytes("encoder", {}))
            state.write(connection)
        else:
            connection.execute("UPDATE encoders SET value = zeroblob(length(value))")
        connection.close()
        with pytest.raises(FormatError):
            LiveIndex.open(path)
        assert [(item.id, item.payload) for item in export(path)] == [("a", {"n": 1}), ("b", None)]
        assert export_command(str(path), str(tmp_path / "items.jsonl"), True) == 0


@pytest.mark.parametrize("has_codes", [True, False])
def test_a_state_that_claims_wide_codes_is_refused(has_codes: bool, tmp_path: Path) -> None:
    """With right sums; a hundred gigabytes were asked for."""
    path = tmp_path / "items"
    with LiveIndex(OnlineHashing(8, random_state=0), path=path) as index:
        index.add(["a", "b"], X[:2])
    connection = sqlite3.connect(path / "items.db", isolation_level=None)
    connection.text_factory = bytes
    state = State.read(connection, path)
    state.code_bytes = 2**40
    if not has_codes:
        Ledger(connection, state.totals).clear("codes")
    state.write(connection)
    connection.close()
    with pytest.raises(FormatError, match="width"):
        LiveIndex.open(path)


def test_a_damaged_vector_is_left_out_and_named(damaged: Path, tmp_path: Path, capsys: Any) -> None:
    with sqlite3.connect(damaged / "items.db") as connection:
        connection.execute("UPDATE rows SET vector = zeroblob(length(vector)) WHERE key = 0")
    connection.close()
    assert [item.vector is None for item in export(damaged)] == [True, False]
    assert export_command(str(damaged), str(tmp_path / "items.jsonl"), False) == FormatError.exit_code
    assert "1 vectors were left out; the first is that of 'a'" in capsys.readouterr().out
