"""What a method says about itself, and what the machinery around it may count on.

A method's own file fills in a few hooks; the rest of a learner (`intake`, `base`) is the same for all:

_rules()                     rules for its parameters, beside the common ones
_begin(n_inputs, rng)        draw the first hash functions for `n_inputs` centred features
_learn(A, B, s, w, updates)  learn pairs of centred features, writing what happened into `updates`
_learn_labelled(X, members, updates)   the same for points with labels
_observe(X, updates)         centred points that come without pairs and labels
_functions()                 its hash functions now: weights, one row per bit, and thresholds on centred features
_get/_set_method_state       what it has learned, as arrays and plain values
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin

from onlinehash import checks
from onlinehash.learners.update import Updates
from onlinehash.numeric.dots import pad_rows


@dataclass(frozen=True)
class Traits:
    """What a method learns from, and in what units; the shared tests and the command line go by it."""

    learns_from: str  # "pairs", "labels" or "nothing"
    unit: str  # "pair", "point", "chunk" or "batch"
    several_labels: bool = False  # may a point have more than one?


class Hooks(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """The hooks of a method, with their defaults, and the parameters and counters that every learner has."""

    traits: ClassVar[Traits]

    #: Does `_learn` take features as they are, centre them itself, and refuse values that are not finite with an
    #: InvalidInput? Then one pass over a large batch does what otherwise takes three.
    _takes_raw_pairs: ClassVar[bool] = False

    #: The modes of centring it can live with: a median must be tracked inside the method's own loop.
    _centre_modes: ClassVar[tuple[str, ...]] = ("burn-in", "running", "none")

    #: Is a step an array, one per model?
    _per_model: ClassVar[bool] = False

    n_bits: int
    features: Any
    centre: str
    burn_in: int
    similar_share: float | None = None
    reservoir_size: int = 2
    random_state: Any

    n_features_in_: int
    dtype_: np.dtype
    version_: int
    n_pairs_seen_: int
    n_points_seen_: int
    n_updates_: int
    n_steps_: int
    n_capped_: int
    n_bits_moved_: int
    cumulative_loss_: float
    n_pairs_pending_: int

    def _rules(self) -> dict[str, checks.Rule]:
        return {}

    def _begin(self, n_inputs: int, rng: np.random.Generator) -> None:
        raise NotImplementedError

    def _learn(self, A: np.ndarray, B: np.ndarray, similar: np.ndarray, weights: np.ndarray, updates: Updates) -> None:
        """A method that does not learn from pairs leaves this as it is: they are two points."""
        done = Updates.empty(2 * len(A), self._n_models, self._n_columns, self._per_model)
        self._observe(pad_rows(np.stack([A, B], axis=1).reshape(-1, A.shape[1])), done)
        updates.moved |= done.moved.reshape(-1, 2).any(axis=1)
        updates.flips[:] = done.flips[0::2] | done.flips[1::2]
        updates.n_moved[:] = np.count_nonzero(updates.flips, axis=1)
        updates.step[:] = np.maximum(done.step[0::2], done.step[1::2])

    def _learn_labelled(self, X: np.ndarray, members: np.ndarray, updates: Updates) -> None:
        """Centred points in padded rows, and the class numbers of each, int64 `(n, m)` padded with -1."""
        raise NotImplementedError

    def _end_chunk(self, updates: Updates) -> None:
        """Learn what waits for its chunk to fill, writing what happened into the one row of `updates`."""

    def _settle(self, updates: Updates) -> None:
        """Let the codes show all that was learned, where they need not follow every step; told like `_end_chunk`."""

    def _observe(self, X: np.ndarray, updates: Updates) -> None:
        """Centred points without pairs, in padded rows; most methods learn nothing from them."""

    def _functions(self) -> tuple[np.ndarray, np.ndarray]:
        raise NotImplementedError

    def _get_method_state(self) -> dict[str, Any]:
        raise NotImplementedError

    def _set_method_state(self, state: dict[str, Any]) -> None:
        raise NotImplementedError

    @property
    def _n_models(self) -> int:
        return 1

    @property
    def _fusion(self) -> str:
        return "min"

    @property
    def _n_columns(self) -> int:
        return self._n_models * self.n_bits

    @property
    def shape_of_codes(self) -> tuple[int, int, str]:
        """Bits of a code, codes of a vector, and how their distances are fused, known before anything is learned."""
        return self.n_bits, self._n_models, self._fusion
