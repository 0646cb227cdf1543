"""Exact nearest vectors on a card, beside the CPU's."""

from __future__ import annotations

import numpy as np
import pytest

from onlinehash.gpu import neighbours as gpu_neighbours
from onlinehash.gpu.neighbours import Sieve, SieveTwin, nearest_positions
from onlinehash.numeric import neighbours
from tests.gpu.test_card_codes import needs_card

SIEVES = [pytest.param(SieveTwin, id="twins"), pytest.param(Sieve, id="card", marks=needs_card)]


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(gpu_neighbours, "SAMPLED", 60)
    monkeypatch.setattr(gpu_neighbours, "ROOM", 200)
    monkeypatch.setattr(gpu_neighbours, "QUERIES", 8)
    monkeypatch.setattr(gpu_neighbours, "ROWS", 128)


def made(kind, n, rng):
    if kind == "equal rows":
        return rng.standard_normal((5, 16))[rng.integers(0, 5, n)]
    if kind == "grid":  # many at the very same distance
        return rng.integers(-2, 3, (n, 16)).astype(np.float64)
    if kind == "far away":  # so that products lose most digits
        return 1e4 + rng.standard_normal((n, 16))
    return rng.standard_normal((n, 16))


@pytest.mark.parametrize("sieve", SIEVES)
@pytest.mark.parametrize(
    ("kind", "dtype"),
    [("normal", np.float64), ("equal rows", np.float32), ("grid", np.float32), ("far away", np.float32)],
)
def test_equal_to_the_cpu(sieve, kind, dtype):
    rng = np.random.default_rng(0)
    base, X = made(kind, 700, rng).astype(dtype), made(kind, 19, rng).astype(dtype)
    for k in (1, 10, 90, 700):
        expected = neighbours.nearest_positions(X, base, k)
        np.testing.assert_array_equal(nearest_positions(X, base, k, sieve()), expected)
