"""The services of one index: which of them to ask next, and which to leave alone for a while."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Sequence

#: Seconds for which a replica is left alone after it failed, twice as long after each further failure, and at most.
FIRST_BREAK, LONGEST_BREAK = 0.5, 30.0


class Replica:
    """One service; any number of threads may tell how it did."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.rests_until = 0.0
        self._failures = 0

    def works(self) -> None:
        """It has answered."""
        self._failures, self.rests_until = 0, 0.0

    def fails(self, wait: float = 0.0) -> None:
        """It has not answered, or asks to be left alone for some seconds."""
        pause = random.uniform(0.5, 1.0) * min(FIRST_BREAK * 2**self._failures, LONGEST_BREAK)
        self._failures = min(self._failures + 1, 10)
        self.rests_until = time.monotonic() + max(pause, wait)


class Replicas:
    """Services that answer alike. Calls are spread over those that work."""

    def __init__(self, urls: Sequence[str]) -> None:
        self._all = [Replica(url) for url in urls]
        self._turns = itertools.count(random.randrange(len(urls)))  # many clients do not all begin with the first

    def in_turn(self) -> list[Replica]:
        """Those that work, each time beginning with another one; if none does, all, the soonest to return first."""
        now = time.monotonic()
        working = [replica for replica in self._all if replica.rests_until <= now]
        if not working:
            return sorted(self._all, key=lambda replica: replica.rests_until)
        first = next(self._turns) % len(working)
        return working[first:] + working[:first]

    def __str__(self) -> str:
        return " or ".join(replica.url for replica in self._all)
