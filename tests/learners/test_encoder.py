"""`Encoder`: an immutable hash function."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onlinehash import Codes, Encoder, RbfAnchors
from tests.support import feed, make, pairs, refused

X = pairs(seed=1).A


def encoder(weights: Any, thresholds: Any, n_models: int = 1) -> Encoder:
    weights = np.asarray(weights, float)
    return Encoder(weights, np.asarray(thresholds, float), None, weights.shape[1], n_models, "min", 3, "ByHand")


def test_a_bit_is_a_projection_at_or_above_its_threshold() -> None:
    hashing = encoder([[1, 0], [0, 1], [1, 1]], [0, 2, -1])
    assert hashing.transform([[0, 2], [-1, 0]]).tolist() == [[True, True, True], [False, False, True]]
    assert hashing.encode([[0, 2]]) == Codes.from_bits(np.ones((1, 3), bool))


def test_its_shape_is_told() -> None:
    hashing = encoder(np.ones((6, 2)), np.zeros(6), n_models=3)
    assert (hashing.n_bits, hashing.n_columns, hashing.n_models, hashing.n_features) == (2, 6, 3, 2)
    assert hashing.encode([[1, 1]]).n_models == 3
    assert repr(hashing) == "Encoder(method='ByHand', n_bits=2, n_models=3, version=3)"


def test_it_keeps_copies_that_cannot_be_written() -> None:
    weights, thresholds = np.ones((1, 2)), np.zeros(1)
    hashing = encoder(weights, thresholds)
    weights[:], thresholds[:] = -1, 5
    assert hashing.transform([[1, 1]]).all()
    for array in (hashing.weights, hashing.thresholds):
        with pytest.raises(ValueError, match="read-only"):
            array[:] = 0


@pytest.mark.parametrize("rows", [[[1, 2, 3]], [1, 2], [[1, np.nan]], [["a", "b"]], np.zeros((0, 2))])
def test_bad_rows_are_refused(rows: Any) -> None:
    refused(encoder([[1, 0]], [0]).transform, rows)


def test_changed_bits() -> None:
    old = encoder([[1, 0], [0, 1], [1, 1]], [0, 2, -1])
    assert old.changed_bits(old).tolist() == []
    assert encoder([[1, 0], [0, 1], [1, 1]], [0, 2, -1]).changed_bits(old).tolist() == []
    assert encoder([[1, 0], [0, 2], [1, 1]], [0, 2, 0]).changed_bits(old).tolist() == [1, 2]
    assert encoder([[1, 0], [0, 1]], [0, 2]).changed_bits(old).tolist() == [0, 1], "another width: all of its own"


def test_another_feature_map_changes_every_bit() -> None:
    by = [feed(make("LSH", features=RbfAnchors(4), centre="none"), [pairs(seed=seed)]) for seed in (0, 0, 1)]
    first, same, other = (learner.snapshot() for learner in by)
    assert len(same.changed_bits(first)) == 0
    assert len(other.changed_bits(first)) == first.n_columns


def test_some_columns_are_the_same_bits() -> None:
    hashing = feed(make("MultiModelOnlineHashing"), [pairs()]).snapshot()
    bits = hashing.transform(X)
    for columns in ([0], [5, 2], list(range(24))[::-1], []):
        assert np.array_equal(hashing.bits_of(X, np.array(columns, int)), bits[:, columns])
