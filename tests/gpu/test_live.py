"""`LiveIndex` with its codes on a card, beside one without: the same answers after the same changes."""

from __future__ import annotations

import threading
from contextlib import contextmanager

import numpy as np
import pytest

from onlinehash import FlatIndex, LiveIndex, MultiModelOnlineHashing, OnlineHashing, RbfAnchors, refresh
from onlinehash.errors import InvalidInput, InvalidParameter, MissingExtra, NotReady
from onlinehash.gpu import codes as gpu_codes
from onlinehash.gpu.kernels import Kernels
from onlinehash.gpu.twins import Twins
from onlinehash.index import gpu as gpu_index
from onlinehash.index.gpu import GpuIndex
from tests.gpu.test_card_codes import FakeCard, has_card, needs_card, on_fake_card
from tests.support import mostly_long

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


@pytest.mark.parametrize("kind", mostly_long([OnlineHashing, MultiModelOnlineHashing], {OnlineHashing}))
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


@pytest.mark.parametrize(("n", "changed"), [(100, 99), (10, 3)])
def test_an_update_leaves_the_view_that_somebody_holds(on, n, changed):
    index = LiveIndex(learner(), refresh.by_hand(), device="cuda")
    index.add(None, X[:n])
    held, before = index.view, index.view.search(X[:n], n)
    index.update([changed], X[700:701])
    for ours, theirs in zip(held.search(X[:n], n), before, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert_searched_as_by_a_flat_index(index)


@pytest.fixture
def full(on, monkeypatch):
    """A card that is full within `with full():`."""
    runs = on_fake_card(Twins if on == "twins" else Kernels)
    monkeypatch.setattr(GpuIndex, "_make_runs", lambda self, shape: runs(shape))

    @contextmanager
    def filled():
        with monkeypatch.context() as patch:
            patch.setattr(FakeCard, "free", 10**8)
            yield

    return filled


def assert_searched_as_by_a_flat_index(index):
    flat, queries = FlatIndex(index.codes, index.ids), index.encoder.encode(QUERIES)
    for ours, theirs in zip(index.search(QUERIES, 20), flat.search(queries, 20), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert np.array_equal(index.encoder.encode(index.vectors).rows(), index.codes.rows())


def test_what_has_no_room_is_refused_before_anything_changes(full):
    index, plain = (LiveIndex(learner(), refresh.by_hand(), device=device) for device in ("cuda", None))
    for one in (index, plain):
        CHANGES[0](one)
    with full():
        for one in (index, plain):
            one.add(["behind the others"], X[:1])  # for which there is room already
        some = [f"more {i}" for i in range(50)]
        for change in (lambda: index.add(some, X[:50]), lambda: index.update(["item 1"], X[:1])):
            with pytest.raises(InvalidInput, match=r"makes a copy of them, takes .* GB of this full card are free"):
                change()
        assert_same(index, plain)
    for one in (index, plain):
        teach(one, 30, 3)
        one.refresh()
    assert_same(index, plain)


def test_what_a_full_card_refuses_is_no_part_of_a_group(full, tmp_path):
    with LiveIndex(learner(), refresh.by_hand(), path=tmp_path / "items", device="cuda") as index:
        CHANGES[0](index)
        with full(), index.group_commit():
            index.add(["new"], X[:1])  # for which there is room
            some = [f"more {i}" for i in range(50)]
            for change in (lambda: index.update(["item 1"], X[:1]), lambda: index.add(some, X[:50])):
                with pytest.raises(InvalidInput, match="makes a copy of them"):
                    change()
        assert "new" in index.ids
        assert len(index) == 501
        assert_searched_as_by_a_flat_index(index)


def test_items_are_removed_from_a_full_card(full, tmp_path):
    """So many that positions would be counted anew, for which there is no room; by a writer and by its reader."""
    path, exact = tmp_path / "items", "float32"
    few, many = ([f"item {i}" for i in numbers] for numbers in (range(100, 110), range(200, 450)))
    with LiveIndex(learner(), refresh.by_hand(), path=path, device="cuda", precision=exact) as writer:
        CHANGES[0](writer)
        with (
            LiveIndex.open(path, read_only=True, device="cuda", precision=exact) as reader,
            LiveIndex.open(path, read_only=True, precision=exact) as plain,
        ):

            def assert_all_same(n_dead):
                for one in (reader, plain):
                    one.reload()
                for one in (writer, reader):
                    assert one.view.items.n_dead == n_dead
                    assert_same(one, plain)

            with full():
                writer.remove(many)
                assert_all_same(n_dead=len(many))
            writer.remove(few)
            assert_all_same(n_dead=0)
            writer.add(many, X[200:450])
            with full():
                with pytest.raises(InvalidInput, match="GB of this full card are free"):
                    reader.reload()
                assert reader.search(QUERIES, 900).ids.shape == (len(QUERIES), 240)  # as before
            assert_all_same(n_dead=0)
            with full():
                writer.remove(many)
    with LiveIndex.open(path, device="cuda", precision=exact) as again:
        assert_searched_as_by_a_flat_index(again)
        assert len(again) == 240


@pytest.mark.parametrize("is_durable", [False, True])
def test_a_card_that_fills_up_halfway_through_a_change(full, is_durable, tmp_path, monkeypatch):
    """What is on the disk, or what is published, is what holds afterwards."""
    index = LiveIndex(learner(), refresh.by_hand(), path=tmp_path / "items" if is_durable else None, device="cuda")
    CHANGES[0](index)
    monkeypatch.setattr(GpuIndex, "check_addition", lambda self, n: None)
    with full(), pytest.raises(InvalidInput, match="GB of this full card are free"):
        index.add([f"item {i}" for i in range(500, 900)], X[500:])
    if is_durable:
        index.reload()
    assert len(index) == (900 if is_durable else 500)
    index.add(["new"], X[:1])
    assert_searched_as_by_a_flat_index(index)
    index.close()


@pytest.mark.skipif(has_card(), reason="there is a card")
def test_what_is_missing_is_said_in_one_sentence_and_leaves_no_folder(tmp_path):
    with pytest.raises((MissingExtra, NotReady), match=r"^a GpuIndex needs [^\n]+$"):
        LiveIndex(learner(), path=tmp_path / "items", device="cuda")
    assert not (tmp_path / "items").exists()


def test_other_devices_are_refused():
    with pytest.raises(InvalidParameter, match="'cuda'"):
        LiveIndex(learner(), device="tpu")


@pytest.mark.usefixtures("on")
@pytest.mark.parametrize("features", [None, RbfAnchors(n_anchors=8)], ids=["plain", "mapped"])
def test_a_refresh_takes_vectors_to_the_card_some_at_a_time(features, monkeypatch):
    monkeypatch.setattr(gpu_index, "ENCODED_BYTES", 2 * 4096 * 12 * 4)  # two blocks
    rows = np.random.default_rng(1).standard_normal((4 * 4096 + 100, 12)).astype(np.float32)
    on_card, on_cpu = (LiveIndex(learner(features=features), refresh.by_hand(), device=d) for d in ("cuda", "cpu"))
    for index in (on_card, on_cpu):
        index.add(None, rows)
        teach(index, 60, 2)
        index.refresh()
        index.remove(np.arange(100, 200))
        teach(index, 60, 3)
        index.refresh()
    assert on_card.codes == on_cpu.codes
    assert on_card.view.planes_by(on_card.encoder, [(0, rows)], lambda: True) is None
