"""Search in float vectors: as they are, or after a linear map that is learned from the same pairs as hash functions.

A linear adapter is what people use who keep their embeddings as floats: x -> x W, with W a d x d matrix that begins as
the identity, so that before the first pair its search is the exact cosine. It is compared in three forms, each read off
the same map: search by the cosine of mapped vectors, the signs of their d numbers, and ITQ codes of `n_bits`.

It is meant as a strong peer:

- *Loss*: of all similar pairs i and dissimilar pairs j of a batch, the mean of log(1 + exp(10 (c_j - c_i))) / 10, with
  c the cosine of the mapped vectors. It asks for the right order only, so no margin has to fit the data.
- *Replay*: the last 4,096 pairs are kept. After every eighth more of pairs (8 to 256 of them), two steps are taken,
  each on 256 pairs drawn from those that are kept.
- *Steps*: gradient descent with momentum, W being pulled towards the identity.
- *Blending*: what is searched with is the identity and W mixed as far as pairs that were not learned yet confirm it, by
  the AUC of the last 1,000 pairs, each asked before it was learned.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import expit
from sklearn.base import BaseEstimator

from onlinehash import IterativeQuantization
from onlinehash.learners.base import Traits
from onlinehash.learners.pair_metric import auc

#: Steepness of the loss; length of a step; pull towards the identity, per step; momentum.
SHARPNESS, STEP, PULL, MOMENTUM = 10.0, 4.0, 1e-4, 0.9
#: Pairs kept, pairs of a step, steps after each chunk, and the size of a chunk: a part of the pairs so far, in bounds.
KEPT, BATCH, STEPS = 4096, 256, 2
PART, LEAST_CHUNK, MOST_CHUNK = 8, 8, 256
#: How much of what was learned may be shown, and how many answers decide on it.
SHARES, ANSWERS = np.array([0.0, 0.15, 0.3, 0.6, 1.0]), 1000


class LinearAdapter(BaseEstimator):  # type: ignore[misc] # scikit-learn has no types
    """A linear map of float vectors that begins as the identity and is learned from pairs, online.

    Parameters
    ----------
    n_bits : int, default=64
        Length of the ITQ codes of mapped vectors.
    random_state : int, default=0
        Seed of what is replayed, and of ITQ.
    """

    traits: ClassVar[Traits] = Traits(learns_from="pairs", unit="chunk")

    def __init__(self, n_bits: int = 64, *, random_state: int = 0) -> None:
        self.n_bits = n_bits
        self.random_state = random_state

    def observe(self, X: np.ndarray) -> Self:
        """The first points: they say how long vectors are, and ITQ learns from them."""
        d = X.shape[1]
        self._observed = X
        self._rng = np.random.default_rng([self.random_state, 9])
        self._learned = np.zeros((d, d), np.float32)  # W - I
        self._momentum = np.zeros((d, d), np.float32)
        self._pairs = _Pairs.none(d)
        self._waiting = _Pairs.none(d)
        self._answers = np.empty((len(SHARES) + 2, 0))  # cosines under each share; similar; weight
        self.n_pairs_seen_ = 0
        return self

    def partial_fit_pairs(
        self, A: np.ndarray, B: np.ndarray, similar: np.ndarray, sample_weight: np.ndarray | None = None
    ) -> Self:
        """Learn pairs; any split of a stream gives the same map."""
        weight = np.ones(len(A)) if sample_weight is None else np.asarray(sample_weight, np.float64)
        self._waiting = self._waiting.then(_Pairs(A, B, np.asarray(similar, np.bool_), weight))
        while len(self._waiting) >= (n := self._chunk_size()):
            self._learn_chunk(self._waiting.rows(slice(n)))
            self._waiting = self._waiting.rows(slice(n, None))
        return self

    def flush(self) -> Self:
        """Learn the pairs that wait for their chunk."""
        if len(self._waiting):
            self._learn_chunk(self._waiting)
            self._waiting = self._waiting.rows(slice(0))
        return self

    @property
    def blend_(self) -> float:
        """0 shows the vectors as they are, 1 all that was learned."""
        *cosines, similar, weight = self._answers
        is_similar = similar > 0
        positive, negative = weight[is_similar].sum(), weight[~is_similar].sum()
        if positive == 0 or negative == 0:
            return float(SHARES.mean())
        trust = 4 * positive * negative / (positive + negative)
        areas = np.array([auc(c[is_similar], c[~is_similar], weight[is_similar], weight[~is_similar]) for c in cosines])
        chance = np.exp(trust * (areas - areas.max()))
        return float(SHARES @ chance / chance.sum())

    def map_rows(self, X: np.ndarray) -> np.ndarray:
        """Mapped vectors, of unit length."""
        return _unit(X + np.float32(self.blend_) * (X @ self._learned))

    def itq(self) -> IterativeQuantization:
        """ITQ of the first points, mapped."""
        return IterativeQuantization(self.n_bits, random_state=self.random_state).fit(self.map_rows(self._observed))

    # ------------------------------------------------------------------ a chunk

    def _chunk_size(self) -> int:
        return int(np.clip(self.n_pairs_seen_ // PART, LEAST_CHUNK, MOST_CHUNK))

    def _learn_chunk(self, chunk: _Pairs) -> None:
        self._ask(chunk)
        self.n_pairs_seen_ += len(chunk)
        self._pairs = self._pairs.then(chunk).rows(slice(-KEPT, None))
        for _ in range(STEPS):
            n = len(self._pairs)
            self._step(self._pairs if n <= BATCH else self._pairs.rows(self._rng.choice(n, BATCH, replace=False)))

    def _ask(self, chunk: _Pairs) -> None:
        """How near would the pairs be under each share? They have not been learned yet."""
        moved_A, moved_B = chunk.A @ self._learned, chunk.B @ self._learned
        cosines = [_cosines(_unit(chunk.A + s * moved_A), _unit(chunk.B + s * moved_B)) for s in SHARES]
        answers = np.stack([*cosines, chunk.similar, chunk.weight])
        self._answers = np.concatenate([self._answers, answers], axis=1)[:, -ANSWERS:]

    def _step(self, pairs: _Pairs) -> None:
        similar, w = pairs.similar, pairs.weight / pairs.weight.sum()
        if similar.all() or not similar.any():
            return  # there is nothing to bring into order
        U, V = pairs.A + pairs.A @ self._learned, pairs.B + pairs.B @ self._learned
        u, v = (np.linalg.norm(X, axis=1) for X in (U, V))
        U, V = _unit(U), _unit(V)
        c = _cosines(U, V)
        wrong = expit(SHARPNESS * (c[~similar] - c[similar, None])) * w[~similar] * w[similar, None]
        wrong /= w[similar].sum() * w[~similar].sum()
        slope = np.empty_like(c)  # of the loss, along the cosine of each pair
        slope[similar], slope[~similar] = -wrong.sum(axis=1), wrong.sum(axis=0)
        G = pairs.A.T @ ((slope / u)[:, None] * (V - c[:, None] * U)).astype(np.float32)
        G += pairs.B.T @ ((slope / v)[:, None] * (U - c[:, None] * V)).astype(np.float32)
        self._momentum += np.float32(1 - MOMENTUM) * (G - self._momentum)
        self._learned *= np.float32(1 - STEP * PULL)
        self._learned -= np.float32(STEP) * self._momentum


class ExactSearch(LinearAdapter):
    """The same with nothing learned: the vectors as they are."""

    traits: ClassVar[Traits] = Traits(learns_from="nothing", unit="pair")


class _Pairs:
    """Aligned arrays: the two sides, whether they are similar, and weights."""

    def __init__(self, A: np.ndarray, B: np.ndarray, similar: np.ndarray, weight: np.ndarray) -> None:
        self.A, self.B, self.similar, self.weight = A, B, similar, weight

    @classmethod
    def none(cls, d: int) -> _Pairs:
        return cls(np.empty((0, d), np.float32), np.empty((0, d), np.float32), np.empty(0, np.bool_), np.empty(0))

    def __len__(self) -> int:
        return len(self.A)

    def rows(self, chosen: Any) -> _Pairs:
        return _Pairs(self.A[chosen], self.B[chosen], self.similar[chosen], self.weight[chosen])

    def then(self, more: _Pairs) -> _Pairs:
        both = [np.concatenate(two) for two in zip(vars(self).values(), vars(more).values(), strict=True)]
        return _Pairs(*both)


def _unit(X: np.ndarray) -> np.ndarray:
    return np.asarray(X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-12), np.float32)


def _cosines(U: np.ndarray, V: np.ndarray) -> np.ndarray:
    return np.asarray(np.einsum("ij,ij->i", U, V), np.float64)
