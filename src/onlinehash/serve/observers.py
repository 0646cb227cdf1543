"""Observers of a service: they are told of every change, and work on it in threads of their own."""

from __future__ import annotations

import threading
import time
from typing import Protocol

from numpy.typing import ArrayLike

from onlinehash.serve import logs


class Observer(Protocol):
    """Is told of every change, in the writer's thread; its methods must be fast and must not raise."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def added(self, ids: ArrayLike, X: ArrayLike) -> None:
        """Items were added."""

    def updated(self, ids: ArrayLike, X: ArrayLike | None) -> None:
        """Items were updated; X is None if only their payloads were."""

    def removed(self, ids: ArrayLike) -> None:
        """Items were removed."""

    def learned(self, A: ArrayLike, B: ArrayLike, similar: ArrayLike, weight: ArrayLike | None) -> None:
        """Pairs were learned."""

    def refreshed(self) -> None:
        """The index was refreshed."""


class BackgroundObserver:
    """An observer that ignores all changes, unless a subclass handles them, and works in its own thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._due = self._busy = self._stopping = False
        self._rested = 0.0  # the time from which it may work again
        self._thread: threading.Thread | None = None

    def _work(self) -> float:
        """Do what is due; returns for how many seconds to rest."""
        raise NotImplementedError

    def start(self) -> None:
        """Start working."""
        with self._changed:
            if self._thread is None and not self._stopping:
                name = f"onlinehash-{type(self).__name__.lower()}"
                self._thread = threading.Thread(target=self._run, name=name, daemon=True)
                self._thread.start()
        self._wake(at_once=True)

    def stop(self) -> None:
        """Finish the current work and stop."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    def settled(self, timeout: float) -> bool:
        """Wait until nothing is left to do; returns whether that happened in time."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._due and not self._busy, timeout)

    def _wake(self, at_once: bool = False) -> None:
        """There is something to do: after the rest, or at once."""
        with self._changed:
            self._due = True
            if at_once:
                self._rested = 0.0
            self._changed.notify_all()

    def _run(self) -> None:
        while self._is_next():
            rest = 0.0
            try:
                rest = self._work()
            except Exception:
                if not self._stopping:  # while the service closes, the index may be gone already
                    logs.service.exception("%s failed", type(self).__name__)
            with self._changed:
                self._busy, self._rested = False, time.monotonic() + rest
                self._changed.notify_all()

    def _is_next(self) -> bool:
        """Wait for something to do and the end of the rest; False if it is time to stop."""
        with self._changed:
            while not self._stopping:
                rest = self._rested - time.monotonic()
                if self._due and rest <= 0:
                    self._due, self._busy = False, True
                    return True
                self._changed.wait(rest if self._due else None)
            self._due = False
            self._changed.notify_all()
            return False

    def added(self, ids: ArrayLike, X: ArrayLike) -> None:
        """Ignore new items."""

    def updated(self, ids: ArrayLike, X: ArrayLike | None) -> None:
        """Ignore updated items."""

    def removed(self, ids: ArrayLike) -> None:
        """Ignore removed items."""

    def learned(self, A: ArrayLike, B: ArrayLike, similar: ArrayLike, weight: ArrayLike | None) -> None:
        """Ignore pairs."""

    def refreshed(self) -> None:
        """Ignore a refresh."""
