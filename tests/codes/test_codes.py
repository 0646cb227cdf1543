"""`Codes`: packed bits that know their width."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinehash import Codes
from onlinehash.codes import layout
from onlinehash.errors import InvalidInput
from tests.codes.drawn import Drawn, drawn
from tests.support import refused


def planes_by_hand(case: Drawn) -> np.ndarray:
    """The layout spelled out: planes[block, j, lane] is byte j of code 64 * block + lane."""
    bits, n_bits, n_models = case
    per_model = -(-n_bits // 8)
    planes = np.zeros((-(-len(bits) // 64), n_models * per_model, 64), np.uint8)
    for i, column in np.argwhere(bits):
        model, bit = divmod(column, n_bits)
        planes[i // 64, model * per_model + bit // 8, i % 64] |= 1 << bit % 8
    return planes


# ------------------------------------------------------------------ what they hold


@given(case=drawn())
def test_bits_come_back(case: Drawn) -> None:
    codes = Codes.from_bits(case.bits, case.n_models)
    assert (codes.n_bits, codes.n_models, codes.n_columns) == (case.n_bits, case.n_models, case.bits.shape[1])
    assert len(codes) == len(case.bits)
    assert codes.bits().dtype == bool
    assert np.array_equal(codes.bits(), case.bits)


@given(case=drawn((0, 1, 65)).filter(lambda case: case.bits.size < 4000))
def test_they_lie_in_planes(case: Drawn) -> None:
    """Of cache lines, padding and the lanes after the last code being zero."""
    codes = Codes.from_bits(case.bits, case.n_models)
    expected = planes_by_hand(case)
    assert np.array_equal(codes.planes, expected)
    assert (codes.n_planes, codes.nbytes) == (expected.shape[1], expected.nbytes)
    assert len(codes) == 0 or codes.planes.ctypes.data % 64 == 0
    assert codes.checked() is codes
    assert Codes.from_planes(expected, len(case.bits), case.n_bits, case.n_models) == codes


@given(case=drawn())
def test_popcount(case: Drawn) -> None:
    counts = Codes.from_bits(case.bits, case.n_models).popcount()
    assert counts.dtype == np.int64
    assert np.array_equal(counts, case.bits.sum(axis=1))


def test_codes_do_not_change() -> None:
    packed = np.array([[3], [1]], np.uint8)
    codes = Codes.from_faiss(packed, 2)
    packed[:] = 0
    assert codes.bits().tolist() == [[True, True], [True, False]]
    with pytest.raises(ValueError, match="read-only"):
        codes.planes[0, 0, 0] = 1
    with pytest.raises(AttributeError):
        codes.planes = packed  # type: ignore[misc]
    for copy in (codes.bits(), codes.rows(), codes.to_faiss(), codes.to_packbits()):
        copy[:] = 0
    assert codes.bits().any()
    with pytest.raises(TypeError):
        hash(codes)


# ------------------------------------------------------------------ as a sequence


@given(case=drawn(), data=st.data())
def test_slices(case: Drawn, data: Any) -> None:
    codes, n = Codes.from_bits(case.bits, case.n_models), len(case.bits)
    rows = data.draw(st.slices(n), label="rows")
    assert codes[rows] == Codes.from_bits(case.bits[rows], case.n_models)


@given(case=drawn((1, 64, 130)), data=st.data())
def test_rows_by_number_and_by_mask(case: Drawn, data: Any) -> None:
    codes, n = Codes.from_bits(case.bits, case.n_models), len(case.bits)
    numbers = data.draw(st.lists(st.integers(-n, n - 1), max_size=100), label="numbers")
    for rows in (np.array(numbers, np.int64), np.random.default_rng(0).random(n) < 0.5):
        found = codes[rows]
        assert found == Codes.from_bits(case.bits[rows], case.n_models)
        assert found.checked() is found
    for row in numbers[:3]:
        assert codes[row] == codes[np.int64(row)] == Codes.from_bits(case.bits[[row]], case.n_models)


def test_iteration_and_the_ends() -> None:
    bits = np.eye(5, dtype=bool)
    codes = Codes.from_bits(bits)
    assert [code.bits().tolist() for code in codes] == [[row] for row in bits.tolist()]
    assert codes[[0, 1]] == codes[:2]
    for row in (5, -6, np.array([5])):
        with pytest.raises(IndexError):
            codes[row]
    assert isinstance(refused(codes.__getitem__, np.array([[0, 1]])), InvalidInput)


@given(case=drawn(), data=st.data())
def test_parts_concatenated(case: Drawn, data: Any) -> None:
    codes, n = Codes.from_bits(case.bits, case.n_models), len(case.bits)
    cuts = [0, *sorted(data.draw(st.lists(st.integers(0, n), max_size=4), label="cuts")), n]
    whole = Codes.concatenate([codes[a:b] for a, b in itertools.pairwise(cuts)])
    assert whole == codes
    assert whole.checked() is whole


def test_equality() -> None:
    codes = Codes.from_bits(np.eye(4, dtype=bool))
    assert codes == Codes.from_bits(np.eye(4, dtype=bool))
    assert codes != Codes.from_bits(~np.eye(4, dtype=bool))
    assert codes != codes[:2]
    assert codes != np.eye(4, dtype=bool)
    assert codes != Codes.from_bits(np.eye(4, dtype=bool), 2)
    assert codes != Codes.from_bits(np.pad(np.eye(4, dtype=bool), ((0, 0), (0, 1)))), "equal bytes, another width"
    assert codes != Codes.from_bits(np.pad(np.eye(4, dtype=bool), ((0, 1), (0, 0)))), "equal bytes, another length"


# ------------------------------------------------------------------ what is refused


def test_what_is_no_matrix_of_bits_is_refused() -> None:
    for bits in (np.zeros((2, 3)), np.zeros(3, bool), np.zeros((2, 0), bool), [[0, 1]], [[True], [True, False]]):
        assert isinstance(refused(Codes.from_bits, bits), InvalidInput)
    for n_models in (0, -1, 2.0, True, "2", None):
        assert isinstance(refused(Codes.from_bits, np.zeros((1, 8), bool), n_models), InvalidInput)
    assert isinstance(refused(Codes.from_bits, np.ones((1, 5), bool), 2), InvalidInput)


@pytest.mark.parametrize(("n_bits", "n_models"), [(4096, 1), (8, 8191)])
def test_the_longest_codes(n_bits: int, n_models: int) -> None:
    assert Codes.from_bits(np.ones((1, n_bits * n_models), bool), n_models).popcount().tolist() == [n_bits * n_models]
    n_bits, n_models = (n_bits + 1, n_models) if n_models == 1 else (n_bits, n_models + 1)
    assert isinstance(refused(Codes.from_bits, np.zeros((1, n_bits * n_models), bool), n_models), InvalidInput)


def test_bytes_and_texts_that_are_no_codes_are_refused() -> None:
    for packed, n_bits in (
        (np.zeros((2, 2), np.uint8), 8),
        (np.zeros(2, np.uint8), 8),
        (np.zeros((2, 1), np.int64), 8),
        (np.full((2, 1), 255, np.uint8), 7),
        (np.zeros((2, 1), np.uint8), 2.0),
        (np.zeros((2, 0), np.uint8), 0),
        ([[1], [0]], 8),
    ):
        for unpack in (Codes.from_faiss, Codes.from_packbits):
            assert isinstance(refused(unpack, packed, n_bits), InvalidInput)
    for texts in ([], ["01", "012"], ["0", "01"], [""], ["0 "], [3], [None], ["01", "٠١"], "0101"):
        assert isinstance(refused(Codes.from_pgvector, texts), InvalidInput)
    assert isinstance(refused(Codes.from_bits(np.ones((2, 8), bool)).to_packbits, "middle"), InvalidInput)


@given(case=drawn((1, 63, 64, 65)), data=st.data())
def test_a_set_bit_of_padding_is_refused(case: Drawn, data: Any) -> None:
    """In any plane of any block: after the last bit of a model, or after the last code."""
    bits, n_bits, n_models = case
    planes = Codes.from_bits(bits, n_models).planes.copy()
    is_padding = np.ones((64 * len(planes), 8 * planes.shape[1]), bool)
    is_padding[: len(bits), layout.places(np.arange(bits.shape[1]), n_bits)] = False
    padding = np.argwhere(is_padding)
    if len(padding):
        row, place = padding[data.draw(st.integers(0, len(padding) - 1), label="which")]
        planes[row // 64, place // 8, row % 64] |= np.uint8(1 << place % 8)
        tampered = Codes.from_planes(planes, len(bits), n_bits, n_models)
        assert isinstance(refused(tampered.checked), InvalidInput)


def test_planes_of_another_shape_are_refused() -> None:
    for planes in (
        np.zeros((2, 2, 64), np.uint8),
        np.zeros((1, 3, 64), np.uint8),
        np.zeros((1, 2, 32), np.uint8),
        np.zeros((1, 2, 64), np.int8),
        np.zeros((2, 2, 64), np.uint8)[::2][:, ::-1],
        np.zeros((1, 64, 2), np.uint8).transpose(0, 2, 1),
    ):
        assert isinstance(refused(Codes.from_planes, planes, 5, 12), InvalidInput)
    for n, n_bits in ((-1, 12), (5, True)):
        assert isinstance(refused(Codes.from_planes, np.zeros((1, 2, 64), np.uint8), n, n_bits), InvalidInput)
