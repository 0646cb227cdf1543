"""Pairs from labelled points."""

from __future__ import annotations

import warnings
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinehash.streams import LabelPairing

X = np.arange(40.0).reshape(20, 2)


def pairing(share: float | None = None, size: int = 5, seed: int = 0) -> LabelPairing:
    return LabelPairing(share, size, np.random.default_rng(seed), 2, np.float64)


def joined(results: list[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> tuple[np.ndarray, ...]:
    return tuple(np.concatenate(column) for column in zip(*results, strict=True))


def test_points_are_taken_two_by_two() -> None:
    y = np.array([0, 0, 1, 0, 2, 2, 3])
    A, B, similar = pairing().pairs(X[:7], y)
    assert np.array_equal(A, X[0:6:2])
    assert np.array_equal(B, X[1:6:2])
    assert similar.tolist() == [1, -1, 1]


def test_the_odd_one_waits() -> None:
    stream = pairing()
    A, B, similar = stream.pairs(X[:1], np.array([4]))
    assert len(A) == len(B) == len(similar) == 0
    A, B, similar = stream.pairs(X[1:2], np.array([4]))
    assert np.array_equal(A, X[:1])
    assert np.array_equal(B, X[1:2])
    assert similar.tolist() == [1]
    assert stream.waiting is None


@given(st.lists(st.integers(0, 20), max_size=5), st.sampled_from([None, 0.0, 0.5, 1.0]), st.integers(0, 50))
def test_any_split_gives_the_same_pairs(cuts: list[int], share: float | None, seed: int) -> None:
    y = np.random.default_rng(seed).integers(3, size=20)
    whole = pairing(share).pairs(X, y)
    stream = pairing(share)
    ends = sorted({0, 20, *cuts})
    parts = joined([stream.pairs(X[a:b], y[a:b]) for a, b in pairwise(ends)])
    assert all(np.array_equal(a, b) for a, b in zip(parts, whole, strict=True))


@pytest.mark.parametrize("share", [0.1, 0.9])
def test_a_share_of_similar_pairs_can_be_asked_for(share: float) -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(10, size=8000)
    points = np.stack([y, np.arange(8000)], axis=1).astype(float)
    A, B, similar = pairing(share, size=200).pairs(points, y)
    assert len(similar) == 4000
    assert abs((similar > 0).mean() - share) < 0.03
    assert np.array_equal(similar > 0, A[:, 0] == B[:, 0]), "partners come with their labels"
    assert np.array_equal(B, points[1::2]), "the second point of each two is always the newer one"
    assert (A[:, 1] < B[:, 1]).all(), "partners are points of the past"


def test_a_stream_with_hardly_any_similar_pairs_warns_once() -> None:
    points = np.zeros((2002, 2))
    stream = pairing()
    with pytest.warns(UserWarning, match="only 0 of 1001 pairs .* set similar_share"):
        stream.pairs(points, np.arange(2002))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stream.pairs(points, np.arange(2002))
        pairing().pairs(points, np.zeros(2002))


@given(st.integers(0, 20), st.sampled_from([None, 0.5]))
def test_state(cut: int, share: float | None) -> None:
    y = np.random.default_rng(1).integers(3, size=20)
    stream, twin = pairing(share), pairing(share, seed=9)
    stream.pairs(X[:cut], y[:cut])
    twin.set_state(stream.get_state())
    assert all(
        np.array_equal(a, b) for a, b in zip(stream.pairs(X[cut:], y[cut:]), twin.pairs(X[cut:], y[cut:]), strict=True)
    )
