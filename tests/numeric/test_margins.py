"""Marks against exact arithmetic: what they promise holds, whatever the functions do."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from onlinehash.numeric.margins import SignsAndMarks, settle_doubts
from onlinehash.numeric.ruler import ALL, MOST, Ruler
from onlinehash.numeric.signs import Signs
from tests.numeric.test_signs import cancelling, exact_dot

DTYPES = [np.float32, np.float64]


def random(n: int, k: int, d: int, dtype: Any, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    Z, W = (rng.standard_normal((rows, d)).astype(dtype) for rows in (n, k))
    return Z, W, rng.standard_normal(k) / 4


def marked(Z: np.ndarray, W: np.ndarray, b: np.ndarray, ruler: Ruler) -> tuple[np.ndarray, np.ndarray]:
    """Planes and marks."""
    planes = np.zeros((-(-len(Z) // 64), -(-len(W) // 8), 64), np.uint8)
    marks = np.zeros((len(W), len(Z)), np.uint8)
    SignsAndMarks(W, b, np.arange(len(W)), ruler.constants(np.arange(len(W)))).put(Z, planes, 0, marks)
    return planes, marks


def promised(ruler: Ruler, marks: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """What the marks promise of |w.z - b|, `(n, k)`, from distances in double precision, so a trifle too much."""
    reach = np.maximum(np.linalg.norm(Z.astype(np.float64) - ruler.centre, axis=1), ruler.radius)
    return (marks.T * ruler.units - ruler.owed) * reach[:, None]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("d", [1, 9, 40])
def test_marks_are_lower_bounds_and_near(dtype: Any, d: int) -> None:
    Z, W, b = random(150, 11, d, dtype)
    ruler = Ruler.of(Z, W, b, None)
    planes, marks = marked(Z, W, b, ruler)
    plain = np.zeros_like(planes)
    Signs(W, b, np.arange(11)).put(Z, plain)
    assert np.array_equal(planes, plain)
    gaps = np.abs(Z.astype(np.float64) @ W.T.astype(np.float64) - b)
    low = promised(ruler, marks, Z)
    assert (low <= gaps * (1 + 1e-9)).all()
    high = promised(ruler, marks + 1.01, Z)
    assert (gaps <= high)[marks.T < MOST].all(), "no more than a unit is lost"


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_row_on_the_boundary_is_always_in_doubt(dtype: Any) -> None:
    W = np.stack([cancelling(16, dtype, seed)[0] for seed in range(10)])
    Z = np.stack([cancelling(16, dtype, seed)[1] for seed in range(10)])
    ruler = Ruler.of(Z, W, np.zeros(10), None)
    assert not marked(Z, W, np.zeros(10), ruler)[1].diagonal().any()


@pytest.mark.parametrize("dtype", DTYPES)
def test_promises_hold_while_functions_move(dtype: Any) -> None:
    """In exact arithmetic, for steps of all sizes, one after the other, and without any mark being renewed."""
    rng = np.random.default_rng(1)
    Z, W, b = random(40, 5, 6, dtype)
    Z[7] = Z[8] = Z.mean(axis=0)
    ruler = Ruler.of(Z, W, b, Z.mean(axis=0))
    marks = marked(Z, W, b, ruler)[1].astype(np.int64)
    columns, lost = np.arange(5), 0
    for step in range(60):
        new_W = (W + rng.standard_normal(W.shape) * 10.0 ** rng.integers(-9, -1)).astype(dtype)
        new_b = b + rng.standard_normal(5) * 10.0 ** rng.integers(-12, -1)
        steps, ruler = ruler.moved(new_W, new_b, W, b, columns)
        marks, W, b = np.maximum(marks - steps[:, None], 0), new_W, new_b
        lost += steps.sum()
        if step % 6 == 0:
            low = promised(ruler, marks, Z)
            for n in range(len(Z)):
                for k in range(5):
                    gap = abs(exact_dot(W[k], Z[n]) - Fraction(b[k]))
                    assert float(gap) >= low[n, k] * (1 - 1e-9)
                    assert gap > 0 or marks[k, n] == 0
    assert lost > 0, "they moved enough to tell"
    assert (marks > 0).any()


def test_small_steps_add_up_without_loss() -> None:
    """A thousand steps of a hundredth of a unit take about ten units, not a thousand."""
    Z, W, b = random(50, 1, 8, np.float64)
    ruler = Ruler.of(Z, W, b, None)
    direction = np.zeros_like(W)
    direction[0, 0] = ruler.units[0] / 100
    total = 0
    for _ in range(1000):
        steps, ruler = ruler.moved(W + direction, b + direction @ ruler.centre, W, b, np.arange(1))
        W, b, total = W + direction, b + direction @ ruler.centre, total + int(steps[0])
    assert 10 <= total <= 11


@pytest.mark.parametrize("factor", [np.inf, 1e300, 1e3])
def test_a_move_without_a_bound_leaves_nothing(factor: float) -> None:
    Z, W, b = random(50, 3, 8, np.float64)
    ruler = Ruler.of(Z, W, b, None)
    moved = W.copy()
    moved[1] *= factor
    steps, after = ruler.moved(moved, b, W, b, np.arange(3))
    assert steps[1] == ALL
    assert after.owed[1] == 0
    assert (steps[[0, 2]] == 0).all()


def test_a_unit_below_the_precision_of_the_decision_is_not_relied_upon() -> None:
    Z, W, b = random(50, 2, 8, np.float64)
    far = b + 1e13
    ruler = Ruler.of(Z, W, b, None)
    assert (ruler.moved(W, np.nextafter(far, 0), W, far, np.arange(2))[0] == ALL).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_doubts_are_settled_as_encoding_does(dtype: Any) -> None:
    """Also on rows that cancel to the last digit, and at any choice of doubts."""
    rng = np.random.default_rng(0)
    W = np.stack([cancelling(16, dtype, seed)[0] for seed in range(10)])
    Z = np.concatenate([[cancelling(16, dtype, seed)[1] for seed in range(10)], random(60, 1, 32, dtype)[0]])
    Z[12] = 0
    b, places = np.zeros(10), rng.permutation(16)[:10]
    ruler = Ruler.of(Z, W, b, None)
    expected = np.zeros((4, 2, 64), np.uint8)
    Signs(W, b, places).put(Z, expected, 1)
    right = marked(Z, W, b, ruler)[1]
    planes, marks = expected.copy(), right.copy()
    doubts = rng.random(marks.shape) < 0.5
    marks[doubts] = 0
    for k, n in np.argwhere(marks == 0):
        planes[1 + n // 64, places[k] // 8, n % 64] ^= rng.integers(2, dtype=np.uint8) << (places[k] % 8)
    numbers = np.flatnonzero((marks == 0).any(axis=0))
    n_doubts = np.count_nonzero(marks == 0)
    constants = ruler.constants(np.arange(10))
    assert settle_doubts(Z, numbers, numbers, W, b, places, planes, 1, constants, marks) == n_doubts
    assert np.array_equal(planes, expected)
    assert (np.abs(marks.astype(int) - right) <= 1).all(), "two products differ by rounding"


@pytest.mark.parametrize("dtype", DTYPES)
def test_values_near_the_limits_are_in_doubt_but_right(dtype: Any) -> None:
    top = float(np.sqrt(np.finfo(dtype).max)) / 8
    Z, W, b = random(70, 9, 16, dtype)
    for z_scale, w_scale in ((top / 4, 1), (top / 4, top / 4), (1e-30, 1e-15), (0, 1)):
        Z2, W2 = (Z * dtype(z_scale)).astype(dtype), (W * dtype(w_scale)).astype(dtype)
        ruler = Ruler.of(Z2, W2, b, None)
        expected, marks = marked(Z2, W2, b, ruler)
        planes, marks = np.zeros_like(expected), np.zeros_like(marks)
        everyone = np.arange(len(Z))
        settle_doubts(Z2, everyone, everyone, W2, b, np.arange(9), planes, 0, ruler.constants(np.arange(9)), marks)
        assert np.array_equal(planes, expected)
