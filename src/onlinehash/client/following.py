"""How a remote index follows its learner: refreshes, by the service's policy or when asked for, and back again."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from onlinehash.client.searching import Searching
from onlinehash.live.follower import Behind

#: Seconds between two looks at a refresh that goes on.
LOOK_EVERY = 0.05


class Version(NamedTuple):
    """An encoder that the service keeps: its number among them, the pairs it was learned from, and its version."""

    serial: int
    n_pairs: int
    version: int


class RemoteRefresh:
    """A refresh that goes on in the service."""

    def __init__(self, index: Following, before: tuple[int, int]) -> None:
        self._index, self._before = index, before
        self._cancelled = False

    @property
    def done(self) -> bool:
        """Is it over, one way or another?"""
        return self._cancelled or self._finished

    @property
    def _finished(self) -> bool:
        return self._index._refreshed_so_far() != self._before

    def cancel(self) -> None:
        """Stop it, as if it had never begun."""
        self._index.cancel()
        self._cancelled = True

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end; True if the new codes are there, False if it was cancelled or still runs.

        Without a timeout of its own this waits as long as any call of the connection.
        """
        longest = self._index._connection.timeout
        end = time.monotonic() + (longest if timeout is None else min(timeout, longest))
        while not (finished := self._finished) and not self._cancelled and time.monotonic() < end:
            time.sleep(LOOK_EVERY)
        return finished


class Following(Searching):
    """Codes and encoder, as the service replaces them."""

    def refresh(self, wait: bool = True) -> RemoteRefresh | None:
        """Let the codes be the learner's: only the columns of hash functions that changed are computed anew.

        Searches go on meanwhile. With `wait=False` so does everything else, and what is returned can be waited for and
        cancelled. A refresh that is already under way is cancelled first. Ends the pause after a `roll_back`.
        """
        before = self._refreshed_so_far()
        self._connection.change("POST", "/v1/refresh", {"wait": bool(wait)})
        return None if wait else RemoteRefresh(self, before)

    def _refreshed_so_far(self) -> tuple[int, int]:
        stats = self._stats
        return int(stats["refreshes"]), int(stats["serial"])

    def cancel(self) -> None:
        """Stop a refresh that is under way in the background, as if it had never begun."""
        self._connection.change("POST", "/v1/refresh/cancel", {})

    def roll_back(self, serial: int | None = None) -> None:
        """Return to an older encoder: the one before the present, or the one of this serial in `versions`.

        The learner keeps what it learned, and no policy refreshes again before `refresh` is called.
        """
        if serial is None:  # by its number, so that it does no harm if the request arrives twice
            model = self._model
            serial = max((v["serial"] for v in model["versions"] if v["serial"] < model["serial"]), default=None)
        self._connection.change("POST", "/v1/rollback", {"serial": serial})

    @property
    def versions(self) -> list[Version]:
        """The encoders that are kept, oldest first; they stay with the service."""
        return [Version(v["serial"], v["n_pairs"], v["version"]) for v in self._model["versions"]]

    # ------------------------------------------------------------------------------------------------ counted

    @property
    def _stats(self) -> dict[str, Any]:
        stats: dict[str, Any] = self._connection.get("/v1/stats")
        return stats

    @property
    def behind(self) -> Behind:
        """How far the codes are behind the learner."""
        behind = self._stats["behind"]
        return Behind(behind["bits"], behind["pairs"])

    @property
    def pairs_behind(self) -> int:
        """Pairs learned since the encoder of the codes."""
        return self.behind.pairs

    @property
    def serial(self) -> int:
        """The number of the present encoder among all that ever were; 0 if there is none yet."""
        return int(self._stats["serial"])

    @property
    def refreshes(self) -> int:
        """Refreshes so far."""
        return int(self._stats["refreshes"])

    @property
    def bits_rehashed(self) -> int:
        """Bits of items whose function had changed, over all refreshes."""
        return int(self._stats["bits_rehashed"])

    @property
    def bits_skipped(self) -> int:
        """Those of `bits_rehashed` that margins proved to be as they were, so that they were not computed."""
        return int(self._stats["bits_skipped"])

    @property
    def bits_flipped(self) -> int:
        """Those of `bits_rehashed` that came out otherwise."""
        return int(self._stats["bits_flipped"])
