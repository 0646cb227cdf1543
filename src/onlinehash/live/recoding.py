"""One pass over rows that computes the bits of changed columns, and their marks; see `margins`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onlinehash.codes import layout
from onlinehash.learners.encoder import Encoder
from onlinehash.numeric.margins import settle_doubts, sign_and_mark
from onlinehash.numeric.ruler import ALL, MOST, Ruler, sample


@dataclass(frozen=True)
class Plan:
    """Columns to compute: all their bits, or those in doubt alone; with marks, or without.

    Marks lose so many `steps`, as many units as their function moved, or `ALL` where the unit is to be another or there
    are none. A ruler that is None is to be chosen. Is it a small move, such that marks pay at the next one like it?
    """

    columns: np.ndarray
    steps: np.ndarray
    ruler: Ruler | None
    is_dense: bool
    is_marked: bool
    is_small: bool


class Recoding:
    """A pass that makes marks; `old` are those of the columns so far, None where a column has none."""

    def __init__(
        self, encoder: Encoder, plan: Plan, old: list[np.ndarray | None], n: int, centre: np.ndarray | None
    ) -> None:
        columns = plan.columns
        self.ruler, self.marks = plan.ruler, dict[int, np.ndarray]()
        self.computed = self.rows = 0
        self._plan, self._n, self._encoder, self._centre = plan, n, encoder, centre
        self._old = [old[k] for k in columns]
        self._lost = np.minimum(plan.steps, MOST).astype(np.uint8)
        self._functions = encoder.weights[columns], encoder.thresholds[columns], layout.places(columns, encoder.n_bits)

    def take(self, planes: np.ndarray, first: int, rows: np.ndarray) -> None:
        """The rows from position `first` on."""
        if first == 0:
            self._choose_ruler(rows)
        # A line longer than the rows, as columns that lie a power of two apart would share cache sets.
        room = np.ones((len(self.marks), len(rows) + layout.LANES), np.uint8)
        marks = room[:, : len(rows)]
        block, here = first // layout.LANES, slice(first, first + len(rows))
        if self._plan.is_dense:
            self._compute(planes, block, rows, room)
        else:
            for line, old, lost in zip(marks, self._old, self._lost, strict=True):
                if old is None:
                    line[:] = 0
                else:
                    np.subtract(np.maximum(old[here], lost, out=line), lost, out=line)
            self._settle(planes, block, rows, room)
        for line, column in zip(marks, self.marks.values(), strict=True):
            column[here] = line

    def _choose_ruler(self, rows: np.ndarray) -> None:
        """By the first rows, where it is to be another, or units are."""
        plan, functions = self._plan, (self._encoder.weights, self._encoder.thresholds)
        others = plan.columns[plan.steps == ALL]
        if len(others):
            Z = features_of(self._encoder, sample(rows))
            if plan.ruler is None:
                self.ruler = Ruler.of(Z, *functions, self._centre)
            else:
                self.ruler = plan.ruler.renewed(Z, *functions, others)
        assert self.ruler is not None  # as a plan without a ruler makes all marks anew
        self._constants = self.ruler.constants(plan.columns)
        self.marks = {int(k): np.zeros(self._n, np.uint8) for k in plan.columns}

    def _compute(self, planes: np.ndarray, block: int, rows: np.ndarray, marks: np.ndarray) -> None:
        """Compute all bits of the columns."""
        Z = features_of(self._encoder, rows)
        sign_and_mark(Z, *self._functions, planes, block, self._constants, marks)
        self.computed += len(rows) * len(self._plan.columns)
        self.rows += len(rows)

    def _settle(self, planes: np.ndarray, block: int, rows: np.ndarray, marks: np.ndarray) -> None:
        """Compute what is in doubt; rows that are not are neither read nor mapped."""
        numbers = at = np.flatnonzero(marks.min(axis=0) == 0)
        if len(numbers) and self._encoder.feature_map is not None:
            rows, at = features_of(self._encoder, rows[numbers]), np.arange(len(numbers))
        self.computed += settle_doubts(rows, at, numbers, *self._functions, planes, block, self._constants, marks)
        self.rows += len(numbers)


def features_of(encoder: Encoder, rows: np.ndarray) -> np.ndarray:
    """What the encoder's functions are applied to."""
    return rows if encoder.feature_map is None else encoder.feature_map.map_rows(rows)
