"""Splits, similar pairs and distractors."""

from __future__ import annotations

import numpy as np
import pytest

from onlinehash import datasets
from onlinehash.errors import InvalidInput
from onlinehash.experiments.split_data import SplitData

RNG = np.random.default_rng(3)
X = RNG.standard_normal((600, 5)).astype(np.float32)
Y = RNG.integers(0, 7, 600)
DATA = datasets.Dataset("made", X, Y)


def slow_similar(raw: np.ndarray, share: float) -> np.ndarray:
    """Either among the nearest 5 % of the others of the other one."""
    n = len(raw)
    k = max(1, round(share * (n - 1)))
    apart = np.sqrt(((raw[:, None].astype(np.float64) - raw) ** 2).sum(axis=2))
    np.fill_diagonal(apart, np.inf)
    radius = np.sort(apart, axis=1)[:, k - 1]
    return (apart <= radius[:, None]) | (apart <= radius)


def test_the_split_keeps_the_proportion_and_every_row_once():
    world = SplitData(DATA, "labels", (3, 1))
    assert (len(world.rows), len(world.queries)) == (450, 150)
    raw = np.concatenate([world._compared, world._compared_queries])
    assert sorted(map(tuple, raw.tolist())) == sorted(map(tuple, X.tolist()))
    assert len(SplitData(DATA, "labels", (500_000, 1_000)).queries) == 100  # a sixth: proportion would leave one


def test_labels_go_with_their_rows():
    world = SplitData(DATA, "labels", (3, 1))
    at = {tuple(x): y for x, y in zip(X.tolist(), Y, strict=True)}
    assert [at[tuple(x)] for x in world._compared.tolist()] == list(world.labels)
    assert [at[tuple(x)] for x in world._compared_queries.tolist()] == list(world.query_labels)


def test_similar_by_neighbours_is_either_and_of_the_vectors_as_they_came():
    world = SplitData(DATA, "neighbours", (3, 1))
    slow = slow_similar(world._compared, 0.05)
    left, right = np.divmod(np.arange(450 * 450), 450)
    different = left != right
    found = world.similar(left[different], right[different])
    assert (found == slow[left[different], right[different]]).all()
    assert not (slow == (slow & slow.T)).all() or slow.T.tolist() == slow.tolist()
    rows = np.arange(0, 450, 7)
    assert (world.similarities(rows) == (slow[np.ix_(rows, rows)] | np.eye(len(rows), dtype=bool))).all()


@pytest.mark.parametrize("truth", ["labels", "neighbours"])
@pytest.mark.parametrize("share", [None, 0.3])
def test_pairs_are_different_rows_and_tell_the_truth(truth, share):
    world = SplitData(DATA, truth, (3, 1))
    left, right, similar = world.pairs(800, np.random.default_rng(0), share)
    assert (left != right).all()
    assert (similar == world.similar(left, right)).all()
    if share is not None:
        assert abs(similar.mean() - share) < 0.06


def test_a_share_that_cannot_be_had_is_refused():
    alone = datasets.Dataset("all different", X, np.arange(600))
    with pytest.raises(InvalidInput, match="too few similar rows"):
        SplitData(alone, "labels", (5, 1)).pairs(10, np.random.default_rng(0), 0.5)
