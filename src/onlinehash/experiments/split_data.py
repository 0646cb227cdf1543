"""A data set made ready for an experiment: split, prepared alike for everybody, with what is similar and what relevant.

Rows are split by a fixed permutation, the same for every seed, so that all runs on a set answer the same queries.
Vectors are taken less the mean of the first 2,000 rows to learn from, and scaled to unit length; neighbours are those
of the vectors as they came. Other readings of the paper leave vectors as they came, or take neighbours of the unit
vectors.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np

from onlinehash import evaluate
from onlinehash.datasets import Dataset
from onlinehash.errors import InvalidInput
from onlinehash.experiments.toml import Conditions

#: The nearest share of all that counts as similar, where there are no labels.
NEAREST = 0.05
ROWS_OF_MEAN = 2000
#: Queries that even a split in proportion must leave, where the set has room for them.
LEAST_QUERIES, LEAST_SHARE = 1000, 6
#: A label that nobody has.
NOBODY = -1

Radii = Callable[[np.ndarray, float], np.ndarray]


class SplitData:
    """The rows to learn from, which are also searched, and the queries.

    rows, queries: prepared vectors. labels, query_labels: None where neighbours are what counts.
    vectors: as methods get them, "unit" (centred, of unit length), "uncentred" (of unit length) or "raw".
    neighbours: of which vectors, "raw" or "prepared" (centred, of unit length).
    inputs: how many numbers a vector has after a fixed rotation, the rest being cut off; None for all of them.
    """

    def __init__(
        self,
        data: Dataset,
        truth: str,
        split: tuple[int, int],
        radii: Radii | None = None,
        vectors: str = "unit",
        neighbours: str = "raw",
        inputs: int | None = None,
    ) -> None:
        order = np.random.default_rng(0).permutation(len(data.X))
        n_queries = max(len(order) * split[1] // sum(split), min(LEAST_QUERIES, len(order) // LEAST_SHARE))
        asked, learned = order[:n_queries], order[n_queries:]
        rows: np.ndarray = data.X[learned]
        queries: np.ndarray = data.X[asked]
        mean = rows[:ROWS_OF_MEAN].mean(axis=0)
        unit = unit_rows(rows - mean), unit_rows(queries - mean)
        self.rows, self.queries = unit
        if vectors == "uncentred":
            self.rows, self.queries = unit_rows(rows), unit_rows(queries)
        elif vectors == "raw":
            self.rows, self.queries = np.asarray(rows, np.float32), np.asarray(queries, np.float32)
        self._is_unit = vectors != "raw"
        if inputs is not None:
            self.rows, self.queries = (_cut(X, inputs, self._is_unit) for X in (self.rows, self.queries))
        self._compared, self._compared_queries = unit if neighbours == "prepared" else (rows, queries)
        self.labels = self.query_labels = None
        if truth == "labels":
            assert data.y is not None
            classes = np.unique(data.y, return_inverse=True)[1]
            self.labels, self.query_labels = classes[learned], classes[asked]
        self._radii_of = radii or evaluate.neighbour_radii

    @cached_property
    def truth(self) -> evaluate.Truth:
        """What of all rows is relevant to each query."""
        if self.labels is not None and self.query_labels is not None:
            return evaluate.same_label(self.query_labels, self.labels)
        return evaluate.nearest(self._compared_queries, self._compared, share=NEAREST)

    @cached_property
    def radii(self) -> np.ndarray:
        """How far the nearest 5 % of the others reach, from each row."""
        return self._radii_of(self._compared, NEAREST)

    def similar(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Of pairs of rows: the same label, or either among the nearest 5 % of the other."""
        if self.labels is not None:
            return np.asarray(self.labels[left] == self.labels[right])
        return evaluate.are_neighbours(self._compared, left, right, radii=self.radii)

    def similarities(self, rows: np.ndarray) -> np.ndarray:
        """The same for all pairs among some rows, as a matrix; each is similar to itself."""
        if self.labels is not None:
            return np.asarray(self.labels[rows][:, None] == self.labels[rows])
        X = self._compared[rows].astype(np.float64)
        lengths = (X**2).sum(axis=1)
        squares = lengths[:, None] + lengths - 2 * X @ X.T
        reach = np.maximum(self.radii[rows][:, None], self.radii[rows])
        near = squares <= reach**2
        return np.asarray(near | near.T | np.eye(len(rows), dtype=bool))

    def pairs(
        self, n: int, rng: np.random.Generator, share: float | None = None, among: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """So many random pairs of different rows, and whether they are similar; with a wished share of similar ones."""
        candidates = np.arange(len(self.rows)) if among is None else among
        left, right = _couples(candidates, n, rng)
        similar = self.similar(left, right)
        if share is None:
            return left, right, similar
        wish = rng.random(n) < share
        for _ in range(1000):
            wrong = np.flatnonzero(similar != wish)
            if not len(wrong):
                return left, right, similar
            left[wrong], right[wrong] = _couples(candidates, len(wrong), rng)
            if self.labels is not None:  # similar pairs may be too rare to be met by chance
                asked = wrong[wish[wrong]]
                right[asked] = self._mates(left[asked], candidates, rng)
            similar[wrong] = self.similar(left[wrong], right[wrong]) & (left[wrong] != right[wrong])
        raise InvalidInput(f"there are too few similar rows to draw {share:.0%} similar pairs.")

    def _mates(self, rows: np.ndarray, candidates: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """For each row one of its label, maybe itself."""
        assert self.labels is not None
        order = candidates[np.argsort(self.labels[candidates], kind="stable")]
        sorted_labels = self.labels[order]
        first = np.searchsorted(sorted_labels, self.labels[rows])
        last = np.searchsorted(sorted_labels, self.labels[rows], side="right")
        return np.asarray(order[first + rng.integers(0, last - first)])

    def distractors(self, n: int) -> np.ndarray:
        """Rows that belong to nobody: halfway between two of different labels, and of unit length where these are."""
        rng = np.random.default_rng(1)
        left, right, _ = self.pairs(n, rng, share=0.0)
        halfway = (self.rows[left] + self.rows[right]) / 2
        return unit_rows(halfway) if self._is_unit else np.asarray(halfway)


def unit_rows(X: np.ndarray) -> np.ndarray:
    """Each of length one."""
    return np.asarray(X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-12), np.float32)


def _cut(X: np.ndarray, inputs: int, to_unit: bool) -> np.ndarray:
    """The first numbers of each row after a rotation that is always the same: no number is worth more than others."""
    d = X.shape[1]
    if inputs > d:
        raise InvalidInput(expected=f"at most {d} inputs, as a vector has", got=str(inputs))
    rotation = np.linalg.qr(np.random.default_rng(2).standard_normal((d, d)))[0]
    cut = (X @ rotation[:, :inputs]).astype(np.float32)
    return unit_rows(cut) if to_unit else cut


def _couples(candidates: np.ndarray, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Two different ones each."""
    if len(candidates) < 2:
        raise InvalidInput(f"drawing pairs needs at least two rows, got {len(candidates)}.")
    left = rng.integers(0, len(candidates), n)
    right = (left + rng.integers(1, len(candidates), n)) % len(candidates)
    return candidates[left], candidates[right]


def as_conditions(conditions: Conditions) -> tuple[str, tuple[int, int], str, str, int | None]:
    """What of a setting's conditions decides the split, and what vectors are."""
    split = int(conditions["split"][0]), int(conditions["split"][1])
    vectors, neighbours = conditions.get("vectors", "unit"), conditions.get("neighbours", "raw")
    return conditions["truth"], split, vectors, neighbours, conditions.get("inputs")
