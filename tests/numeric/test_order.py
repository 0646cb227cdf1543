"""The order of values is NumPy's stable one, and equal keys are found."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from onlinehash.numeric.order import has_equal, order_of

VALUES = st.lists(st.sampled_from([-np.inf, -1.5, -0.0, 0.0, 1e-300, 2.0, np.inf]) | st.floats(allow_nan=False))


@given(VALUES)
def test_it_is_that_of_numpy(values):
    values = np.array(values, np.float64)
    assert np.array_equal(order_of(values), np.argsort(values, kind="stable"))


def test_many_values_with_ties():
    values = np.random.default_rng(0).integers(100, size=1000).astype(np.float64)
    for n in (*range(70), 127, 128, 129, 1000):
        assert np.array_equal(order_of(values[:n]), np.argsort(values[:n], kind="stable")), n


KEYS = st.lists(st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1), max_size=12)


@given(KEYS, KEYS)
def test_equal_keys_are_found(keys, others):
    expected = len(set(keys)) < len(keys) or bool(set(keys) & set(others))
    assert has_equal(np.array(keys, np.int64), np.array(others, np.int64)) == expected
