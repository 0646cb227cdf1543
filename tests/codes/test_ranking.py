"""Average precision with ties, against the mean over all orders."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinehash.codes.ranking import expected_average_precision


def by_all_orders(distances: np.ndarray, relevant: np.ndarray) -> float:
    """The mean of the average precision over every order that sorts the distances."""
    values = []
    for order in itertools.permutations(range(len(distances))):
        if all(distances[a] <= distances[b] for a, b in itertools.pairwise(order)):
            hits = relevant[list(order)]
            values.append((np.cumsum(hits) / np.arange(1, len(hits) + 1))[hits].mean())
    return float(np.mean(values))


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=6))
def test_it_is_the_mean_over_all_orders(items: list[tuple[int, bool]]) -> None:
    distances = np.array([d for d, _ in items], np.int32)
    relevant = np.array([r for _, r in items])
    found = expected_average_precision(distances[None], relevant[None], np.array([-1]))
    if relevant.any():
        assert found[0] == pytest.approx(by_all_orders(distances, relevant), abs=1e-12)
    else:
        assert np.isnan(found[0])


@given(st.integers(0, 99))
def test_one_column_can_be_left_out(seed: int) -> None:
    rng = np.random.default_rng(seed)
    distances, relevant = rng.integers(0, 4, size=(3, 6)).astype(np.int32), rng.random((3, 6)) < 0.7
    skip = rng.integers(-1, 6, size=3)
    found = expected_average_precision(distances, relevant, skip)
    for q in range(3):
        kept = np.arange(6) != skip[q]
        alone = expected_average_precision(distances[q : q + 1, kept], relevant[q : q + 1, kept], np.array([-1]))
        np.testing.assert_allclose(found[q], alone[0])


def test_known_values() -> None:
    def ap(distances: list[int], relevant: list[bool]) -> float:
        return float(expected_average_precision(np.array([distances]), np.array([relevant]), np.array([-1]))[0])

    assert ap([0, 1, 2, 3], [True, False, True, False]) == pytest.approx((1 + 2 / 3) / 2)
    assert ap([0, 1, 2], [True, True, False]) == 1.0
    assert ap([5, 5, 5], [True, True, True]) == 1.0
    assert ap([0, 0], [True, False]) == pytest.approx(0.75)
