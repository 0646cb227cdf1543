"""Codes that follow a new encoder, with as few of their bits computed as can be proved enough."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from onlinehash import checks
from onlinehash.codes import Codes, layout
from onlinehash.features import same_map
from onlinehash.learners.encoder import BLOCK_ROWS, Encoder
from onlinehash.numeric.margins import SignsAndMarks, settle_doubts
from onlinehash.numeric.ruler import ALL, MOST, UNITS_OF_THE_MEAN, Ruler, sample
from onlinehash.numeric.signs import FEW_COLUMNS


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
        self._signs = SignsAndMarks(*self._functions, self._constants)
        self.marks = {int(k): np.zeros(self._n, np.uint8) for k in plan.columns}

    def _compute(self, planes: np.ndarray, block: int, rows: np.ndarray, marks: np.ndarray) -> None:
        """Compute all bits of the columns."""
        self._signs.put(features_of(self._encoder, rows), planes, block, marks)
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


#: New marks that wait until there are so many: one by one, columns would be asked for room more often than for marks.
MOST_LATE = 256

#: A column of which a larger share is in doubt gets another unit: its marks have grown too small, or never fitted.
TOO_DOUBTFUL = 0.5

#: So many items are asked what a recoding will cost.
SAMPLE = 2**13

#: A ruler that was chosen by a few rows is chosen anew when there are so many times as many.
GROWTH = 4

#: A move is small if fresh marks would bring the cost of another like it down to this share.
SMALL = 3 / 4

#: How fast it is forgotten whether moves were small, and the share of small ones from which on marks are worth making:
#: they cost a quarter of an encode, which a few small moves pay back.
FORGETTING, ENOUGH_SMALL = 1 / 4, 1 / 5

#: The share of fresh marks that a move of one unit leaves in doubt, if margins are distributed normally.
DOUBTS_OF_A_UNIT = 2 / np.pi / UNITS_OF_THE_MEAN

Blocks = Iterable[tuple[int, np.ndarray]]


@dataclass(frozen=True)
class Work:
    """Bits that a recoding computed, bits of changed columns that it did not have to, and rows that it read."""

    computed: int
    skipped: int
    rows: int


class Margins:
    """A byte for each item and column, which tells how far the hash function may move before the bit can change.

    What the bytes ("marks") mean, and why skipping is safe, is said in `onlinehash.numeric.ruler`. They lie column by
    column, and a recoding makes new ones for changed columns only: of two `Margins` that share columns, the older must
    not be used any more once the newer was changed. Marks are worth nothing without their ruler, which is chosen by the
    first rows encoded; `centre` should be the learner's mean, and is the rows' own where it is not given.

    At first all columns are marked. Those that lose their marks, because marks would cost more than they save, take no
    memory and no time until a recoding of few columns marks them again.

    The marks of the last items may still wait together (`_late`). `settle` puts them into the columns; it has to come
    before a recoding, which may then run beside additions.
    """

    def __init__(self, encoder: Encoder, centre: np.ndarray | None = None) -> None:
        self._centre = centre
        self._ruler: Ruler | None = None
        self._chosen_for = 0
        self._share_small = 1.0  # of the last moves
        self._n = self._n_late = 0
        self._set_columns([np.zeros(0, np.uint8) for _ in range(encoder.n_columns)])

    def _set_columns(self, columns: list[np.ndarray | None]) -> None:
        self._columns = columns
        self._marked = np.array([k for k, column in enumerate(columns) if column is not None], np.int64)
        self._late = np.empty((len(self._marked), 0), np.uint8)
        self._signs: SignsAndMarks | None = None  # made when rows are encoded

    def __len__(self) -> int:
        return self._n + self._n_late

    @property
    def nbytes(self) -> int:
        """Bytes of marks, with the room behind them."""
        return self._late.nbytes + sum(column.nbytes for column in self._columns if column is not None)

    @property
    def marked(self) -> np.ndarray:
        """The columns that have marks, in order."""
        return self._marked

    def encode(self, encoder: Encoder, rows: np.ndarray) -> tuple[Codes, np.ndarray]:
        """The codes of rows, as `encoder.codes_of` gives them, and the marks of marked columns, `(columns, n)`.

        The encoder is the one whose codes these margins are of.
        """
        n = len(rows)
        marks = np.zeros((len(self._marked), n), np.uint8)
        if len(marks) == 0:
            return encoder.codes_of(rows), marks
        planes = layout.aligned_planes(n, encoder.n_models * layout.planes_per_model(encoder.n_bits))
        if encoder.feature_map is not None or self._ruler is None:
            checks.finite(rows)  # else they are looked at when they are met
        for start in range(0, n, BLOCK_ROWS):
            Z = features_of(encoder, rows[start : start + BLOCK_ROWS])
            if self._ruler is None:
                self._ruler = Ruler.of(sample(Z), encoder.weights, encoder.thresholds, self._centre)
                self._chosen_for = n
            if self._signs is None:
                self._signs = self._signs_of(encoder, self._ruler)
            self._signs.put(Z, planes, start // layout.LANES, marks, start)
        return Codes.from_planes(planes, n, encoder.n_bits, encoder.n_models), marks

    def _signs_of(self, encoder: Encoder, ruler: Ruler) -> SignsAndMarks:
        places = layout.places(np.arange(encoder.n_columns), encoder.n_bits)
        return SignsAndMarks(encoder.weights, encoder.thresholds, places, ruler.constants(self._marked), self._marked)

    # ------------------------------------------------------------------------------------------------ changes

    def append(self, marks: np.ndarray) -> None:
        """The marks of new items, as `encode` gives them."""
        n = self._n_late + marks.shape[1]
        if n > MOST_LATE:
            self.settle()
            self._extend(marks)
            return
        if self._late.shape[1] == 0:
            self._late = np.empty((len(self._marked), MOST_LATE), np.uint8)
        self._late[:, self._n_late : n] = marks
        self._n_late = n

    def settle(self) -> None:
        """Put all marks into their columns."""
        late, self._n_late = self._late[:, : self._n_late], 0
        if late.shape[1]:
            self._extend(late)

    def _extend(self, marks: np.ndarray) -> None:
        """More marks for all columns, whose room grows by half."""
        n = self._n + marks.shape[1]
        for k, of_column in zip(self._marked.tolist(), marks, strict=True):
            column = self._columns[k]
            assert column is not None
            if n > len(column):
                longer = np.zeros(max(n, len(column) * 3 // 2), np.uint8)
                longer[: self._n] = column[: self._n]
                self._columns[k] = column = longer
            column[self._n : n] = of_column
        self._n = n

    def put(self, positions: np.ndarray, marks: np.ndarray) -> None:
        """The marks of items that changed."""
        self.settle()
        for column, of_column in zip((self._columns[k] for k in self._marked.tolist()), marks, strict=True):
            assert column is not None
            column[positions] = of_column

    def keep(self, positions: np.ndarray) -> None:
        """Keep only the items at these positions, which ascend, and renumber them."""
        self.settle()
        self._columns = [None if column is None else column[positions] for column in self._columns]
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
        that has moved is taken over; columns that have not changed then lose their marks.
        """
        margins = Margins(new, self._centre if centre is None else centre)
        if n == 0:
            return _copy(planes, n), margins, Work(0, 0, 0)
        if n > self._n:
            self.settle()  # where additions go on beside this, it was done before
        columns = list(self._columns)
        margins._n = n
        margins._ruler, margins._chosen_for = self._ruler, self._chosen_for
        plan = self._plan(new, old, n, centre)
        margins._share_small = self._share_small + FORGETTING * (plan.is_small - self._share_small)
        n_bits = len(plan.columns) * n
        if n_bits == 0:
            margins._set_columns(columns)
            return _copy(planes, n), margins, Work(0, 0, 0)
        if not plan.is_marked:
            plain = recode_columns(new, plan.columns, planes, n, blocks, stop)
            for k in plan.columns:
                columns[k] = None
            margins._set_columns(columns)
            return None if plain is None else (plain, margins, Work(n_bits, 0, n))
        planes = _copy(planes, n)
        recoding = Recoding(new, plan, columns, n, margins._centre)
        for first, rows in blocks:
            if stop():
                return None
            recoding.take(planes, first, rows[: n - first])
        if plan.ruler is None:
            columns, margins._chosen_for = [None] * new.n_columns, n
        margins._ruler = recoding.ruler
        for k in plan.columns.tolist():
            columns[k] = recoding.marks.get(k)
        margins._set_columns(columns)
        return planes, margins, Work(recoding.computed, n_bits - recoding.computed, recoding.rows)

    def _plan(self, new: Encoder, old: Encoder, n: int, centre: np.ndarray | None) -> Plan:
        """What to do for a new encoder."""
        columns, ruler = new.changed_bits(old), self._ruler
        if ruler is None or self._is_outgrown(ruler, new, old, n, centre):
            steps = np.full(len(columns), ALL)
            return Plan(columns, steps, None, True, self._share_small > ENOUGH_SMALL, False)
        moved, ruler = ruler.moved(new.weights, new.thresholds, old.weights, old.thresholds, columns)
        some = slice(0, n, -(-n // SAMPLE))
        doubts = np.ones((len(columns), len(range(n)[some])), bool)
        for k, of_column, step in zip(columns, doubts, moved, strict=True):
            marks = self._columns[k]
            if marks is not None:
                np.less_equal(marks[:n][some], step, out=of_column)
        steps = np.where(doubts.mean(axis=1) > TOO_DOUBTFUL, ALL, moved)
        all_at_once = _cost_of_columns(len(columns))
        one_by_one = _cost_of_doubts(len(columns), doubts.any(axis=0).mean(), doubts.sum(axis=0).mean())
        is_dense = bool(doubts.all() or one_by_one > all_at_once)
        share = np.minimum(moved * DOUBTS_OF_A_UNIT, 1).mean() if len(columns) else 0.0
        next_time = _cost_of_doubts(len(columns), 1 - (1 - share) ** len(columns), share * len(columns))
        is_small = bool(next_time < SMALL * all_at_once)
        is_marked = not is_dense or is_small or self._share_small > ENOUGH_SMALL
        return Plan(columns, steps, ruler, is_dense, is_marked, is_small)

    def _is_outgrown(self, ruler: Ruler, new: Encoder, old: Encoder, n: int, centre: np.ndarray | None) -> bool:
        """Whether to choose another ruler; more than a block of rows would not choose a better one."""
        if self._chosen_for < min(BLOCK_ROWS, n // GROWTH) or not same_map(new.feature_map, old.feature_map):
            return True
        return centre is not None and bool(np.linalg.norm(centre - ruler.centre) > ruler.radius / 8)


def _cost_of_doubts(n_columns: int, touched: float, doubts: float) -> float:
    """What it costs to compute bits in doubt one by one, for the share of rows that have any, and the doubts of a row.

    Costs are shares of encoding all rows with 64 bits, fitted to measurements with 512 float32 values a row: of a
    column, whose marks are looked through; of a row with any doubt, which has to be read; and of a doubt.
    """
    return 0.0076 * n_columns + 0.157 * touched + 0.046 * doubts


def _cost_of_columns(n: int) -> float:
    """What it costs to compute all bits of n columns, measured likewise: many are left to BLAS."""
    return 0.25 + 0.017 * n if n <= FEW_COLUMNS else min(0.5 + 0.01 * n, 1.0)


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
