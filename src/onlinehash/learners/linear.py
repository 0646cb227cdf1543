"""Hash functions that are signs of projections: what LSH, Online Hashing and their like share."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from onlinehash.features.centring import Medians, longest
from onlinehash.io.format import like
from onlinehash.learners.base import Learner
from onlinehash.learners.update import Updates
from onlinehash.numeric.dots import pad_rows
from onlinehash.numeric.signs import canonical_dots
from onlinehash.types import State


class LinearLearner(Learner):
    """`h(x) = sgn(Wᵀx - b)` of centred features x; b is zero unless `centre="median"`.

    A method lays out its first W in `_begin` and changes rows of `_W` as it learns. Rows are the bits of all models,
    one after the other: the kernels read rows, and a step rewrites rows.

    Attributes
    ----------
    projection_ : array of shape (n_inputs, n_bits), or (n_models, n_inputs, n_bits)
        W (a copy).
    """

    #: Whether the method keeps a mean of its own, `_mean` (float64, zero to begin with): features come as they are,
    #: and `h(x) = sgn(Wᵀ(x - mean))`. Such a method has no parameter `centre`.
    _keeps_mean: ClassVar[bool] = False

    _mean: np.ndarray

    def _lay_out(self, W: np.ndarray) -> None:
        """The first hash functions, `(n_models, n_inputs, n_bits)`."""
        self._n_inputs = W.shape[1]
        self._W = pad_rows(W.transpose(0, 2, 1).reshape(-1, self._n_inputs).astype(self.dtype_))
        self._medians = Medians(len(self._W))
        if self._keeps_mean:
            self._mean = np.zeros(self._n_inputs)

    @property
    def projection_(self) -> np.ndarray:
        """W (a copy)."""
        self._check_ready()
        W = self._W[:, : self._n_inputs].reshape(self._n_models, self.n_bits, self._n_inputs).transpose(0, 2, 1)
        return W.copy() if self._per_model else W[0].copy()

    @property
    def mean_(self) -> np.ndarray:
        """The mean that features are centred with (a copy)."""
        self._check_ready()
        return (self._mean if self._keeps_mean else self._centring.mean).copy()

    def _observe(self, X: np.ndarray, updates: Updates) -> None:
        if self.centre == "median":
            self._medians.enter(self._W, X)
            updates.moved[:] = True

    def _functions(self) -> tuple[np.ndarray, np.ndarray]:
        weights = self._W[:, : self._n_inputs]
        return weights, canonical_dots(weights, self._mean) if self._keeps_mean else self._medians.values

    def _get_method_state(self) -> State:
        own = {"mean": self._mean} if self._keeps_mean else {}
        return {"W": np.ascontiguousarray(self._W[:, : self._n_inputs]), "medians": self._medians.get_state()} | own

    def _set_method_state(self, state: State) -> None:
        self._W = pad_rows(like(state["W"], self._W[:, : self._n_inputs], "W"))
        self._medians.set_state(state["medians"])
        if self._keeps_mean:
            most = longest(self.dtype_)
            self._mean = like(state["mean"], self._mean, "mean", -most, most)


def unit_columns(n_inputs: int, n_bits: int, rng: np.random.Generator) -> np.ndarray:
    """Random directions, columns of unit length, as `(1, n_inputs, n_bits)`."""
    W = rng.standard_normal((1, n_inputs, n_bits))
    W /= np.linalg.norm(W, axis=1, keepdims=True)
    return W
