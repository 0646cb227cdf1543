"""Indexes in files: the same answers after loading, mapped or not, and no harm from a damaged file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import onlinehash
from onlinehash import Codes, FlatIndex, MultiIndex, OnlineHashing
from onlinehash.errors import FormatError
from onlinehash.index import costs
from onlinehash.io import format
from onlinehash.io.files import _pack_index

KEPT = Path(__file__).parent.parent / "files" / "v1" / "indexes"


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


@pytest.mark.parametrize("cls", [FlatIndex, MultiIndex])
@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize(
    ("n_bits", "n_models", "fusion", "strings"),
    [(64, 1, "min", True), (100, 1, "min", False), (20, 3, "min", True), (20, 3, "sum", False)],
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


def test_an_empty_index_is_saved_too(tmp_path):
    for cls in (FlatIndex, MultiIndex):
        onlinehash.save(cls(Codes.from_bits(bits(0, 33))), tmp_path / "empty.oh")
        loaded = onlinehash.load(tmp_path / "empty.oh", mmap=True)
        loaded.add(Codes.from_bits(bits(2, 33)))
        assert loaded.search(bits(2, 33)[1], 1).ids.tolist() == [1]


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize("name", ["flat_index", "multi_index"])
def test_kept_files(name, mmap):
    """Loaded by today's code, each answers as it did then."""
    index = onlinehash.load(KEPT / f"{name}.oh", mmap=mmap)
    hits = index.search(np.load(KEPT / "queries.npy"), 300)
    facts = json.loads((KEPT / "facts.json").read_text())[name]
    assert hits.ids.tolist() == facts["ids"]
    assert hits.distances.tolist() == facts["distances"]


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("class", "Shelf"),
        ("class", 3),
        ("encoder", {}),
        ("state", []),
        ("state.n_jobs", 0),
        ("state.fusion", "max"),
        ("state.items", None),
        ("state.items.alive", np.zeros(3, np.uint64)),
        ("state.items.alive", np.full(4, 2**64 - 1, np.uint64)),
        ("state.items.alive", np.zeros(4)),
        ("state.items.codes.n", 64),
        ("state.items.codes.n", -1),
        ("state.items.ids", {"kind": "integers"}),
        ("state.tables", []),
        ("state.tables.0.starts", np.array([0, 0, 16, 24, 32, 40, 48, 56])),
        ("state.tables.0.widths", np.full(8, 7)),
        ("state.tables.0.widths", np.full(8, 8.0)),
        ("state.tables.0.offsets", np.zeros((8, 256), np.uint32)),
        ("state.tables.0.positions", np.zeros((8, 200), np.uint64)),
        ("state.tables.0.positions", np.zeros((8, 100), np.uint32)),
        ("state.tables.0.positions", np.zeros(200, np.uint32)),
        ("state.tables.0.words", np.zeros((8, 200), np.uint64)),
        ("state.tables.0.rows", np.zeros((3, 1), np.uint64)),
        ("state.settled", np.full(4, 2**64 - 1, np.uint64)),
        ("state.settled", np.zeros(5, np.uint64)),
        ("state.fresh", np.array([4])),
        ("state.fresh", np.array([-1])),
        ("state.fresh", np.array([2, 1])),
        ("state.fresh", np.array([0.0])),
    ],
)
def test_a_file_of_something_else_is_refused(place, value, tmp_path):
    content: Any = _pack_index(MultiIndex(Codes.from_bits(bits(200, 64))))
    inner, *path = content, *place.split(".")
    for name in path[:-1]:
        inner = inner[int(name) if isinstance(inner, list) else name]
    inner[path[-1]] = value
    format.write(tmp_path / "changed.oh", "index", content)
    for mmap in (False, True):
        with pytest.raises(FormatError):
            onlinehash.load(tmp_path / "changed.oh", mmap=mmap)


def test_tables_that_belong_to_other_items_are_refused(tmp_path):
    def tables(n: int, n_bits: int, n_models: int = 1) -> Any:
        return _pack_index(MultiIndex(Codes.from_bits(bits(n, n_bits * n_models), n_models)))["state"]["tables"]

    for n_bits, n_models, wrong in [
        (64, 1, tables(5000, 64)),
        (64, 1, tables(100, 64)),
        (20, 2, [*tables(200, 20), *tables(5000, 20)]),
        (20, 2, tables(200, 20)),
    ]:
        content: Any = _pack_index(MultiIndex(Codes.from_bits(bits(200, n_bits * n_models), n_models)))
        content["state"]["tables"] = wrong
        format.write(tmp_path / "other.oh", "index", content)
        with pytest.raises(FormatError):
            onlinehash.load(tmp_path / "other.oh")


@pytest.mark.parametrize("n_bits", [64, 100])
@pytest.mark.parametrize("name", ["offsets", "positions"])
def test_wild_values_in_tables_lead_nowhere(name, n_bits, tmp_path):
    """Such a file answers nonsense, but reads no memory that is not its own."""
    content: Any = _pack_index(MultiIndex(Codes.from_bits(bits(200, n_bits))))
    table = content["state"]["tables"][0]
    table[name] = np.random.default_rng(0).integers(0, 2**32, table[name].shape, np.uint32)
    format.write(tmp_path / "wild.oh", "index", content)
    index = onlinehash.load(tmp_path / "wild.oh")
    queries = Codes.from_bits(bits(20, n_bits, 1))
    for k in (1, 50):
        assert index.search(queries, k).ids.shape == (20, k)
    assert len(index.within(queries, 20)) == 20
