"""The paired test: by all sign flips of a few queries, and by SciPy."""

from itertools import product

import numpy as np
import pytest
from scipy import stats

from onlinehash import evaluate


@pytest.mark.parametrize("seed", [0, 2])
def test_the_p_value_is_that_of_all_flips(seed):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(0.4 * seed, 1, size=8), rng.normal(size=8)
    sums = [abs(np.dot(signs, a - b)) for signs in product((-1, 1), repeat=8)]
    exact = np.mean([s >= abs((a - b).sum()) - 1e-9 for s in sums])
    found = evaluate.paired_test(a, b, n_flips=20_000)
    assert found.p_value == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / 20_000) + 1e-4)


def test_the_interval_is_students():
    rng = np.random.default_rng(0)
    a, b = rng.random(50), rng.random(50)
    found = evaluate.paired_test(a, b, confidence=0.9)
    expected = stats.ttest_rel(a, b).confidence_interval(0.9)
    assert found.difference == pytest.approx((a - b).mean())
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    assert found.n == 50


def test_queries_without_a_value_in_both_are_left_out():
    a, b = [1.0, np.nan, 3.0, 4.0, 2.5], [0.5, 1.0, np.nan, 3.0, 2.5]
    assert evaluate.paired_test(a, b) == evaluate.paired_test([1.0, 4.0, 2.5], [0.5, 3.0, 2.5])
    assert evaluate.paired_test(a, b).n == 3
