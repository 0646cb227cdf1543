"""Memory that large bodies took goes back to the system.

glibc keeps what lies below or between pieces that are still in use: after some hundred large bodies, that was a third
of all memory of a process.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any


def trim() -> bool:
    """Give the pages of free pieces back, which takes some milliseconds; False where there is nothing to do so."""
    give_back = _malloc_trim()
    return give_back is not None and bool(give_back(0))


@cache
def _malloc_trim() -> Any:
    try:
        return ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):  # another system, or another C library
        return None
