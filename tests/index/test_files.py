"""Indexes in files: the same answers after loading, mapped or not, and no harm from a damaged file."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import onlinehash
from onlinehash import Codes, FlatIndex, MultiIndex, OnlineHashing
from onlinehash.errors import FormatError
from onlinehash.index import costs
from onlinehash.io import format
from onlinehash.io.files import _pack_index


@pytest.fixture(autouse=True)
def _tables_are_used(monkeypatch):
    monkeypatch.setattr(costs, "SCAN_ONE", 1e9)
    monkeypatch.setattr(costs, "SCAN_MANY", 1e9)


def bits(n: int, columns: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random((n, columns)) < 0.5


def changed_index(cls: Any, n_bits: int, n_models: int, fusion: str, strings: bool) -> Any:
    """An index that has dead items and, if it is a multi-index, items that are in no table."""
    ids = [f"item {i}" for i in range(500)] if strings else np.arange(1000, 1500)[::-1]
    index = cls(Codes.from_bits(bits(500, n_bits * n_models), n_models), ids, fusion=fusion)
    index.remove(list(ids[10:30]))
    index.update(ids[100:102], Codes.from_bits(bits(2, n_bits * n_models, 1), n_models))
    index.add(Codes.from_bits(bits(3, n_bits * n_models, 2), n_models), ["a", "b", "c"] if strings else [1, 2, 3])
    return index


@pytest.mark.parametrize(
    ("cls", "mmap", "n_bits", "n_models", "fusion", "strings"),
    [
        (FlatIndex, False, 64, 1, "min", True),
        (FlatIndex, True, 20, 3, "sum", False),
        (MultiIndex, True, 64, 1, "min", False),
        (MultiIndex, False, 20, 3, "min", True),
    ],
)
def test_a_loaded_index_answers_and_changes_as_before(cls, mmap, n_bits, n_models, fusion, strings, tmp_path):
    index = changed_index(cls, n_bits, n_models, fusion, strings)
    onlinehash.save(index, tmp_path / "index.oh")
    loaded = onlinehash.load(tmp_path / "index.oh", mmap=mmap)
    assert (type(loaded), repr(loaded), loaded.codes) == (type(index), repr(index), index.codes)
    queries = Codes.from_bits(bits(9, n_bits * n_models, 3), n_models)
    new = ["x"] if strings else [-5]
    for change in (lambda i: None, lambda i: i.add(queries[:1], new), lambda i: i.remove(new)):
        change(index)
        change(loaded)
        np.testing.assert_array_equal(loaded.ids, index.ids)
        for expected, got in zip(index.search(queries, 30), loaded.search(queries, 30), strict=True):
            np.testing.assert_array_equal(got, expected)
        for expected, got in zip(index.within(queries, n_bits // 3), loaded.within(queries, n_bits // 3), strict=True):
            np.testing.assert_array_equal(got.ids, expected.ids)


def test_the_encoder_comes_along(tmp_path):
    X = np.random.default_rng(0).standard_normal((200, 5))
    oh = OnlineHashing(16, random_state=0).observe(X)
    index = FlatIndex(oh.encode(X), n_jobs=2, encoder=oh.snapshot())
    onlinehash.save(index, tmp_path / "index.oh")
    loaded = onlinehash.load(tmp_path / "index.oh", mmap=True)
    assert loaded.n_jobs == 2
    np.testing.assert_array_equal(loaded.search(X[:7], 3).ids, index.search(X[:7], 3).ids)


def test_a_file_of_something_else_is_refused(tmp_path):
    for place, value in (
        ("class", "Shelf"),
        ("state", []),
        ("state.n_jobs", 0),
        ("state.items.alive", np.full(4, 2**64 - 1, np.uint64)),
        ("state.items.codes.n", 64),
        ("state.items.ids", {"kind": "integers"}),
        ("state.tables", []),
        ("state.tables.0.offsets", np.zeros((8, 256), np.uint32)),
        ("state.tables.0.positions", np.zeros((8, 100), np.uint32)),
        ("state.settled", np.zeros(5, np.uint64)),
        ("state.fresh", np.array([4])),
    ):
        content: Any = _pack_index(MultiIndex(Codes.from_bits(bits(200, 64))))
        inner, *path = content, *place.split(".")
        for name in path[:-1]:
            inner = inner[int(name) if isinstance(inner, list) else name]
        inner[path[-1]] = value
        format.write(tmp_path / "changed.oh", "index", content)
        for mmap in (False, True):
            with pytest.raises(FormatError):
                onlinehash.load(tmp_path / "changed.oh", mmap=mmap)
