"""Exact nearest vectors on a card, beside the CPU's."""

from __future__ import annotations

import numpy as np
import pytest

from onlinehash.errors import InvalidInput
from onlinehash.gpu import neighbours as gpu_neighbours
from onlinehash.gpu.neighbours import Sieve, SieveTwin, nearest_positions
from onlinehash.numeric import neighbours
from tests.gpu.test_card_codes import FakeCard, needs_card, on_fake_card

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
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["normal", "equal rows", "grid", "far away"])
def test_equal_to_the_cpu(sieve, kind, dtype):
    rng = np.random.default_rng(0)
    base, X = made(kind, 700, rng).astype(dtype), made(kind, 19, rng).astype(dtype)
    for k in (1, 10, 90, 700):
        expected = neighbours.nearest_positions(X, base, k)
        np.testing.assert_array_equal(nearest_positions(X, base, k, sieve()), expected)


def test_as_much_room_as_is_taken_is_asked_for(monkeypatch):
    """Of a small base little, whatever the sizes of blocks are; and a card that turns out to be full refuses."""
    monkeypatch.undo()
    rng, sieve = np.random.default_rng(1), on_fake_card(SieveTwin)
    base, X = (rng.standard_normal((n, 16)).astype(np.float32) for n in (700, 19))
    sample = 87
    needed = base.nbytes + X.nbytes + 2 * base.nbytes + sample * 16 * 8 + 4 * 19 * 700 + 16 * 19 * 700
    monkeypatch.setattr(FakeCard, "free", needed)
    np.testing.assert_array_equal(nearest_positions(X, base, 3, sieve()), neighbours.nearest_positions(X, base, 3))
    monkeypatch.setattr(FakeCard, "free", needed - 1)
    with pytest.raises(InvalidInput, match=r"^a search of 700 vectors takes 0\.00 GB on the card, and .* full card"):
        nearest_positions(X, base, 3, sieve())
    monkeypatch.undo()

    def fail(*arguments):
        raise MemoryError("Out of memory allocating 1,024 bytes")

    monkeypatch.setattr(SieveTwin, "compare", fail)
    with pytest.raises(InvalidInput, match=r"^the card has no room for a search for 19 queries among 700 vectors: "):
        nearest_positions(X, base, 3, sieve())
    with pytest.raises(MemoryError, match="allocating"):
        nearest_positions(X, base, 3, SieveTwin())
