"""Marks against exact arithmetic: what they promise holds, whatever the functions do."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from onlinehash.numeric.margins import SignsAndMarks, settle_doubts
from onlinehash.numeric.ruler import MOST, Ruler
from onlinehash.numeric.signs import Signs
from tests.numeric.test_signs import cancelling, exact_dot


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


@pytest.mark.parametrize(("dtype", "d"), [(np.float32, 40), (np.float64, 9)])
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


def test_promises_hold_while_functions_move() -> None:
    """In exact arithmetic, for steps of all sizes, one after the other, and without any mark being renewed."""
    rng, dtype = np.random.default_rng(1), np.float32
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


def test_doubts_are_settled_as_encoding_does() -> None:
    """Also on rows that cancel to the last digit, and at any choice of doubts."""
    rng, dtype = np.random.default_rng(0), np.float32
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
