"""Keeps a reader's index up to date."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from onlinehash.serve import logs

if TYPE_CHECKING:
    from onlinehash.serve.service import Service

#: Seconds between two looks at the disk.
PAUSE = 0.1


class Follower:
    """Follows the writer of the same index, in a thread of its own."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._stop = threading.Event()
        self._known: float | None = None  # when it began to read what it read last
        self._thread = threading.Thread(target=self._run, name="onlinehash-follower", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._known = time.monotonic()
        self._thread.start()

    @property
    def lag(self) -> float:
        """Seconds since all that the writer had written was known here, also while that is being read."""
        return 0.0 if self._known is None else time.monotonic() - self._known

    def stop(self) -> None:
        """End."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(PAUSE):
            begun = time.monotonic()
            try:
                self._service.index.reload()
                self._known = begun
            except Exception:
                logs.service.exception("reloading the index failed")
