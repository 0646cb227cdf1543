"""Memory that large bodies took goes back to the system.

glibc keeps what lies below or between pieces that are still in use: after some hundred large bodies, that was a third
of all memory of a process. So a service asks it to keep less: large pieces are the system's own from the beginning,
threads share their heaps, and what is free in these is given back now and then.
"""

from __future__ import annotations

import ctypes
from functools import cache

#: Numbers of glibc's settings.
_LARGE, _N_HEAPS = -3, -8
#: Bytes of a piece that gets pages of its own, which go back as soon as it is freed. Without this, glibc raises the
#: bound to the largest piece that was ever freed, up to 32 MB.
LARGE = 1 << 20
#: Heaps of all threads together; glibc has eight for each core. Python's own lock leaves little to do for more.
N_HEAPS = 2


def keep_little() -> bool:
    """Let the allocator of this process keep little of what is freed; False where there is no way to tell it."""
    set_option = _of_c_library("mallopt")
    return set_option is not None and bool(set_option(_LARGE, LARGE) and set_option(_N_HEAPS, N_HEAPS))


def trim() -> bool:
    """Give the pages of free pieces back, which takes some milliseconds; False where there is nothing to do so."""
    give_back = _of_c_library("malloc_trim")
    return give_back is not None and bool(give_back(0))


@cache
def _of_c_library(name: str) -> ctypes._NamedFuncPointer | None:
    """A function of glibc; None on another system, or with another C library."""
    library = ctypes.CDLL(None)
    return getattr(library, name) if hasattr(library, "malloc_trim") and hasattr(library, name) else None
