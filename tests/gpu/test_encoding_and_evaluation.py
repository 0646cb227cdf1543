"""Codes and measures from a card, beside the CPU's: equal to the last bit."""

from __future__ import annotations

import numpy as np
import pytest

from onlinehash import Codes, MultiModelOnlineHashing, OnlineHashing, RbfAnchors, evaluate
from onlinehash.errors import InvalidInput
from onlinehash.evaluate.histograms import Histograms
from onlinehash.gpu import encoding, neighbours
from onlinehash.gpu.card import load_cupy
from onlinehash.gpu.twins import Twins
from tests.gpu.test_card_codes import needs_card


@pytest.fixture(params=["twins", pytest.param("card", marks=needs_card)])
def on(request, monkeypatch):
    """With the kernels' twins in their place, and on a card."""
    if request.param == "twins":
        monkeypatch.setattr(encoding, "SignKernels", encoding.SignsTwin)
        monkeypatch.setattr(neighbours, "Sieve", neighbours.SieveTwin)
        monkeypatch.setattr(Histograms, "_make_runs", lambda self, shape: Twins(shape))
    return request.param


def learned(X, **options):
    return OnlineHashing(random_state=0, **options).observe(X).snapshot()


def on_the_boundary(encoder, X):
    """Rows that lie on the threshold of a function but for what rounding leaves."""
    rows = X.astype(np.float64)
    for n, row in enumerate(rows):
        w = encoder.weights[n % encoder.n_columns].astype(np.float64)
        row -= (w @ row - encoder.thresholds[n % encoder.n_columns]) / (w @ w) * w
    return rows.astype(X.dtype)


@pytest.mark.parametrize(
    ("dtype", "n", "d", "n_bits"), [(np.float32, 777, 512, 64), (np.float64, 1000, 40, 64), (np.float32, 130, 7, 13)]
)
def test_encoded_as_on_the_cpu(on, dtype, n, d, n_bits, monkeypatch):
    monkeypatch.setattr(encoding, "BLOCK_BYTES", 1 << 18)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d)).astype(dtype)
    encoder = learned(X, n_bits=n_bits)
    for rows in (X, on_the_boundary(encoder, X), X * dtype(1e-30), np.zeros_like(X), X * dtype(1e17)):
        assert encoder.encode(rows, device="cuda") == encoder.encode(rows)
    if on == "card":
        import cupy

        assert encoder.encode(cupy.asarray(X), device="cuda") == encoder.encode(X)


class OfAnotherLibrary:
    """An array on the card, with nothing of CuPy's but its address; without a card, NumPy reads `__array__`."""

    def __init__(self, array):
        self._array, self.__cuda_array_interface__ = array, getattr(array, "__cuda_array_interface__", {})

    def __array__(self, dtype=None, copy=None):
        return self._array


def test_arrays_that_are_on_the_card(on):
    xp = load_cupy() if on == "card" else np
    X = np.random.default_rng(7).standard_normal((300, 8)).astype(np.float32)
    encoder, there, wide = learned(X, n_bits=16), xp.asarray(X), xp.asarray(np.hstack([X, X]))
    assert encoder.encode(OfAnotherLibrary(there), device="cuda") == encoder.encode(X)
    for rows in (there.astype(np.float64), wide, wide[:, :8], there[0]):
        with pytest.raises(InvalidInput, match="contiguous rows of 8 float32 on the card"):
            encoder.encode(OfAnotherLibrary(rows), device="cuda")
    for empty in (X[:0], OfAnotherLibrary(there[:0])):
        with pytest.raises(InvalidInput, match="0 sample"):
            encoder.encode(empty, device="cuda")


@pytest.mark.usefixtures("on")
def test_several_models_and_feature_maps():
    rng = np.random.default_rng(2)
    X, y = rng.standard_normal((600, 20)).astype(np.float32), np.arange(600) % 4
    for model in (
        MultiModelOnlineHashing(n_bits=12, n_models=3, random_state=0).fit(X, y),
        OnlineHashing(n_bits=24, features=RbfAnchors(30), random_state=0).fit(X, y),
    ):
        assert model.snapshot().encode(X, device="cuda") == model.encode(X)


@pytest.mark.usefixtures("on")
def test_rows_that_are_not_finite_are_refused():
    X = np.random.default_rng(3).standard_normal((300, 8)).astype(np.float32)
    encoder = learned(X, n_bits=16)
    for value in (np.nan, np.inf, 1e30):  # the square of the last overflows
        X[217, 3] = value
        for device in ("cuda", "cpu"):
            with pytest.raises(InvalidInput):
                encoder.encode(X, device=device)


@pytest.mark.usefixtures("on")
def test_measured_as_on_the_cpu():
    rng = np.random.default_rng(4)
    X, y = rng.standard_normal((3000, 24)).astype(np.float32), rng.integers(0, 7, 3000)
    encoder, metrics = learned(X, n_bits=20), ["map", "precision@50", "recall@r2", "map@100/found"]
    for truth in (evaluate.same_label(y[:90], y), evaluate.nearest(X[:90], X, k=20, device="cuda")):
        arguments = (encoder, X[:90], X, truth, metrics)
        assert evaluate.retrieval(*arguments, device="cuda") == evaluate.retrieval(*arguments)


@pytest.mark.usefixtures("on")
def test_counted_as_on_the_cpu():
    rng = np.random.default_rng(5)
    base, queries = (Codes.from_bits(rng.random((n, 39)) < 0.5, n_models=3) for n in (500, 11))
    truth = evaluate.same_label(rng.integers(0, 3, 11), rng.integers(0, 3, 500))
    ours = evaluate.rank(queries, base, truth, device="cuda", per_query=True)
    theirs = evaluate.rank(queries, base, truth, per_query=True)
    for name in theirs:
        np.testing.assert_array_equal(ours[name], theirs[name])
