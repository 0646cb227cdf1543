"""`GpuIndex` beside `FlatIndex`: the same answers after the same changes."""

from __future__ import annotations

import numpy as np
import pytest

from onlinehash import Codes, FlatIndex, load, save
from onlinehash.errors import MissingExtra, NotReady
from onlinehash.gpu import codes as gpu_codes
from onlinehash.gpu.twins import Twins
from onlinehash.index.gpu import GpuIndex
from tests.gpu.test_card_codes import has_card, needs_card


class TwinIndex(GpuIndex):
    """The kernels' twins in their place, where there is no card."""

    def _make_runs(self, shape):
        return Twins(shape)


KINDS = [pytest.param(TwinIndex, id="twins"), pytest.param(GpuIndex, id="card", marks=needs_card)]


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(gpu_codes, "SAMPLED", 4)
    monkeypatch.setattr(gpu_codes, "ROOM", 256)
    monkeypatch.setattr(gpu_codes, "MOST_KEPT", 300)
    monkeypatch.setattr(gpu_codes, "CHUNK_GROUPS", 2)


def draw(rng, n, n_columns):
    centres = np.random.default_rng(0).random((4, n_columns)) < 0.5
    return centres[rng.integers(0, 4, n)] ^ (rng.random((n, n_columns)) < 0.08)


def assert_same(gpu, flat, queries, among=None):
    """Ids and distances of both, for one query and for several, near and within."""
    assert len(gpu) == len(flat)
    for asked in (queries[0], queries[:3], queries):
        for k in (1, 10, len(flat)):
            ours, theirs = gpu.search(asked, k, among), flat.search(asked, k, among)
            np.testing.assert_array_equal(ours.ids, theirs.ids)
            np.testing.assert_array_equal(ours.distances, theirs.distances)
    for radius in (0, 5, 1000):
        for ours, theirs in zip(gpu.within(queries, radius, among), flat.within(queries, radius, among), strict=True):
            np.testing.assert_array_equal(ours.ids, theirs.ids)
            np.testing.assert_array_equal(ours.distances, theirs.distances)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("n_bits", "n_models", "fusion"), [(64, 1, "min"), (13, 3, "sum")])
def test_equal_to_the_flat_index_after_changes(kind, n_bits, n_models, fusion):
    rng, columns = np.random.default_rng(1), n_bits * n_models

    def codes(n):
        return Codes.from_bits(draw(rng, n, columns), n_models)

    first = codes(700)
    names = [f"item {i}" for i in range(700)]
    indexes = [make(first, names, fusion=fusion) for make in (kind, FlatIndex)]
    queries = draw(rng, 12, columns)
    assert_same(*indexes, queries)
    changes = [
        ("remove", names[5:120:3]),
        ("add", codes(300), [f"new {i}" for i in range(300)]),
        ("update", names[200:230], codes(30)),
        ("remove", names[400:650]),
        ("add", codes(1), ["one"]),
    ]
    for name, *arguments in changes:
        for index in indexes:
            getattr(index, name)(*arguments)
        assert_same(*indexes, queries)
    chosen = rng.random(len(indexes[0])) < 0.3
    assert_same(*indexes, queries, chosen)
    other = codes(len(indexes[0]))
    for index in indexes:
        index.replace(other)
    assert_same(*indexes, queries)
    assert indexes[0].card_bytes > 0


@pytest.mark.parametrize("kind", KINDS)
def test_forks_leave_the_index_as_it_was(kind):
    rng = np.random.default_rng(2)
    bits, queries = draw(rng, 500, 64), draw(rng, 8, 64)
    index, flat = (make(Codes.from_bits(bits)) for make in (kind, FlatIndex))
    newer, newer_flat = index.fork(), flat.fork()
    more, changed = Codes.from_bits(draw(rng, 90, 64)), Codes.from_bits(draw(rng, 20, 64))
    for one in (newer, newer_flat):
        one.add(more)
        one.put(np.arange(30, 50), changed)
        one.bury(np.arange(100, 140))
    assert_same(index, flat, queries)
    assert_same(newer, newer_flat, queries)


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_holds_a_flat_index(kind, tmp_path):
    rng = np.random.default_rng(5)
    index = kind(Codes.from_bits(draw(rng, 200, 64)), ids=[f"{i}" for i in range(200)])
    index.remove(["3", "77"])
    save(index, tmp_path / "index.oh")
    for mmap in (False, True):
        flat = load(tmp_path / "index.oh", mmap=mmap)
        assert type(flat) is FlatIndex
        assert_same(kind.of(flat), flat, draw(rng, 5, 64))


@pytest.mark.skipif(has_card(), reason="there is a card")
def test_what_is_missing_is_said_in_one_sentence():
    """Without CuPy, or without a card."""
    with pytest.raises((MissingExtra, NotReady), match=r"^a GpuIndex needs [^\n]+$"):
        GpuIndex(Codes.from_bits(np.zeros((3, 8), np.bool_)))
