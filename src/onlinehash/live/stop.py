"""When the work of a thread must stop, known to whatever waits for it deep inside, such as a statement of a database.

A service answers a read within a time, or not at all. Who works on it asks now and then whether to go on; who waits for
somebody else cannot, unless it knows whom to ask. Work that serves others too is done to its end all the same.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

#: Raises when it is time to stop.
Check = Callable[[], None]


class _OfThread(threading.local):
    check: Check | None = None


_now = _OfThread()


@contextmanager
def stopped_by(check: Check | None) -> Iterator[None]:
    """What this thread does inside is to be stopped as soon as `check` raises; never, if there is none."""
    before, _now.check = _now.check, check
    try:
        yield
    finally:
        _now.check = before


def to_its_end() -> AbstractContextManager[None]:
    """What this thread does inside is done to its end: others need it, too, or half of it would be lost."""
    return stopped_by(None)


def reason() -> Exception | None:
    """Why this thread should stop now, if it should."""
    if _now.check is None:
        return None
    try:
        _now.check()
    except Exception as error:
        return error
    return None
