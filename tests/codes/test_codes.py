"""`Codes`: packed bits that know their width."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from onlinehash import Codes
from onlinehash.errors import InvalidInput
from tests.support import refused

matrices = arrays.arrays(bool, st.tuples(st.integers(0, 9), st.integers(1, 40)))


@given(bits=matrices)
def test_bits_come_back(bits: np.ndarray) -> None:
    codes = Codes.from_bits(bits)
    assert codes.n_bits == codes.n_columns == bits.shape[1]
    assert len(codes) == len(bits)
    assert codes.bits().dtype == bool
    assert np.array_equal(codes.bits(), bits)
    assert codes.packed.shape == (len(bits), -(-bits.shape[1] // 8))
    assert codes == Codes(codes.packed, codes.n_bits)


def test_column_zero_is_the_lowest_bit_of_byte_zero() -> None:
    bits = np.zeros((1, 12), bool)
    bits[0, [0, 9]] = True
    assert Codes.from_bits(bits).packed.tolist() == [[1, 2]]


@given(bits=matrices)
def test_padding_is_zero(bits: np.ndarray) -> None:
    packed = Codes.from_bits(bits).packed
    assert not np.unpackbits(packed, axis=1, bitorder="little")[:, bits.shape[1] :].any()


def test_models() -> None:
    codes = Codes.from_bits(np.ones((2, 12), bool), n_models=3)
    assert (codes.n_bits, codes.n_models, codes.n_columns) == (4, 3, 12)
    assert codes != Codes.from_bits(np.ones((2, 12), bool))
    assert repr(codes) == "Codes(n=2, n_bits=4, n_models=3)"
    assert repr(codes[:1]) == "Codes(n=1, n_bits=4, n_models=3)"


def test_indexing() -> None:
    bits = np.eye(5, dtype=bool)
    codes = Codes.from_bits(bits)
    for rows in (slice(1, 4), slice(None, None, -1), np.array([3, 0, 3]), [0, 1], bits[0], slice(7, 9)):
        assert np.array_equal(codes[rows].bits(), bits[rows])
    for row in (0, 4, -1, -5, np.int64(2)):
        assert np.array_equal(codes[row].bits(), bits[[row]])
    assert [code.bits().tolist() for code in codes] == [[row] for row in bits.tolist()]
    for row in (5, -6):
        with pytest.raises(IndexError):
            codes[row]


def test_codes_do_not_change() -> None:
    packed = np.array([[3], [1]], np.uint8)
    codes = Codes(packed, 2)
    packed[:] = 0
    assert codes.bits().tolist() == [[True, True], [True, False]]
    with pytest.raises(ValueError, match="read-only"):
        codes.packed[0, 0] = 1
    codes.bits()[:] = False
    assert codes.bits().any()
    with pytest.raises(TypeError):
        hash(codes)


def test_equality() -> None:
    codes = Codes.from_bits(np.eye(4, dtype=bool))
    assert codes == Codes.from_bits(np.eye(4, dtype=bool))
    assert codes != Codes.from_bits(~np.eye(4, dtype=bool))
    assert codes != codes[:2]
    assert codes != np.eye(4, dtype=bool)


@pytest.mark.parametrize(
    ("packed", "n_bits"),
    [
        (np.zeros((2, 2), np.uint8), 8),
        (np.zeros(2, np.uint8), 8),
        (np.zeros((2, 1), np.int64), 8),
        (np.full((2, 1), 255, np.uint8), 7),
        ([[1], [0]], 8),
    ],
)
def test_bytes_that_are_no_codes_are_refused(packed: Any, n_bits: int) -> None:
    assert isinstance(refused(Codes, packed, n_bits), InvalidInput)


@pytest.mark.parametrize(
    "bits", [np.zeros((2, 3)), np.zeros(3, bool), np.zeros((2, 0), bool), [[0, 1]], np.ones((1, 5), bool)]
)
def test_what_is_no_matrix_of_bits_is_refused(bits: Any) -> None:
    assert isinstance(refused(Codes.from_bits, bits, 2), InvalidInput)
