"""What a refresh policy is, what it may look at, and how it keeps from looking too often."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from onlinehash import checks
from onlinehash.learners.base import Learner
from onlinehash.learners.encoder import Encoder

#: A look costs about half a millisecond: once in so many changes that is nothing, and no drift goes unseen for long.
MOST_CHANGES = 256


class Policy(Protocol):
    """What an index asks after calls through which its learner may have changed, one at a time.

    It is asked only while the learner's version is not that of the stored codes.
    """

    def due(self, index: Any) -> bool:
        """Should the codes be refreshed now?"""


#: What is asked of a policy that somebody gives; None is the default, or the one that is stored.
IS_POLICY: checks.Rule = (
    "a policy with a method due(index), such as refresh.every(50)",
    lambda policy: policy is None or (callable(getattr(policy, "due", 0)) and not isinstance(policy, type)),
)


class Watched(Protocol):
    """What a policy may look at: a live index, as far as it concerns policies."""

    def __len__(self) -> int: ...

    def clock(self) -> float:
        """Seconds, never falling."""

    @property
    def learner(self) -> Learner: ...

    @property
    def encoder(self) -> Encoder:
        """The one that made the stored codes."""

    @property
    def newest(self) -> Encoder:
        """The learner's functions as they are now; costs a copy of them."""

    @property
    def behind(self) -> Any:
        """`bits`, the columns whose functions changed since the encoder, and `pairs` learned since; costs `newest`."""

    @property
    def pairs_behind(self) -> int:
        """Pairs learned since the encoder; costs nothing."""

    @property
    def sample(self) -> np.ndarray:
        """Some of the stored vectors, drawn at random."""

    @property
    def recent_pairs(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Some of the learned pairs, drawn at random: A, B, similar."""


class Pause:
    """Looking costs far more than learning a pair, so it is done now and then, by the number of changes.

    That is how far the learner's version is beyond the encoder's: pairs that moved a function count, points that moved
    the mean too, and pairs that taught nothing do not. A new encoder is looked at once. Each change of a chunk learner
    is that of many pairs, which took longer to learn than a look takes, so there is no pause.
    """

    def __init__(self) -> None:
        self._encoder: Encoder | None = None
        self._since = self._until = 0

    def is_over(self, index: Watched) -> bool:
        """Is it time to look?"""
        if index.encoder is not self._encoder:
            self._encoder, self._since, self._until = index.encoder, 0, 0
        if index.learner.traits.unit == "chunk":
            return True
        return not self._since <= changes(index) < self._until  # fewer changes: the learner began anew

    def begin(self, index: Watched, wait: float) -> None:
        """Wait for so many changes; at least an eighth of those so far, and at most MOST_CHANGES."""
        self._since = changes(index)
        self._until = self._since + min(max(1, self._since // 8, int(wait)), MOST_CHANGES)


def changes(index: Watched) -> int:
    """Changes of the learner since the stored codes; costs nothing."""
    return index.learner.version_ - index.encoder.version


class Deferral:
    """What it would have cost to refresh after every single change since the stored codes, in columns.

    A refresh that comes later pays for a column once, however often it changed. A chunk learner puts its changes
    together itself and shows few of them: each pair or point that it learned counts for a column, so that its changes
    become affordable too.
    """

    def __init__(self) -> None:
        self._encoder: Encoder | None = None
        self._columns = 0
        self._counted = (0, 0, 0, 0)

    def columns(self, index: Watched) -> int:
        """The columns that would have been computed by now; to be asked after every change."""
        if index.encoder is not self._encoder:
            self._encoder, self._columns = index.encoder, 0
        learner, n_columns = index.learner, index.encoder.n_columns
        rows = learner.n_pairs_seen_ if learner.traits.learns_from == "pairs" else learner.n_points_seen_
        counted = learner.version_, learner.n_updates_, learner.n_bits_moved_, rows
        if counted < self._counted:  # it began anew
            self._counted = (0, 0, 0, 0)
        changes, steps, moved, rows = (now - before for now, before in zip(counted, self._counted, strict=True))
        self._columns += moved + n_columns * (changes - steps)  # what is no step is the mean, which moves all of them
        self._columns += rows if learner.traits.unit == "chunk" else 0
        self._counted = counted
        return self._columns
