"""Feeds a stream to a learner, and reports at 1, 2, 4, 8, ... pairs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from onlinehash.cli import summaries
from onlinehash.cli.summaries import kept_back
from onlinehash.errors import InvalidInput
from onlinehash.learners.base import Learner
from onlinehash.streams import Pairs, Points
from onlinehash.streams.pairs import PairReader, holds_pairs
from onlinehash.streams.points import PointReader
from onlinehash.streams.tables import Table


class BlockReader:
    """Tables into what the learner takes: pairs where a file says `similar`, labelled points elsewhere."""

    def __init__(self, learner: Learner, vectors: str | None, similar_column: str | None = None) -> None:
        self._similar_column = similar_column
        self._needs_labels = learner.traits.learns_from != "nothing"
        self._vectors = vectors
        self._read_pairs = PairReader(vectors)
        self._read_points = PointReader(getattr(learner, "n_features_in_", None), labelled=self._needs_labels)

    def __call__(self, table: Table) -> Pairs | Points:
        if self._similar_column is not None:
            table = table.named(self._similar_column, "similar")
        if holds_pairs(table):
            return self._read_pairs(table)
        if self._vectors is not None:
            raise table.lacks("the columns id_a, id_b and similar for the file of vectors given")
        points = self._read_points(table)
        if points.y is None and self._needs_labels:
            raise InvalidInput(
                where=table.source,
                expected="pairs (a column similar), or a label for each vector (a column label; for an npy, --labels)",
                got="neither",
            )
        return points


class Lesson:
    """Learns blocks and counts over the learner's whole life: pairs (two points each, however they came), or points
    for a method that learns from labels.

    Blocks are cut at 1, 2, 4, 8, ... of them, which changes nothing: any split gives the same bytes. A batch method
    takes nothing before `end`.
    """

    def __init__(self, learner: Learner, limit: int | None = None) -> None:
        self._learner = learner
        self.unit = summaries.unit(learner)
        self._points_a_unit = 2 if self.unit == "pairs" else 1
        self._first = self._points = _taken_before(learner)
        self._end = math.inf if limit is None else self._points + self._points_a_unit * limit
        self._counters = self._read_counters()
        self._batch: list[Points] = []

    @property
    def n(self) -> int:
        """Pairs or points taken in, be they learned or still kept back for the feature map's anchors."""
        return self._points // self._points_a_unit

    @property
    def is_empty(self) -> bool:
        return self._points == self._first

    @property
    def is_over(self) -> bool:
        return self._points >= self._end

    def take(self, block: Pairs | Points) -> Iterator[dict[str, Any]]:
        """Learn a block; a row for each power of two that is reached on the way."""
        learn: Callable[..., Any] = self._learner.partial_fit_pairs if isinstance(block, Pairs) else self._learn
        points_a_row = 2 if isinstance(block, Pairs) else 1
        start = 0
        while start < len(block[0]) and not self.is_over:
            mark = 2 ** self.n.bit_length()  # the next power of two
            stop = start + math.ceil((min(self._points_a_unit * mark, self._end) - self._points) / points_a_row)
            stop = min(stop, len(block[0]))
            learn(*(None if values is None else values[start:stop] for values in block))
            self._points += points_a_row * (stop - start)
            start = stop
            if self.n == mark and not self._batch:
                yield self.row()

    def _learn(self, X: np.ndarray, y: np.ndarray | None) -> None:
        if self._learner.traits.unit == "batch":
            self._batch.append(Points(X, y))
        else:
            self._learner.partial_fit(X, y)

    def end(self) -> None:
        """The last block was taken: a batch method, which waits for all to be there, learns now."""
        if self._batch:
            X, labels = np.concatenate([X for X, _ in self._batch]), [y for _, y in self._batch if y is not None]
            self._learner.fit(X, np.concatenate(labels) if labels else None)

    def row(self) -> dict[str, Any]:
        """What the pairs since the row before did; `cumulative_loss` is over all of them."""
        before, self._counters = self._counters, self._read_counters()
        learned, loss, updates, bits = (now - then for now, then in zip(self._counters, before, strict=True))
        return {
            self.unit: self.n,
            "pending": kept_back(self._learner),
            "loss": loss / max(learned, 1),
            "update_rate": updates / max(learned, 1),
            "bits_moved": bits,
            "cumulative_loss": self._counters[1],
        }

    def _read_counters(self) -> tuple[float, ...]:
        names = (f"n_{self.unit}_seen_", "cumulative_loss_", "n_updates_", "n_bits_moved_")
        return tuple(getattr(self._learner, name, 0) for name in names)


def _taken_before(learner: Learner) -> int:
    """Points in a resumed learner: two for each pair, and a labelled one that may wait for its partner."""
    state = learner.get_state()
    if not state:
        return 0
    if learner.traits.unit == "batch":
        raise InvalidInput(
            f"{type(learner).__name__} does not learn online and cannot resume; learn again from all files."
        )
    if summaries.unit(learner) == "points":
        return learner.n_points_seen_ + kept_back(learner)
    return 2 * (learner.n_pairs_seen_ + kept_back(learner)) + (state["pairing"]["waiting"] is not None)
