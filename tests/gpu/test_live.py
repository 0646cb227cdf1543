"""`LiveIndex` with its codes on a card, beside one without: the same answers after the same changes."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from onlinehash import LiveIndex, MultiModelOnlineHashing, OnlineHashing, refresh
from onlinehash.errors import InvalidInput, InvalidParameter, MissingExtra, NotReady
from onlinehash.gpu import card as gpu_card
from onlinehash.gpu import codes as gpu_codes
from onlinehash.gpu.twins import Twins
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


def learner(kind=OnlineHashing, **options):
    return kind(n_bits=20, burn_in=50, random_state=0, **options)


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


@pytest.mark.parametrize("kind", [OnlineHashing, MultiModelOnlineHashing])
def test_equal_to_the_cpu_after_every_change(on, kind):
    indexes = [LiveIndex(learner(kind), refresh.by_hand(), device=device) for device in ("cuda", "cpu")]
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


def test_searched_while_it_changes(on):
    """An item whose vector stays is nearest to itself, in every state that a search can meet."""
    index = LiveIndex(learner(), refresh.by_hand(), device="cuda")
    index.add(None, X)
    stop, failures = threading.Event(), []

    def search(own):
        while not stop.is_set():
            hits = index.search(X[own], 1)
            if hits.distances[0] != 0 or not np.array_equal(X[hits.ids[0]], X[own]):
                failures.append((own, hits))
            if len(index.within(X[own], 0).ids) == 0:
                failures.append((own, "within"))

    threads = [threading.Thread(target=search, args=(own,)) for own in (0, 650)]
    for thread in threads:
        thread.start()
    for turn in range(6):
        teach(index, 20, turn)
        job = index.refresh(wait=False)
        added = index.add(None, X[640:650] + 5)
        index.update(added[:5], X[630:635] - 5)
        index.remove(added[5:])
        assert job is None or job.wait()
    stop.set()
    for thread in threads:
        thread.join()
    assert not failures
    assert np.array_equal(index.encoder.encode(index.vectors).rows(), index.codes.rows())
    assert_same(index, copied(index))


def copied(index):
    """The same items and the same encoder, on the CPU."""
    twin = LiveIndex(index.learner, refresh.by_hand())
    twin.add(index.ids, index.vectors)
    return twin


def test_what_has_no_room_is_refused_before_anything_changes(on, monkeypatch):
    index, plain = (LiveIndex(learner(), refresh.by_hand(), device=device) for device in ("cuda", None))
    for one in (index, plain):
        CHANGES[0](one)
    full = gpu_card.Card("full card", 10**9, 1000, 1)
    with monkeypatch.context() as patch:
        patch.setattr(gpu_card, "describe", lambda cupy: full)
        patch.setattr(gpu_codes.CardCodes, "_check_room", lambda self, *needed: gpu_card.check_room(None, *needed))
        for change in (lambda: index.add(["new"], X[:1]), lambda: index.update(["item 1"], X[:1])):
            with pytest.raises(InvalidInput, match=r"makes a copy of them, takes .* GB of this full card are free"):
                change()
    for one in (index, plain):
        teach(one, 30, 3)
        one.refresh()
    assert_same(index, plain)


@pytest.mark.skipif(has_card(), reason="there is a card")
def test_what_is_missing_is_said_in_one_sentence_and_leaves_no_folder(tmp_path):
    with pytest.raises((MissingExtra, NotReady), match=r"^a GpuIndex needs [^\n]+$"):
        LiveIndex(learner(), path=tmp_path / "items", device="cuda")
    assert not (tmp_path / "items").exists()


def test_other_devices_are_refused():
    with pytest.raises(InvalidParameter, match="'cuda'"):
        LiveIndex(learner(), device="tpu")
