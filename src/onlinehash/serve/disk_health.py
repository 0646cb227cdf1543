"""Whether changes can be stored: a disk that is full or fails is logged, and the service is not ready for a while."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from onlinehash.errors import StorageError
from onlinehash.serve import logs

#: Seconds for which a failure is remembered. Nobody sends changes to a service that is not ready, so that none would
#: ever show that there is room again.
REMEMBERED = 30.0


class DiskHealth:
    """Whether the last changes could be stored."""

    def __init__(self) -> None:
        self._failed_at: float | None = None

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Make a change, and note whether it could be stored."""
        try:
            yield
        except StorageError as error:
            self._failed_at = time.monotonic()
            logs.service.error("a change could not be stored", extra={"fields": {"reason": str(error)}})
            raise
        self._failed_at = None

    @property
    def is_failing(self) -> bool:
        """Whether the last change could not be stored, a moment ago."""
        return self._failed_at is not None and time.monotonic() - self._failed_at < REMEMBERED
