"""A refresh: the codes of another encoder for all items, computed beside an index that is searched and changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from onlinehash.codes import Codes
from onlinehash.codes.layout import LANES, aligned_planes
from onlinehash.index.base import Index
from onlinehash.index.gpu import GpuIndex
from onlinehash.learners.encoder import Encoder
from onlinehash.live.margins import Margins, recode_columns
from onlinehash.live.vectors import Vectors


class Work(NamedTuple):
    """What a refresh did, in bits of items: those of changed functions, those of them that margins proved to be as
    they were (and so were not computed), and those that came out otherwise."""

    rehashed: int
    skipped: int
    flipped: int


class Rehash:
    """One refresh, in two steps.

    `compute` takes one pass over the vectors and needs no lock: it reads the published index as it was at the start,
    which nobody changes. `finish` is short: it takes over what came, changed and went meanwhile.
    """

    def __init__(
        self, view: Index, encoder: Encoder, vectors: Vectors, margins: Margins | None, centre: np.ndarray
    ) -> None:
        self._old, self._encoder, self._vectors, self._margins = view, encoder, vectors, margins
        if margins is not None:
            margins.settle()
        self._centre, self._n = centre, view.items.n_positions
        self._changed: list[np.ndarray] = []
        self.late = np.empty(0, np.int64)  #: Positions that came or changed between `compute` and `finish`.

    @property
    def codes(self) -> Codes:
        """The codes of the positions that there were at the start, once they are computed."""
        return self._view.items.all_codes()

    def note(self, positions: np.ndarray) -> None:
        """Items at these positions were changed after the start."""
        self._changed.append(positions)

    def compute(self, stop: Callable[[], bool] = lambda: False) -> bool:
        """Compute codes for all items there were at the start; False if it was stopped, which leaves nothing behind."""
        old, new, n = self._old, self._encoder, self._n
        columns = np.arange(new.n_columns) if old.encoder is None else new.changed_bits(old.encoder)
        planes, skipped, blocks = old.items.planes, 0, self._vectors.blocks(n)
        if isinstance(old, GpuIndex) and len(columns):
            found = old.planes_by(new, blocks, stop)
        elif self._margins is None:
            found = recode_columns(new, columns, planes, n, blocks, stop)
        elif old.encoder is None:
            found = self._encode_all(planes.shape[1], blocks, stop)
        else:
            recoded = self._margins.recode(new, old.encoder, planes, n, blocks, stop, self._centre)
            if recoded is None:
                return False
            found, self._margins, counted = recoded
            skipped = counted.skipped
        if found is None:
            return False
        self._view = old.recoded(Codes.from_planes(found, n, old.n_bits, old.n_models), new, columns)
        flipped = _differing(planes, found, old.items.alive)
        self.work = Work(len(columns) * len(old), skipped, flipped)
        return True

    def _encode_all(
        self, n_planes: int, blocks: Iterator[tuple[int, np.ndarray]], stop: Callable[[], bool]
    ) -> np.ndarray | None:
        """The first codes, and their margins."""
        assert self._margins is not None
        planes = aligned_planes(self._n, n_planes)
        for first, rows in blocks:
            if stop():
                return None
            codes, marks = self._margins.encode(self._encoder, rows)
            planes[first // LANES :][: len(codes.planes)] = codes.planes
            self._margins.append(marks)
        return planes

    def finish(self, newest: Index) -> tuple[Index, Margins | None]:
        """The index with the new codes and all items that there are now, and their margins."""
        n = newest.items.n_positions
        changed = np.concatenate([np.empty(0, np.int64), *self._changed])
        late = np.union1d(changed[changed < self._n], np.arange(self._n, n))
        if len(late) or newest.items.n_dead != self._old.items.n_dead:
            if self._margins is None:
                late = late[newest.items.are_alive(late)]  # a store has no rows of others
                codes = self._encoder.codes_of(self._vectors.take(late))
            else:
                codes, marks = self._margins.encode(self._encoder, self._vectors.take(late))
                n_changed = len(late) - (n - self._n)
                self._margins.put(late[:n_changed], marks[:, :n_changed])
                self._margins.append(marks[:, n_changed:])
            self._view.follow(newest, late, codes)
            self.late = late
        return self._view, self._margins


def _differing(old: np.ndarray, new: np.ndarray, alive: np.ndarray) -> int:
    """The bits in which the codes of living items differ."""
    total = 0
    for start in range(0, len(old), 4096):
        some = slice(start, start + 4096)
        lanes = np.unpackbits(alive[some].view(np.uint8), bitorder="little").reshape(-1, 1, LANES)
        total += int(np.bitwise_count((old[some] ^ new[some]) * lanes).sum())
    return total
