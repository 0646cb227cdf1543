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


def test_it_keeps_copies_that_cannot_be_written() -> None:
    weights, thresholds = np.ones((1, 2)), np.zeros(1)
    hashing = encoder(weights, thresholds)
    weights[:], thresholds[:] = -1, 5
    assert hashing.transform([[1, 1]]).all()
    for array in (hashing.weights, hashing.thresholds):
        with pytest.raises(ValueError, match="read-only"):
            array[:] = 0


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


@pytest.mark.parametrize(
    ("name", "n_bits", "features"), [("OnlineHashing", 13, None), ("MultiModelOnlineHashing", 5, RbfAnchors(7))]
)
def test_codes_are_the_packed_bits(name: str, n_bits: int, features: Any) -> None:
    hashing = feed(make(name, n_bits=n_bits, features=features), [pairs()]).snapshot()
    for n in (1, 63, 64, 65, 200):
        rows = pairs(n=n, seed=2).A
        codes = hashing.encode(rows).checked()
        assert codes == Codes.from_bits(hashing.transform(rows), hashing.n_models)
        assert codes == Codes.concatenate([hashing.encode(row[None]) for row in rows])


@pytest.mark.parametrize(("name", "features"), [("OnlineHashing", RbfAnchors(7)), ("MultiModelOnlineHashing", None)])
def test_recoding_what_changed_is_encoding_anew(name: str, features: Any) -> None:
    learner = feed(make(name, n_bits=21, features=features), [pairs(n=100)])
    rows = pairs(n=150, seed=2).A
    changed = []
    for seed in range(3, 8):
        old = learner.snapshot()
        codes = old.encode(rows)
        feed(learner, [pairs(n=1, seed=seed)])
        new = learner.snapshot()
        columns = new.changed_bits(old)
        changed.append(len(columns))
        before = codes.planes.copy()
        assert new.recode(codes, rows, columns) == new.encode(rows)
        assert new.recode(codes, rows, columns[::-1].tolist()) == new.encode(rows)
        assert np.array_equal(codes.planes, before)
    assert any(0 < n < learner.snapshot().n_columns for n in changed)


def test_recoding_touches_no_other_column() -> None:
    hashing = encoder(np.eye(12), np.zeros(12), n_models=2)
    rows = np.random.default_rng(0).standard_normal((70, 12))
    wrong = Codes.from_bits(~hashing.transform(rows), n_models=2)
    for columns in ([], [0], [5, 6], [11, 2, 7]):
        expected = wrong.bits()
        expected[:, columns] ^= True
        assert np.array_equal(hashing.recode(wrong, rows, columns).checked().bits(), expected)


def test_recoding_what_does_not_fit_is_refused() -> None:
    hashing = encoder(np.ones((3, 2)), np.zeros(3))
    codes = hashing.encode([[1, 2], [3, 4]])
    for columns in ([3], [-1], [0.5], [[0]], 0, ["a"], [True]):
        refused(hashing.recode, codes, [[1, 2], [3, 4]], columns)
    for rows in ([[1, 2]], [[1, 2, 3]] * 2, [[1, np.nan]] * 2, [1, 2]):
        refused(hashing.recode, codes, rows, [])
    refused(hashing.recode, Codes.from_bits(np.ones((2, 6), bool), n_models=2), [[1, 2], [3, 4]], [0])


def test_bad_rows_are_refused() -> None:
    for rows in ([[1, 2, 3]], [1, 2], [["a", "b"]], np.zeros((0, 2))):
        refused(encoder([[1, 0]], [0]).transform, rows)
    learner = feed(make("OnlineHashing"), [pairs()])
    rows = np.ones((5000, 5))
    rows[4321, 2] = np.nan
    for call in (learner.encode, learner.snapshot().transform):
        assert "NaN in row 4321" in str(refused(call, rows))
