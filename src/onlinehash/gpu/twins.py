"""What each kernel does, in NumPy: the tests run the search with these where there is no card, and compare on one."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from onlinehash.gpu.card import Card
from onlinehash.gpu.encoding import SignsTwin
from onlinehash.gpu.shape import CROWD, GROUP, NO_LIMIT, PICKED, POSITION_BITS, Bounds, Relevant, Shape


class Twins:
    """The methods of `Kernels`, on NumPy's arrays."""

    def __init__(self, shape: Shape) -> None:
        self.xp: Any = np
        self.shape = shape

    def here(self) -> AbstractContextManager[Any]:
        """Nothing: there is one memory."""
        return nullcontext()

    def card(self) -> Card | None:
        """None: the memory is the host's."""
        return None

    def signs(self) -> SignsTwin:
        """The twin that encodes."""
        return SignsTwin()

    def pack(self, planes: Any, blocks: Any | None, first: int, per_model: int, words: Any) -> None:
        models, per_word = self.shape.models, 4 * self.shape.words
        padded = np.zeros((len(planes), models, per_word, 64), np.uint8)
        padded[:, :, :per_model] = planes.reshape(len(planes), models, per_model, 64)
        packed = padded.reshape(len(planes), self.shape.row, 4, 64).swapaxes(2, 3)
        to = np.arange(first, first + len(planes)) if blocks is None else blocks
        halves = words.reshape(len(words), self.shape.row, 2, 64)
        halves[to // 2, :, to % 2] = np.ascontiguousarray(packed).view("<u4")[..., 0]

    def count(
        self,
        words: Any,
        alive: Any | None,
        n: int,
        step: int,
        queries: Any,
        counts: Any,
        wanted: int = 0,
        bounds: Any | None = None,
        ended: Any | None = None,
        relevant: Relevant | None = None,
    ) -> None:
        n_groups = self.shape.n_groups(n)
        looked_at = np.zeros((n_groups, GROUP), np.bool_)
        looked_at[::step] = True
        living = self._living(alive, n) & looked_at.reshape(-1)
        for q in range(len(queries)):
            distances = self._distances(words[:n_groups], queries[q])
            counts[q] += np.bincount(distances[living], minlength=counts.shape[1]).astype(np.uint64)
            if relevant is not None:
                hit = living & self._living(relevant.masks[relevant.which[q]], n)
                relevant.hits[q] += np.bincount(distances[hit], minlength=counts.shape[1]).astype(np.uint64)
            if bounds is not None:
                bounds[q] = min(np.searchsorted(np.cumsum(counts[q]), np.uint64(wanted)), self.shape.farthest)

    def limit(
        self,
        words: Any,
        alive: Any | None,
        n: int,
        step: int,
        queries: Any,
        counts: Any,
        wanted: int,
        spare: int,
        bounds: Bounds,
    ) -> None:
        n_groups, living = self.shape.n_groups(n), self._living(alive, n)
        for q, bound in enumerate(bounds.bounds.tolist()):
            before, there = int(counts[q, :bound].sum()), int(counts[q, bound])
            needed = max(wanted - before, spare)
            bounds.limits[q], bounds.beyond[q] = NO_LIMIT, bound
            if there > CROWD * needed:
                at_bound = living & (self._distances(words[:n_groups], queries[q]) == bound)
                tied = at_bound.reshape(n_groups, GROUP).sum(axis=1)[::step]
                group = int(np.searchsorted(np.cumsum(tied), needed))
                left = needed - int(tied[:group].sum())
                bounds.limits[q] = (group * step + -(-step * left // int(tied[group]))) * GROUP
                bounds.beyond[q] = bound - 1
                bounds.past[0] = max(bounds.past[0], bounds.limits[q])

    def tally(self, words: Any, alive: Any | None, n: int, per_chunk: int, query: Any, distance: int) -> Any:
        n_groups = self.shape.n_groups(n)
        there = (self._distances(words[:n_groups], query) == distance) & self._living(alive, n)
        return np.add.reduceat(there.reshape(n_groups, GROUP).sum(axis=1), np.arange(0, n_groups, per_chunk))

    def keep(self, words: Any, alive: Any | None, n: int, queries: Any, bounds: Bounds, found: Any, keys: Any) -> None:
        n_groups, room = self.shape.n_groups(n), keys.shape[1]
        living, positions = self._living(alive, n), np.arange(n_groups * GROUP)
        for q in range(len(queries)):
            distances = self._distances(words[:n_groups], queries[q])
            bound, limit = bounds.bounds[q], bounds.limits[q]
            near = (distances < bound) | ((distances == bound) & (positions < limit))
            at = np.flatnonzero(near & living)[::-1]  # in any order: one that the search must not rely on
            found[q] = len(at)
            key = distances[at].astype(np.uint64) << np.uint64(POSITION_BITS) | at.astype(np.uint64)
            keys[q, : min(len(at), room)] = key[:room]

    keep_few = keep_many = keep

    def pick(self, found: Any, keys: Any, k: int, out: Any, picked: Any) -> None:
        for q in range(len(found)):
            n = int(found[q])
            picked[q] = k <= PICKED and k <= n <= keys.shape[1]
            if picked[q]:
                out[q] = np.sort(keys[q, :n])[:k]

    def _distances(self, words: Any, query: Any) -> np.ndarray:
        """Of all positions in the groups."""
        bits = np.bitwise_count(words ^ query.reshape(1, -1, 1)).astype(np.int64)
        per_model = bits.reshape(len(words), self.shape.models, self.shape.words, GROUP).sum(axis=2)
        return np.asarray(per_model.min(axis=1)).reshape(-1)

    def _living(self, alive: Any | None, n: int) -> np.ndarray:
        positions = np.arange(self.shape.n_groups(n) * GROUP)
        living = positions < n
        if alive is None:
            return living
        bits = np.unpackbits(alive.view(np.uint8), bitorder="little")[: len(positions)]
        return living & bits.astype(np.bool_)
