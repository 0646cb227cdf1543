"""Codes that follow a new encoder, with as few of their bits computed as can be proved enough."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from onlinehash import checks
from onlinehash.codes import Codes, layout
from onlinehash.features import same_map
from onlinehash.learners.encoder import BLOCK_ROWS, Encoder
from onlinehash.numeric.margins import ALL, MOST, Ruler, sample, settle_doubts, sign_and_mark

#: A column of which a larger share is in doubt gets another unit: its marks have grown too small, or never fitted.
TOO_DOUBTFUL = 0.5

#: So many items are asked what a recoding will cost.
SAMPLE = 2**15

#: The ruler is chosen anew when there are so many times the items it was chosen for.
GROWTH = 4

Blocks = Iterable[tuple[int, np.ndarray]]


@dataclass(frozen=True)
class Work:
    """Bits that a recoding computed, bits of changed columns that it did not have to, and rows that it read."""

    computed: int
    skipped: int
    rows: int


class Margins:
    """A byte for each item and column, which tells how far the hash function may move before the bit can change.

    What the bytes ("marks") mean, and why skipping is safe, is said in `onlinehash.numeric.margins`. They lie column by
    column, and a recoding makes new ones for changed columns only: of two `Margins` that share columns, the older must
    not be used any more once the newer was changed. Marks are worth nothing without their ruler, which is chosen by the
    first rows encoded; `centre` should be the learner's mean, and is the rows' own where it is not given.
    """

    def __init__(self, encoder: Encoder, centre: np.ndarray | None = None) -> None:
        self._centre = centre
        self._ruler: Ruler | None = None
        self._chosen_for = 0
        self._columns = [np.zeros(0, np.uint8) for _ in range(encoder.n_columns)]
        self._n = 0

    def __len__(self) -> int:
        return self._n

    @property
    def nbytes(self) -> int:
        """Bytes of marks, with the room behind them."""
        return sum(column.nbytes for column in self._columns)

    def encode(self, encoder: Encoder, rows: np.ndarray) -> tuple[Codes, np.ndarray]:
        """The codes of rows, as `encoder.codes_of` gives them, and their marks `(n_columns, n)`.

        The encoder is the one whose codes these margins are of.
        """
        n, columns = len(rows), np.arange(encoder.n_columns)
        planes = layout.aligned_planes(n, encoder.n_models * layout.planes_per_model(encoder.n_bits))
        marks = np.zeros((len(columns), n), np.uint8)
        places, ruler = layout.places(columns, encoder.n_bits), self._ruler
        functions = (encoder.weights, encoder.thresholds)
        if encoder.feature_map is not None or ruler is None:
            checks.finite(rows)  # else they are looked at when they are met
        for start in range(0, n, BLOCK_ROWS):
            Z = _features(encoder, rows[start : start + BLOCK_ROWS])
            if ruler is None:
                ruler = Ruler.of(sample(Z), *functions, self._centre)
            if start == 0:
                constants = ruler.constants(columns)
            sign_and_mark(Z, *functions, places, planes, start // layout.LANES, constants, marks, start)
        if self._ruler is None and n:
            self._ruler, self._chosen_for = ruler, n
        return Codes.from_planes(planes, n, encoder.n_bits, encoder.n_models), marks

    # ------------------------------------------------------------------------------------------------ changes

    def append(self, marks: np.ndarray) -> None:
        """The marks of new items; room grows by half."""
        n = self._n + marks.shape[1]
        for k, column in enumerate(self._columns):
            if n > len(column):
                longer = np.zeros(max(n, len(column) * 3 // 2), np.uint8)
                longer[: self._n] = column[: self._n]
                self._columns[k] = longer
            self._columns[k][self._n : n] = marks[k]
        self._n = n

    def put(self, positions: np.ndarray, marks: np.ndarray) -> None:
        """The marks of items that changed."""
        for column, of_column in zip(self._columns, marks, strict=True):
            column[positions] = of_column

    def keep(self, positions: np.ndarray) -> None:
        """Only the items at these positions stay, which ascend, and are counted anew."""
        self._columns = [column[positions] for column in self._columns]
        self._n = len(positions)

    # ------------------------------------------------------------------------------------------------ recoding

    def recode(
        self,
        new: Encoder,
        old: Encoder,
        planes: np.ndarray,
        n: int,
        blocks: Blocks,
        stop: Callable[[], bool] = lambda: False,
        centre: np.ndarray | None = None,
    ) -> tuple[np.ndarray, Margins, Work] | None:
        """The planes of the first n codes as `new` makes them, their margins, and what it took; None when stopped.

        `planes` and these margins are those of `old`, and stay as they are. `blocks` gives the rows in order. A centre
        that has moved is taken over, at the price of computing all columns once.
        """
        margins = Margins(new, self._centre if centre is None else centre)
        margins._columns, margins._n = list(self._columns), n
        margins._ruler, margins._chosen_for = self._ruler, self._chosen_for
        planes = _copy(planes, n)
        n_changed = len(new.changed_bits(old))
        if n == 0 or n_changed == 0:
            return planes, margins, Work(0, 0, 0)
        recoding = _Recoding(new, self._plan(new, old, n, centre), margins._columns, margins._centre)
        for first, rows in blocks:
            if stop():
                return None
            recoding.take(planes, first, rows[: n - first])
        for k, marks in recoding.marks.items():
            margins._columns[k] = marks
        margins._ruler = recoding.ruler
        if recoding.plan.ruler is None:
            margins._chosen_for = n
        return planes, margins, Work(recoding.computed, max(n_changed * n - recoding.computed, 0), recoding.rows)

    def _plan(self, new: Encoder, old: Encoder, n: int, centre: np.ndarray | None) -> _Plan:
        """What to do for a new encoder."""
        ruler = self._ruler
        if ruler is None or self._is_outgrown(ruler, new, old, n, centre):
            return _Plan(np.arange(new.n_columns), np.full(new.n_columns, ALL), None, True)
        columns = new.changed_bits(old)
        steps, ruler = ruler.moved(new.weights, new.thresholds, old.weights, old.thresholds, columns)
        some = slice(0, n, -(-n // SAMPLE))
        doubts = np.array([self._columns[k][some] <= s for k, s in zip(columns, steps, strict=True)])
        steps[doubts.mean(axis=1) > TOO_DOUBTFUL] = ALL
        doubts[steps == ALL] = True
        # Costs were measured, in rows of 512 values read: bits one by one, and all bits of the columns at once.
        one_by_one = doubts.any(axis=0).mean() + doubts.sum(axis=0).mean() / 5
        all_at_once = 1 + min(len(columns), 32) / 12
        is_anew = len(columns) == new.n_columns and bool(doubts.all())
        return _Plan(columns, steps, None if is_anew else ruler, bool(one_by_one > all_at_once))

    def _is_outgrown(self, ruler: Ruler, new: Encoder, old: Encoder, n: int, centre: np.ndarray | None) -> bool:
        """Is it time for another ruler?"""
        if n >= GROWTH * self._chosen_for or not same_map(new.feature_map, old.feature_map):
            return True
        return centre is not None and bool(np.linalg.norm(centre - ruler.centre) > ruler.radius / 8)


@dataclass(frozen=True)
class _Plan:
    """Columns, the units their marks lose (`ALL` where the unit is to be another), the ruler (None for another one)."""

    columns: np.ndarray
    steps: np.ndarray
    ruler: Ruler | None
    is_dense: bool


class _Recoding:
    """One pass over the rows."""

    def __init__(self, encoder: Encoder, plan: _Plan, old: list[np.ndarray], centre: np.ndarray | None) -> None:
        columns = plan.columns
        self.plan, self.ruler = plan, plan.ruler
        self.marks = {int(k): np.zeros_like(old[k]) for k in columns}
        self.computed = self.rows = 0
        self._encoder, self._centre = encoder, centre
        self._old = [old[k] for k in columns]
        self._lost = np.minimum(plan.steps, MOST).astype(np.uint8)
        self._functions = encoder.weights[columns], encoder.thresholds[columns], layout.places(columns, encoder.n_bits)

    def take(self, planes: np.ndarray, first: int, rows: np.ndarray) -> None:
        """The rows from position `first` on."""
        if first == 0:
            self._choose_ruler(rows)
        room = np.ones((len(self._old), len(rows) + layout.LANES), np.uint8)  # columns 2^k apart would share cache sets
        marks = room[:, : len(rows)]
        block, here = first // layout.LANES, slice(first, first + len(rows))
        if self.plan.is_dense:
            Z = _features(self._encoder, rows)
            sign_and_mark(Z, *self._functions, planes, block, self._constants, room)
            self.computed += marks.size
            self.rows += len(rows)
        else:
            for line, old, lost in zip(marks, self._old, self._lost, strict=True):
                np.subtract(np.maximum(old[here], lost, out=line), lost, out=line)
            self._settle(planes, block, rows, room)
        for line, column in zip(marks, self.marks.values(), strict=True):
            column[here] = line

    def _choose_ruler(self, rows: np.ndarray) -> None:
        """By the first rows, where it is to be another, or units are."""
        columns, others = self.plan.columns, self.plan.columns[self.plan.steps == ALL]
        if len(others):
            Z = _features(self._encoder, sample(rows))
            functions = (self._encoder.weights, self._encoder.thresholds)
            if self.ruler is None:
                self.ruler = Ruler.of(Z, *functions, self._centre)
            else:
                self.ruler = self.ruler.renewed(Z, *functions, others)
        assert self.ruler is not None  # as a plan without a ruler makes all marks anew
        self._constants = self.ruler.constants(columns)

    def _settle(self, planes: np.ndarray, block: int, rows: np.ndarray, marks: np.ndarray) -> None:
        """Compute what is in doubt; rows that are not are neither read nor mapped."""
        numbers = at = np.flatnonzero(marks.min(axis=0) == 0)
        if len(numbers) and self._encoder.feature_map is not None:
            rows, at = _features(self._encoder, rows[numbers]), np.arange(len(numbers))
        self.computed += settle_doubts(rows, at, numbers, *self._functions, planes, block, self._constants, marks)
        self.rows += len(numbers)


def recode_columns(
    new: Encoder,
    columns: np.ndarray,
    planes: np.ndarray,
    n: int,
    blocks: Blocks,
    stop: Callable[[], bool] = lambda: False,
) -> np.ndarray | None:
    """The planes of the first n codes with some columns as `new` makes them, without margins; None when stopped."""
    planes = _copy(planes, n)
    if len(columns):
        for first, rows in blocks:
            if stop():
                return None
            new.encode_into(rows[: n - first], columns, planes, first // layout.LANES)
    return planes


def _copy(planes: np.ndarray, n: int) -> np.ndarray:
    """The planes of the first n codes, and nothing behind them."""
    copy = layout.aligned_planes(n, planes.shape[1])
    copy[...] = planes[: len(copy)]
    if n % layout.LANES:
        copy[-1, :, n % layout.LANES :] = 0
    return copy


def _features(encoder: Encoder, rows: np.ndarray) -> np.ndarray:
    return rows if encoder.feature_map is None else encoder.feature_map.map_rows(rows)
