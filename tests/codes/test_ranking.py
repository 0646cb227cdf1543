"""Average precision with ties, against the mean over all orders."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinehash.codes.ranking import expected_average_precision, precision_per_found, precision_sums


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
    distances = np.array([d for d, _ in items], np.uint16)
    relevant = np.array([r for _, r in items])
    found = expected_average_precision(distances[None], relevant[None], np.array([-1]))
    if relevant.any():
        assert found[0] == pytest.approx(by_all_orders(distances, relevant), abs=1e-12)
    else:
        assert np.isnan(found[0])


def test_known_values() -> None:
    def ap(distances: list[int], relevant: list[bool]) -> float:
        return float(
            expected_average_precision(np.array([distances], np.uint16), np.array([relevant]), np.array([-1]))[0]
        )

    assert ap([0, 1, 2, 3], [True, False, True, False]) == pytest.approx((1 + 2 / 3) / 2)
    assert ap([0, 1, 2], [True, True, False]) == 1.0
    assert ap([5, 5, 5], [True, True, True]) == 1.0
    assert ap([0, 0], [True, False]) == pytest.approx(0.75)


@pytest.mark.parametrize("before", [0, 64, 10**9])
def test_a_bucket_keeps_its_digits_however_many_came_before(before: int) -> None:
    """Where a difference of two harmonic numbers would lose them; all items relevant, and a third of them."""
    for n, r in ((1, 1), (2, 1), (40, 40), (3000, 1000)):
        items, hits = np.array([[before, n]]), np.array([[before // 2, r]])
        slope = (r - 1) / max(n - 1, 1)
        terms = [(before // 2 + 1 + i * slope) / (before + i + 1) for i in range(n)]
        alone = precision_sums(items[:, :1], hits[:, :1], before + n)[0]
        both = precision_sums(items, hits, before + n)[0]
        assert both - alone == pytest.approx(r / n * math.fsum(terms), rel=1e-12, abs=1e-15 * both)


def test_the_mean_over_found_items_sums_over_all_cuts() -> None:
    """Five items at distance 0, two relevant, cut after three: none, one or two of them are found."""
    items, hits = np.array([[5, 4]]), np.array([[2, 1]])
    values = []
    for places in itertools.combinations(range(5), 2):
        found = [place for place in places if place < 3]
        values.append(np.mean([(i + 1) / (place + 1) for i, place in enumerate(found)]) if found else 0.0)
    assert precision_per_found(items, hits, 3) == pytest.approx([np.mean(values)])
