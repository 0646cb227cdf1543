"""Methods that learn from all points at once: `fit` is the only way in, and shows its progress.

They are here to be compared with, and for data that are all there before the first query.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from onlinehash import checks
from onlinehash.errors import InvalidInput, NotIncremental
from onlinehash.learners.intake import BLOCK_PAIRS
from onlinehash.learners.linear import LinearLearner
from onlinehash.numeric.threads import one_thread
from onlinehash.progress import progress_bar

#: Tells the progress bar the share that is done, and what to say beside it.
Show = Callable[[float | None, str], None]


class BatchLearner(LinearLearner):
    """A method fills in `_fit`; features are centred with the mean of all of them."""

    centre = "none"
    burn_in = 1

    def _fit(self, X: np.ndarray, classes: np.ndarray | None, rng: np.random.Generator, show: Show) -> np.ndarray:
        """W, `(n_inputs, n_bits)`, from centred features and the class number of each (None without labels).

        BLAS runs on one thread here, so the same rows always give the same result.
        """
        raise NotImplementedError

    def fit(self, X: Any, y: Any = None) -> Self:
        """Forget, then learn from all points at once. A call that is refused forgets nothing."""
        self.check_free()
        rows = checks.vectors(X)
        name = type(self).__name__
        if self.traits.learns_from == "labels" and y is None:
            raise InvalidInput(f"{name} requires y to be passed, but the target y is None; pass a label for each row.")
        fresh = type(self)(**self.get_params(deep=False))
        labels = None if self.traits.learns_from == "nothing" else checks.labels(y, len(rows))
        fresh._open(rows, X)
        fresh._learn_all(rows, None if labels is None else fresh._classes.members(labels)[:, 0])
        self._adopt(fresh)
        return self

    def _learn_all(self, rows: np.ndarray, known: Any) -> None:
        """Checked rows, and what is known of them, for a learner that has seen nothing."""
        if self._map is not None and not self._map.is_ready:
            self._map.partial_fit(rows)
            self._map.start()
        if not self._is_ready:
            self._start(rows)
        Z = rows if self._map is None else _mapped(self._map, rows)
        self._centring.mean = Z.mean(axis=0, dtype=np.float64)
        X = (Z - self._centring.mean).astype(self.dtype_)
        with one_thread(), progress_bar() as show:
            W = self._fit(X, known, np.random.default_rng([self._seed, 2]), show)
        self._lay_out(W[None])
        self.n_points_seen_ = len(rows)
        self.version_ = 1

    def _begin(self, n_inputs: int, rng: np.random.Generator) -> None:
        self._lay_out(np.zeros((1, n_inputs, self.n_bits)))

    @property
    def partial_fit(self) -> Any:
        """Refused: there is no going on."""
        raise NotIncremental(
            f"expected all points at once, because {type(self).__name__} is a batch method; call fit with all of them, "
            "or take a method that learns online."
        )


def _mapped(feature_map: Any, rows: np.ndarray) -> np.ndarray:
    """All rows through the map, some at a time."""
    blocks = range(0, len(rows), BLOCK_PAIRS)
    return np.concatenate([feature_map.map_rows(rows[start : start + BLOCK_PAIRS]) for start in blocks])
