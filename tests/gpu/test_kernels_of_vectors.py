"""Every kernel of `vectors.cu` beside its twin in NumPy, on the same arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onlinehash.gpu.encoding import SignKernels, SignsTwin
from onlinehash.gpu.neighbours import Sieve, SieveTwin
from onlinehash.numeric.signs import describe, smallest_norm
from onlinehash.numeric.views import read_only
from tests.gpu.test_card_codes import needs_card

pytestmark = needs_card


def both(twin: Any, kernels: Any, name: str, *arguments: Any) -> tuple[list[Any], list[Any]]:
    """Call a method of both with copies of the arrays; what these hold afterwards, and what was returned."""

    def copied(value: Any, xp: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(copied(part, xp) for part in value)
        return xp.array(value) if isinstance(value, np.ndarray) else value

    def fetched(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(fetched(part) for part in value)
        return value.get() if hasattr(value, "get") else value

    results = []
    for one in (twin, kernels):
        own = [copied(argument, one.xp) for argument in arguments]
        results.append([fetched(value) for value in (*own, getattr(one, name)(*own))])
    return results[0], results[1]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "d", "k"), [(1000, 40, 64), (130, 7, 200)])
def test_signs(dtype: Any, n: int, d: int, k: int) -> None:
    rng, twin, kernels = np.random.default_rng(0), SignsTwin(), SignKernels()
    Z, W = rng.standard_normal((n, d)).astype(dtype), rng.standard_normal((k, d)).astype(dtype)
    thresholds, n_planes = rng.standard_normal(k), k // 8 + 2
    for row in range(0, n, 3):  # to the boundary of a function
        w = W[row % k].astype(np.float64)
        Z[row] = Z[row] - (w @ Z[row] - thresholds[row % k]) / (w @ w) * w
    Z[50] = 0
    places = np.sort(rng.permutation(8 * n_planes)[:k]).astype(np.int32)
    columns = np.full(8 * n_planes, -1, np.int32)
    columns[places] = np.arange(k)
    host, card = both(twin, kernels, "norms", Z)
    np.testing.assert_allclose(card[-1], host[-1], rtol=1e-5 if dtype is np.float32 else 1e-13)
    functions, smallest = describe(read_only(W), read_only(thresholds)), smallest_norm(d, W.dtype)
    norms, products = host[-1], Z @ W.T
    planes, doubts = np.zeros((-(-n // 64), n_planes, 64), np.uint8), np.full(n * k, 2**63, np.uint64)
    limits = (float(np.finfo(dtype).eps), smallest)
    host, card = both(twin, kernels, "bits", products, norms, d, functions, columns, limits, planes, doubts)
    np.testing.assert_array_equal(card[-1], host[-1])
    np.testing.assert_array_equal(card[6], host[6])
    np.testing.assert_array_equal(np.sort(card[7]), np.sort(host[7]))
    n_doubts = int(host[-1][0])
    assert n // 3 <= n_doubts < n * k
    arguments = (Z, W, norms, functions, places, smallest, host[7][:n_doubts], host[6])
    host, card = both(twin, kernels, "settle", *arguments)
    np.testing.assert_array_equal(card[7], host[7])
    norms[3] = np.inf
    host, card = both(twin, kernels, "bits", products, norms, d, functions, columns, limits, planes, doubts[:5])
    assert host[-1][1] == card[-1][1] == 1
    assert host[-1][0] == card[-1][0] > 5  # more than there is room for


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_sieve(dtype: Any) -> None:
    rng, twin, sieve = np.random.default_rng(1), SieveTwin(), Sieve()
    X, base = (rng.standard_normal((n, 33)).astype(dtype) for n in (20, 700))
    (_, _, _, (points, squares)), card = both(twin, sieve, "centre", X, base.mean(axis=0, dtype=np.float64), 0.125)
    np.testing.assert_array_equal(card[-1][0], points)
    np.testing.assert_allclose(card[-1][1], squares, rtol=1e-6)
    rows, row_squares = twin.centre(base, base.mean(axis=0, dtype=np.float64), 0.125)
    products = points @ rows.T
    distances = squares[:, None] + row_squares - 2 * products
    found, room = np.zeros(len(X), np.uint32), 150
    kept = (
        np.zeros((len(X), room), np.int64),
        np.full((len(X), room), np.inf, np.float32),
        np.full((len(X), room), np.inf, np.float32),
    )
    reaches = np.sort(distances, axis=1)[:, 99]
    reaches[0] = np.inf  # more than there is room for
    arguments = (products, squares, row_squares, 1000, reaches, found, kept, (1e-4, 1e-30))
    host, card = both(twin, sieve, "sift", *arguments)
    np.testing.assert_array_equal(card[5], host[5])
    assert host[5][0] == len(base)
    for q in range(1, len(X)):
        ours, theirs = (np.argsort(side[6][0][q], kind="stable") for side in (card, host))
        np.testing.assert_array_equal(card[6][0][q][ours], host[6][0][q][theirs])
        for part in (1, 2):
            np.testing.assert_allclose(card[6][part][q][ours], host[6][part][q][theirs], rtol=1e-5)
    lists = rng.standard_normal((9, 300)).astype(np.float32)
    lists[3], lists[4, 7] = 0.5, -np.inf
    lengths = np.array([300, 40, 77, 300, 12, 299, 5000, 10, 256], np.uint32)
    for k in (1, 10):
        host, card = both(twin, sieve, "kth", lists, lengths, k)
        np.testing.assert_array_equal(card[-1], host[-1])
    queries, chosen = rng.integers(0, len(X), 500), rng.integers(0, len(base), 500)
    host, card = both(twin, sieve, "compare", X, base, queries, chosen)
    np.testing.assert_array_equal(card[-1], host[-1])
