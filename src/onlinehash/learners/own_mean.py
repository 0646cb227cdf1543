"""Methods that take features as they are, and centre them with a mean of their own."""

from __future__ import annotations

from typing import Any

import numpy as np

from onlinehash.format import like
from onlinehash.learners.linear import LinearLearner
from onlinehash.numeric.signs import canonical_dots


class OwnMean(LinearLearner):
    """`h(x) = sgn(Wᵀ(x - mean))`, the mean being part of what the method learns."""

    centre = "none"
    burn_in = 1

    _mean: np.ndarray  # zero to begin with, float64

    @property
    def mean_(self) -> np.ndarray:
        """The mean that features are centred with (a copy)."""
        self._check_ready()
        return self._mean.copy()

    def _lay_out(self, W: np.ndarray) -> None:
        super()._lay_out(W)
        self._mean = np.zeros(self._n_inputs)

    def _functions(self) -> tuple[np.ndarray, np.ndarray]:
        weights = self._W[:, : self._n_inputs]
        return weights, canonical_dots(weights, self._mean)

    def _get_method_state(self) -> dict[str, Any]:
        return super()._get_method_state() | {"mean": self._mean}

    def _set_method_state(self, state: dict[str, Any]) -> None:
        super()._set_method_state(state)
        self._mean = like(state["mean"], self._mean, "mean")
