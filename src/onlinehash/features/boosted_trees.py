"""Boosted decision trees as a feature map: one score for each bit."""

from __future__ import annotations

import numpy as np

from onlinehash import checks
from onlinehash.errors import FormatError, InvalidInput
from onlinehash.features.maps import FeatureMap
from onlinehash.io.format import like
from onlinehash.numeric.kernels import njit
from onlinehash.numeric.views import read_only
from onlinehash.types import State


class BoostedTrees:
    """`z_k(x)`: the sum of the leaves that x reaches in the trees of bit k.

    All trees are complete and of one depth, so a tree is three short arrays: node i asks whether feature `feature[i]`
    of the centred row is more than `threshold[i]`, and goes on to node 2i + 1 if not, to 2i + 2 if so; after `depth`
    questions the leaf has a `value`. A row's scores never depend on other rows: sums run over trees in their order.

    It is what a learner of trees gives its encoder. It is not for a learner's `features` parameter, and it never
    changes once it is made.
    """

    is_ready = True
    n_waiting_for = 0

    def __init__(self, inner: FeatureMap | None = None) -> None:
        """`inner` is the map before the trees."""
        self.inner = inner
        self.mean = np.zeros(1)
        self.feature = np.zeros((1, 1, 0), np.int32)
        self.threshold = np.zeros((1, 1, 0))
        self.value = np.zeros((1, 1, 1))

    @classmethod
    def of(
        cls, inner: FeatureMap | None, mean: np.ndarray, feature: np.ndarray, threshold: np.ndarray, value: np.ndarray
    ) -> BoostedTrees:
        """Trees `(n_bits, n_trees, nodes)`, with one leaf more than nodes that ask; rows are centred by `mean`."""
        trees = cls(inner)
        trees.mean, trees.feature, trees.threshold, trees.value = mean, feature, threshold, value
        return trees

    @property
    def n_outputs(self) -> int:
        """One score for each bit."""
        return len(self.feature)

    @property
    def depth(self) -> int:
        """Questions on the way to a leaf."""
        return self.value.shape[2].bit_length() - 1

    def check(self, X: np.ndarray) -> None:
        """Refuse rows of another width."""
        if self.inner is not None:
            self.inner.check(X)
        else:
            checks.width(X, len(self.mean), "these boosted trees")

    def partial_fit(self, X: np.ndarray) -> BoostedTrees:
        return self

    def start(self) -> None:
        """There is nothing to wait for."""

    def map_rows(self, X: np.ndarray) -> np.ndarray:
        """Scores `(n, n_bits)` of rows that have passed the gate."""
        Z = X if self.inner is None else self.inner.map_rows(X)
        if Z.shape[1] != len(self.mean):
            raise InvalidInput(expected=f"rows with {len(self.mean)} features for these trees", got=f"{Z.shape[1]}")
        out = np.empty((len(Z), self.n_outputs), X.dtype)
        centred = (Z - self.mean).astype(X.dtype)
        feature, value = read_only(self.feature), read_only(self.value)
        _add_leaves(centred, feature, self.threshold.astype(X.dtype), value, self.depth, out)
        return out

    def fork(self) -> BoostedTrees:
        """Itself, as it never changes."""
        return self

    def get_state(self) -> State:
        return {
            "inner": None if self.inner is None else self.inner.get_state(),
            "mean": self.mean,
            "feature": self.feature,
            "threshold": self.threshold,
            "value": self.value,
        }

    def set_state(self, state: State) -> None:
        """Take over trees, after a look at all that the kernel relies on."""
        feature, value = state["feature"], state["value"]
        if not isinstance(value, np.ndarray) or value.ndim != 3 or value.shape[2].bit_count() != 1 or not value.size:
            raise FormatError(f"the leaves do not form complete trees: {checks.shown(value)}.")
        nodes = (*value.shape[:2], value.shape[2] - 1)
        mean = like(state["mean"], np.zeros(np.shape(state["mean"])), "mean")
        if mean.ndim != 1:
            raise FormatError(expected="one mean of each feature", got=f"shape {mean.shape}")
        feature = like(feature, np.zeros(nodes, np.int32), "the features of the trees", 0, len(mean) - 1)
        kind = np.float32 if getattr(state["threshold"], "dtype", None) == np.float32 else np.float64
        threshold = like(state["threshold"], np.zeros(nodes, kind), "threshold")
        value = like(value, np.zeros(value.shape), "value")
        if (self.inner is None) != (state["inner"] is None):
            raise FormatError("the trees were learned on another feature map.")
        if self.inner is not None:
            self.inner.set_state(state["inner"])
            if not self.inner.is_ready:
                raise FormatError("the feature map of the trees has learned nothing.")
        self.mean, self.feature, self.threshold, self.value = mean, feature, threshold, value


@njit(nogil=True, cache=True)
def _add_leaves(
    X: np.ndarray, feature: np.ndarray, threshold: np.ndarray, value: np.ndarray, depth: int, out: np.ndarray
) -> None:
    """Sums in float64, tree after tree; the trees of one bit stay in the nearest cache while rows pass."""
    first_leaf = feature.shape[2]
    for k in range(feature.shape[0]):
        for n in range(X.shape[0]):
            score = 0.0
            for t in range(feature.shape[1]):
                node = 0
                for _ in range(depth):
                    node = 2 * node + 1 + (X[n, feature[k, t, node]] > threshold[k, t, node])
                score += value[k, t, node - first_leaf]
            out[n, k] = score
