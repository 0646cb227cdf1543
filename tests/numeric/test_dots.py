"""Row kernels: exact to rounding, and blind to what is computed beside them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from onlinehash.numeric.dots import (
    ROW_MULTIPLE,
    aligned_empty,
    aligned_zeros,
    pad_rows,
    padded_width,
    row_dots,
)

DTYPES = [np.float32, np.float64]


def random(n: int, d: int, dtype: Any, seed: int = 0) -> np.ndarray:
    return pad_rows((np.random.default_rng(seed).standard_normal((n, d)) * 3).astype(dtype))


def dots(W: np.ndarray, X: np.ndarray) -> np.ndarray:
    out = np.full((len(X), len(W)), np.nan, W.dtype)
    row_dots(W, X, 0, len(X), out)
    return out


@pytest.mark.parametrize("dtype", DTYPES)
def test_products_are_right_for_every_size(dtype: Any) -> None:
    """Against math.fsum; the numbers of rows go through all remainders of the tiles."""
    for d in (*range(1, 18), 31, 32, 33, 70):
        W, X = random(d % 11 + 1, d, dtype), random(d % 9 + 1, d, dtype, seed=1)
        found = dots(W, X)
        for n, x in enumerate(X.astype(float)):
            for k, w in enumerate(W.astype(float)):
                exact = math.fsum(w * x)
                allowed = np.finfo(dtype).eps * (d / 8 + 6) * math.fsum(abs(w * x))
                assert abs(float(found[n, k]) - exact) <= allowed


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_are_padded_with_zeros_and_begin_at_a_cache_line(dtype: Any) -> None:
    for d in (1, 15, 16, 17, 100):
        out = pad_rows(np.ones((3, d), dtype))
        assert out.shape == (3, padded_width(d))
        assert out.shape[1] % ROW_MULTIPLE == 0
        assert out.dtype == dtype
        assert (out[:, :d] == 1).all()
        assert not out[:, d:].any()
        assert out.flags.c_contiguous
        assert aligned_zeros((3, d), dtype).ctypes.data % 64 == 0
        assert aligned_empty((3, d), dtype).ctypes.data % 64 == 0
        assert aligned_empty((3, d), dtype).shape == (3, d)
