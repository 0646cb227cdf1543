"""Marks against exact arithmetic: what they promise holds, whatever the functions do."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from onlinehash.numeric.margins import SignsAndMarks
from onlinehash.numeric.ruler import Ruler
from tests.numeric.test_signs import exact_dot


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
