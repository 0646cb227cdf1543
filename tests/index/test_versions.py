"""Forks: a change goes to the fork, and what was published before stays as it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onlinehash import Codes, FlatIndex, MultiIndex, OnlineHashing
from onlinehash.index import costs, multi_index
from tests.live.model import pairs_of

N_BITS = 12
KINDS = [FlatIndex, MultiIndex]


@pytest.fixture(autouse=True)
def _tables_are_asked(monkeypatch):
    monkeypatch.setattr(costs, "SCAN_ONE", 1e9)
    monkeypatch.setattr(multi_index, "FEW_BLOCKS", 2)


def bits(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random((n, N_BITS)) < 0.5


def packed(b: np.ndarray) -> Codes:
    return Codes.from_bits(b.reshape(-1, N_BITS))


def made(kind: Any, n: int = 200) -> Any:
    return kind(packed(bits(n)), [f"item {i}" for i in range(n)])


QUERIES = bits(5, seed=99)


def answers(index: Any) -> Any:
    """All that an index says of itself."""
    found = [pairs_of(index.search(query, 20)) for query in QUERIES]
    inside = [pairs_of(hits) for hits in index.within(packed(QUERIES), 3)]
    return len(index), index.ids.tolist(), index.codes.rows().tobytes(), found, inside


def same_as_new(index: Any) -> None:
    """It answers like one made of the same items at once."""
    assert answers(index) == answers(FlatIndex(index.codes, index.ids.tolist()))


def encoder(seed: int = 0) -> Any:
    return OnlineHashing(n_bits=N_BITS, random_state=seed).observe(np.ones((1, 4))).snapshot()


def add(index: Any) -> None:
    index.add(packed(bits(70, 1)), [f"new {i}" for i in range(70)])


def update(index: Any) -> None:
    index.update(["item 3", "item 150"], packed(bits(2, 2)))


def put(index: Any) -> None:
    index.put(np.array([7, 190]), packed(bits(2, 3)))


def bury(index: Any) -> None:
    index.bury([f"item {i}" for i in range(0, 200, 2)])


def compact(index: Any) -> None:
    index.bury(["item 0", "item 64", "item 199"])
    index.compact()


def replace(index: Any) -> None:
    index.replace(packed(bits(len(index), 4)))


CHANGES = [add, update, put, bury, compact, replace]


@pytest.mark.parametrize("kind", KINDS)
def test_a_fork_never_changes_what_it_was_forked_from(kind):
    for change in CHANGES:
        index = made(kind)
        before, held = answers(index), index.codes
        rows = held.rows().tobytes()
        fork = index.fork()
        assert answers(fork) == before
        change(fork)
        assert answers(fork) != before
        assert answers(index) == before
        assert held.rows().tobytes() == rows
        same_as_new(fork)


@pytest.mark.parametrize("kind", KINDS)
def test_a_chain_of_forks_keeps_every_version(kind):
    rng, index = np.random.default_rng(0), made(kind)
    kept = [(index, answers(index))]
    for step in range(25):
        fork = index.fork()
        what, ids = rng.integers(4), index.ids.tolist()
        some = [ids[i] for i in rng.choice(len(ids), 3, replace=False)]
        if what == 0:
            fork.add(packed(bits(9, step)), [f"of step {step}, {i}" for i in range(9)])
        elif what == 1:
            fork.update(some, packed(bits(3, step)))
        elif what == 2:
            fork.bury(some)
            if fork.wants_compaction:
                fork.compact()
        else:
            changed = fork.items.all_codes().bits()
            changed[:, 5] ^= rng.random(len(changed)) < 0.5
            fork = index.recoded(packed(changed), encoder(step), np.array([5]))
        same_as_new(fork)
        index = fork
        kept.append((index, answers(index)))
    for version, said in kept:
        assert answers(version) == said


@pytest.mark.parametrize("kind", KINDS)
def test_follow_takes_over_what_came_changed_and_went_meanwhile(kind):
    start = made(kind)
    recoded = start.recoded(packed(~bits(200)), encoder(), np.arange(N_BITS))

    newest = start.fork()
    newest.add(packed(bits(100, 1)), [f"new {i}" for i in range(100)])
    newest = newest.fork()
    newest.put(np.array([3, 250]), packed(bits(2, 2)))
    newest = newest.fork()
    newest.bury(["item 10", "new 5"])
    published = answers(newest)

    late = np.union1d([3], np.arange(200, 300))
    recoded.follow(newest, late, packed(bits(len(late), 5)))
    expected = np.concatenate([~bits(200), np.zeros((100, N_BITS), bool)])
    expected[late] = bits(len(late), 5)
    assert recoded.ids.tolist() == newest.ids.tolist()
    np.testing.assert_array_equal(recoded.codes.bits(), expected[newest.items.positions()])
    same_as_new(recoded)
    assert answers(newest) == published


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("share", "n_dead"), [(0.0, 30), (0.01, 30), (0.5, 0)])
def test_search_among_some_is_search_of_those_alone(kind, share, n_dead):
    index = made(kind)
    index.bury([f"item {i}" for i in range(n_dead)])
    chosen = np.random.default_rng(1).random(len(index)) < share
    alone = FlatIndex(index.codes[np.flatnonzero(chosen)], index.ids[chosen].tolist() if chosen.any() else None)
    before = answers(index)
    for query in QUERIES:
        assert pairs_of(index.search(query, 20, among=chosen)) == pairs_of(alone.search(query, 20))
        assert pairs_of(index.within(query, 4, among=chosen)) == pairs_of(alone.within(query, 4))
    assert answers(index) == before
