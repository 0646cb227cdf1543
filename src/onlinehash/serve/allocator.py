"""Memory that large bodies took goes back to the system.

glibc keeps what lies below or between pieces that are still in use: after some hundred large bodies, that was a third
of all memory of a process. So a service asks it to keep less: large pieces are the system's own from the beginning,
threads share their heaps, and what is free in these is given back now and then.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

#: Numbers of glibc's settings.
_LARGE, _TOP, _N_HEAPS = -3, -1, -8
#: Bytes of a piece that gets pages of its own, which go back as soon as it is freed. Without this, glibc raises the
#: bound to the largest piece that was ever freed, up to 32 MB.
LARGE = 1 << 20
#: Bytes that stay at the end of a heap when they are free. With the 128 KB that setting the bound above leaves, pages
#: were given back and fetched again hundreds of times in one search.
TOP = 16 << 20
#: Heaps of all threads together; glibc has eight for each core. Python's own lock leaves little to do for more.
N_HEAPS = 2


def keep_little() -> bool:
    """Let the allocator of this process keep little of what is freed; False where there is no way to tell it."""
    set_option = _of_c_library("mallopt")
    return set_option is not None and all(
        set_option(option, value) for option, value in ((_LARGE, LARGE), (_TOP, TOP), (_N_HEAPS, N_HEAPS))
    )


def trim() -> bool:
    """Give the pages of free pieces back, which takes some milliseconds; False where there is nothing to do so."""
    give_back = _of_c_library("malloc_trim")
    return give_back is not None and bool(give_back(0))


@cache
def _of_c_library(name: str) -> Callable[..., int] | None:
    """A function of glibc; None on another system, or with another C library."""
    library = ctypes.CDLL(None)
    found: Callable[..., int] | None = getattr(library, name, None) if hasattr(library, "malloc_trim") else None
    return found
