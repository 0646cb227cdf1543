"""Delays Ctrl-C for a moment."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

#: Whether a handler was installed by other means than Python's. It cannot be put back, so it stays where it is; one of
#: Python's never becomes such.
_IS_FOREIGN = signal.getsignal(signal.SIGINT) is None


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Delay Ctrl-C until the block is done: on the disk and in memory, or in neither.

    Python interrupts the main thread only, between any two of its steps.
    """
    if _IS_FOREIGN or threading.current_thread() is not threading.main_thread():
        yield
        return
    caught: list[tuple[int, Any]] = []
    handler = signal.signal(signal.SIGINT, lambda number, frame: caught.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if caught and callable(handler):
            handler(*caught[-1])
        elif caught:
            signal.raise_signal(signal.SIGINT)  # which ends the process, or is ignored
