"""Pairs from labelled points, one stream into another, with memory that does not grow.

The rule: points are paired as they come, two by two; a pair is similar when its labels are equal; an odd point waits
for the next call. So any split of the points gives the same pairs.

`similar_share` asks for a share of similar pairs. For each pair a wish is drawn; where the two points that came do not
fulfil it, the second one is paired instead with a point of a reservoir (a uniform sample of the points so far, of
fixed size) that does, the most recently stored of them; where there is none, the two stay together.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike

from onlinehash import checks
from onlinehash.errors import FormatError
from onlinehash.io.format import like, listed, text, whole
from onlinehash.types import State

#: After this many pairs, a stream with hardly any similar ones deserves a warning.
ENOUGH_PAIRS = 1000
FEW_SIMILAR = 0.01


class LabelPairing:
    """Turns `(x, y)` into pairs.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import streams
    >>> pairing = streams.LabelPairing(None, 0, np.random.default_rng(0), n_features=1, dtype=np.float64)
    >>> A, B, similar = pairing.pairs(np.array([[1.0], [2.0], [3.0]]), np.array(["x", "x", "y"]))
    >>> A, B, similar  # the third point waits for a fourth
    (array([[1.]]), array([[2.]]), array([1], dtype=int8))
    """

    def __init__(
        self,
        similar_share: float | None,
        reservoir_size: int,
        rng: np.random.Generator,
        n_features: int,
        dtype: DTypeLike,
    ) -> None:
        self.similar_share = similar_share
        self.rng = rng
        size = reservoir_size if similar_share is not None else 0
        self.waiting: tuple[np.ndarray, str] | None = None
        self.points = np.zeros((size, n_features), dtype)
        self.labels: list[str] = []
        self.n_points = 0
        self.n_pairs = 0
        self.n_similar = 0

    def pairs(self, X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The pairs these points complete: A, B and +1 / -1."""
        keys = [key_of(label) for label in y]
        if self.waiting is not None:
            X = np.concatenate([self.waiting[0][None], X])
            keys.insert(0, self.waiting[1])
        n = len(X) // 2
        self.waiting = (X[-1].copy(), keys[-1]) if len(X) % 2 else None
        A, B = X[0 : 2 * n : 2].copy(), X[1 : 2 * n : 2]
        similar = np.empty(n, np.int8)
        for t in range(n):
            first, second = keys[2 * t], keys[2 * t + 1]
            if self.similar_share is not None:
                partner = self._partner(first, second, self.similar_share)
                self._keep(A[t], first)
                self._keep(B[t], second)
                if partner is not None:
                    A[t], first = partner
            similar[t] = 1 if first == second else -1
        self._count(similar)
        return A, B, similar

    def _partner(self, first: str, second: str, share: float) -> tuple[np.ndarray, str] | None:
        """A stored point that fulfils the wish drawn for this pair, where the two that came do not."""
        wish = bool(self.rng.random() < share)
        if wish != (first == second):
            for at in reversed(range(len(self.labels))):
                if (self.labels[at] == second) == wish:
                    return self.points[at].copy(), self.labels[at]
        return None

    def _keep(self, x: np.ndarray, label: str) -> None:
        """Reservoir sampling: every point so far is equally likely to be kept."""
        self.n_points += 1
        if len(self.labels) < len(self.points):
            self.points[len(self.labels)] = x
            self.labels.append(label)
        else:
            at = int(self.rng.integers(self.n_points))
            if at < len(self.labels):
                self.points[at] = x
                self.labels[at] = label

    def _count(self, similar: np.ndarray) -> None:
        before = self.n_pairs
        self.n_pairs += len(similar)
        self.n_similar += int((similar > 0).sum())
        if before < ENOUGH_PAIRS <= self.n_pairs and self.n_similar < FEW_SIMILAR * self.n_pairs:
            checks.warn(
                f"only {self.n_similar} of {self.n_pairs} pairs made from the labels are similar, which teaches "
                f"little; set similar_share, for instance to 0.3.",
            )

    def get_state(self) -> State:
        return {
            "rng": self.rng.bit_generator.state,
            "waiting": None if self.waiting is None else {"x": self.waiting[0], "label": self.waiting[1]},
            "points": self.points,
            "labels": self.labels,
            "counts": [self.n_points, self.n_pairs, self.n_similar],
        }

    def set_state(self, state: State) -> None:
        self.rng.bit_generator.state = state["rng"]
        waiting = state["waiting"]
        point = np.zeros(self.points.shape[1], self.points.dtype)
        self.waiting = None
        if waiting is not None:
            self.waiting = like(waiting["x"], point, "the waiting point"), text(waiting["label"], "its label")
        self.points = like(state["points"], self.points, "the reservoir")
        self.labels = [text(label, "a label") for label in listed(state["labels"], "labels")]
        counts = (whole(count, "a count") for count in listed(state["counts"], "counts", 3))
        self.n_points, self.n_pairs, self.n_similar = counts
        if len(self.labels) > len(self.points):
            raise FormatError(expected=f"at most {len(self.points)} labels in the reservoir", got=f"{len(self.labels)}")


def key_of(label: object) -> str:
    """Labels compare by this text, so that 3 and 3.0 are one class and a file can hold any of them."""
    if isinstance(label, np.generic):
        label = label.item()
    if isinstance(label, float) and label.is_integer():
        label = int(label)
    return str(label)
