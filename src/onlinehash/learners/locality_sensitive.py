"""Locality-sensitive hashing (LSH) by random projections.

Moses Charikar: *Similarity estimation techniques from rounding algorithms*. STOC 2002. The data-independent baseline,
and the W¹ that Online Hashing starts from: with the same seed, features and centring their first codes are equal.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onlinehash.features import Medians
from onlinehash.learners.base import Learner
from onlinehash.learners.hooks import Traits
from onlinehash.numeric.dots import pad_rows


class LSH(Learner):
    """`h(x) = sgn(Wᵀx)` with W drawn once from N(0, I): two vectors' bits differ with probability angle / π.

    It learns nothing; points only feed the mean and the medians, and pairs count as points.

    Parameters
    ----------
    n_bits : int, default=64
        Length r of a code.
    features, centre, burn_in, random_state
        As for every learner: see `Learner`.

    Attributes
    ----------
    projection_ : array of shape (n_inputs, n_bits)
        W (a copy).
    """

    traits = Traits(learns_from="nothing", unit="point")
    similar_share = None
    reservoir_size = 2

    def __init__(
        self,
        n_bits: int = 64,
        *,
        features: Any = None,
        centre: str = "burn-in",
        burn_in: int = 2000,
        random_state: Any = None,
    ) -> None:
        self.n_bits = n_bits
        self.features = features
        self.centre = centre
        self.burn_in = burn_in
        self.random_state = random_state

    def _begin(self, n_inputs: int, rng: np.random.Generator) -> None:
        self._W = pad_rows(rng.standard_normal((n_inputs, self.n_bits)).T.astype(self.dtype_))
        self._n_inputs = n_inputs
        self._medians = Medians(self.n_bits)

    def _observe(self, X: np.ndarray) -> np.ndarray:
        if self.centre == "median":
            self._medians.enter(self._W, X)
        return np.full(len(X), self.centre == "median")

    @property
    def projection_(self) -> np.ndarray:
        self._check_ready()
        return self._W[:, : self._n_inputs].T.copy()

    def _functions(self) -> tuple[np.ndarray, np.ndarray]:
        return self._W[:, : self._n_inputs], self._medians.values

    def _get_method_state(self) -> dict[str, Any]:
        return {"W": self._W[:, : self._n_inputs], "medians": self._medians.get_state()}

    def _set_method_state(self, state: dict[str, Any]) -> None:
        self._W = pad_rows(state["W"])
        self._medians.set_state(state["medians"])
