"""`Update`: what one pair did to a learner; `Updates`: the same for many pairs, as arrays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Update:
    """What one pair did.

    Attributes
    ----------
    loss : float
        The loss before the step: for OH the similarity loss R (for several models, the sum over those it updated);
        docs/reference/learners/shared.md says what it is for the others.
    step : float or ndarray
        The step size τ, zero where no function changed; an array, one for each model, for several models. Where pairs
        are learned in chunks, the pair that fills one reports it.
    bits : ndarray of int
        The columns whose hash function changed, by the step or by a mean that moved.
    pending : int
        Pairs kept back while a feature map waits for its anchors. They are learned later, in order; the update that
        learns them carries their summed loss and all their bits.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinehash import OnlineHashing
    >>> learner = OnlineHashing(n_bits=16, random_state=0)
    >>> update = learner.learn_pair(np.array([1.0, 0.0]), np.array([0.0, 1.0]), similar=True)
    >>> update.loss == len(update.bits)  # as many bits differed as were changed
    True
    >>> update.pending
    0
    """

    loss: float
    step: float | NDArray[np.float64]
    bits: np.ndarray
    pending: int = 0

    def __repr__(self) -> str:
        step = self.step if np.ndim(self.step) else round(float(self.step), 6)
        tail = f", pending={self.pending}" if self.pending else ""
        return f"Update(loss={self.loss:g}, step={step}, bits={[int(k) for k in self.bits]}{tail})"


@dataclass(eq=False)
class Updates:
    """What a batch of pairs did, a row per pair; iterating gives `Update`s.

    loss `(n,)`, step `(n, n_models)`; `flips` `(n, n_columns)` is what the step asked of each column: (g - f) / 2 of
    side a plus three times that of side b, each -1, 0 or +1; `n_moved` `(n,)`: how many columns it moved; `moved`
    `(n,)`: the mean moved; `pending` `(n,)`; `replayed`: bits that pairs kept back had changed, by the row that learned
    them; `per_model`: an `Update`'s step is an array even for one model.
    """

    n_models: int
    loss: np.ndarray
    step: np.ndarray
    capped: np.ndarray
    flips: np.ndarray
    n_moved: np.ndarray
    moved: np.ndarray
    pending: np.ndarray
    replayed: dict[int, np.ndarray] = field(default_factory=dict, kw_only=True)
    per_model: bool = field(default_factory=bool, kw_only=True)

    @classmethod
    def empty(cls, n: int, n_models: int, n_columns: int, per_model: bool = False) -> Updates:
        return cls(
            n_models,
            np.zeros(n),
            np.zeros((n, n_models)),
            np.zeros((n, n_models), np.bool_),
            np.zeros((n, n_columns), np.int8),
            np.zeros(n, np.int64),
            np.zeros(n, np.bool_),
            np.zeros(n, np.int64),
            per_model=per_model,
        )

    @classmethod
    def join(cls, blocks: list[Updates]) -> Updates:
        """Join the updates of consecutive blocks of a stream."""
        if len(blocks) == 1:
            return blocks[0]
        columns = zip(*(block._arrays() for block in blocks), strict=True)
        arrays = (np.concatenate(column) for column in columns)
        joined = cls(blocks[0].n_models, *arrays, per_model=blocks[0].per_model)
        start = 0
        for block in blocks:
            joined.replayed.update({start + t: bits for t, bits in block.replayed.items()})
            start += len(block)
        return joined

    def __len__(self) -> int:
        return len(self.loss)

    def part(self, start: int, stop: int) -> Updates:
        """The updates of some of the pairs, as if those alone had been a batch, sharing memory."""
        some = self.view(slice(start, stop))
        some.replayed.update({t - start: bits for t, bits in self.replayed.items() if start <= t < stop})
        return some

    def view(self, rows: slice) -> Updates:
        """Some rows, sharing memory."""
        return Updates(self.n_models, *(array[rows] for array in self._arrays()), per_model=self.per_model)

    def _arrays(self) -> tuple[np.ndarray, ...]:
        return (self.loss, self.step, self.capped, self.flips, self.n_moved, self.moved, self.pending)

    def absorb(self, t: int, done: Updates) -> None:
        """Record that the call for pair t also learned the queued pair in `done`."""
        self.loss[t] += done.loss[0]
        self.step[t], self.capped[t] = done.step[0], done.capped[0]
        self.replayed[t] = np.union1d(self.replayed.get(t, []), done.bits(0))

    def bits(self, t: int) -> np.ndarray:
        """The columns whose function pair t changed."""
        own = np.arange(self.flips.shape[1]) if self.moved[t] else self.flips[t].nonzero()[0]
        return np.union1d(self.replayed[t], own).astype(np.int64) if t in self.replayed else own

    def all_bits(self) -> list[list[int]]:
        """`bits` of each pair, as plain lists; without a call for each, of which there may be many."""
        if len(self) == 1:
            return [self.bits(0).tolist()]
        rows, columns = np.nonzero((self.flips != 0) | self.moved[:, None])
        ends, flat = np.searchsorted(rows, np.arange(len(self) + 1)).tolist(), columns.tolist()
        found = [flat[start:end] for start, end in pairwise(ends)]
        for t in self.replayed:
            found[t] = self.bits(t).tolist()
        return found

    def changed(self) -> np.ndarray:
        """Which pairs changed any bit's function, bool `(n,)`."""
        changed = self.moved | (self.n_moved > 0)
        for t, bits in self.replayed.items():
            changed[t] |= len(bits) > 0
        return changed

    def __getitem__(self, t: int) -> Update:
        step: float | NDArray[np.float64] = self.step[t].copy() if self.per_model else float(self.step[t, 0])
        return Update(float(self.loss[t]), step, self.bits(t), int(self.pending[t]))

    def __iter__(self) -> Iterator[Update]:
        return (self[t] for t in range(len(self)))
