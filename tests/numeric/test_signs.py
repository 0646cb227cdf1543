"""Signs of projections against exact arithmetic."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinehash.numeric.signs import BLOCK_ROWS, Signs
from tests.support import refused


@pytest.fixture(autouse=True, params=[(0, 0), (100, 0)], ids=["by BLAS", "row by row"])
def _products(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test for both kinds of products, whichever the number of columns would call for."""
    for name, few in zip(("FEW_COLUMNS", "FEW_ROWS"), request.param, strict=True):
        monkeypatch.setattr(f"onlinehash.numeric.signs.{name}", few)


DTYPES = [np.float32, np.float64]


def signs(Z: np.ndarray, W: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """Booleans `(n, k)`, unpacked from planes in which column k lies at place k."""
    planes = np.zeros((-(-len(Z) // 64), -(-len(W) // 8), 64), np.uint8)
    Signs(W, thresholds, np.arange(len(W))).put(Z, planes)
    return bits_in(planes)[: len(Z), : len(W)]


def bits_in(planes: np.ndarray) -> np.ndarray:
    """All bits that planes hold, one code a row."""
    bits = np.unpackbits(planes, axis=1, bitorder="little").transpose(0, 2, 1)
    return bits.reshape(-1, bits.shape[2]).astype(bool)


def exact_dot(w: np.ndarray, x: np.ndarray) -> Fraction:
    return sum((Fraction(float(a)) * Fraction(float(b)) for a, b in zip(w, x, strict=True)), Fraction(0))


def cancelling(d: int, dtype: Any, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two vectors whose products nearly cancel: the second half undoes the first, up to one last digit."""
    rng = np.random.default_rng(seed)
    w, x = (rng.standard_normal((2, d)) * 10.0 ** rng.integers(-3, 4, size=(2, d))).astype(dtype)
    w, x = np.concatenate([w, w]), np.concatenate([x, -x])
    at = rng.integers(2 * d)
    x[at] = np.nextafter(x[at], dtype(rng.choice([-np.inf, np.inf])))
    order = rng.permutation(2 * d)
    return w[order], x[order]


@pytest.mark.parametrize("dtype", DTYPES)
def test_signs_are_those_of_exact_arithmetic(dtype: Any) -> None:
    """On rows that cancel to the last digit, where a BLAS product is often wrong."""
    W = np.stack([cancelling(16, dtype, seed)[0] for seed in range(10)])
    Z = np.stack([cancelling(16, dtype, seed)[1] for seed in range(10)])
    exact = np.array([[exact_dot(w, z) >= 0 for w in W] for z in Z])
    assert np.array_equal(signs(Z, W, np.zeros(10)), exact)
    plain = np.array([[float(z @ w) >= 0 for w in W] for z in Z])
    assert not np.array_equal(plain, exact), "the rows are hard enough to tell"


def test_zero_is_positive() -> None:
    assert signs(np.zeros((1, 3)), np.ones((2, 3)), np.zeros(2)).all()
    assert signs(np.ones((1, 2)), np.array([[1.0, -1.0]]), np.zeros(1)).all()


@given(
    n=st.integers(0, 200),
    columns=st.lists(st.integers(0, 39), unique=True, max_size=40),
    first_block=st.integers(0, 2),
    dtype=st.sampled_from(DTYPES),
    seed=st.integers(0, 2**32 - 1),
)
def test_bits_go_to_their_places_and_all_others_stay(
    n: int, columns: list[int], first_block: int, dtype: Any, seed: int
) -> None:
    """On whole numbers, where projections often meet their thresholds."""
    rng = np.random.default_rng(seed)
    Z, W = rng.integers(-3, 4, (n, 7)), rng.integers(-3, 4, (len(columns), 7))
    thresholds = rng.integers(-3, 4, len(columns))
    planes = rng.integers(0, 256, (first_block + 4, 5, 64), np.uint8)
    expected = bits_in(planes)
    expected[64 * first_block :][:n, columns] = thresholds <= Z @ W.T
    Signs(W.astype(dtype), thresholds.astype(float), np.array(columns, int)).put(Z.astype(dtype), planes, first_block)
    assert np.array_equal(bits_in(planes), expected)


def test_rows_that_the_gate_would_refuse_are_refused() -> None:
    for value in (np.nan, -np.inf, 1e30):
        Z = np.ones((BLOCK_ROWS + 9, 3), np.float32)
        Z[BLOCK_ROWS + 5, 1] = value
        error = refused(signs, Z, np.ones((2, 3), np.float32), np.zeros(2))
        assert f"row {BLOCK_ROWS + 5}" in str(error)
