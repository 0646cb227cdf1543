"""The demo's data: scikit-learn's handwritten digits, and pairs of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

N_QUERIES = 297
N_HELD_OUT = 4000

#: Random pairs of ten classes are similar one time in ten; feedback that people give is seldom so lopsided.
SIMILAR_SHARE = 0.5


class Pairs(NamedTuple):
    """Row t of A with row t of B, and whether the two show the same digit."""

    A: np.ndarray
    B: np.ndarray
    similar: np.ndarray


@dataclass(frozen=True)
class Digits:
    """Pictures to search among, pictures to search for, and pairs of each: some to learn, some held out."""

    X_base: np.ndarray
    y_base: np.ndarray
    X_query: np.ndarray
    y_query: np.ndarray
    stream: Pairs
    held_out: Pairs

    def first(self, n_pairs: int) -> Digits:
        """The same with a shorter stream."""
        return replace(self, stream=Pairs(*(part[:n_pairs] for part in self.stream)))


def load(seed: int, n_pairs: int) -> Digits:
    """Split the pictures at random; queries and held-out pairs show none that the stream shows."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    X = (X / X.max()).astype(np.float32)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(X))
    query, base = order[:N_QUERIES], order[N_QUERIES:]
    stream = _draw(X[base], y[base], n_pairs, rng)
    held_out = _draw(X[query], y[query], N_HELD_OUT, rng)
    return Digits(X[base], y[base], X[query], y[query], stream, held_out)


def _draw(X: np.ndarray, y: np.ndarray, n: int, rng: np.random.Generator) -> Pairs:
    """Random pairs of two different pictures, a given share of them similar."""
    similar = rng.random(n) < SIMILAR_SHARE
    i = rng.integers(len(y), size=n)
    j = i.copy()
    while (wrong := (i == j) | ((y[i] == y[j]) != similar)).any():
        j[wrong] = rng.integers(len(y), size=wrong.sum())
    return Pairs(X[i], X[j], similar)
