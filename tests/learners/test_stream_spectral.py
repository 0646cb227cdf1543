"""The spectral method for streams: a reconstruction, checked against singular vectors of all affinities at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from onlinehash import RbfAnchors
from onlinehash.learners.stream_spectral import StreamSpectralHashing
from tests.learners.test_sketching import stream


def make(n_bits: int = 6, **settings: Any) -> StreamSpectralHashing:
    return StreamSpectralHashing(
        n_bits, **{"sketch_size": 60, "chunk_size": 100, "burn_in": 100, "random_state": 0} | settings
    )


def affinities(X: np.ndarray, sample: np.ndarray, width: float) -> np.ndarray:
    return np.array([[np.exp(-((x - t) ** 2).sum() / (2 * width**2)) for t in sample] for x in X])


def matched(W: np.ndarray, V: np.ndarray) -> np.ndarray:
    """For every column of V, how much of it the column of W that is most like it has."""
    return np.abs(V.T @ W).max(axis=1)


def test_bits_are_signs_of_the_leading_singular_vectors_of_the_affinities() -> None:
    """The sketch is large enough to be exact; the mean is that of all points given, which all come in one chunk."""
    X, width = stream(300), 8.0
    a = affinities(X, X[:30], width)
    ssbc = make(chunk_size=300, centre="none", features=RbfAnchors(30, width=width)).observe(X)
    V = np.linalg.svd(a)[2][:6].T
    W = ssbc.projection_
    np.testing.assert_allclose(matched(W, V), 1, rtol=0, atol=1e-8)
    np.testing.assert_allclose(W.T @ W, np.eye(6), rtol=0, atol=1e-12)
    new = stream(100, seed=1)
    projections = affinities(new, X[:30], width) @ W
    assert ((ssbc.transform(new) == (projections >= 0)) | (np.abs(projections) < 1e-9)).all()


def test_bits_without_a_singular_vector_stay_random_projections() -> None:
    start = np.random.default_rng([0, 0]).standard_normal((1, 5, 9))[0]
    ssbc = make(9, centre="none").observe(stream(99, d=5))
    np.testing.assert_array_equal(ssbc.projection_, start)
    update = ssbc.observe(stream(1, d=5)).projection_
    same = (update == start).all(axis=0)
    assert same.sum() == 4  # five directions for nine bits
    W = update[:, ~same]
    np.testing.assert_allclose(W.T @ W, np.eye(5), rtol=0, atol=1e-12)
    few = make(9, centre="none", chunk_size=2).observe(stream(2, d=5))
    assert (few.projection_ == start).all(axis=0).sum() == 7
