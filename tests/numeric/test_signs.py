"""Signs of projections against exact arithmetic."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from onlinehash.numeric.signs import BLOCK_ROWS, Signs, canonical_dot
from tests.support import refused


@pytest.fixture(autouse=True, params=[(0, 0), (100, 0), (0, 16)], ids=["by BLAS", "row by row", "as rows are many"])
def _products(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test for both kinds of products, whichever the number of columns would call for, and for both in turn."""
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
@pytest.mark.parametrize("seed", range(20))
def test_the_canonical_dot_product_has_twice_the_precision(dtype: Any, seed: int) -> None:
    for d in (1, 2, 7, 33):
        w, x = cancelling(d, dtype, seed)
        exact = exact_dot(w, x)
        magnitude = sum(abs(Fraction(float(a)) * Fraction(float(b))) for a, b in zip(w, x, strict=True))
        allowed = abs(exact) * Fraction(2) ** -52 + magnitude * Fraction(2) ** -100 * len(w) ** 2
        assert abs(Fraction(canonical_dot(w, x)) - exact) <= allowed


@pytest.mark.parametrize("dtype", DTYPES)
def test_signs_are_those_of_exact_arithmetic(dtype: Any) -> None:
    """On rows that cancel to the last digit, where a BLAS product is often wrong."""
    W = np.stack([cancelling(16, dtype, seed)[0] for seed in range(10)])
    Z = np.stack([cancelling(16, dtype, seed)[1] for seed in range(10)])
    exact = np.array([[exact_dot(w, z) >= 0 for w in W] for z in Z])
    assert np.array_equal(signs(Z, W, np.zeros(10)), exact)
    plain = np.array([[float(z @ w) >= 0 for w in W] for z in Z])
    assert not np.array_equal(plain, exact), "the rows are hard enough to tell"


@pytest.mark.parametrize("dtype", DTYPES)
def test_thresholds(dtype: Any) -> None:
    rng = np.random.default_rng(0)
    Z, W = rng.standard_normal((40, 9)).astype(dtype), rng.standard_normal((7, 9)).astype(dtype)
    thresholds = np.array([float(exact_dot(W[k], Z[k])) for k in range(7)])
    found = signs(Z, W, thresholds)
    for n in range(40):
        for k in range(7):
            gap = exact_dot(W[k], Z[n]) - Fraction(thresholds[k])
            if abs(gap) > Fraction(2) ** -50 * abs(Fraction(thresholds[k])):
                assert found[n, k] == (gap >= 0)
    below = signs(Z[:7], W, np.nextafter(thresholds, -np.inf))
    above = signs(Z[:7], W, thresholds + 1e-12)
    assert below.diagonal().all()
    assert not above.diagonal().any()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scale", [1.0, 1e-19, 1e-25, 1e15])
def test_no_company_changes_a_sign(dtype: Any, scale: float) -> None:
    """Any subset of rows and columns, any order, any threads; at scales whose products underflow or nearly overflow."""
    rng = np.random.default_rng(0)
    W = np.stack([cancelling(16, dtype, seed)[0] for seed in range(10)])
    Z = (np.concatenate([[cancelling(16, dtype, seed)[1]] * 3 for seed in range(10)]) * scale).astype(dtype)
    Z[::5] = 0
    thresholds = np.where(np.arange(10) % 2, 0.0, scale)
    whole = signs(Z, W, thresholds)
    for n in range(len(Z)):
        assert np.array_equal(signs(Z[n : n + 1], W, thresholds)[0], whole[n])
    for k in range(len(W)):
        assert np.array_equal(signs(Z, W[k : k + 1], thresholds[k : k + 1])[:, 0], whole[:, k])
    many = np.tile(Z, (-(-(BLOCK_ROWS + 10) // len(Z)), 1))
    for threads in (1, 2):
        with threadpool_limits(threads):
            assert np.array_equal(signs(many, W, thresholds), np.tile(whole, (len(many) // len(Z), 1)))
    order = rng.permutation(len(Z))
    assert np.array_equal(signs(Z[order], W, thresholds), whole[order])


def test_both_kinds_of_products_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    Z = np.stack([cancelling(32, np.float32, seed)[1] for seed in range(100)])
    W = np.stack([cancelling(32, np.float32, seed)[0] for seed in range(10)])
    found = signs(Z, W, np.zeros(10))
    for few in (0, 10):
        monkeypatch.setattr("onlinehash.numeric.signs.FEW_COLUMNS", few)
        assert np.array_equal(signs(Z, W, np.zeros(10)), found)


def test_signs_that_are_kept_serve_any_number_of_rows_in_any_order() -> None:
    Z = np.stack([cancelling(32, np.float32, seed)[1] for seed in range(100)])
    W = np.stack([cancelling(32, np.float32, seed)[0] for seed in range(20)])
    expected, kept = signs(Z, W, np.zeros(20)), Signs(W, np.zeros(20), np.arange(20))
    for rows in (slice(0, 1), slice(0, 100), slice(50, 67), slice(99, 100), slice(0, 0)):
        planes = np.zeros((2, 3, 64), np.uint8)
        kept.put(Z[rows], planes)
        assert np.array_equal(bits_in(planes)[: len(Z[rows]), :20], expected[rows])


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


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", [64, 192, 4096])
def test_the_size_of_a_block_changes_nothing(dtype: Any, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    W = np.stack([cancelling(16, dtype, seed)[0] for seed in range(10)])
    Z = np.stack([cancelling(16, dtype, seed)[1] for seed in range(10)] * 70)
    expected = signs(Z, W, np.zeros(10))
    monkeypatch.setattr("onlinehash.numeric.signs.BLOCK_ROWS", rows)
    assert np.array_equal(signs(Z, W, np.zeros(10)), expected)


@pytest.mark.parametrize("threads", [1, 2])
def test_the_number_of_threads_changes_nothing(threads: int) -> None:
    """On rows so long and on so many columns that a product is shared among threads."""
    rng = np.random.default_rng(0)
    Z, W = rng.standard_normal((300, 400)).astype(np.float32), rng.standard_normal((64, 400)).astype(np.float32)
    thresholds = np.array([canonical_dot(W[k], Z[k]) for k in range(64)])
    alone = np.concatenate([signs(Z[n : n + 1], W, thresholds) for n in range(len(Z))])
    with threadpool_limits(threads):
        assert np.array_equal(signs(Z, W, thresholds), alone)


def test_sums_that_overflow_on_their_way_have_the_right_sign() -> None:
    """Five products near the largest number, two of one sign first: a sum of them in order ends at infinity."""
    Z = np.full((1, 5), 1e18, np.float32)
    W = np.array([[1, 1, -1, -1, -1], [-1, -1, 1, 1, 1]], np.float32) * np.float32(3e20)
    for columns in ([0, 1], [0], [1]):
        assert signs(Z, W[columns], np.zeros(len(columns)))[0].tolist() == [bool(k) for k in columns]


def test_weights_whose_squares_vanish() -> None:
    """Their norm is zero to the computer, but not the error of their products."""
    W = np.stack([cancelling(16, np.float64, seed)[0] for seed in range(10)]) * 2.0**-600
    Z = np.stack([cancelling(16, np.float64, seed)[1] for seed in range(10)])
    exact = np.array([[exact_dot(w, z) >= 0 for w in W] for z in Z])
    assert np.array_equal(signs(Z, W, np.zeros(10)), exact)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e30])
def test_rows_that_the_gate_would_refuse_are_refused(value: float) -> None:
    Z = np.ones((BLOCK_ROWS + 9, 3), np.float32)
    Z[BLOCK_ROWS + 5, 1] = value
    error = refused(signs, Z, np.ones((2, 3), np.float32), np.zeros(2))
    assert f"row {BLOCK_ROWS + 5}" in str(error)
