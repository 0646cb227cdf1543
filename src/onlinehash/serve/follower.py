"""A reader's index, brought up to date again and again."""

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
    """Reads what the writer of the same index has written, in a thread of its own."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="onlinehash-follower", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        known = time.monotonic()
        while not self._stop.wait(PAUSE):
            begun = time.monotonic()
            try:
                self._service.index.reload()
                known = begun
            except Exception:
                logs.service.exception("the index could not be read again")
            self._service.lag = time.monotonic() - known
