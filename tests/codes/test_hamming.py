"""Hamming distances against counting."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from onlinehash import Codes
from onlinehash.codes import distance_matrix, fused_distances
from onlinehash.errors import InvalidInput
from tests.support import refused


@given(n_bits=st.integers(1, 70), n_models=st.integers(1, 4), seed=st.integers(0, 99))
def test_distances_count_the_bits_that_differ(n_bits: int, n_models: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    queries, base = (rng.random((n, n_models, n_bits)) < 0.5 for n in (5, 7))
    a, b = (Codes.from_bits(bits.reshape(len(bits), -1), n_models) for bits in (queries, base))
    expected = (queries[:, None] != base[None]).sum(axis=3).transpose(2, 0, 1)
    found = distance_matrix(a, b)
    assert found.dtype == np.int32
    assert np.array_equal(found, expected)
    assert np.array_equal(fused_distances(a, b, "min"), expected.min(axis=0))
    assert np.array_equal(fused_distances(a, b, "sum"), expected.sum(axis=0))
    assert np.array_equal(fused_distances(a, b), expected.min(axis=0))


def test_codes_of_two_widths_do_not_compare() -> None:
    bits = np.ones((2, 12), bool)
    for other in (Codes.from_bits(bits[:, :11]), Codes.from_bits(bits, 3)):
        assert isinstance(refused(distance_matrix, Codes.from_bits(bits), other), InvalidInput)


def test_an_unknown_fusion_is_refused() -> None:
    codes = Codes.from_bits(np.ones((2, 12), bool), 3)
    assert isinstance(refused(fused_distances, codes, codes, "max"), InvalidInput)
