"""What a live index promises, one thing at a time."""

from __future__ import annotations

import numpy as np
import pytest

from onlinehash import (
    Hits,
    LiveIndex,
    MultiModelOnlineHashing,
    OnlineHashing,
    RbfAnchors,
    refresh,
)
from onlinehash.errors import InvalidInput, InvalidParameter, NotReady, StorageError, UnknownId
from onlinehash.learners import registry
from onlinehash.live import refresher
from tests.live.model import pairs_of
from tests.support import refused, state_bytes

WIDTH = 6


def learner(**params):
    return OnlineHashing(**{"n_bits": 16, "burn_in": 40, "random_state": 0} | params)


def rows(n, seed=0):
    return np.random.default_rng(seed).standard_normal((n, WIDTH)).astype(np.float32)


def teach(index, n=20, seed=1):
    index.learn_pairs(rows(n, seed), rows(n, seed + 1000), np.arange(n) % 2 == 0)


def filled(policy=None, n=100, **options):
    """An index of n items, numbered from 0, every third of which is red."""
    index = LiveIndex(learner(), policy or refresh.by_hand(), **options)
    index.add(None, rows(n), [{"colour": "blue" if i % 3 else "red", "price": i} for i in range(n)])
    return index


def follows_the_law(index):
    return index.codes == index.encoder.encode(index.vectors)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "items"


# ---------------------------------------------------------------------------------------------- without a learner


def test_without_a_learner_it_has_the_recommended_one():
    for index, n_bits in ((LiveIndex(), 64), (LiveIndex(n_bits=24), 24)):
        assert (type(index.learner), index.n_bits) == (registry.find(registry.RECOMMENDED), n_bits)
        other = LiveIndex(type(index.learner)(n_bits, random_state=0))
        for one in (index, other):
            one.add(None, rows(300))
            teach(one, 100)
            one.refresh()
        assert index.codes == other.codes


def test_without_a_learner_an_index_that_is_there_is_continued_whatever_its_learner(path):
    with LiveIndex(n_bits=24, path=path) as index:
        index.add(None, rows(10))
        teach(index, 5)
    for given in ({}, {"n_bits": 24}):
        with LiveIndex(path=path, **given) as index:
            assert (len(index), index.learner.n_pairs_seen_) == (10, 5)
    with pytest.raises(InvalidInput, match=r"expected n_bits=24 as in .*items, got 64; leave it out"):
        LiveIndex(path=path, n_bits=64)
    LiveIndex(path=path).close()  # nothing is left open
    with LiveIndex(learner(), path=path.with_name("others")) as index:
        index.add(None, rows(10))
    with LiveIndex(path=path.with_name("others"), n_bits=16) as index:
        assert (type(index.learner), len(index)) == (OnlineHashing, 10)


# ---------------------------------------------------------------------------------------------- items


def test_an_item_comes_is_found_changes_and_goes():
    index = LiveIndex(learner())
    index.add("first", rows(1)[0], {"colour": "red"})
    index.add(["second", "third"], rows(2, 1))
    assert (len(index), list(index), "second" in index, "fourth" in index, 4 in index) == (
        3,
        ["first", "second", "third"],
        True,
        False,
        False,
    )
    item = index.get("first")
    assert (item.id, item.payload) == ("first", {"colour": "red"})
    np.testing.assert_array_equal(item.vector, rows(1)[0])
    assert index.get("second").payload is None

    index.update("first", rows(1, 2)[0])
    assert index.get("first").payload == {"colour": "red"}
    index.update("first", payloads={"colour": "blue"})
    np.testing.assert_array_equal(index.get("first").vector, rows(1, 2)[0])
    assert index.get("first").payload == {"colour": "blue"}
    index.update(["first"], payloads=[None])
    assert index.get("first").payload is None
    assert list(index) == ["first", "second", "third"]

    index.remove("first")
    index.add("first", rows(1)[0])
    assert list(index) == ["second", "third", "first"]


def test_items_without_ids_are_numbered_on():
    index = LiveIndex(learner())
    index.add(None, rows(2))
    index.add([10], rows(1))
    index.add(None, rows(2))
    assert list(index) == [0, 1, 10, 11, 12]


def test_vectors_given_and_taken_are_copies():
    index, X = LiveIndex(learner()), rows(5)
    index.add(None, X)
    payload = {"tags": ["a"]}
    index.update(0, payloads=payload)
    X[:] = 0
    payload["tags"].append("b")
    index.get(1).vector[:] = 0
    index.vectors[:] = 0
    index.get(0).payload["tags"].append("c")
    np.testing.assert_array_equal(index.vectors, rows(5))
    assert index.get(0).payload == {"tags": ["a"]}
    assert follows_the_law(index)


def test_adding_observes_and_learning_by_id_is_learning_the_vectors():
    index, alone = LiveIndex(learner()), learner().keep_metric()
    index.add(["a", "b", "c"], rows(3))
    update = index.learn_pair_by_id("a", "c", False)
    alone.observe(rows(3))
    expected = alone.learn_pair(rows(3)[0], rows(3)[2], False)
    assert (update.loss, list(update.bits)) == (expected.loss, list(expected.bits))
    updates = index.learn_pairs_by_id(["a", "a"], ["b", "c"], [True, False])
    alone.learn_pairs(rows(3)[[0, 0]], rows(3)[[1, 2]], [True, False])
    assert len(updates) == 2
    assert state_bytes(index.learner) == state_bytes(alone)


# ---------------------------------------------------------------------------------------------- questions


def test_rerank_compares_vectors(path):
    with filled(path=path) as index:
        queries = rows(4, 5)
        hits = index.search(queries, 20)
        near = index.rerank(queries, hits, k=6)
        for i, query in enumerate(queries):
            ranking = index.learner.pair_metric_.ranking(query, 20)
            ranking.add(rows(100)[hits.ids[i]])
            assert near.ids[i].tolist() == hits.ids[i][ranking.order(6)[0]].tolist()
            assert (np.diff(near.distances[i]) >= 0).all()
            one = index.rerank(query, index.search(query, 20))
            assert one.ids[:6].tolist() == near.ids[i].tolist()
            assert one.ids.shape == (20,)
        assert index.rerank(queries[0], index.within(queries[0], 5)).ids.ndim == 1
        assert index.rerank(queries[0], index.search(queries[0], 0)).ids.shape == (0,)


def test_a_learner_without_functions_says_what_it_waits_for():
    index = LiveIndex(learner(features=RbfAnchors(20)), refresh.by_hand())
    refused(index.search, rows(1)[0], 3)
    index.add(None, rows(19))
    assert index.encoder is None
    assert (len(index), index.vectors.shape) == (19, (19, WIDTH))
    for call in (lambda: index.search(rows(1)[0], 3), lambda: index.within(rows(1)[0], 3), lambda: index.codes):
        assert isinstance(refused(call), NotReady)
    index.learn_pair(*rows(2, 1), True)
    assert index.encoder is index.learner.snapshot()
    assert (index.refreshes, index.serial) == (0, 1)
    assert follows_the_law(index)


# ---------------------------------------------------------------------------------------------- following


def test_learning_touches_nothing_until_a_refresh():
    index = filled()
    codes, encoder = index.codes, index.encoder
    assert index.behind.pairs == 0
    teach(index, 7)
    assert index.encoder is encoder
    assert index.codes == codes
    assert index.behind.pairs == 7
    assert 0 < index.behind.bits <= 16
    changed = index.newest.changed_bits(encoder)
    flipped = np.count_nonzero(index.newest.transform(rows(100)) != encoder.transform(rows(100)))
    assert index.refresh() is None
    assert index.behind == (0, 0)
    assert index.encoder is index.newest
    assert follows_the_law(index)
    assert (index.refreshes, index.bits_rehashed, index.bits_flipped) == (1, 100 * len(changed), flipped)
    assert 0 <= index.bits_skipped <= index.bits_rehashed - index.bits_flipped


def test_background_refreshes_come_by_themselves():
    index = filled(refresh.every(5), background=True)
    teach(index, 5)
    index._refresher.job.wait()
    assert (index.refreshes, index.behind) == (1, (0, 0))
    assert follows_the_law(index)


# ---------------------------------------------------------------------------------------------- back again


def test_the_last_few_encoders_are_kept_and_can_be_returned_to(path):
    with filled(refresh.always(), path=path) as index:
        seen = {index.serial: index.encoder}
        for seed in range(7):
            teach(index, 2, seed)
            seen[index.serial] = index.encoder
        assert index.serial == 8
        assert [version.serial for version in index.versions] == [4, 5, 6, 7, 8]
        assert len(index.versions) == refresher.VERSIONS_KEPT
        assert all(version.encoder is seen[version.serial] for version in index.versions)
        assert [version.n_pairs for version in index.versions] == [6, 8, 10, 12, 14]

        index.roll_back()
        assert (index.serial, index.encoder) == (7, seen[7])
        assert follows_the_law(index)
        assert index.behind.pairs == 2
        index.roll_back(4)
        assert (index.serial, index.encoder) == (4, seen[4])
        teach(index, 2, 50)
        assert index.serial == 4  # the policy is not asked
        assert isinstance(refused(index.roll_back), InvalidInput)
        assert isinstance(refused(index.roll_back, 3), InvalidInput)
        index.roll_back(6)
        index.refresh()
        assert (index.serial, index.behind) == (9, (0, 0))
        teach(index, 2, 51)
        assert index.serial == 10
        assert follows_the_law(index)


# ---------------------------------------------------------------------------------------------- on a disk


def everything(index):
    facts = index.serial, [version[:2] for version in index.versions], index.counters, index.policy
    items = [(item.id, item.vector.tobytes(), item.payload) for item in map(index.get, index)]
    return facts, items, index.codes.rows().tobytes(), state_bytes(index.learner)


def test_open_finds_all_that_there_was(path):
    with filled(refresh.every(5), path=path) as index:
        teach(index, 7)
        teach(index, 3, 5)
        index.update([1, 2], rows(2, 5))
        index.remove([0, 50])
        before, behind = everything(index), index.behind
        hits = pairs_of(index.search(rows(1)[0], 5, {"colour": "red"}))
    with LiveIndex.open(path) as again:
        assert everything(again) == before
        assert again.behind == behind
        assert pairs_of(again.search(rows(1)[0], 5, {"colour": "red"})) == hits
        assert follows_the_law(again)
        again.add([0], rows(1))
        assert list(again)[-1] == 0


def test_going_on_after_reopening_is_never_having_stopped(tmp_path):
    def life(index, part):
        index.add(None, rows(30, part))
        teach(index, 6, part)
        index.remove([part])

    with LiveIndex(learner(), refresh.every(4), path=tmp_path / "whole") as whole:
        for part in range(4):
            life(whole, part)
        expected = everything(whole)
    for part in range(4):
        with LiveIndex(learner(), refresh.every(4), path=tmp_path / "parts") as index:
            life(index, part)
            assert part < 3 or everything(index) == expected


def test_a_path_is_continued_by_an_unfitted_learner_of_the_same_parameters(path):
    with filled(path=path) as index:
        teach(index)
        before = everything(index)
    fresh = learner()
    with LiveIndex(fresh, path=path) as index:
        assert index.learner is fresh
        assert index.policy == refresh.by_hand()  # the stored one
        assert everything(index) == before


def test_a_path_is_not_continued_by_another_learner(path):
    with filled(path=path) as index:
        before = everything(index)
    for given, says in (
        (learner(n_bits=8), "n_bits=16"),
        (learner(features=RbfAnchors(5)), "features="),
        (MultiModelOnlineHashing(n_bits=16, burn_in=40, random_state=0), "a OnlineHashing"),
        (learner().observe(rows(5)), "has learned something already"),
    ):
        state = state_bytes(given)
        assert says in str(refused(LiveIndex, given, None, "auto", path))
        assert state_bytes(given) == state
    with LiveIndex.open(path) as index:
        assert everything(index) == before


def test_one_writer_and_many_readers(path):
    with filled(path=path) as index:
        assert isinstance(refused(lambda: LiveIndex.open(path)), StorageError)
        assert isinstance(refused(lambda: LiveIndex(learner(), path=path)), StorageError)
        with LiveIndex.open(path, read_only=True) as one, LiveIndex.open(path, read_only=True) as other:
            assert everything(one) == everything(other) == everything(index)
            for call in (
                lambda: one.add(None, rows(1)),
                lambda: one.update(0, rows(1)[0]),
                lambda: one.remove(0),
                lambda: one.learn_pair(*rows(2), True),
                lambda: one.learn_pair_by_id(0, 1, True),
                one.refresh,
                one.roll_back,
            ):
                assert "read-only" in str(refused(call))
            assert everything(one) == everything(index)


def test_a_reader_sees_what_there_was_until_it_reloads(path):
    with filled(refresh.always(), path=path) as index, LiveIndex.open(path, read_only=True) as reader:
        before, ids = index.codes, list(index)
        encoder = reader.encoder
        index.add(None, rows(20, 5))
        teach(index)
        assert (list(reader), reader.encoder is encoder) == (ids, True)
        assert reader.codes == before
        reader.reload()
        assert everything(reader) == everything(index)
        assert follows_the_law(reader)
        index.reload()  # a writer is as the disk is already
        assert everything(reader) == everything(index)
        teach(index, 2, 5)
        assert follows_the_law(index)


def test_a_reader_says_when_it_must_reload(path):
    with filled(path=path) as index, LiveIndex.open(path, read_only=True) as reader:
        index.update([1], rows(1, 5))
        index.remove([2])
        assert 2 in reader
        asks = (lambda: reader.get(1), lambda: reader.get(2), lambda: reader.vectors)  # which are read from the disk
        for ask in (*asks, lambda: reader.rerank(rows(1)[0], Hits([2], [0]))):
            assert "reload()" in str(refused(ask))
        reader.reload()
        assert follows_the_law(reader)
        assert 2 not in reader


@pytest.mark.parametrize("durable", [False, True], ids=["memory", "durable"])
def test_a_backup_is_an_index_of_its_own(durable, path, tmp_path):
    with filled(refresh.every(5), path=path if durable else None) as index:
        teach(index, 7)
        index.remove([3])
        before = everything(index)
        index.backup(tmp_path / "copy")
        teach(index, 7, 5)
        index.remove([4])
        with LiveIndex.open(tmp_path / "copy") as found:
            assert everything(found) == before
            assert follows_the_law(found)
            teach(found, 7, 5)
            found.remove([4])
            assert everything(found) == everything(index)
        assert isinstance(refused(index.backup, tmp_path / "copy"), InvalidInput)


def test_batch_mode_keeps_all_when_closed(path):
    with filled(path=path, sync="batch") as index:
        teach(index)
        before = everything(index)
    with LiveIndex.open(path, sync="batch") as index:
        assert everything(index) == before


# ---------------------------------------------------------------------------------------------- refusals


def test_a_closed_index_refuses_changes(path):
    index = filled(path=path)
    index.close()
    index.close()
    for call in (
        lambda: index.add(None, rows(1)),
        lambda: index.update(0, rows(1)[0]),
        lambda: index.remove(0),
        lambda: index.learn_pair(*rows(2), True),
        lambda: index.learn_pair_by_id(0, 1, True),
        lambda: index.get(0),
        lambda: index.backup(path / "copy"),
        index.refresh,
        index.roll_back,
        index.reload,
    ):
        assert "closed" in str(refused(call))


def test_options_outside_their_rules_are_refused(path):
    for options in ({"index": "tree"}, {"refresh": 3}, {"background": 1}, {"sync": "never"}, {"n_jobs": 0}):
        with pytest.raises(InvalidParameter):
            LiveIndex(learner(), path=path, **options)
        assert not path.exists()


REFUSED = [
    (lambda index: index.add([0], rows(1)), InvalidInput),
    (lambda index: index.add(["a"], rows(1)), InvalidInput),
    (lambda index: index.add([500, 500], rows(2)), InvalidInput),
    (lambda index: index.add([500], rows(2)), InvalidInput),
    (lambda index: index.add([500], rows(1)[:, 1:]), InvalidInput),
    (lambda index: index.add([500], rows(1) * np.nan), InvalidInput),
    (lambda index: index.add([500], rows(1), ["red"]), InvalidInput),
    (lambda index: index.add([500, 501], [[1.0, 2.0], [3.0]]), InvalidInput),
    (lambda index: index.update([500], rows(1)), UnknownId),
    (lambda index: index.update([0]), InvalidInput),
    (lambda index: index.update([0, 1], rows(1)), InvalidInput),
    (lambda index: index.remove([0, 500]), UnknownId),
    (lambda index: index.remove([0, 0]), InvalidInput),
    (lambda index: index.get(500), UnknownId),
    (lambda index: index.learn_pair(rows(1)[0], rows(1)[0], 2), InvalidInput),
    (lambda index: index.learn_pair_by_id(0, 500, True), UnknownId),
    (lambda index: index.learn_pairs_by_id([0, 1], [2], [True, False]), InvalidInput),
    (lambda index: index.search(rows(1)[0, 1:], 3), InvalidInput),
    (lambda index: index.search("abc", 3), InvalidInput),
    (lambda index: index.search(rows(1)[0], -1), InvalidInput),
    (lambda index: index.search(rows(1)[0], 3, "red"), InvalidInput),
    (lambda index: index.within(rows(1)[0], 3, {"price": {"near": 5}}), InvalidInput),
    (lambda index: index.rerank(rows(2), index.search(rows(1)[0], 3)), InvalidInput),
    (lambda index: index.rerank(rows(1)[0], index.search(rows(1)[0], 3), -1), InvalidInput),
]


@pytest.mark.parametrize("durable", [False, True], ids=["memory", "durable"])
def test_a_refused_call_is_one_sentence_and_changes_nothing(durable, path):
    with filled(n=10, path=path if durable else None) as index:
        before = everything(index)
        for call, kind in REFUSED:
            assert isinstance(refused(call, index), kind)
            assert everything(index) == before
    if durable:
        with LiveIndex.open(path) as again:
            assert everything(again) == before
