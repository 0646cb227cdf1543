"""`SimulatedTeacher`: knows the labels of items and teaches pairs of them, at an adjustable rate."""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import ArrayLike

from onlinehash import checks
from onlinehash.errors import InvalidInput, UnknownId
from onlinehash.index.api import Id, VectorIndex
from onlinehash.serve import logs
from onlinehash.serve.changes import Changes
from onlinehash.serve.errors import Busy
from onlinehash.serve.events import Events
from onlinehash.serve.observers import BackgroundObserver

MOST_PER_SECOND = 2_000

#: Pairs due within this time are taught together; time between two events; pairs drawn at a time.
SECONDS_BETWEEN = 0.05
SECONDS_BETWEEN_EVENTS = 1.0
BLOCK = 1_024


class LabelledPairs:
    """An endless sequence of pairs of items, half of them similar, determined by the seed."""

    def __init__(self, ids: ArrayLike, y: ArrayLike, seed: int) -> None:
        self._ids = np.array(ids, object)
        labels = checks.labels(y, len(self._ids))
        if len(labels) < 2:
            raise InvalidInput(expected="at least two items to teach with", got=f"{len(labels)}")
        order = np.argsort(labels, kind="stable")
        self._ids, labels = self._ids[order], labels[order]  # a class is a run of places
        _, first, which, sizes = np.unique(labels, return_index=True, return_inverse=True, return_counts=True)
        self._first, self._size = first[which], sizes[which]
        self._rng = np.random.default_rng(seed)
        self._drawn = self._draw()
        self._at = 0

    def next(self, n: int) -> tuple[list[Id], list[Id], list[bool]]:
        """The next n pairs; calling it again returns the same ones until `take`."""
        while len(self._drawn[0]) - self._at < n:
            more = self._draw()
            self._drawn = tuple(
                np.concatenate([old[self._at :], new]) for old, new in zip(self._drawn, more, strict=True)
            )
            self._at = 0
        a, b, similar = (part[self._at : self._at + n].tolist() for part in self._drawn)
        return a, b, similar

    def take(self, n: int) -> None:
        """Move on by n pairs."""
        self._at += n

    def _draw(self) -> tuple[np.ndarray, ...]:
        n = len(self._ids)
        i, want = self._rng.integers(n, size=BLOCK), self._rng.random(BLOCK) < 0.5
        first, size = self._first[i], self._size[i]
        similar = (want & (size > 1)) | (size == n)  # where there is no such partner, the other kind
        own = first + (i - first + self._rng.integers(1, np.maximum(size, 2))) % size
        other = (first + size + self._rng.integers(np.maximum(n - size, 1))) % n
        return self._ids[i], self._ids[np.where(similar, own, other)], similar


class SimulatedTeacher(BackgroundObserver):
    """Teaches pairs of items by their labels.

    index, changes, events : the served index, where pairs are submitted, and where the state is sent.
    ids, y : the items and their labels.
    seed : of the random pairs.
    pairs_per_second : above 0, at most 2,000.

    `resume()` starts it and `pause()` pauses it; at first it is paused. If the writer is busy, it waits and loses no
    pair; removed items are no longer taught; an error pauses it.
    """

    def __init__(
        self,
        index: VectorIndex,
        changes: Changes,
        events: Events,
        ids: ArrayLike,
        y: ArrayLike,
        seed: int,
        pairs_per_second: float,
    ) -> None:
        super().__init__()
        self._index, self._changes, self._events = index, changes, events
        names = np.array(ids, object)
        self._known = names, checks.labels(y, len(names)), seed
        self._pairs = LabelledPairs(*self._known)
        self._rate = _checked(pairs_per_second)
        self._running = False
        self._n_pairs = 0
        self._next_at = self._sent_at = 0.0

    def state(self) -> dict[str, object]:
        """Whether it is teaching, how fast, and how many pairs it has taught."""
        return {"running": self._running, "pairs_per_second": self._rate, "n_pairs": self._n_pairs}

    def resume(self) -> None:
        """Teach from now on, if the service has started it."""
        self._set(running=True)

    def pause(self) -> None:
        """Wait for the next `resume`."""
        self._set(running=False)

    def set_rate(self, pairs_per_second: float) -> None:
        """Go faster or slower."""
        self._set(rate=_checked(pairs_per_second))

    def stop(self) -> None:
        """Stop teaching for good."""
        self.pause()
        super().stop()

    def _set(self, running: bool | None = None, rate: float | None = None) -> None:
        with self._changed:
            before = self._running, self._rate
            self._running = (self._running if running is None else running) and not self._stopping
            self._rate = self._rate if rate is None else rate
            is_other = (self._running, self._rate) != before
            if is_other:
                self._next_at = 0.0  # start afresh, with nothing to catch up on
        if is_other:
            self._wake(at_once=True)
            self._send_state(time.monotonic())

    def _send_state(self, now: float) -> None:
        self._sent_at = now
        self._events.send("teacher", self.state())

    # ------------------------------------------------------------------------------------------------ teaching

    def _work(self) -> float:
        """Teach the pairs that are due; returns the seconds until the next are."""
        if not self._running:
            return 0.0
        now = time.monotonic()
        rate = self._rate
        n = max(1, round(rate * SECONDS_BETWEEN))
        wait = 0.0
        if now >= self._next_at:
            wait = self._teach(n)
            with self._changed:
                if rate == self._rate:
                    self._next_at = max((self._next_at or now) + n / rate, now)
        if self._running and time.monotonic() - self._sent_at >= SECONDS_BETWEEN_EVENTS:
            self._send_state(time.monotonic())
        if self._running:
            self._wake()
        return max(wait, min(self._next_at - time.monotonic(), SECONDS_BETWEEN_EVENTS))

    def _teach(self, n: int) -> float:
        """Teach the next n pairs; returns how long to wait if the writer is busy."""
        try:
            self._changes.learn_by_id(*self._pairs.next(n)).result()
        except Busy as busy:
            return float(busy.retry_after)
        except UnknownId:
            self._forget_removed()
        except Exception as error:  # shutting down, a full disk, a learner that does not learn from pairs
            logs.service.warning("the simulated teacher was paused by an error: %s", type(error).__name__)
            self.pause()
        else:
            self._pairs.take(n)
            self._n_pairs += n
        return 0.0

    def _forget_removed(self) -> None:
        ids, labels, seed = self._known
        here = np.array([id in self._index for id in ids.tolist()], np.bool_)
        self._known = ids[here], labels[here], seed + 1  # other pairs than those so far
        if np.count_nonzero(here) < 2:
            self.pause()
        else:
            self._pairs = LabelledPairs(*self._known)


def _checked(pairs_per_second: float) -> float:
    rules = {"pairs_per_second": checks.real(0, MOST_PER_SECOND, above=True)}
    checks.parameters("the teacher", {"pairs_per_second": pairs_per_second}, rules)
    return float(pairs_per_second)
