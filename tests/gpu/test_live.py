"""`LiveIndex` with its codes on a card, beside one without: the same answers after the same changes."""

from __future__ import annotations

import numpy as np
import pytest

from onlinehash import LiveIndex, OnlineHashing, RbfAnchors, refresh
from onlinehash.errors import MissingExtra, NotReady
from onlinehash.gpu import codes as gpu_codes
from onlinehash.gpu.twins import Twins
from onlinehash.index import gpu as gpu_index
from onlinehash.index.gpu import GpuIndex
from tests.gpu.test_card_codes import has_card, needs_card

X = np.random.default_rng(0).standard_normal((900, 12)).astype(np.float32)
X[300:600] = X[np.arange(300) % 7]  # many at the very same distance
QUERIES = X[::100] + np.float32(0.05)


@pytest.fixture(params=["twins", pytest.param("card", marks=needs_card)])
def on(request, monkeypatch):
    """With the kernels' twins in their place, and on a card."""
    monkeypatch.setattr(gpu_codes, "SAMPLED", 4)
    monkeypatch.setattr(gpu_codes, "ROOM", 256)
    if request.param == "twins":
        monkeypatch.setattr(GpuIndex, "_make_runs", lambda self, shape: Twins(shape))
    return request.param


def learner(**options):
    return OnlineHashing(n_bits=20, burn_in=50, random_state=0, **options)


def assert_same(on_card, on_cpu, where=None):
    assert len(on_card) == len(on_cpu)
    assert isinstance(on_card.view, GpuIndex)
    for k in (1, 10, len(on_cpu)):
        for queries in (QUERIES[0], QUERIES):
            ours, theirs = (index.search(queries, k, where) for index in (on_card, on_cpu))
            np.testing.assert_array_equal(ours.ids, theirs.ids)
            np.testing.assert_array_equal(ours.distances, theirs.distances)
    ours, theirs = (index.find(QUERIES, 10, where) for index in (on_card, on_cpu))
    np.testing.assert_allclose(ours.distances, theirs.distances, atol=1e-5)  # rounding decides between equal ones
    for ours, theirs in zip(*(index.within(QUERIES, 5, where) for index in (on_card, on_cpu)), strict=True):
        np.testing.assert_array_equal(ours.ids, theirs.ids)


def teach(index, n, seed):
    a, b = np.random.default_rng(seed).integers(0, len(X), (2, n))
    index.learn_pairs(X[a], X[b], (X[a] * X[b]).sum(axis=1) > 0)


CHANGES = [
    lambda index: index.add([f"item {i}" for i in range(500)], X[:500], [{"part": i % 3} for i in range(500)]),
    lambda index: teach(index, 40, 1),
    lambda index: index.refresh(),
    lambda index: index.remove([f"item {i}" for i in range(0, 100, 3)]),
    lambda index: index.update([f"item {i}" for i in range(200, 230)], X[600:630]),
    lambda index: index.add([f"item {i}" for i in range(500, 900)], X[500:], [{"part": i % 3} for i in range(400)]),
    lambda index: teach(index, 40, 2),
    lambda index: index.refresh(),
    lambda index: index.remove([f"item {i}" for i in range(300, 600)]),  # so many that positions are counted anew
    lambda index: index.roll_back(),
    lambda index: index.add(["one"], X[:1]),
]


@pytest.mark.usefixtures("on")
def test_equal_to_the_cpu_after_every_change():
    indexes = [LiveIndex(learner(), refresh.by_hand(), device=device) for device in ("cuda", "cpu")]
    for change in CHANGES:
        for index in indexes:
            change(index)
        assert_same(*indexes)
        assert_same(*indexes, where={"part": 1})


def test_a_folder_is_searched_on_a_card_or_not(on, tmp_path):
    """The device is not kept there; readers follow a writer on the card too."""
    path, exact = tmp_path / "items", "float32"  # for find
    with LiveIndex(learner(), refresh.by_hand(), index="multi", path=path, device="cuda", precision=exact) as writer:
        CHANGES[0](writer)
        readers = [LiveIndex.open(path, read_only=True, device=device, precision=exact) for device in ("cuda", None)]
        for change in CHANGES[1:]:
            change(writer)
            for reader in readers:
                reader.reload()
            assert_same(*readers)
            assert_same(writer, readers[1])
        assert "GpuIndex" not in repr(readers[1].view)
        for reader in readers:
            reader.close()
    with LiveIndex.open(path) as plain, pytest.raises(AssertionError):
        assert_same(plain, plain)  # which is not on a card


@pytest.mark.skipif(has_card(), reason="there is a card")
def test_what_is_missing_is_said_in_one_sentence_and_leaves_no_folder(tmp_path):
    with pytest.raises((MissingExtra, NotReady), match=r"^a GpuIndex needs [^\n]+$"):
        LiveIndex(learner(), path=tmp_path / "items", device="cuda")
    assert not (tmp_path / "items").exists()


@pytest.mark.usefixtures("on")
def test_a_refresh_takes_vectors_to_the_card_some_at_a_time(monkeypatch):
    monkeypatch.setattr(gpu_index, "ENCODED_BYTES", 2 * 4096 * 12 * 4)  # two blocks
    rows = np.random.default_rng(1).standard_normal((4 * 4096 + 100, 12)).astype(np.float32)
    on_card, on_cpu = (
        LiveIndex(learner(features=RbfAnchors(n_anchors=8)), refresh.by_hand(), device=d) for d in ("cuda", "cpu")
    )
    for index in (on_card, on_cpu):
        index.add(None, rows)
        teach(index, 60, 2)
        index.refresh()
        index.remove(np.arange(100, 200))
        teach(index, 60, 3)
        index.refresh()
    assert on_card.codes == on_cpu.codes
    assert on_card.view.planes_by(on_card.encoder, [(0, rows)], lambda: True) is None
