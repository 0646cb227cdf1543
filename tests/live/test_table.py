"""An index of the kind "auto" has tables once it is large, however it became so."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from onlinehash import LiveIndex, MultiIndex, OnlineHashing
from onlinehash.live import table


def test_opened_and_reloaded_indexes_have_tables_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "MANY_ITEMS", 50)
    X = np.random.default_rng(0).normal(size=(80, 6)).astype(np.float32)
    with LiveIndex(OnlineHashing(16, random_state=0), path=tmp_path / "items") as writer:
        writer.add(None, X[:40])
        with LiveIndex.open(tmp_path / "items", read_only=True) as reader:
            assert not isinstance(reader.view, MultiIndex)
            writer.add(None, X[40:])
            assert isinstance(writer.view, MultiIndex)
            reader.reload()
            assert isinstance(reader.view, MultiIndex)
            assert np.array_equal(reader.search(X, 5).ids, writer.search(X, 5).ids)
    with LiveIndex.open(tmp_path / "items") as again:
        assert isinstance(again.view, MultiIndex)
