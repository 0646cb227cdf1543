"""The services of one index: which of them to ask next, and which to leave alone for a while."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Sequence

#: Seconds for which a replica is left alone after it failed, twice as long after each further failure, and at most.
FIRST_BREAK, LONGEST_BREAK = 0.5, 30.0
#: Seconds for which one call has a replica that was silent to itself, to try whether it answers again.
TRIAL_SECONDS = 5.0


class Replica:
    """One service; any number of threads may tell how it did."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.rests_until = 0.0
        self.was_silent = False  # it gave no answer, not even a refusal, and has given none since
        self._lock, self._failures, self._break_ends = threading.Lock(), 0, 0.0

    def works(self, rest: float = 0.0) -> None:
        """It has answered, or asks to be left alone for some seconds because it is busy or behind."""
        with self._lock:
            if rest or self._failures:  # otherwise it may rest because it asked another call for it
                self.rests_until = time.monotonic() + rest
            self.was_silent, self._failures, self._break_ends = False, 0, 0.0

    def fails(self, began: float, wait: float = 0.0, is_silent: bool = True) -> None:
        """A request of that time has failed: without an answer, or with one that asks for a pause of some seconds."""
        with self._lock:
            now = time.monotonic()
            # Many requests fail at once when a replica goes away. They are one failure: each one that counted would
            # double the break, and the replica would be left alone long after it is back.
            if began < self._break_ends:
                self.rests_until = max(self.rests_until, now + wait)
                return
            pause = random.uniform(0.5, 1.0) * min(FIRST_BREAK * 2**self._failures, LONGEST_BREAK)
            self._failures, self.was_silent = min(self._failures + 1, 10), is_silent
            self._break_ends = self.rests_until = now + max(pause, wait)

    def begin_trial(self) -> bool:
        """Whether the caller should try if it answers again; other calls leave it alone meanwhile."""
        with self._lock:
            now = time.monotonic()
            if not self.was_silent or self.rests_until > now:
                return False
            self.rests_until = now + TRIAL_SECONDS  # not for ever: the call may be cancelled
            return True


class Replicas:
    """Services that answer alike. Calls are spread over those that work."""

    def __init__(self, urls: Sequence[str]) -> None:
        self._all = [Replica(url) for url in urls]
        self._turns = itertools.count(random.randrange(len(urls)))  # many clients do not all begin with the first

    def in_turn(self) -> list[Replica]:
        """Those that work, each time beginning with another one, and before them at most one that is on trial.

        If none works, all: those that answered first, the soonest to return first.
        """
        now = time.monotonic()
        working = [replica for replica in self._all if replica.rests_until <= now and not replica.was_silent]
        if not working:
            return sorted(self._all, key=lambda replica: (replica.was_silent, replica.rests_until))
        on_trial = next((replica for replica in self._all if replica.begin_trial()), None)
        first = next(self._turns) % len(working)
        return ([on_trial] if on_trial else []) + working[first:] + working[:first]

    def __len__(self) -> int:
        return len(self._all)

    def __str__(self) -> str:
        return " or ".join(replica.url for replica in self._all)
