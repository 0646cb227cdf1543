"""Feeding a stream to a learner, and what it did at 1, 2, 4, 8, ... pairs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from onlinehash.cli.facts import pairs_kept_back
from onlinehash.errors import InvalidInput
from onlinehash.learners.base import Learner
from onlinehash.streams import Pairs, Points
from onlinehash.streams.pairs import PairReader, holds_pairs
from onlinehash.streams.points import PointReader
from onlinehash.streams.tables import Table


class BlockReader:
    """Tables into what the learner takes: pairs where a file says `similar`, labelled points elsewhere."""

    def __init__(self, learner: Learner, vectors: str | None) -> None:
        self._needs_labels = learner.traits.learns_from != "nothing"
        self._vectors = vectors
        self._read_pairs = PairReader(vectors)
        self._read_points = PointReader(getattr(learner, "n_features_in_", None), labelled=self._needs_labels)

    def __call__(self, table: Table) -> Pairs | Points:
        if holds_pairs(table):
            return self._read_pairs(table)
        if self._vectors is not None:
            raise table.lacks("the columns id_a, id_b and similar for the file of vectors given")
        points = self._read_points(table)
        if points.y is None and self._needs_labels:
            raise InvalidInput(
                f"{table.source}: expected pairs (a column similar), or a label for each vector "
                f"(a column label; for an npy, --labels), got neither."
            )
        return points


class Lesson:
    """Learns blocks and counts pairs over the learner's whole life; a pair is two points, however they came.

    Blocks are cut at 1, 2, 4, 8, ... pairs, which changes nothing: any split gives the same bytes.
    """

    def __init__(self, learner: Learner, limit: int | None = None) -> None:
        self._learner = learner
        self._first = self._points = _taken_before(learner)
        self._end = math.inf if limit is None else self._points + 2 * limit
        self._counters = self._read_counters()

    @property
    def n_pairs(self) -> int:
        """Pairs taken in, be they learned or still kept back for the feature map's anchors."""
        return self._points // 2

    @property
    def is_empty(self) -> bool:
        return self._points == self._first

    @property
    def is_over(self) -> bool:
        return self._points >= self._end

    def take(self, block: Pairs | Points) -> Iterator[dict[str, Any]]:
        """Learn a block; a row for each power of two that is reached on the way."""
        learn, points_a_row = (
            (self._learner.partial_fit_pairs, 2) if isinstance(block, Pairs) else (self._learner.partial_fit, 1)
        )
        start = 0
        while start < len(block[0]) and not self.is_over:
            mark = 2 ** self.n_pairs.bit_length()  # the next power of two
            stop = start + math.ceil((min(2 * mark, self._end) - self._points) / points_a_row)
            stop = min(stop, len(block[0]))
            learn(*(None if values is None else values[start:stop] for values in block))
            self._points += points_a_row * (stop - start)
            start = stop
            if self.n_pairs == mark:
                yield self.row()

    def row(self) -> dict[str, Any]:
        """What the pairs since the row before did; `cumulative_loss` is over all of them."""
        before, self._counters = self._counters, self._read_counters()
        learned, loss, updates, bits = (now - then for now, then in zip(self._counters, before, strict=True))
        return {
            "pairs": self.n_pairs,
            "pending": pairs_kept_back(self._learner),
            "loss": loss / max(learned, 1),
            "update_rate": updates / max(learned, 1),
            "bits_moved": bits,
            "cumulative_loss": self._counters[1],
        }

    def _read_counters(self) -> tuple[float, ...]:
        names = ("n_pairs_seen_", "cumulative_loss_", "n_updates_", "n_bits_moved_")
        return tuple(getattr(self._learner, name, 0) for name in names)


def _taken_before(learner: Learner) -> int:
    """Points in a resumed learner: two for each pair, and a labelled one that may wait for its partner."""
    state = learner.get_state()
    if not state:
        return 0
    return 2 * (learner.n_pairs_seen_ + pairs_kept_back(learner)) + (state["pairing"]["waiting"] is not None)
